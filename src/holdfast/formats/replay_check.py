"""Whether a replayed state makes sense: if a record can be made of it, and read again.

A line of the ledger that has its hash may still say what no Holdfast ever wrote. The parsers of the
formats know what a state has to be, so they are asked; an event that leads to a state which they
refuse is left out.
"""

from __future__ import annotations

from holdfast import formats
from holdfast.core import json_text, workflow
from holdfast.formats.schema import Invalid, is_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.types import Event, Origin, Workflow

_NO_TEXT = (str, type(None))
_OWN_WORDS = ("workflow_", "phase_", "step_", "task_", "reminder_", "reading_", "gate_", "record_")
"""How the types of events begin that say nothing in a client's words."""
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("phase", "step", "description", "text", "path", "gate", "record"), str),
    **dict.fromkeys(("subject", "title", "worktree"), str),
    **dict.fromkeys(("reason", "commit", "outcome", "branch", "ttl"), _NO_TEXT),
    **dict.fromkeys(("recipe", "state", "fields", "context"), dict),
    **dict.fromkeys(("changes", "depends", "reminders", "required_reading", "unapproved"), list),
    "task": (int, str),
    "session": (dict, type(None)),
}


def flaw(state: Workflow) -> str | None:
    """What is wrong with the state; ``None`` when it is one."""
    try:
        return _flaw(state)
    except Invalid as invalid:
        return str(invalid)
    except (LookupError, TypeError, ValueError, AttributeError):
        return "its fields are missing or not of their kind"


def _flaw(state: Workflow) -> str | None:
    places = (state["record"], state["worktree"])
    if not is_safe(state["id"]) or not all(isinstance(place, str) for place in places):
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


def is_told(event: Event) -> bool:
    """Whether the fields of an event are of the kinds that its words have everywhere."""
    data = event["data"]
    if not event["type"].startswith(_OWN_WORDS):
        return True
    return all(isinstance(data[name], _KINDS[name]) for name in data if name in _KINDS)


def replayed(read: Callable[[], Iterable[Event]]) -> tuple[Workflow | None, list[Event]]:
    """Return the state that a stream's events give, and those that make no sense."""
    state, odd = _carried(read(), is_careful=False)
    if state is not None and flaw(state) is not None:
        state, odd = _carried(read(), is_careful=True)
    return state, odd


def _carried(events: Iterable[Event], *, is_careful: bool) -> tuple[Workflow | None, list[Event]]:
    state: Workflow | None = None
    odd = []
    for event in events:
        after = workflow.evolve_leniently(state, event) if is_told(event) else state
        if after is None or after is state or (is_careful and flaw(after) is not None):
            odd.append(event)
        else:
            state = after
    return state, odd
