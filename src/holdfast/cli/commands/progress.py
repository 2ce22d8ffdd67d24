"""Commands that move a workflow on: phases, steps, tasks, and what the next session must know."""

from __future__ import annotations

from holdfast.cli.answer import Answer, answer_change, on_workflow
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.keeper import Keeper, Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields

GROUPS["phase"] = "start, complete, block, unblock or approve a phase"
GROUPS["task"] = "add, start, finish or block a task"

_PHASE = (
    Parameter("NAME", "the phase", names="phase"),
    Parameter("[KEY=VALUE]...", "a field to keep with the phase", into="fields"),
)
_TASK = Parameter("N", "the task's id", into="task", kind="task", names="task")
_REASON = Parameter("--reason TEXT", "why")
_FORCE = (Parameter("--force", "although a grave violation stands in the way"), _REASON)


def _advanced(receipt: Receipt, _values: Fields) -> str:
    return "advanced" if receipt.state["phase"] else "no phase is left"


def _task_added(receipt: Receipt, values: Fields) -> str:
    text = values["text"]
    numbers = [task["id"] for task in receipt.state["tasks"] if task["description"] == text]
    return f"task {numbers[-1]} added: {text}" if numbers else f"task added: {text}"


def _task_became(what: str) -> Callable[[Receipt, Fields], str]:
    def describe(receipt: Receipt, values: Fields) -> str:
        number = str(values["task"])
        titles = [f": {t['description']}" for t in receipt.state["tasks"] if str(t["id"]) == number]
        return f"task {number} {what}{''.join(titles)}"

    return describe


def _context_set(_receipt: Receipt, values: Fields) -> str:
    return f"context set: {', '.join(values['fields'])}"


on_workflow("advance: complete the current phase and start the next", *_FORCE, "holdfast advance")(
    Keeper.advance, _advanced
)
on_workflow("phase start: start a phase", *_PHASE, *_FORCE, "holdfast phase start review")(
    Keeper.start_phase, "phase {name} started"
)
on_workflow(
    "phase complete: complete a phase; on the current one the same as advance",
    *_PHASE,
    *_FORCE,
    "holdfast phase complete review findings=3",
)(Keeper.complete_phase, "phase {name} completed")


@command(
    "phase block: say that a phase cannot go on",
    *_PHASE,
    _REASON,
    "holdfast phase block deploy --reason 'waiting for access'",
)
def phase_block(keeper: Keeper, args: Arguments) -> Answer:
    name, reason, fields = args["name"], args["reason"], args["fields"]
    if reason is not None and fields.setdefault("reason", reason) != reason:
        message = "`holdfast phase block` was given two reasons, by --reason and by reason=…"
        raise Usage(message, "holdfast help phase block")
    receipt = keeper.block_phase(name=name, fields=fields, **args["target"])
    return answer_change(args, receipt, f"phase {name} blocked")


on_workflow("phase unblock: let a blocked phase go on", *_PHASE, "holdfast phase unblock deploy")(
    Keeper.unblock_phase, "phase {name} unblocked"
)
on_workflow(
    "phase approve: record a person's approval of a phase",
    *_PHASE,
    "holdfast phase approve plan approver=Ada",
)(Keeper.approve_phase, "phase {name} approved")
on_workflow(
    "step: start a step of the current phase",
    Parameter("NAME", "the step", names="step"),
    "holdfast step refactor",
)(Keeper.start_step, "step {name} started")
on_workflow(
    "task add: add a task",
    Parameter("TEXT", "what is to be done"),
    "holdfast task add 'Handle an empty file'",
)(Keeper.add_task, _task_added)
on_workflow("task start: start a task", _TASK, "holdfast task start 2")(
    Keeper.start_task, _task_became("started")
)
on_workflow(
    "task phase: enter a phase of a task; the earlier ones are completed",
    _TASK,
    Parameter("PHASE", "red, green or refactor, as the recipe has them", names="task phase"),
    "holdfast task phase 2 green",
)(Keeper.start_task_phase, "task {task} in {phase}")
on_workflow(
    "task done: finish a task",
    _TASK,
    Parameter("--commit SHA", "the commit that did it: an id, HEAD, a branch"),
    "holdfast task done 2 --commit 4f5e6d7",
)(Keeper.complete_task, _task_became("done"))
on_workflow(
    "task block: say that a task cannot go on",
    _TASK,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast task block 2 --reason 'needs a decision on the format'",
)(Keeper.block_task, _task_became("blocked"))
on_workflow(
    "remind: leave a reminder for every resuming session",
    Parameter("TEXT", "what to remember"),
    "holdfast remind 'Run the slow tests before the review'",
)(Keeper.remind, "reminder kept: {text}")
on_workflow(
    "read: add a file to what every resuming session must read first",
    Parameter("@PATH", "the file, from the worktree's root", names="@file"),
    "holdfast read @docs/plan.md",
)(Keeper.require_reading, "required reading added: {path}")
on_workflow(
    "set: set fields of the workflow's context",
    Parameter(
        "KEY=VALUE...",
        "a field; a value that is JSON is kept as such, anything else as text",
        into="fields",
    ),
    'holdfast set ticket=ABC-12 retries=3 \'hosts=["a", "b"]\'',
)(Keeper.set_context, _context_set)
