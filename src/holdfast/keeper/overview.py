"""Collect a workspace's workflows for listings. Nothing here takes a lock or writes."""

from __future__ import annotations

import os

from holdfast.adopt import findings, unknown_workflows
from holdfast.core import selection
from holdfast.core.next_step import next_step
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import is_active
from holdfast.errors import Fault, HoldfastError
from holdfast.formats import LOGS, aggregate_of, stream_of
from holdfast.storage.ledger import ACTIVE, ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Initiative, Workflow
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store

MAX_OPENED = 200
"""The number of active workflows that an overview opens, the newest first."""
_MAX_ENDED = 200
_MAX_COMPLETED = 20
"""The number of recently completed workflows that are checked for the current milestone."""
_NEWEST_FIRST = "ORDER BY updated_at DESC, seq DESC"
_SETTLED_NS = 2_000_000_000
"""The age from which a file's times are trusted. A newer file may change without a new time."""


class Overview:
    """The state of a workspace as of one event."""

    def __init__(self) -> None:
        self.seq = 0
        """The seq of the ledger's last event; 0 if the ledger is empty."""
        self.rows: list[Fields] = []
        """Rows of the opened active workflows, newest activity first, and of the session's own."""
        self.ended: list[Fields] = []
        """Rows of the workflows that ended last, newest first."""
        self.states: dict[str, Workflow] = {}
        """The states of the active workflows by id, at most ``MAX_OPENED``."""
        self.unopened = 0
        """The number of active workflows that were not opened."""
        self.unsettled: list[str] = []
        """The ids of active workflows whose record differs from the ledger."""
        self.mine: str | None = None
        """The id of the workflow that a command of this session would use."""
        self.why: Refusal | None = None
        """The reason why there is no such workflow."""
        self.initiative: Fields | None = None
        """The current initiative, unless it is completed or archived."""
        self.goal: list[str] = []
        """The commands that continue the initiative, the most likely first."""
        self.recoverable: tuple[str, str] | None = None
        """The source of an unknown initiative, and the command that recovers it."""
        self.strangers: list[Workflow] = []
        """Workflows that are not in the ledger yet; filled only if no workflow is active."""
        self.damage: list[str] = []
        """Damage of the ledger that reading it has shown."""
        self.unwritable = ""
        """The folder of the ledger or of the records, if it cannot be written; else empty."""


def list_active(session: Session, most: int | None) -> list[Fields]:
    """Return a row for each active workflow, as the next change will load it."""
    store, rows = session.store, []
    limit = "" if most is None else f" LIMIT {most}"
    with store.ledger.database.reading():
        for row in store.ledger.rows(f"{ACTIVE} {_NEWEST_FIRST}{limit}"):
            peek = None if _is_untouched(store, row) else store.peek(row["stream"])
            if peek is None:
                rows.append(row)
            elif is_active(peek.state):
                rows.append(row_of(peek.state, row))
        for row in rows:
            for note in findings.notes_on_record(store, row["stream"]):
                store.note(note)
        ids = {row["id"] for row in rows}
        for state in unknown_workflows.peek_all(store):
            if state["id"] not in ids and is_active(state):
                store.foretell(unknown_workflows.announcement(state))
                row = {"stream": state["id"], "seq": 0, "version": 0, "hash": ""}
                rows.append(row_of(state, row))
        rows += _rows_kept(session)
        for state, why in unknown_workflows.over(store):
            step = next_step(state, {"notes_over": why}, is_named=True)
            store.note(f"{state['id']}: {step.about}: {step.text}" if step is not None else "")
        more = 0 if most is None else store.ledger.count(ACTIVE) - most
    if more > 0:
        store.note(f"{more} more are active: holdfast status --all lists them")
    return sorted(rows, key=lambda row: str(row["updated_at"]), reverse=True)


def _rows_kept(session: Session) -> list[Fields]:
    """Return a row for each active workflow that was started while nothing could be written."""
    kept = session.store.kept
    row = {"seq": 0, "version": 0, "hash": ""}
    return [
        row_of(state, {**row, "stream": state["id"]})
        for state in (kept.started(session) if kept is not None else [])
        if is_active(state)
    ]


def list_known(store: Store, most: int, format: str | None = None) -> list[Fields]:
    """Return the rows of at most ``most`` workflows: active ones first, each group newest first.

    Only the ledger is read, so shell completion can call this at every Tab.
    """
    of_format, values = ("", ()) if format is None else (" AND format = ?", (format,))
    rows: list[Fields] = []
    for group in (ACTIVE, ENDED):
        rows += store.ledger.rows(
            f"{group}{of_format} {_NEWEST_FIRST} LIMIT {most - len(rows)}", *values
        )
    return rows


def row_of(state: Workflow, row: Fields) -> Fields:
    """Return a workflow's row with the columns of the given state."""
    columns = aggregate_of(state["id"]).columns(state)
    return {**row, **columns, "id": state["id"], "floating": bool(columns["floating"]),
            "session": state["session"]}  # fmt: skip


def _is_untouched(store: Store, row: Fields) -> bool:
    """Return True if a workflow has time left, and its file's identity and times are as written."""
    if store.kept is not None or selection.has_run_out(row, store.now_ms()):
        return False
    written = store.ledger.record(row["worktree"], row["record"])
    try:
        path = store.path_of(row["worktree"], row["record"])
        stat = None if path is None else os.lstat(path)
    except (OSError, HoldfastError):
        return False
    if written is None or stat is None or written["seq"] != row["seq"]:
        return False
    same = (written["inode"], written["device"], written["size"], written["mtime_ns"]) == (
        stat.st_ino, stat.st_dev, stat.st_size, stat.st_mtime_ns,
    )  # fmt: skip
    age = store.now_ms() * 1_000_000 - stat.st_mtime_ns
    return same and stat.st_ctime_ns - stat.st_mtime_ns < _SETTLED_NS < age


def look_around(session: Session) -> Overview:
    """Return the state of the workspace, or the part of it that a damaged ledger still has."""
    overview = Overview()
    try:
        _fill(session, overview)
    except Fault as fault:
        if fault.code != "ledger_damaged":
            raise
        overview.damage.append(fault.message)
    overview.unwritable = _find_unwritable(session)
    return overview


def _fill(session: Session, overview: Overview) -> None:
    store = session.store
    overview.seq = store.ledger.head_seq
    for stored in store.ledger.states(f"{ACTIVE} {_NEWEST_FIRST} LIMIT {MAX_OPENED}"):
        peek = store.peek_at(stored)
        if peek.finding is not None:
            overview.unsettled.append(stored.row["id"])
        row = stored.row if peek.state is stored.state else row_of(peek.state, stored.row)
        if is_active(peek.state):
            overview.rows.append(row)
            overview.states[row["id"]] = peek.state
        else:
            overview.ended.append(row)
    overview.rows += _rows_kept(session)
    overview.unsettled = [name for name in overview.unsettled if name in overview.states]
    overview.unopened = max(0, store.ledger.count(ACTIVE) - MAX_OPENED)
    overview.ended += store.ledger.rows(f"{ENDED} {_NEWEST_FIRST} LIMIT {_MAX_ENDED}")
    picked = session.picked()
    if isinstance(picked, Refusal):
        overview.why = picked
    elif picked["id"] not in overview.states and any(
        row["id"] == picked["id"] for row in overview.ended
    ):
        overview.why = session.chosen(overview.rows) if overview.rows else None  # type: ignore[assignment]
    else:
        overview.mine = picked["id"]
        if overview.mine not in overview.states and picked["status"] in selection.ACTIVE:
            overview.rows.append(picked)
    _look_at_initiatives(session, overview)
    session.note_sharing()
    if not overview.rows:
        overview.strangers = unknown_workflows.peek_all(store)


def _look_at_initiatives(session: Session, overview: Overview) -> None:
    """Add the initiative that is going on; else one that the milestone files tell of."""
    workspace, record = session.workspace, LOGS["initiatives"]
    is_known = session.store.ledger.stream(stream_of("initiatives")) is not None
    is_known = is_known or os.path.lexists(os.path.join(workspace.root, record))
    # The settings may name another folder of milestone pages.
    if not (is_known or workspace.has_milestones() or workspace.has_settings()):
        return
    from holdfast.core.initiatives import blank, current_of
    from holdfast.keeper.logs import FINAL, find_recoverable, initiative_view

    initiatives = session.log_state("initiatives") if is_known else blank()
    current = current_of(initiatives)
    if current is not None and current["status"] not in FINAL:
        overview.initiative = initiative_view(str(initiatives["current"]), current)
        overview.goal = _next_commands(overview, current, overview.initiative["key"])
        return
    try:
        overview.recoverable = find_recoverable(session, initiatives, ask_server=False)
    except HoldfastError as error:
        session.store.note(f"{error.message}: {error.hint}")


def _find_unwritable(session: Session) -> str:
    """Return the folder, of the records or of the ledger, that cannot be written; "" if neither.

    With a Memory server, which can queue commands, the ledger's folder does not count.
    """
    records, home = os.path.join(session.workspace.root, ".claude"), session.workspace.home
    if not is_writable(records):
        return records
    if is_writable(home):
        return ""
    from holdfast.keeper.offline_queue import queue_server

    return home if queue_server(session) is None else ""


def is_writable(folder: str) -> bool:
    """Return True if the folder, or the one that it would be made in, can be written."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _next_commands(overview: Overview, initiative: Initiative, key: str) -> list[str]:
    """Return the commands that continue an initiative; none while a workflow does.

    If work for the current milestone is to be started, completing it comes second.
    """
    from holdfast.core.initiatives import names_of, next_step

    names = names_of(key, initiative)
    ended = [row for row in overview.ended if row["status"] == "completed"][:_MAX_COMPLETED]
    own = [row for row in [*ended, *overview.rows] if row["initiative"] in names]
    step = next_step(initiative, own)
    if step is None or step.words[0] == "resume":
        return []
    if step.words[0] == "start":
        return [step.text, *(other.text for other in [next_step(initiative)] if other)]
    return [step.text]
