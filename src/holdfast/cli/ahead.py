"""What comes next in a workflow, as a sentence and a command: the last line of most answers."""

from __future__ import annotations

from holdfast.core.workflow.state import awaits_approval, find_phase, is_active, next_phases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Task, Workflow

Next = tuple[str, list[str]]
"""What it is about, and the words of the command after ``holdfast``."""

_WAITING = ("pending", "completed", "blocked")


def ahead(state: Workflow) -> Next | None:
    """The next step, or ``None`` after the end."""
    if not is_active(state):
        if state["status"] == "completed":
            return None
        return "it can be brought back", ["resume", state["id"]]
    return _task_ahead(state) or _phase_ahead(state) or ("nothing is pending", ["complete"])


def _task_ahead(state: Workflow) -> Next | None:
    for task in state["tasks"]:
        if task["status"] not in _WAITING:
            return _named(task), ["task", "done", str(task["id"])]
    done = {str(task["id"]) for task in state["tasks"] if task["status"] == "completed"}
    for task in state["tasks"]:
        needs = [str(other) for other in task.get("depends", ())]
        if task["status"] == "pending" and done.issuperset(needs):
            return _named(task), ["task", "start", str(task["id"])]
    for task in state["tasks"]:
        if task["status"] == "blocked":
            return f"{_named(task)} is blocked", ["task", "start", str(task["id"])]
    return None


def _phase_ahead(state: Workflow) -> Next | None:
    name = state["phase"]
    if name is None:
        pending = [phase["name"] for phase in state["phases"] if phase["status"] == "pending"]
        return (f"phase {pending[0]}", ["phase", "start", pending[0]]) if pending else None
    phase = find_phase(state, name)
    if phase is not None and phase["status"] == "blocked":
        return f"phase {name} is blocked", ["phase", "unblock", name]
    if phase is not None and phase["status"] == "completed":
        return None
    if phase is not None and awaits_approval(state, phase):
        return f"phase {name} needs a person's approval", ["phase", "approve", name]
    following = next_phases(state, name)
    return f"phase {name} is in progress", ["advance"] if following else ["complete"]


def _named(task: Task) -> str:
    return f"task {task['id']} ({task['description']})"
