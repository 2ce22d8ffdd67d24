"""Print one line for a client's status line, in about the time that an interpreter takes to start.

The client gives what it knows of its session as JSON on standard input, as Claude Code does:
``session_id``, ``workspace.current_dir`` or ``cwd``, ``context_window.used_percentage``. The exit
code is always 0: whatever goes wrong, the line is empty, and ``hook.log`` has the reason.

A status line that was there before is composed with ours: ``--after COMMAND`` runs that command as
the client would, and prints what it prints first. The command stands in the client's own settings,
in our command; Holdfast never reads one from anywhere else.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast import __version__
from holdfast.core.glance import Style, other_line, workflow_line
from holdfast.errors import HoldfastError
from holdfast.hooks.quick_check import (
    PING,
    TimeLimit,
    folder_of,
    log_fault,
    parse_event,
    read_input,
    session_of,
)
from holdfast.storage.quick_look import QuickLook
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import TextIO

    from holdfast.core.selection import Asker
    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

AFTER = "--after"
_USUAL_COLUMNS, _MIN_COLUMNS = 100, 20
_MARGIN = 4
"""The columns that Claude Code leaves free around a status line."""
_SHELL = "/bin/sh"


def main(words: list[str]) -> int:
    """Print the line; after it the one of the command that follows ``--after``, if there is one."""
    former: Popen[bytes] | None = None
    raw = b""

    def show(answer: Fields | None) -> None:
        before = _output_of(former, raw) if former is not None else b""
        line = (answer or {}).get("line", "")
        encoded = f"{line}\n".encode(_encoding(), errors="replace") if line else b""
        unwritten = before + encoded
        while unwritten:
            unwritten = unwritten[os.write(1, unwritten) :]

    limit = TimeLimit(show)
    line = ""
    try:
        is_client = not os.isatty(0)
        raw = read_input() if is_client else b""
        if words[:1] == [AFTER] and len(words) > 1:
            former = _start(words[1])
        line = _line(parse_event(raw), limit)
    except BaseException as error:  # noqa: BLE001 - nothing that goes wrong may disturb the client
        if limit.workspace is not None and not isinstance(error, HoldfastError):
            log_fault(limit.workspace, error)
    try:
        # The former command may take longer: the client alone decides how long it waits for it.
        limit.end()
        limit.answer({"line": line})
    except (OSError, ValueError):
        return 0  # Nobody reads it any more.
    return 0


def _line(event: Fields, limit: TimeLimit) -> str:
    if event.get("hook_event_name") == PING:
        return f"holdfast {__version__}"
    folder = _folder_of(event)
    if not folder:
        return ""
    workspace = limit.workspace = find(folder)
    if not workspace.has_ledger() or workspace.has_foreign_ledger():
        return ""
    style, used = _style(is_client=bool(event)), _context_of(event)
    session = session_of(event)
    look = QuickLook(workspace.home, session)
    row = look.own()
    if row is not None:
        return workflow_line(row, workspace.branch(), used, style)
    return _line_of_others(look, workspace, session, used, style)


def _line_of_others(
    look: QuickLook, workspace: Workspace, session: str, used: float | None, style: Style
) -> str:
    """Return the line of a session that has taken up nothing: of what it would work on.

    Empty if no workflow is active here.
    """
    from holdfast.core import selection
    from holdfast.core.refusal import Refusal
    from holdfast.storage import HERE, NEWEST
    from holdfast.system import kernel

    now_ms = time.time_ns() // 1_000_000
    if lost := look.lost():
        return other_line(f"the lease of {lost} ran out: holdfast resume", used, style, "warn")
    asker = _asker(session, workspace)
    owned = look.rows("session_pid = ?", asker.pid) if asker.pid is not None else []
    rows = (
        [row for row in owned if asker.owns(row)]
        or look.rows(f"{HERE} {NEWEST}", workspace.name, asker.branch)
        or look.rows(f"worktree = ? {NEWEST}", workspace.name)
    )
    rows = [row for row in rows if not selection.has_run_out(row, now_ms)]
    leases = look.leases(now_ms) if rows else {}
    live = selection.live_sessions(rows, leases, now_ms, kernel.is_running)
    picked = selection.choose(rows, asker, live)
    if not isinstance(picked, Refusal):
        return workflow_line(picked, asker.branch, used, style)
    if picked.code == "ambiguous":
        return other_line(f"{len(rows)} workflows here: holdfast resume ID", used, style)
    if picked.code in ("held", "other_branch"):
        newest = max(rows, key=lambda row: str(row["updated_at"]))
        if picked.code == "other_branch":
            return workflow_line(newest, asker.branch, used, style)
        return other_line(f"another session works on {newest['title']}", used, style)
    return ""


def _asker(session: str, workspace: Workspace) -> Asker:
    from holdfast.core.selection import Asker
    from holdfast.system import kernel
    from holdfast.workspace.environment import client_of

    number = os.environ.get("CLAUDE_PID", "")
    pid = int(number) if session and number.isascii() and number.isdigit() else None
    born = None if pid is None else kernel.birth(pid)
    is_person = not session and client_of(os.environ) is None
    return Asker(
        session or None, pid, born, workspace.name, workspace.branch(), is_person=is_person
    )


def _folder_of(event: Fields) -> str:
    """Return the folder that the client works in; this process's own if no client asks."""
    if not event:
        return os.getcwd()
    workspace = event.get("workspace")
    current = workspace.get("current_dir") if isinstance(workspace, dict) else None
    return folder_of({**event, "cwd": current or event.get("cwd")})


def _context_of(event: Fields) -> float | None:
    """Return how many percent of the context are used; ``None`` if the client does not tell."""
    window = event.get("context_window")
    used = window.get("used_percentage") if isinstance(window, dict) else None
    if not isinstance(used, int | float) or isinstance(used, bool):
        return None
    return min(max(float(used), 0.0), 100.0)


def _style(*, is_client: bool) -> Style:
    """Return what fits the terminal. A client shows colours, although it reads from a pipe."""
    text = os.environ.get("COLUMNS", "")
    columns = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not columns and os.isatty(1):
        columns = os.get_terminal_size(1).columns
    colour = (is_client or os.isatty(1)) and os.environ.get("TERM") != "dumb"
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        colour = True
    is_unicode = _encoding().lower().startswith("utf")
    width = (columns or _USUAL_COLUMNS) - (_MARGIN if is_client else 0)
    return Style(
        max(_MIN_COLUMNS, width),
        colour=colour and not os.environ.get("NO_COLOR"),
        fancy=is_unicode,
    )


def _encoding() -> str:
    """Return the encoding of standard output, which may be closed."""
    stream: TextIO | None = sys.stdout
    return "ascii" if stream is None else stream.encoding


# The former status line


def _start(command: str) -> Popen[bytes]:
    from subprocess import PIPE, Popen

    return Popen([_SHELL, "-c", command], stdin=PIPE, stdout=PIPE)  # noqa: S603 - see above


def _output_of(former: Popen[bytes], raw: bytes) -> bytes:
    """Return the lines that the former command prints; none if it fails, as in the client."""
    output, _ = former.communicate(raw)
    if former.returncode or not output.strip():
        return b""
    return output if output.endswith(b"\n") else output + b"\n"
