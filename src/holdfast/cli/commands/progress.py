"""Commands that move a workflow on: phases, steps, tasks, and what the next session must know."""

from __future__ import annotations

from holdfast import answers
from holdfast.cli.answer import Answer, answer_change, on_workflow, require_person, step_after
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.core.refusal import shell_word
from holdfast.core.visible import clean
from holdfast.keeper import Keeper, Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields

GROUPS["phase"] = "start, complete, skip, block, unblock or approve a phase"
GROUPS["task"] = "add, start, finish, block or correct a task"

_PHASE = (
    Parameter("NAME", "the phase", names="phase"),
    Parameter("[KEY=VALUE]...", "a field to keep with the phase", into="fields"),
)
_TASK = Parameter("N", "the task's id", into="task", kind="task", names="task")
_ANY_TASK = Parameter("N", "the task's id", into="task", kind="task", names="any task")
_REASON = Parameter("--reason TEXT", "why")
_MAX_ORDER = 20
"""The number of tasks whose order is shown after a move."""
_FORCE = (Parameter("--force", "although something is missing; it is recorded so"), _REASON)


def _advanced(receipt: Receipt, _values: Fields) -> str:
    return "advanced" if receipt.state["phase"] else "no phase is left"


def _tasks_added(receipt: Receipt, _values: Fields) -> str:
    added = receipt.state["tasks"][-len(receipt.seqs) :]
    if len(added) == 1:
        return f"task {added[0]['id']} added: {added[0]['description']}"
    return f"tasks {added[0]['id']} to {added[-1]['id']} added"


def _task_became(what: str) -> Callable[[Receipt, Fields], str]:
    def describe(receipt: Receipt, values: Fields) -> str:
        number = str(values["task"])
        titles = [f": {t['description']}" for t in receipt.state["tasks"] if str(t["id"]) == number]
        return f"task {number} {what}{''.join(titles)}"

    return describe


def _task_done(receipt: Receipt, values: Fields) -> str:
    last = receipt.state["history"][-1:]
    if last and last[0].get("event") == "task_commit_added":
        return f"commit {values['commit']} added to task {values['task']}"
    return _task_became("done")(receipt, values)


def _task_moved(receipt: Receipt, values: Fields) -> str:
    order = ", ".join(str(task["id"]) for task in receipt.state["tasks"][:_MAX_ORDER])
    return f"task {values['task']} moved; the order is {order}"


def _context_set(_receipt: Receipt, values: Fields) -> str:
    return f"context set: {', '.join(values['fields'])}"


def _context_unset(_receipt: Receipt, values: Fields) -> str:
    return f"context unset: {', '.join(values['keys'])}"


on_workflow(
    "advance: complete the current phase and start the next",
    Parameter("--branch NAME", "create this branch, or switch to it, first"),
    *_FORCE,
    "holdfast advance",
    "holdfast advance --branch feat/login",
)(Keeper.advance, _advanced)
on_workflow("phase start: start a phase", *_PHASE, *_FORCE, "holdfast phase start review")(
    Keeper.start_phase, "phase {name} started"
)
on_workflow(
    "phase complete: complete a phase; on the current one the same as advance",
    *_PHASE,
    *_FORCE,
    "holdfast phase complete review findings=3",
)(Keeper.complete_phase, "phase {name} completed")


on_workflow(
    "phase skip: leave the current phase without completing it",
    Parameter("NAME", "the phase", names="phase"),
    Parameter("--reason TEXT", "why", required=True),
    "holdfast phase skip pr_creation --reason 'There is no remote'",
)(Keeper.skip_phase, "phase {name} skipped: {reason}")


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


@command(
    "phase approve: approve a phase, as a person",
    *_PHASE,
    "holdfast phase approve plan approver=Ada",
)
def phase_approve(keeper: Keeper, args: Arguments) -> Answer:
    name = args["name"]
    require_person(f"phase approve {shell_word(name)}")
    receipt = keeper.approve_phase(name=name, fields=args["fields"], **args["target"])
    return answer_change(args, receipt, f"phase {name} approved")


on_workflow(
    "step: start a step of the current phase",
    Parameter("NAME", "the step", names="step"),
    "holdfast step refactor",
)(Keeper.start_step, "step {name} started")
on_workflow(
    "task add: add tasks",
    Parameter("[TEXT]...", "what is to be done, one text for each task", into="texts"),
    Parameter("--from FILE", "a Markdown file with a list: - [ ] text", into="path", names="file"),
    "holdfast task add 'Handle an empty file'",
    "holdfast task add 'Read it' 'Test it' --from docs/plan.md",
)(Keeper.add_tasks, _tasks_added)
on_workflow("task start: start a task", _TASK, "holdfast task start 2")(
    Keeper.start_task, _task_became("started")
)
on_workflow(
    "task phase: enter a phase of a task",
    _TASK,
    Parameter("PHASE", "red, green or refactor, as the recipe has them", names="task phase"),
    *_FORCE,
    "holdfast task phase 2 green",
)(Keeper.start_task_phase, "task {task} in {phase}")
on_workflow(
    "task done: finish a task; again, with another commit, to add that",
    _TASK,
    Parameter("--commit SHA", "the commit that did it: an id, HEAD, a branch"),
    *_FORCE,
    "holdfast task done 2 --commit 4f5e6d7",
)(Keeper.complete_task, _task_done)
on_workflow(
    "task block: say that a task cannot go on",
    _TASK,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast task block 2 --reason 'needs a decision on the format'",
)(Keeper.block_task, _task_became("blocked"))
on_workflow("task unblock: let a blocked task go on", _TASK, "holdfast task unblock 2")(
    Keeper.unblock_task, _task_became("unblocked")
)
on_workflow(
    "task edit: change the text of a task",
    _ANY_TASK,
    Parameter("TEXT", "what is to be done"),
    "holdfast task edit 2 'Handle an empty file, too'",
)(Keeper.edit_task, _task_became("edited"))
on_workflow(
    "task remove: remove a task; no later one gets its number",
    _ANY_TASK,
    "holdfast task remove 2",
)(Keeper.remove_task, "task {task} removed")
on_workflow(
    "task reopen: make a task that is done pending again",
    _ANY_TASK,
    "holdfast task reopen 2",
)(Keeper.reopen_task, _task_became("reopened"))
on_workflow(
    "task move: move a task to another place in the order",
    _ANY_TASK,
    Parameter("--before M", "before this task", kind="task", names="any task"),
    Parameter("--after M", "after this task", kind="task", names="any task"),
    Parameter("--to POSITION", "to this place, counted from 1", kind="count"),
    "holdfast task move 5 --before 2",
)(Keeper.move_task, _task_moved)


@command(
    "remind: leave a reminder for every resuming session, or remove one",
    Parameter("[TEXT]", "what to remember"),
    Parameter(
        "--remove N",
        "the number of a reminder to remove, as `holdfast show` has it",
        into="reminder",
        kind="task",
        names="reminder",
    ),
    "holdfast remind 'Run the slow tests before the review'",
    "holdfast remind --remove 1",
)
def remind(keeper: Keeper, args: Arguments) -> Answer:
    text, reminder = args["text"], args["reminder"]
    _check_either("remind", "TEXT", text, "--remove N", reminder)
    if reminder is None:
        receipt = keeper.remind(text=text, **args["target"])
        return answer_change(args, receipt, f"reminder kept: {text}")
    receipt = keeper.remove_reminder(reminder=reminder, **args["target"])
    return answer_change(args, receipt, f"reminder {reminder} removed")


@command(
    "read: add a file to what every resuming session must read first, or remove one",
    Parameter("[@PATH]", "the file, from the worktree's root", into="path", names="@file"),
    Parameter("--remove @PATH", "a file that need not be read", names="reading"),
    "holdfast read @docs/plan.md",
    "holdfast read --remove @docs/plan.md",
)
def read(keeper: Keeper, args: Arguments) -> Answer:
    path, removed = args["path"], args["remove"]
    _check_either("read", "@PATH", path, "--remove @PATH", removed)
    if removed is None:
        receipt = keeper.require_reading(path=path, **args["target"])
        return answer_change(args, receipt, f"required reading added: {path}")
    receipt = keeper.remove_reading(path=removed, **args["target"])
    return answer_change(args, receipt, f"required reading removed: {removed}")


def _check_either(name: str, first: str, given: object, second: str, other: object) -> None:
    if (given is None) == (other is None):
        message = f"`holdfast {name}` takes either {first} or {second}"
        raise Usage(message, f"holdfast help {name}")


on_workflow(
    "set: set fields of the workflow's context",
    Parameter(
        "KEY=VALUE...",
        "a field; a value that is JSON is kept as such, anything else as text",
        into="fields",
    ),
    'holdfast set ticket=ABC-12 retries=3 \'hosts=["a", "b"]\'',
)(Keeper.set_context, _context_set)
on_workflow(
    "unset: remove fields of the workflow's context",
    Parameter("KEY...", "a field", into="keys", names="key"),
    "holdfast unset ticket retries",
)(Keeper.unset_context, _context_unset)


@command(
    "undo: undo your last change of the workflow; evidence and the start stay",
    "holdfast undo",
)
def undo(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.undo(**args["target"])
    undone = receipt.undone or {"what": "", "back": []}
    changed = answer_change(args, receipt, f"undone: {undone['what']}")

    def lines(screen: Screen) -> Iterator[str]:
        yield from changed.lines(screen)
        for sentence in undone["back"]:
            yield f"  {clean(sentence)}"

    return Answer(
        lambda: {**answers.change(receipt), "undone": undone},
        lines,
        notes=receipt.notes,
        step=step_after(args, receipt),
    )
