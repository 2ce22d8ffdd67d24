"""The small aggregates: interviews, delegations and what else has one stream and one record.

They go the way of workflows: lock, load, decide, append, evolve, show. Their record is the state as
long as it shows the stream's last event. Every worktree has a copy of its own, which is brought
forward when it is looked at; so an edit is taken in wherever it was made.
"""

from __future__ import annotations

import os

from holdfast import faults, jsontext
from holdfast.core import edits
from holdfast.core.refusal import Refusal
from holdfast.errors import Fault, Refused
from holdfast.layers.records import envelope, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from holdfast.caller import Caller
    from holdfast.core.shapes import Command, Draft, Event, Fields, Origin

KINDS = ("interview", "delegation", "learning", "forge", "initiatives")
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
_NOWHERE: Origin = {"at": "", "path": "", "worktree": "", "recipe": lambda _: None}
_NEWS = (
    *("learning_recorded", "interview_skipped", "delegation_overridden", "routing_corrected"),
    *("record_adopted", "record_edited"),
)
"""What the project's memory should know of."""
_MARK = "_"
"""How the names of their streams begin; no workflow's id does."""


def stream_of(kind: str) -> str:
    return f"{_MARK}{kind}"


def is_small(stream: str) -> bool:
    return stream.startswith(_MARK) and stream[len(_MARK) :] in KINDS


def core_of(kind: str) -> ModuleType:
    loaded: ModuleType = __import__(f"holdfast.core.{kind}", fromlist=("decide",))
    return loaded


def record_of(kind: str) -> ModuleType:
    loaded: ModuleType = __import__(f"holdfast.layers.records.{kind}", fromlist=("render",))
    return loaded


def kind_of(stream: str) -> str:
    return stream.removeprefix(_MARK)


def rendered(kind: str, state: Fields, identity: str, last: Event | Fields) -> bytes:
    """The record of a state, as bytes."""
    document, rest = record_of(kind).render(state)
    return envelope.seal(document, rest, identity, last["seq"], last["hash"])


def replayed(kind: str, events: Iterable[Event]) -> tuple[Fields | None, list[Event]]:
    """The state that events give, and those that make no sense."""
    found = list(events)
    state, odd = _carried(kind, found, is_careful=False)
    if state is not None and not _is_sound(kind, state):
        state, odd = _carried(kind, found, is_careful=True)
    return state, odd


def _carried(
    kind: str, events: list[Event], *, is_careful: bool
) -> tuple[Fields | None, list[Event]]:
    core = core_of(kind)
    state: Fields | None = None
    odd = []
    for event in events:
        try:
            after = core.evolve(state, event)
        except _NONSENSE:
            after = None
        if after is None or (is_careful and not _is_sound(kind, after)):
            odd.append(event)
        else:
            state = after
    return state, odd


def _is_sound(kind: str, state: Fields) -> bool:
    """Whether a record can be made of the state, and read again."""
    record = record_of(kind)
    try:
        record.parse(*record.render(state), _NOWHERE)
    except (*_NONSENSE, fields.Invalid):
        return False
    return True


class Noted:
    """What came of a command: the state, the events that were recorded, and what was noticed."""

    __slots__ = ("notes", "seqs", "state")

    def __init__(self, state: Fields, seqs: list[int], notes: list[str]) -> None:
        self.state = state
        self.seqs = seqs
        self.notes = notes


class Small:
    """One small aggregate of one workspace."""

    def __init__(self, caller: Caller, kind: str) -> None:
        self._caller = caller
        self._engine = caller.engine
        self._core = core_of(kind)
        self._record = record_of(kind)
        self._kind = kind
        self._stream = stream_of(kind)
        self.place: str = self._record.path()
        """Where the record stands, from the worktree's root."""

    def do(self, command: str, args: Fields, *, id: str | None = None) -> Noted:
        """Carries out one command."""
        with self._caller.locked():
            state = self._load()
            if id is not None and (before := self._caller.recorded(id, self._stream)):
                return Noted(state, [event["seq"] for event in before], self._caller.notes())
            asked: Command = {"type": command, "at": self._engine.now(), "args": args}
            outcome = self._core.decide(state, asked)
            if isinstance(outcome, Refusal):
                raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
            if not outcome:
                return Noted(state, [], self._caller.notes())
            after, events = self._commit(state, outcome, event_id=id, is_asked=True)
            self._engine.close_full_segment()
            return Noted(after, [event["seq"] for event in events], self._caller.notes())

    def state(self) -> Fields:
        """What there is now, edits of the record included."""
        return self._caller.reading(self._load)

    def look(self) -> Fields:
        """The same for somebody who looks already, or holds the lock."""
        return self._load()

    def put_back(self) -> None:
        """Writes the record anew where somebody threw it away, and the ledger has the state."""
        if os.path.lexists(self._path) or self._caller.reading(self._last) is None:
            return
        with self._caller.locked():
            self._load()
        self._engine.note(f"{self.place} was gone and is written anew")

    def told(self) -> Fields:
        """What the ledger alone says, for somebody who must not take in what was edited."""
        return self._replay()

    # What stands in the record's place

    @property
    def _path(self) -> str:
        workspace = self._engine.workspace
        return workspace.inside(workspace.root, self.place)

    def _load(self) -> Fields:
        last = self._last()
        if self._engine.store.has_left(self._path):
            self._engine.needs_lock()
            state = self._look(last)
            for taken_to in self._engine.store.take_left(self._path):
                state = self._saved_meanwhile(state, taken_to)
            return state
        return self._look(last)

    def _last(self) -> Fields | None:
        """Seq, version and hash of the stream's last event."""
        event = self._engine.ledger.last(self._stream)
        return event or self._engine.register.row(self._stream)  # type: ignore[return-value]

    def _look(self, last: Fields | None) -> Fields:
        raw = self._engine.store.read(self._path)
        if raw is None or not raw.strip(b" \t\r\n\0"):
            return self._gone(last, raw)
        try:
            sealed = envelope.unseal(raw)
            if last is not None and sealed.intact and sealed.hash == last["hash"]:
                return self._parsed(sealed.document, sealed.rest or {})
        except (jsontext.BadJson, fields.Invalid):
            pass
        self._engine.needs_lock()
        return self._weighed(raw, self._path)

    def _gone(self, last: Fields | None, raw: bytes | None) -> Fields:
        """Nothing is there: never written, deleted, or new in this worktree."""
        if last is None:
            blank: Fields = self._core.blank()
            return blank
        if raw is not None:
            self._engine.needs_lock()  # What a power cut left of it goes.
        state = self._replay()
        return self._show(state, raw) if self._engine.locked else state

    def _weighed(self, raw: bytes, found_at: str) -> Fields:
        """An older copy, one from elsewhere, or an edit; the record is current afterwards."""
        try:
            jsontext.loads(raw, strict=True)
            sealed = envelope.unseal(raw)
            shown = self._shows(sealed)
            base = self._replay(sealed.seq if shown else None)
            if sealed.intact and shown:
                self._done_with(found_at)
                return self._show(self._replay(), raw)
            rest = self._record.render(base)[1] if sealed.rest is None else sealed.rest
            parsed = self._parsed(sealed.document, rest)
        except jsontext.BadJson as bad:
            if self._engine.disk.is_being_written(found_at):
                self._engine.note(f"{self.place} is being written, and taken in when that is done")
                return self._replay()
            return self._refused(raw, found_at, f"line {bad.line}: {bad.why}")
        except fields.Invalid as invalid:
            from holdfast.layers.records.locate import line_of

            line = line_of(raw.decode(errors="replace"), invalid.path)
            where = edits.path_text(invalid.path) or "the record"
            return self._refused(raw, found_at, f"line {line}: {where} {invalid.why}")
        state = self._replay()
        if self._last() is None or sealed.intact:
            self._engine.note(f"{self.place} came from elsewhere and is adopted")
            return self._taken(state, "adopt_record", {"state": parsed}, raw, found_at)
        return self._edited(state, base, parsed, raw, found_at, sealed.seq if shown else 0)

    def _edited(
        self, state: Fields, base: Fields, parsed: Fields, raw: bytes, found_at: str, seq: int
    ) -> Fields:
        changes, since = edits.diff(base, parsed), edits.diff(base, state)
        clashes = edits.conflicts(since, changes)
        if clashes:
            where = ", ".join(edits.path_text(clash) for clash in clashes)
            return self._refused(raw, found_at, f"{where} was changed since by someone else")
        changes = edits.beyond(since, changes)
        if not changes:
            self._done_with(found_at)
            return self._show(state, raw)
        self._engine.note(f"adopted an edit of {self.place}")
        return self._taken(state, "adopt_edit", {"base": seq, "changes": changes}, raw, found_at)

    def _taken(
        self, state: Fields, command: str, args: Fields, raw: bytes, found_at: str
    ) -> Fields:
        drafts = self._core.decide(state, {"type": command, "at": self._engine.now(), "args": args})
        if isinstance(drafts, Refusal):
            return self._refused(raw, found_at, drafts.message)
        if not drafts:
            self._done_with(found_at)
            return self._show(state, raw)
        after, _ = self._commit(state, drafts, expected=raw if found_at == self._path else None)
        self._done_with(found_at)
        return after

    def _refused(self, raw: bytes, found_at: str, why: str) -> Fields:
        kept = os.path.basename(self._engine.store.set_aside(found_at, raw, self._path))
        self._engine.note(
            f"an edit of {self.place} was refused ({why}); it is kept as {kept}, and the last "
            "good state stands"
        )
        return self._show(self._replay(), None)

    def _saved_meanwhile(self, state: Fields, taken_to: str) -> Fields:
        raw = self._engine.store.read(taken_to)
        return state if raw is None else self._weighed(raw, taken_to)

    def _done_with(self, found_at: str) -> None:
        """Its content is in the ledger: a copy that was kept until then goes."""
        if found_at != self._path:
            self._engine.disk.remove(found_at)

    def _shows(self, sealed: envelope.Sealed) -> bool:
        """Whether the ledger has the event that a record shows."""
        event = next(self._engine.ledger.scan(self._stream, sealed.seq - 1), None)
        return event is not None and (event["seq"], event["hash"]) == (sealed.seq, sealed.hash)

    def _parsed(self, document: Fields, rest: Fields) -> Fields:
        origin = self._engine.origin(self.place, self._engine.workspace.name)
        parsed: Fields = self._record.parse(document, rest, origin)
        return parsed

    def _replay(self, upto: int | None = None) -> Fields:
        """The state from the ledger alone."""
        events = self._engine.ledger.scan(self._stream)
        kept = (event for event in events if upto is None or event["seq"] <= upto)
        state, odd = replayed(self._kind, kept)
        for event in odd:
            self._engine.note(f"event {event['seq']} makes no sense and is left out")
        blank: Fields = self._core.blank()
        return blank if state is None else state

    # Writing, under the lock

    def _commit(
        self,
        state: Fields,
        drafts: list[Draft],
        *,
        event_id: str | None = None,
        expected: bytes | None = None,
        is_asked: bool = False,
    ) -> tuple[Fields, list[Event]]:
        """Makes events durable, then visible; room for the record is made sure of first."""
        engine = self._engine
        if expected is None:
            expected = engine.store.read(self._path)
        last = self._last()
        events, blob = engine.ledger.prepare(
            drafts,
            stream=self._stream,
            version=last["version"] if last else 0,
            at=engine.now(),
            by=engine.by,
            event_id=event_id or os.urandom(12).hex(),
        )
        for event in events:
            state = self._core.evolve(state, event)
        spare = self._prepared(state, events[-1])
        try:
            engine.ledger.append(events, blob)
        except (OSError, Fault) as error:
            if getattr(error, "code", "") != "unknown_outcome":
                engine.store.drop(spare)
            raise
        try:
            left = engine.store.put(spare, self._path, expected)
        except OSError as error:
            behind = faults.record_behind(events[-1]["seq"], error)
            if is_asked:
                raise behind from error
            engine.note(behind.message)
            left = None
        engine.has_news = engine.has_news or any(event["type"] in _NEWS for event in events)
        return (state if left is None else self._saved_meanwhile(state, left)), events

    def _prepared(self, state: Fields, last: Event | Fields) -> str:
        identity = self._engine.ledger.identity() or str(last["id"]).partition(".")[0]
        data = rendered(self._kind, state, identity, last)
        try:
            return self._engine.store.prepare(self._path, data)
        except OSError as error:
            raise faults.record_not_written(self.place, error) from error

    def _show(self, state: Fields, expected: bytes | None) -> Fields:
        """Writes the record anew; ``expected`` is what may be replaced."""
        last = self._last()
        if last is None:
            return state
        left = self._engine.store.put(self._prepared(state, last), self._path, expected)
        return state if left is None else self._saved_meanwhile(state, left)
