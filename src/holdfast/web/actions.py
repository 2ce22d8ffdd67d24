"""What a person can do on a page: each is one method of the keeper, as in the terminal.

What only a person decides is refused to a browser that is not paired.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.errors import Refused
from holdfast.hub import Sharing
from holdfast.loops import Loops
from holdfast.web.security import needs_pairing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper import Keeper

    Form = dict[str, str]
    Act = Callable[[Keeper, str, Form], str]

_ACTS: dict[str, Act] = {}
_OF_PERSONS: set[str] = set()
"""The actions that only a person decides."""


def _action(name: str, *, is_persons: bool = False) -> Callable[[Act], Act]:
    """Declare an action of the forms; its function returns what was done, in words."""

    def declare(function: Act) -> Act:
        _ACTS[name] = function
        if is_persons:
            _OF_PERSONS.add(name)
        return function

    return declare


def check(name: str, *, is_paired: bool, why_not: str) -> None:
    """Raise ``Refused`` if there is no such action, or if this browser may not take it."""
    if name not in _ACTS:
        raise Refused("not_found", f"there is no action {name[:40]!r}", "go back to the board")
    if name in _OF_PERSONS and not is_paired:
        raise needs_pairing(why_not)


def carry_out(keeper: Keeper, name: str, workflow: str, form: Form) -> tuple[str, list[str]]:
    """Carry out an action on a workflow; return what was done, and notes."""
    done = _ACTS[name](keeper, workflow, form)
    return done, keeper.drain_notes()


@_action("approve", is_persons=True)
def _approve(keeper: Keeper, workflow: str, form: Form) -> str:
    keeper.approve_phase(form.get("phase", ""), workflow=workflow)
    return f"Phase {form['phase']} is approved."


@_action("waive", is_persons=True)
def _waive(keeper: Keeper, workflow: str, form: Form) -> str:
    keeper.evidence().waive_gate(form.get("gate", ""), form.get("text", ""), workflow=workflow)
    return f"Gate {form['gate']} is waived."


@_action("block_phase")
def _block_phase(keeper: Keeper, workflow: str, form: Form) -> str:
    reason = {"reason": form.get("text", "")}
    keeper.block_phase(form.get("phase", ""), reason, workflow=workflow)
    return f"Phase {form['phase']} is blocked."


@_action("unblock_phase")
def _unblock_phase(keeper: Keeper, workflow: str, form: Form) -> str:
    keeper.unblock_phase(form.get("phase", ""), workflow=workflow)
    return f"Phase {form['phase']} goes on."


@_action("block_task")
def _block_task(keeper: Keeper, workflow: str, form: Form) -> str:
    task, reason = form.get("task", ""), form.get("text", "")
    if _is_loop(keeper, workflow):
        Loops(keeper).block(task, reason, slug=workflow)
        return f"Unit {task} is blocked."
    keeper.block_task(_task(task), reason, workflow=workflow)
    return f"Task {task} is blocked."


@_action("unblock_task")
def _unblock_task(keeper: Keeper, workflow: str, form: Form) -> str:
    task = form.get("task", "")
    if _is_loop(keeper, workflow):
        Loops(keeper).unblock(task, slug=workflow)
        return f"Unit {task} goes on."
    keeper.unblock_task(_task(task), workflow=workflow)
    return f"Task {task} goes on."


@_action("add_task")
def _add_task(keeper: Keeper, workflow: str, form: Form) -> str:
    keeper.add_task(form.get("text", ""), workflow=workflow)
    return "The task is added."


@_action("remind")
def _remind(keeper: Keeper, workflow: str, form: Form) -> str:
    keeper.remind(form.get("text", ""), workflow=workflow)
    return "Every later session reads this reminder."


@_action("answer")
def _answer(keeper: Keeper, workflow: str, form: Form) -> str:
    number = _task(form.get("question", ""))
    if not isinstance(number, int):
        raise Refused("not_found", "answer: there is no such question", "load the page again")
    keeper.answer(number, form.get("text", ""), workflow=workflow)
    return "The answer is recorded; the agent that asked is told."


@_action("abandon")
def _abandon(keeper: Keeper, workflow: str, form: Form) -> str:
    keeper.abandon(form.get("text") or None, workflow=workflow)
    return f"{workflow} is abandoned; `holdfast resume {workflow}` brings it back."


@_action("take_conflict")
def _take_conflict(keeper: Keeper, _workflow: str, form: Form) -> str:
    conflict = Sharing(keeper).take(form.get("conflict", ""))
    return f"{conflict['command']}, from {conflict['from']}, is carried out."


@_action("drop_conflict")
def _drop_conflict(keeper: Keeper, _workflow: str, form: Form) -> str:
    conflict = Sharing(keeper).drop(form.get("conflict", ""), form.get("text", ""))
    return f"{conflict['command']}, from {conflict['from']}, is let go."


def _is_loop(keeper: Keeper, workflow: str) -> bool:
    state = keeper.peek(workflow=workflow)
    if isinstance(state, Refusal):
        raise state.error()
    return state["recipe"]["format"] == "loop"


def _task(text: str) -> int | str:
    """Return a task's id as the terminal reads it: a number where it looks like one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
