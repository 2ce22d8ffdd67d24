"""The workflow aggregate: ``decide(state, command) -> events``, ``evolve(state, event) -> state``.

Pure: time, ids and places arrive in the command. Each room below holds the commands and the
events of one matter side by side; this module only joins their tables.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.core.workflow import evidence, folder_mode, lifecycle, notes, phases, tasks, units
from holdfast.core.workflow.state import is_active, remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Command, Draft, Event, Fields, Workflow

    Decider = Callable[[Workflow, Command], list[Draft] | Refusal]
    Evolver = Callable[[Workflow, Fields, str], Workflow]

_ROOMS = (lifecycle, phases, tasks, units, notes, evidence)

DECIDE: dict[str, Decider] = {name: made for room in _ROOMS for name, made in room.DECIDE.items()}
EVOLVE: dict[str, Evolver] = {
    name: made for room in (*_ROOMS, folder_mode) for name, made in room.EVOLVE.items()
}

OPENING = ("workflow_started", "record_adopted")
"""The events that begin a workflow, whatever stood in its stream before."""


def decide(state: Workflow | None, command: Command) -> list[Draft] | Refusal:
    """What happens when the command meets the state: events, or a refusal."""
    if command["type"] in lifecycle.OPEN:
        return lifecycle.OPEN[command["type"]](state, command)
    if state is None:
        return Refusal("not_found", "there is no such workflow", "holdfast status")
    if not is_active(state) and command["type"] not in lifecycle.ALWAYS:
        return lifecycle.ended(state, command)
    return DECIDE[command["type"]](state, command)


def evolve(state: Workflow | None, event: Event) -> Workflow:
    """The state after the event."""
    data, at = event["data"], event["at"]
    if event["type"] in OPENING:
        state = lifecycle.opened(event)
        if event["type"] == "record_adopted":
            return state
    if state is None:
        raise ValueError(f"the stream {event['stream']} does not begin with an opening event")
    after: Workflow = {**EVOLVE[event["type"]](state, data, at), "updated_at": at}
    entry = {"at": at, "event": event["type"], **_told(event["type"], data)}
    after["history"], after["history_earlier"] = remembered(after, entry)
    return after


def carried(state: Workflow | None, event: Event) -> Workflow | None:
    """The state after an event of a history that may miss some: what does not fit is left out."""
    if state is None and event["type"] not in OPENING:
        return None
    try:
        return evolve(state, event)
    except (LookupError, ValueError, TypeError, AttributeError):
        return state


def replay(events: list[Event]) -> Workflow | None:
    """The state that a stream's events give, from the first that opens it."""
    state: Workflow | None = None
    for event in events:
        state = carried(state, event)
    return state


_TOLD = (
    "phase", "step", "task", "commit", "reason", "gate", "passed", "outcome", "note", "path",
    "feature", "next", "trigger", "iteration", "clean",
)  # fmt: skip


def _told(event_type: str, data: Fields) -> Fields:
    """The few fields of an event that its line in the history repeats."""
    told = {key: data[key] for key in _TOLD if key in data and data[key] is not None}
    if event_type == "workflow_started":
        told["task"] = data["title"] or data["subject"]
    if event_type in _TOLD_OF_TESTS:
        ours, theirs = _TOLD_OF_TESTS[event_type]
        told = {**told, theirs: data["fields"][ours]} if ours in data["fields"] else told
    return told


_TOLD_OF_TESTS = {
    "test_written": ("test_file", "file"),
    "failure_confirmed": ("failure_reason", "reason"),
}
