"""Commands that do one step whole: red, green, refactor, commit."""

from __future__ import annotations

from holdfast.cli.answer import Answer, answer_change
from holdfast.cli.commands.evidence import LIMIT, echo_for, run_answer
from holdfast.cli.parser import Parameter, command
from holdfast.core.workflow.steps import is_step_done
from holdfast.evidence.commits import SHORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Arguments
    from holdfast.keeper import Keeper

_STEP = (
    Parameter(
        "[COMMAND]...", "the test command, after -- (default: the one that ran last)", into="words"
    ),
    LIMIT,
    Parameter("--force", "although the step before lacks something; it is recorded as skipped"),
    Parameter("--reason TEXT", "why"),
)


@command(
    "red: move to red and run the tests, one of which must fail",
    *_STEP,
    "holdfast red -- pytest -q",
    "holdfast red",
)
def red(keeper: Keeper, args: Arguments) -> Answer:
    return _take(keeper, args)


@command(
    "green: move to green and run the tests; exit code 4 if one fails", *_STEP, "holdfast green"
)
def green(keeper: Keeper, args: Arguments) -> Answer:
    return _take(keeper, args)


@command(
    "refactor: move to refactor and run the tests; exit code 4 if one fails",
    *_STEP,
    "holdfast refactor",
)
def refactor(keeper: Keeper, args: Arguments) -> Answer:
    return _take(keeper, args)


def _take(keeper: Keeper, args: Arguments) -> Answer:
    step = args["command"]
    receipt = keeper.evidence().take_step(
        step, args["words"], timeout=args["timeout"], echo=echo_for(args), force=args["force"],
        reason=args["reason"], **args["target"],
    )  # fmt: skip
    tests = receipt.state["tests"]
    passed = tests.get("last_result") == "passed"
    is_good = is_step_done(receipt.state, step)
    return run_answer(args, receipt, step, dict(tests), passed=passed, is_good=is_good)


@command(
    "commit: commit what is staged, and complete the task or the phase with it",
    Parameter("--message TEXT", "the commit's message", short="-m", required=True),
    "holdfast commit -m 'Parse an empty file'",
)
def commit(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.evidence().commit(args["message"], **args["target"])
    commit = keeper.workspace.commit() or ""
    return answer_change(args, receipt, f"committed {commit[:SHORT]}: {args['message']}")
