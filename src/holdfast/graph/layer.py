"""L3 as a file of the workspace: the embedded graph, brought up to date by whoever reads it.

No transition opens it. It holds the entities as of an event of the ledger and which event that is,
in one transaction; so a reader adds what happened since, and a graph that is ahead, of another
ledger or damaged is made anew. A damaged file is kept beside it.
"""

from __future__ import annotations

import os

from holdfast.errors import Fault
from holdfast.graph import applying, database, history
from holdfast.graph.auditing import NAME
from holdfast.graph.store import GraphStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine import Engine

_DAMAGED = "graph_damaged"


class CaughtUp:
    """The graph, open, and what was done to bring it up to date. Close ``store`` after use."""

    __slots__ = ("entities", "events", "seq", "store")

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.seq = 0
        """The last event that it shows."""
        self.events = 0
        self.entities = 0


def place(engine: Engine) -> str:
    return os.path.join(engine.workspace.home, NAME)


def as_it_stands(engine: Engine) -> CaughtUp | None:
    """The graph as it was left, whatever the ledger says or whether there is one; for a reader
    who lost everything else. ``None`` where there is no graph.
    """
    if not os.path.lexists(place(engine)):
        return None
    found = CaughtUp(GraphStore(place(engine), disk=engine.disk, durable=False))
    found.seq = history.seq_of(found.store.marks())
    return found


def caught_up(
    engine: Engine, *, everything: bool = False, wait_s: float = database.WAIT_S
) -> CaughtUp | None:
    """The graph as of the ledger's last event; ``None`` where there is no ledger yet.

    ``everything``: made anew, whatever it says.
    """
    engine.refresh()
    if not engine.ledger.head_seq:
        return None
    inode = database.inode_of(place(engine))
    try:
        return _caught_up(engine, wait_s, everything=everything)
    except Fault as fault:
        if fault.code != _DAMAGED:
            raise
    kept = database.set_aside(place(engine), engine.disk, engine.now(), inode)
    if kept is not None:
        name = os.path.basename(kept)
        engine.note(f"the graph was damaged: it is kept as {name} and was made anew")
    return _caught_up(engine, wait_s, everything=everything)


def _caught_up(engine: Engine, wait_s: float, *, everything: bool) -> CaughtUp:
    # What is lost in a power cut, the ledger gives again: so nobody waits for the disk.
    found = CaughtUp(GraphStore(place(engine), disk=engine.disk, durable=False, wait_s=wait_s))
    try:
        marks = found.store.marks()
        if everything or not history.is_current(engine, marks):
            marks = _brought_up(engine, found, everything=everything)
        found.seq = history.seq_of(marks)
    except Fault as fault:
        if fault.code in (_DAMAGED, "storage"):
            found.store.close()
            raise
        engine.note(f"the graph is behind: {fault.message}")
        found.seq = history.seq_of(found.store.marks())
    except BaseException:
        found.store.close()
        raise
    return found


def _brought_up(engine: Engine, found: CaughtUp, *, everything: bool) -> dict[str, str]:
    with found.store.database.writing():
        # Another reader may have been here while we waited.
        marks = {} if everything else found.store.marks()
        lacking = history.outstanding(engine, marks)
        if lacking.is_whole:
            found.store.clear()
        found.events = lacking.events
        found.entities = applying.apply(found.store, lacking.operations, lacking.gone)
        found.store.set_marks(**lacking.marks)
        return {**marks, **lacking.marks}
