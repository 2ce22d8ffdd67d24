"""Commands that show something: gates, tests, and the files that were touched."""

from __future__ import annotations

import sys

from holdfast.cli.commands.progress import aim, changed, is_aimed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper, Receipt

FAILED = 4


def gate_run(keeper: Keeper, args: Arguments) -> Answer:
    name = args["gate"]
    receipt = keeper.run_gate(
        name, args["words"], timeout=args["timeout"], echo=_echo(args), **aim(args)
    )
    gate = receipt.state["gates"][name]
    return _ran(args, receipt, f"gate {name}", {"name": name, **gate}, passed=gate["passed"])


def gate_record(keeper: Keeper, args: Arguments) -> Answer:
    if args["passed"] == args["failed"]:
        from holdfast.cli.usage_errors import neither_or_both

        raise neither_or_both(args["command"], "--passed", "--failed")
    receipt = keeper.record_gate(args["gate"], args["fields"], passed=args["passed"], **aim(args))
    became = "passed" if args["passed"] else "failed"
    return changed(args, receipt, f"claimed: gate {args['gate']} {became}")


def gate_list(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.show(workflow=args["workflow"])
    return {"kind": "gates", "data": {"receipt": receipt}}


def violation_add(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.add_violation(args["code"], args["severity"], args["details"], **aim(args))
    return changed(args, receipt, f"violation {args['code']} recorded: {args['details']}")


def violation_clear(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.clear_violation(args["code"], **aim(args))
    return changed(args, receipt, f"violation {args['code']} cleared")


def violation_list(keeper: Keeper, args: Arguments) -> Answer:
    from holdfast.cli.commands.logs import page
    from holdfast.core.workflow.evidence import enforcement
    from holdfast.core.workflow.state import blocking

    receipt = keeper.show(workflow=args["workflow"])
    found = enforcement(receipt.state["violations"])
    fields = {"id": receipt.state["id"], **found, "blocking_codes": blocking(receipt.state)}
    return page("violations", fields, receipt.notes)


def tests_run(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.run_tests(
        args["words"], timeout=args["timeout"], echo=_echo(args), **aim(args)
    )
    tests = receipt.state["tests"]
    passed = tests.get("last_result") == "passed"
    return _ran(args, receipt, "tests", dict(tests), passed=passed)


def tests_record(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.record_tests(
        args["ran"],
        failing=_names(args["failing"]),
        passing=_names(args["passing"]),
        error=args["error"],
        **aim(args),
    )
    return changed(args, receipt, f"test run recorded: {receipt.state['tests']['last_result']}")


def files_add(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.add_file(args["path"], args["phase"], args["lines"], **aim(args))
    return changed(args, receipt, f"file recorded: {args['path']}")


def files_sync(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.sync_files(**aim(args))
    count = len(receipt.state["files"])
    said = f"{count} file{'s' if count != 1 else ''} recorded"
    return changed(args, receipt, said if receipt.seqs else "no file was touched since")


def _ran(args: Arguments, receipt: Receipt, what: str, result: Fields, *, passed: bool) -> Answer:
    data = {
        "receipt": receipt,
        "what": what,
        "result": result,
        "passed": passed,
        "aimed": is_aimed(args),
    }
    answer: Answer = {"kind": "run", "data": data}
    if not passed:
        answer["code"] = FAILED
    return answer


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]


def _echo(args: Arguments) -> Callable[[bytes], None] | None:
    """A person who watches sees the command's own output as it comes."""
    out = sys.stderr
    if args["json"] or out is None or not out.isatty():
        return None
    from holdfast.cli.terminal_text import clean

    def show(piece: bytes) -> None:
        lines = piece.decode(errors="replace").split("\n")
        out.write("\n".join(clean(line) for line in lines))
        out.flush()

    return show
