"""Commands that move a workflow on: phases, steps, tasks, and what the next session must know."""

from __future__ import annotations

from holdfast.cli.answer import changed_answer, target_args
from holdfast.cli.grammar import GROUPS, argument, command, flag, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.answer import Answer
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper, Receipt

GROUPS["phase"] = "start, complete, block, unblock or approve a phase"
GROUPS["task"] = "add, start, finish or block a task"

_PHASE = (
    argument("NAME", "the phase", values="phase"),
    argument(
        "KEY=VALUE", "a field to keep with the phase", into="fields", kind="pair", count="any"
    ),
)
_TASK = argument("N", "the task's id", into="task", kind="task", values="task")
_REASON = option("--reason", "TEXT", "why")
_FORCE = (flag("--force", "although a grave violation stands in the way"), _REASON)


@command(
    "advance",
    "complete the current phase and start the next",
    *_FORCE,
    examples=("holdfast advance",),
)
def advance(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.advance(**_forced(args), **target_args(args))
    return changed_answer(
        args, receipt, "advanced" if receipt.state["phase"] else "no phase is left"
    )


@command(
    "phase start", "start a phase", *_PHASE, *_FORCE, examples=("holdfast phase start review",)
)
def phase_start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_phase(args["name"], args["fields"], **_forced(args), **target_args(args))
    return changed_answer(args, receipt, f"phase {args['name']} started")


@command(
    "phase complete",
    "complete a phase; on the current one the same as advance",
    *_PHASE,
    *_FORCE,
    examples=("holdfast phase complete review findings=3",),
)
def phase_complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete_phase(
        args["name"], args["fields"], **_forced(args), **target_args(args)
    )
    return changed_answer(args, receipt, f"phase {args['name']} completed")


@command(
    "phase block",
    "say that a phase cannot go on",
    *_PHASE,
    _REASON,
    examples=("holdfast phase block deploy --reason 'waiting for access'",),
)
def phase_block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.block_phase(args["name"], _with_reason(args), **target_args(args))
    return changed_answer(args, receipt, f"phase {args['name']} blocked")


@command(
    "phase unblock",
    "let a blocked phase go on",
    *_PHASE,
    examples=("holdfast phase unblock deploy",),
)
def phase_unblock(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.unblock_phase(args["name"], args["fields"], **target_args(args))
    return changed_answer(args, receipt, f"phase {args['name']} unblocked")


@command(
    "phase approve",
    "record a person's approval of a phase",
    *_PHASE,
    examples=("holdfast phase approve plan approver=Ada",),
)
def phase_approve(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.approve_phase(args["name"], args["fields"], **target_args(args))
    return changed_answer(args, receipt, f"phase {args['name']} approved")


@command(
    "step",
    "start a step of the current phase",
    argument("NAME", "the step", values="step"),
    examples=("holdfast step refactor",),
)
def step(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_step(args["name"], **target_args(args))
    return changed_answer(args, receipt, f"step {args['name']} started")


@command(
    "task add",
    "add a task",
    argument("TEXT", "what is to be done"),
    examples=("holdfast task add 'Handle an empty file'",),
)
def task_add(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.add_task(args["text"], **target_args(args))
    added = [task for task in receipt.state["tasks"] if task["description"] == args["text"]]
    number = f" {added[-1]['id']}" if added else ""
    return changed_answer(args, receipt, f"task{number} added: {args['text']}")


@command("task start", "start a task", _TASK, examples=("holdfast task start 2",))
def task_start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_task(args["task"], **target_args(args))
    return changed_answer(args, receipt, _task(receipt, args, "started"))


@command(
    "task phase",
    "enter a phase of a task; the earlier ones are completed",
    _TASK,
    argument("PHASE", "red, green or refactor, as the recipe has them", values="task phase"),
    examples=("holdfast task phase 2 green",),
)
def task_phase(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.start_task_phase(args["task"], args["phase"], **target_args(args))
    return changed_answer(args, receipt, f"task {args['task']} in {args['phase']}")


@command(
    "task done",
    "finish a task",
    _TASK,
    option("--commit", "SHA", "the commit that did it: an id, HEAD, a branch"),
    examples=("holdfast task done 2 --commit 4f5e6d7",),
)
def task_done(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.complete_task(args["task"], commit=args["commit"], **target_args(args))
    return changed_answer(args, receipt, _task(receipt, args, "done"))


@command(
    "task block",
    "say that a task cannot go on",
    _TASK,
    option("--reason", "TEXT", "why", required=True),
    examples=("holdfast task block 2 --reason 'needs a decision on the format'",),
)
def task_block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.block_task(args["task"], args["reason"], **target_args(args))
    return changed_answer(args, receipt, _task(receipt, args, "blocked"))


@command(
    "remind",
    "leave a reminder for every resuming session",
    argument("TEXT", "what to remember"),
    examples=("holdfast remind 'Run the slow tests before the review'",),
)
def remind(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.remind(args["text"], **target_args(args))
    return changed_answer(args, receipt, f"reminder kept: {args['text']}")


@command(
    "read",
    "add a file to what every resuming session must read first",
    argument("@PATH", "the file, from the worktree's root", into="path", values="@file"),
    examples=("holdfast read @docs/plan.md",),
)
def read(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.require_reading(args["path"], **target_args(args))
    return changed_answer(args, receipt, f"required reading added: {args['path']}")


@command(
    "set",
    "set fields of the workflow's context",
    argument(
        "KEY=VALUE",
        "a field; a value that is JSON is kept as such, anything else as text",
        into="fields",
        kind="pair",
        count="some",
    ),
    examples=('holdfast set ticket=ABC-12 retries=3 \'hosts=["a", "b"]\'',),
)
def set_context(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.set_context(args["fields"], **target_args(args))
    return changed_answer(args, receipt, f"context set: {', '.join(args['fields'])}")


def _forced(args: Arguments) -> Fields:
    return {"force": args["force"], "reason": args["reason"]}


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
