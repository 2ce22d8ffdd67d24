"""Commands of loops: each makes one call of the library, and shows what came of it."""

from __future__ import annotations

import gc
import os
import sys

from holdfast.cli.commands.progress import changed
from holdfast.core.refusal import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.keeper import Keeper, Receipt

FAILED = 4


def new(keeper: Keeper, args: Arguments) -> Answer:
    names = ("task", "domain", "outcome", "done_when", "constraints", "notes", "inherit", "id")
    options = {name: args[name] for name in names}
    receipt = keeper.loops().new(args["slug"], args["mode"] or "development", **options)
    verb = "goes on" if receipt.resumed else "opened"
    folder = receipt.state["record"].rpartition("/")[0]
    return _named(keeper, args, receipt, f"loop {receipt.state['id']} {verb}: {folder}/")


def plan(keeper: Keeper, args: Arguments) -> Answer:
    names = ("criteria", "max", "model", "output", "verify", "id")
    options: Fields = {name: args[name] for name in names}
    options["files"] = _split([args["files"] or ""])
    depends = _split(args["depends"])
    if depends:
        options["depends"] = [] if depends == ["none"] else depends
    receipt = keeper.loops().plan(_slug(args), args["unit"], **options)
    return _named(keeper, args, receipt, f"planned: {args['unit']}")


def next_turn(keeper: Keeper, args: Arguments) -> Answer:
    turn, notes = keeper.loops().next(_slug(args))
    return {"kind": "turn", "data": {"next": turn, "notes": notes}}


def iterate(keeper: Keeper, args: Arguments) -> Answer:
    names = ("did", "remaining", "blockers", "commit", "signal")
    said = {name: args[name] for name in names}
    receipt = keeper.loops().iterate(args["unit"], **said, **_aim(args))
    return changed(
        args, receipt, f"iteration of {args['unit']} recorded{_now(receipt.state, args)}"
    )


def confirm(keeper: Keeper, args: Arguments) -> Answer:
    if args["clean"] == (args["issues"] is not None):
        from holdfast.cli.usage_errors import neither_or_both

        raise neither_or_both(args["command"], "--clean", "--issues TEXT")
    receipt = keeper.loops().confirm(args["unit"], issues=args["issues"], **_aim(args))
    return changed(args, receipt, f"confirmation of {args['unit']}{_now(receipt.state, args)}")


def verify(keeper: Keeper, args: Arguments) -> Answer:
    given = [args["passed"], args["failed"] is not None, args["run"]]
    if sum(given) != 1 or (args["words"] and not args["run"]):
        from holdfast.cli.usage_errors import neither_or_both

        raise neither_or_both(args["command"], "--passed, --failed TEXT", "--run -- COMMAND")
    loops, unit = keeper.loops(), args["unit"]
    if not args["run"]:
        receipt = loops.verify(unit, failed=args["failed"], **_aim(args))
        return changed(args, receipt, f"verification of {unit}{_now(receipt.state, args)}")
    receipt = loops.run_verification(unit, args["words"], timeout=args["timeout"], **_aim(args))
    answer = changed(args, receipt, f"verification of {unit}{_now(receipt.state, args)}")
    task = next(task for task in receipt.state["tasks"] if str(task["id"]) == unit)
    if task["status"] != "completed":
        failed = {"unit": unit, "found": str(task.get("remaining") or "")}
        aim = f" -w {word(args['workflow'])}" if args["workflow"] else ""
        failed["next"] = f"holdfast loop next{aim}"
        answer["kind"], answer["code"] = "unverified", FAILED
        answer["data"] |= failed
    return answer


def block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.loops().block(args["unit"], args["reason"], **_aim(args))
    return changed(args, receipt, f"{args['unit']} blocked")


def unblock(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.loops().unblock(args["unit"], **_aim(args))
    return changed(args, receipt, f"{args['unit']} goes on{_now(receipt.state, args)}")


def extend(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.loops().extend(args["unit"], args["max"], **_aim(args))
    return changed(args, receipt, f"{args['unit']} may take {args['max']} iterations")


def guardrail(keeper: Keeper, args: Arguments) -> Answer:
    names = ("when", "problem", "solution", "name", "learned")
    said = {name: args[name] for name in names}
    return changed(args, keeper.loops().guardrail(**said, **_aim(args)), "guardrail added")


def phase(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.loops().phase(args["name"], **_aim(args))
    return changed(args, receipt, f"{receipt.state['id']} is in phase {receipt.state['phase']}")


def status(keeper: Keeper, args: Arguments) -> Answer:
    slug, loops = _slug(args), keeper.loops()
    if slug is None:
        states, notes = loops.all()
    else:
        receipt = loops.show(slug)
        states, notes = [receipt.state], receipt.notes
    following = "" if states else loops.opening()[1]
    return {"kind": "loops", "data": {"states": states, "notes": notes, "next": following}}


def archive(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.loops().archive(_slug(args), id=args["id"])
    return changed(args, receipt, f"archived: {receipt.state['record'].rpartition('/')[0]}/")


def rebuild(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.loops().rebuild(_slug(args))
    return _named(keeper, args, receipt, f"rebuilt: {receipt.state['id']}")


def run(keeper: Keeper, args: Arguments) -> Answer:
    options: Fields = {"verify": args["verify"], "timeout": args["timeout"]}
    watched = sys.stderr is not None and sys.stderr.isatty()
    if watched:
        options["tell"] = _tell
    _end_workers_too()
    gc.enable()  # this one may live for hours
    try:
        result = keeper.loops().run(args["slug"], args["words"], **options)
    finally:
        if watched:
            sys.stderr.write("\n" if _is_dumb() else "\r\x1b[K")
            sys.stderr.flush()
    answer: Answer = {"kind": "driven", "data": result}
    if not result["finished"]:
        answer["code"] = FAILED
    return answer


def _end_workers_too() -> None:
    """Whoever ends the run, or closes its terminal, ends the worker with it, as Ctrl-C does."""
    import signal

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, end)


def _tell(state: Workflow, task: Task, turn: str) -> None:
    """A bar that stays in its line, for whoever watches."""
    from holdfast.cli.screen import Screen
    from holdfast.cli.terminal_text import clean
    from holdfast.loops.driver import bar

    start = "\n" if _is_dumb() else "\r\x1b[K"
    line = Screen.of(sys.stderr).fitted(clean(bar(state, task, turn)), 1)
    sys.stderr.write(f"{start}{line}")
    sys.stderr.flush()


def _is_dumb() -> bool:
    return os.environ.get("TERM") == "dumb"


def _named(keeper: Keeper, args: Arguments, receipt: Receipt, said: str) -> Answer:
    """The answer about a loop that was named by its slug, which the next command may need too."""
    answer = changed(args, receipt, said)
    answer["data"]["aimed"] |= keeper.loops().must_name(receipt.state)
    return answer


def _slug(args: Arguments) -> str | None:
    slug: str | None = args["slug"] or args["workflow"]
    return slug


def _aim(args: Arguments) -> Fields:
    return {"slug": args["workflow"], "id": args["id"]}


def _split(listed: list[str]) -> list[str]:
    return [name.strip() for names in listed for name in names.split(",") if name.strip()]


def _now(state: Workflow, args: Arguments) -> str:
    found = [task["status"] for task in state["tasks"] if str(task["id"]) == args["unit"]]
    status = found[0].replace("_", " ").replace("completed", "done") if found else "?"
    return f": {status}"
