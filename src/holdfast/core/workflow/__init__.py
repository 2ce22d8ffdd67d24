"""The workflow aggregate: ``decide(state, command) -> events``, ``evolve(state, event) -> state``.

Pure: time and ids arrive in the command. Each module of this package has the commands and events
of one subject, and enters both in the tables below. This module also has the beginning of a
workflow, and the questions about its state that all of them ask.
"""

from __future__ import annotations

from holdfast.core.diff import SHARING, merged
from holdfast.core.refusal import Refusal
from holdfast.core.time import epoch_ms, iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.types import (
        Command,
        Draft,
        Event,
        Fields,
        Json,
        Phase,
        Recipe,
        RecipePhase,
        Task,
        Violation,
        Workflow,
    )

    Decision = list[Draft] | Refusal
    Decider = Callable[..., Decision]
    Opener = Callable[[Workflow | None, Fields], Decision]
    Evolver = Callable[[Workflow, Fields, str], Workflow]
    Function = TypeVar("Function", bound=Callable[..., object])

DECIDE: dict[str, Decider] = {}
"""Commands by type: the arguments become events, or a refusal."""
OPEN: dict[str, Opener] = {}
"""Commands that begin a workflow."""
EVOLVE: dict[str, Evolver] = {}
"""Events by type: their data and time become the next state."""
_AFTER_END: set[str] = set()
"""Commands that are decided also on an ended workflow."""
_ABOUT: dict[str, str] = {}
"""Commands about one task, unit or phase, and their words on the command line."""

OPENING = ("workflow_started", "record_adopted")
"""The events that begin a workflow, even if its stream has earlier events."""
MAX_HISTORY = 50
ENDED = ("completed", "abandoned", "expired")
TERMINAL = ("git-commit", "x-archive")
"""The phases in which the work of a workflow is handed over."""
_NOT_BLOCKING = ("MEDIUM", "LOW", "INFO")
_MOVES = (
    "phase_started", "workflow_abandoned", "workflow_resumed", "workflow_renamed", "record_adopted",
    "record_edited", "events_merged",
)  # fmt: skip
"""Events that can change a workflow's title or phase, or whether it is active."""
_REPEATED = (
    "phase", "step", "task", "commit", "reason", "gate", "passed", "outcome", "note", "path",
    "feature", "next", "trigger", "iteration", "clean", "question",
)  # fmt: skip
"""The fields of an event that its entry in the history repeats."""
_REPEATED_AS = {
    "test_written": ("test_file", "file"),
    "failure_confirmed": ("failure_reason", "reason"),
    "task_edited": ("description", "description"),
    "task_removed": ("description", "description"),
    "task_moved": ("to", "to"),
    "reminder_removed": ("text", "text"),
    "context_unset": ("keys", "keys"),
    "workflow_renamed": ("title", "title"),
    "change_undone": ("what", "what"),
}
"""Event types: one more field, of the event or its phase, for the history, and its name there."""


def decides(
    command_type: str, about: str = "", *, after_end: bool = False
) -> Callable[[Function], Function]:
    """Enter the function that decides on a command; ``after_end``: also on an ended workflow.

    ``about`` has the words of a command about one entry, such as ``task done``. The function also
    gets the task, unit or phase. If it does not exist, the command is refused without a call.
    """
    if after_end:
        _AFTER_END.add(command_type)
    if about:
        _ABOUT[command_type] = about
    return _enter(DECIDE, command_type)


def opens(command_type: str) -> Callable[[Function], Function]:
    """Enter the function that decides on a command which begins a workflow."""
    return _enter(OPEN, command_type)


def evolves(*event_types: str) -> Callable[[Function], Function]:
    """Enter the function that returns the state after an event."""
    return _enter(EVOLVE, *event_types)


def _enter(table: Fields, *names: str) -> Callable[[Function], Function]:
    def enter(function: Function) -> Function:
        for name in names:
            table[name] = function
        return function

    return enter


def decide(state: Workflow | None, command: Command) -> Decision:
    """Return the events of a command, or a refusal."""
    command_type, args = command["type"], command["args"]
    if command_type in OPEN:
        return OPEN[command_type](state, args)
    if state is None:
        return Refusal("not_found", "there is no such workflow", "holdfast status")
    if state["status"] in ENDED and command_type not in _AFTER_END:
        how = {"expired": "has expired", "abandoned": "was abandoned"}
        return Refusal(
            "ended",
            f"{command_type.replace('_', ' ')}: {state['id']} "
            f"{how.get(state['status'], 'is completed')}",
            f"holdfast resume {state['id']}",
        )
    if command_type not in _ABOUT:
        return DECIDE[command_type](state, args)
    tried = _ABOUT[command_type]
    kind = tried.partition(" ")[0]
    name = args["phase" if kind == "phase" else "task"]
    entry = find_phase(state, name) if kind == "phase" else find_task(state, name)
    if entry is None:
        return no_such_entry(state, tried, name)
    return DECIDE[command_type](state, entry, args)


def no_such_entry(state: Workflow, tried: str, name: object) -> Refusal:
    """Return the refusal of a command about a task, unit or phase that does not exist."""
    kind = tried.partition(" ")[0]
    noun, owner, hint = kind, state["id"], f"holdfast show {state['id']}"
    names = [str(task["id"]) for task in state["tasks"]]
    if kind == "loop" or (kind == "task" and state["recipe"]["format"] == "loop"):
        noun, owner, hint = "unit", state["subject"], "holdfast loop status"
    elif kind == "phase":
        names = [phase["name"] for phase in state["phases"]]
    elif not names:
        hint = "holdfast task add TEXT"
    choices = ", ".join(names[:20]) or "none"
    why = f"{tried}: {owner} has no {noun} {str(name)[:40]!r}; it has {choices}"
    return Refusal("not_found", why, hint)


def evolve(state: Workflow | None, event: Event) -> Workflow:
    """Return the state after an event; raise ``ValueError`` if it cannot be the first one."""
    event_type, data, at = event["type"], event["data"], event["at"]
    if event_type == "record_adopted":
        return _adopted(data, at)
    if event_type in SHARING:
        shared: Workflow = merged(state, data)
        return shared
    if event_type == "workflow_started":
        state = blank(event["stream"], data["recipe"], at)
    if state is None:
        raise ValueError(f"the stream {event['stream']} does not begin with an opening event")
    after: Workflow = {**EVOLVE[event_type](state, data, at), "updated_at": at}
    entry = {"at": at, "event": event_type}
    for key in _REPEATED:
        if data.get(key) is not None:
            entry[key] = data[key]
    if event_type == "workflow_started":
        entry["task"] = data["title"] or data["subject"]
    elif event_type in _REPEATED_AS:
        field, name = _REPEATED_AS[event_type]
        fields = data.get("fields", data)
        if field in fields:
            entry[name] = fields[field]
    note_in_history(after, entry)
    return after


def note_in_history(after: Workflow, entry: Fields) -> None:
    """Add an entry to the history of a state that nobody else has yet; the length is limited."""
    history = [*after["history"], entry]
    overflow = max(0, len(history) - MAX_HISTORY)
    after["history"] = history[overflow:]
    after["history_earlier"] += overflow


def _adopted(data: Fields, at: str) -> Workflow:
    """Return the state of an adopted record, which was not active because it was adopted.

    Its time to live begins anew. Earlier versions did not record when it was last active.
    """
    adopted: Workflow = data["state"]
    active_ms, at_ms = epoch_ms(str(data.get("active_at", ""))), epoch_ms(at)
    if active_ms is None or at_ms is None or active_ms >= at_ms:
        return {**adopted, "updated_at": at}
    active_at = data["active_at"] if data["active_at"].endswith("Z") else iso(active_ms)
    return {**adopted, "updated_at": active_at, "adopted_at": at}


def blank(workflow_id: str, recipe: Recipe, at: str) -> Workflow:
    """Return a workflow without any progress."""
    return {
        "id": workflow_id,
        "recipe": recipe,
        "subject": "",
        "title": "",
        "status": "in_progress",
        "created_at": at,
        "updated_at": at,
        "branch": None,
        "worktree": ".",
        "record": "",
        "session": None,
        "ttl": recipe.get("ttl"),
        "phase": None,
        "step": None,
        "cycle": 1,
        "phases": [pending_phase(phase) for phase in recipe["phases"]],
        "tasks": [],
        "gates": {
            name: {key: value for key, value in fields.items() if key != "evidence"}
            for name, fields in recipe.get("gates", {}).items()
        },
        "violations": [],
        "required_reading": [],
        "read": {},
        "reminders": [],
        "context": dict(recipe.get("context", {})),
        "tests": {},
        "files": [],
        "commits": [],
        "history": [],
        "history_earlier": 0,
        "extra": {},
    }


def pending_phase(declared: RecipePhase) -> Phase:
    phase: Phase = {"name": declared["name"], "status": "pending"}
    if "steps" in declared:
        phase["steps"] = list(declared["steps"])
    return phase


def is_active(state: Workflow) -> bool:
    return state["status"] not in ENDED


def unread(state: Workflow) -> list[str]:
    """Return the required reading that was not read since the last compaction."""
    return [path for path in state["required_reading"] if path not in state["read"]]


def find_phase(state: Workflow, name: str | None) -> Phase | None:
    return next((phase for phase in state["phases"] if phase["name"] == name), None)


def declared_phase(state: Workflow, name: str | None) -> RecipePhase | None:
    return next((phase for phase in state["recipe"]["phases"] if phase["name"] == name), None)


def next_phases(state: Workflow, name: str) -> list[str]:
    """Return the phases that may follow this one; ``advance`` takes the first."""
    declared = declared_phase(state, name)
    if declared is not None and "next" in declared:
        return list(declared["next"])
    names = [phase["name"] for phase in state["phases"]]
    position = names.index(name)
    return names[position + 1 : position + 2]


def remaining_phases(state: Workflow) -> list[str]:
    """Return the phases after the current one, along the way that ``advance`` takes."""
    names = [phase["name"] for phase in state["phases"]]
    current = state["phase"]
    if current is None:
        return [phase["name"] for phase in state["phases"] if phase["status"] == "pending"]
    ahead: list[str] = []
    following = next_phases(state, current)
    while following and following[0] in names and following[0] not in (*ahead, current):
        ahead.append(following[0])
        following = next_phases(state, following[0])
    return ahead


def is_terminal(name: str | None) -> bool:
    """Return whether the work is handed over in this phase."""
    return name in TERMINAL


def blocking(state: Workflow) -> list[str]:
    """Return the codes of the violations that prevent the hand-over."""
    return [violation["code"] for violation in state["violations"] if is_blocking(violation)]


def is_blocking(violation: Violation) -> bool:
    """Return whether a violation prevents the hand-over. One of an unknown severity does."""
    return violation.get("blocking", False) or violation["severity"].upper() not in _NOT_BLOCKING


def is_news(event: Event, state: Workflow) -> bool:
    """Return whether the project's memory should know of the event."""
    if event["type"] in ("workflow_completed", "workflow_expired", "change_undone"):
        return True
    return event["type"] in _MOVES and state["recipe"]["format"] == "verb"


def is_floating(state: Workflow) -> bool:
    """Return whether the phase that sets the workflow's branch is still to be left."""
    settling = [p["name"] for p in state["recipe"]["phases"] if p.get("sets_branch")]
    return any(
        phase["name"] in settling and phase["status"] not in ("completed", "skipped")
        for phase in state["phases"]
    )


def own_branch(state: Workflow) -> str | None:
    """Return the branch that a phase of the workflow made for it; ``None`` if none did."""
    settling = [p["name"] for p in state["recipe"]["phases"] if p.get("sets_branch")]
    settled = [p for p in state["phases"] if p["name"] in settling and p["status"] == "completed"]
    return state["branch"] if settled else None


def find_task(state: Workflow, task_id: object) -> Task | None:
    own_id = str(task_id)
    return next((task for task in state["tasks"] if str(task["id"]) == own_id), None)


def unit_mark(recipe: Recipe) -> str:
    """Return what a task's id begins with: T or R in a loop, else nothing."""
    if recipe["format"] != "loop":
        return ""
    return "R" if recipe.get("mode") == "knowledge" else "T"


def with_phase(state: Workflow, name: str | None, fields: Fields) -> Workflow:
    """Return the state with fields of a phase changed; a field of ``None`` is removed."""
    changed = [p if p["name"] != name else _merged(p, fields) for p in state["phases"]]
    return {**state, "phases": changed}


def with_task(state: Workflow, task_id: object, fields: Fields) -> Workflow:
    """Return the state with fields of a task changed; a field of ``None`` is removed."""
    own_id = str(task_id)
    changed = [t if str(t["id"]) != own_id else _merged(t, fields) for t in state["tasks"]]
    return {**state, "tasks": changed}


def _merged(item: Json, fields: Fields) -> Json:
    merged = {**item, **fields}
    return {key: value for key, value in merged.items() if value is not None or key not in fields}


# These modules enter their commands and events in the tables above, so they come last.
from holdfast.core.workflow import (  # noqa: E402
    corrections,  # noqa: F401
    edits,  # noqa: F401
    evidence,  # noqa: F401
    lifecycle,  # noqa: F401
    needs,  # noqa: F401
    pool,  # noqa: F401
    questions,  # noqa: F401
    steps,  # noqa: F401
    tasks,  # noqa: F401
)
