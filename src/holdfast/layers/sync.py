"""Bring every layer beside the records up to date, for ``holdfast sync``.

Each layer answers with one row. A layer that fails answers with the error in its row, and does not
keep the others from being updated.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, system_refused
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.layers import LayerSource

DELIVERED, CURRENT, UNAVAILABLE, OFF = "delivered", "current", "unavailable", "off"


def sync(source: LayerSource, *, everything: bool = False, foreground: bool = True) -> list[Fields]:
    """Update L2, then L3; return a row for each.

    ``everything``: deliver as if nothing had been delivered before. ``foreground``: a person or
    their agent asks, not an agent in the background, which never writes L3.
    """

    def memory() -> Fields:
        return _sync_memory(source)

    def graph() -> Fields:
        target = settings.load(source.workspace.root).graph()
        options = {"everything": everything, "foreground": foreground}
        return _row(target, lambda: _sync_graph(source, target, **options))

    return [{"layer": "L2", **_row("", memory)}, {"layer": "L3", **_row("", graph)}]


def _row(target: str, update: Callable[[], Fields]) -> Fields:
    """Return the row of an update, with its error if it fails."""
    try:
        return {"target": target, **update()}
    except OSError as error:
        fault = system_refused(error)
        return {"target": target, **_trouble(fault.code, fault.message, fault.hint)}
    except HoldfastError as error:
        return {"target": target, **_trouble(error.code, error.message, error.hint)}


def _sync_memory(source: LayerSource) -> Fields:
    """Update our section of the ``MEMORY.md`` that the client loads."""
    from holdfast.layers.memory import UNAVAILABLE as WARNING
    from holdfast.layers.memory import Memory

    memory = Memory(source)
    if memory.path is None:
        return {"target": OFF, "status": OFF}
    row: Fields = {"target": memory.path, "status": CURRENT}
    if source.ledger.head_seq and memory.write():
        row["status"] = DELIVERED
    warnings = [note for note in source.notes if note.startswith(WARNING)]
    if warnings:
        hint = "make the file and its folder writable, then run the same command again"
        row |= _trouble("memory_unavailable", warnings[0], hint)
    return row


def _sync_graph(source: LayerSource, target: str, *, everything: bool, foreground: bool) -> Fields:
    """Update the server that keeps the graph. The embedded graph is never behind the ledger."""
    if target == "off":
        return {"status": OFF}
    seq = source.ledger.head_seq
    if target == "embedded":
        return _progress(0, 0, seq)
    if not foreground:
        message = "an agent in the background never writes L3"
        return _trouble("background", message, "holdfast sync")
    if not seq:
        return _progress(0, 0, 0)
    from holdfast.layers.graph import mcp_delivery

    delivery = mcp_delivery.deliver(source, target.removeprefix("mcp:"), everything=everything)
    row = _progress(delivery.events, delivery.entities, delivery.seq)
    if delivery.why:
        message = f"{mcp_delivery.WARNING}: {delivery.why}"
        hint = f"holdfast sync, when it is back; it is left alone until {delivery.until}"
        row |= {"behind": delivery.behind, **_trouble("graph_unavailable", message, hint)}
    return row


def _progress(events: int, entities: int, seq: int) -> Fields:
    status = DELIVERED if events else CURRENT
    return {"status": status, "events": events, "entities": entities, "seq": seq}


def _trouble(code: str, message: str, hint: str) -> Fields:
    fields = {"code": code, "message": message, "hint": hint}
    return {"status": UNAVAILABLE, "error": fields}
