"""What there is in a workspace, for listings. Nothing here takes a lock or writes."""

from __future__ import annotations

import os

from holdfast.adopt import unknown_records
from holdfast.core import selection
from holdfast.core.refusal import Refusal, word
from holdfast.core.workflow.state import is_active
from holdfast.errors import Fault, HoldfastError
from holdfast.formats.aggregates import aggregate_of, stream_of
from holdfast.storage.ledger import ACTIVE, ENDED, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Peek, Store

MAX_OPENED = 200
"""How many active workflows an overview opens, the newest first."""
_MAX_ENDED = 200
_LATEST = 20
"""How many of the workflows that ended last are asked what they were for."""
_NEWEST_FIRST = "ORDER BY updated_at DESC, seq DESC"
_SETTLED_NS = 2_000_000_000
"""A file that changed within two seconds may change again without looking different."""


class Overview:
    """What there is, as of one event."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        """The ledger's last event; 0 while there is none."""
        self.rows: list[Fields] = []
        """A row for each active workflow that was opened, newest activity first; and its own."""
        self.ended: list[Fields] = []
        """The same for those that ended last."""
        self.states: dict[str, Workflow] = {}
        """The active workflows whole, up to ``MAX_OPENED``."""
        self.unopened = 0
        """The number of active workflows that were not opened."""
        self.unsettled: list[str] = []
        """Those whose record shows something else than the ledger."""
        self.mine: str | None = None
        """The workflow that a command of this session would be about."""
        self.why: Refusal | None = None
        """Why that is none."""
        self.initiative: Fields | None = None
        """The current initiative, unless it is over."""
        self.goal: list[str] = []
        """The commands that carry it on, the likeliest first."""
        self.strangers: list[Workflow] = []
        """What the ledger does not know yet, looked for where nothing is active."""
        self.damage: list[str] = []
        """What is wrong with the ledger, as far as a look meets it."""
        self.unwritable = ""
        """The folder because of which nothing could be recorded; empty if something could."""


def active(store: Store, most: int | None) -> list[Fields]:
    """Return a row for each active workflow, as the next change will find it."""
    total = store.ledger.count(ACTIVE) if most is not None else 0
    rows = []
    for held in _newest(store, most):
        seen = _peek(store, held)
        if seen is None:
            rows.append(held.row)
        elif is_active(seen.state):
            rows.append(row_of(seen.state, held.row))
    known = {row["id"] for row in rows}
    for state in unknown_records.peek_all(store):
        if state["id"] not in known and is_active(state):
            store.foretell(unknown_records.announcement(state))
            rows.append(row_of(state, {"stream": state["id"], "seq": 0, "version": 0, "hash": ""}))
    if most is not None and total > most:
        store.note(f"{total - most} more are active: holdfast status --all lists them")
    return sorted(rows, key=lambda row: str(row["updated_at"]), reverse=True)


def known(store: Store, most: int, format: str | None = None) -> list[Fields]:
    """Return the rows of workflows that can be named: active ones first, each newest first.

    The ledger alone is read, so a shell can ask at every Tab.
    """
    of_format = "" if format is None else " AND format = ?"
    values = () if format is None else (format,)
    rows: list[Fields] = []
    for group in (ACTIVE, ENDED):
        rows += store.ledger.rows(
            f"{group}{of_format} {_NEWEST_FIRST} LIMIT {most - len(rows)}", *values
        )
    return rows


def row_of(state: Workflow, row: Fields) -> Fields:
    """Return a workflow's row with the columns of another state."""
    columns = aggregate_of(state["id"]).columns(state)
    return {**row, **columns, "id": state["id"], "floating": bool(columns["floating"]),
            "session": state["session"]}  # fmt: skip


def _newest(store: Store, most: int | None) -> list[Stream]:
    limit = "" if most is None else f" LIMIT {most}"
    rows = store.ledger.rows(f"{ACTIVE} {_NEWEST_FIRST}{limit}")
    return [Stream(row, None) for row in rows]


def _peek(store: Store, held: Stream) -> Peek | None:
    """Look at a record if it may have changed; ``None`` when it is as it was last written."""
    row = held.row
    if _is_untouched(store, row) and not selection.has_run_out(row, store.now_ms()):
        return None
    return store.peek(row["stream"])


def _is_untouched(store: Store, row: Fields) -> bool:
    """True if the file's name, size and times prove that it is the one last written."""
    known = store.ledger.record(row["worktree"], row["record"])
    try:
        path = store.path_of(row["worktree"], row["record"])
        stat = None if path is None else os.lstat(path)
    except (OSError, HoldfastError):
        return False
    if known is None or stat is None or known["seq"] != row["seq"]:
        return False
    same = (known["inode"], known["device"], known["size"], known["mtime_ns"]) == (
        stat.st_ino, stat.st_dev, stat.st_size, stat.st_mtime_ns,
    )  # fmt: skip
    age = store.now_ms() * 1_000_000 - stat.st_mtime_ns
    return same and stat.st_ctime_ns - stat.st_mtime_ns < _SETTLED_NS < age


def overview(session: Session) -> Overview:
    """Return the workspace as it stands now, as far as the ledger can be read."""
    seen = Overview(0)
    try:
        _look_around(session, seen)
    except Fault as fault:
        if fault.code != "ledger_damaged":
            raise
        seen.damage.append(fault.message)
    seen.unwritable = _unwritable(session)
    return seen


def _look_around(session: Session, seen: Overview) -> None:
    store = session.store
    seen.seq = store.ledger.head_seq
    for held in store.ledger.states(f"{ACTIVE} {_NEWEST_FIRST} LIMIT {MAX_OPENED}"):
        peek = store.peek_at(held)
        if peek.finding is not None:
            seen.unsettled.append(held.row["id"])
        row = held.row if peek.finding is None else row_of(peek.state, held.row)
        if is_active(peek.state):
            seen.rows.append(row)
            seen.states[row["id"]] = peek.state
        else:
            seen.ended.append(row)
    seen.unsettled = [name for name in seen.unsettled if name in seen.states]
    total = store.ledger.count(ACTIVE)
    seen.unopened = max(0, total - MAX_OPENED)
    seen.ended += store.ledger.rows(f"{ENDED} {_NEWEST_FIRST} LIMIT {_MAX_ENDED}")
    picked = session.picked()
    if isinstance(picked, Refusal):
        seen.why = picked
    elif picked["id"] not in seen.states and any(one["id"] == picked["id"] for one in seen.ended):
        seen.why = session.chosen(seen.rows) if seen.rows else None  # type: ignore[assignment]
    else:
        seen.mine = picked["id"]
        if seen.mine not in seen.states and picked["status"] in selection.ACTIVE:
            seen.rows.append(picked)
    seen.initiative = _initiative(session)
    if seen.initiative is not None:
        seen.goal = _goal(seen, seen.initiative)
    if not seen.rows:
        seen.strangers = unknown_records.peek_all(store)


def _unwritable(session: Session) -> str:
    """Return which folder, the ledger's or that of records, cannot be written or made; or none.

    A server may stand in for the ledger.
    """
    folder = os.path.join(session.workspace.root, ".claude")
    if not _is_writable(folder):
        return folder
    if _is_writable(session.workspace.home):
        return ""
    from holdfast.keeper import offline_queue

    return "" if offline_queue.server_of(session) is not None else session.workspace.home


def _is_writable(folder: str) -> bool:
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _initiative(session: Session) -> Fields | None:
    if session.store.ledger.stream(stream_of("initiatives")) is None:
        return None
    from holdfast.core.initiatives import current_of
    from holdfast.keeper.initiative_link import initiative_view

    state = session.log_state("initiatives")
    current = current_of(state)
    if current is None or current["status"] in ("completed", "archived"):
        return None
    return initiative_view(str(state["current"]), current)


def _goal(seen: Overview, goal: Fields) -> list[str]:
    """A milestone is begun with a workflow, goes on with it, and is completed after it."""
    current = [one for one in goal["milestones"] if one["id"] == goal["current_milestone"]]
    if goal["status"] != "in_progress" or [one["status"] for one in current] != ["in_progress"]:
        return [goal["next"]]

    def serves(row: Fields) -> bool:
        is_of = row["initiative"] in (goal["name"], goal["key"])
        return is_of and row["milestone"] == goal["current_milestone"]

    if any(map(serves, seen.rows)):
        return []
    completed = [row for row in seen.ended if row["status"] == "completed"][:_LATEST]
    if any(map(serves, completed)):
        return [goal["next"]]
    begin = f"holdfast start RECIPE SUBJECT --milestone {word(goal['current_milestone'])}"
    return [begin, goal["next"]]


def layers(session: Session, seen: Overview) -> list[Fields]:
    """Return a row for each layer: whether it follows the ledger, and how far behind it is."""
    settled = len(seen.states) - len(seen.unsettled)
    target = f"{settled}/{len(seen.states)} records"
    if seen.unopened:
        target += f", {seen.unopened} more not looked at"
    rows: list[Fields] = [
        {"layer": "L1", "target": target, "status": "behind" if seen.unsettled else "current"}
    ]
    for name, look in (("L2", _memory), ("L3", _graph)):
        try:
            rows.append({"layer": name, **look(session, seen)})
        except (HoldfastError, OSError) as error:
            rows.append({"layer": name, "target": str(error), "status": "unavailable"})
    return rows


def _memory(session: Session, _seen: Overview) -> Fields:
    from holdfast.layers.memory.memory_file import Memory

    memory = Memory(session.store)
    if memory.path is None:
        return {"target": "MEMORY.md", "status": "off"}
    name = os.path.basename(memory.path)
    return {"target": name, "status": "current" if memory.lines() else "empty"}


def _graph(session: Session, seen: Overview) -> Fields:
    from holdfast.workspace import settings

    kept_by = settings.load(session.workspace.root).graph()
    if kept_by == "off":
        return {"target": "graph", "status": "off"}
    if kept_by == "embedded":
        status = "current" if seen.seq else "empty"
        return {"target": "graph", "status": status, "seq": seen.seq}
    from holdfast.layers.graph import mcp_delivery

    seq = mcp_delivery.delivered_seq(session.store)
    status = "empty" if not seq else "behind" if seen.seq > seq else "current"
    return {"target": kept_by, "status": status, "seq": seq}
