"""The record of initiatives, ``.claude/initiative.json``: its document is the current one.

The others are in the rest, each as the document and the rest of its own. A document that names
another initiative than before makes that one current; what it does not speak of stays as it was.
"""

from __future__ import annotations

from holdfast.core.initiatives import current_of, key_of
from holdfast.formats import initiative
from holdfast.formats.schema import PLACE, Invalid, check_object, named, table, tables, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Initiative, Initiatives, Origin
    from holdfast.formats.schema import Path


def render(state: Initiatives) -> tuple[Fields, Fields]:
    """The document, and the rest of the state."""
    current = current_of(state)
    others = {
        key: dict(zip(("document", "rest"), initiative.render(one), strict=True))
        for key, one in state["all"].items()
        if key != state["current"]
    }
    if current is None:
        return {}, {"others": others}
    document, rest = initiative.render(current)
    return document, {**rest, "key": state["current"], "name": current["name"], "others": others}


def parse(document: Fields, rest: Fields, origin: Origin) -> Initiatives:
    """The state; ``Invalid`` when the document makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    name = named(document, "name", [])
    found: dict[str, Initiative] = {}
    own: Fields = {}
    key = key_of(name)
    for other, told in tables(rest, "others", PLACE).items():
        place: Path = [*PLACE, "others", other]
        _check_key(other, place)
        one = initiative.parse(table(told, "document", place), table(told, "rest", place), origin)
        if one["name"] == name:
            key, own = other, table(told, "rest", place)
        found[other] = one
    if text(rest, "name", PLACE, None) == name:
        key, own = text(rest, "key", PLACE, key), rest
        _check_key(key, [*PLACE, "key"])
    return {"current": key, "all": {**found, key: initiative.parse(document, own, origin)}}


def _check_key(key: str, place: Path) -> None:
    """A key is the name of a folder, so it is nothing that leads anywhere else."""
    if key_of(key) != key:
        raise Invalid(place, "must be lower case letters, digits and -")
