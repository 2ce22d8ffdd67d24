"""Commands that move a workflow on: phases, steps, tasks, and what a next session must know."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper, Receipt


def advance(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.advance(**_forced(args), **aim(args))
    return changed(args, receipt, "advanced" if receipt.state["phase"] else "no phase is left")


def phase_start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_phase(args["name"], args["fields"], **_forced(args), **aim(args))
    return changed(args, receipt, f"phase {args['name']} started")


def phase_complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete_phase(args["name"], args["fields"], **_forced(args), **aim(args))
    return changed(args, receipt, f"phase {args['name']} completed")


def phase_block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.block_phase(args["name"], _with_reason(args), **aim(args))
    return changed(args, receipt, f"phase {args['name']} blocked")


def phase_unblock(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.unblock_phase(args["name"], args["fields"], **aim(args))
    return changed(args, receipt, f"phase {args['name']} unblocked")


def phase_approve(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.approve_phase(args["name"], args["fields"], **aim(args))
    return changed(args, receipt, f"phase {args['name']} approved")


def step(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_step(args["name"], **aim(args))
    return changed(args, receipt, f"step {args['name']} started")


def task_add(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.add_task(args["text"], **aim(args))
    added = [task for task in receipt.state["tasks"] if task["description"] == args["text"]]
    number = f" {added[-1]['id']}" if added else ""
    return changed(args, receipt, f"task{number} added: {args['text']}")


def task_start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_task(args["task"], **aim(args))
    return changed(args, receipt, _task(receipt, args, "started"))


def task_done(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete_task(args["task"], commit=args["commit"], **aim(args))
    return changed(args, receipt, _task(receipt, args, "done"))


def task_phase(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_task_phase(args["task"], args["phase"], **aim(args))
    return changed(args, receipt, f"task {args['task']} in {args['phase']}")


def task_block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.block_task(args["task"], args["reason"], **aim(args))
    return changed(args, receipt, _task(receipt, args, "blocked"))


def remind(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.remind(args["text"], **aim(args))
    return changed(args, receipt, f"reminder kept: {args['text']}")


def read(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.require_reading(args["path"], **aim(args))
    return changed(args, receipt, f"required reading added: {args['path']}")


def set_context(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.set_context(args["fields"], **aim(args))
    return changed(args, receipt, f"context set: {', '.join(args['fields'])}")


def _forced(args: Arguments) -> Fields:
    return {"force": args["force"], "reason": args["reason"]}


def aim(args: Arguments) -> Fields:
    """Which workflow is meant, and the request's own id."""
    return {"workflow": args["workflow"], "id": args["id"]}


def is_aimed(args: Arguments) -> bool:
    """Whether the next command has to name its workflow, because this one said whose it is."""
    return args["workflow"] is not None or args["session"] is not None


def changed(args: Arguments, receipt: Receipt, said: str) -> Answer:
    """The answer to a command that changed something."""
    data = {"receipt": receipt, "said": said, "aimed": is_aimed(args)}
    return {"kind": "change", "data": data}


def _task(receipt: Receipt, args: Arguments, became: str) -> str:
    wanted = str(args["task"])
    named = [f": {t['description']}" for t in receipt.state["tasks"] if str(t["id"]) == wanted]
    return f"task {wanted} {became}{''.join(named)}"


def _with_reason(args: Arguments) -> Fields:
    fields: Fields = args["fields"]
    reason = args["reason"]
    if reason is None:
        return fields
    if fields.get("reason", reason) != reason:
        from holdfast.cli.usage_errors import reason_given_twice

        raise reason_given_twice(args["command"])
    return {**fields, "reason": reason}
