"""Commands about what a workspace keeps beside its workflows: interviews, delegations."""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.session import Receipt


def page(name: str, fields: Fields, notes: list[str] | None = None) -> Answer:
    """An answer whose fields are the JSON, and that ``pages`` draws for people."""
    return {"kind": "page", "data": {"page": name, "fields": fields, "notes": notes or []}}


def remember(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.remember(
        args["text"], kind=args["kind"], section=args["section"], id=args["id"]
    )
    said = f"remembered: {args['text']}" if receipt.seqs else f"known already: {args['text']}"
    try:
        path = keeper.memory().path
    except HoldfastError:
        path = None  # Settings that cannot be read: a note says so, and what was said is kept.
    return _answer(receipt, said, {"memory": path})


def forge_add(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.note_forge(args["key"], args["text"], id=args["id"])
    return _answer(
        receipt, f"{args['key']}: {args['text']}", {"entry": _newest(receipt, "entries")}
    )


def forge_show(keeper: Keeper, args: Arguments) -> Answer:
    entries = keeper.forge(key=args["key"])
    return page("forge", {"entries": entries}, keeper.noticed())


def interview_record(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.interviews().record(
        args["skill"],
        _score(args, "--confidence", args["confidence"]),
        dimensions={name: _score(args, name, value) for name, value in args["dimensions"].items()},
        questions=args["questions"] or 0,
        id=args["id"],
    )
    newest = _newest(receipt, "interviews")
    return _answer(receipt, f"interview of {args['skill']} recorded", {"interview": newest})


def interview_skip(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.interviews().skip(args["skill"], args["reason"], id=args["id"])
    return _answer(
        receipt, f"{args['skill']} went without an interview", {"skip": _newest(receipt, "skips")}
    )


def _newest(receipt: Receipt, name: str) -> Fields | None:
    """The last of a list; nothing where somebody emptied it before the command came again."""
    entries: list[Fields] = receipt.state[name]
    return entries[-1] if entries else None


def interview_show(keeper: Keeper, _args: Arguments) -> Answer:
    state = keeper.interviews().show()
    fields = {name: state[name] for name in state if name != "extra"}  # type: ignore[literal-required]
    return page("interviews", fields, keeper.noticed())


def delegation_record(keeper: Keeper, args: Arguments) -> Answer:
    told = {name: args[name] for name in ("model", "task_type", "complexity", "outcome")}
    duration = args["duration_ms"]
    receipt = keeper.delegations().record(
        args["agent"], **told, duration_ms=duration, id=args["id"]
    )
    return _entry(receipt, f"delegation to {args['agent']} recorded")


def delegation_escalate(keeper: Keeper, args: Arguments) -> Answer:
    resolved = args["resolved"]
    if resolved not in (None, "yes", "no"):
        from holdfast.cli.parser import Usage

        raise Usage(f"--resolved is yes or no, not {resolved[:40]!r}", _USAGE[args["command"]])
    receipt = keeper.delegations().escalate(
        args["from_agent"],
        args["to_agent"],
        args["reason"],
        resolved=None if resolved is None else resolved == "yes",
        id=args["id"],
    )
    return _entry(receipt, f"{args['from_agent']} handed over to {args['to_agent']}")


def delegation_override(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.delegations().override(args["suggested"], args["chosen"], id=args["id"])
    return _entry(receipt, f"{args['chosen']} was chosen instead of {args['suggested']}")


def delegation_routing(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.delegations().routing(
        args["suggested"], args["chosen"], args["intent"], id=args["id"]
    )
    return _entry(receipt, f"{args['chosen']} was chosen instead of {args['suggested']}")


def delegation_list(keeper: Keeper, args: Arguments) -> Answer:
    found = keeper.delegations().list(agent=args["agent"])
    return page("delegations", found, keeper.noticed())


def _entry(receipt: Receipt, said: str) -> Answer:
    return _answer(receipt, said, {"entry": _newest(receipt, "entries")})


def _answer(receipt: Receipt, said: str, fields: Fields) -> Answer:
    answer = page("noted", {**fields, "seqs": receipt.seqs}, receipt.notes)
    answer["data"]["said"] = said
    return answer


def _score(args: Arguments, name: str, value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        from holdfast.cli.parser import Usage

        message = f"{name} is a number from 0 to 1, not {str(value)[:40]!r}"
        raise Usage(message, _USAGE[args["command"]]) from None


_USAGE = {
    "interview record": "holdfast interview record --skill SKILL --confidence 0.8",
    "delegation escalate": "holdfast delegation escalate --from A --to B --reason TEXT",
}
