"""Bring every layer beside the records up to date, for ``holdfast sync``.

Each layer answers with one row. A layer that fails answers with the error in its row, and does not
keep the others from being updated.
"""

from __future__ import annotations

from functools import partial

from holdfast.errors import HoldfastError, system_refused
from holdfast.layers import memory
from holdfast.layers.graph import background, mcp_delivery
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.layers import LayerSource

DELIVERED, CURRENT, UNAVAILABLE, OFF = "delivered", "current", "unavailable", "off"


def sync(
    source: LayerSource,
    *,
    everything: bool = False,
    foreground: bool = True,
    at_once: bool = True,
) -> list[Fields]:
    """Update L2, then L3; return a row for each.

    ``everything``: deliver as if nothing had been delivered before. ``foreground``: a person or
    their agent asks, not an agent in the background, which never writes L3. ``at_once``: try a
    server that failed recently.
    """
    updates = {
        "L2": partial(_sync_memory, source),
        "L3": partial(
            _sync_graph, source, everything=everything, foreground=foreground, at_once=at_once
        ),
    }
    rows: list[Fields] = []
    for layer, update in updates.items():
        row: Fields = {"layer": layer, "target": ""}
        rows.append(row)
        try:
            update(row)
        except (OSError, HoldfastError) as error:
            fault = system_refused(error) if isinstance(error, OSError) else error
            row |= _trouble(fault.code, fault.message, fault.hint)
    return rows


def _sync_memory(source: LayerSource, row: Fields) -> None:
    """Update our section of the ``MEMORY.md`` that the client loads."""
    file = memory.Memory(source)
    row["target"] = file.path or OFF
    if not file.is_wanted():
        row["status"] = OFF
        return
    row["status"] = DELIVERED if source.ledger.head_seq and file.write() else CURRENT
    warnings = [note for note in source.notes if note.startswith(memory.UNAVAILABLE)]
    if warnings:
        hint = "make the file and its folder writable, then run the same command again"
        row |= _trouble("memory_unavailable", warnings[0], hint)


def _sync_graph(
    source: LayerSource, row: Fields, *, everything: bool, foreground: bool, at_once: bool
) -> None:
    """Update the server that keeps the graph. The embedded graph is never behind the ledger."""
    target = row["target"] = settings.load(source.workspace.root).graph()
    seq = source.ledger.head_seq
    if target == OFF:
        row["status"] = OFF
    elif target == "embedded" or (foreground and not seq):
        row |= {"status": CURRENT, "events": 0, "entities": 0, "seq": seq}
    elif not foreground:
        message = "an agent in the background never writes L3"
        row |= _trouble("background", message, "holdfast sync")
    else:
        name = target.removeprefix("mcp:")
        delivery = mcp_delivery.deliver(source, name, everything=everything, at_once=at_once)
        background.notes_of(source).say_no_more(mcp_delivery.WARNING if delivery["why"] else "")
        row["status"] = DELIVERED if delivery["events"] else CURRENT
        row |= {key: delivery[key] for key in ("events", "entities", "seq")}
        if delivery["why"]:
            message = f"{mcp_delivery.WARNING}: {delivery['why']}"
            hint = f"holdfast sync tries it at once; others do from {delivery['until']} on"
            row |= {"behind": delivery["behind"]}
            row |= _trouble("graph_unavailable", message, hint)


def _trouble(code: str, message: str, hint: str) -> Fields:
    fields = {"code": code, "message": message, "hint": hint}
    return {"status": UNAVAILABLE, "error": fields}
