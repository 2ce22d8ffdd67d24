"""What a key of ``watch`` changes, and what it asks first.

A dialog is a generator: it yields a question, gets the answer, and at last calls the method of the
keeper that the command of the terminal calls. It returns what was done. A person who does not agree
closes it.
"""

from __future__ import annotations

from holdfast.cli.answer import require_person
from holdfast.cli.watching.keys import Pasted, typed
from holdfast.core.next_step import STUCK, current_task, next_step
from holdfast.core.refusal import shell_word
from holdfast.core.workflow import find_phase
from holdfast.core.workflow.tasks import WAITING
from holdfast.errors import Refused
from holdfast.loops import Loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from holdfast.core.types import Workflow
    from holdfast.keeper import Keeper, Receipt

    Dialog = Generator["Prompt", str, tuple[str, Receipt]]
    """Gets answers; returns what was done, and the receipt."""
    Begin = Callable[[Keeper, Workflow], Dialog]
    Change = Callable[[str], Receipt]
    """Carries something out; takes the reason, which not every change has."""

_MAX_CHOICES = 9


class Prompt:
    """A question on one line, to a person: yes or no, one of ``choices``, or a text."""

    def __init__(self, text: str, choices: Sequence[str] = (), *, is_text: bool = False) -> None:
        self.text = text
        self.choices = choices
        self.is_text = is_text

    def line(self, typed: str) -> str:
        """Return the line that is shown, with what has been typed."""
        if self.is_text:
            return f"{self.text}: {typed}_"
        if self.choices:
            listed = "  ".join(f"{n} {choice}" for n, choice in enumerate(self.choices, 1))
            return f"{self.text}: {listed}"
        return f"{self.text}? [y/n]"

    @property
    def hint(self) -> str:
        """Return how it is answered, where the line does not say that."""
        if self.is_text:
            return "Enter: do it, Esc: do not"
        return "a number, or Esc" if self.choices else ""


class Conversation:
    """A dialog that goes on. Making it asks the first question, and raises what the dialog does."""

    def __init__(self, dialog: Dialog) -> None:
        self._dialog = dialog
        self._typed = ""
        self.prompt = next(dialog)

    @property
    def line(self) -> str:
        """Return the question, and what has been typed."""
        return self.prompt.line(self._typed)

    def press(self, key: str) -> tuple[str, str] | None:
        """Take a key; return the mark of a status and what was done, or ``None`` before the end."""
        prompt, is_pasted = self.prompt, isinstance(key, Pasted)
        if key in ("escape", "end of input") and not is_pasted:
            return self._close()
        if prompt.is_text:
            if key != "enter" or is_pasted:
                self._typed = typed(self._typed, key)
                return None
            return self._go_on(self._typed.strip()) if self._typed.strip() else None
        if is_pasted:
            return None  # Pasted text is no yes.
        if prompt.choices:
            numbers = map(str, range(1, len(prompt.choices) + 1))
            return self._go_on(key) if key in numbers else None
        if key in ("n", "N"):
            return self._close()
        return self._go_on(key) if key in ("y", "Y") else None

    def _close(self) -> tuple[str, str]:
        self._dialog.close()
        return "pending", "nothing was changed"

    def _go_on(self, answer: str) -> tuple[str, str] | None:
        """Go on up to the next question, or to the end."""
        try:
            self.prompt = self._dialog.send(answer)
        except StopIteration as end:
            done, receipt = end.value
            return "completed", "; ".join([done, *receipt.notes])
        self._typed = ""
        return None


def approve(keeper: Keeper, state: Workflow) -> Dialog:
    """Approve the phase that waits for it, else the current one."""
    name = _to_approve(state)
    if name is None:
        raise _nothing(state, "approve", "it is in no phase")
    require_person(f"phase approve {shell_word(name)} -w {shell_word(state['id'])}")
    yield Prompt(f"approve phase {name} of {state['id']}")
    return f"phase {name} approved", keeper.approve_phase(name, workflow=state["id"])


def block(keeper: Keeper, state: Workflow) -> Dialog:
    """Block the current phase, or the task at hand."""
    options = _to_block(keeper, state)
    if not options:
        raise _nothing(state, "block", "no phase or task of it is in progress")
    what, change = yield from _choose("block", options)
    reason = yield Prompt(f"why is {what} of {state['id']} blocked", is_text=True)
    return f"{what} blocked", change(reason)


def unblock(keeper: Keeper, state: Workflow) -> Dialog:
    """Unblock a phase or a task."""
    options = _to_unblock(keeper, state)
    if not options:
        raise _nothing(state, "unblock", "nothing of it is blocked")
    what, change = yield from _choose("unblock", options)
    yield Prompt(f"unblock {what} of {state['id']}")
    return f"{what} unblocked", change("")


KEYS: dict[str, Begin] = {"a": approve, "b": block, "u": unblock}
"""The dialog that each key begins."""


def _choose(
    verb: str, options: list[tuple[str, Change]]
) -> Generator[Prompt, str, tuple[str, Change]]:
    if len(options) == 1:
        return options[0]
    number = yield Prompt(f"{verb} which", [what for what, _ in options])
    return options[int(number) - 1]


def _nothing(state: Workflow, verb: str, why: str) -> Refused:
    return Refused("invalid", f"{verb}: {state['id']}: {why}", f"holdfast show {state['id']}")


def _to_approve(state: Workflow) -> str | None:
    step = next_step(state)
    if step is not None and step.words[:2] == ["phase", "approve"]:
        return step.words[2]
    return state["phase"]


def _to_block(keeper: Keeper, state: Workflow) -> list[tuple[str, Change]]:
    """Return what can be blocked, each with the method that does it."""
    name, phase = state["id"], find_phase(state, state["phase"])
    options: list[tuple[str, Change]] = []
    if phase is not None and phase["status"] == "in_progress":
        current = phase["name"]
        options.append((
            f"phase {current}",
            lambda why: keeper.block_phase(current, {"reason": why}, workflow=name),
        ))  # fmt: skip
    task = current_task(state)
    if task is not None and (state["recipe"]["format"] == "loop" or _has_begun(task["status"])):
        number = task["id"]
        if task["status"] not in STUCK:
            options.append((f"task {number}", lambda why: _block(keeper, state, number, why)))
    return options


def _has_begun(status: str) -> bool:
    return status not in WAITING


def _to_unblock(keeper: Keeper, state: Workflow) -> list[tuple[str, Change]]:
    """Return what can be unblocked, each with the method that does it."""
    name = state["id"]
    options: list[tuple[str, Change]] = [
        (
            f"phase {phase['name']}",
            lambda _why, own=phase["name"]: keeper.unblock_phase(own, workflow=name),  # type: ignore[misc]
        )
        for phase in state["phases"]
        if phase["status"] == "blocked"
    ]
    options += [
        (
            f"task {task['id']}",
            lambda _why, own=task["id"]: _unblock(keeper, state, own),  # type: ignore[misc]
        )
        for task in state["tasks"]
        if task["status"] == "blocked"
    ]
    return options[:_MAX_CHOICES]


def _block(keeper: Keeper, state: Workflow, task: int | str, reason: str) -> Receipt:
    """Block a task; of a loop, whose pages follow, a unit."""
    if state["recipe"]["format"] == "loop":
        return Loops(keeper).block(str(task), reason, slug=state["id"])
    return keeper.block_task(task, reason, workflow=state["id"])


def _unblock(keeper: Keeper, state: Workflow, task: int | str) -> Receipt:
    if state["recipe"]["format"] == "loop":
        return Loops(keeper).unblock(str(task), slug=state["id"])
    return keeper.unblock_task(task, workflow=state["id"])
