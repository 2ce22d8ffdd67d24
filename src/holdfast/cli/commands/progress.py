"""Commands that move a workflow on: phases, steps, tasks, and what the next session must know."""

from __future__ import annotations

from holdfast.cli.answer import on_workflow
from holdfast.cli.parser import GROUPS, Parameter, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.answer import Changed
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper, Receipt

GROUPS["phase"] = "start, complete, block, unblock or approve a phase"
GROUPS["task"] = "add, start, finish or block a task"

_PHASE = (
    Parameter("NAME", "the phase", names="phase"),
    Parameter("[KEY=VALUE]...", "a field to keep with the phase", into="fields"),
)
_TASK = Parameter("N", "the task's id", into="task", kind="task", names="task")
_REASON = Parameter("--reason TEXT", "why")
_FORCE = (Parameter("--force", "although a grave violation stands in the way"), _REASON)


@on_workflow("advance: complete the current phase and start the next", *_FORCE, "holdfast advance")
def advance(keeper: Keeper, values: Fields) -> Changed:
    receipt = keeper.advance(**values)
    return receipt, "advanced" if receipt.state["phase"] else "no phase is left"


@on_workflow("phase start: start a phase", *_PHASE, *_FORCE, "holdfast phase start review")
def phase_start(keeper: Keeper, values: Fields) -> Changed:
    return keeper.start_phase(**values), f"phase {values['name']} started"


@on_workflow(
    "phase complete: complete a phase; on the current one the same as advance",
    *_PHASE,
    *_FORCE,
    "holdfast phase complete review findings=3",
)
def phase_complete(keeper: Keeper, values: Fields) -> Changed:
    return keeper.complete_phase(**values), f"phase {values['name']} completed"


@on_workflow(
    "phase block: say that a phase cannot go on",
    *_PHASE,
    _REASON,
    "holdfast phase block deploy --reason 'waiting for access'",
)
def phase_block(keeper: Keeper, values: Fields) -> Changed:
    reason, fields = values.pop("reason"), values["fields"]
    if reason is not None and fields.setdefault("reason", reason) != reason:
        message = "`holdfast phase block` was given two reasons, by --reason and by reason=…"
        raise Usage(message, "holdfast help phase block")
    return keeper.block_phase(**values), f"phase {values['name']} blocked"


@on_workflow("phase unblock: let a blocked phase go on", *_PHASE, "holdfast phase unblock deploy")
def phase_unblock(keeper: Keeper, values: Fields) -> Changed:
    return keeper.unblock_phase(**values), f"phase {values['name']} unblocked"


@on_workflow(
    "phase approve: record a person's approval of a phase",
    *_PHASE,
    "holdfast phase approve plan approver=Ada",
)
def phase_approve(keeper: Keeper, values: Fields) -> Changed:
    return keeper.approve_phase(**values), f"phase {values['name']} approved"


@on_workflow(
    "step: start a step of the current phase",
    Parameter("NAME", "the step", names="step"),
    "holdfast step refactor",
)
def step(keeper: Keeper, values: Fields) -> Changed:
    return keeper.start_step(**values), f"step {values['name']} started"


@on_workflow(
    "task add: add a task",
    Parameter("TEXT", "what is to be done"),
    "holdfast task add 'Handle an empty file'",
)
def task_add(keeper: Keeper, values: Fields) -> Changed:
    receipt, text = keeper.add_task(**values), values["text"]
    numbers = [task["id"] for task in receipt.state["tasks"] if task["description"] == text]
    return receipt, f"task {numbers[-1]} added: {text}" if numbers else f"task added: {text}"


@on_workflow("task start: start a task", _TASK, "holdfast task start 2")
def task_start(keeper: Keeper, values: Fields) -> Changed:
    return _task_became("started", keeper.start_task(**values), values)


@on_workflow(
    "task phase: enter a phase of a task; the earlier ones are completed",
    _TASK,
    Parameter("PHASE", "red, green or refactor, as the recipe has them", names="task phase"),
    "holdfast task phase 2 green",
)
def task_phase(keeper: Keeper, values: Fields) -> Changed:
    return keeper.start_task_phase(**values), f"task {values['task']} in {values['phase']}"


@on_workflow(
    "task done: finish a task",
    _TASK,
    Parameter("--commit SHA", "the commit that did it: an id, HEAD, a branch"),
    "holdfast task done 2 --commit 4f5e6d7",
)
def task_done(keeper: Keeper, values: Fields) -> Changed:
    return _task_became("done", keeper.complete_task(**values), values)


@on_workflow(
    "task block: say that a task cannot go on",
    _TASK,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast task block 2 --reason 'needs a decision on the format'",
)
def task_block(keeper: Keeper, values: Fields) -> Changed:
    return _task_became("blocked", keeper.block_task(**values), values)


def _task_became(what: str, receipt: Receipt, values: Fields) -> Changed:
    number = str(values["task"])
    titles = [f": {t['description']}" for t in receipt.state["tasks"] if str(t["id"]) == number]
    return receipt, f"task {number} {what}{''.join(titles)}"


@on_workflow(
    "remind: leave a reminder for every resuming session",
    Parameter("TEXT", "what to remember"),
    "holdfast remind 'Run the slow tests before the review'",
)
def remind(keeper: Keeper, values: Fields) -> Changed:
    return keeper.remind(**values), f"reminder kept: {values['text']}"


@on_workflow(
    "read: add a file to what every resuming session must read first",
    Parameter("@PATH", "the file, from the worktree's root", names="@file"),
    "holdfast read @docs/plan.md",
)
def read(keeper: Keeper, values: Fields) -> Changed:
    return keeper.require_reading(**values), f"required reading added: {values['path']}"


@on_workflow(
    "set: set fields of the workflow's context",
    Parameter(
        "KEY=VALUE...",
        "a field; a value that is JSON is kept as such, anything else as text",
        into="fields",
    ),
    'holdfast set ticket=ABC-12 retries=3 \'hosts=["a", "b"]\'',
)
def set_context(keeper: Keeper, values: Fields) -> Changed:
    return keeper.set_context(**values), f"context set: {', '.join(values['fields'])}"
