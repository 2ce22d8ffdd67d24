"""Commands on whole workflows: open, list, show, take up, look back, end."""

from __future__ import annotations

from holdfast.cli.commands.progress import aim, is_aimed
from holdfast.core.workflow import folder_mode
from holdfast.core.workflow.state import is_active
from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.shapes import Answer, AnswerKind, Arguments
    from holdfast.core.types import Event
    from holdfast.keeper import Keeper, Receipt


_STARTING = ("title", "tasks", "phases", "reading", "reminders", "branch", "ttl", "replace",
             "initiative", "milestone")  # fmt: skip


def start(keeper: Keeper, args: Arguments) -> Answer:
    options = {name: args[name] for name in _STARTING}
    context = args["context"] or None
    receipt = keeper.start(args["recipe"], args["subject"], context=context, **options, **aim(args))
    verb = "resumed" if receipt.resumed else "started"
    answer = _answer("started", args, receipt, f"{verb} {receipt.state['id']}")
    answer["data"]["aimed"] |= keeper.must_name(receipt.state)
    return answer


def status(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.workflows(every=args["all"])
    wanted = args["workflow"]
    if wanted is not None:
        rows = [row for row in rows if row["id"] == wanted]
        if not rows:
            notes += keeper.show(workflow=wanted).notes
    return {"kind": "workflows", "data": {"rows": rows, "notes": notes}}


def show(keeper: Keeper, args: Arguments) -> Answer:
    return _answer("workflow", args, keeper.show(workflow=args["workflow"]), "")


def resume(keeper: Keeper, args: Arguments) -> Answer:
    try:
        receipt = keeper.resume(**aim(args))
        receipt.notes += keeper.resume_initiative()
    except Fault as fault:
        if fault.code != "not_writable":
            raise
        receipt = _read_only(keeper, args, fault)
    answer = _answer("briefing", args, receipt, "")
    answer["data"]["briefing"] = keeper.briefing(state=receipt.state)
    answer["data"]["aimed"] |= keeper.must_name(receipt.state)
    answer["data"]["branch"] = keeper.workspace.branch()
    return answer


def _read_only(keeper: Keeper, args: Arguments, fault: Fault) -> Receipt:
    """Return the workflow as it is, where nothing can be recorded: its briefing needs no more.

    Raise the fault if it would have to be brought back or here first.
    """
    receipt = keeper.show(workflow=args["workflow"])
    state = receipt.state
    if not is_active(state) or state["worktree"] != keeper.workspace.name:
        raise fault
    receipt.notes.append(f"it was read and not taken up: {fault.message}; {fault.hint}")
    return receipt


def log(keeper: Keeper, args: Arguments) -> Answer:
    events = keeper.events(workflow=args["workflow"], limit=args["limit"])
    if args["follow"]:
        return {"kind": "stream", "data": _followed(keeper, args["workflow"], events)}
    return {"kind": "events", "data": events}


def complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete(
        outcome=args["outcome"], force=args["force"], reason=args["reason"], **aim(args)
    )
    state = receipt.state
    said = f"workflow {state['id']} completed"
    if is_active(state):
        number, total = folder_mode.place_of(state)
        said = (
            f"feature {number - 1}/{total} completed; next: {state['context'].get('feature_file')}"
        )
    answer = _answer("ended", args, receipt, said)
    answer["data"]["signal"] = receipt.signal
    return answer


def abandon(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.abandon(reason=args["reason"], **aim(args))
    return _answer("change", args, receipt, f"workflow {receipt.state['id']} abandoned")


def _followed(keeper: Keeper, workflow: str | None, events: Iterator[Event]) -> Iterator[Event]:
    """Yield the events there are, then those to come, until the user interrupts it."""
    seq = 0
    for event in events:
        seq = event["seq"]
        yield event
    yield from keeper.follow(workflow=workflow, after=seq)


def _answer(kind: AnswerKind, args: Arguments, receipt: Receipt, said: str) -> Answer:
    data = {"receipt": receipt, "said": said, "aimed": is_aimed(args)}
    return {"kind": kind, "data": data}
