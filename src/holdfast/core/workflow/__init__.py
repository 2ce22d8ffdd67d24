"""The workflow aggregate: ``decide(state, command) -> events``, ``evolve(state, event) -> state``.

Pure: time and ids arrive in the command. Each module of this package has the commands of one
subject beside their events; this one joins their tables.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.core.workflow import evidence, lifecycle, phases, tasks
from holdfast.core.workflow.state import append_history, is_active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Command, Draft, Event, Fields, Workflow

    Decider = Callable[[Workflow, Command], list[Draft] | Refusal]
    Evolver = Callable[[Workflow, Fields, str], Workflow]

_MODULES = (lifecycle, phases, tasks, evidence)

DECIDE: dict[str, Decider] = {k: v for module in _MODULES for k, v in module.DECIDE.items()}
EVOLVE: dict[str, Evolver] = {k: v for module in _MODULES for k, v in module.EVOLVE.items()}

OPENING = ("workflow_started", "record_adopted")
"""The events that begin a workflow, whatever is in its stream before."""


def decide(state: Workflow | None, command: Command) -> list[Draft] | Refusal:
    """Return the events of a command, or a refusal."""
    if command["type"] in lifecycle.OPEN:
        return lifecycle.OPEN[command["type"]](state, command)
    if state is None:
        return Refusal("not_found", "there is no such workflow", "holdfast status")
    if not is_active(state) and command["type"] not in lifecycle.ALWAYS:
        return lifecycle.ended(state, command)
    return DECIDE[command["type"]](state, command)


def evolve(state: Workflow | None, event: Event) -> Workflow:
    """Return the state after an event; raise ``ValueError`` if it cannot be the first one."""
    data, at = event["data"], event["at"]
    if event["type"] in OPENING:
        state = lifecycle.opened(event)
        if event["type"] == "record_adopted":
            return state
    if state is None:
        raise ValueError(f"the stream {event['stream']} does not begin with an opening event")
    after: Workflow = {**EVOLVE[event["type"]](state, data, at), "updated_at": at}
    entry = {"at": at, "event": event["type"], **_history_fields(event["type"], data)}
    after["history"], after["history_earlier"] = append_history(after, entry)
    return after


def evolve_leniently(state: Workflow | None, event: Event) -> Workflow | None:
    """Return the state after an event of an incomplete history; ignore what does not fit."""
    if state is None and event["type"] not in OPENING:
        return None
    try:
        return evolve(state, event)
    except (LookupError, ValueError, TypeError, AttributeError):
        return state


def replay(events: list[Event]) -> Workflow | None:
    """Return the state of a stream's events, from the first that opens it."""
    state: Workflow | None = None
    for event in events:
        state = evolve_leniently(state, event)
    return state


_REPEATED = (
    "phase", "step", "task", "commit", "reason", "gate", "passed", "outcome", "note", "path",
    "feature", "next", "trigger", "iteration", "clean",
)  # fmt: skip


def _history_fields(event_type: str, data: Fields) -> Fields:
    """Return the fields of an event that its entry in the history repeats."""
    fields = {key: data[key] for key in _REPEATED if key in data and data[key] is not None}
    if event_type == "workflow_started":
        fields["task"] = data["title"] or data["subject"]
    if event_type in _TEST_FIELDS:
        source, name = _TEST_FIELDS[event_type]
        if source in data["fields"]:
            fields[name] = data["fields"][source]
    return fields


_TEST_FIELDS = {
    "test_written": ("test_file", "file"),
    "failure_confirmed": ("failure_reason", "reason"),
}
