"""The embedded graph for ``verify`` and ``repair``: whole, and saying what the ledger says."""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.graph import applying, database, history, layer
from holdfast.graph.store import GraphStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine import Engine

CHECK = "PRAGMA integrity_check(3)"


def check(engine: Engine) -> tuple[str, str] | None:
    """How a graph that is there stands (``behind``, ``error``), and why; ``None``: all is well."""
    try:
        with GraphStore(layer.place(engine), disk=engine.disk, durable=False) as store:
            return _checked(engine, store)
    except HoldfastError as error:
        return "error", error.message


def _checked(engine: Engine, store: GraphStore) -> tuple[str, str] | None:
    with store.database.reading() as read:
        found = [str(row[0]) for row in read.rows(CHECK)]
    if found != ["ok"]:
        return "error", f"it is damaged: {'; '.join(found)}"
    if not history.is_current(engine, store.marks()):
        return "behind", "whoever reads it, or holdfast sync, brings it up to date"
    wanted = history.outstanding(engine, {}).operations
    for start in range(0, len(wanted), applying.AT_ONCE):
        some = wanted[start : start + applying.AT_ONCE]
        lacking = applying.plan(some, store.open_nodes([one["name"] for one in some]))
        if any(lacking.values()):
            return "error", "it does not say what the ledger says"
    return None


def repair(engine: Engine) -> tuple[str, str] | None:
    """Makes a graph that is wrong anew; a damaged file is kept. Says what was done."""
    found = check(engine)
    if found is None or found[0] != "error":
        return None
    place = layer.place(engine)
    kept = database.set_aside(place, engine.disk, engine.now(), database.inode_of(place))
    made = layer.caught_up(engine)
    if made is not None:
        made.store.close()
    return "repaired", f"was made anew; the old one is kept as {os.path.basename(kept or place)}"
