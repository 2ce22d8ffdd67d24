"""Commands that look after the workspace, and the demonstration."""

from __future__ import annotations

import sys

from holdfast.cli.commands.logs import page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.keeper import Keeper
    from holdfast.keeper.audit.chain import Report

NOT_SOUND = 1
_DISPROVED = {
    "code": "failed",
    "message": "something that the demonstration shows did not hold",
    "hint": "holdfast demo",
}


def verify(keeper: Keeper, args: Arguments) -> Answer:
    return _reported(keeper.verify(everything=args["everything"]), "verify")


def repair(keeper: Keeper, _args: Arguments) -> Answer:
    return _reported(keeper.repair(), "repair")


def clean(keeper: Keeper, args: Arguments) -> Answer:
    gone, notes = keeper.clean(dry_run=args["dry_run"])
    data = {"gone": gone, "notes": notes, "dry_run": args["dry_run"]}
    return {"kind": "cleaned", "data": data}


def export(keeper: Keeper, args: Arguments) -> Answer:
    return {"kind": "lines", "data": keeper.export(workflow=args["workflow"])}


def import_file(keeper: Keeper, args: Arguments) -> Answer:
    imported = keeper.import_file(args["path"])
    fields = {"events": imported.events, "known": imported.known, "streams": imported.streams}
    answer = page("noted", fields, keeper.noticed())
    events = f"{imported.events} event{'' if imported.events == 1 else 's'}"
    answer["data"]["said"] = (
        f"imported {events} of {', '.join(imported.streams[:10])}"
        if imported.events
        else f"nothing is new in it: all {imported.known} events are here already"
    )
    return answer


def demo(args: Arguments) -> Answer:
    """The story is told on standard output, so as JSON it moves aside for the one object."""
    from holdfast.cli.demo import run

    told_on = sys.stdout
    if args["json"]:
        sys.stdout = sys.stderr
    try:
        code = run()
    finally:
        sys.stdout = told_on
    return {"kind": "demo", "data": {"error": _DISPROVED} if code else {}, "code": code}


def _reported(report: Report, command: str) -> Answer:
    data = {"report": report, "command": command}
    return {"kind": "report", "data": data, "code": 0 if report.ok else NOT_SOUND}
