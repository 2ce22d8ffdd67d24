"""Commands of loops: units of work in bounded iterations, confirmed and verified."""

from __future__ import annotations

import codecs
import gc
import os
import sys

from holdfast import answers
from holdfast.cli.answer import FAILED, Answer, ChangeKind, answer_change, step_after
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.cli.screen import Screen, counted, next_lines
from holdfast.core.next_step import next_fields, next_step, step_of_hint
from holdfast.core.refusal import shell_line
from holdfast.core.visible import clean
from holdfast.errors import HoldfastError
from holdfast.loops import Loops
from holdfast.loops.pages import render_brief

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.cli.parser import Arguments
    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.keeper import Keeper, Receipt

GROUPS["loop"] = "units of work in bounded iterations, confirmed and verified"
GROUPS["loop guardrail"] = "lessons that every iteration reads"

_SLUG = Parameter(
    "[SLUG]", "the loop's name (default: the one that is active)", kind="id", names="loop"
)
_UNIT = Parameter("UNIT", "the unit: T1, or R1 in knowledge mode", names="unit")
_LIMIT = Parameter("--timeout TIME", "how long one run may take: 90s, 10m, 2h (default 30m)")

_MARKS = {"confirming": "in_progress", "verifying": "in_progress", "timeout": "blocked"}
_NO_UNIT = {
    "plan": "no unit is planned",
    "wait": "no unit is ready",
    "answer": "a question waits for an answer",
    "archive": "every unit is done",
}
_LOOKS = (["loop", "next"], ["loop", "status"])
"""Commands that only show where a loop stands."""
_DUE = {"confirm": ", to be confirmed", "verify": ", to be verified", "timeout": ", out of them"}


on_loop = ChangeKind({"slug": "workflow", "id": "id"}, answer_change, Loops)
"""Declare a command that changes the loop of ``-w``, or the active one."""


@command(
    "loop new: open a loop with its pages, or go on with the active one of this name",
    Parameter("SLUG", "the loop's name: lower case letters, digits and -", kind="id", names="loop"),
    Parameter("--mode MODE", "development (tasks T1…, the default) or knowledge (phases R1…)"),
    Parameter("--task NAME", "what it is called"),
    Parameter("--domain NAME", "feature, bug, refactor, research, writing, analysis, …"),
    Parameter("--outcome TEXT", "what is needed"),
    Parameter("--done-when TEXT...", "a criterion of the whole"),
    Parameter("--constraint TEXT...", "a limit to keep", into="constraints"),
    Parameter("--approach TEXT", "how it is done, in one sentence"),
    Parameter("--pattern TEXT...", "a convention to follow", into="patterns"),
    Parameter("--notes TEXT", "details, open questions"),
    Parameter("--inherit", "take the lessons of archived loops that match"),
    "holdfast loop new user-auth --outcome 'People can log in' --done-when 'tests pass'",
    "holdfast loop new survey --mode knowledge --domain research",
)
def new(keeper: Keeper, args: Arguments) -> Answer:
    options = {**args["own"], "mode": args["mode"] or "development"}
    receipt = Loops(keeper).new(**options, id=args["id"])
    verb = "goes on" if receipt.resumed else "opened"
    folder = receipt.state["record"].rpartition("/")[0]
    return _named_answer(keeper, args, receipt, f"loop {receipt.state['id']} {verb}: {folder}/")


@command(
    "loop brief: show what a loop is about, or change it; an empty text takes it away",
    _SLUG,
    Parameter("--task NAME", "what it is called"),
    Parameter("--domain NAME", "feature, bug, refactor, research, writing, analysis, …"),
    Parameter("--outcome TEXT", "what is needed"),
    Parameter("--done-when TEXT...", "the criteria of the whole, in place of those it has"),
    Parameter("--constraint TEXT...", "the limits to keep", into="constraints"),
    Parameter("--approach TEXT", "how it is done, in one sentence"),
    Parameter("--pattern TEXT...", "the conventions to follow", into="patterns"),
    Parameter("--notes TEXT", "details, open questions"),
    "holdfast loop brief",
    "holdfast loop brief user-auth --outcome 'People log in and out' --approach 'Sessions first'",
)
def brief(keeper: Keeper, args: Arguments) -> Answer:
    loops, slug = Loops(keeper), _slug(args)
    values = {key: value for key, value in args["own"].items() if key != "slug"}
    # A list that was not given is empty.
    asked = {key: value for key, value in values.items() if value not in (None, [])}
    if asked:
        receipt = loops.brief(slug, **asked, id=args["id"])
        return _named_answer(keeper, args, receipt, f"brief of {receipt.state['id']} changed")
    receipt = loops.show(slug)

    def lines(screen: Screen) -> Iterator[str]:
        yield from map(clean, render_brief(receipt.state).splitlines())
        yield from next_lines(screen, step())

    def step() -> NextStep | None:
        return next_step(receipt.state, is_named=args["is_aimed"] or slug is not None)

    fields = {**answers.change(receipt), "next": next_fields(step())}
    return Answer(fields, lines, receipt.notes)


@command(
    "loop plan: plan a unit, or say anew what it is about",
    _SLUG,
    Parameter("--unit TEXT", "its id and title, such as 'T1: Add the model'", required=True),
    Parameter("--criteria TEXT", "when it is done, measurably"),
    Parameter("--files A,B", "the files it touches"),
    Parameter("--output PATH", "what it makes (knowledge mode)"),
    Parameter("--max N", "how many iterations it may take (default 5)", kind="count"),
    Parameter("--depends UNIT...", "a unit that has to be done before, or none", names="unit"),
    Parameter("--model NAME", "the model that should do it"),
    Parameter("--verify COMMAND", "what verifies it; runs once a person approved it"),
    "holdfast loop plan user-auth --unit 'T2: Log in' --depends T1 --max 8",
)
def plan(keeper: Keeper, args: Arguments) -> Answer:
    options = args["own"]
    options["slug"] = _slug(args)
    options["files"] = _split([args["files"] or ""])
    depends = _split(args["depends"])
    options["depends"] = [] if depends == ["none"] else depends or None
    receipt = Loops(keeper).plan(**options, id=args["id"])
    return _named_answer(keeper, args, receipt, f"planned: {args['unit']}")


@command(
    "loop next: what to do now: the unit, its criteria, what remains, the guardrails",
    _SLUG,
    "holdfast loop next",
    "holdfast loop next user-auth --json",
)
def next_turn(keeper: Keeper, args: Arguments) -> Answer:
    turn, notes = Loops(keeper).next(_slug(args))
    return Answer(
        answers.with_notes({"next": turn}, notes),
        lambda screen: _turn_lines(screen, turn, notes),
    )


def _turn_lines(screen: Screen, turn: Fields, notes: list[str]) -> Iterator[str]:
    """Yield what to do now, with everything that an agent needs for it."""
    for name, why in turn["stuck"].items():
        yield screen.row("blocked", f"{name} {why}")
    if "unit" not in turn:
        yield screen.row("pending", _NO_UNIT[turn["turn"]])
    else:
        number = f"iteration {turn['iteration']} of {turn['max_iterations']}"
        head = clean(f"{turn['unit']}: {turn['title']}")
        yield f"{screen.mark('in_progress')} {screen.paint(head, 'strong')}"
        yield f"  {clean(turn['status'].replace('_', ' '))}, {number}{_DUE.get(turn['turn'], '')}"
        for key in ("criteria", "files", "output", "remaining", "blockers", "verify", "model"):
            value = turn.get(key)
            if value:
                text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                yield f"  {key}: {clean(text)}"
        for lesson in turn["guardrails"]:
            text = f"when {lesson.get('when')}: {lesson.get('problem')}; {lesson.get('solution')}"
            yield f"  guardrail: {clean(text)}"
        if "choices" in turn:
            yield f"  choices: {clean(turn['choices'])}"
    yield from map(screen.note, notes)
    yield f"  next: {clean(shell_line(turn['command']))}"
    for alternative in turn.get("or", ()):
        yield f"    or: {clean(shell_line(alternative))}"


def _unit_became(what: str) -> Callable[[Receipt, Fields], str]:
    """Say what was done to the unit, and the status that it has now."""

    def describe(receipt: Receipt, values: Fields) -> str:
        return f"{what.format(**values)}{_status(receipt, values['unit'])}"

    return describe


def _status(receipt: Receipt, unit: str) -> str:
    for task in receipt.state["tasks"]:
        if str(task["id"]) == unit:
            return f": {task['status'].replace('_', ' ').replace('completed', 'done')}"
    return ": ?"


on_loop(
    "loop iterate: record an iteration; with the unit's signal it goes on to be confirmed",
    _UNIT,
    Parameter("--did TEXT", "what was done", required=True),
    Parameter("--remaining TEXT", "what is left"),
    Parameter("--blockers TEXT", "what is in the way"),
    Parameter("--commit SHA", "the commit that holds it"),
    Parameter("--signal SIGNAL", "T1_DONE, when every criterion is met"),
    "holdfast loop iterate T1 --did 'The model' --remaining 'Its tests'",
    "holdfast loop iterate T1 --did 'Its tests' --commit 4f5e6d7 --signal T1_DONE",
)(Loops.iterate, _unit_became("iteration of {unit} recorded"))


def _confirm(loops: Loops, *, clean: bool, issues: str | None, **values: Any) -> Receipt:
    if clean == (issues is not None):
        message = "`holdfast loop confirm` takes either --clean or --issues TEXT"
        raise Usage(message, "holdfast help loop confirm")
    return loops.confirm(issues=issues, **values)


on_loop(
    "loop confirm: record the pass that confirms a unit",
    _UNIT,
    Parameter("--clean", "nothing was found"),
    Parameter("--issues TEXT", "what was found; it goes back to work"),
    "holdfast loop confirm T1 --clean",
    "holdfast loop confirm T1 --issues 'No test for an empty name'",
)(_confirm, _unit_became("confirmation of {unit}"))


@command(
    "loop verify: record a unit's verification, or run it; only what passes is done",
    _UNIT,
    Parameter(
        "[COMMAND]...",
        "what verifies it, after -- (default with --run: the unit's own command)",
        into="words",
    ),
    Parameter("--passed", "it holds"),
    Parameter("--failed TEXT", "why it does not; it goes back to work"),
    Parameter("--run", "run what verifies it; exit code 4 when it does not pass"),
    _LIMIT,
    "holdfast loop verify T1 --passed",
    "holdfast loop verify T1 --run -- pytest -q tests/auth",
)
def verify(keeper: Keeper, args: Arguments) -> Answer:
    choices = [args["passed"], args["failed"] is not None, args["run"]]
    if sum(choices) != 1 or (args["words"] and not args["run"]):
        either = "either --passed, --failed TEXT or --run -- COMMAND"
        raise Usage(f"`holdfast loop verify` takes {either}", "holdfast help loop verify")
    loops, unit, target = Loops(keeper), args["unit"], {"slug": args["workflow"], "id": args["id"]}
    if args["run"]:
        receipt = loops.run_verification(unit, args["words"], timeout=args["timeout"], **target)
    else:
        receipt = loops.verify(unit, failed=args["failed"], **target)
    status = _status(receipt, unit)
    done = f"verification of {unit}{status}{', as claimed' if args['passed'] else ''}"
    if not args["run"] or status == ": done":
        return answer_change(args, receipt, done)
    task = next(task for task in receipt.state["tasks"] if str(task["id"]) == unit)
    why, following = str(task.get("remaining") or ""), step_after(args, receipt)()

    def lines(screen: Screen) -> Iterator[str]:
        yield screen.row("blocked", done)
        for line in why.split("\n"):
            yield f"  {clean(line)}"

    return Answer(
        lambda: answers.failed_verification(
            receipt, unit, why, following.text if following else ""
        ),
        lines,
        receipt.notes,
        step=lambda: following,
        code=FAILED,
    )


on_loop(
    "loop block: say that a unit cannot go on; the next one is free",
    _UNIT,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast loop block T3 --reason 'waits for access'",
)(Loops.block, "{unit} blocked")
on_loop("loop unblock: let a blocked unit go on", _UNIT, "holdfast loop unblock T3")(
    Loops.unblock, _unit_became("{unit} goes on")
)
on_loop(
    "loop extend: allow a unit more iterations",
    _UNIT,
    Parameter("--max N", "how many altogether", kind="count", required=True),
    "holdfast loop extend T1 --max 10",
)(Loops.extend, "{unit} may take {max} iterations")
on_loop(
    "loop guardrail add: add a lesson that every later iteration reads",
    Parameter("--when TEXT", "when it applies", required=True),
    Parameter("--problem TEXT", "what went wrong", required=True),
    Parameter("--solution TEXT", "how to avoid it", required=True),
    Parameter("--name TEXT", "what to call it"),
    Parameter("--learned TEXT", "where, such as 'T1 iteration 2'"),
    "holdfast loop guardrail add --when 'dates' --problem 'local time' --solution 'UTC'",
)(Loops.guardrail, "guardrail added")
on_loop(
    "loop phase: move the loop's own phase by hand; it follows its units by itself",
    Parameter("NAME", "discover, plan, execute, verify or deliver", names="phase"),
    "holdfast loop phase verify",
)(Loops.phase, "{state[id]} is in phase {state[phase]}")


@command(
    "loop status: show one loop with its units, or list the active ones",
    _SLUG,
    "holdfast loop status",
    "holdfast loop status user-auth",
)
def status(keeper: Keeper, args: Arguments) -> Answer:
    slug, loops = _slug(args), Loops(keeper)
    if slug is None:
        states, notes = loops.all()
    else:
        receipt = loops.show(slug)
        states, notes = [receipt.state], receipt.notes

    def lines(screen: Screen) -> Iterator[str]:
        if not states:
            yield "No loop is active here."
            yield from next_lines(screen, step())
        for state in states:
            yield from _loop_lines(screen, state)

    def step() -> NextStep | None:
        if not states:
            return step_of_hint(loops.opening()[1])
        # Of several, the caller's own or the newest.
        mine = [state for state in states if not loops.needs_explicit_id(state)]
        is_named = not mine or args["is_aimed"] or args["slug"] is not None
        return next_step((mine or states)[0], is_named=is_named)

    views = [answers.workflow_view(state, state["record"]) for state in states]
    return Answer({"loops": views, "next": next_fields(step())}, lines, notes)


def _loop_lines(screen: Screen, state: Workflow) -> Iterator[str]:
    """Yield a loop with its units and its next step."""
    done = sum(task["status"] == "completed" for task in state["tasks"])
    facts = [
        state["status"].replace("_", " "),
        f"phase {state['phase']}",
        f"{done}/{len(state['tasks'])} done",
        f"updated {screen.age(state['updated_at'])}",
    ]
    yield f"{screen.paint(clean(state['id']), 'strong')}  {clean(state['title'])}"
    yield f"  {screen.dim(*facts)}"
    for task in state["tasks"]:
        status, used, passes = (
            task["status"],
            task.get("iterations_used"),
            task.get("confirmations_used"),
        )
        depends = ", ".join(map(str, task.get("depends") or []))
        yield "  " + screen.row(
            _MARKS.get(status, status),
            f"{task['id']}  {task['description']}",
            "" if status in ("pending", "completed", "in_progress") else status,
            f"iteration {used} of {task.get('max_iterations', 5)}" if used else "",
            counted(passes, "confirmations") if passes else "",
            str(task.get("reason") or ""),
            f"after {depends}" if depends else "",
        )
    yield from next_lines(screen, next_step(state, is_named=True))


@command(
    "loop archive: move a loop's folder into the archive, finished or not",
    _SLUG,
    "holdfast loop archive user-auth",
)
def archive(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Loops(keeper).archive(_slug(args), id=args["id"])
    return answer_change(args, receipt, f"archived: {receipt.state['record'].rpartition('/')[0]}/")


@command(
    "loop rebuild: make a loop's state anew from its log, its pages and git",
    _SLUG,
    "holdfast loop rebuild user-auth",
)
def rebuild(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Loops(keeper).rebuild(_slug(args))
    return _named_answer(keeper, args, receipt, f"rebuilt: {receipt.state['id']}")


@command(
    "loop run: drive a loop without a person: a worker for each turn, until done or stuck",
    Parameter("SLUG", "the loop's name", kind="id", names="loop"),
    Parameter(
        "COMMAND...", "the worker, after --; it gets the prompt on standard input", into="words"
    ),
    Parameter(
        "--verify COMMAND",
        "what verifies a unit without a command of its own (default: one more run)",
    ),
    _LIMIT,
    Parameter(
        "--until TIME|COST...", "begin no turn after 2h, 18:30, or what costs 5usd", into="until"
    ),
    Parameter("--show", "show what the workers print, as it comes"),
    "holdfast loop run user-auth --verify 'make test' -- claude -p",
    "holdfast loop run user-auth --until 18:30 --until 5usd -- claude -p --output-format json",
)
def run(keeper: Keeper, args: Arguments) -> Answer:
    import signal

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    # A signal, or a closed terminal, ends the worker with this process, as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, end)
    gc.enable()  # this process may live for hours
    show = _Show(is_whole=args["show"])
    options: Fields = {"verify": args["verify"], "timeout": args["timeout"]}
    options |= {"until": args["until"], "tell": show.begin, "echo": show.echo}
    loops, code = Loops(keeper), FAILED
    try:
        result = loops.run(args["slug"], args["words"], **options)
    except (KeyboardInterrupt, SystemExit) as stopped:
        if not show.has_begun:
            raise
        code, by = 128 + signal.SIGINT, "Ctrl-C"
        if isinstance(stopped, SystemExit):
            code = int(str(stopped.code))
            by = signal.Signals(code - 128).name
        result = show.interrupted(loops, args["slug"], by)
    finally:
        show.close()
    step, notes = result.pop("next"), result.pop("notes")
    return Answer(
        answers.loop_run(result, step.text if step else ""),
        lambda screen: _run_lines(screen, result),
        notes,
        step=lambda: step,
        code=0 if result["finished"] else code,
    )


class _Show:
    """What a run shows on standard error: a bar on a terminal, or the workers' whole output."""

    def __init__(self, *, is_whole: bool) -> None:
        self._out = sys.stderr
        self._has_bar = not is_whole and self._out is not None and self._out.isatty()
        # What begins the line anew; a dumb terminal can only begin another one.
        self._line_start = "\n" if os.environ.get("TERM") == "dumb" else "\r\x1b[K"
        self._last: tuple[Task, str] | None = None
        self._turns = -1
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.echo = self._echo if is_whole and self._out is not None else None

    def begin(self, state: Workflow, task: Task, turn: str) -> None:
        """Show that a turn begins, and remember it."""
        from holdfast.loops.driver import bar

        self._last = task, turn
        self._turns += 1
        line = clean(bar(state, task, turn))
        if self._has_bar:
            self._write(f"{self._line_start}{Screen.of(self._out).fitted(line, 1)}")
        elif self.echo is not None:
            self._write(f"{line}\n")

    def _echo(self, piece: bytes) -> None:
        lines = self._decoder.decode(piece).split("\n")
        self._write("\n".join(map(clean, lines)))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    @property
    def has_begun(self) -> bool:
        return self._last is not None

    def interrupted(self, loops: Loops, slug: str, by: str) -> Fields:
        """Return the report of a run that was stopped in a turn."""
        from holdfast.loops.driver import INTERRUPTED, interruption, report

        assert self._last is not None, "no turn had begun"
        receipt = loops.show(slug)
        why = interruption(receipt.state, *self._last, by)
        return report(receipt.state, self._turns, INTERRUPTED, why, receipt.notes, None)

    def close(self) -> None:
        if self._has_bar:
            self._write(self._line_start)


def _run_lines(screen: Screen, result: Fields) -> Iterator[str]:
    """Yield how a run ended."""
    mark = "completed" if result["finished"] else "blocked"
    done, left = (", ".join(result[key]) or "none" for key in ("done", "left"))
    facts = [f"done: {done}", f"left: {left}"]
    if result["cost_usd"] is not None:
        facts.append(f"cost: {result['cost_usd']:.2f} USD")
    yield screen.row(mark, f"{result['loop']}: {counted(result['turns'], 'turns')}", *facts)
    yield f"  {clean(result['why'])}"
    for name, why in result["stuck"].items():
        yield "  " + screen.row("blocked", f"{name} {why}")


def step_after_refusal(error: Fields, args: Arguments, keeper: Keeper) -> NextStep | None:
    """Return what the hint of a refusal names; if that only shows the loop, the next step."""
    hinted = step_of_hint(error["hint"])
    words = [] if hinted is None else hinted.words
    words = words[2:] if words[:1] == ["-w"] else words
    if words and words[0] != "show" and words[:2] not in _LOOKS:
        return hinted
    try:
        state = Loops(keeper).show(args.get("slug") or args["workflow"]).state
    except HoldfastError:
        return hinted
    is_named = args["is_aimed"] or Loops(keeper).needs_explicit_id(state)
    return next_step(state, is_named=is_named, after=args["command"]) or hinted


def _named_answer(keeper: Keeper, args: Arguments, receipt: Receipt, done: str) -> Answer:
    """Answer about a loop that was named by its slug; the next command may have to name it too."""
    return answer_change(args, receipt, done, aimed=Loops(keeper).needs_explicit_id(receipt.state))


def _slug(args: Arguments) -> str | None:
    slug: str | None = args["slug"] or args["workflow"]
    return slug


def _split(comma_lists: list[str]) -> list[str]:
    return [name.strip() for names in comma_lists for name in names.split(",") if name.strip()]
