"""The larger pictures: the table of workflows, one workflow whole, events, a report."""

from __future__ import annotations

from itertools import chain, islice

from holdfast.cli.terminal_text import cells, clean, padded, shortened
from holdfast.core import json_text
from holdfast.core.diff import path_text
from holdfast.core.workflow import folder_mode
from holdfast.core.workflow.lifecycle import listed, pending
from holdfast.core.workflow.state import is_passed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Event, Fields, Json, Phase, Task, Workflow
    from holdfast.keeper.audit.chain import Report

_GO_FIRST = ("recipe", "branch", "tasks", "updated")
"""What a narrow terminal does without, in this order."""
_TITLE_MIN, _BRANCH_MAX, _STREAM_MAX, _TYPE_WIDTH, _COMMIT = 16, 28, 28, 18, 12
_FIRST_EVENTS = 200
_GAP = "  "

_PHASE_FIELDS = ("name", "status", "started_at", "completed_at", "approved", "reason", "steps")
_FAILED = ("failed", "blocked", "rejected", "error")
_LEVELS = {"repaired": "completed", "behind": "pending", "error": "blocked"}


def status_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """One line a workflow, within the terminal's width; a heading on a terminal only."""
    table = [_row(screen, row) for row in rows]
    most = {"branch": _BRANCH_MAX}
    columns, widths = columns_that_fit(screen, table, _GO_FIRST, most, _TITLE_MIN)
    if screen.width is not None and widths["title"] < cells("title"):
        columns.remove("title")
        widths["id"] = min(widths["id"], screen.width // 2)
        widths["phase"] = min(
            widths["phase"], screen.width - widths["id"] - cells(no_mark(screen)) - 3
        )
    marks = [screen.mark(row["status"]) for row in rows]
    yield from table_lines(screen, table, columns, widths, marks)


def _row(screen: Screen, row: Fields) -> dict[str, str]:
    phase = f"{row['phase_index']}/{row['phase_total']} {row['phase']}" if row["phase"] else "-"
    branch = str(row["branch"] or "-")
    if row["worktree"] != ".":
        branch += f" ({row['worktree']})"
    shown = {
        "id": row["id"],
        "recipe": row["recipe"],
        "phase": phase,
        "tasks": f"{row['tasks_done']}/{row['tasks_total']}" if row["tasks_total"] else "-",
        "branch": branch,
        "updated": screen.age(row["updated_at"]),
        "title": row["title"],
    }
    return {name: clean(value) for name, value in shown.items()}


def no_mark(screen: Screen) -> str:
    """What stands in a mark's place."""
    return " " if screen.fancy else "   "


def columns_that_fit(
    screen: Screen, table: list[dict[str, str]], go_first: Iterable[str], most: dict[str, int],
    last_min: int,
) -> tuple[list[str], dict[str, int]]:  # fmt: skip
    """The columns that a terminal has room for, and how wide each is; the last has what is left.

    Those of ``go_first`` go until that is ``last_min``; ``most`` says how wide a column may be.
    """
    columns = list(table[0])
    last = columns[-1]
    widths = {name: max([cells(row[name]) for row in table]) for name in columns}
    if screen.width is None:
        return columns, widths
    widths = {name: max(cells(name), width) for name, width in widths.items()}
    for name, width in most.items():
        widths[name] = min(widths[name], width)
    space = screen.width - cells(no_mark(screen)) - 1
    space -= sum([widths[name] + len(_GAP) for name in columns[:-1]])
    for name in go_first:
        if space >= min(last_min, widths[last]):
            break
        columns.remove(name)
        space += widths[name] + len(_GAP)
    widths[last] = min(widths[last], space)
    return columns, widths


def table_lines(
    screen: Screen, table: list[dict[str, str]], columns: list[str], widths: dict[str, int],
    marks: list[str],
) -> Iterator[str]:  # fmt: skip
    """A row a line, each behind its mark; on a terminal the heading first."""
    if screen.width is not None:
        heading = _GAP.join(
            [padded(shortened(column, widths[column]), widths[column]) for column in columns]
        )
        yield screen.paint(f"{no_mark(screen)} {heading}".rstrip(), "dim")
    for mark, row in zip(marks, table, strict=True):
        parts = [padded(shortened(row[name], widths[name]), widths[name]) for name in columns]
        parts[0] = screen.paint(parts[0], "strong")
        yield f"{mark} {_GAP.join(parts)}".rstrip()


def workflow_panel(screen: Screen, state: Workflow, record: str | None) -> Iterator[str]:
    """Everything about one workflow, as a tree; ``record`` is where its record stands now."""
    yield from _heading(screen, state, record)
    yield from _phases(screen, state)
    if state["tasks"] and state["phase"] is None:
        yield screen.paint("Tasks", "strong")
        yield from _tasks(screen, state, _GAP)
    yield from _gates(screen, state)
    yield from _reading(screen, state)
    yield from listing(screen, "Reminders", state["reminders"])
    violations = [f"{v['code']} ({v['severity']}): {v['details']}" for v in state["violations"]]
    yield from listing(screen, "Violations", violations)
    yield from listing(screen, "Context", pairs(folder_mode.other_context(state)))


def _heading(screen: Screen, state: Workflow, record: str | None) -> Iterator[str]:
    status = state["status"].replace("_", " ")
    yield f"{screen.paint(clean(state['id']), 'strong')}{screen.dot()}{clean(status)}"
    if state["title"]:
        yield f"  {clean(state['title'])}"
    if state["subject"] and state["subject"] != state["title"]:
        yield f"  {clean(state['subject'])}"
    number, total = folder_mode.place_of(state)
    if total:
        yield clean(f"  feature {number} of {total}: {state['context'].get('feature_file')}")
    facts = [f"{state['recipe']['name']} ({state['recipe']['format']})"]
    if state["branch"]:
        facts.append(f"branch {state['branch']}")
    if state["worktree"] != ".":
        facts.append(f"worktree {state['worktree']}")
    if state["cycle"] > 1:
        facts.append(f"cycle {state['cycle']}")
    facts.append(f"begun {screen.age(state['created_at'])}")
    facts.append(f"updated {screen.age(state['updated_at'])}")
    yield screen.paint(f"  {clean(screen.dot().join(facts))}", "dim")
    if record is not None:
        yield screen.paint(f"  record: {clean(record)}", "dim")
    for name in ("outcome", "reason"):
        if state.get(name):
            yield f"  {name}: {clean(state.get(name))}"
    left = pending(state) if state["status"] == "completed" else {}
    if left:
        yield f"  completed by force, skipped: {clean(listed(left))}"


def _phases(screen: Screen, state: Workflow) -> Iterator[str]:
    if not state["phases"]:
        return
    yield screen.paint("Phases", "strong")
    for phase in state["phases"]:
        current = phase["name"] == state["phase"]
        name = screen.paint(clean(phase["name"]), "strong") if current else clean(phase["name"])
        facts = clean(screen.dot().join(_phase_facts(screen, state, phase, current=current)))
        yield f"  {screen.mark(phase['status'])} {name}  {screen.paint(facts, 'dim')}".rstrip()
        if current:
            yield from _tasks(screen, state, "    ")


def _phase_facts(screen: Screen, state: Workflow, phase: Phase, *, current: bool) -> list[str]:
    facts = []
    if current and state["step"]:
        facts.append(f"step {state['step']}")
    if phase.get("approved"):
        facts.append("approved")
    if phase.get("reason"):
        facts.append(str(phase.get("reason")))
    if phase.get("completed_at"):
        facts.append(screen.age(phase["completed_at"]))
    free = {key: value for key, value in phase.items() if key not in _PHASE_FIELDS}
    return [*facts, *pairs(free)]


def _tasks(screen: Screen, state: Workflow, indent: str) -> Iterator[str]:
    for task in state["tasks"]:
        name = clean(f"{task['id']}  {task['description']}")
        facts = screen.paint(clean(screen.dot().join(_task_facts(task))), "dim")
        yield f"{indent}{screen.mark(task['status'])} {name}  {facts}".rstrip()


def _task_facts(task: Task) -> list[str]:
    facts = []
    if task.get("commit"):
        facts.append(f"commit {str(task.get('commit'))[:_COMMIT]}")
    if task.get("reason"):
        facts.append(str(task.get("reason")))
    if task["status"] not in ("completed", "pending"):
        facts += [f"{name} {status}" for name, status in task.get("phases", {}).items()]
    if task.get("depends") and task["status"] == "pending":
        facts.append("after " + ", ".join([str(other) for other in task["depends"]]))
    return facts


def _gates(screen: Screen, state: Workflow) -> Iterator[str]:
    if state["gates"]:
        yield screen.paint("Gates", "strong")
    yield from gate_lines(screen, state["gates"], _GAP)


def gate_lines(screen: Screen, gates: dict[str, Fields], indent: str) -> Iterator[str]:
    """A line a gate: how it stands, and what that rests on."""
    for name, fields in gates.items():
        status = str(fields.get("status", "pending"))
        failed = status in _FAILED or fields.get("passed") is False
        mark = "blocked" if failed else "completed" if is_passed(fields) else "pending"
        said = ["failed"] if failed else [] if status == mark else [status]
        facts = screen.paint(clean(screen.dot().join([*said, *_gate_facts(screen, fields)])), "dim")
        yield f"{indent}{screen.mark(mark)} {clean(name)}  {facts}".rstrip()


def _gate_facts(screen: Screen, fields: Fields) -> list[str]:
    facts = []
    if fields.get("evidence") == "run":
        ran = f"ran {fields.get('command')}"
        facts += [ran, _ended(fields), seconds(fields.get("duration_ms"))]
        if fields.get("commit"):
            facts.append(f"at {str(fields['commit'])[:_COMMIT]}")
    elif fields.get("evidence") == "claim":
        facts.append("claimed")
    if fields.get("last_run"):
        facts.append(screen.age(str(fields["last_run"])))
    free = {key: value for key, value in fields.items() if key not in _GATE_FIELDS}
    return [*facts, *pairs({key: value for key, value in free.items() if value is not None})]


_GATE_FIELDS = (
    "status", "passed", "last_run", "evidence", "command", "timeout", "exit_code", "signal",
    "timed_out", "cancelled", "duration_ms", "output_tail", "commit", "tree",
)  # fmt: skip


def _ended(fields: Fields) -> str:
    if fields.get("cancelled"):
        return "cancelled"
    return "timed out" if fields.get("timed_out") else f"exit {fields.get('exit_code')}"


def seconds(duration_ms: object) -> str:
    """``0.4 s``, ``12 s``."""
    if not isinstance(duration_ms, int):
        return "?"
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 10_000 else f"{duration_ms // 1000} s"


def run_panel(screen: Screen, data: Fields) -> Iterator[str]:
    """What a command that was run came to; the end of its output when it failed."""
    result = data["result"]
    facts = screen.dot().join(_run_facts(result))
    mark = screen.mark("completed" if data["passed"] else "blocked")
    became = "passed" if data["passed"] else "failed"
    yield f"{mark} {clean(data['what'])} {became}  {screen.paint(clean(facts), 'dim')}"
    for name in result.get("failing_tests", [])[:_MOST_TESTS]:
        yield f"  {screen.mark('blocked')} {clean(name)}"
    if not data["passed"]:
        tail = str(result.get("output_tail") or result.get("last_error") or "")
        for line in tail.split("\n")[-_MOST_LINES:] if tail else ():
            yield screen.paint(f"  | {clean(line)}", "dim")


_MOST_TESTS, _MOST_LINES = 20, 20


def _run_facts(result: Fields) -> list[str]:
    facts = [_ended(result), seconds(result.get("duration_ms"))]
    counts = result.get("counts", {})
    facts += [f"{count} {name}" for name, count in counts.items() if count]
    return facts


def _reading(screen: Screen, state: Workflow) -> Iterator[str]:
    if state["required_reading"]:
        yield screen.paint("Must be read", "strong")
    for path in state["required_reading"]:
        read = path in state["read"]
        yield f"  {screen.mark('completed' if read else 'pending')} {clean(path)}"


def listing(screen: Screen, title: str, items: list[str]) -> Iterator[str]:
    """A line each below their title; nothing when there are none."""
    if items:
        yield screen.paint(title, "strong")
    for item in items:
        yield f"  {clean(item)}"


def event_lines(screen: Screen, events: Iterable[Event]) -> Iterator[str]:
    """Yield a line each. The first events decide how wide the column of streams is."""
    coming = iter(events)
    first = list(islice(coming, _FIRST_EVENTS))
    width = max([cells(clean(event["stream"])) for event in first], default=0)
    for event in chain(first, coming):
        yield event_line(screen, event, min(width, _STREAM_MAX))


def event_line(screen: Screen, event: Event, stream_width: int = 0) -> str:
    """``12  2026-01-02 03:04:05Z  dev-1f2e3d4c  task_completed  task=3``."""
    seq = screen.paint(f"{event['seq']:>5}", "dim")
    at = clean(event["at"])[:19].replace("T", " ") + "Z"
    stream = padded(clean(event["stream"]), stream_width)
    kind = padded(clean(event["type"]), _TYPE_WIDTH)
    taken = 5 + cells(at) + cells(stream) + cells(kind) + 4 * len(_GAP)
    told = screen.fitted(event_told(event), taken)
    parts = [seq, screen.paint(at, "dim"), stream, screen.paint(kind, "active"), told]
    return _GAP.join(parts).rstrip()


def event_told(event: Event) -> str:
    """What an event says, in a few clean words."""
    return clean(" ".join(pairs(_told(event["data"]))))


def _told(data: Fields) -> Fields:
    """What people want to know of an event; all of it is in the JSON."""
    told: Fields = {}
    for name, value in data.items():
        if name in ("fields", "values", "tests") and isinstance(value, dict):
            told.update(value)
        elif name in _SUMMARIES and value:
            told.update(_summary(name, value))
        elif value not in (None, "", [], {}):
            told[name] = value
    if "recipe" in data:
        told = {name: value for name, value in told.items() if name not in _OF_OPENING}
        if told.get("subject") == told.get("title"):
            told.pop("subject", None)
    return told


_OF_OPENING = ("record", "ttl", "base")
"""What the line of an opening event leaves out."""


def _summary(name: str, value: Json) -> Fields:
    """The value in a few words; as it is, when an event says what none should."""
    try:
        return _SUMMARIES[name](value)
    except (LookupError, TypeError, AttributeError):
        return {name: value}


def _state(state: Json) -> Fields:
    """A workflow, one initiative or all of them, in a few words."""
    if "all" in state:
        return {"initiatives": ", ".join(state["all"]), "current": state["current"]}
    if "milestones" in state:
        return {"status": state["status"], "milestone": state["current_milestone"]}
    return {"recipe": state["recipe"]["name"], "title": state["title"]}


def _edited(changes: list[Json]) -> Fields:
    return {"changed": ", ".join([path_text(change[0]) for change in changes])}


_SUMMARIES: dict[str, Callable[[Json], Fields]] = {
    "recipe": lambda recipe: {"recipe": recipe["name"]},
    "state": _state,
    "session": lambda held: {"session": held["id"] if isinstance(held, dict) else held},
    "commit": lambda commit: {"commit": str(commit)[:_COMMIT]},
    "changes": _edited,
}


def report_panel(screen: Screen, report: Report, command: str) -> Iterator[str]:
    for line in [line for line in report.lines if line["level"] != "ok"]:
        mark = screen.mark(_LEVELS.get(line["level"], "pending"))
        yield f"{mark} {clean(line['what'])}  {line['level']}: {clean(line['message'])}"
    counts = [_counted(number, clean(name)) for name, number in report.counts.items()]
    verdict = screen.paint("sound", "good") if report.ok else screen.paint("damaged", "bad")
    yield screen.dot().join([verdict, *counts])
    if not report.ok:
        yield f"  next: holdfast {'repair' if command == 'verify' else 'verify'}"


def _counted(number: int, name: str) -> str:
    return f"{number} {name.removesuffix('s') if number == 1 else name}"


def pairs(fields: Fields) -> list[str]:
    """``key=value`` each."""
    return [f"{key}={_value(value)}" for key, value in fields.items()]


def _value(value: Json) -> str:
    return value if isinstance(value, str) else json_text.dumps(value)
