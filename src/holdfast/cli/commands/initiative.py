"""Commands on initiatives."""

from __future__ import annotations

from holdfast.cli.commands.logs import page
from holdfast.core.initiatives import current_of
from holdfast.keeper.initiative_link import initiative_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.session import Receipt


def create(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().create(
        args["name"], args["milestones"], files=args["files"], id=args["id"]
    )
    return _answer(receipt, f"initiative {args['name']} created")


def start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().start(args["milestone"], id=args["id"])
    return _answer(receipt, f"milestone {args['milestone']} started")


def task(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().task(
        args["milestone"], args["text"], done=args["done"], id=args["id"]
    )
    said = "done" if args["done"] else "added"
    return _answer(receipt, f"task of {args['milestone']} {said}: {args['text']}")


def complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().complete(args["milestone"], id=args["id"])
    return _answer(receipt, f"milestone {args['milestone']} completed")


def block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().block(args["reason"], id=args["id"])
    return _answer(receipt, f"blocked: {args['reason']}")


def unblock(keeper: Keeper, args: Arguments) -> Answer:
    return _answer(keeper.initiatives().unblock(id=args["id"]), "it goes on")


def finish(keeper: Keeper, args: Arguments) -> Answer:
    options = {name: args[name] for name in ("force", "reason", "id")}
    return _answer(keeper.initiatives().finish(**options), "initiative completed")


def archive(keeper: Keeper, args: Arguments) -> Answer:
    return _answer(keeper.initiatives().archive(id=args["id"]), "initiative archived")


def use(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().use(args["name"], id=args["id"])
    return _answer(receipt, f"{args['name']} is the current initiative")


def sync(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().sync(source=args["source"], id=args["id"])
    return _answer(receipt, "all sources agree")


def recover(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.initiatives().recover(args["name"], id=args["id"])
    return _answer(receipt, "recovered, and a fresh checkpoint written")


def show(keeper: Keeper, args: Arguments) -> Answer:
    fields, notes = keeper.initiatives().show(args["name"])
    return page("initiative", fields, notes)


def _answer(receipt: Receipt, said: str) -> Answer:
    state = receipt.state
    one = current_of(state)
    shown = None if one is None else initiative_view(str(state["current"]), one)
    fields: Fields = {"initiative": shown, "seqs": receipt.seqs}
    answer = page("initiative", fields, receipt.notes)
    answer["data"]["said"] = said
    return answer
