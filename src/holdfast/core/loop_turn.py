"""The turn of a loop: the unit that is due, what is due for it, and what that needs.

Units that are nearly done come first, so that work is finished before more is begun. Units that are
blocked or out of iterations wait for a person, and the next unit is due.
"""

from __future__ import annotations

from holdfast.core.refusal import word
from holdfast.core.workflow import units
from holdfast.core.workflow.state import unit_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Task, Workflow

STUCK = ("blocked", "timeout")
_ORDER = ("verifying", "confirming", "in_progress", "pending")
_TURNS = {"confirming": "confirm", "verifying": "verify"}
_UNIT_FIELDS = ("criteria", "files", "output", "remaining", "blockers", "verify", "model")


def turn_of(state: Workflow) -> tuple[Task | None, str]:
    """Return the unit that is due and its turn: iterate, confirm, verify or timeout."""
    for status in _ORDER:
        for task in state["tasks"]:
            if task["status"] != status or units.waits_for(state, task):
                continue
            if status in _TURNS:
                return task, _TURNS[status]
            has_room = task.get("iterations_used", 0) < units.limit_of(task)
            return task, "iterate" if has_room else "timeout"
    return None, ""


def current_unit(state: Workflow) -> Task | None:
    """Return the unit that is due, else the first that waits for a person."""
    held = [task for task in state["tasks"] if task["status"] in STUCK]
    return turn_of(state)[0] or next(iter(held), None)


def stuck(state: Workflow) -> dict[str, str]:
    """Return the units that wait for a person, and why."""
    return {str(task["id"]): _why(task) for task in state["tasks"] if task["status"] in STUCK}


def _why(task: Task) -> str:
    if task["status"] == "blocked":
        reason = task.get("reason")
        return f"blocked: {reason}" if reason else "blocked"
    return f"timeout: it has used {units.allowed(task)}"


def next_turn(state: Workflow, *, is_named: bool = False) -> Fields:
    """Return what to do now and everything needed to do it.

    ``is_named``: the commands name the loop.
    """
    task, turn = turn_of(state)
    aim = f" -w {word(state['id'])}" if is_named else ""
    answer: Fields = {"loop": state["id"], "phase": state["phase"], "stuck": stuck(state)}
    if task is None:
        answer["turn"] = _turn_without(state)
        words = map(word, _without_unit(state, answer["turn"])[1])
        answer["command"] = " ".join(["holdfast", *words]) + aim
        return answer
    used = task.get("iterations_used", 0)
    answer |= {
        "turn": turn,
        "unit": task["id"],
        "title": task["description"],
        "status": task["status"],
        "iteration": used + 1 if turn == "iterate" else used,
        "max_iterations": units.limit_of(task),
        "signal": units.signal_of(task),
        "guardrails": state.get("guardrails", []),
    }
    answer["command"], *others = _commands(task, turn, aim)
    if others:
        answer["or"] = others
    answer |= {key: task.get(key) for key in _UNIT_FIELDS if task.get(key)}
    if turn == "timeout":
        answer["choices"] = units.CHOICES
    return answer


def _commands(task: Task, turn: str, aim: str) -> list[str]:
    """Return the commands that can end the turn, ready to paste."""
    verb, ways = {
        "confirm": ("confirm", ["--clean", "--issues TEXT"]),
        "verify": ("verify", ["--passed", "--failed TEXT", "--run -- COMMAND"]),
        "timeout": ("extend", [f"--max {units.limit_of(task) + units.MAX_ITERATIONS}"]),
        "iterate": (
            "iterate",
            ["--did TEXT --remaining TEXT", f"--did TEXT --signal {word(units.signal_of(task))}"],
        ),
    }[turn]
    return [f"holdfast loop {verb} {word(task['id'])}{aim} {way}" for way in ways]


def next_words(state: Workflow) -> tuple[str, list[str]]:
    """Return what the next step is about, and the words of its command after ``holdfast``."""
    task, turn = turn_of(state)
    if task is None:
        return _without_unit(state, _turn_without(state))
    name = str(task["id"])
    title = f"{name} ({task['description']})"
    if turn == "confirm":
        return f"{title} was declared done; go over it once more", [
            "loop",
            "confirm",
            name,
            "--clean",
        ]
    if turn == "verify":
        return f"{title} was confirmed; verify it", ["loop", "verify", name, "--passed"]
    if turn == "timeout":
        most = str(units.limit_of(task) + units.MAX_ITERATIONS)
        about = f"{title} has used {units.allowed(task)}: {units.CHOICES}"
        return about, ["loop", "extend", name, "--max", most]
    return f"{title}: what to do, and with what", ["loop", "next"]


def _turn_without(state: Workflow) -> str:
    """Return what is due if no unit is."""
    if not state["tasks"]:
        return "plan"
    return "archive" if all(task["status"] == "completed" for task in state["tasks"]) else "wait"


def _without_unit(state: Workflow, turn: str) -> tuple[str, list[str]]:
    if turn == "plan":
        return "no unit is planned", [
            "loop",
            "plan",
            "--unit",
            f"{unit_mark(state['recipe'])}1: TITLE",
        ]
    if turn == "archive":
        return "every unit is done", ["loop", "archive"]
    held = [task for task in state["tasks"] if task["status"] in STUCK]
    if not held:
        return "no unit is ready", ["loop", "status"]
    name = str(held[0]["id"])
    if held[0]["status"] == "blocked":
        return f"no unit is ready; {name} is {_why(held[0])}", ["loop", "unblock", name]
    most = str(units.limit_of(held[0]) + units.MAX_ITERATIONS)
    about = f"no unit is ready; {name}: {units.CHOICES}"
    return about, ["loop", "extend", name, "--max", most]


def unit_lines(state: Workflow) -> list[str]:
    """Return the lines of a briefing about the unit that is due, not yet quoted."""
    task, turn = turn_of(state)
    if task is None:
        return []
    used, most = task.get("iterations_used", 0), units.limit_of(task)
    number = used + 1 if turn == "iterate" else used
    lines = [f"ITERATION {number} of {most}: {task['id']} is {task['status'].replace('_', ' ')}"]
    keys = ("criteria", "remaining", "blockers")
    return [*lines, *(f"{key.upper()}: {task.get(key)}" for key in keys if task.get(key))]


def lessons(state: Workflow) -> list[str]:
    """Return the guardrails, one line each."""
    return [
        f"when {rule.get('when')}: {rule.get('problem')}; instead: {rule.get('solution')}"
        for rule in state.get("guardrails", [])
    ]
