"""Decide as cheaply as possible whether an event needs an answer, before importing the keeper.

The event is JSON on standard input. The exit code is always 0: a fault of Holdfast must not stop an
agent. A fault adds a line to ``hook.log`` beside the ledger, which is at most two files. A hook
that is not done within its time limit answers what it has decided so far, and ends (``TimeLimit``).
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread

from holdfast import __version__
from holdfast.core import json_text
from holdfast.errors import HoldfastError
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

PING = "HoldfastPing"
"""An event that ``holdfast doctor`` sends; the answer is the version."""
MAX_EVENT_BYTES = 16 * 1024 * 1024
_SESSION_EVENTS = ("SessionStart", "PreCompact", "SessionEnd", "PreCompress", "BeforeAgent")
_COMPACTIONS = ("PreCompact", "PreCompress")
_READ_TOOLS = ("Read", "read_file", "read_many_files", "NotebookRead")
_TOOL_EVENTS = ("PostToolUse", "AfterTool")
_PROMPT = "UserPromptSubmit"
_ENFORCING = ("Stop", "AfterAgent", "PreToolUse", "BeforeTool")
_PATH_KEYS = ("file_path", "path", "absolute_path")
_PATH_LIST_KEYS = ("paths", "include")
_LOG = "hook.log"
_MAX_LOG_BYTES = 256 * 1024
_MAX_MESSAGE = 500
LIMIT_VARIABLE = "HOLDFAST_HOOK_MS"
_LIMIT_S = 1.7
"""The time that a hook may take after the interpreter has started, which leaves 0.3 s for that."""
_SESSION_END_SHARE = 0.7
"""Claude Code gives all hooks together 1.5 seconds when a session ends."""
_LOG_S = 0.1
_BRIEFING_EVENTS = ("SessionStart", "BeforeAgent")


def main() -> int:
    """Read one event from standard input, and print the answer if there is one.

    A hook that is not done in time answers what it has decided so far, and the process ends.
    """
    workspace = None
    limit = TimeLimit(_print)
    try:
        limit.event = event = parse_event(read_input())
        if event.get("hook_event_name") == PING:
            limit.answer({"holdfast": __version__})
        elif folder := folder_of(event):
            workspace = find(folder)
            limit.workspace = workspace
            if _may_matter(event, workspace):
                from holdfast.hooks.handlers import handle

                limit.answer(handle(event, workspace.root, limit.decided))
            if workspace.is_lease_due(session_of(event), time.time_ns() // 1_000_000):
                from holdfast.hooks.handlers import renew_leases

                renew_leases(event, workspace.root)
    except BaseException as error:  # noqa: BLE001 - nothing that goes wrong here may stop an agent
        if workspace is not None:
            log_fault(workspace, error)
    limit.end()
    return 0


def read_input() -> bytes:
    """Return what the client sends on standard input, of which a very long text only the start."""
    pieces = []
    size = 0
    while size < MAX_EVENT_BYTES and (piece := os.read(0, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def parse_event(raw: bytes) -> Fields:
    """Return the event; an empty one if it is not a JSON object."""
    try:
        json_text.check_count(raw)
        event = json_text.loads(raw)
    except json_text.BadJson:
        return {}
    return event if isinstance(event, dict) else {}


def session_of(event: Fields) -> str:
    """Return the session that an event belongs to; empty if the client does not tell."""
    session = event.get("session_id")
    is_told = isinstance(session, str) and session.isprintable() and session
    return str(session) if is_told else os.environ.get("CLAUDE_CODE_SESSION_ID", "")


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
        is_known = has_ledger or workspace.has_records() or has_notes
        is_start = name == "SessionStart"
        return is_known or (
            is_start and (_may_have_milestones(workspace) or _may_have_server(workspace))
        )
    if name in _TOOL_EVENTS and event.get("tool_name") in _READ_TOOLS:
        has_unread = os.path.lexists(workspace.unread_mark) and _is_required(event, workspace)
        return has_unread or workspace.waits_for_answers(session_of(event))
    if name == _PROMPT:
        return workspace.waits_for_answers(session_of(event))
    if name not in _ENFORCING or not (workspace.has_ledger() and workspace.has_settings()):
        return False
    from holdfast.workspace.settings import mentions

    return mentions(workspace.root, b"enforce")


def _may_have_milestones(workspace: Workspace) -> bool:
    """Return True if there is a folder of milestone pages, or the settings name another one."""
    if workspace.has_milestones() or not workspace.has_settings():
        return workspace.has_milestones()
    from holdfast.workspace.settings import mentions

    return mentions(workspace.root, b"milestones")


def _may_have_server(workspace: Workspace) -> bool:
    """Return True if a Memory server may still know what was here, because it keeps the graph."""
    named = os.environ.get("HOLDFAST_GRAPH")
    if named or not workspace.has_settings():
        return bool(named) and str(named).startswith("mcp:")
    from holdfast.workspace.settings import mentions

    return mentions(workspace.root, b"mcp:")


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
    """Return True if a workflow may require a file that was read."""
    folder = folder_of(event)
    files = [file_id(folder, path) for path in paths_read(event.get("tool_input"))]
    if not files or workspace.has_foreign_ledger():
        return False
    from holdfast.storage.ledger import Ledger
    from holdfast.system.disk import Disk

    root, unread = workspace.root, Ledger(workspace.home, Disk(), 0).unread()
    return any(file_id(root, path) in files for path in unread)


def file_id(folder: str, path: str) -> tuple[int, int] | str:
    """Return what identifies the file at a path, however the path is spelled.

    That is its device and number, or its path if there is no such file.
    """
    full = os.path.join(folder, path)
    try:
        stat = os.stat(full)
    except (OSError, ValueError):
        return os.path.abspath(full)
    return stat.st_dev, stat.st_ino


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
    line = f"{type(error).__name__}: {' '.join(str(error).split())[:_MAX_MESSAGE]}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)
        line += f" ({name}:{trace.tb_lineno})"
    _log(workspace, line)


def log_note(workspace: Workspace, note: str) -> None:
    """Add what a hook rejected, rebuilt or could not take in to the log; do nothing if that fails.

    There may be no ledger yet, if the first record was rejected.
    """
    _log(workspace, f"note: {' '.join(note.split())[:_MAX_MESSAGE]}")


def _log(workspace: Workspace, line: str) -> None:
    from holdfast.core.time import iso
    from holdfast.system.disk import Disk

    line = f"{iso(time.time_ns() // 1_000_000)} {line}"
    path = os.path.join(workspace.home, _LOG)
    disk = Disk()
    try:
        workspace.check_links(workspace.home)
        if not os.path.isdir(workspace.home):
            disk.make_folder(workspace.home, 0o700)
        if os.path.exists(path) and os.path.getsize(path) > _MAX_LOG_BYTES:
            disk.move(path, f"{path}.1")
        disk.extend(path, f"{line}\n".encode(errors="replace"), is_own=True)
    except (HoldfastError, OSError):
        return


def _limit_s() -> float:
    """Return the time limit of a hook in seconds, which a person can change for a slow machine."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    is_number = text.isascii() and text.isdigit() and 0 < len(text) < 8
    return int(text) / 1_000 if is_number else _LIMIT_S


class TimeLimit:
    """A thread that ends a hook at its limit, with a plain answer and exit code 0.

    It is as if the process was killed then: what was committed stays, all else did not happen, and
    the next command puts in place what is missing. A signal would not do: it does not end a read
    from a file system that does not answer, and its error would be raised in the middle of a
    commit. ``threading`` would cost every hook its import.
    """

    def __init__(self, write: Callable[[Fields | None], None]) -> None:
        self.event: Fields = {}
        """The event, as soon as it was read."""
        self.workspace: Workspace | None = None
        """The workspace, as soon as it is known."""
        self._write = write
        self._decided: Fields | None = None
        self._is_decided = False
        self._answering = allocate_lock()
        """Held by the thread that prints the answer."""
        self._running = allocate_lock()
        """Held while the hook runs."""
        self._running.acquire()
        self._hook = get_ident()
        start_new_thread(self._watch, ())

    def decided(self, answer: Fields | None) -> None:
        """Keep the answer that is printed if the rest takes too long."""
        self._decided, self._is_decided = answer, True

    def answer(self, answer: Fields | None) -> None:
        """Print the answer, unless the limit was reached at this moment."""
        if self._answering.acquire(blocking=False):
            self._write(answer)

    def end(self) -> None:
        """Stop watching."""
        self._running.release()

    def _watch(self) -> None:
        limit_s = _limit_s()
        if self._running.acquire(timeout=limit_s * _SESSION_END_SHARE):
            return
        is_session_end = self.event.get("hook_event_name") == "SessionEnd"
        rest_s = limit_s * (1 - _SESSION_END_SHARE)
        if not is_session_end and self._running.acquire(timeout=rest_s):
            return
        try:
            self.answer(self._decided if self._is_decided else self._plain_answer())
            self._note()
        finally:
            # Not sys.exit: it would end this thread only, and closing the ledger takes time.
            os._exit(0)

    def _plain_answer(self) -> Fields | None:
        """Return the answer of a hook that has decided nothing; ``None`` lets the agent go on."""
        name = self.event.get("hook_event_name")
        if name not in _BRIEFING_EVENTS:
            return None
        text = (
            "Holdfast: this session has no briefing, because reading the workflow took too long. "
            "Next: holdfast resume, and holdfast doctor to see why"
        )
        return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}

    def _note(self) -> None:
        """Log where the hook was. A disk that does not answer must not keep the process alive."""
        workspace = self.workspace
        if workspace is None:
            return
        frame = sys._current_frames().get(self._hook)  # noqa: SLF001 - the documented way
        where = "" if frame is None else f" in {frame.f_code.co_name}, line {frame.f_lineno}"
        error = TimeoutError(f"not done in time{where}")
        is_logged = allocate_lock()
        is_logged.acquire()

        def write() -> None:
            log_fault(workspace, error)
            is_logged.release()

        start_new_thread(write, ())
        is_logged.acquire(timeout=_LOG_S)
