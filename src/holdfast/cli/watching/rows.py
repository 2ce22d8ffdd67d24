"""One workflow as the lines of a list: its name first, then what is next, what it waits for, and
what it has. Events as lines. Pure.
"""

from __future__ import annotations

from holdfast.answers.events import event_text
from holdfast.cli.commands.questions import question_row
from holdfast.cli.commands.upkeep import STREAM_MAX_COLUMNS
from holdfast.cli.commands.workflow import gate_mark
from holdfast.cli.screen import Screen, count_cells, counted, pad
from holdfast.cli.watching.lines import DONE, GATES, NEXT, NOTES, OPEN, PHASES, WAITS, Line
from holdfast.core.durations import duration_ms, span
from holdfast.core.selection import short_id
from holdfast.core.time import epoch_ms
from holdfast.core.visible import clean
from holdfast.core.workflow.evidence import must_fail
from holdfast.core.workflow.needs import CLAIM, WAIVED, failing_tests, is_passed, shows_failure
from holdfast.core.workflow.questions import open_questions
from holdfast.core.workflow.tasks import inner_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.watching.lines import Key
    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Event, Fields, Task, Workflow

_MAX_NAMED = 4
_LABEL_COLUMNS = 9


def workflow_rows(screen: Screen, view: Fields, state: Workflow) -> list[Line]:
    """Return one workflow: its name first, then where it is, what is next, and what it has."""
    name, root = state["id"], view["root"]
    done = sum(task["status"] == "completed" for task in state["tasks"])
    about = screen.dim(
        f"tasks {done}/{len(state['tasks'])}" if state["tasks"] else "",
        "its record was edited: the next change takes that in" if name in view["unsettled"] else "",
        screen.age(state["updated_at"]),
    )
    strong = screen.paint(clean(name), "strong")
    title = clean(state["title"] or state["subject"] or "")
    lines = [Line(f"{screen.mark(state['status'])} {strong}  {title}  {about}", (root, name))]
    if state["phases"]:
        lines.append(Line(f"  {_phases(screen, state)}", (root, name, "phases"), PHASES))
    step = view["steps"].get(name)
    if step is not None:
        lines.append(Line(next_line(screen, step), (root, name, "next"), NEXT))
    lines += _waits(screen, root, state)
    for task in state["tasks"]:
        key = (root, name, "task", str(task["id"]))
        rank = DONE if task["status"] == "completed" else OPEN
        lines.append(Line(f"    {_task(screen, state, task)}", key, rank))
    if state["gates"]:
        gates = "  ".join(gate_brief(screen, state, gate) for gate in state["gates"])
        lines.append(Line(_labelled(screen, "gates", gates), (root, name, "gates"), GATES))
    if state["reminders"]:
        text = clean(screen.dot.join(state["reminders"]))
        lines.append(Line(_labelled(screen, "reminders", text), (root, name, "reminders"), NOTES))
    return lines


def now_ms(screen: Screen) -> int:
    """Return the time of a screen's frame."""
    return epoch_ms(screen.now or "") or 0


def _phases(screen: Screen, state: Workflow) -> str:
    """Return the phases in one line, from the one before the current, with the time in that."""
    names = [phase["name"] for phase in state["phases"]]
    current = names.index(state["phase"]) if state["phase"] in names else 0
    first = max(0, current - 1)
    before = f"{screen.mark('completed', 'dim')} {screen.dim(f'{first} before')}"
    texts = [before] if first else []
    for number, phase in enumerate(state["phases"][first:], first):
        is_current = number == current
        text = screen.paint(clean(phase["name"]), "strong" if is_current else "dim")
        if is_current:
            text += f" {screen.dim(span(duration_ms(state, phase, now_ms(screen))))}"
            if phase["status"] == "blocked":
                text += f" {screen.paint(clean(phase.get('reason') or ''), 'bad')}"
        texts.append(f"{screen.mark(phase['status'])} {text.rstrip()}")
    return "  ".join(texts)


def next_line(screen: Screen, step: NextStep) -> str:
    """Return the next step: the command, and what it is about."""
    command = screen.paint(clean(step.text), "active")
    return f"  {_label('NEXT')}  {command}   {screen.dim(step.remark)}"


def _waits(screen: Screen, root: str, state: Workflow) -> list[Line]:
    """Return what keeps the work from going on: failing tests, open questions, conflicts."""
    name, lines = state["id"], []
    tests = state["tests"]
    if shows_failure(tests):
        failing = failing_tests(tests)
        text = f"{counted(len(failing), 'tests')} failing" if failing else "tests fail"
        more = f"+{len(failing) - _MAX_NAMED}" if len(failing) > _MAX_NAMED else ""
        about = screen.dim("as red asks" if must_fail(state) else "", *failing[:_MAX_NAMED], more)
        line = f"    {screen.mark('blocked')} {screen.paint(text, 'bad')}  {about}"
        lines.append(Line(line, (root, name, "tests"), WAITS))
    for question in open_questions(state):
        key = (root, name, "question", str(question["id"]))
        lines.append(Line(f"    {question_row(screen, question)}", key, WAITS))
    for conflict in state.get("conflicts", ()):
        text = (
            f"conflict {short_id(conflict['id'])}  {conflict['command']}, from {conflict['from']}"
        )
        line = "    " + screen.row("blocked", text, str(conflict["why"]))
        lines.append(Line(line, (root, name, "conflict", str(conflict["id"])), WAITS))
    return lines


def _task(screen: Screen, state: Workflow, task: Task) -> str:
    used, is_done = task.get("iterations_used"), task["status"] == "completed"
    text = clean(f"{task['id']}  {task['description']}")
    facts = screen.dim(
        inner_phase(task) or "",
        f"iteration {used}" if used else "",
        str(task.get("reason") or ""),
        "" if is_done else span(duration_ms(state, task, now_ms(screen))),
    )
    text = screen.paint(text, "dim") if is_done else text
    return f"{screen.mark(task['status'])} {text}  {facts}"


def gate_brief(screen: Screen, state: Workflow, name: str) -> str:
    """Return a gate with its mark; behind one without evidence, what it rests on instead."""
    gate, mark = state["gates"][name], gate_mark(state, name)
    if gate.get("status") == WAIVED:
        return f"{screen.mark('skipped')} {clean(name)} {screen.paint('waived', 'warn')}"
    text = f"{screen.mark(mark)} {clean(name)}"
    if gate.get("status") == "stale":
        return f"{text} {screen.paint('stale', 'warn')}"
    evidence = gate.get("evidence", CLAIM if is_passed(state, name) else None)
    if evidence == CLAIM:
        return f"{text} {screen.paint('claimed', 'warn')}"
    return text


def _label(name: str) -> str:
    return pad(name, _LABEL_COLUMNS)


def _labelled(screen: Screen, name: str, text: str) -> str:
    return f"  {screen.paint(_label(name), 'dim')}  {text}"


def has_words(state: Workflow, view: Fields, words: str) -> bool:
    """Return whether a workflow has all of the words in its texts, whatever their case."""
    if not words:
        return True
    texts = [
        state["id"], state["title"], state["subject"], state["phase"], state["branch"],
        state["recipe"]["name"], view["name"], *state["reminders"], *state.get("labels", ()),
        *(f"{task['id']} {task['description']}" for task in state["tasks"]),
        *(question["text"] for question in open_questions(state)),
    ]  # fmt: skip
    text = "\n".join(str(text) for text in texts if text).casefold()
    return all(word in text for word in words.casefold().split())


def event_lines(screen: Screen, events: Sequence[Event], streams: Sequence[str]) -> list[Line]:
    """Return a line for each event; ``streams`` are the names that stand for theirs, or empty."""
    names = [clean(name) for name in streams]
    widest = min(max(map(count_cells, names), default=0), STREAM_MAX_COLUMNS)
    lines = []
    for name, event in zip(names, events, strict=True):
        at = screen.paint(f"{event['seq']:>5}  {clean(event['at'])[11:19]}", "dim")
        stream = f"  {pad(name, widest)}" if widest else ""
        kind = screen.paint(clean(event["type"]), "active")
        text = f"{at}{stream}  {kind}  {screen.paint(event_text(event), 'dim')}"
        lines.append(Line(text, ("event", str(event["seq"]))))
    return lines


def view_items(view: Fields) -> dict[Key, object]:
    """Return everything of a view that can change, by a key that stays."""
    items: dict[Key, object] = {}
    root = view["root"]
    for name, state in view["states"].items():
        items[root, name] = (state["status"], state["title"])
        items[root, name, "phases"] = [(p["name"], p["status"]) for p in state["phases"]]
        items[root, name, "gates"] = {gate: gate_mark(state, gate) for gate in state["gates"]}
        items[root, name, "reminders"] = state["reminders"]
        items[root, name, "tests"] = state["tests"].get("failing_tests")
        for task in state["tasks"]:
            items[root, name, "task", str(task["id"])] = task
        for question in open_questions(state):
            items[root, name, "question", str(question["id"])] = question
        for conflict in state.get("conflicts", ()):
            items[root, name, "conflict", str(conflict["id"])] = conflict["why"]
    if view["initiative"] is not None:
        items[root, "initiative"] = {**view["initiative"], "updated_at": ""}
    for event in view["events"]:
        items[root, "event", str(event["seq"])] = event["type"]
    return items
