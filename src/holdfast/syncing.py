"""``sync``: every layer beside the records is brought up to date, and says what it was given.

A layer is a function that takes the engine and gives its row, or ``None`` where it has none. One
that cannot be reached is a row that says so: the others, and L1, are none the worse.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.shapes import Fields
    from holdfast.engine import Engine

DELIVERED, CURRENT, UNAVAILABLE, OFF = "delivered", "current", "unavailable", "off"


class Wish:
    """How a layer is to be brought up to date."""

    __slots__ = ("everything", "foreground")

    def __init__(self, *, everything: bool, foreground: bool) -> None:
        self.everything = everything
        """As if nothing had been delivered yet."""
        self.foreground = foreground
        """Whether a person or their agent asks, not an agent in the background."""


def sync(engine: Engine, *, everything: bool = False, foreground: bool = True) -> list[Fields]:
    """A row for each layer."""
    wish = Wish(everything=everything, foreground=foreground)
    rows = []
    for name, layer in LAYERS.items():
        try:
            rows.append({"layer": name, **layer(engine, wish)})
        except HoldfastError as error:
            why = {"code": error.code, "message": error.message, "hint": error.hint}
            rows.append({"layer": name, "status": UNAVAILABLE, "error": why})
    return rows


def _graph(engine: Engine, wish: Wish) -> Fields:
    """L3: the embedded graph, or the server that the settings name."""
    from holdfast import settings

    engine.refresh()
    kept_by = settings.load(engine.workspace.root).graph()
    if kept_by == "off":
        return {"target": kept_by, "status": OFF}
    if not engine.ledger.head_seq:
        return {"target": kept_by, "status": CURRENT, "events": 0, "entities": 0, "seq": 0}
    if kept_by == "embedded":
        return {"target": kept_by, **_embedded(engine, wish)}
    if not wish.foreground:
        why = _trouble("background", "an agent in the background never writes L3", "holdfast sync")
        return {"target": kept_by, "status": UNAVAILABLE, "error": why}
    return {"target": kept_by, **_server(engine, kept_by.removeprefix("mcp:"), wish)}


def _embedded(engine: Engine, wish: Wish) -> Fields:
    from holdfast.graph import layer

    found = layer.caught_up(engine, everything=wish.everything)
    if found is None:
        return {"status": CURRENT, "events": 0, "entities": 0, "seq": 0}
    found.store.close()
    return _row(found.events, found.entities, found.seq)


def _server(engine: Engine, name: str, wish: Wish) -> Fields:
    from holdfast.graph import delivery

    found = delivery.deliver(engine, name, everything=wish.everything)
    row = _row(found.events, found.entities, found.seq)
    if found.why:
        hint = f"holdfast sync, when it is back; it is left alone until {found.until}"
        message = f"{delivery.WARNING}: {found.why}"
        why = _trouble("graph_unavailable", message, hint)
        row |= {"status": UNAVAILABLE, "behind": found.behind, "error": why}
    return row


def _row(events: int, entities: int, seq: int) -> Fields:
    status = DELIVERED if events else CURRENT
    return {"status": status, "events": events, "entities": entities, "seq": seq}


def _trouble(code: str, message: str, hint: str) -> Fields:
    return {"code": code, "message": message, "hint": hint}


LAYERS: dict[str, Callable[[Engine, Wish], Fields]] = {"L3": _graph}
"""In the order in which they are delivered to."""
