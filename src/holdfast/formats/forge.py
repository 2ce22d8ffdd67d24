"""The record of the forge context, ``.claude/forge-context.json``: a list, oldest first."""

from __future__ import annotations

from holdfast.formats.schema import PLACE, check_object, count, named, rows, text, when

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.log_types import Forge
    from holdfast.core.types import Fields, Origin
    from holdfast.formats.schema import Path


def path() -> str:
    """Where the record stands, from the worktree's root."""
    return ".claude/forge-context.json"


def render(state: Forge) -> tuple[Fields, Fields]:
    """The document, and the rest of the state."""
    document: Fields = {"entries": state["entries"], **state["extra"]}
    return document, {"entries_earlier": state["entries_earlier"]}


def parse(document: Fields, rest: Fields, _origin: Origin) -> Forge:
    """The state; ``Invalid`` when the document makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    entries = rows(document, "entries", [])
    for position, entry in enumerate(entries):
        place: Path = ["entries", position]
        named(entry, "key", place)
        text(entry, "text", place, None)
        when(entry, "timestamp", place, None)
    return {
        "entries": entries,
        "entries_earlier": count(rest, "entries_earlier", PLACE, 0),
        "extra": {key: value for key, value in document.items() if key != "entries"},
    }
