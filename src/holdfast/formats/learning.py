"""The record of learnings, ``.claude/learnings.json``: a list, oldest first."""

from __future__ import annotations

from holdfast.core.learning import KINDS
from holdfast.formats.schema import (
    PLACE,
    check_object,
    count,
    named,
    one_of,
    rows,
    text,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.log_types import Learning
    from holdfast.core.types import Fields, Origin
    from holdfast.formats.schema import Path


def path() -> str:
    """Where the record stands, from the worktree's root."""
    return ".claude/learnings.json"


def render(state: Learning) -> tuple[Fields, Fields]:
    """The document, and the rest of the state."""
    return (
        {"learnings": state["learnings"], **state["extra"]},
        {"learnings_earlier": state["learnings_earlier"]},
    )


def parse(document: Fields, rest: Fields, _origin: Origin) -> Learning:
    """The state; ``Invalid`` when the document makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    learnings = rows(document, "learnings", [])
    for position, entry in enumerate(learnings):
        place: Path = ["learnings", position]
        named(entry, "text", place)
        text(entry, "section", place, None)
        if entry.get("kind") is not None:
            one_of(entry, "kind", place, KINDS, KINDS[0])
        when(entry, "timestamp", place, None)
    return {
        "learnings": learnings,  # type: ignore[typeddict-item]
        "learnings_earlier": count(rest, "learnings_earlier", PLACE, 0),
        "extra": {key: value for key, value in document.items() if key != "learnings"},
    }
