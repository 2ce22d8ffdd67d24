"""A transaction: the way of every change.

    lock -> load -> decide -> append -> commit (the sync) -> put the records in place -> unlock

``load`` settles whatever stands in place of a record first, in a commit of its own. Events that
are appended become durable together, with the tables made from them. A record is written beside
its place before the commit, so that there is room for it, and exchanged with the old one after.
"""

from __future__ import annotations

import os
import time

from holdfast import formats
from holdfast.adopt import record as adoption
from holdfast.core import json_text
from holdfast.core.digest import digest
from holdfast.core.record_formats import FORMATS, formats_with
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.state import is_active, unread
from holdfast.errors import Fault, Refused
from holdfast.formats import signature
from holdfast.formats.aggregates import aggregate_of, is_log, is_workflow
from holdfast.storage import event_codec
from holdfast.storage.ledger import ACTIVE, Stream
from holdfast.storage.record_files import MAX_TRIES
from holdfast.system.disk import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from holdfast.adopt.findings import Subject
    from holdfast.core.types import Draft, Event, Fields
    from holdfast.keeper.store import Store
    from holdfast.storage.skill_index import Index

_MARK = next(spec.mark for spec in FORMATS.values() if spec.mark)
_FINGERPRINT_DIGITS = 16
_MAX_ROUNDS = 4
"""How often something may be saved into a record's place while its stream is committed."""


class _Touched:
    """A stream in this transaction."""

    def __init__(self, stream: str, state: Any, row: Fields | None) -> None:
        self.stream = stream
        self.aggregate = aggregate_of(stream)
        self.before = state
        self.state = state
        self.seq = row["seq"] if row else 0
        self.version = row["version"] if row else 0
        self.hash = row["hash"] if row else ""
        self.raw: bytes | None = None
        """What stands in the record's place and may be replaced."""
        self.events: list[Event] = []
        """Appended, and not committed yet."""
        self.is_shown = False
        """True if its record is to be written by the next commit."""


class _Prepared:
    """A record that is written beside its place."""

    def __init__(self, touched: _Touched, worktree: str, record: str, path: str) -> None:
        self.touched = touched
        self.worktree = worktree
        self.record = record
        self.path = path
        self.spare = ""
        self.data = b""


class Transaction:
    """The workspace's lock, held, and the changes made under it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._streams: dict[str, _Touched] = {}
        self._is_begun = False
        self._expected: dict[str, bytes] = {}
        self._left: list[tuple[str, str, str]] = []
        """Files whose place could not be settled yet: the next transaction looks again."""
        self.request = ""
        self.asked = ""
        """The fingerprint of what the caller asked for, kept with events that have their id."""
        self._is_ending = False
        """True when whatever was asked for is appended."""

    def __enter__(self) -> Self:
        assert self.store.open_transaction is None, "a transaction is open already"
        store, ledger = self.store, self.store.ledger
        ledger.acquire()
        try:
            store.open_transaction = self
            store.forecasts = []
            if not ledger.head_seq:
                store.workspace.prepare(store.disk, store.note)
                store.workspace.list_ledger(store.disk)
            store.workspace.take_name(store.disk, ledger.has_worktree)
            if ledger.head() != store.settled:
                self._settle_last()
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise storage_fault(error) from error
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if error is None:
                self._is_ending = True
                self.commit()
        finally:
            self._close()
        if isinstance(error, OSError):
            raise storage_fault(error) from error

    def _close(self) -> None:
        if self._is_begun:
            self.store.ledger.roll_back()
            self._is_begun = False
        self.store.open_transaction = None
        self.store.ledger.release()

    # Loading

    def load(self, stream: str, held: Stream | None = None) -> Any:
        """Return the state of a stream, after its record was settled; ``None`` if there is none.

        ``held`` is the stream, if a query of this transaction gave it already.
        """
        known = self._streams.get(stream)
        if known is not None:
            return known.state
        held = held or self.store.stream(stream)
        if held is None and is_workflow(stream):
            return None
        subject = self.store.subject(held) if held else self.store.blank_subject(stream)
        touched = _Touched(stream, subject.state, held.row if held else None)
        self._streams[stream] = touched
        adoption.settle(self, subject)
        if stream not in self._streams:
            return self.load(stream)
        touched.raw = subject.raw
        return touched.state

    def subject(self, stream: str) -> Subject:
        """Return the place of a loaded stream's record as the transaction has it now."""
        touched = self._streams[stream]
        return self._subject_of(touched)

    def _subject_of(self, touched: _Touched) -> Subject:
        row: Fields = {"stream": touched.stream, "seq": touched.seq, "hash": touched.hash}
        if not touched.seq and not is_workflow(touched.stream):
            return self.store.blank_subject(touched.stream)
        return self.store.subject(Stream(row, touched.state))

    def forget(self, stream: str) -> None:
        """Load the stream again when it is asked for next."""
        self._streams.pop(stream, None)

    def _settle_last(self) -> None:
        """Look for the files of the last transaction: its writer may have been killed."""
        for worktree, path, stream in self.store.ledger.unplaced():
            full = self._place_of(worktree, path, stream)
            if full is None:
                continue
            known = self.store.ledger.record(worktree, path)
            is_left = self.store.files.has_left(full)
            is_settled = not os.path.lexists(full) if known is None else _is_at(full, known)
            if not is_left and is_settled:
                self._settle_index(stream)
                continue
            if is_workflow(stream) and self.load(stream) is None:
                continue  # The ledger lost it; its record is all that is left.
            if is_left:
                self.load(stream)
                adoption.settle_left(self, stream, full)
            elif is_workflow(stream) or worktree == self.store.workspace.name:
                self.load(stream)
            if known is None and is_workflow(stream):
                self._take_away(stream, worktree, path, full)
            self._settle_index(stream)

    def _place_of(self, worktree: str, path: str, stream: str) -> str | None:
        """Return where a file of the last transaction stands; ``None`` if the list is damaged."""
        if not (is_workflow(stream) or is_log(stream)):
            return None
        try:
            return self.store.path_of(worktree, path)
        except Refused:
            return None

    def _take_away(self, stream: str, worktree: str, path: str, full: str) -> None:
        """Take away a record that its writer, killed or refused, left where it stood before."""
        state = self.load(stream)
        raw = self.store.files.read(full)
        is_empty = raw is None or raw.strip() in (b"", b"{}")
        if is_empty or (state["worktree"], formats.place(state)) == (worktree, path):
            return
        saved = self.store.files.remove(full)
        if saved is not None:
            adoption.settle_saved(self, stream, saved)

    def _settle_index(self, stream: str) -> None:
        if is_workflow(stream):
            self.store.indexes.mend()

    # Changing

    def repeat(
        self, id: str | None, *, log: str | None = None, workflow: str | None = None,
        asked: str = "",
    ) -> list[Event]:  # fmt: skip
        """Return the events that a request with this id recorded before; none for a new one."""
        if id is None:
            return []
        self.asked = asked
        events = find_repeat(self.store, id, log=log, workflow=workflow, asked=asked)
        if events:
            self.begin()
            self.store.ledger.sync()
            self.store.ledger.commit(id)
            self._is_begun = False
        return events

    def decide(self, stream: str, kind: str, args: Fields) -> list[Draft]:
        """Return the events that a command makes; raise ``Refused``."""
        touched = self._streams.get(stream)
        state = None if touched is None else touched.state
        command: Any = {"type": kind, "at": self.store.now(), "args": args}
        outcome = aggregate_of(stream).decide(state, command)
        if isinstance(outcome, Refusal):
            raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
        return outcome

    def decide_new(self, kind: str, args: Fields) -> list[Draft]:
        """Return the events that open a workflow, whatever its stream had before."""
        command: Any = {"type": kind, "at": self.store.now(), "args": args}
        outcome = aggregate_of("").decide(None, command)
        if isinstance(outcome, Refusal):
            raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
        return outcome

    def do(self, stream: str, kind: str, args: Fields, id: str | None = None) -> list[Event]:
        """Decide a command on a loaded stream, and append its events."""
        return self.append(stream, self.decide(stream, kind, args), id=id)

    def append(
        self,
        stream: str,
        drafts: list[Draft],
        *,
        id: str | None = None,
        show: bool = True,
        surface: str | None = None,
    ) -> list[Event]:
        """Add events to a stream. They are durable after ``commit``."""
        if not drafts:
            return []
        touched = self._touch(stream)
        self.begin()
        request = id or os.urandom(12).hex()
        self.request = self.request or request
        by = self.store.by if surface is None else {**self.store.by, "surface": surface}
        if id is not None and self.asked:
            by = {**by, "asked": self.asked}
        events = self.store.ledger.insert(
            drafts,
            stream=stream,
            version=touched.version,
            at=self.store.now(),
            by=by,
            request=request,
        )
        for event in events:
            touched.state = touched.aggregate.evolve(touched.state, event)
            if touched.aggregate.is_news(event, touched.state):
                self.store.has_news = True
        last = events[-1]
        touched.seq, touched.version, touched.hash = last["seq"], last["version"], last["hash"]
        touched.events += events
        touched.is_shown = touched.is_shown or show
        return events

    def take_in(self, rows: list[tuple[Any, ...]]) -> list[Event]:
        """Add events that have their places and hashes; return those that make no sense."""
        self.begin()
        streams: dict[str, _Touched] = {}
        for row in rows:
            self.store.ledger.insert_row(row)
            event = event_codec.event_of(row)
            if is_workflow(event["stream"]) or is_log(event["stream"]):
                touched = streams[event["stream"]] = self._touch(event["stream"])
                touched.seq, touched.version = event["seq"], event["version"]
                touched.hash = event["hash"]
                touched.events.append(event)
        senseless = []
        for stream, touched in streams.items():
            touched.state, odd = self._replayed(touched)
            touched.is_shown = touched.state is not None
            senseless += odd
            if touched.state is None:
                del self._streams[stream]
        self.store.has_news = True
        return senseless

    def _replayed(self, one: _Touched) -> tuple[Any, list[Event]]:
        return one.aggregate.replay(lambda: self.store.ledger.events(one.stream))

    def _touch(self, stream: str) -> _Touched:
        """Return the stream as this transaction has it; one that is new to it is not settled."""
        touched = self._streams.get(stream)
        if touched is None:
            held = self.store.ledger.stream(stream)
            touched = _Touched(stream, held.state if held else None, held.row if held else None)
            if held is None:
                # A history whose beginning is lost gives no state, and goes on all the same.
                touched.version = self.store.ledger.last_version(stream)
            self._streams[stream] = touched
        return touched

    def replace_state(self, stream: str, state: Any) -> None:
        """Record a whole state, whatever the stream's events gave before."""
        record = {"record": state["record"]} if is_workflow(stream) else {}
        self._touch(stream)
        self.append(stream, self.decide(stream, "adopt_record", {"state": state, **record}))

    def show(self, stream: str) -> None:
        """Write the stream's record anew with the next commit."""
        self._streams[stream].is_shown = True

    def settled(self, stream: str) -> bytes | None:
        """Return the bytes that stood in the record's place when the stream was settled."""
        return self._streams[stream].raw

    def expect(self, stream: str, raw: bytes | None) -> None:
        """Let the next record replace these bytes: what they say is taken care of."""
        self._streams[stream].raw = raw

    def expect_at(self, path: str, raw: bytes) -> None:
        """The same for another path than the record's: where a moved record stands."""
        self._expected[path] = raw

    def is_loaded(self, stream: str) -> bool:
        return stream in self._streams

    def state(self, stream: str) -> Any:
        return self._streams[stream].state

    @property
    def next_seq(self) -> int:
        return self.store.ledger.head_seq + 1

    def put_fact(self, name: str, value: str) -> None:
        """Keep a small fact with the next commit."""
        self.begin()
        self.store.ledger.put_fact(name, value)

    def keep_looking_for(self, worktree: str, path: str, stream: str) -> None:
        """Let the next transaction look at this file again."""
        self._left.append((worktree, path, stream))

    def begin(self, identity: str = "") -> None:
        """Begin to write, if that was not begun yet. A new ledger gets this identity."""
        if not self._is_begun:
            self.store.ledger.begin(identity)
            self._is_begun = True

    def _has_changes(self) -> bool:
        return any(one.events or one.is_shown for one in self._streams.values())

    # Committing

    def commit(self, *, is_asked: bool = False) -> None:
        """Make what was appended durable, then put the records in their places.

        ``is_asked``: it is what the caller asked for, so a record that is left behind is a fault;
        else it is a note, because what was asked for is still to come.
        """
        for _ in range(_MAX_ROUNDS):
            if not (self._is_begun or self._has_changes() or self._left):
                return
            unmarked = self._bring_back_formal()
            touched = [one for one in self._streams.values() if one.events or one.is_shown]
            try:
                saved = self._commit_once(touched, is_asked=is_asked)
            except Fault as fault:
                if fault.code != "unknown_outcome" or is_asked or self._is_ending:
                    raise
                # A retry under the id of an adoption would not carry out what was asked for.
                raise _not_carried_out(fault) from fault
            for mark in unmarked:
                self._make_mark(mark)
            is_asked = False
            for stream, path in saved:
                self._settle_saved(stream, path)
            if not saved:
                return

    def _settle_saved(self, stream: str, path: str) -> None:
        """Take in what somebody saved meanwhile.

        If that fails it is left to the next transaction: what was asked for is recorded already.
        """
        known = list(self._streams)
        try:
            adoption.settle_saved(self, stream, path)
        except (OSError, Fault) as error:
            committed = filter(None, map(self.store.ledger.stream, known))
            for held in committed:
                name = held.row["stream"]
                self._streams[name] = _Touched(name, held.state, held.row)
            self.store.note(f"what was saved meanwhile is taken in by the next change ({error})")

    def _commit_once(self, touched: list[_Touched], *, is_asked: bool) -> list[tuple[str, str]]:
        prepared: list[_Prepared] = []
        store, ledger = self.store, self.store.ledger
        self.begin()
        doubted: list[tuple[_Touched, list[Index]]] = []
        try:
            self._mark_unread(touched)
            for one in touched:
                if one.events:
                    ledger.put_stream(_row_of(one), one.state)
                    self._forget_old_record(one)
                if one.is_shown:
                    prepared += self._prepare(one)
            ledger.put_unplaced([
                *[(made.worktree, made.record, made.touched.stream) for made in prepared],
                *[(*place, one.stream) for one in touched if (place := self._old_place(one))],
                *self._left,
            ])  # fmt: skip
            doubted = [
                (one, store.indexes.doubted(one.before, one.state))
                for one in touched
                if one.events and is_workflow(one.stream)
            ]
            ledger.commit(self.request or os.urandom(12).hex())
        except BaseException as error:
            # After an unknown outcome the spare shows whoever finds the event that it was ours.
            if getattr(error, "code", "") != "unknown_outcome":
                for made in prepared:
                    store.files.drop(made.spare)
            ledger.roll_back()
            self._is_begun = False
            # Nothing of this may be committed later, whoever catches the error.
            self._streams.clear()
            raise
        self._is_begun = False
        self.request = ""
        store.settled = None
        is_open = bool(self._left)
        self._left = []
        saved = self._publish(touched, prepared, is_asked=is_asked, is_open=is_open)
        for one, stale in doubted:
            store.indexes.show(one.state, stale)
        self._unmark_unread(touched)
        for one in touched:
            one.events, one.is_shown, one.before = [], False, one.state
        return saved

    def _mark_unread(self, touched: list[_Touched]) -> None:
        """Make the mark that hooks look for, before a state that requires reading is committed."""
        if any(map(_has_unread, touched)):
            self.store.mark_unread()

    def _unmark_unread(self, touched: list[_Touched]) -> None:
        """Remove the mark when nothing is left to read. A mark too many only costs time."""
        mark = self.store.workspace.unread_mark
        if any(map(_has_unread, touched)) or not any(map(_had_unread, touched)):
            return
        try:
            if not self.store.ledger.count(f"unread IS NOT NULL AND {ACTIVE}"):
                self.store.disk.remove(mark)
        except (OSError, Fault):
            return

    def _bring_back_formal(self) -> list[str]:
        """Show every formal record of a worktree again from which the mark is gone.

        A tool cleaned it: that their records are gone does not say that they are completed.
        """
        store = self.store
        worktrees = {one.state["worktree"] for one in self._streams.values() if _is_formal(one)}
        unmarked = []
        for worktree in worktrees:
            root = store.workspace.root_of(worktree)
            mark = os.path.join(root or "", _MARK)
            if root is None or os.path.lexists(mark):
                continue
            unmarked.append(mark)
            query = f"{ACTIVE} AND worktree = ? AND format IN ({formats_with('mark')})"
            for held in list(store.ledger.states(query, worktree)):
                path = store.path_of(worktree, held.state["record"])
                known = self._streams.get(held.row["stream"])
                if known is None and path is not None and not os.path.lexists(path):
                    one = _Touched(held.row["stream"], held.state, held.row)
                    one.is_shown = True
                    self._streams[one.stream] = one
                    store.note(f"{held.state['record']} was gone and is rebuilt")
        return unmarked

    def _make_mark(self, path: str) -> None:
        """Make the mark beside formal records; without it a removed one is only rebuilt."""
        try:
            self.store.disk.make_folder(os.path.dirname(path))
            self.store.disk.create(path, b"")
        except OSError:
            return

    def _prepare(self, one: _Touched) -> list[_Prepared]:
        """Write the record beside its place, and note how it looks."""
        store = self.store
        place = one.aggregate.place(one.state, store.workspace.name)
        root = None if place is None else store.workspace.root_of(place[0])
        if place is None or root is None:
            return []
        made = _Prepared(one, *place, store.workspace.inside(root, place[1]))
        made.data = one.aggregate.render(one.state, store.ledger.identity(), one.seq, one.hash)
        if len(made.data) > LARGEST:
            raise _too_large(one.stream, len(made.data))
        try:
            made.spare, stat = self._write_beside(made, root)
        except OSError as error:
            if store.workspace.root_of(place[0]) is None:
                return []  # The worktree was moved or removed at this moment.
            raise _record_not_written(place[1], error) from error
        store.ledger.put_record(
            {
                "worktree": place[0], "path": place[1], "stream": one.stream, "seq": one.seq,
                "digest": signature.digest_in(made.data), "size": len(made.data),
                "mtime_ns": stat.st_mtime_ns, "inode": stat.st_ino, "device": stat.st_dev,
                "written_ns": time.time_ns(),
            }
        )  # fmt: skip
        return [made]

    def _write_beside(self, made: _Prepared, root: str) -> tuple[str, os.stat_result]:
        """Write a record beside its place; return the spare, and how it looks."""
        files, is_named = self.store.files, _is_formal(made.touched)
        for _ in range(MAX_TRIES):
            spare = files.prepare(made.path, made.data, root, is_named=is_named)
            try:
                return spare, os.stat(spare)
            except FileNotFoundError:
                continue  # A tool that cleans the work tree took it away.
        return spare, os.stat(spare)

    def _forget_old_record(self, one: _Touched) -> None:
        here = self.store.workspace.name
        old = None if one.before is None else one.aggregate.place(one.before, here)
        if old is not None and old != one.aggregate.place(one.state, here):
            self.store.ledger.drop_record(*old)

    def _publish(
        self, touched: list[_Touched], prepared: list[_Prepared], *, is_asked: bool, is_open: bool
    ) -> list[tuple[str, str]]:
        """Put the records in place; return the streams whose place somebody saved into.

        ``is_open``: the next transaction has to look at some files again.
        """
        saved: list[tuple[str, str]] = []
        try:
            for one in prepared:
                left = self._put(one)
                one.touched.raw = one.data
                if left is not None:
                    saved.append((one.touched.stream, left))
            for other in touched:
                left = self._leave_old_place(other)
                if left is not None:
                    saved.append((other.stream, left))
            if not (saved or is_open):
                self.store.settled = self.store.ledger.head()
        except (OSError, Fault) as error:
            seqs = [event["seq"] for one in touched for event in one.events]
            behind = _record_behind(max(seqs, default=self.store.ledger.head_seq), error)
            if is_asked:
                raise behind from error
            self.store.note(behind.message)
        return saved

    def _put(self, one: _Prepared) -> str | None:
        """Put a record in its place; return the path of what somebody saved there meanwhile."""
        files, durable = self.store.files, _is_formal(one.touched)
        expected = self._expected.pop(one.path, one.touched.raw)
        for _ in range(MAX_TRIES):
            try:
                return files.put(one.spare, one.path, expected, durable=durable)
            except FileNotFoundError:
                # A tool cleaned the work tree, and took along what was written beside the record.
                root = self.store.workspace.root_of(one.worktree)
                if root is None:
                    break
                one.spare = files.prepare(one.path, one.data, root, is_named=durable)
        return files.put(one.spare, one.path, expected, durable=durable)

    def _old_place(self, one: _Touched) -> tuple[str, str] | None:
        """Return the worktree and path that a record leaves; ``None`` if it stays."""
        if not one.is_shown or one.before is None or not is_workflow(one.stream):
            return None
        before, after = one.before, one.state
        old, new = formats.place(before), formats.place(after)
        if before is after or (old == new and before["worktree"] == after["worktree"]):
            if new == after["record"] or formats.is_archived(after["record"]):
                return None
            old = after["record"]  # It ended: a copy from before stands where it was active.
        return None if old is None or formats.is_archived(old) else (before["worktree"], old)

    def _leave_old_place(self, one: _Touched) -> str | None:
        """Take the record away from where it stood, if it moved; return what was saved there."""
        place = self._old_place(one)
        root = None if place is None else self.store.workspace.root_of(place[0])
        if place is None or root is None:
            return None
        store, after, old = self.store, one.state, place[1]
        path = store.workspace.inside(root, old)
        left = store.files.reset(path) if formats.is_reset(after) else store.files.remove(path)
        if formats.spec_of(after).has_own_folder:
            store.disk.remove_folder(os.path.join(root, os.path.dirname(old)))
        return left


def _row_of(one: _Touched) -> Fields:
    return {
        "stream": one.stream, "kind": one.aggregate.kind, "seq": one.seq, "version": one.version,
        "hash": one.hash, **one.aggregate.columns(one.state),
    }  # fmt: skip


def _has_unread(one: _Touched) -> bool:
    return is_workflow(one.stream) and is_active(one.state) and bool(unread(one.state))


def _had_unread(one: _Touched) -> bool:
    return is_workflow(one.stream) and one.before is not None and bool(unread(one.before))


def _is_formal(one: _Touched) -> bool:
    """True for the format in which a record that is gone in the last phase means completion."""
    return is_workflow(one.stream) and formats.spec_of(one.state).ends_when_removed


def _is_at(path: str, known: Fields) -> bool:
    """True if the file in this place is the one that was written."""
    try:
        stat = os.lstat(path)
    except OSError:
        return False
    return (stat.st_ino, stat.st_dev) == (known["inode"], known["device"])


_OBSERVED = ("branch", "tree", "next_title", "worktree", "record", "session", "rebind")
"""Arguments that Holdfast adds by itself, and that may differ when a request is repeated."""


def fingerprint(kind: str, args: Fields) -> str:
    """Return a digest of a request, by which a repetition is told from another request."""
    given = {name: args[name] for name in sorted(args) if name not in _OBSERVED}
    return digest(json_text.dumps([kind, given]).encode(errors="replace"))[:_FINGERPRINT_DIGITS]


def refuse_other_request(event: Event, id: str, asked: str) -> None:
    """Raise ``Refused`` if the id was given to another request than this one."""
    known = event["by"].get("asked", asked)
    if asked and known != asked:
        raise _id_is_taken(id, event)


def _id_is_taken(id: str, event: Event) -> Refused:
    message = f"the id {id} is that of another command: {event['type']}"
    return Refused("invalid", message, "give every command an id of its own")


def find_repeat(
    store: Store, id: str, *, log: str | None = None, workflow: str | None = None, asked: str = ""
) -> list[Event]:
    """Return the events of an earlier request with this id; refuse an id that is another's.

    ``log`` is the stream of the log that it is about; otherwise it is about a workflow, and about
    this one if ``workflow`` is given.
    """
    if not id.replace("-", "").isalnum() or not id.isascii() or len(id) > 64:
        raise Refused(
            "invalid", f"{id[:80]!r} is not an id", "use up to 64 letters, digits and hyphens"
        )
    events = store.ledger.find_request(id)
    if not events:
        return []
    stream = events[0]["stream"]
    is_same = is_workflow(stream) if log is None else stream == log
    if not is_same or (workflow is not None and stream != workflow):
        raise _id_is_taken(id, events[0])
    refuse_other_request(events[0], id, asked)
    store.note(f"{id} was recorded before; nothing was recorded again")
    return events


def storage_fault(error: OSError) -> Fault:
    """A call that failed before anything of the command was recorded."""
    where = f" ({error.filename})" if error.filename else ""
    return Fault(
        "storage",
        f"the system refused: {error.strerror or error}{where}",
        "make room or mend the disk, then run the same command again",
    )


def _record_not_written(place: str, error: OSError) -> Fault:
    return Fault(
        "not_written",
        f"the record {place} cannot be written ({error.strerror}): nothing was recorded",
        "make room, or make its folder writable, then run the same command again",
    )


def _not_carried_out(fault: Fault) -> Fault:
    return Fault(
        "not_written",
        f"the command was not carried out, because a change of its record came first: "
        f"{fault.message}",
        "mend the disk, then run the same command again",
    )


def _too_large(stream: str, size: int) -> Refused:
    return Refused(
        "too_large",
        f"the record of {stream} would have {size:,} bytes; {LARGEST:,} are the most: "
        "nothing was recorded",
        "holdfast start another workflow for the rest",
    )


def _record_behind(seq: int, error: OSError | Fault) -> Fault:
    why = str(error) if isinstance(error, Fault) else error.strerror or str(error)
    return Fault(
        "record_behind",
        f"recorded as event {seq}, but its record could not be put in place ({why})",
        "do not repeat the command: the next change brings the record forward",
    )
