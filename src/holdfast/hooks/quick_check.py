"""Decide as cheaply as possible whether an event needs an answer, before importing the keeper.

The event is JSON on standard input. The exit code is always 0: a fault of Holdfast must not stop an
agent. A fault adds a line to ``hook.log`` beside the ledger, which is at most two files.
"""

from __future__ import annotations

import os
import time

from holdfast import __version__
from holdfast.core import json_text
from holdfast.errors import HoldfastError
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

PING = "HoldfastPing"
"""An event that ``holdfast doctor`` sends; the answer is the version."""
MAX_EVENT_BYTES = 64 * 1024 * 1024
_SESSION_EVENTS = ("SessionStart", "PreCompact", "SessionEnd", "PreCompress", "BeforeAgent")
_COMPACTIONS = ("PreCompact", "PreCompress")
_READ_TOOLS = ("Read", "read_file", "read_many_files", "NotebookRead")
_TOOL_EVENTS = ("PostToolUse", "AfterTool")
_ENFORCING = ("Stop", "AfterAgent", "PreToolUse", "BeforeTool")
_PATH_KEYS = ("file_path", "path", "absolute_path")
_PATH_LIST_KEYS = ("paths", "include")
_LOG = "hook.log"
_MAX_LOG_BYTES = 256 * 1024
_MAX_MESSAGE = 500


def main() -> int:
    """Read one event from standard input, and print the answer if there is one."""
    workspace = None
    try:
        event = _event(_read())
        if event.get("hook_event_name") == PING:
            _print({"holdfast": __version__})
        elif folder := folder_of(event):
            workspace = find(folder)
            if _may_matter(event, workspace):
                from holdfast.hooks.handlers import handle

                _print(handle(event, workspace.root))
    except BaseException as error:  # noqa: BLE001 - nothing that goes wrong here may stop an agent
        if workspace is not None:
            log_fault(workspace, error)
    return 0


def _read() -> bytes:
    pieces = []
    size = 0
    while size < MAX_EVENT_BYTES and (piece := os.read(0, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _event(raw: bytes) -> Fields:
    """Return the event; an empty one if it is not a JSON object."""
    try:
        event = json_text.loads(raw)
    except json_text.BadJson:
        return {}
    return event if isinstance(event, dict) else {}


def folder_of(event: Fields) -> str:
    """Return the folder that the client works in; empty without an event or such a folder."""
    if not event:
        return ""
    cwd = event.get("cwd")
    folder = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else os.getcwd()
    return folder if "\0" not in folder and os.path.isdir(folder) else ""


def _may_matter(event: Fields, workspace: Workspace) -> bool:
    """Return True if an event may need an answer, judging by a few files and one query."""
    if event.get("agent_id"):
        # A sub-agent has a context of its own, which no workflow depends on.
        return False
    name = event.get("hook_event_name")
    if name in _SESSION_EVENTS:
        has_notes = name in _COMPACTIONS and workspace.has_notes()
        has_ledger = workspace.has_ledger() or workspace.has_old_ledger()
        return has_ledger or workspace.has_records() or has_notes
    if name in _TOOL_EVENTS:
        has_unread = event.get("tool_name") in _READ_TOOLS and os.path.lexists(
            workspace.unread_mark
        )
        return has_unread and _is_required(event, workspace)
    if name not in _ENFORCING or not (workspace.has_ledger() and workspace.has_settings()):
        return False
    from holdfast.workspace.settings import may_enforce

    return may_enforce(workspace.root)


def paths_read(tool_input: object) -> list[str]:
    """Return the files that a tool was asked to read, by the field names of all clients."""
    if not isinstance(tool_input, dict):
        return []
    values = [tool_input.get(key) for key in _PATH_KEYS]
    for key in _PATH_LIST_KEYS:
        paths = tool_input.get(key)
        values += paths if isinstance(paths, list) else []
    texts = [value for value in values if isinstance(value, str) and value]
    return [path for path in texts if "\0" not in path and json_text.is_encodable(path)]


def _is_required(event: Fields, workspace: Workspace) -> bool:
    """Return True if a workflow requires a file with the name of one that was read."""
    paths = paths_read(event.get("tool_input"))
    names = {os.path.basename(name) for path in paths for name in (path, os.path.realpath(path))}
    if not names:
        return False
    from holdfast.storage.ledger import Ledger
    from holdfast.system.disk import Disk

    unread = Ledger(workspace.home, Disk(), 0).unread()
    return any(os.path.basename(path) in names for path in unread)


def _print(answer: Fields | None) -> None:
    """Write the answer unbuffered: a buffer that cannot be flushed would change the exit code."""
    unwritten = (json_text.dumps(answer) + "\n").encode() if answer else b""
    while unwritten:
        unwritten = unwritten[os.write(1, unwritten) :]


def log_fault(workspace: Workspace, error: BaseException) -> None:
    """Add time, type, message and source line of an error to the log.

    Do nothing if there is no ledger, or if that fails.
    """
    if not os.path.isdir(workspace.home):
        return
    from holdfast.core.time import iso
    from holdfast.system.disk import Disk

    at = iso(time.time_ns() // 1_000_000)
    line = f"{at} {type(error).__name__}: {' '.join(str(error).split())[:_MAX_MESSAGE]}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)
        line += f" ({name}:{trace.tb_lineno})"
    path = os.path.join(workspace.home, _LOG)
    disk = Disk()
    try:
        workspace.check_links(workspace.home)
        if os.path.exists(path) and os.path.getsize(path) > _MAX_LOG_BYTES:
            disk.move(path, f"{path}.1")
        disk.extend(path, f"{line}\n".encode(errors="replace"), is_own=True)
    except (HoldfastError, OSError):
        return
