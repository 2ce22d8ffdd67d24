"""Whether a replayed state is sound: a record can be rendered from it and parsed again.

An event with a valid hash may still say what Holdfast never wrote. The parsers of the formats know
what a state has to be; an event that leads to a state which they refuse is left out.
"""

from __future__ import annotations

from holdfast import formats
from holdfast.core import json_text, workflow
from holdfast.formats.schema import Invalid, is_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.types import Event, Origin, Workflow

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


def flaw(state: Workflow) -> str | None:
    """Return what is wrong with a state; ``None`` if it is sound."""
    try:
        return _flaw(state)
    except Invalid as invalid:
        return str(invalid)
    except (LookupError, TypeError, ValueError, AttributeError):
        return "its fields are missing or not of their kind"


def _flaw(state: Workflow) -> str | None:
    paths = (state["record"], state["worktree"])
    if not is_safe(state["id"]) or not all(isinstance(path, str) for path in paths):
        return "it has no name, or no place"
    name = state["recipe"]["format"]
    if name not in formats.FORMATS:
        return f"{name!r:.40} is no format"
    origin: Origin = {
        "at": state["created_at"],
        "path": state["record"],
        "worktree": state["worktree"],
        "recipe": lambda _: None,
    }
    document, rest = formats.module(name).render(state)
    formats.module(name).parse(document, rest, origin)
    json_text.laid_out({"document": document, "rest": rest})
    return None


def has_valid_fields(event: Event) -> bool:
    """Return whether the fields of an event have the types that their names have everywhere."""
    data = event["data"]
    if not event["type"].startswith(_OWN_EVENTS):
        return True
    return all(isinstance(data[name], _KINDS[name]) for name in data if name in _KINDS)


def replay(read: Callable[[], Iterable[Event]]) -> tuple[Workflow | None, list[Event]]:
    """Return the state of a stream's events, and the events that do not fit."""
    state, unfit = _replay(read(), is_careful=False)
    if state is not None and flaw(state) is not None:
        state, unfit = _replay(read(), is_careful=True)
    return state, unfit


def _replay(events: Iterable[Event], *, is_careful: bool) -> tuple[Workflow | None, list[Event]]:
    state: Workflow | None = None
    unfit = []
    for event in events:
        after = workflow.evolve_leniently(state, event) if has_valid_fields(event) else state
        if after is None or after is state or (is_careful and flaw(after) is not None):
            unfit.append(event)
        else:
            state = after
    return state, unfit
