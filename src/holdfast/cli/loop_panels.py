"""Pictures of loops: the turn that is due, units with their iterations, the end of a run."""

from __future__ import annotations

from holdfast.cli.screen import next_lines, note_lines
from holdfast.cli.terminal_text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields, Task, Workflow

_MARKS = {"confirming": "in_progress", "verifying": "in_progress", "timeout": "blocked"}
_ASKED = {
    "plan": "no unit is planned",
    "wait": "no unit is ready",
    "archive": "every unit is done",
}
_DUE = {"confirm": ", to be confirmed", "verify": ", to be verified", "timeout": ", out of them"}


def turn_panel(screen: Screen, data: Fields) -> Iterator[str]:
    """What to do now, as an agent needs it: terse, and everything at hand."""
    turn = data["next"]
    for name, why in turn["stuck"].items():
        yield f"{screen.mark('blocked')} {clean(f'{name} {why}')}"
    if "unit" not in turn:
        yield f"{screen.mark('pending')} {_ASKED[turn['turn']]}"
    else:
        yield from _unit_ahead(screen, turn)
    yield from note_lines(screen, data["notes"])
    yield f"  next: {clean(turn['command'])}"
    for command in turn.get("or", ()):
        yield f"    or: {clean(command)}"


def _unit_ahead(screen: Screen, turn: Fields) -> Iterator[str]:
    number = f"iteration {turn['iteration']} of {turn['max_iterations']}"
    head = clean(f"{turn['unit']}: {turn['title']}")
    yield f"{screen.mark('in_progress')} {screen.paint(head, 'strong')}"
    yield f"  {clean(turn['status'].replace('_', ' '))}, {number}{_DUE.get(turn['turn'], '')}"
    for key in ("criteria", "files", "output", "remaining", "blockers", "verify", "model"):
        if turn.get(key):
            value = turn[key]
            said = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"  {key}: {clean(said)}"
    for lesson in turn["guardrails"]:
        said = f"when {lesson.get('when')}: {lesson.get('problem')}; {lesson.get('solution')}"
        yield f"  guardrail: {clean(said)}"
    if "choices" in turn:
        yield f"  choices: {clean(turn['choices'])}"


def loops_panel(screen: Screen, data: Fields) -> Iterator[str]:
    """Every loop with its units."""
    if not data["states"]:
        yield "No loop is active here."
        yield screen.paint(f"  next: {clean(data['next'])}", "dim")
    for state in data["states"]:
        yield from _loop(screen, state)
    yield from note_lines(screen, data["notes"])


def _loop(screen: Screen, state: Workflow) -> Iterator[str]:
    done = sum(task["status"] == "completed" for task in state["tasks"])
    facts = [
        state["status"].replace("_", " "),
        f"phase {state['phase']}",
        f"{done}/{len(state['tasks'])} done",
        f"updated {screen.age(state['updated_at'])}",
    ]
    yield f"{screen.paint(clean(state['id']), 'strong')}  {clean(state['title'])}"
    yield screen.paint(f"  {clean(screen.dot().join(facts))}", "dim")
    for task in state["tasks"]:
        yield _unit(screen, task)
    yield from next_lines(screen, state, aimed=True)


def _unit(screen: Screen, task: Task) -> str:
    mark = screen.mark(_MARKS.get(task["status"], task["status"]))
    facts: list[str] = []
    if task["status"] not in ("pending", "completed", "in_progress"):
        facts.append(task["status"])
    if task.get("iterations_used"):
        facts.append(f"iteration {task.get('iterations_used')} of {task.get('max_iterations', 5)}")
    passes = task.get("confirmations_used", 0)
    if passes:
        facts.append(f"{passes} confirmation{'s' * (passes != 1)}")
    if task.get("reason"):
        facts.append(str(task.get("reason")))
    if task.get("depends"):
        facts.append("after " + ", ".join(map(str, task["depends"])))
    about = screen.paint(clean(screen.dot().join(facts)), "dim")
    return f"  {mark} {clean(task['id'])}  {clean(task['description'])}  {about}".rstrip()


def driven_panel(screen: Screen, result: Fields) -> Iterator[str]:
    """How a run ended."""
    mark = screen.mark("completed" if result["finished"] else "blocked")
    done = ", ".join(result["done"]) or "none"
    count = f"{result['turns']} turn{'s' * (result['turns'] != 1)}"
    yield f"{mark} {clean(result['loop'])}: {count}; done: {clean(done)}"
    for name, why in result["stuck"].items():
        yield f"  {screen.mark('blocked')} {clean(f'{name} {why}')}"
    yield from note_lines(screen, result["notes"])
    yield f"  next: {clean(result['next'])}"


def unverified_panel(screen: Screen, data: Fields) -> Iterator[str]:
    """A verification that was run and did not pass."""
    yield f"{screen.mark('blocked')} {clean(data['said'])}"
    for line in data["found"].split("\n"):
        yield f"  {clean(line)}"
    yield from note_lines(screen, data["receipt"].notes)
    yield f"  next: {clean(data['next'])}"
