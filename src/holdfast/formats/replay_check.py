"""The replay of a stream, and whether the state that it leads to is sound.

An event with a valid hash may still say what Holdfast never wrote. The parsers of the formats know
what a state has to be; an event that leads to a state which they refuse is left out.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.record_formats import FORMATS
from holdfast.formats import WORKFLOW
from holdfast.formats.schema import Invalid, is_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Event, Origin
    from holdfast.formats import Aggregate, Read, State

_UNFIT = (LookupError, TypeError, ValueError, AttributeError)
_TEXT_OR_NULL = (str, type(None))
_OWN_EVENTS = ("workflow_", "phase_", "step_", "task_", "reminder_", "reading_", "gate_", "record_")
"""Prefixes of event types whose fields Holdfast alone defines."""
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("phase", "step", "description", "text", "path", "gate", "record"), str),
    **dict.fromkeys(("subject", "title", "worktree"), str),
    **dict.fromkeys(("reason", "commit", "outcome", "branch", "ttl"), _TEXT_OR_NULL),
    **dict.fromkeys(("recipe", "state", "fields", "context"), dict),
    **dict.fromkeys(("changes", "depends", "reminders", "required_reading", "unapproved"), list),
    "task": (int, str),
    "session": (dict, type(None)),
}


def replay(aggregate: Aggregate, read: Read) -> tuple[State | None, list[Event]]:
    """Return the state of a stream's events, and the events that do not fit."""
    state, unfit = _replay(aggregate, read(), is_careful=False)
    if state is not None and flaw(aggregate, state) is not None:
        state, unfit = _replay(aggregate, read(), is_careful=True)
    return state, unfit


def _replay(
    aggregate: Aggregate, events: Iterable[Event], *, is_careful: bool
) -> tuple[State | None, list[Event]]:
    state: State | None = None
    unfit = []
    for event in events:
        try:
            after = aggregate.evolve(state, event) if _has_valid_fields(aggregate, event) else None
        except _UNFIT:
            after = None
        if after is None or (is_careful and flaw(aggregate, after) is not None):
            unfit.append(event)
        else:
            state = after
    return state, unfit


def _has_valid_fields(aggregate: Aggregate, event: Event) -> bool:
    """Return whether the fields of an event have the types that their names have in workflows."""
    if aggregate.kind != WORKFLOW or not event["type"].startswith(_OWN_EVENTS):
        return True
    return all(isinstance(event["data"][k], _KINDS[k]) for k in event["data"] if k in _KINDS)


def flaw(aggregate: Aggregate, state: State) -> str | None:
    """Return why no record can be rendered from a state and parsed again; ``None`` if it can."""
    origin: Origin = {"at": "", "path": "", "worktree": "", "recipe": lambda _: None}
    try:
        if aggregate.kind == WORKFLOW:
            paths = (state["record"], state["worktree"])
            if not is_safe(state["id"]) or not all(isinstance(path, str) for path in paths):
                return "it has no name, or no place"
            if state["recipe"]["format"] not in FORMATS:
                return f"{state['recipe']['format']!r:.40} is no format"
            origin |= {"at": state["created_at"], "path": paths[0], "worktree": paths[1]}
        record_format = aggregate.record_format(state)
        document, rest = record_format.render(state)
        record_format.parse(document, rest, origin)
        json_text.pretty({"document": document, "rest": rest})
    except Invalid as invalid:
        return str(invalid)
    except _UNFIT:
        return "its fields are missing or not of their kind"
    return None
