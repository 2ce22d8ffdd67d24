"""Tasks: add, start, complete, block."""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, word
from holdfast.core.workflow.state import find_task, unit_mark, with_task
from holdfast.core.workflow.units import REVIEWED, move_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Command, Draft, Fields, Task, Workflow

MAX_TASKS = 10_000


def add(state: Workflow, command: Command) -> list[Draft] | Refusal:
    text = command["args"]["description"]
    refusal = bad_text("task", text)
    if refusal is not None:
        return refusal
    if len(state["tasks"]) >= MAX_TASKS:
        return Refusal(
            "too_many",
            f"task add: {state['id']} has {MAX_TASKS} tasks already",
            "holdfast start another workflow for the rest",
        )
    data: Fields = {"task": _next_id(state), "description": text}
    depends = command["args"].get("depends")
    if depends:
        unknown = [name for name in depends if find_task(state, name) is None]
        if unknown:
            return _no_such_task(state, "add", unknown[0])
        data["depends"] = depends
    return [{"type": "task_added", "data": data}]


def _next_id(state: Workflow) -> int | str:
    mark = unit_mark(state["recipe"])
    numbers = [str(task["id"]).removeprefix(mark) for task in state["tasks"]]
    following = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
    return f"{mark}{following}" if mark else following


def start(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "start", command["args"]["task"])
    if task["status"] in ("in_progress", "completed"):
        return _already(state, "start", task)
    done = [str(other["id"]) for other in state["tasks"] if other["status"] == "completed"]
    waiting = [name for name in task.get("depends", []) if str(name) not in done]
    if waiting:
        return Refusal(
            "wrong_order",
            f"task start: {task['id']} of {state['id']} waits for {', '.join(map(str, waiting))}",
            f"holdfast task start {word(waiting[0])}",
        )
    return [{"type": "task_started", "data": {"task": task["id"]}}]


def start_phase(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Enter a sub-phase of a task; the earlier ones are completed."""
    name = command["args"]["phase"]
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "phase", command["args"]["task"])
    names = state["recipe"].get("task_phases", [])
    if name not in names:
        return Refusal(
            "not_found",
            f"task phase: tasks of {state['id']} have no phase {name[:40]!r}; "
            f"they have {', '.join(names) or 'none'}",
            f"holdfast show {state['id']}",
        )
    if task["status"] == "completed":
        return _already(state, "phase", task)
    return [{"type": "task_phase_started", "data": {"task": task["id"], "phase": name}}]


def complete(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "done", command["args"]["task"])
    if task["status"] == "completed":
        return _already(state, "done", task)
    if state["recipe"]["format"] == "loop":
        return Refusal(
            "wrong_order",
            f"task done: {task['id']} of {state['id']} is a loop's unit, which is done when it was "
            "confirmed and verified",
            "holdfast loop next",
        )
    if task["status"] == "blocked":
        return Refusal(
            "blocked",
            f"task done: {task['id']} of {state['id']} is blocked ({task.get('reason', '')})",
            f"holdfast task start {word(task['id'])}",
        )
    data: Fields = {"task": task["id"]}
    commit = command["args"].get("commit")
    if commit is not None:
        refusal = bad_text("commit", commit)
        if refusal is not None:
            return refusal
        data["commit"] = commit
    return [{"type": "task_completed", "data": data}]


def block(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "block", command["args"]["task"])
    if task["status"] == "completed":
        return _already(state, "block", task)
    refusal = bad_text("reason", command["args"]["reason"])
    if refusal is not None:
        return refusal
    data = {"task": task["id"], "reason": command["args"]["reason"]}
    drafts: list[Draft] = [{"type": "task_blocked", "data": data}]
    if state["recipe"]["format"] == "loop":
        drafts += move_phase(state, "execute", only_from=REVIEWED)
    return drafts


def _no_such_task(state: Workflow, tried: str, task_id: object) -> Refusal:
    known = ", ".join(str(task["id"]) for task in state["tasks"][:20]) or "none"
    return Refusal(
        "not_found",
        f"task {tried}: {state['id']} has no task {str(task_id)[:40]!r}; it has {known}",
        "holdfast task add TEXT" if not state["tasks"] else f"holdfast show {state['id']}",
    )


def _already(state: Workflow, tried: str, task: Task) -> Refusal:
    return Refusal(
        "already",
        f"task {tried}: {task['id']} of {state['id']} is {task['status'].replace('_', ' ')}",
        f"holdfast show {state['id']}",
    )


def _added(state: Workflow, data: Fields, _at: str) -> Workflow:
    task: Task = {"id": data["task"], "description": data["description"], "status": "pending"}
    if "depends" in data:
        task["depends"] = data["depends"]
    return {**state, "tasks": [*state["tasks"], task]}


def _started(state: Workflow, data: Fields, at: str) -> Workflow:
    changed = {"status": "in_progress", "started_at": at, "reason": None}
    tasks = with_task(state, data["task"], changed)
    return {**state, "tasks": tasks, "current_task": data["task"]}


def _phase_started(state: Workflow, data: Fields, at: str) -> Workflow:
    names = state["recipe"].get("task_phases", [])
    reached = names.index(data["phase"])
    words = ["completed"] * reached + ["in_progress"] + ["pending"] * (len(names) - reached - 1)
    task = find_task(state, data["task"])
    started = task.get("started_at", at) if task is not None else at
    changed = {
        "status": "in_progress",
        "started_at": started,
        "reason": None,
        "phases": dict(zip(names, words, strict=True)),
    }
    tasks = with_task(state, data["task"], changed)
    return {**state, "tasks": tasks, "current_task": data["task"]}


def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    fields: Fields = {"status": "completed", "completed_at": at}
    names = state["recipe"].get("task_phases", [])
    if names:
        fields["phases"] = dict.fromkeys(names, "completed")
    if "commit" in data:
        fields["commit"] = data["commit"]
    return {**state, "tasks": with_task(state, data["task"], fields)}


def _blocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "blocked", "reason": data["reason"]}
    tasks = with_task(state, data["task"], changed)
    return {**state, "tasks": tasks}


DECIDE = {
    "add_task": add,
    "start_task": start,
    "start_task_phase": start_phase,
    "complete_task": complete,
    "block_task": block,
}
EVOLVE = {
    "task_added": _added,
    "task_started": _started,
    "task_phase_started": _phase_started,
    "task_completed": _completed,
    "task_blocked": _blocked,
}
