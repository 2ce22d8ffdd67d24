"""Commands on whole workflows: open one from a recipe, list, show, resume, end."""

from __future__ import annotations

from holdfast import answers
from holdfast.cli.answer import Answer, answer_change, confirm, on_workflow, step_after
from holdfast.cli.parser import WORKFLOW, Parameter, Usage, command
from holdfast.cli.screen import (
    Screen,
    count_cells,
    counted,
    fit_columns,
    format_pairs,
    list_lines,
    next_lines,
    table_lines,
)
from holdfast.core.next_step import NextStep, current_task, lessons, next_fields
from holdfast.core.refusal import shell_word
from holdfast.core.selection import short_id
from holdfast.core.time import in_seconds
from holdfast.core.visible import clean
from holdfast.core.workflow import (
    declared_phase,
    find_phase,
    is_active,
    is_floating,
    unread,
)
from holdfast.core.workflow.evidence import OWN_GATE_FIELDS, how_it_ended, settled_at
from holdfast.core.workflow.lifecycle import (
    describe_pending,
    feature_position,
    other_context,
    overruled,
)
from holdfast.core.workflow.needs import (
    counts_in_words,
    evidence_of,
    failing_tests,
    has_failed,
    is_passed,
)
from holdfast.core.workflow.tasks import commits_of, inner_phase
from holdfast.errors import Fault
from holdfast.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields, Phase, Recipe, Task, Workflow
    from holdfast.keeper import Receipt

_OPTIONAL_COLUMNS = ("recipe", "branch", "tasks", "updated")
"""Columns that a narrow terminal does without, in this order."""
_TITLE_MIN, _BRANCH_MAX = 16, 28
_COMMIT_CHARS = 12
_PHASE_FIELDS = (
    "name", "status", "started_at", "completed_at", "approved", "claimed", "reason", "steps",
)  # fmt: skip
_GATE_FIELDS = (*OWN_GATE_FIELDS, "timeout")
_RECIPE_OPTIONAL_COLUMNS = ("title", "source", "format")
_RECIPE_FACTS = {
    "ttl": "ttl",
    "mode": "mode",
    "cycles_at": "cycles at",
    "subject_key": "subject key",
}
_RECIPE_PHASES_MIN = 36
_MAX_TESTS = 10
_MAX_OUTPUT_LINES = 10
_RULE_COLUMNS = 47
_INNER_PHASES = {
    "red": "RED (write a test that fails)",
    "green": "GREEN (make the tests pass)",
    "refactor": "REFACTOR (tidy up)",
}


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
    Parameter("--replace", "abandon the one that has its only place, or one of its features"),
    Parameter("--again", "begin it once more, although this session has completed it"),
    Parameter("--initiative NAME", "the initiative it is for", names="initiative"),
    Parameter("--milestone ID", "and its milestone (alone: of the current one)", names="milestone"),
    Parameter("--label LABEL...", "a label, by which agents choose work", into="labels"),
    Parameter("--after ID...", "a workflow to be completed before", into="after", names="workflow"),
    "holdfast start dev docs/plan.md --task 'Write the parser' --task 'Test it'",
    "holdfast start custom --title 'Move to v2' --phase prepare --phase migrate",
)
def start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start(**args["own"], **args["target"])
    state, is_resumed = receipt.state, bool(receipt.resumed)
    summary = Summary(keeper, receipt) if is_resumed else None

    def lines(screen: Screen) -> Iterator[str]:
        title = clean(state["title"] or state["subject"])
        started = clean(f"{'resumed' if is_resumed else 'started'} {state['id']}")
        name = screen.paint(started, "strong")
        yield f"{screen.mark('in_progress')} {name}" + (f"  {title}" if title else "")
        tasks = f"{screen.dot}{counted(len(state['tasks']), 'tasks')}" if state["tasks"] else ""
        yield screen.paint(f"  record: {clean(state['record'])}{tasks}", "dim")
        if summary is not None:
            yield from summary.lines(screen)

    def fields() -> Fields:
        briefed = {} if summary is None else {"briefing": summary.briefing}
        return {**answers.change(receipt), "resumed": is_resumed, **briefed}

    return Answer(
        fields,
        lines,
        notes=receipt.notes if summary is None else [],
        step=step_after(args, receipt, aimed=keeper.needs_explicit_id(state)),
    )


@command(
    "recipes: list the recipes there are, the shipped ones and this workspace's own",
    "holdfast recipes",
    "holdfast recipes --json",
)
def list_recipes(keeper: Keeper, _args: Arguments) -> Answer:
    rows = keeper.recipes()
    return Answer({"recipes": rows}, lambda screen: recipe_table(screen, rows))


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
        {"recipe": recipe, "source": source},
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
        own_keys = ("name", "steps", "needs", "next")
        about = screen.dim(
            f"steps {', '.join(phase['steps'])}" if "steps" in phase else "",
            f"needs {', '.join(phase['needs'])}" if "needs" in phase else "",
            after if "next" in phase else "",
            *format_pairs({key: value for key, value in phase.items() if key not in own_keys}),
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
    workflow, questions = args["workflow"], keeper.open_questions()
    if workflow is not None:
        questions = [row for row in questions if row["workflow"] == workflow]
        rows = [row for row in rows if row["id"] == workflow]
        if not rows:
            notes += keeper.show(workflow=workflow).notes

    def lines(screen: Screen) -> Iterator[str]:
        if rows:
            yield from status_table(screen, rows)
        else:
            yield "No workflow is active here."
            yield screen.paint("  next: holdfast start RECIPE SUBJECT", "dim")
        if questions:
            from holdfast.cli.commands.questions import waiting_lines

            yield from waiting_lines(screen, questions)

    return Answer(lambda: answers.workflows(rows, notes, questions), lines, notes=notes)


def status_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield a line for each workflow, within the terminal's width."""
    table = []
    for row in rows:
        phase = f"{row['phase_index']}/{row['phase_total']} {row['phase']}"
        tree = f" ({row['worktree']})" if row["worktree"] != "." else ""
        texts = {
            "id": row["id"],
            "recipe": row["recipe"],
            "phase": phase if row["phase"] else "-",
            "tasks": f"{row['tasks_done']}/{row['tasks_total']}" if row["tasks_total"] else "-",
            "branch": f"{row['branch'] or '-'}{tree}",
            "updated": screen.age(row["updated_at"]),
            "title": row["title"] or row["subject"],
        }
        table.append({name: clean(text) for name, text in texts.items()})
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


@command(
    "show: show one workflow: phases, tasks, gates, reading, reminders",
    WORKFLOW,
    Parameter("--at SEQ", "as it was after the event with this number (see log)", kind="count"),
    "holdfast show",
    "holdfast show dev-1f2e3d4c --json",
    "holdfast show --at 120",
)
def show(keeper: Keeper, args: Arguments) -> Answer:
    if args["at"] is not None:
        return _show_past(keeper, args["at"], args["workflow"])
    receipt = keeper.show(workflow=args["workflow"])
    return Answer(
        lambda: answers.workflow(receipt),
        lambda screen: workflow_lines(
            screen, receipt.state, receipt.record, keeper.missing_reading(receipt.state)
        ),
        notes=receipt.notes,
        step=step_after(args, receipt),
    )


def _show_past(keeper: Keeper, seq: int, workflow: str | None) -> Answer:
    """Answer with a workflow as it was. What was next then is not to be done now."""
    past = keeper.state_at(seq, workflow=workflow)
    state, event = past.state, past.event
    number = f"event {event['seq']}, {event['type']}"

    def lines(screen: Screen) -> Iterator[str]:
        yield screen.paint(f"As it was after {clean(number)}, {screen.age(event['at'])}:", "warn")
        yield from workflow_lines(screen, state, None, ())
        yield from next_lines(screen, NextStep("as it is now", ["show", state["id"]]))

    at = {name: event[name] for name in ("seq", "at", "type", "stream")}
    view = answers.workflow_view(state, None)
    return Answer({"workflow": view, "at": at}, lines, keeper.drain_notes())


def workflow_lines(
    screen: Screen, state: Workflow, record: str | None, missing: Sequence[str],
    time_of: Callable[[Phase | Task], str] = lambda _item: "",
) -> Iterator[str]:  # fmt: skip
    """Yield everything about one workflow, as a tree.

    ``missing`` are the required files that do not exist. ``time_of`` returns how long a phase or a
    task took, in words.
    """
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
        f"labels {', '.join(state['labels'])}" if state.get("labels") else "",
        f"after {', '.join(state['after'])}" if state.get("after") else "",
        f"begun {screen.age(state['created_at'])}",
        f"updated {screen.age(state['updated_at'])}",
    )
    yield f"  {screen.dim(*facts)}"
    if record is not None:
        yield screen.paint(f"  record: {clean(record)}", "dim")
    for name in ("outcome", "reason"):
        if state.get(name):
            yield f"  {name}: {clean(state.get(name))}"
    if state.get("skipped"):
        yield f"  completed by force, skipped: {clean(describe_pending(state['skipped']))}"
    yield from _phases(screen, state, time_of)
    if state["tasks"] and state["phase"] is None:
        yield screen.paint("Tasks", "strong")
        yield from _tasks(screen, state, "  ", time_of)
    if state["gates"]:
        yield screen.paint("Gates", "strong")
        yield from gate_lines(screen, state, "  ", output_of=_gates_with_output(state))
    yield from _test_lines(screen, state)
    if state["required_reading"]:
        yield screen.paint("Must be read", "strong")
    for path in state["required_reading"]:
        mark = "completed" if path in state["read"] else "pending"
        yield "  " + screen.row(mark, path, "missing" if path in missing else "")
    reminders = [f"{number}  {text}" for number, text in enumerate(state["reminders"], 1)]
    yield from list_lines(screen, "Reminders", reminders)
    if state.get("questions"):
        from holdfast.cli.commands.questions import question_lines

        yield from question_lines(screen, state)
    violations = [f"{v['code']} ({v['severity']}): {v['details']}" for v in state["violations"]]
    yield from list_lines(screen, "Violations", violations)
    conflicts = [
        f"{short_id(c['id'])}  {c['command']}, from {c['from']}: {c['why']}"
        for c in state.get("conflicts", ())
    ]
    yield from list_lines(screen, "Conflicts", conflicts)
    yield from list_lines(screen, "Context", format_pairs(other_context(state)))


def _phases(
    screen: Screen, state: Workflow, time_of: Callable[[Phase | Task], str]
) -> Iterator[str]:
    if state["phases"]:
        yield screen.paint("Phases", "strong")
    for phase in state["phases"]:
        is_current = phase["name"] == state["phase"]
        name = screen.paint(clean(phase["name"]), "strong") if is_current else clean(phase["name"])
        facts = screen.dim(
            time_of(phase),
            f"step {state['step']}" if is_current and state["step"] else "",
            "approved" if phase.get("approved") else "",
            "skipped" if phase["status"] == "skipped" else "",
            "claimed" if phase.get("claimed") else "",
            str(phase.get("reason") or ""),
            screen.age(phase["completed_at"]) if phase.get("completed_at") else "",
            *format_pairs({key: value for key, value in phase.items() if key not in _PHASE_FIELDS}),
        )
        yield f"  {screen.mark(phase['status'])} {name}  {facts}".rstrip()
        if is_current:
            yield from _tasks(screen, state, "    ", time_of)


def _tasks(
    screen: Screen, state: Workflow, indent: str, time_of: Callable[[Phase | Task], str]
) -> Iterator[str]:
    for task in state["tasks"]:
        status, depends = task["status"], task.get("depends")
        phases = {} if status in ("completed", "pending") else task.get("phases", {})
        yield indent + screen.row(
            status,
            f"{task['id']}  {task['description']}",
            time_of(task),
            *[f"commit {commit[:_COMMIT_CHARS]}" for commit in commits_of(task)],
            str(task.get("reason") or ""),
            *[f"{name} {became.replace('_', ' ')}" for name, became in phases.items()],
            f"after {', '.join(map(str, depends))}" if depends and status == "pending" else "",
        )


def _gates_with_output(state: Workflow) -> list[str]:
    """Return the gates whose output is shown: those that failed, and the last that was run."""
    gates = state["gates"]
    runs = [(str(gate.get("last_run")), name) for name, gate in gates.items() if "command" in gate]
    failed = [name for name in gates if gate_mark(state, name) == "blocked"]
    return [*failed, *(name for _, name in sorted(runs)[-1:])]


def _test_lines(screen: Screen, state: Workflow) -> Iterator[str]:
    """Yield what is known of the tests: their command, the last result, and those that failed."""
    tests = state["tests"]
    if not (tests.get("test_command") or tests.get("last_result")):
        return
    yield screen.paint("Tests", "strong")
    result = str(tests.get("last_result") or "not run")
    facts = [
        f"ran {tests['test_command']}" if tests.get("test_command") else "",
        *counts_in_words(tests),
        "claimed" if tests.get("evidence") == "claim" else "",
        screen.age(str(tests["last_run"])) if tests.get("last_run") else "",
    ]
    mark = {"passed": "completed", "failed": "blocked"}.get(result, "pending")
    yield "  " + screen.row(mark, result, *facts)
    for name in failing_tests(tests)[:_MAX_TESTS]:
        yield f"    {screen.mark('blocked')} {clean(name)}"
    if tests.get("last_error") and result != "passed":
        yield screen.paint(f"    | {clean(tests['last_error'])}", "dim")


def gate_lines(
    screen: Screen, state: Workflow, indent: str, *, output_of: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a line for each gate: its result, and what that rests on.

    For those in ``output_of``, yield the end of what it printed as well.
    """
    for name, fields in state["gates"].items():
        status, mark = fields.get("status", "pending"), gate_mark(state, name)
        facts = ["failed"] if mark == "blocked" else [] if status == mark else [str(status)]
        if fields.get("evidence") == "claim":
            is_enough = mark != "pending"
            facts.append("claimed" if is_enough else f"claimed; needs a {evidence_of(state, name)}")
        elif status == "waived":
            facts.append(f"by a person: {fields.get('reason')}")
        elif fields.get("evidence") == "check":
            facts.append(
                f"looked up: {fields['pushed_to']}" if "pushed_to" in fields else "looked up"
            )
        elif fields.get("evidence") == "run":
            commit = str(fields.get("commit") or "")[:_COMMIT_CHARS]
            facts += [
                f"ran {fields.get('command')}",
                how_it_ended(fields),
                in_seconds(fields.get("duration_ms")) or "?",
                f"on top of {commit}" if commit else "",
            ]
            if fields.get("instead_of"):
                facts.append(f"instead of {fields['instead_of']}: {fields.get('reason', '')}")
        if fields.get("machine"):
            facts.append(f"on {fields['machine']}")
        if settled := settled_at(fields):
            facts.append(screen.age(settled))
        free = {k: v for k, v in fields.items() if k not in _GATE_FIELDS and v is not None}
        claimed = {k: free.pop(k) for k in fields.get("claimed", ()) if k in free}
        pairs = [*format_pairs(free), *(f"{pair} (claimed)" for pair in format_pairs(claimed))]
        yield indent + screen.row(mark, name, *facts, *pairs)
        tail = str(fields.get("output_tail") or "").rstrip() if name in output_of else ""
        for line in tail.split("\n")[-_MAX_OUTPUT_LINES:] if tail else ():
            yield screen.paint(f"{indent}  | {clean(line)}", "dim")


def gate_mark(state: Workflow, name: str) -> str:
    """Return the status whose mark shows a gate's result."""
    if has_failed(state["gates"][name]):
        return "blocked"
    return "completed" if is_passed(state, name) else "pending"


@command(
    "resume: take a workflow up in this session and print its briefing",
    WORKFLOW,
    "holdfast resume",
    "holdfast resume dev-1f2e3d4c",
)
def resume(keeper: Keeper, args: Arguments) -> Answer:
    try:
        receipt = keeper.resume(**args["target"])
        if keeper.has_initiatives():
            from holdfast.initiatives import Initiatives

            receipt.notes += Initiatives(keeper).resume_noting()
    except Fault as fault:
        if fault.code != "not_writable":
            raise
        # Show it as it is, unless it would first have to come back, or into this worktree.
        receipt = keeper.show(workflow=args["workflow"])
        state = receipt.state
        if not is_active(state) or state["worktree"] != keeper.workspace.name:
            raise
        receipt.notes.append(f"shown only, not resumed: {fault.message}; {fault.hint}")
    summary = Summary(keeper, receipt)
    step = step_after(args, receipt, aimed=keeper.needs_explicit_id(receipt.state))

    def lines(screen: Screen) -> Iterator[str]:
        yield from summary.lines(screen)
        if summary.is_for_person(screen):
            yield from next_lines(screen, step())

    def fields() -> Fields:
        changed = answers.change(receipt)
        return {"briefing": summary.briefing, **changed, "next": next_fields(step())}

    return Answer(fields, lines, is_wrapped=summary.has_panel)


class Summary:
    """The text for a caller that resumes a workflow: the briefing, or a picture of it.

    Making it records that the caller's session was briefed.
    """

    def __init__(self, keeper: Keeper, receipt: Receipt) -> None:
        self.state: Workflow = receipt.state
        self.notes = receipt.notes
        self.branch: str | None = None
        self.briefing = ""
        self.missing: list[str] = []
        self._briefed_notes = 0
        self.has_panel = keeper.session.id is None
        """False for a session, which gets the briefing on a terminal too."""
        try:
            self.branch = keeper.workspace.branch()
            # That the request is a repeated one says nothing about the work.
            notes = [] if receipt.is_repeat else receipt.notes
            self.briefing = keeper.briefing(state=self.state, notes=notes)
            self._briefed_notes = len(notes)
            self.missing = keeper.missing_reading(self.state)
            if keeper.needs_delivery(receipt):
                keeper.note_briefing(self.briefing, "resume", workflow=self.state["id"])
        except Fault as fault:
            # The workflow is resumed, even if its briefing cannot be made or recorded.
            what = "it is not recorded" if self.briefing else "there is no briefing"
            receipt.notes.append(f"{what}: {fault.message}; {fault.hint}")

    def is_for_person(self, screen: Screen) -> bool:
        """Return whether a person reads it: a pipe and a session get the briefing itself."""
        return screen.width is not None and self.has_panel

    def lines(self, screen: Screen) -> Iterator[str]:
        if self.is_for_person(screen):
            yield from resume_panel(screen, self.state, self.branch, self.missing)
            yield from map(screen.note, self.notes)
        else:
            # The briefing has the notes from before it was made.
            lines = self.briefing.split("\n")
            yield from [clean(line, is_shown=True) for line in lines if line]
            yield from map(screen.note, self.notes[self._briefed_notes :])


def resume_panel(
    screen: Screen, state: Workflow, branch: str | None, missing: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the workflow as a tree, where it goes on, and what to keep in mind.

    ``missing`` are the required files that do not exist.
    """
    expected = state["branch"]
    if branch is not None and expected not in (None, branch) and not is_floating(state):
        branches = f"branch {clean(expected)}, checked out is {clean(branch)}"
        yield screen.paint(f"The workflow is for {branches}.", "warn")
        yield f"  1) git switch {clean(shell_word(expected))}"
        yield f"  2) holdfast abandon -w {clean(state['id'])}, and start anew"
        yield ""
    yield screen.paint("Found active workflow:", "strong")
    yield f"  ID: {clean(state['id'])}"
    number, total = feature_position(state)
    about = state["context"].get("feature_file") if total else state["subject"]
    position = f" ({number} of {total})" if total else ""
    is_feature = total or state["recipe"].get("subject_key") == "feature_file"
    yield f"  {'Feature' if is_feature else 'Subject'}: {clean(about)}{position}"
    yield f"  Started: {screen.age(state['created_at'])}"
    yield f"  Last activity: {screen.age(state['updated_at'])}"
    yield ""
    yield "  Progress:"
    tasks = [_resumed_task(screen, state, task) for task in state["tasks"]]
    for phase in state["phases"]:
        has_tasks = bool(tasks) and phase["name"] == state["phase"]
        facts = clean(_phase_facts(state, phase, has_tasks=has_tasks))
        text = clean(_in_words(phase["name"])) + screen.paint(f" ({facts})" if facts else "", "dim")
        yield f"    {screen.mark(phase['status'])} {text}{':' if has_tasks else ''}"
        yield from tasks if has_tasks else ()
    if state["phase"] is None:
        yield from tasks
    yield ""
    yield from _banner(screen, state)
    reading = [f"{path} (missing)" if path in missing else path for path in unread(state)]
    yield from list_lines(screen, "Must be read", reading)
    yield from list_lines(screen, "Guardrails", lessons(state))
    yield from list_lines(screen, "Reminders", state["reminders"])
    if state.get("questions"):
        from holdfast.cli.commands.questions import question_lines

        yield from question_lines(screen, state)
    yield from _last_tests(screen, state)


def _last_tests(screen: Screen, state: Workflow) -> Iterator[str]:
    """Yield the result of the last test run, and the tests that failed."""
    tests = state["tests"]
    failing = failing_tests(tests)
    if not isinstance(tests.get("last_run"), str):
        return
    yield f"Last test run ({screen.age(tests['last_run'])}): {clean(tests.get('last_result', '?'))}"
    for name in failing[:_MAX_TESTS]:
        yield f"  {screen.mark('blocked')} {clean(name)}"
    if len(failing) > _MAX_TESTS:
        yield f"  and {len(failing) - _MAX_TESTS} more: holdfast show {clean(state['id'])}"


def _phase_facts(state: Workflow, phase: Phase, *, has_tasks: bool) -> str:
    if has_tasks:
        done = [task for task in state["tasks"] if task["status"] == "completed"]
        return f"{len(done)}/{len(state['tasks'])} tasks complete"
    declared = declared_phase(state, phase["name"])
    if declared is not None and declared.get("sets_branch") and phase["status"] == "completed":
        return state["branch"] or ""
    return ", ".join(phase.get("steps", []))


def _resumed_task(screen: Screen, state: Workflow, task: Task) -> str:
    inner, facts = inner_phase(task), ""
    if task.get("commit"):
        facts = f"committed: {str(task.get('commit'))[:_COMMIT_CHARS]}"
    elif task["status"] == "blocked":
        facts = f"blocked: {task.get('reason', '')}"
    elif task["status"] == "in_progress" and inner is not None:
        result = str(state["tests"].get("last_result"))
        tests = {"failed": " - tests failing", "passed": " - tests passing"}.get(result, "")
        facts = f"{inner.upper()} phase{tests}"
    text = clean(f"Task {task['id']}: {task['description']}")
    about = screen.paint(f" ({clean(facts)})", "dim") if facts else ""
    return f"       {screen.mark(task['status'])} {text}{about}"


def _banner(screen: Screen, state: Workflow) -> Iterator[str]:
    """Yield where the work goes on, between two rules."""
    rule = ("━" if screen.fancy else "-") * min(_RULE_COLUMNS, screen.width or _RULE_COLUMNS)
    task, phase = current_task(state), find_phase(state, state["phase"])
    text = _in_words(phase["name"]) if phase is not None else "everything is done"
    if task is not None:
        number = state["tasks"].index(task) + 1
        text = f"Task {number}/{len(state['tasks'])} - {task['description']}"
    yield screen.paint(rule, "dim")
    yield f"{screen.mark('in_progress')} {screen.paint(f'Resuming: {clean(text)}', 'strong')}"
    if task is not None:
        inner = inner_phase(task)
        name = _in_words(str(state["phase"])) if inner is None else inner.upper()
        yield f"  Phase: {clean(_INNER_PHASES.get(inner or '', name))}"
    yield screen.paint(rule, "dim")


def _in_words(name: str) -> str:
    """Return ``task_execution`` as ``Task execution``."""
    text = " ".join(["PR" if part == "pr" else part for part in name.split("_")])
    return text[:1].upper() + text[1:]


@command(
    "complete: finish the workflow; refused while tasks, phases or gates are pending",
    Parameter("--outcome TEXT", "what came of it"),
    Parameter("--force", "although something is pending; what was skipped is recorded"),
    Parameter("--reason TEXT", "why it was forced"),
    "holdfast complete --outcome 'Merged'",
    "holdfast complete --force --reason 'the review moved to the next sprint'",
)
def complete(keeper: Keeper, args: Arguments) -> Answer:
    from holdfast import loops

    receipt = loops.complete(keeper, **args["own"], **args["target"])
    state = receipt.state
    done = f"workflow {state['id']} completed{overruled(state, state.get('skipped', {}))}"
    if is_active(state):
        number, total = feature_position(state)
        file = state["context"].get("feature_file")
        done = f"feature {number - 1}/{total} completed; next: {file}"

    def lines(screen: Screen) -> Iterator[str]:
        yield from answer_change(args, receipt, done).all_lines(screen)
        if receipt.signal:
            yield clean(receipt.signal)
        if not is_active(state):
            yield from next_lines(screen, _step_of_initiative(keeper, state))

    def fields() -> Fields:
        step = step_after(args, receipt)() or _step_of_initiative(keeper, state)
        return {**answers.change(receipt), "signal": receipt.signal, "next": next_fields(step)}

    return Answer(fields, lines)


def _step_of_initiative(keeper: Keeper, state: Workflow) -> NextStep | None:
    """Return the next step of the current initiative, if a completed workflow belongs to it."""
    if "initiative" not in state:
        return None
    from holdfast.core.initiatives import names_of
    from holdfast.initiatives import Initiatives

    initiatives = Initiatives(keeper)
    current, name = initiatives.all()["current"], state["initiative"]["name"]
    initiative = initiatives.current()
    is_own = initiative is not None and name in names_of(str(current), initiative)
    return initiatives.next_step(after="complete") if is_own else None


on_workflow(
    "rename: change the workflow's title",
    Parameter("TITLE", "the new title"),
    "holdfast rename 'Import of CSV files'",
)(Keeper.rename, "renamed: {title}")


@command(
    "abandon: give the workflow up; `holdfast resume ID` brings it back",
    Parameter("--reason TEXT", "why"),
    Parameter("--all", "every active workflow of this worktree; asks on a terminal"),
    Parameter("--yes", "with --all: do not ask"),
    "holdfast abandon --reason 'no longer needed'",
    "holdfast abandon --all --yes",
)
def abandon(keeper: Keeper, args: Arguments) -> Answer:
    reason = args["reason"]
    if not args["all"]:
        receipt = keeper.abandon(reason=reason, **args["target"])
        return answer_change(args, receipt, f"workflow {receipt.state['id']} abandoned")
    if args["workflow"] is not None:
        message = "`holdfast abandon` takes either --all or a workflow"
        raise Usage(message, "holdfast help abandon")
    listed = [f"{row['id']} ({row['why']})" for row in keeper.active_here()]
    rows: list[Fields] = []
    notes: list[str] = []
    if listed and confirm("abandon --all", "Abandon all of these?", listed, args):
        rows, notes = keeper.abandon_all(reason)

    def lines(screen: Screen) -> Iterator[str]:
        for row in rows:
            yield screen.row("completed", f"workflow {row['id']} abandoned", str(row["why"]))
        if rows:
            yield screen.paint("  holdfast resume ID brings each of them back", "dim")
        else:
            yield "Nothing was abandoned." if listed else "No workflow is active here."

    return Answer({"abandoned": rows}, lines, notes)
