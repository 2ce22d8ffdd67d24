"""The next step of a workflow: its description and command. In a loop, also the unit that is due.

A loop finishes work before it begins more: units that are nearly done come first. Units that are
blocked or out of iterations wait for a person, and the next unit is due.
"""

from __future__ import annotations

from holdfast.core.refusal import shell_word
from holdfast.core.workflow import (
    awaits_approval,
    find_phase,
    find_task,
    is_active,
    next_phases,
    pending_gates,
    unit_mark,
)
from holdfast.core.workflow.tasks import (
    MAX_ITERATIONS,
    TIMEOUT_CHOICES,
    iterations_allowed,
    limit_of,
    signal_of,
    waits_for,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Phase, Task, Workflow

Next = tuple[str, list[str]]
"""A text about the step, and the words of its command after ``holdfast``."""

PULL_REQUEST = "pr_created"
"""The gate that passes when the pull request exists."""
_WAITING = ("pending", "completed", "blocked")
_BY_WORD = "or say so: holdfast gate record"


def next_step(state: Workflow, *, is_named: bool = False) -> Next | None:
    """Return the next step; ``None`` after the end. If ``is_named``, it names the workflow."""
    if not is_active(state):
        is_completed = state["status"] == "completed"
        return None if is_completed else ("it can be brought back", ["resume", state["id"]])
    phase = find_phase(state, state["phase"])
    if phase is not None and phase["status"] == "blocked":
        reason = f" ({phase['reason']})" if phase.get("reason") else ""
        about, words = (
            f"phase {phase['name']} is blocked{reason}",
            ["phase", "unblock", phase["name"]],
        )
    elif state["recipe"]["format"] == "loop":
        about, words = next_words(state)
    else:
        ahead = _task_ahead(state) or _phase_ahead(state, phase)
        about, words = ahead or ("nothing is pending", ["complete"])
    if not is_named:
        return about, words
    # The words after `--` are another command.
    end = words.index("--") if "--" in words else len(words)
    named = [*words[:end], "-w", state["id"], *words[end:]]
    return about.replace(_BY_WORD, f"{_BY_WORD} -w {shell_word(state['id'])}"), named


def current_task(state: Workflow) -> Task | None:
    """Return the task in progress, else the first that can start, else one that is blocked.

    In a loop, return the unit that is due, else the first that waits for a person.
    """
    if state["recipe"]["format"] == "loop":
        waiting = [task for task in state["tasks"] if task["status"] in STUCK]
        return turn_of(state)[0] or next(iter(waiting), None)
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


def _gate_ahead(state: Workflow, phase: Phase) -> Next | None:
    """Return how to pass the gate that is due: a step of the phase, or any in the last phase.

    It is passed with its command, the one that ran last, or a claim.
    """
    steps, is_last = phase.get("steps", []), not next_phases(state, phase["name"])
    name = next((name for name in pending_gates(state) if name in steps or is_last), None)
    if name is None:
        return None
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
    by_word = f"{_BY_WORD} {shell_word(name)} --passed"
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
    return words if words and " ".join(map(shell_word, words)) == command else None


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


def _phase_ahead(state: Workflow, phase: Phase | None) -> Next | None:
    if phase is None:
        pending = [phase["name"] for phase in state["phases"] if phase["status"] == "pending"]
        return (f"phase {pending[0]}", ["phase", "start", pending[0]]) if pending else None
    name = phase["name"]
    if phase["status"] == "completed":
        return _gate_ahead(state, phase)
    if awaits_approval(state, phase):
        return f"phase {name} needs a person's approval", ["phase", "approve", name]
    words = ["advance"] if next_phases(state, name) else ["complete"]
    return _gate_ahead(state, phase) or (f"phase {name} is in progress", words)


STUCK = ("blocked", "timeout")
_ORDER = ("verifying", "confirming", "in_progress", "pending")
_TURNS = {"confirming": "confirm", "verifying": "verify"}
_UNIT_FIELDS = ("criteria", "files", "output", "remaining", "blockers", "verify", "model")


def turn_of(state: Workflow) -> tuple[Task | None, str]:
    """Return the unit that is due and its turn: iterate, confirm, verify or timeout."""
    for status in _ORDER:
        for task in state["tasks"]:
            if task["status"] != status or waits_for(state, task):
                continue
            if status in _TURNS:
                return task, _TURNS[status]
            has_room = task.get("iterations_used", 0) < limit_of(task)
            return task, "iterate" if has_room else "timeout"
    return None, ""


def stuck_units(state: Workflow) -> dict[str, str]:
    """Return the units that wait for a person, and why."""
    return {str(task["id"]): _why(task) for task in state["tasks"] if task["status"] in STUCK}


def _why(task: Task) -> str:
    if task["status"] == "blocked":
        reason = task.get("reason")
        return f"blocked: {reason}" if reason else "blocked"
    return f"timeout: it has used {iterations_allowed(task)}"


def next_turn(state: Workflow, *, is_named: bool = False) -> Fields:
    """Return what to do now and everything needed to do it.

    ``is_named``: the commands name the loop.
    """
    task, turn = turn_of(state)
    aim = f" -w {shell_word(state['id'])}" if is_named else ""
    answer: Fields = {"loop": state["id"], "phase": state["phase"], "stuck": stuck_units(state)}
    if task is None:
        answer["turn"], _, words = _without_unit(state)
        answer["command"] = " ".join(["holdfast", *map(shell_word, words)]) + aim
        return answer
    used = task.get("iterations_used", 0)
    answer |= {
        "turn": turn,
        "unit": task["id"],
        "title": task["description"],
        "status": task["status"],
        "iteration": used + 1 if turn == "iterate" else used,
        "max_iterations": limit_of(task),
        "signal": signal_of(task),
        "guardrails": state.get("guardrails", []),
    }
    verb, ways = _ways(task, turn)
    command = f"holdfast loop {verb} {shell_word(task['id'])}{aim}"
    answer["command"], *others = [f"{command} {way}" for way in ways]
    if others:
        answer["or"] = others
    answer |= {key: task.get(key) for key in _UNIT_FIELDS if task.get(key)}
    if turn == "timeout":
        answer["choices"] = TIMEOUT_CHOICES
    return answer


def next_words(state: Workflow) -> Next:
    """Return the description of a loop's next step, and the words of its command."""
    task, turn = turn_of(state)
    if task is None:
        return _without_unit(state)[1:]
    name = str(task["id"])
    title = f"{name} ({task['description']})"
    if turn == "iterate":
        return f"{title}: what to do, and with what", ["loop", "next"]
    about = {
        "confirm": f"{title} was declared done; go over it once more",
        "verify": f"{title} was confirmed; verify it",
        "timeout": f"{title} has used {iterations_allowed(task)}: {TIMEOUT_CHOICES}",
    }
    verb, ways = _ways(task, turn)
    return about[turn], ["loop", verb, name, *ways[0].split()]


def _ways(task: Task, turn: str) -> tuple[str, list[str]]:
    """Return the verb of a unit's turn, and the ways to give its outcome."""
    if turn == "confirm":
        return "confirm", ["--clean", "--issues TEXT"]
    if turn == "verify":
        return "verify", ["--passed", "--failed TEXT", "--run -- COMMAND"]
    if turn == "timeout":
        return "extend", [f"--max {_longer_limit(task)}"]
    done = f"--did TEXT --signal {shell_word(signal_of(task))}"
    return "iterate", ["--did TEXT --remaining TEXT", done]


def _without_unit(state: Workflow) -> tuple[str, str, list[str]]:
    """Return the turn when no unit is due: its name, description, and the words of its command."""
    if not state["tasks"]:
        unit = f"{unit_mark(state['recipe'])}1: TITLE"
        return "plan", "no unit is planned", ["loop", "plan", "--unit", unit]
    if all(task["status"] == "completed" for task in state["tasks"]):
        return "archive", "every unit is done", ["loop", "archive"]
    waiting = [task for task in state["tasks"] if task["status"] in STUCK]
    if not waiting:
        return "wait", "no unit is ready", ["loop", "status"]
    name = str(waiting[0]["id"])
    if waiting[0]["status"] == "blocked":
        about = f"no unit is ready; {name} is {_why(waiting[0])}"
        return "wait", about, ["loop", "unblock", name]
    about = f"no unit is ready; {name}: {TIMEOUT_CHOICES}"
    return "wait", about, ["loop", "extend", name, "--max", _longer_limit(waiting[0])]


def _longer_limit(task: Task) -> str:
    return str(limit_of(task) + MAX_ITERATIONS)


def lessons(state: Workflow) -> list[str]:
    """Return the guardrails, one line each."""
    return [
        f"when {rule.get('when')}: {rule.get('problem')}; instead: {rule.get('solution')}"
        for rule in state.get("guardrails", [])
    ]
