"""Commands that record evidence: gates, violations, tests, and the files that were touched."""

from __future__ import annotations

import sys

from holdfast import answers
from holdfast.answers import clean
from holdfast.cli.answer import FAILED, Answer, answer_change, on_workflow
from holdfast.cli.commands.workflow import gate_lines, how_it_ended, seconds
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.cli.screen import Screen, counted
from holdfast.core.workflow import blocking
from holdfast.core.workflow.evidence import enforcement
from holdfast.keeper import Keeper, Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields

GROUPS["gate"] = "run a gate's command, record a claim about one, or list them"
GROUPS["tests"] = "run the tests and record the result, or record one"
GROUPS["files"] = "record the files that were touched"
GROUPS["violation"] = "record what a review found, clear it, or list what is there"

_MAX_TESTS, _MAX_OUTPUT_LINES = 20, 20
_GATE = Parameter("NAME", "the gate", into="gate", names="gate")
_LIMIT = Parameter("--timeout TIME", "how long it may take: 90s, 10m, 2h (default 10m)")


@command(
    "gate run: run a gate's command and record what came of it; exit code 4 if it failed",
    _GATE,
    Parameter(
        "[COMMAND]...",
        "what to run, after -- (default: the recipe's command, once it is trusted)",
        into="words",
    ),
    _LIMIT,
    "holdfast gate run lint -- ruff check .",
    "holdfast gate run test",
)
def gate_run(keeper: Keeper, args: Arguments) -> Answer:
    name = args["gate"]
    receipt = keeper.run_gate(
        name, args["words"], timeout=args["timeout"], echo=_echo(args), **args["target"]
    )
    gate = receipt.state["gates"][name]
    result = {"name": name, **gate}
    return _run_answer(args, receipt, f"gate {name}", result, passed=gate["passed"])


@command(
    "gate record: record what you know about a gate; it is shown as a claim",
    _GATE,
    Parameter("[KEY=VALUE]...", "a field to keep with it", into="fields"),
    Parameter("--passed", "it passed"),
    Parameter("--failed", "it did not"),
    "holdfast gate record security_review --passed findings=0",
    "holdfast gate record pr_created --passed pr_number=12 pr_url=https://example.org/12",
)
def gate_record(keeper: Keeper, args: Arguments) -> Answer:
    gate, passed = args["gate"], args["passed"]
    if passed == args["failed"]:
        message = "`holdfast gate record` takes either --passed or --failed"
        raise Usage(message, "holdfast help gate record")
    receipt = keeper.record_gate(gate, args["fields"], passed=passed, **args["target"])
    return answer_change(args, receipt, f"claimed: gate {gate} {'passed' if passed else 'failed'}")


@command(
    "gate list: list the gates and what each result rests on",
    "holdfast gate list",
    "holdfast gate list --json",
)
def gate_list(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    state, gates = receipt.state, receipt.state["gates"]
    return Answer(
        {"gates": [{"name": name, **gate} for name, gate in gates.items()], "id": state["id"]},
        lambda screen: gate_lines(screen, gates, "") if gates else ["No gate is known."],
        receipt.notes,
    )


on_workflow(
    "violation add: record what a review found; CRITICAL and HIGH hold back the handing over",
    Parameter("CODE", "its name, such as V-TEST-03"),
    Parameter("SEVERITY", "CRITICAL, HIGH, MEDIUM, LOW or INFO", names="severity"),
    Parameter("DETAILS", "what is wrong"),
    "holdfast violation add V-TEST-03 HIGH 'No test for the empty file'",
)(Keeper.add_violation, "violation {code} recorded: {details}")
on_workflow(
    "violation clear: say that a violation is mended",
    Parameter("CODE", "its name", names="violation"),
    "holdfast violation clear V-TEST-03",
)(Keeper.clear_violation, "violation {code} cleared")


@command(
    "violation list: list the violations, and whether they hold anything back",
    "holdfast violation list",
)
def violation_list(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    codes = blocking(receipt.state)
    fields = {
        "id": receipt.state["id"],
        **enforcement(receipt.state["violations"]),
        "blocking_codes": codes,
    }

    def lines(screen: Screen) -> Iterator[str]:
        for violation in fields["violations"]:
            mark = "blocked" if violation["code"] in codes else "pending"
            name = f"{violation['code']} {violation['severity']}"
            yield screen.row(mark, name, violation["details"])
        if not fields["violations"]:
            yield "No violation is known."
        elif fields["blocking"]:
            yield screen.paint(f"  {clean(fields['summary'])}: the work is not handed over", "warn")

    return Answer(fields, lines, receipt.notes)


@command(
    "tests run: run the tests and record which failed; exit code 4 when one did",
    Parameter("COMMAND...", "what to run, after --", into="words"),
    _LIMIT,
    "holdfast tests run -- pytest -q",
)
def tests_run(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.run_tests(
        args["words"], timeout=args["timeout"], echo=_echo(args), **args["target"]
    )
    tests = receipt.state["tests"]
    passed = tests.get("last_result") == "passed"
    return _run_answer(args, receipt, "tests", dict(tests), passed=passed)


@command(
    "tests record: record a test run that you made yourself",
    Parameter("--command TEXT", "what was run", into="ran", required=True),
    Parameter("--failing A,B", "the tests that failed, with commas between"),
    Parameter("--passing A,B", "the tests that passed"),
    Parameter("--error TEXT", "what went wrong"),
    "holdfast tests record --command 'cargo test' --failing login --passing a,b",
)
def tests_record(keeper: Keeper, args: Arguments) -> Answer:
    values = args["own"]
    for key in ("failing", "passing"):
        values[key] = [name.strip() for name in (values[key] or "").split(",") if name.strip()]
    receipt = keeper.record_tests(**values, **args["target"])
    return answer_change(
        args, receipt, f"test run recorded: {receipt.state['tests']['last_result']}"
    )


def _files_synced(receipt: Receipt, _values: Fields) -> str:
    if not receipt.seqs:
        return "no file was touched since"
    return f"{counted(len(receipt.state['files']), 'files')} recorded"


on_workflow(
    "files add: record a file that was touched",
    Parameter("PATH", "the file", names="file"),
    Parameter(
        "--phase NAME", "the phase that touched it (default: the current one)", names="phase"
    ),
    Parameter("--lines N", "how many lines were added", kind="count"),
    "holdfast files add src/login.py --phase green --lines 12",
)(Keeper.add_file, "file recorded: {path}")
on_workflow(
    "files sync: record the files that git says were touched since the workflow began",
    "holdfast files sync",
)(Keeper.sync_files, _files_synced)


def _run_answer(
    args: Arguments, receipt: Receipt, what: str, result: Fields, *, passed: bool
) -> Answer:
    """Answer a command that ran something, with the end of its output if it failed."""

    def lines(screen: Screen) -> Iterator[str]:
        facts = [how_it_ended(result), seconds(result.get("duration_ms"))]
        facts += [f"{count} {name}" for name, count in result.get("counts", {}).items() if count]
        mark, became = ("completed", "passed") if passed else ("blocked", "failed")
        yield screen.row(mark, f"{what} {became}", *facts)
        for name in result.get("failing_tests", [])[:_MAX_TESTS]:
            yield f"  {screen.mark('blocked')} {clean(name)}"
        tail = str(result.get("output_tail") or result.get("last_error") or "")
        if tail and not passed:
            for line in tail.split("\n")[-_MAX_OUTPUT_LINES:]:
                yield screen.paint(f"  | {clean(line)}", "dim")

    return Answer(
        lambda: answers.run(receipt, what, result, passed=passed),
        lines,
        notes=receipt.notes,
        state=receipt.state,
        aimed=args["is_aimed"],
        code=0 if passed else FAILED,
    )


def _echo(args: Arguments) -> Callable[[bytes], None] | None:
    """Return a function that shows a command's output on a terminal as it comes."""
    out = sys.stderr
    if args["json"] or out is None or not out.isatty():
        return None

    def show(piece: bytes) -> None:
        lines = piece.decode(errors="replace").split("\n")
        out.write("\n".join(clean(line) for line in lines))
        out.flush()

    return show
