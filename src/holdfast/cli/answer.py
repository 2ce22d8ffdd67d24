"""Make the answer of a command, and print it: one JSON object, or lines for people.

A command returns an ``Answer``. Most commands make one change by one method: ``on_workflow``
declares those that change a workflow, and ``answer_change`` says what they did, where the workflow
is now, and the next step.
"""

from __future__ import annotations

import sys
from itertools import chain

from holdfast import answers
from holdfast.answers import is_command_hint
from holdfast.cli.parser import command
from holdfast.cli.screen import Screen, count_cells, next_lines, shorten, wrap
from holdfast.core import json_text
from holdfast.core.next_step import next_fields
from holdfast.core.selection import MAX_NAMED, join_names
from holdfast.core.visible import clean, clean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TextIO

    from holdfast.cli.parser import Arguments, Parameter
    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Json, Workflow
    from holdfast.keeper import Keeper, Receipt

    Method = Callable[..., Receipt]
    """A method that takes the subject of the change, and the values by name."""
    Done = str | Callable[[Receipt, Fields], str]
    """What was done: a text in which ``{name}`` is a value and ``{state[id]}`` a part of the new
    state, or the function that returns it."""

FAILED = 4
"""The exit code of a gate, a test or a verification that ran and failed."""
_UNWRITTEN = 3
_MAX_COLUMNS = 200


class Answer:
    """The fields for ``--json`` and the lines for people."""

    is_live = False
    """True if each line is flushed, because the next one may come much later."""
    is_failure = False
    """True if the lines go to standard error."""
    is_json_only = False
    """True if people get the JSON too."""

    def __init__(
        self,
        fields: Fields | Callable[[], Fields],
        lines: Callable[[Screen], Iterable[str]],
        notes: list[str] | None = None,
        *,
        step: Callable[[], NextStep | None] | None = None,
        code: int = 0,
        is_wrapped: bool = True,
    ) -> None:
        self._fields = fields
        """A function makes them only when they are printed, with the notes in their place."""
        self.lines = lines
        self._notes = notes or []
        """Lines behind the others."""
        self.late_notes: list[str] = []
        """Notes that came after the answer was made."""
        self.has_shown_late_notes = False
        self._step = step
        """Return the next step of the workflow that the answer is about; people read it last."""
        self.code = code
        self.is_wrapped = is_wrapped

    def fields(self) -> Fields:
        """Return the fields of the JSON answer, without ``ok``."""
        if isinstance(self._fields, dict):
            fields = answers.with_notes(self._fields, self._notes)
        else:
            fields = self._fields()
        if self.late_notes:
            notes = [*fields.get("notes", ()), *self._take_late_notes()]
            fields = answers.with_notes(fields, notes)
        return fields if self._step is None else {**fields, "next": next_fields(self._step())}

    def _take_late_notes(self) -> list[str]:
        self.has_shown_late_notes = True
        return self.late_notes

    def json_pieces(self, *, ascii_only: bool) -> Iterator[str]:
        """Yield the pieces of the JSON answer, line ends included."""
        fields = {"ok": not self.code, **self.fields()}
        yield f"{encode(fields, ascii_only=ascii_only)}\n"

    def text_lines(self, out: TextIO) -> Iterator[str]:
        """Yield the lines for people as the stream can show them."""
        screen = Screen.of(out)
        for line in self.all_lines(screen):
            if screen.width is None or not self.is_wrapped:
                yield screen.encoded(line)
            else:
                yield from wrap(screen.encoded(line), screen.width)

    def all_lines(self, screen: Screen) -> Iterator[str]:
        """Yield the lines, the notes, and the next command."""
        yield from self.lines(screen)
        yield from map(screen.note, [*self._notes, *self._take_late_notes()])
        if self._step is not None:
            yield from next_lines(screen, self._step())


class Silence(Answer):
    """The answer of a command that printed by itself whatever it had to say."""

    def __init__(self, fields: Fields | None = None, *, code: int = 0) -> None:
        super().__init__(fields or {}, lambda _screen: (), code=code)


class Failure(Answer):
    """A command that failed; its ``error`` has code, message and hint."""

    is_failure = True

    def __init__(
        self, error: Fields, code: int, step: Callable[[], NextStep | None] | None = None
    ) -> None:
        super().__init__({"error": error}, lambda _screen: (), step=step, code=code)
        self._error = error

    def all_lines(self, screen: Screen) -> Iterator[str]:
        step = None if self._step is None else self._step()
        yield from _error_lines(screen, self._error, step, is_next=self._step is None)
        yield from map(screen.note, self._take_late_notes())
        if self._step is not None:
            yield from next_lines(screen, step)


class StreamAnswer(Answer):
    """Values that are printed one a line, as they come."""

    is_live = True

    def __init__(self, values: Iterable[Json], line: Callable[[Screen, Json], str]) -> None:
        self._values = values
        super().__init__({}, lambda screen: (line(screen, value) for value in values))

    def json_pieces(self, *, ascii_only: bool) -> Iterator[str]:
        for value in self._values:
            yield f"{encode(value, ascii_only=ascii_only)}\n"


def encode(value: Json, *, ascii_only: bool) -> str:
    """Return a value as JSON that can be printed."""
    return clean_json(json_text.dumps(value), ascii_only=ascii_only)


def answer_done(done: str, fields: Fields, notes: list[str]) -> Answer:
    """Answer a command that did one thing outside of any workflow; ``done`` says what."""
    return Answer(fields, lambda screen: [screen.row("completed", done)], notes)


def answer_change(args: Arguments, receipt: Receipt, done: str, *, aimed: bool = False) -> Answer:
    """Answer a command that changed a workflow: what it did, and where the workflow is now."""
    return Answer(
        lambda: answers.change(receipt),
        lambda screen: [_changed_line(screen, receipt.state, done)],
        notes=receipt.notes,
        step=step_after(args, receipt, aimed=aimed),
    )


def is_on_terminal() -> bool:
    """Return whether a person can be asked here: input and output are a terminal."""
    return all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout))


def require_person(tried: str) -> None:
    """Raise ``Refused`` unless a person runs the command, on a terminal and in no client."""
    from holdfast.errors import Refused
    from holdfast.workspace.environment import client_above

    client = client_above()
    if client is None and is_on_terminal():
        return
    who = f"{client} started this" if client else "this is no terminal"
    raise Refused(
        "needs_person",
        f"{tried}: only a person can decide this, on a terminal of their own; {who}",
        f"ask the user to run it in their own terminal: holdfast {tried}",
    )


def confirm(
    tried: str, question: str, listed: list[str], args: Arguments, *, would: str = ""
) -> bool:
    """Return whether the person on the terminal agrees; raise ``Refused`` if there is none.

    ``--yes`` agrees for a script. ``would`` says what is asked for; else it ends what is listed.
    """
    from holdfast.errors import Refused

    if args["yes"]:
        return True
    if args["json"] or not is_on_terminal():
        raise Refused(
            "needs_yes",
            f"{tried}: this would {would or f'end {join_names(listed)}'}, and nobody was asked",
            f"holdfast {tried} --yes",
        )
    for name in listed:
        print(f"  {clean(name)}")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def step_after(
    args: Arguments, receipt: Receipt, *, aimed: bool = False
) -> Callable[[], NextStep | None]:
    """Return what computes the next step after a command; ``aimed``: it names the workflow."""
    from holdfast.core.next_step import next_step

    def compute() -> NextStep | None:
        is_named = aimed or args["is_aimed"]
        return next_step(
            receipt.state, receipt.facts, is_named=is_named, after=args["command"] or ""
        )

    return compute


def _changed_line(screen: Screen, state: Workflow, done: str) -> str:
    """Return ``✓ task 3 done  phase 2/5 build · tasks 3/7``, within the terminal's width."""
    facts, names = [], [phase["name"] for phase in state["phases"]]
    if state["phase"] in names:
        facts.append(f"phase {names.index(state['phase']) + 1}/{len(names)} {state['phase']}")
    if state["tasks"]:
        completed = [task for task in state["tasks"] if task["status"] == "completed"]
        facts.append(f"tasks {len(completed)}/{len(state['tasks'])}")
    position = clean(screen.dot.join(facts))
    done = shorten(clean(done), screen.width or _MAX_COLUMNS)
    if screen.width and count_cells(done) + count_cells(position) + 4 > screen.width:
        done = shorten(done, max(screen.width - count_cells(position) - 4, screen.width // 2))
    return f"{screen.mark('completed')} {done}  {screen.paint(position, 'dim')}".rstrip()


class ChangeCommand:
    """A command that calls one method, and answers with what that changed."""

    def __init__(self, kind: ChangeKind, method: Method, done: Done) -> None:
        self.kind = kind
        self.method = method
        self._done = done

    def __call__(self, keeper: Keeper, args: Arguments) -> Answer:
        kind, values = self.kind, dict(args["own"])
        for name, option in kind.target.items():
            values[name] = args[option]
        receipt = self.method(kind.open_subject(keeper) if kind.open_subject else keeper, **values)
        if isinstance(self._done, str):
            done = self._done.format(**values, state=receipt.state)
        else:
            done = self._done(receipt, values)
        return kind.answer(args, receipt, done)


class ChangeKind:
    """A group of commands that change the same kind of thing, such as a workflow or a loop.

    Called like ``command``, with a title, parameters and examples, it returns what declares such a
    command: ``on_workflow("step: start a step", …)(Keeper.start_step, "step {name} started")``.
    """

    def __init__(
        self,
        target: dict[str, str],
        answer: Callable[[Arguments, Receipt, str], Answer],
        open_subject: Callable[[Keeper], Any] | None = None,
    ) -> None:
        self.target = target
        """The parameters of every method that are options of every command."""
        self.answer = answer
        self.open_subject = open_subject
        """Return the object whose methods are called; without this it is the keeper."""

    def __call__(self, title: str, *items: Parameter | str) -> Callable[[Method, Done], None]:
        def declare(method: Method, done: Done) -> None:
            command(title, *items)(ChangeCommand(self, method, done))

        return declare


on_workflow = ChangeKind({"workflow": "workflow", "id": "id"}, answer_change)
"""Declare a command that changes a workflow."""


def print_answer(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return its exit code, which a closed pipe does not change."""
    out = sys.stderr if answer.is_failure and not as_json else sys.stdout
    if out is None:
        return answer.code
    if as_json or answer.is_json_only:
        is_utf = (out.encoding or "").lower().startswith("utf")
        pieces = answer.json_pieces(ascii_only=not is_utf)
    else:
        pieces = (f"{line}\n" for line in answer.text_lines(out))
    for piece in chain(pieces, [""]):
        is_last = not piece
        try:
            out.write(piece)
            if answer.is_live or is_last:
                out.flush()
        except OSError as error:
            # Otherwise the rest would be written once more at the end.
            sys.stdout = sys.stderr
            if isinstance(error, BrokenPipeError):
                return answer.code
            try:
                print(f"holdfast: the answer could not be written: {error}", file=sys.stderr)
            except OSError:
                pass
            return answer.code or _UNWRITTEN
    return answer.code


def _error_lines(
    screen: Screen, error: Fields, step: NextStep | None, *, is_next: bool
) -> Iterator[str]:
    """Yield the lines of an error; ``is_next``: a hint that is a command is the next one.

    A hint that only says the same as the next step, which follows, is left out.
    """
    yield f"{screen.paint('holdfast:', 'bad')} {clean(error['message'])}"
    text = f"{error['message']} {error['hint']}"
    for name, value in error.get("details", {}).items():
        if name == "pending":
            continue  # The message lists it.
        items = [str(item) for item in _leaves(value)]
        most = MAX_NAMED if name == "candidates" else len(items)
        if name == "or_else":
            yield f"  or: {clean(items[0])}"
        elif not all(item in text for item in items[:most]):
            yield f"  {clean(name)}: {clean(join_names(items, most))}"
    hint = error["hint"]
    if is_command_hint(hint):
        if is_next:
            yield f"  next: {clean(hint)}"
    elif hint and (step is None or hint != f"{step.about}: {step.text}"):
        yield f"  {clean(hint)}"


def _leaves(value: Json) -> list[Json]:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return [value]
    return [leaf for item in value for leaf in _leaves(item)]
