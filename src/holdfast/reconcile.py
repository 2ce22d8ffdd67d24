"""What is found in place of a record that does not show the last event, and what becomes of it.

Every row of the table in ``docs/format.md`` is a function here. Nothing is overwritten before it
was taken into the ledger or kept under another name, and whatever happened is said in a note.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.core import edits, workflow
from holdfast.core.workflow.lifecycle import pending
from holdfast.core.workflow.state import ENDED, is_active, remaining_phases
from holdfast.disk import LARGEST
from holdfast.layers import records
from holdfast.layers.records import envelope, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Change, Workflow
    from holdfast.engine import Engine
    from holdfast.register import Position

_KEPT = ("id", "created_at", "record", "worktree")
"""What an edit cannot change: the ledger goes by it."""
_OWN = ("updated_at", "history_earlier")
"""What the ledger says by itself."""
_REREAD_AFTER_S = 0.05
_MOST_LOOKS = 5
"""So often a record is read that is another one every time, and none."""


class Found:
    """A file in a record's place (``path``), or one that was taken from there a moment ago."""

    def __init__(
        self, engine: Engine, position: Position, path: str, raw: bytes, taken_to: str | None = None
    ) -> None:
        self.position = position
        self.raw = raw
        self._engine = engine
        self._path = path
        self._taken_to = taken_to

    def refuse(self, why: str) -> Workflow:
        """Keeps the file under another name; the last good state stands."""
        kept = self._engine.store.set_aside(self._taken_to or self._path, self.raw, self._path)
        self._engine.note(
            f"an edit of {self.position.record} was refused ({why}); it is kept as "
            f"{os.path.basename(kept)}, and the last good state stands"
        )
        return self._engine.show_again(self.position.stream, None)

    def may_be_replaced(self) -> None:
        """Its content is about to be in the ledger: the next record may take its place."""
        if self._taken_to is None:
            self._engine.expect(self.position.stream, self.raw)

    def taken_in(self) -> None:
        """Its content is in the ledger: a copy that was kept until then goes."""
        if self._taken_to is not None:
            self._engine.disk.remove(self._taken_to)

    def older(self, shown: str) -> Workflow:
        """It was a copy of an earlier event; the record is written anew."""
        what = "an older copy" if shown == self.position.stream else f"a copy of {shown}"
        self._engine.note(f"{self.position.record} was {what} and is brought forward")
        if self._taken_to is not None:
            self._engine.disk.remove(self._taken_to)
            return self._engine.replay(self.position.stream)[0]
        return self._engine.show_again(self.position.stream, self.raw)


def reconcile(
    engine: Engine,
    position: Position,
    path: str | None,
    raw: bytes | None,
    *,
    looks: int = 1,
) -> Workflow:
    """The state of a stream whose record is not current; the record is, afterwards."""
    state, _ = engine.replay(position.stream)
    if path is None:
        engine.note(f"the worktree of {position.stream} is gone; its state is in the ledger")
        return state
    if not is_active(state):
        return _ended(engine, position, state, path, raw)
    engine.needs_lock()
    try:
        sealed = envelope.unseal(raw or b"")
    except jsontext.BadJson as bad:
        if looks == 1:
            engine.pause(_REREAD_AFTER_S)
            return engine.look(position, path, looks=2)
        if _is_being_written(engine, position, path):
            return state
        if looks < _MOST_LOOKS and engine.store.read(path) != raw:
            return engine.look(position, path, looks=looks + 1)
        if raw is None or (len(raw) <= LARGEST and not raw.strip(b" \t\r\n\x00")):
            return _gone(engine, position, state, raw)
        return Found(engine, position, path, raw).refuse(f"line {bad.line}: {bad.why}")
    return _weigh(engine, state, Found(engine, position, path, raw or b""), sealed)


def _is_being_written(engine: Engine, position: Position, path: str) -> bool:
    """Whether somebody has the file open and is not done: it is left to them until they are."""
    found = engine.disk.is_being_written(path)
    if found:
        engine.note(f"{position.record} is being written, and is taken in when that is done")
    return found


def saved_meanwhile(engine: Engine, stream: str, taken_to: str) -> Workflow:
    """An editor saved the record between our reading it and our replacing it."""
    position = engine.position(stream)
    state, _ = engine.replay(stream)
    if position is None or _is_being_written(engine, position, taken_to):
        return state
    # Read after that question: now nobody writes there any more.
    raw = engine.store.read(taken_to)
    if raw is None:
        return state
    found = Found(engine, position, engine.path(position) or "", raw, taken_to)
    try:
        sealed = envelope.unseal(raw)
    except jsontext.BadJson as bad:
        return found.refuse(f"line {bad.line}: {bad.why}")
    return _weigh(engine, state, found, sealed)


def left_behind(engine: Engine, position: Position, path: str) -> Workflow:
    """A writer died before it took in what somebody had saved at that instant."""
    engine.needs_lock()
    state = engine.look(position, path)
    for place in records.places(path, position.stream):
        for taken_to in engine.store.take_left(place):
            state = saved_meanwhile(engine, position.stream, taken_to)
    return state


def _weigh(engine: Engine, state: Workflow, found: Found, sealed: envelope.Sealed) -> Workflow:
    """A JSON object stands there: an older copy, one from elsewhere, or an edit."""
    position = found.position
    if not sealed.document:
        found.taken_in()
        return _gone(engine, position, state, found.raw)
    shown = _stream_shown(engine, sealed)
    known = shown == position.stream
    if sealed.intact and shown is not None:
        return found.older(shown)
    base, base_seq = state, position.seq
    if known and sealed.seq < position.seq:
        base, base_seq = engine.replay(position.stream, sealed.seq)[0], sealed.seq
    rest = sealed.rest
    if rest is None:
        rest = records.module(base["recipe"]["format"]).render(base)[1]
    origin = engine.origin(position.record, position.worktree)
    try:
        jsontext.loads(found.raw, strict=True)
        parsed = records.parse(records.format_of(position.record), sealed, rest, origin)
        if not sealed.intact:
            records.check_edit(base, parsed)
    except jsontext.BadJson as bad:
        return found.refuse(f"line {bad.line}: {bad.why}")
    except fields.Invalid as invalid:
        return found.refuse(_where(found.raw, invalid))
    if parsed["id"] != position.stream and not known and not _takes_over(engine, sealed, parsed):
        return found.refuse(f"it is a record of {parsed['id']}")
    if sealed.intact:
        if sealed.ledger == engine.ledger.identity() and sealed.seq > engine.ledger.head_seq:
            engine.note(f"{position.record} is ahead: the ledger lost events, or it is of a copy")
        return _from_elsewhere(engine, state, found, parsed)
    return _edited(engine, state, found, records.next_cycle(base, parsed), base, base_seq)


def _takes_over(engine: Engine, sealed: envelope.Sealed, parsed: Workflow) -> bool:
    """Whether it is a new workflow's record, in a place that all of its format share."""
    is_new = sealed.intact and engine.position(parsed["id"]) is None
    return is_new and parsed["recipe"]["format"] == "verb"


def _stream_shown(engine: Engine, sealed: envelope.Sealed) -> str | None:
    """The stream whose event a record shows; ``None`` when the ledger does not have that event."""
    event = engine.ledger.at(sealed.seq, sealed.hash)
    return None if event is None else event["stream"]


def _where(raw: bytes, invalid: fields.Invalid) -> str:
    from holdfast.layers.records.locate import line_of

    line = line_of(raw.decode(errors="replace"), invalid.path)
    return f"line {line}: {edits.path_text(invalid.path) or 'the record'} {invalid.why}"


def _from_elsewhere(engine: Engine, state: Workflow, found: Found, parsed: Workflow) -> Workflow:
    """A whole record of another ledger, or ahead of this one, stands in the record's place."""
    position = found.position
    if parsed["id"] == position.stream:
        found.may_be_replaced()
        state = adopt(engine, parsed, position.record, state)
        found.taken_in()
        return state
    engine.expect(parsed["id"], found.raw)
    adopt(engine, parsed, position.record, None)
    reason = f"its record was replaced by that of {parsed['id']}"
    engine.note(f"{position.stream} is abandoned: {reason}")
    drafts = engine.decide(state, "abandon_workflow", {"reason": reason})
    return engine.commit(position.stream, state, drafts, show=False)[0]


def adopt(engine: Engine, parsed: Workflow, record: str, before: Workflow | None) -> Workflow:
    """Takes a record that Holdfast did not write into the ledger, as it stands."""
    engine.needs_lock()
    adopted = {**parsed, "record": record}
    engine.note(f"{record} came from elsewhere and is adopted as {parsed['id']}")
    drafts = engine.decide(None, "adopt_record", {"state": adopted, "record": record})
    return engine.commit(parsed["id"], before, drafts)[0]


def _edited(
    engine: Engine,
    state: Workflow,
    found: Found,
    parsed: Workflow,
    base: Workflow,
    base_seq: int,
) -> Workflow:
    """A person or a tool changed the record: merged, unless someone else changed the same."""
    position = found.position
    changes = _admitted(engine, position, edits.diff(base, parsed))  # type: ignore[arg-type]
    since = edits.diff(base, state)  # type: ignore[arg-type]
    clashes = edits.conflicts(since, changes)
    if clashes:
        where = ", ".join(edits.path_text(clash) for clash in clashes)
        return found.refuse(f"{where} was changed since by someone else")
    changes = edits.beyond([*since, *_adopted_before(engine, position, base_seq)], changes)
    # Whoever edits a copy from before a resume does not say that it is completed again.
    completed = parsed["status"] == "completed" and is_active(state) and is_active(base)
    if completed:
        changes = [change for change in changes if change[0][0] not in ("status", "completed_at")]
    if changes:
        engine.note(f"adopted an edit of {position.record}: {_listed(changes)}")
        drafts = engine.decide(state, "adopt_edit", {"base": base_seq, "changes": changes})
        found.may_be_replaced()
        state, _ = engine.commit(position.stream, state, drafts)
    if completed:
        found.may_be_replaced()
        state = _complete(engine, state, "completed by hand")
    if not changes and not completed:
        state = engine.show_again(position.stream, found.raw)
    found.taken_in()
    return state


def _adopted_before(engine: Engine, position: Position, base_seq: int) -> list[Change]:
    """What edits of the same event were taken in: of this very one, if its writer died there."""
    return [
        change
        for event in engine.ledger.scan(position.stream, base_seq)
        if event["type"] == "record_edited" and event["data"].get("base") == base_seq
        for change in edits.changes_in(event["data"])
    ]


def _admitted(engine: Engine, position: Position, changes: list[Change]) -> list[Change]:
    for change in changes:
        if change[0][0] in _KEPT:
            engine.note(f"{change[0][0]} of {position.stream} stays {change[1]!r}")
    return [change for change in changes if change[0][0] not in (*_KEPT, *_OWN)]


def _listed(changes: list[Change]) -> str:
    names = [edits.path_text(change[0]) for change in changes]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _gone(engine: Engine, position: Position, state: Workflow, raw: bytes | None) -> Workflow:
    """No record: moved to completed, removed at the end, removed by accident, never written."""
    format_name = state["recipe"]["format"]
    if format_name == "skill":
        moved = _moved_to_completed(engine, position, state)
        if moved is not None:
            return moved
    if format_name == "formal" and raw is None and _was_removed_at_the_end(engine, position, state):
        engine.note(f"{position.record} was removed in the last phase: {state['id']} is completed")
        return _complete(engine, state, "its record was removed in the last phase")
    engine.note(
        f"{position.record} was gone and is rebuilt; "
        f"to end the workflow: holdfast abandon -w {state['id']}"
    )
    return engine.show_again(position.stream, raw)


def _was_removed_at_the_end(engine: Engine, position: Position, state: Workflow) -> bool:
    """Somebody took the record away in the last phase: it is not just that a writer died."""
    if engine.was_cleaned or not state["phase"] or remaining_phases(state):
        return False
    path = engine.path(position) or ""
    store = engine.store
    return not (store.was_on_its_way(path, position.hash) or store.was_set_aside(path))


def _completed_path(engine: Engine, state: Workflow) -> str:
    place = records.module("skill").completed_path(state["id"])
    return engine.workspace.inside(engine.workspace.root_of(state["worktree"]) or "", place)


def _moved_to_completed(engine: Engine, position: Position, state: Workflow) -> Workflow | None:
    path = _completed_path(engine, state)
    raw = engine.store.read(path)
    if raw is None:
        return None
    try:
        sealed = envelope.unseal(raw)
    except jsontext.BadJson:
        return None
    about = sealed.document.get("workflow")
    if not isinstance(about, dict) or about.get("id") != state["id"]:
        return None
    if sealed.intact and sealed.hash != position.hash:
        _take_away(engine, position, path, sealed)
        return None
    if not _is_of_this_run(engine, position, sealed):
        return None
    if not sealed.intact:
        found = Found(engine, position, path, raw)
        state = _weigh(engine, state, found, sealed)
        found.may_be_replaced()
    engine.note(f"its record was moved to completed: {state['id']} is completed")
    if not is_active(state):
        return state
    return _complete(engine, state, "its record was moved to completed")


def completed_copy(engine: Engine, position: Position, state: Workflow) -> Workflow:
    """A script wrote a completed copy to where completed records stand, and left the record."""
    path = _completed_path(engine, state)
    try:
        sealed = envelope.unseal(engine.store.read(path) or b"")
    except jsontext.BadJson:
        return state
    about = sealed.document.get("workflow")
    status = about.get("status") if isinstance(about, dict) else None
    if sealed.intact:
        if engine.locked and status in ENDED:
            _take_away(engine, position, path, sealed)
        return state
    if status != "completed" or not _is_of_this_run(engine, position, sealed):
        return state
    engine.needs_lock()
    return _moved_to_completed(engine, position, state) or state


def _take_away(engine: Engine, position: Position, path: str, sealed: envelope.Sealed) -> None:
    """Removes a copy from before the workflow was opened again, if the ledger has what it shows."""
    if _stream_shown(engine, sealed) == position.stream:
        engine.store.remove(path)
    else:
        engine.note(f"a completed {position.stream} shows event {sealed.seq}: the ledger lost it")


def _is_of_this_run(engine: Engine, position: Position, sealed: envelope.Sealed) -> bool:
    """Whether a copy shows an event since the workflow was last opened."""
    shown = False
    for event in engine.ledger.scan(position.stream):
        is_it = event["seq"] == sealed.seq and event["hash"] == sealed.hash
        shown = is_it or (shown and event["type"] not in workflow.OPENING)
    return shown


def _complete(engine: Engine, state: Workflow, reason: str) -> Workflow:
    args = {"force": bool(pending(state)), "reason": reason}
    return engine.commit(state["id"], state, engine.decide(state, "complete_workflow", args))[0]


def _ended(
    engine: Engine, position: Position, state: Workflow, path: str, raw: bytes | None
) -> Workflow:
    """An ended workflow. An edit of it is taken in, and a copy from before its end is brought
    forward; what else stands in its place is not its own.
    """
    if raw is None:
        return state
    try:
        sealed = envelope.unseal(raw)
    except jsontext.BadJson:
        return state
    is_current = sealed.intact and sealed.seq == position.seq
    if is_current or _stream_shown(engine, sealed) != position.stream:
        return state
    engine.needs_lock()
    found = Found(engine, position, path, raw)
    if not sealed.intact:
        return _weigh(engine, state, found, sealed)
    if records.place(state) == position.record:
        return found.older(position.stream)
    return engine.show_again(position.stream, raw)
