"""A look that waits for nobody and changes nothing, for a caller that only wants names.

Every other look takes in what it finds on the way: an edit, a record that is new, a time that has
run out. Whoever presses Tab in the middle of a line did not ask for that.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.engine import NeedsLock
from holdfast.layers.catalog import row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields, Workflow
    from holdfast.engine import Engine
    from holdfast.register import Position


def glance(caller: Caller, workflow: str | None) -> tuple[list[Fields], Workflow | None]:
    """A row for every workflow there ever was, and the state of the one that is meant."""
    engine = caller.engine
    engine.refresh()
    rows = _rows(engine)
    if workflow is None:
        mine = caller.chosen(rows)
        workflow = "" if isinstance(mine, Refusal) else mine["id"]
    position = engine.position(workflow)
    return rows, None if position is None else _state(engine, position)


def _rows(engine: Engine) -> list[Fields]:
    fresh = []
    for stream in engine.ledger.touched():
        position, last = engine.position(stream), engine.ledger.last(stream)
        if position is not None and last is not None:
            fresh.append(row_of(_state(engine, position), last))
    known = {row["stream"] for row in fresh}
    return [*fresh, *(row for row in engine.register.rows() if row["stream"] not in known)]


def _state(engine: Engine, position: Position) -> Workflow:
    """What the record shows; where somebody has to look after that first, what the ledger says."""
    try:
        return engine.load(position)
    except NeedsLock:
        return engine.replay(position.stream)[0]
