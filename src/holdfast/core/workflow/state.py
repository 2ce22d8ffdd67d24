"""The state of a workflow: its beginning, and the questions that all modules ask."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event, Fields, Phase, Recipe, RecipePhase, Task, Workflow

MAX_HISTORY = 50
ENDED = ("completed", "abandoned", "expired")
TERMINAL = ("git-commit", "x-archive")
"""The phases in which the work of a workflow is handed over."""
BLOCKING = ("CRITICAL", "HIGH")
_MOVES = (
    "phase_started", "workflow_abandoned", "workflow_resumed", "record_adopted", "record_edited",
)  # fmt: skip
"""Events that can change the phase of a workflow, or whether it is active."""


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
        "gates": {name: dict(fields) for name, fields in recipe.get("gates", {}).items()},
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


def pending_gates(state: Workflow) -> list[str]:
    """Return the gates that are not passed."""
    return [name for name, gate in state["gates"].items() if not is_passed(gate)]


def is_passed(gate: Fields) -> bool:
    return gate.get("status") == "completed" and gate.get("passed") is not False


def is_terminal(name: str | None) -> bool:
    """Return whether the work is handed over in this phase."""
    return name in TERMINAL


def blocking(state: Workflow) -> list[str]:
    """Return the codes of the violations that prevent the hand-over."""
    return [v["code"] for v in state["violations"] if v["severity"].upper() in BLOCKING]


def is_news(event: Event, state: Workflow) -> bool:
    """Return whether the project's memory should know of the event."""
    if event["type"] in ("workflow_completed", "workflow_expired"):
        return True
    return event["type"] in _MOVES and state["recipe"]["format"] == "verb"


def awaits_approval(state: Workflow, phase: Phase) -> bool:
    """Return whether a person has yet to approve the phase before it can be completed."""
    declared = declared_phase(state, phase["name"])
    return declared is not None and declared.get("approval", False) and not phase.get("approved")


def is_floating(state: Workflow) -> bool:
    """Return whether the phase that sets the workflow's branch is not completed."""
    settling = [p["name"] for p in state["recipe"]["phases"] if p.get("sets_branch")]
    return any(
        phase["name"] in settling and phase["status"] != "completed" for phase in state["phases"]
    )


def find_task(state: Workflow, task_id: object) -> Task | None:
    own_id = str(task_id)
    return next((task for task in state["tasks"] if str(task["id"]) == own_id), None)


def unit_mark(recipe: Recipe) -> str:
    """Return what a task's id begins with: T or R in a loop, else nothing."""
    if recipe["format"] != "loop":
        return ""
    return "R" if recipe.get("mode") == "knowledge" else "T"


def with_phase(state: Workflow, name: str, fields: Fields) -> list[Phase]:
    """Return the phases with one of them changed; a field of ``None`` is removed."""
    return [
        phase if phase["name"] != name else _merged(phase, fields)  # type: ignore[arg-type, misc]
        for phase in state["phases"]
    ]


def with_task(state: Workflow, task_id: object, fields: Fields) -> list[Task]:
    """Return the tasks with one of them changed; a field of ``None`` is removed."""
    own_id = str(task_id)
    return [
        task if str(task["id"]) != own_id else _merged(task, fields)  # type: ignore[arg-type, misc]
        for task in state["tasks"]
    ]


def _merged(item: Fields, fields: Fields) -> Fields:
    merged = {**item, **fields}
    return {key: value for key, value in merged.items() if value is not None or key not in fields}


def append_history(state: Workflow, entry: Fields) -> tuple[list[Fields], int]:
    """Return the history with one more entry, and the number of entries that it dropped."""
    history = [*state["history"], entry]
    overflow = max(0, len(history) - MAX_HISTORY)
    return history[overflow:], state["history_earlier"] + overflow
