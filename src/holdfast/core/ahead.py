"""What comes next in a workflow: what it is about, and the command."""

from __future__ import annotations

from holdfast.core.workflow.state import (
    awaits_approval,
    find_phase,
    find_task,
    is_active,
    next_phases,
)

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
    return (
        _unblocking(state)
        or _task_ahead(state)
        or _phase_ahead(state)
        or ("nothing is pending", ["complete"])
    )


def _unblocking(state: Workflow) -> Next | None:
    phase = find_phase(state, state["phase"])
    if phase is None or phase["status"] != "blocked":
        return None
    reason = f" ({phase['reason']})" if phase.get("reason") else ""
    return f"phase {phase['name']} is blocked{reason}", ["phase", "unblock", phase["name"]]


def current_task(state: Workflow) -> Task | None:
    """The task being worked on, else the first that can be begun, else one that is blocked."""
    current = find_task(state, state.get("current_task"))
    if current is not None and current["status"] not in _WAITING:
        return current
    done = {str(task["id"]) for task in state["tasks"] if task["status"] == "completed"}
    ready = [
        task
        for task in state["tasks"]
        if task["status"] == "pending" and done.issuperset(map(str, task.get("depends", ())))
    ]
    begun = [task for task in state["tasks"] if task["status"] not in _WAITING]
    blocked = [task for task in state["tasks"] if task["status"] == "blocked"]
    return next(iter([*begun, *ready, *blocked]), None)


def _task_ahead(state: Workflow) -> Next | None:
    task = current_task(state)
    if task is None:
        return None
    name = f"task {task['id']} ({task['description']})"
    if task["status"] == "blocked":
        return f"{name} is blocked", ["task", "start", str(task["id"])]
    return name, ["task", "start" if task["status"] == "pending" else "done", str(task["id"])]


def _phase_ahead(state: Workflow) -> Next | None:
    name = state["phase"]
    if name is None:
        pending = [phase["name"] for phase in state["phases"] if phase["status"] == "pending"]
        return (f"phase {pending[0]}", ["phase", "start", pending[0]]) if pending else None
    phase = find_phase(state, name)
    if phase is not None and phase["status"] == "completed":
        return None
    if phase is not None and awaits_approval(state, phase):
        return f"phase {name} needs a person's approval", ["phase", "approve", name]
    following = next_phases(state, name)
    return f"phase {name} is in progress", ["advance"] if following else ["complete"]
