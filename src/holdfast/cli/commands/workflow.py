"""Commands on whole workflows: open, list, show, end."""

from __future__ import annotations

from holdfast.answers import json
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer, changed_answer, changed_lines, names_workflow, target_args
from holdfast.cli.grammar import WORKFLOW, argument, command, flag, option
from holdfast.cli.screen import cells, listing, next_lines, note_lines, pairs
from holdfast.cli.tables import columns_that_fit, no_mark, table_lines
from holdfast.core.workflow.lifecycle import feature_position, listed, other_context, pending
from holdfast.core.workflow.state import is_active, is_passed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields, Phase, Task, Workflow
    from holdfast.keeper import Keeper, Receipt

_START_OPTIONS = (
    "title", "tasks", "phases", "reading", "reminders", "branch", "ttl", "replace", "initiative",
    "milestone",
)  # fmt: skip
_OPTIONAL_COLUMNS = ("recipe", "branch", "tasks", "updated")
"""What a narrow terminal does without, in this order."""
_TITLE_MIN, _BRANCH_MAX = 16, 28
_COMMIT_CHARS = 12
_PHASE_FIELDS = ("name", "status", "started_at", "completed_at", "approved", "reason", "steps")
_GATE_FIELDS = (
    "status", "passed", "last_run", "evidence", "command", "timeout", "exit_code", "signal",
    "timed_out", "cancelled", "duration_ms", "output_tail", "commit", "tree",
)  # fmt: skip
_FAILED = ("failed", "blocked", "rejected", "error")


@command(
    "start",
    "open a workflow, or resume the active one with this subject",
    argument("RECIPE", "what to open it from, one of `holdfast recipes`", values="recipe"),
    argument(
        "SUBJECT",
        "what it is about: a file, a ticket, a sentence; for dev also a folder of files",
        count="maybe",
        values="file",
    ),
    option("--title", "TEXT", "a title for people"),
    option("--task", "TEXT", "a task to begin with", into="tasks", many=True),
    option("--phase", "NAME", "a phase, in place of the recipe's own", into="phases", many=True),
    option(
        "--read",
        "@PATH",
        "a file that every resuming session must read first",
        into="reading",
        many=True,
        values="@file",
    ),
    option(
        "--remind", "TEXT", "a reminder for every resuming session", into="reminders", many=True
    ),
    option("--set", "KEY=VALUE", "a field of the context", into="context", kind="pair", many=True),
    option("--branch", "NAME", "the branch it belongs to (default: the current one)"),
    option("--ttl", "TIME", "how long it may lie still before it expires: 90m, 24h, 7d"),
    flag("--replace", "abandon the one that has the only place for such a record"),
    option("--initiative", "NAME", "the initiative it is for", values="initiative"),
    option(
        "--milestone", "ID", "and its milestone (alone: of the current one)", values="milestone"
    ),
    examples=(
        "holdfast start dev docs/plan.md --task 'Write the parser' --task 'Test it'",
        "holdfast start custom --title 'Move to v2' --phase prepare --phase migrate",
    ),
)
def start(keeper: Keeper, args: Arguments) -> Answer:
    options = {name: args[name] for name in _START_OPTIONS}
    context = args["context"] or None
    receipt = keeper.start(
        args["recipe"], args["subject"], context=context, **options, **target_args(args)
    )
    aimed = names_workflow(args) or keeper.must_name(receipt.state)
    return Answer(
        lambda: {**json.change(receipt), "resumed": bool(receipt.resumed)},
        lambda screen: _started_lines(screen, receipt, aimed=aimed),
    )


def _started_lines(screen: Screen, receipt: Receipt, *, aimed: bool) -> Iterator[str]:
    state = receipt.state
    verb = "resumed" if receipt.resumed else "started"
    title = clean(state["title"] or state["subject"])
    started = screen.paint(clean(f"{verb} {state['id']}"), "strong")
    yield f"{screen.mark('in_progress')} {started}" + (f"  {title}" if title else "")
    yield screen.paint(f"  record: {clean(state['record'])}", "dim")
    yield from note_lines(screen, receipt.notes)
    yield from next_lines(screen, state, aimed=aimed)


@command(
    "status",
    "list the active workflows of this workspace",
    flag("--all", "all of them, not only the 200 with the newest activity"),
    examples=("holdfast status", "holdfast status --all --json"),
)
def status(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.workflows(every=args["all"])
    workflow = args["workflow"]
    if workflow is not None:
        rows = [row for row in rows if row["id"] == workflow]
        if not rows:
            notes += keeper.show(workflow=workflow).notes
    return Answer(
        lambda: json.workflows(rows, notes), lambda screen: _status_lines(screen, rows, notes)
    )


def _status_lines(screen: Screen, rows: list[Fields], notes: list[str]) -> Iterator[str]:
    if rows:
        yield from status_table(screen, rows)
    else:
        yield "No workflow is active here."
        yield screen.paint("  next: holdfast start RECIPE SUBJECT", "dim")
    yield from note_lines(screen, notes)


def status_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield a line for each workflow, within the terminal's width."""
    table = [_status_row(screen, row) for row in rows]
    columns, widths = columns_that_fit(
        screen, table, _OPTIONAL_COLUMNS, {"branch": _BRANCH_MAX}, _TITLE_MIN
    )
    if screen.width is not None and widths["title"] < cells("title"):
        columns.remove("title")
        widths["id"] = min(widths["id"], screen.width // 2)
        widths["phase"] = min(
            widths["phase"], screen.width - widths["id"] - cells(no_mark(screen)) - 3
        )
    marks = [screen.mark(row["status"]) for row in rows]
    yield from table_lines(screen, table, columns, widths, marks)


def _status_row(screen: Screen, row: Fields) -> dict[str, str]:
    phase = f"{row['phase_index']}/{row['phase_total']} {row['phase']}" if row["phase"] else "-"
    branch = str(row["branch"] or "-")
    if row["worktree"] != ".":
        branch += f" ({row['worktree']})"
    columns = {
        "id": row["id"],
        "recipe": row["recipe"],
        "phase": phase,
        "tasks": f"{row['tasks_done']}/{row['tasks_total']}" if row["tasks_total"] else "-",
        "branch": branch,
        "updated": screen.age(row["updated_at"]),
        "title": row["title"],
    }
    return {name: clean(value) for name, value in columns.items()}


@command(
    "show",
    "show one workflow: phases, tasks, gates, reading, reminders",
    WORKFLOW,
    examples=("holdfast show", "holdfast show dev-1f2e3d4c --json"),
)
def show(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    return Answer(
        lambda: json.workflow(receipt),
        lambda screen: _show_lines(screen, receipt, aimed=names_workflow(args)),
    )


def _show_lines(screen: Screen, receipt: Receipt, *, aimed: bool) -> Iterator[str]:
    """Yield everything about one workflow, as a tree."""
    state = receipt.state
    yield from _heading(screen, state, receipt.record)
    yield from _phases(screen, state)
    if state["tasks"] and state["phase"] is None:
        yield screen.paint("Tasks", "strong")
        yield from _tasks(screen, state, "  ")
    if state["gates"]:
        yield screen.paint("Gates", "strong")
        yield from gate_lines(screen, state["gates"], "  ")
    if state["required_reading"]:
        yield screen.paint("Must be read", "strong")
    for path in state["required_reading"]:
        mark = screen.mark("completed" if path in state["read"] else "pending")
        yield f"  {mark} {clean(path)}"
    yield from listing(screen, "Reminders", state["reminders"])
    violations = [f"{v['code']} ({v['severity']}): {v['details']}" for v in state["violations"]]
    yield from listing(screen, "Violations", violations)
    yield from listing(screen, "Context", pairs(other_context(state)))
    yield from note_lines(screen, receipt.notes)
    yield from next_lines(screen, state, aimed=aimed)


def _heading(screen: Screen, state: Workflow, record: str | None) -> Iterator[str]:
    status = state["status"].replace("_", " ")
    yield f"{screen.paint(clean(state['id']), 'strong')}{screen.dot()}{clean(status)}"
    if state["title"]:
        yield f"  {clean(state['title'])}"
    if state["subject"] and state["subject"] != state["title"]:
        yield f"  {clean(state['subject'])}"
    number, total = feature_position(state)
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
    skipped = pending(state) if state["status"] == "completed" else {}
    if skipped:
        yield f"  completed by force, skipped: {clean(listed(skipped))}"


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
        facts.append(f"commit {str(task.get('commit'))[:_COMMIT_CHARS]}")
    if task.get("reason"):
        facts.append(str(task.get("reason")))
    if task["status"] not in ("completed", "pending"):
        facts += [f"{name} {status}" for name, status in task.get("phases", {}).items()]
    if task.get("depends") and task["status"] == "pending":
        facts.append("after " + ", ".join([str(other) for other in task["depends"]]))
    return facts


def gate_lines(screen: Screen, gates: dict[str, Fields], indent: str) -> Iterator[str]:
    """Yield a line for each gate: its result, and what that rests on."""
    for name, fields in gates.items():
        status = str(fields.get("status", "pending"))
        failed = status in _FAILED or fields.get("passed") is False
        mark = "blocked" if failed else "completed" if is_passed(fields) else "pending"
        result = ["failed"] if failed else [] if status == mark else [status]
        facts = clean(screen.dot().join([*result, *_gate_facts(screen, fields)]))
        yield f"{indent}{screen.mark(mark)} {clean(name)}  {screen.paint(facts, 'dim')}".rstrip()


def _gate_facts(screen: Screen, fields: Fields) -> list[str]:
    facts = []
    if fields.get("evidence") == "run":
        ran = f"ran {fields.get('command')}"
        facts += [ran, how_it_ended(fields), seconds(fields.get("duration_ms"))]
        if fields.get("commit"):
            facts.append(f"at {str(fields['commit'])[:_COMMIT_CHARS]}")
    elif fields.get("evidence") == "claim":
        facts.append("claimed")
    if fields.get("last_run"):
        facts.append(screen.age(str(fields["last_run"])))
    free = {key: value for key, value in fields.items() if key not in _GATE_FIELDS}
    return [*facts, *pairs({key: value for key, value in free.items() if value is not None})]


def how_it_ended(fields: Fields) -> str:
    if fields.get("cancelled"):
        return "cancelled"
    return "timed out" if fields.get("timed_out") else f"exit {fields.get('exit_code')}"


def seconds(duration_ms: object) -> str:
    """Return ``0.4 s`` or ``12 s``."""
    if not isinstance(duration_ms, int):
        return "?"
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 10_000 else f"{duration_ms // 1000} s"


@command(
    "complete",
    "finish the workflow; refused while tasks, phases or gates are pending",
    option("--outcome", "TEXT", "what came of it"),
    flag("--force", "although something is pending; what was skipped is recorded"),
    option("--reason", "TEXT", "why it was forced"),
    examples=(
        "holdfast complete --outcome 'Merged'",
        "holdfast complete --force --reason 'the review moved to the next sprint'",
    ),
)
def complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete(
        outcome=args["outcome"], force=args["force"], reason=args["reason"], **target_args(args)
    )
    state = receipt.state
    done = f"workflow {state['id']} completed"
    if is_active(state):
        number, total = feature_position(state)
        file = state["context"].get("feature_file")
        done = f"feature {number - 1}/{total} completed; next: {file}"
    return Answer(
        lambda: {**json.change(receipt), "signal": receipt.signal},
        lambda screen: _completed_lines(screen, receipt, done, aimed=names_workflow(args)),
    )


def _completed_lines(screen: Screen, receipt: Receipt, done: str, *, aimed: bool) -> Iterator[str]:
    yield from changed_lines(screen, receipt, done, aimed=aimed)
    if receipt.signal:
        yield clean(receipt.signal)


@command(
    "abandon",
    "give the workflow up; `holdfast resume ID` brings it back",
    option("--reason", "TEXT", "why"),
    examples=("holdfast abandon --reason 'no longer needed'",),
)
def abandon(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.abandon(reason=args["reason"], **target_args(args))
    return changed_answer(args, receipt, f"workflow {receipt.state['id']} abandoned")
