"""Commands on whole workflows: open one from a recipe, list, show, end."""

from __future__ import annotations

from holdfast.answers import json
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer, answer_change, names_workflow, on_workflow, target_args
from holdfast.cli.parser import WORKFLOW, Parameter, command, own_values
from holdfast.cli.screen import count_cells, fit_columns, format_pairs, list_lines, table_lines
from holdfast.core.workflow import is_active, is_passed
from holdfast.core.workflow.lifecycle import feature_position, listed, other_context, pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.answer import Changed
    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields, Recipe, Workflow
    from holdfast.keeper import Keeper

_OPTIONAL_COLUMNS = ("recipe", "branch", "tasks", "updated")
"""Columns that a narrow terminal does without, in this order."""
_TITLE_MIN, _BRANCH_MAX = 16, 28
_COMMIT_CHARS = 12
_PHASE_FIELDS = ("name", "status", "started_at", "completed_at", "approved", "reason", "steps")
_GATE_FIELDS = (
    "status", "passed", "last_run", "evidence", "command", "timeout", "exit_code", "signal",
    "timed_out", "cancelled", "duration_ms", "output_tail", "commit", "tree",
)  # fmt: skip
_RECIPE_OPTIONAL_COLUMNS = ("title", "source", "format")
_RECIPE_FACTS = {
    "ttl": "ttl",
    "mode": "mode",
    "cycles_at": "cycles at",
    "subject_key": "subject key",
}
_RECIPE_PHASES_MIN = 36
_FAILED = ("failed", "blocked", "rejected", "error")


@command(
    "start: open a workflow, or resume the active one with this subject",
    Parameter("RECIPE", "what to open it from, one of `holdfast recipes`", names="recipe"),
    Parameter(
        "[SUBJECT]",
        "what it is about: a file, a ticket, a sentence; for dev also a folder of files",
        names="file",
    ),
    Parameter("--title TEXT", "a title for people"),
    Parameter("--task TEXT...", "a task to begin with", into="tasks"),
    Parameter("--phase NAME...", "a phase, in place of the recipe's own", into="phases"),
    Parameter(
        "--read @PATH...",
        "a file that every resuming session must read first",
        into="reading",
        names="@file",
    ),
    Parameter("--remind TEXT...", "a reminder for every resuming session", into="reminders"),
    Parameter("--set KEY=VALUE...", "a field of the context", into="context"),
    Parameter("--branch NAME", "the branch it belongs to (default: the current one)"),
    Parameter("--ttl TIME", "how long it may lie still before it expires: 90m, 24h, 7d"),
    Parameter("--replace", "abandon the one that has the only place for such a record"),
    Parameter("--initiative NAME", "the initiative it is for", names="initiative"),
    Parameter("--milestone ID", "and its milestone (alone: of the current one)", names="milestone"),
    "holdfast start dev docs/plan.md --task 'Write the parser' --task 'Test it'",
    "holdfast start custom --title 'Move to v2' --phase prepare --phase migrate",
)
def start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start(**own_values(args), **target_args(args))
    state, is_resumed = receipt.state, bool(receipt.resumed)

    def lines(screen: Screen) -> Iterator[str]:
        title = clean(state["title"] or state["subject"])
        started = clean(f"{'resumed' if is_resumed else 'started'} {state['id']}")
        name = screen.paint(started, "strong")
        yield f"{screen.mark('in_progress')} {name}" + (f"  {title}" if title else "")
        yield screen.paint(f"  record: {clean(state['record'])}", "dim")

    return Answer(
        lambda: {**json.change(receipt), "resumed": is_resumed},
        lines,
        notes=receipt.notes,
        state=state,
        aimed=names_workflow(args) or keeper.needs_explicit_id(state),
    )


@command(
    "recipes: list the recipes there are, the shipped ones and this workspace's own",
    "holdfast recipes",
    "holdfast recipes --json",
)
def list_recipes(keeper: Keeper, _args: Arguments) -> Answer:
    rows = keeper.recipes()
    return Answer(lambda: {"recipes": rows}, lambda screen: recipe_table(screen, rows))


def recipe_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield a line for each recipe; a broken one shows its error in place of its phases."""
    table = []
    for row in rows:
        bad = row.get("bad")
        phases = f"{bad['key']}: {bad['why']}" if bad else screen.dot.join(row["phases"])
        names = ("name", "format", "title", "source")
        cleaned = {name: clean(row[name] or "-") for name in names}
        table.append({**cleaned, "phases": clean(phases)})
    widest = {} if screen.width is None else {"name": screen.width // 2}
    columns, widths = fit_columns(
        screen, table, _RECIPE_OPTIONAL_COLUMNS, widest, _RECIPE_PHASES_MIN
    )
    marks = [screen.mark("blocked") if "bad" in row else screen.no_mark for row in rows]
    yield from table_lines(screen, table, columns, widths, marks)


@command(
    "recipes show: show one recipe: phases, gates, task phases, context",
    Parameter("NAME", "the recipe", names="recipe"),
    "holdfast recipes show dev",
)
def show_recipe(keeper: Keeper, args: Arguments) -> Answer:
    recipe, source = keeper.recipe(args["name"])
    return Answer(
        lambda: {"recipe": recipe, "source": source},
        lambda screen: recipe_lines(screen, recipe, source),
    )


def recipe_lines(screen: Screen, recipe: Recipe, source: str) -> Iterator[str]:
    """Yield everything that the recipe says."""
    title = f"  {clean(recipe['title'])}" if "title" in recipe else ""
    yield screen.paint(clean(recipe["name"]), "strong") + title
    facts = [f"format {recipe['format']}"]
    facts += [f"{label} {recipe.get(key)}" for key, label in _RECIPE_FACTS.items() if key in recipe]
    yield f"  {screen.dim(*facts, source)}"
    yield screen.paint("Phases", "strong")
    for phase in recipe["phases"]:
        after = f"then {' or '.join(phase.get('next', []))}" if phase.get("next") else "the last"
        known = ("name", "steps", "approval", "next")
        about = screen.dim(
            f"steps {', '.join(phase['steps'])}" if "steps" in phase else "",
            "a person approves it" if phase.get("approval") else "",
            after if "next" in phase else "",
            *format_pairs({key: value for key, value in phase.items() if key not in known}),
        )
        yield f"  {clean(phase['name'])}  {about}".rstrip()
    gates = []
    for name, gate in recipe.get("gates", {}).items():
        fields = format_pairs({key: value for key, value in gate.items() if key != "status"})
        gates.append(f"{name}  {screen.dot.join(fields)}".rstrip())
    yield from list_lines(screen, "Gates", gates)
    yield from list_lines(screen, "Phases of a task", recipe.get("task_phases", []))
    yield from list_lines(screen, "Context", format_pairs(recipe.get("context", {})))


@command(
    "status: list the active workflows of this workspace",
    Parameter("--all", "all of them, not only the 200 with the newest activity"),
    "holdfast status",
    "holdfast status --all --json",
)
def status(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.workflows(every=args["all"])
    workflow = args["workflow"]
    if workflow is not None:
        rows = [row for row in rows if row["id"] == workflow]
        if not rows:
            notes += keeper.show(workflow=workflow).notes

    def lines(screen: Screen) -> Iterator[str]:
        if rows:
            yield from status_table(screen, rows)
        else:
            yield "No workflow is active here."
            yield screen.paint("  next: holdfast start RECIPE SUBJECT", "dim")

    return Answer(lambda: json.workflows(rows, notes), lines, notes=notes)


def status_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield a line for each workflow, within the terminal's width."""
    table = [_status_row(screen, row) for row in rows]
    columns, widths = fit_columns(
        screen, table, _OPTIONAL_COLUMNS, {"branch": _BRANCH_MAX}, _TITLE_MIN
    )
    if screen.width is not None and widths["title"] < count_cells("title"):
        columns.remove("title")
        widths["id"] = min(widths["id"], screen.width // 2)
        widths["phase"] = min(
            widths["phase"], screen.width - widths["id"] - count_cells(screen.no_mark) - 3
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
    "show: show one workflow: phases, tasks, gates, reading, reminders",
    WORKFLOW,
    "holdfast show",
    "holdfast show dev-1f2e3d4c --json",
)
def show(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    return Answer(
        lambda: json.workflow(receipt),
        lambda screen: _show_lines(screen, receipt.state, receipt.record),
        notes=receipt.notes,
        state=receipt.state,
        aimed=names_workflow(args),
    )


def _show_lines(screen: Screen, state: Workflow, record: str | None) -> Iterator[str]:
    """Yield everything about one workflow, as a tree."""
    yield from _heading(screen, state, record)
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
        yield "  " + screen.row("completed" if path in state["read"] else "pending", path)
    yield from list_lines(screen, "Reminders", state["reminders"])
    violations = [f"{v['code']} ({v['severity']}): {v['details']}" for v in state["violations"]]
    yield from list_lines(screen, "Violations", violations)
    yield from list_lines(screen, "Context", format_pairs(other_context(state)))


def _heading(screen: Screen, state: Workflow, record: str | None) -> Iterator[str]:
    status = state["status"].replace("_", " ")
    yield f"{screen.paint(clean(state['id']), 'strong')}{screen.dot}{clean(status)}"
    if state["title"]:
        yield f"  {clean(state['title'])}"
    if state["subject"] and state["subject"] != state["title"]:
        yield f"  {clean(state['subject'])}"
    number, total = feature_position(state)
    if total:
        yield clean(f"  feature {number} of {total}: {state['context'].get('feature_file')}")
    facts = (
        f"{state['recipe']['name']} ({state['recipe']['format']})",
        f"branch {state['branch']}" if state["branch"] else "",
        f"worktree {state['worktree']}" if state["worktree"] != "." else "",
        f"cycle {state['cycle']}" if state["cycle"] > 1 else "",
        f"begun {screen.age(state['created_at'])}",
        f"updated {screen.age(state['updated_at'])}",
    )
    yield f"  {screen.dim(*facts)}"
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
        is_current = phase["name"] == state["phase"]
        name = screen.paint(clean(phase["name"]), "strong") if is_current else clean(phase["name"])
        facts = screen.dim(
            f"step {state['step']}" if is_current and state["step"] else "",
            "approved" if phase.get("approved") else "",
            str(phase.get("reason") or ""),
            screen.age(phase["completed_at"]) if phase.get("completed_at") else "",
            *format_pairs({key: value for key, value in phase.items() if key not in _PHASE_FIELDS}),
        )
        yield f"  {screen.mark(phase['status'])} {name}  {facts}".rstrip()
        if is_current:
            yield from _tasks(screen, state, "    ")


def _tasks(screen: Screen, state: Workflow, indent: str) -> Iterator[str]:
    for task in state["tasks"]:
        status, commit, depends = task["status"], task.get("commit"), task.get("depends")
        phases = {} if status in ("completed", "pending") else task.get("phases", {})
        yield indent + screen.row(
            status,
            f"{task['id']}  {task['description']}",
            f"commit {str(commit)[:_COMMIT_CHARS]}" if commit else "",
            str(task.get("reason") or ""),
            *[f"{name} {became}" for name, became in phases.items()],
            f"after {', '.join(map(str, depends))}" if depends and status == "pending" else "",
        )


def gate_lines(screen: Screen, gates: dict[str, Fields], indent: str) -> Iterator[str]:
    """Yield a line for each gate: its result, and what that rests on."""
    for name, fields in gates.items():
        status, mark = fields.get("status", "pending"), gate_mark(fields)
        result = ["failed"] if mark == "blocked" else [] if status == mark else [str(status)]
        yield indent + screen.row(mark, name, *result, *_gate_facts(screen, fields))


def gate_mark(gate: Fields) -> str:
    """Return the status whose mark shows a gate's result."""
    if gate.get("status") in _FAILED or gate.get("passed") is False:
        return "blocked"
    return "completed" if is_passed(gate) else "pending"


def _gate_facts(screen: Screen, fields: Fields) -> list[str]:
    facts = ["claimed"] if fields.get("evidence") == "claim" else []
    if fields.get("evidence") == "run":
        commit = str(fields.get("commit") or "")[:_COMMIT_CHARS]
        facts = [
            f"ran {fields.get('command')}",
            how_it_ended(fields),
            seconds(fields.get("duration_ms")),
            f"at {commit}" if commit else "",
        ]
    if fields.get("last_run"):
        facts.append(screen.age(str(fields["last_run"])))
    free = {key: value for key, value in fields.items() if key not in _GATE_FIELDS}
    return [*facts, *format_pairs({key: value for key, value in free.items() if value is not None})]


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
    "complete: finish the workflow; refused while tasks, phases or gates are pending",
    Parameter("--outcome TEXT", "what came of it"),
    Parameter("--force", "although something is pending; what was skipped is recorded"),
    Parameter("--reason TEXT", "why it was forced"),
    "holdfast complete --outcome 'Merged'",
    "holdfast complete --force --reason 'the review moved to the next sprint'",
)
def complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete(**own_values(args), **target_args(args))
    state = receipt.state
    done = f"workflow {state['id']} completed"
    if is_active(state):
        number, total = feature_position(state)
        file = state["context"].get("feature_file")
        done = f"feature {number - 1}/{total} completed; next: {file}"

    def lines(screen: Screen) -> Iterator[str]:
        yield from answer_change(args, receipt, done).all_lines(screen)
        if receipt.signal:
            yield clean(receipt.signal)

    return Answer(lambda: {**json.change(receipt), "signal": receipt.signal}, lines)


@on_workflow(
    "abandon: give the workflow up; `holdfast resume ID` brings it back",
    Parameter("--reason TEXT", "why"),
    "holdfast abandon --reason 'no longer needed'",
)
def abandon(keeper: Keeper, values: Fields) -> Changed:
    receipt = keeper.abandon(**values)
    return receipt, f"workflow {receipt.state['id']} abandoned"
