"""A workflow as it was after an event, and what changed between two events.

A state is made again from the workflow's events, also from those in archives. Nothing of the work
tree is asked, so no gate is shown as stale, and no required file as missing.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.errors import Refused
from holdfast.formats import is_workflow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event, Fields, Json, Workflow
    from holdfast.keeper.session import Session

_NAMED_BY = {
    "phases": ("phase", "name"), "tasks": ("task", "id"), "violations": ("violation", "code"),
    "files": ("file", "path"), "guardrails": ("guardrail", "name"),
}  # fmt: skip
"""Lists of a state: what one of the entries is called, and the field that tells them apart."""
_NAMED_BY_KEY = {"gates": "gate", "context": "context"}
"""Objects of a state whose keys are names: what one of the values is called."""
_COURSE = ("history", "history_earlier", "updated_at")
"""Fields that change with every event."""


class PastState:
    """The state of a workflow after an event of the ledger, which may be another workflow's."""

    def __init__(self, state: Workflow, event: Event) -> None:
        self.state = state
        self.event = event


def state_at(session: Session, seq: int, workflow: str | None) -> PastState:
    """Return a workflow as it was after the event with this seq.

    Without a name, it is the workflow that the event is of; after an event of a log it is the
    caller's own. Raise ``Refused`` if there is no such event, or the workflow began later.
    """
    event = _event(session, seq)
    if workflow is None and is_workflow(event["stream"]):
        workflow = event["stream"]
    else:
        workflow = session.look(workflow)["id"]
    return PastState(_state(session, workflow, seq), event)


def changes(session: Session, workflow: str, from_seq: int, to_seq: int) -> list[Fields]:
    """Return what is different in a workflow after ``to_seq`` from what it was after ``from_seq``.

    Each change has its ``path``, ``about`` in words, and the values ``was`` and ``now``; without
    one of these it was added or removed. Before its first event, a workflow has nothing.
    """
    workflow = session.look(workflow)["id"]
    states = []
    for seq in (from_seq, to_seq):
        is_before = seq < _first_seq(session, workflow)
        if seq > 0:
            _event(session, seq)
        states.append({} if is_before else _compared(_state(session, workflow, seq)))
    before, after = states
    return [_row(change, before, after) for change in diff.diff(before, after)]


def _event(session: Session, seq: int) -> Event:
    """Return an event; raise ``Refused`` if the ledger does not have it."""
    head = session.store.ledger.head_seq
    if not 0 < seq <= head:
        last = f"the last one is {head}" if head else "nothing was recorded yet"
        raise Refused("not_found", f"there is no event {seq}: {last}", "holdfast log --limit 20")
    return session.store.ledger.event_of_seq(seq)


def _first_seq(session: Session, workflow: str) -> int:
    return next(session.store.ledger.events(workflow))["seq"]


def _state(session: Session, workflow: str, seq: int) -> Workflow:
    first = _first_seq(session, workflow)
    if seq < first:
        raise Refused(
            "not_found",
            f"{workflow} was begun by event {first}; at event {seq} it did not exist",
            f"holdfast show {workflow} --at {first}",
        )
    state: Workflow = session.store.state_at(workflow, seq)
    return state


def _compared(state: Workflow) -> Fields:
    return {name: value for name, value in state.items() if name not in _COURSE}


def _row(change: list[Json], before: Fields, after: Fields) -> Fields:
    path, was, now = change
    row: Fields = {"path": diff.path_text(path), "about": _about(path, before, after)}
    if was != diff.ABSENT:
        row["was"] = was
    if now != diff.ABSENT:
        row["now"] = now
    return row


def _about(path: list[str | int], before: Fields, after: Fields) -> str:
    """Return a path in words: ``task 3, status`` for ``tasks[2].status``."""
    first, rest = str(path[0]), path[1:]
    parts = [first.replace("_", " ")]
    if rest and first in _NAMED_BY and isinstance(rest[0], int):
        kind, field = _NAMED_BY[first]
        parts, rest = [f"{kind} {_entry(after, before, first, rest[0]).get(field)}"], rest[1:]
    elif rest and first in _NAMED_BY_KEY:
        parts, rest = [f"{_NAMED_BY_KEY[first]} {rest[0]}"], rest[1:]
    for part in rest:
        if isinstance(part, int):
            parts[-1] += f" {part + 1}"
        elif part != diff.ADDED:
            parts.append(part.replace("_", " "))
    return ", ".join(parts)


def _entry(after: Fields, before: Fields, name: str, index: int) -> Fields:
    """Return an entry of a list, as it is now or was."""
    entries = after.get(name) or before.get(name) or []
    entry: Json = entries[index] if index < len(entries) else {}
    return entry if isinstance(entry, dict) else {}
