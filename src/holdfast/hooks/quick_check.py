"""The first look at an event: decide as cheaply as possible whether there is anything to do.

The event comes as JSON on standard input. Whatever happens, the exit code is 0: a fault of Holdfast
must not stop an agent. It leaves a line in ``hook.log`` beside the ledger.
"""

from __future__ import annotations

import os

from holdfast import __version__
from holdfast.core import json_text
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

PING = "HoldfastPing"
"""An event that no client has: whoever wants to know whether the hook answers sends it."""
MAX_BYTES = 64 * 1024 * 1024
_ALWAYS = ("SessionStart", "PreCompact", "SessionEnd", "PreCompress", "BeforeAgent")
_COMPACTIONS = ("PreCompact", "PreCompress")
_READS = ("Read", "read_file", "read_many_files", "NotebookRead")
_TOOLS = ("PostToolUse", "AfterTool")
_ENFORCED = ("Stop", "AfterAgent", "PreToolUse", "BeforeTool")
_ONE_FILE = ("file_path", "path", "absolute_path")
_SEVERAL_FILES = ("paths", "include")
_NOTES = ("CLAUDE.local.md", "CLAUDE/Plan")


def main() -> int:
    """Read one event, and answer it if there is something to say."""
    folder = ""
    try:
        event = _event(_read())
        folder = folder_of(event) if event else ""
        _print(_answer(event, folder))
    except BaseException as error:  # noqa: BLE001 - nothing that goes wrong here may stop an agent
        _log(folder, error)
    return 0


def _answer(event: Fields, folder: str) -> Fields | None:
    if event.get("hook_event_name") == PING:
        return {"holdfast": __version__}
    if not folder:
        return None
    workspace = find(folder)
    if not _may_matter(event, workspace):
        return None
    from holdfast.hooks.handlers import carry_out

    return carry_out(event, workspace.root)


def _read() -> bytes:
    pieces = []
    size = 0
    while size < MAX_BYTES and (piece := os.read(0, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _event(raw: bytes) -> Fields:
    try:
        found = json_text.loads(raw)
    except json_text.BadJson:
        return {}
    return found if isinstance(found, dict) else {}


def folder_of(event: Fields) -> str:
    """Return the folder that the client works in; empty when there is no such folder."""
    stated = event.get("cwd")
    folder = stated if isinstance(stated, str) and os.path.isabs(stated) else os.getcwd()
    return folder if "\0" not in folder and os.path.isdir(folder) else ""


def _may_matter(event: Fields, workspace: Workspace) -> bool:
    """True if an event may need an answer, as far as a few file names and one query tell."""
    if event.get("agent_id"):
        # A sub-agent reads, compacts and stops for itself; its context is not the one that is kept.
        return False
    name = event.get("hook_event_name")
    if name in _ALWAYS:
        has_notes = name in _COMPACTIONS and _has_notes(workspace)
        has_ledger = workspace.has_ledger() or workspace.has_old_ledger()
        return has_ledger or workspace.has_records() or has_notes
    if name in _TOOLS:
        is_read = event.get("tool_name") in _READS
        may_matter = is_read and os.path.lexists(workspace.unread_mark)
        return may_matter and _is_required(event, workspace)
    if name not in _ENFORCED or not (workspace.has_ledger() and workspace.has_settings()):
        return False
    from holdfast.workspace.settings import may_enforce

    return may_enforce(workspace.root)


def _has_notes(workspace: Workspace) -> bool:
    return any(os.path.lexists(os.path.join(workspace.root, name)) for name in _NOTES)


def paths_read(given: object) -> list[str]:
    """Return the files that a tool was asked to read, in the words of each client."""
    if not isinstance(given, dict):
        return []
    told = [given.get(key) for key in _ONE_FILE]
    for key in _SEVERAL_FILES:
        listed = given.get(key)
        told += listed if isinstance(listed, list) else []
    texts = [path for path in told if isinstance(path, str) and path]
    return [path for path in texts if "\0" not in path and json_text.is_encodable(path)]


def _is_required(event: Fields, workspace: Workspace) -> bool:
    """True if an active workflow requires a file with the name of one that was read."""
    paths = paths_read(event.get("tool_input"))
    names = {os.path.basename(way) for path in paths for way in (path, os.path.realpath(path))}
    if not names:
        return False
    from holdfast.storage.ledger import Ledger
    from holdfast.system.disk import Disk

    unread = Ledger(workspace.home, Disk(), 0).unread()
    return any(os.path.basename(path) in names for path in unread)


def _print(answer: Fields | None) -> None:
    """Write to the client directly: a buffer that cannot be flushed would change the exit code."""
    left = (json_text.dumps(answer) + "\n").encode() if answer else b""
    while left:
        left = left[os.write(1, left) :]


def _log(folder: str, error: BaseException) -> None:
    """Add a line to the log; where there is no ledger, make nothing."""
    from holdfast.hooks.log import write_in

    if folder:
        write_in(folder, error)
