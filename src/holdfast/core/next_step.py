"""The next step of a workflow: what it is about, and the command."""

from __future__ import annotations

from holdfast.core.refusal import word
from holdfast.core.workflow.state import (
    awaits_approval,
    find_phase,
    find_task,
    is_active,
    next_phases,
    pending_gates,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Json, Phase, Task, Workflow

Next = tuple[str, list[str]]
"""A text about the step, and the words of its command after ``holdfast``."""

PULL_REQUEST = "pr_created"
"""The gate that is passed when the pull request exists."""
_WAITING = ("pending", "completed", "blocked")
_BY_WORD = "or say so: holdfast gate record"


def next_step(state: Workflow, *, is_named: bool = False) -> Next | None:
    """Return the next step; ``None`` after the end. If ``is_named``, it names the workflow."""
    following = _next_step(state)
    if following is None or not is_named or following[1][0] == "resume":
        return following
    about, words = following
    # The words after `--` are another command.
    end = words.index("--") if "--" in words else len(words)
    named = [*words[:end], "-w", state["id"], *words[end:]]
    return about.replace(_BY_WORD, f"{_BY_WORD} -w {word(state['id'])}"), named


def _next_step(state: Workflow) -> Next | None:
    if not is_active(state):
        if state["status"] == "completed":
            return None
        return "it can be brought back", ["resume", state["id"]]
    if state["recipe"]["format"] == "loop":
        from holdfast.core.loop_turn import next_words

        return _unblocking(state) or next_words(state)
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
    """Return the task in progress, else the first that can start, else one that is blocked."""
    if state["recipe"]["format"] == "loop":
        from holdfast.core.loop_turn import current_unit

        return current_unit(state)
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


def inner_phase(task: Task) -> str | None:
    """Return the phase of a task that is in progress: red, green, refactor."""
    return next(
        (n for n, status in task.get("phases", {}).items() if status == "in_progress"), None
    )


def _gate_ahead(state: Workflow, phase: Phase | None) -> Next | None:
    """Return how to pass the gate that is due: a step of the phase, or any in the last phase."""
    steps = phase.get("steps", []) if phase is not None else []
    is_last = phase is not None and not next_phases(state, phase["name"])
    for name in pending_gates(state):
        if name in steps or is_last:
            return _passing(state, name)
    return None


def _passing(state: Workflow, name: str) -> Next:
    """Return how to pass a gate: with its command, the one that ran last, or a claim."""
    gate = state["gates"][name]
    status = gate.get("status", "pending")
    about = f"gate {name} has failed" if status == "completed" else f"gate {name} is {status}"
    if "command" in state["recipe"].get("gates", {}).get(name, {}):
        return about, ["gate", "run", name]
    if name == PULL_REQUEST:
        return about, ["gate", "record", name, "--passed", "pr_number=N", "pr_url=URL"]
    again = _words(gate.get("command"))
    if again is not None:
        return about, ["gate", "run", name, "--", *again]
    by_word = f"{_BY_WORD} {word(name)} --passed"
    return f"{about}; {by_word}", ["gate", "run", name, "--", "COMMAND"]


def _words(command: Json) -> list[str] | None:
    """Return the words of a command; ``None`` if it needs a shell."""
    if not isinstance(command, str):
        return None
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return words if words and " ".join(map(word, words)) == command else None


def _task_ahead(state: Workflow) -> Next | None:
    task = current_task(state)
    if task is None:
        return None
    number = str(task["id"])
    name = f"task {number} ({task['description']})"
    if task["status"] == "blocked":
        reason = f" ({task['reason']})" if task.get("reason") else ""
        return f"{name} is blocked{reason}", ["task", "start", number]
    if task["status"] == "pending":
        return name, ["task", "start", number]
    phase = inner_phase(task)
    names = state["recipe"].get("task_phases", [])
    following = names[names.index(phase) + 1 :] if phase in names else []
    if following:
        return f"when {phase} is done", ["task", "phase", number, following[0]]
    return name, ["task", "done", number]


def _phase_ahead(state: Workflow) -> Next | None:
    name = state["phase"]
    if name is None:
        pending = [phase["name"] for phase in state["phases"] if phase["status"] == "pending"]
        return (f"phase {pending[0]}", ["phase", "start", pending[0]]) if pending else None
    phase = find_phase(state, name)
    if phase is not None and phase["status"] == "completed":
        return _gate_ahead(state, phase)
    if phase is not None and awaits_approval(state, phase):
        return f"phase {name} needs a person's approval", ["phase", "approve", name]
    following = next_phases(state, name)
    due = _gate_ahead(state, phase)
    if due is not None:
        return due
    return f"phase {name} is in progress", ["advance"] if following else ["complete"]
