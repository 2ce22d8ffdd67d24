"""The records of the four append-only logs: lists of entries, oldest first.

A record's document has the lists; ``rest`` has the counts of older entries. The interview record is
the exception: its newest entry is at the top of the document, and the earlier ones in ``history``.
No entry occurs twice, so an edit has one meaning.
"""

from __future__ import annotations

from holdfast.core.logs import DELEGATION_FIELDS, LEARNING_KINDS
from holdfast.formats import schema
from holdfast.formats.schema import REST_PATH, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields, Origin
    from holdfast.formats.schema import Checks, Path

    State = Any


class LogRecord:
    """Renders and parses the record of a log."""

    def __init__(self, **lists: tuple[str, Checks]) -> None:
        self.lists = lists
        """The lists of the state: the key of each in the document, and the checks of an entry."""

    def render(self, state: State) -> tuple[Fields, Fields]:
        """Return the document, and the rest of the state."""
        document = {key: state[name] for name, (key, _) in self.lists.items()}
        rest = {f"{name}_earlier": state[f"{name}_earlier"] for name in self.lists}
        return {**document, **state["extra"]}, rest

    def parse(self, document: Fields, rest: Fields, _origin: Origin) -> State:
        """Return the state; raise ``Invalid`` if a field has no valid value."""
        state: Fields = {}
        for name, (key, checks) in self.lists.items():
            state[name] = schema.rows(document, key, [])
            for position, entry in enumerate(state[name]):
                self.check_entry(entry, [key, position], checks)
            state[f"{name}_earlier"] = schema.count(rest, f"{name}_earlier", REST_PATH, 0)
        keys = [key for key, _ in self.lists.values()]
        state["extra"] = {key: value for key, value in document.items() if key not in keys}
        return state

    def check_entry(self, entry: Fields, path: Path, checks: Checks) -> None:
        schema.check_fields(entry, path, checks)


class _InterviewRecord(LogRecord):
    """The record whose newest entry is at the top of the document."""

    def render(self, state: State) -> tuple[Fields, Fields]:
        newest = state["interviews"][-1] if state["interviews"] else {}
        document, rest = super().render({**state, "interviews": state["interviews"][:-1]})
        if not state["skips"]:
            del document["skips"]
        return {**newest, **document}, rest

    def parse(self, document: Fields, rest: Fields, origin: Origin) -> State:
        newest = {key: document[key] for key in _INTERVIEW if key in document}
        others = {key: value for key, value in document.items() if key not in _INTERVIEW}
        state = super().parse(others, rest, origin)
        if newest or state["interviews"]:
            self.check_entry(newest, [], _INTERVIEW)
            state["interviews"] = [*state["interviews"], newest]
        return state


class _DelegationRecord(LogRecord):
    """The record whose entries have the fields of their kind."""

    def check_entry(self, entry: Fields, path: Path, checks: Checks) -> None:
        """Check an entry by its kind; one without a kind is a delegation."""
        kind = schema.one_of(entry, "kind", path, DELEGATION_FIELDS, "delegation")
        for key in (*DELEGATION_FIELDS[kind], "timestamp"):
            checks.get(key, schema.text_or_null)(entry, key, path)


def _score_or_null(entry: Fields, key: str, path: Path) -> None:
    score = entry.get(key)
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise Invalid([*path, key], "must be a number")


_TIME = schema.optional(schema.when)
_INTERVIEW: Checks = {
    "skill": schema.named,
    "confidence": _score_or_null,
    "dimensions": schema.values_of(_score_or_null, None),
    "questions_asked": schema.optional(schema.count),
    "timestamp": _TIME,
}
_SKIP: Checks = {
    "skill": schema.named,
    "reason": schema.text_or_null,
    "timestamp": _TIME,
}
_LEARNING: Checks = {
    "text": schema.named,
    "section": schema.text_or_null,
    "kind": schema.word_in(LEARNING_KINDS, None),
    "timestamp": _TIME,
}
_FORGE: Checks = {
    "key": schema.named,
    "text": schema.text_or_null,
    "timestamp": _TIME,
}
_DELEGATION: Checks = {
    **dict.fromkeys(("agent", "from", "to", "suggested", "chosen"), schema.named),
    "duration_ms": schema.optional(schema.count),
    "resolved": schema.optional(schema.flag),
    "timestamp": _TIME,
}
"""The checks of the fields of all kinds; the others are text."""


RECORDS = {
    "interview": _InterviewRecord(interviews=("history", _INTERVIEW), skips=("skips", _SKIP)),
    "delegation": _DelegationRecord(entries=("delegations", _DELEGATION)),
    "learning": LogRecord(learnings=("learnings", _LEARNING)),
    "forge": LogRecord(entries=("entries", _FORGE)),
}
