"""The record of interviews, ``.claude/interview-state.json``.

The newest interview stands at the top of the document and those before it in ``history``, oldest
first: none stands twice, so an edit has one meaning. ``skips`` lists interviews nobody wanted.
"""

from __future__ import annotations

from holdfast.formats.schema import (
    PLACE,
    Invalid,
    check_object,
    count,
    named,
    rows,
    table,
    text,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.log_types import Interview
    from holdfast.core.types import Fields, Json, Origin
    from holdfast.formats.schema import Path

ENTRY = ("skill", "confidence", "dimensions", "questions_asked", "timestamp")
KEYS = (*ENTRY, "history", "skips")


def path() -> str:
    """Where the record stands, from the worktree's root."""
    return ".claude/interview-state.json"


def render(state: Interview) -> tuple[Fields, Fields]:
    """The document, and the rest of the state."""
    newest: Json = state["interviews"][-1] if state["interviews"] else {}
    document: Fields = {**newest, "history": state["interviews"][:-1]}
    if state["skips"]:
        document["skips"] = state["skips"]
    rest = {
        "interviews_earlier": state["interviews_earlier"],
        "skips_earlier": state["skips_earlier"],
    }
    return {**document, **state["extra"]}, rest


def parse(document: Fields, rest: Fields, _origin: Origin) -> Interview:
    """The state; ``Invalid`` when the document makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    interviews: Json = rows(document, "history", [])
    skips: Json = rows(document, "skips", [])
    for position, entry in enumerate(interviews):
        _check_interview(entry, ["history", position])
    for position, entry in enumerate(skips):
        _check_skip(entry, ["skips", position])
    newest = {key: document[key] for key in ENTRY if key in document}
    if newest or interviews:
        _check_interview(newest, [])
        interviews = [*interviews, newest]
    return {
        "interviews": interviews,
        "interviews_earlier": count(rest, "interviews_earlier", PLACE, 0),
        "skips": skips,
        "skips_earlier": count(rest, "skips_earlier", PLACE, 0),
        "extra": {key: value for key, value in document.items() if key not in KEYS},
    }


def _check_interview(entry: Fields, place: Path) -> None:
    named(entry, "skill", place)
    _check_score(entry, "confidence", place)
    dimensions = table(entry, "dimensions", place)
    for name in dimensions:
        _check_score(dimensions, name, [*place, "dimensions"])
    count(entry, "questions_asked", place, None)
    when(entry, "timestamp", place, None)


def _check_score(entry: Fields, key: str, place: Path) -> None:
    score = entry.get(key)
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise Invalid([*place, key], "must be a number")


def _check_skip(entry: Fields, place: Path) -> None:
    named(entry, "skill", place)
    text(entry, "reason", place, None)
    when(entry, "timestamp", place, None)
