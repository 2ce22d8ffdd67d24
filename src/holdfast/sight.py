"""A look at the workspace that waits for nobody and changes nothing.

``sight`` is for ``holdfast`` alone and ``holdfast watch``, ``glance`` for a caller that only wants
names. Every other look takes in what it finds on the way: an edit, a record that is new, a time
that has run out. Whoever presses Tab in the middle of a line did not ask for that.
"""

from __future__ import annotations

import os

from holdfast.core import choice
from holdfast.core.refusal import Refusal, word
from holdfast.engine import NeedsLock
from holdfast.errors import Fault, HoldfastError
from holdfast.layers.catalog import has_no_workflow, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Event, Fields, Workflow
    from holdfast.core.small_shapes import Initiatives
    from holdfast.engine import Engine
    from holdfast.register import Position

INITIATIVES = "_initiatives"
"""The stream of all initiatives; so nothing of theirs is loaded where there is none."""
_DAMAGE = 3
"""So many damaged lines are named."""
_MANY = 200
"""So many active workflows are opened, the ones in motion first."""
_LATEST = 20
"""So many of the workflows that were completed last are looked at for what they were for."""
_LOOKED_THROUGH = 1_000
"""So many of the ledger's events are looked through for those of one workflow."""


class Sight:
    """What there is, as of one event."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        """The ledger's last event; 0 while there is none."""
        self.rows: list[Fields] = []
        """A row for each active workflow, newest activity first."""
        self.ended: list[Fields] = []
        """The same for those that have ended or run out of time."""
        self.states: dict[str, Workflow] = {}
        """The active workflows whole, up to so many."""
        self.unopened = 0
        """So many active ones more there are."""
        self.unsettled: list[str] = []
        """Those whose record shows something else than the ledger."""
        self.mine: str | None = None
        """The workflow that a command of this caller would be about."""
        self.why: Refusal | None = None
        """Why that is none."""
        self.initiative: Fields | None = None
        """The current one, unless it is over."""
        self.goal: list[str] = []
        """The commands that carry it on, the likeliest first."""
        self.strangers: list[str] = []
        """Records that the ledger does not know, looked for where nothing is active."""
        self.damage: list[str] = []
        """Lines of the open segment that cannot be read."""
        self.is_writable = True
        """Whether anything could be recorded."""


def sight(caller: Caller) -> Sight:
    """The workspace as it stands now."""
    engine = caller.engine
    engine.refresh()
    found = Sight(engine.ledger.head_seq)
    rows: list[Fields] = []
    for row in _rows(engine, found):
        is_over = row["status"] not in choice.ACTIVE or caller.is_expired(row)
        (found.ended if is_over else rows).append(row)
    found.rows = sorted(rows, key=lambda row: row["updated_at"], reverse=True)
    found.ended.sort(key=lambda row: row["updated_at"], reverse=True)
    _open(engine, found)
    mine = caller.chosen(found.rows)
    if isinstance(mine, Refusal):
        found.why = mine
    else:
        found.mine = mine["id"]
    found.initiative = _initiative(caller)
    if found.initiative is not None:
        found.goal = _goal(engine, found, found.initiative)
    if not found.rows:
        from holdfast import discovery

        found.strangers = discovery.unknown(engine, {row["record"] for row in found.ended})
    damaged = [f"{place}: {bad}" for place, bad in engine.ledger.walk(after=found.seq)]
    found.damage = damaged[:_DAMAGE]
    found.is_writable = _is_writable(caller)
    return found


def _is_writable(caller: Caller) -> bool:
    """Whether the ledger's folder can be written, or made; else a server may stand in for it."""
    folder = caller.engine.workspace.home
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
        return True
    from holdfast import primary

    return primary.server_of(caller) is not None


def glance(caller: Caller, workflow: str | None) -> tuple[list[Fields], Workflow | None]:
    """A row for every workflow there ever was, and the state of the one that is meant."""
    engine = caller.engine
    engine.refresh()
    found = Sight(engine.ledger.head_seq)
    rows = _rows(engine, found)
    if workflow is None:
        mine = caller.chosen(rows)
        workflow = "" if isinstance(mine, Refusal) else mine["id"]
    position = engine.position(workflow)
    return rows, None if position is None else _state(engine, position, found)


def _rows(engine: Engine, found: Sight) -> list[Fields]:
    """A row for every workflow there ever was."""
    fresh = []
    for stream in engine.ledger.touched():
        position, last = engine.position(stream), engine.ledger.last(stream)
        if position is None or last is None or has_no_workflow(stream):
            continue
        state = _state(engine, position, found)
        if state is not None:
            fresh.append(row_of(state, last))
    known = {row["stream"] for row in fresh}
    return [*fresh, *[row for row in engine.register.rows() if row["stream"] not in known]]


def _open(engine: Engine, found: Sight) -> None:
    """Leaves the active ones alone in ``states``, with those that nobody touched of late."""
    states = {}
    for row in found.rows[:_MANY]:
        state = found.states.get(row["id"])
        position = engine.position(row["id"]) if state is None else None
        if position is not None:
            state = _state(engine, position, found)
        if state is not None:
            states[row["id"]] = state
    found.states = states
    found.unopened = len(found.rows) - len(states)
    found.unsettled = [name for name in found.unsettled if name in states]


def _state(engine: Engine, position: Position, found: Sight) -> Workflow | None:
    """What the record shows; where somebody has to look after that first, what the ledger says."""
    try:
        try:
            state = engine.load(position)
        except NeedsLock:
            found.unsettled.append(position.stream)
            state = engine.replay(position.stream)[0]
    except Fault as fault:
        if fault.code != "lost_events":
            raise
        engine.note(f"{fault.message}: {fault.hint}")
        return None
    found.states[position.stream] = state
    return state


def _initiative(caller: Caller) -> Fields | None:
    if not caller.engine.register.version(INITIATIVES):
        return None
    from holdfast.core.initiatives import current_of
    from holdfast.initiatives.overview import view
    from holdfast.small import Small

    small = Small(caller, "initiatives")
    try:
        state: Initiatives = small.look()  # type: ignore[assignment]
    except NeedsLock:
        state = small.told()  # type: ignore[assignment]
    one = current_of(state)
    if one is None or one["status"] in ("completed", "archived"):
        return None
    return view(str(state["current"]), one)


def _goal(engine: Engine, found: Sight, one: Fields) -> list[str]:
    """A milestone is begun with a workflow, goes on with it, and is completed after it."""
    going = [m for m in one["milestones"] if m["id"] == one["current_milestone"]]
    if one["status"] != "in_progress" or [m["status"] for m in going] != ["in_progress"]:
        return [one["next"]]

    def serves(state: Workflow | None) -> bool:
        told: Fields = (state.get("initiative") if state else None) or {}
        is_of = told.get("name") in (one["name"], one["key"])
        return is_of and told.get("milestone") == one["current_milestone"]

    if any(map(serves, found.states.values())):
        return []
    completed = [row["id"] for row in found.ended if row["status"] == "completed"][:_LATEST]
    places = filter(None, map(engine.position, completed))
    if any(serves(_state(engine, place, Sight(0))) for place in places):
        return [one["next"]]
    begin = f"holdfast start RECIPE SUBJECT --milestone {word(one['current_milestone'])}"
    return [begin, one["next"]]


def layers(caller: Caller, found: Sight) -> list[Fields]:
    """A row for each layer: whether it follows the ledger, and how far behind it is."""
    settled = len(found.states) - len(found.unsettled)
    target = f"{settled}/{len(found.states)} records"
    if found.unopened:
        target += f", {found.unopened} more not looked at"
    records: Fields = {"layer": "L1", "target": target}
    records["status"] = "behind" if found.unsettled else "current"
    rows = [records]
    for name, look in (("L2", _memory), ("L3", _graph)):
        try:
            rows.append({"layer": name, **look(caller, found)})
        except (HoldfastError, OSError) as error:
            rows.append({"layer": name, "target": str(error), "status": "unavailable"})
    return rows


def _memory(caller: Caller, _found: Sight) -> Fields:
    from holdfast.memory.layer import Memory

    memory = Memory(caller)
    if memory.path is None:
        return {"target": "MEMORY.md", "status": "off"}
    name = os.path.basename(memory.path)
    return {"target": name, "status": "current" if memory.lines() else "empty"}


def _graph(caller: Caller, found: Sight) -> Fields:
    from holdfast import settings

    kept_by = settings.load(caller.engine.workspace.root).graph()
    if kept_by == "off":
        return {"target": "graph", "status": "off"}
    seq = _embedded_seq(caller) if kept_by == "embedded" else _served_seq(caller)
    target = "graph" if kept_by == "embedded" else kept_by
    behind = found.seq - seq
    status = "empty" if not seq else "behind" if behind > 0 else "current"
    return {"target": target, "status": status, "seq": seq}


def _embedded_seq(caller: Caller) -> int:
    from holdfast.graph import layer

    standing = layer.as_it_stands(caller.engine)
    if standing is None:
        return 0
    standing.store.close()
    return standing.seq


def _served_seq(caller: Caller) -> int:
    """How far the server has got, by the file that remembers it: nobody is asked over a wire."""
    from holdfast.graph import delivery

    return delivery.remembered_seq(caller.engine)


def last_events(caller: Caller, found: Sight, workflow: str | None, limit: int) -> list[Event]:
    """The newest events, oldest of them first: of one workflow or of all."""
    newest = max(0, found.seq - (limit if workflow is None else _LOOKED_THROUGH))
    return list(caller.engine.ledger.scan(workflow, after=newest))[-limit:]
