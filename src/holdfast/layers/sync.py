"""``sync``: every layer beside the records is brought up to date, and says what it was given.

A layer is a function that takes the session and returns its row. A layer that cannot be reached
is a row that says so; it does not hold up the others.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.keeper.session import Session

    Layer = Callable[[Session, "Wish"], Fields]

DELIVERED, CURRENT, UNAVAILABLE, OFF = "delivered", "current", "unavailable", "off"


class Wish:
    """How a layer is to be brought up to date."""

    __slots__ = ("everything", "foreground")

    def __init__(self, *, everything: bool, foreground: bool) -> None:
        self.everything = everything
        """As if nothing had been delivered yet."""
        self.foreground = foreground
        """Whether a person or their agent asks, not an agent in the background."""


def sync(session: Session, *, everything: bool = False, foreground: bool = True) -> list[Fields]:
    """A row for each layer."""
    wish = Wish(everything=everything, foreground=foreground)
    return [{"layer": name, **_tried(session, wish, layer)} for name, layer in LAYERS.items()]


def _tried(session: Session, wish: Wish, layer: Layer) -> Fields:
    try:
        return layer(session, wish)
    except HoldfastError as error:
        why = _trouble(error.code, error.message, error.hint)
        return {"target": "", "status": UNAVAILABLE, "error": why}
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        message = f"the system refused: {error.strerror or error}{where}"
        why = _trouble("storage", message, "see to that, then run the same command again")
        return {"target": "", "status": UNAVAILABLE, "error": why}


def _memory(session: Session, _wish: Wish) -> Fields:
    """L2: our section of the ``MEMORY.md`` that the client loads."""
    from holdfast.layers.memory.memory_file import UNAVAILABLE as WARNING
    from holdfast.layers.memory.memory_file import Memory

    memory = Memory(session)
    if memory.path is None:
        return {"target": OFF, "status": OFF}
    row: Fields = {"target": memory.path, "status": CURRENT}
    if session.store.ledger.head_seq and memory.write():
        row["status"] = DELIVERED
    trouble = [note for note in session.store.notes if note.startswith(WARNING)]
    if trouble:
        hint = "make the file and its folder writable, then run the same command again"
        why = _trouble("memory_unavailable", trouble[0], hint)
        row |= {"status": UNAVAILABLE, "error": why}
    return row


def _graph(session: Session, wish: Wish) -> Fields:
    """L3: the embedded graph, or the server that the settings name."""
    from holdfast.workspace import settings

    kept_by = settings.load(session.store.workspace.root).graph()
    keep = _kept(kept_by)
    return {**_tried(session, wish, keep), "target": kept_by}


def _kept(by: str) -> Layer:
    if by == "off":
        return lambda _session, _wish: {"status": OFF}
    if by == "embedded":
        return _embedded
    return lambda session, wish: _server(session, by.removeprefix("mcp:"), wish)


def _embedded(session: Session, _wish: Wish) -> Fields:
    """The embedded graph is in the ledger, and never behind it."""
    return _row(0, 0, session.store.ledger.head_seq)


def _server(session: Session, name: str, wish: Wish) -> Fields:
    from holdfast.layers.graph import mcp_delivery

    if not wish.foreground:
        why = _trouble("background", "an agent in the background never writes L3", "holdfast sync")
        return {"status": UNAVAILABLE, "error": why}
    if not session.store.ledger.head_seq:
        return _row(0, 0, 0)
    found = mcp_delivery.deliver(session.store, name, everything=wish.everything)
    row = _row(found.events, found.entities, found.seq)
    if found.why:
        hint = f"holdfast sync, when it is back; it is left alone until {found.until}"
        message = f"{mcp_delivery.WARNING}: {found.why}"
        why = _trouble("graph_unavailable", message, hint)
        row |= {"status": UNAVAILABLE, "behind": found.behind, "error": why}
    return row


def _row(events: int, entities: int, seq: int) -> Fields:
    status = DELIVERED if events else CURRENT
    return {"status": status, "events": events, "entities": entities, "seq": seq}


def _trouble(code: str, message: str, hint: str) -> Fields:
    return {"code": code, "message": message, "hint": hint}


LAYERS: dict[str, Layer] = {"L2": _memory, "L3": _graph}
"""In the order in which they are delivered to."""
