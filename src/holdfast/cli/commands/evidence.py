"""Commands that record evidence: gates, violations, tests, and the files that were touched."""

from __future__ import annotations

import sys

from holdfast import answers
from holdfast.cli.answer import (
    FAILED,
    Answer,
    ChangeKind,
    answer_change,
    require_person,
    step_after,
)
from holdfast.cli.commands.workflow import gate_lines
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.cli.screen import Screen, counted
from holdfast.core.refusal import shell_word
from holdfast.core.time import in_seconds
from holdfast.core.visible import clean
from holdfast.core.workflow import blocking, find_phase
from holdfast.core.workflow.evidence import enforcement, how_it_ended
from holdfast.core.workflow.needs import evidence_of
from holdfast.keeper.evidence import Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper, Receipt

GROUPS["gate"] = "run a gate's command, record a claim, waive a gate, or list them"
GROUPS["tests"] = "run the tests and record the result, or record one"
GROUPS["files"] = "record the files that were touched"
GROUPS["violation"] = "record what a review found, clear it, or list what is there"

_MAX_TESTS, _MAX_OUTPUT_LINES = 20, 20
_GATE = Parameter("NAME", "the gate", into="gate", names="gate")
LIMIT = Parameter("--timeout TIME", "how long it may take: 90s, 10m, 2h (default 10m)")


on_evidence = ChangeKind(
    {"workflow": "workflow", "id": "id"}, answer_change, lambda keeper: keeper.evidence()
)
"""Declare a command that records evidence of a workflow."""


@command(
    "gate run: run a gate's command and record what came of it; exit code 4 if it failed",
    _GATE,
    Parameter(
        "[COMMAND]...",
        "what to run, after -- (default: the declared command, else the one that ran last)",
        into="words",
    ),
    LIMIT,
    Parameter("--reason TEXT", "why it is another command than the one that failed last"),
    "holdfast gate run lint -- ruff check .",
    "holdfast gate run test",
)
def gate_run(keeper: Keeper, args: Arguments) -> Answer:
    name = args["gate"]
    receipt = keeper.evidence().run_gate(
        name, args["words"], timeout=args["timeout"], reason=args["reason"], echo=echo_for(args),
        **args["target"],
    )  # fmt: skip
    gate = receipt.state["gates"][name]
    result = {"name": name, **gate}
    return run_answer(args, receipt, f"gate {name}", result, passed=gate["passed"])


@command(
    "gate record: record a claim about a gate, or look it up; not for gates that run",
    _GATE,
    Parameter("[KEY=VALUE]...", "a field to keep with it", into="fields"),
    Parameter("--passed", "it passed"),
    Parameter("--failed", "it did not"),
    Parameter("--also NAME...", "another gate, with the same result", names="gate"),
    "holdfast gate record security_review --passed findings=0",
    "holdfast gate record security_review --also code_simplifier --passed",
    "holdfast gate record pr_created --passed pr_number=12 pr_url=https://example.org/12",
)
def gate_record(keeper: Keeper, args: Arguments) -> Answer:
    gate, passed = args["gate"], args["passed"]
    if passed == args["failed"]:
        message = "`holdfast gate record` takes either --passed or --failed"
        raise Usage(message, "holdfast help gate record")
    also = args["also"]
    receipt = keeper.evidence().record_gate(
        gate, args["fields"], passed=passed, also=also, **args["target"]
    )
    result = receipt.state["gates"][gate]
    names = f"gates {', '.join([gate, *also])}" if also else f"gate {gate}"
    done = f"claimed: {names} {'passed' if passed else 'failed'}"
    if result.get("evidence") == "check":
        claimed = f"; claimed: {', '.join(result['claimed'])}" if "claimed" in result else ""
        done = f"gate {gate} passed: {result['pushed_to']} has the branch{claimed}"
    return answer_change(args, receipt, done)


@command(
    "gate waive: decide, as a person, that a gate need not be passed",
    _GATE,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast gate waive lint --reason 'The project has no linter'",
)
def gate_waive(keeper: Keeper, args: Arguments) -> Answer:
    require_person(f"gate waive {shell_word(args['gate'])} --reason TEXT")
    receipt = keeper.evidence().waive_gate(args["gate"], args["reason"], **args["target"])
    return answer_change(args, receipt, f"gate {args['gate']} waived: {args['reason']}")


@command(
    "gate list: list the gates and what each result rests on",
    "holdfast gate list",
    "holdfast gate list --json",
)
def gate_list(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    state, gates = receipt.state, receipt.state["gates"]
    rows = [
        {"name": name, "needs": evidence_of(state, name), **gate} for name, gate in gates.items()
    ]
    return Answer(
        {"gates": rows, "id": state["id"]},
        lambda screen: gate_lines(screen, state, "") if gates else ["No gate is known."],
        receipt.notes,
        step=step_after(args, receipt),
    )


on_evidence(
    "violation add: record what a review found; CRITICAL and HIGH hold back the handing over",
    Parameter("CODE", "its name, such as V-TEST-03"),
    Parameter("SEVERITY", "CRITICAL, HIGH, MEDIUM, LOW or INFO", names="severity"),
    Parameter("DETAILS", "what is wrong"),
    "holdfast violation add V-TEST-03 HIGH 'No test for the empty file'",
)(Evidence.add_violation, "violation {code} recorded: {details}")
on_evidence(
    "violation clear: say that a violation is fixed",
    Parameter("CODE", "its name", names="violation"),
    "holdfast violation clear V-TEST-03",
)(Evidence.clear_violation, "violation {code} cleared")


@command(
    "violation list: list the violations, and whether they hold anything back",
    "holdfast violation list",
)
def violation_list(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    codes = blocking(receipt.state)
    phase = find_phase(receipt.state, receipt.state["phase"])
    fields = {
        "id": receipt.state["id"],
        **enforcement(receipt.state["violations"]),
        "blocking_codes": codes,
        "forced": phase.get("forced") if phase is not None and codes else None,
    }

    def lines(screen: Screen) -> Iterator[str]:
        for violation in fields["violations"]:
            mark = "blocked" if violation["code"] in codes else "pending"
            name = f"{violation['code']} {violation['severity']}"
            yield screen.row(mark, name, violation["details"])
        if not fields["violations"]:
            yield "No violation is known."
        elif fields["blocking"]:
            forced = fields["forced"]
            end = f"handed over all the same: {forced}" if forced else "the work is not handed over"
            yield screen.paint(f"  {clean(fields['summary'])}: {clean(end)}", "warn")

    return Answer(fields, lines, receipt.notes, step=step_after(args, receipt))


@command(
    "tests run: run the tests and record which failed; exit code 4 when one did",
    Parameter("[COMMAND]...", "what to run, after -- (default: what ran last)", into="words"),
    LIMIT,
    "holdfast tests run -- pytest -q",
)
def tests_run(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.evidence().run_tests(
        args["words"], timeout=args["timeout"], echo=echo_for(args), **args["target"]
    )
    tests = receipt.state["tests"]
    passed = tests.get("last_result") == "passed"
    return run_answer(args, receipt, "tests", dict(tests), passed=passed)


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
    receipt = keeper.evidence().record_tests(**values, **args["target"])
    return answer_change(
        args, receipt, f"test run recorded: {receipt.state['tests']['last_result']}"
    )


def _files_synced(receipt: Receipt, _values: Fields) -> str:
    if not receipt.seqs:
        return "no file was touched since the workflow began"
    return f"{counted(len(receipt.state['files']), 'files')} recorded"


on_evidence(
    "files add: record a file that was touched",
    Parameter("PATH", "the file", names="file"),
    Parameter(
        "--phase NAME", "the phase that touched it (default: the current one)", names="phase"
    ),
    Parameter("--lines N", "how many lines were added", kind="count"),
    "holdfast files add src/login.py --phase green --lines 12",
)(Evidence.add_file, "file recorded: {path}")
on_evidence(
    "files sync: record the files that git says were touched since the workflow began",
    "holdfast files sync",
)(Evidence.sync_files, _files_synced)


def run_answer(
    args: Arguments, receipt: Receipt, what: str, result: Fields, *, passed: bool,
    is_good: bool | None = None,
) -> Answer:  # fmt: skip
    """Answer a command that ran something, with the end of its output if it failed.

    ``is_good``: whether the result is what was asked for, if that is not a run that passed.
    """
    is_good = passed if is_good is None else is_good

    def lines(screen: Screen) -> Iterator[str]:
        facts = [how_it_ended(result), in_seconds(result.get("duration_ms")) or "?"]
        facts += [f"{count} {name}" for name, count in result.get("counts", {}).items() if count]
        became = "passed" if passed else "failed"
        if what == "red":
            became = "done: a test fails, as it must" if is_good else "shows no test that fails"
        yield screen.row("completed" if is_good else "blocked", f"{what} {became}", *facts)
        for name in result.get("failing_tests", [])[:_MAX_TESTS]:
            yield f"  {screen.mark('blocked')} {clean(name)}"
        tail = str(result.get("output_tail") or receipt.output or result.get("last_error") or "")
        if tail and not passed:
            for line in tail.split("\n")[-_MAX_OUTPUT_LINES:]:
                yield screen.paint(f"  | {clean(line)}", "dim")

    return Answer(
        lambda: answers.run(receipt, what, result, is_good=is_good),
        lines,
        notes=receipt.notes,
        step=step_after(args, receipt),
        code=0 if is_good else FAILED,
    )


def echo_for(args: Arguments) -> Callable[[bytes], None] | None:
    """Return a function that shows a command's output on a terminal as it comes."""
    out = sys.stderr
    if args["json"] or out is None or not out.isatty():
        return None

    def show(piece: bytes) -> None:
        lines = piece.decode(errors="replace").split("\n")
        out.write("\n".join(clean(line) for line in lines))
        out.flush()

    return show
