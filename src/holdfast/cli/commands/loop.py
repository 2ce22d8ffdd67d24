"""Commands of loops: units of work in bounded iterations, confirmed and verified."""

from __future__ import annotations

import gc
import os
import sys

from holdfast.answers import json
from holdfast.answers.text import clean
from holdfast.cli.answer import FAILED, Answer, answer_change, make_declarer
from holdfast.cli.parser import GROUPS, Parameter, Usage, command, own_values
from holdfast.cli.screen import Screen, next_lines, note_lines
from holdfast.core.refusal import shell_word
from holdfast.loops import Loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.answer import Changed
    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.keeper import Keeper, Receipt

GROUPS["loop"] = "units of work in bounded iterations, confirmed and verified"
GROUPS["loop guardrail"] = "lessons that every iteration is told"

_SLUG = Parameter(
    "[SLUG]", "the loop's name (default: the one that is active)", kind="id", names="loop"
)
_NEW = Parameter(
    "SLUG", "the loop's name: lower case letters, digits and -", kind="id", names="loop"
)
_UNIT = Parameter("UNIT", "the unit: T1, or R1 in knowledge mode", names="unit")
_LIMIT = Parameter("--timeout TIME", "how long one run may take: 90s, 10m, 2h (default 30m)")

_MARKS = {"confirming": "in_progress", "verifying": "in_progress", "timeout": "blocked"}
_NO_UNIT = {
    "plan": "no unit is planned",
    "wait": "no unit is ready",
    "archive": "every unit is done",
}
_DUE = {"confirm": ", to be confirmed", "verify": ", to be verified", "timeout": ", out of them"}


def _target(args: Arguments) -> Fields:
    return {"slug": args["workflow"], "id": args["id"]}


on_loop = make_declarer(Loops, _target, answer_change)
"""Declare a command that changes the loop of ``-w``, or the active one."""


@command(
    "loop new: open a loop with its pages, or go on with the active one of this name",
    _NEW,
    Parameter("--mode MODE", "development (tasks T1…, the default) or knowledge (phases R1…)"),
    Parameter("--task NAME", "what it is called"),
    Parameter("--domain NAME", "feature, bug, refactor, research, writing, analysis, …"),
    Parameter("--outcome TEXT", "what is needed"),
    Parameter("--done-when TEXT...", "a criterion of the whole"),
    Parameter("--constraint TEXT...", "a limit to keep", into="constraints"),
    Parameter("--notes TEXT", "approach, open questions"),
    Parameter("--inherit", "take the lessons of archived loops that match"),
    "holdfast loop new user-auth --outcome 'People can log in' --done-when 'tests pass'",
    "holdfast loop new survey --mode knowledge --domain research",
)
def new(keeper: Keeper, args: Arguments) -> Answer:
    options = {**own_values(args), "mode": args["mode"] or "development"}
    receipt = Loops(keeper).new(**options, id=args["id"])
    verb = "goes on" if receipt.resumed else "opened"
    folder = receipt.state["record"].rpartition("/")[0]
    return _named_answer(keeper, args, receipt, f"loop {receipt.state['id']} {verb}: {folder}/")


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
    options = own_values(args)
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
        lambda: json.with_notes({"next": turn}, notes),
        lambda screen: _turn_lines(screen, turn, notes),
    )


def _turn_lines(screen: Screen, turn: Fields, notes: list[str]) -> Iterator[str]:
    """Yield what to do now, with everything that an agent needs for it."""
    for name, why in turn["stuck"].items():
        yield screen.row("blocked", f"{name} {why}")
    if "unit" not in turn:
        yield screen.row("pending", _NO_UNIT[turn["turn"]])
    else:
        yield from _unit_turn(screen, turn)
    yield from note_lines(screen, notes)
    yield f"  next: {clean(turn['command'])}"
    for alternative in turn.get("or", ()):
        yield f"    or: {clean(alternative)}"


def _unit_turn(screen: Screen, turn: Fields) -> Iterator[str]:
    number = f"iteration {turn['iteration']} of {turn['max_iterations']}"
    head = clean(f"{turn['unit']}: {turn['title']}")
    yield f"{screen.mark('in_progress')} {screen.paint(head, 'strong')}"
    yield f"  {clean(turn['status'].replace('_', ' '))}, {number}{_DUE.get(turn['turn'], '')}"
    for key in ("criteria", "files", "output", "remaining", "blockers", "verify", "model"):
        if turn.get(key):
            value = turn[key]
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"  {key}: {clean(text)}"
    for lesson in turn["guardrails"]:
        text = f"when {lesson.get('when')}: {lesson.get('problem')}; {lesson.get('solution')}"
        yield f"  guardrail: {clean(text)}"
    if "choices" in turn:
        yield f"  choices: {clean(turn['choices'])}"


@on_loop(
    "loop iterate: record an iteration; with the unit's signal it goes on to be confirmed",
    _UNIT,
    Parameter("--did TEXT", "what was done", required=True),
    Parameter("--remaining TEXT", "what is left"),
    Parameter("--blockers TEXT", "what is in the way"),
    Parameter("--commit SHA", "the commit that holds it"),
    Parameter("--signal SIGNAL", "T1_DONE, when every criterion is met"),
    "holdfast loop iterate T1 --did 'The model' --remaining 'Its tests'",
    "holdfast loop iterate T1 --did 'Its tests' --commit 4f5e6d7 --signal T1_DONE",
)
def iterate(loops: Loops, values: Fields) -> Changed:
    receipt = loops.iterate(**values)
    return receipt, f"iteration of {values['unit']} recorded{_status(receipt, values['unit'])}"


@on_loop(
    "loop confirm: record the pass that confirms a unit",
    _UNIT,
    Parameter("--clean", "nothing was found"),
    Parameter("--issues TEXT", "what was found; it goes back to work"),
    "holdfast loop confirm T1 --clean",
    "holdfast loop confirm T1 --issues 'No test for an empty name'",
)
def confirm(loops: Loops, values: Fields) -> Changed:
    if values.pop("clean") == (values["issues"] is not None):
        message = "`holdfast loop confirm` takes either --clean or --issues TEXT"
        raise Usage(message, "holdfast help loop confirm")
    receipt = loops.confirm(**values)
    return receipt, f"confirmation of {values['unit']}{_status(receipt, values['unit'])}"


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
    ways = [args["passed"], args["failed"] is not None, args["run"]]
    if sum(ways) != 1 or (args["words"] and not args["run"]):
        either = "either --passed, --failed TEXT or --run -- COMMAND"
        raise Usage(f"`holdfast loop verify` takes {either}", "holdfast help loop verify")
    loops, unit = Loops(keeper), args["unit"]
    if not args["run"]:
        receipt = loops.verify(unit, failed=args["failed"], **_target(args))
        return answer_change(args, receipt, f"verification of {unit}{_status(receipt, unit)}")
    receipt = loops.run_verification(unit, args["words"], timeout=args["timeout"], **_target(args))
    done = f"verification of {unit}{_status(receipt, unit)}"
    task = next(task for task in receipt.state["tasks"] if str(task["id"]) == unit)
    if task["status"] == "completed":
        return answer_change(args, receipt, done)
    aim = f" -w {shell_word(args['workflow'])}" if args["workflow"] else ""
    why, following = str(task.get("remaining") or ""), f"holdfast loop next{aim}"

    def lines(screen: Screen) -> Iterator[str]:
        yield screen.row("blocked", done)
        for line in why.split("\n"):
            yield f"  {clean(line)}"
        yield from note_lines(screen, receipt.notes)
        yield f"  next: {clean(following)}"

    return Answer(
        lambda: json.failed_verification(receipt, unit, why, following), lines, code=FAILED
    )


@on_loop(
    "loop block: say that a unit cannot go on; the next one is free",
    _UNIT,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast loop block T3 --reason 'waits for access'",
)
def block(loops: Loops, values: Fields) -> Changed:
    return loops.block(**values), f"{values['unit']} blocked"


@on_loop("loop unblock: let a blocked unit go on", _UNIT, "holdfast loop unblock T3")
def unblock(loops: Loops, values: Fields) -> Changed:
    receipt = loops.unblock(**values)
    return receipt, f"{values['unit']} goes on{_status(receipt, values['unit'])}"


@on_loop(
    "loop extend: allow a unit more iterations",
    _UNIT,
    Parameter("--max N", "how many altogether", kind="count", required=True),
    "holdfast loop extend T1 --max 10",
)
def extend(loops: Loops, values: Fields) -> Changed:
    return loops.extend(**values), f"{values['unit']} may take {values['max']} iterations"


@on_loop(
    "loop guardrail add: add a lesson that every later iteration is told",
    Parameter("--when TEXT", "when it applies", required=True),
    Parameter("--problem TEXT", "what went wrong", required=True),
    Parameter("--solution TEXT", "how to avoid it", required=True),
    Parameter("--name TEXT", "what to call it"),
    Parameter("--learned TEXT", "where, such as 'T1 iteration 2'"),
    "holdfast loop guardrail add --when 'dates' --problem 'local time' --solution 'UTC'",
)
def guardrail(loops: Loops, values: Fields) -> Changed:
    return loops.guardrail(**values), "guardrail added"


@on_loop(
    "loop phase: move the loop's own phase by hand; it follows its units by itself",
    Parameter("NAME", "discover, plan, execute, verify or deliver", names="phase"),
    "holdfast loop phase verify",
)
def phase(loops: Loops, values: Fields) -> Changed:
    receipt = loops.phase(**values)
    return receipt, f"{receipt.state['id']} is in phase {receipt.state['phase']}"


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
    following = "" if states else loops.opening()[1]

    def lines(screen: Screen) -> Iterator[str]:
        if not states:
            yield "No loop is active here."
            yield screen.paint(f"  next: {clean(following)}", "dim")
        for state in states:
            yield from loop_lines(screen, state)

    return Answer(lambda: json.loops(states, notes), lines, notes=notes)


def loop_lines(screen: Screen, state: Workflow) -> Iterator[str]:
    """Yield a loop with its units."""
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
        yield _unit_line(screen, task)
    yield from next_lines(screen, state, aimed=True)


def _unit_line(screen: Screen, task: Task) -> str:
    status, used, passes = (
        task["status"],
        task.get("iterations_used"),
        task.get("confirmations_used"),
    )
    depends = ", ".join(map(str, task.get("depends") or []))
    return "  " + screen.row(
        _MARKS.get(status, status),
        f"{task['id']}  {task['description']}",
        "" if status in ("pending", "completed", "in_progress") else status,
        f"iteration {used} of {task.get('max_iterations', 5)}" if used else "",
        f"{passes} confirmation{'s' * (passes != 1)}" if passes else "",
        str(task.get("reason") or ""),
        f"after {depends}" if depends else "",
    )


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
    "holdfast loop run user-auth --verify 'make test' -- claude -p",
)
def run(keeper: Keeper, args: Arguments) -> Answer:
    options: Fields = {"verify": args["verify"], "timeout": args["timeout"]}
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    if is_watched:
        options["tell"] = _show_bar
    _end_worker_with_us()
    gc.enable()  # this process may live for hours
    try:
        result = Loops(keeper).run(args["slug"], args["words"], **options)
    finally:
        if is_watched:
            sys.stderr.write(_line_start())
            sys.stderr.flush()
    return Answer(
        lambda: json.loop_run(result),
        lambda screen: _run_lines(screen, result),
        code=0 if result["finished"] else FAILED,
    )


def _run_lines(screen: Screen, result: Fields) -> Iterator[str]:
    """Yield how a run ended."""
    mark = "completed" if result["finished"] else "blocked"
    done = ", ".join(result["done"]) or "none"
    count = f"{result['turns']} turn{'s' * (result['turns'] != 1)}"
    yield screen.row(mark, f"{result['loop']}: {count}; done: {done}")
    for name, why in result["stuck"].items():
        yield "  " + screen.row("blocked", f"{name} {why}")
    yield from note_lines(screen, result["notes"])
    yield f"  next: {clean(result['next'])}"


def _end_worker_with_us() -> None:
    """Let a signal, or a closed terminal, end the worker with this process, as Ctrl-C does."""
    import signal

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, end)


def _show_bar(state: Workflow, task: Task, turn: str) -> None:
    """Redraw the bar that shows how far the run is."""
    from holdfast.loops.driver import bar

    line = Screen.of(sys.stderr).fitted(clean(bar(state, task, turn)), 1)
    sys.stderr.write(f"{_line_start()}{line}")
    sys.stderr.flush()


def _line_start() -> str:
    """Return what begins the line anew; a dumb terminal can only begin another one."""
    return "\n" if os.environ.get("TERM") == "dumb" else "\r\x1b[K"


def _named_answer(keeper: Keeper, args: Arguments, receipt: Receipt, done: str) -> Answer:
    """Answer about a loop that was named by its slug; the next command may have to name it too."""
    return answer_change(args, receipt, done, aimed=Loops(keeper).needs_explicit_id(receipt.state))


def _slug(args: Arguments) -> str | None:
    slug: str | None = args["slug"] or args["workflow"]
    return slug


def _split(listed: list[str]) -> list[str]:
    return [name.strip() for names in listed for name in names.split(",") if name.strip()]


def _status(receipt: Receipt, unit: str) -> str:
    for task in receipt.state["tasks"]:
        if str(task["id"]) == unit:
            status = task["status"].replace("_", " ").replace("completed", "done")
            return f": {status}"
    return ": ?"
