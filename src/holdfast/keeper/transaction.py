"""A transaction: every change is made in one.

    lock -> load -> decide -> append -> commit (the sync) -> put the records in place -> unlock

``load`` first settles a record file that differs from the ledger, in a commit of its own. Appended
events become durable together, with the tables made from them.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import findings
from holdfast.core import json_text
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import is_active
from holdfast.errors import CANNOT_WRITE, DENIED, Fault, Refused
from holdfast.formats import aggregate_of, is_log, is_workflow
from holdfast.keeper.record_writer import LoadedStream, RecordWriter
from holdfast.keeper.requests import find_repeat
from holdfast.storage.ledger import HUB, SHARED, read_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from holdfast.adopt.findings import Location, Subject
    from holdfast.core.types import Change, Draft, Event, Fields, SharedEvent
    from holdfast.keeper.replica import Replica
    from holdfast.keeper.session import Session
    from holdfast.storage.skill_index import Index

_NEW = ""
"""The stream of a workflow that has no id yet; it is never loaded."""
_MAX_SAVES = 4
"""The maximum number of saves by editors, made during a commit, that it adopts."""


class Transaction:
    """The workspace's lock, held, and the changes made under it."""

    def __init__(self, session: Session) -> None:
        self.store = session.store
        self._session = session
        self.request_digest = ""
        """The fingerprint of the caller's request, kept with events that have the caller's id."""
        self._writer = RecordWriter(session.store)
        self._streams: dict[str, LoadedStream] = {}
        self._is_begun = False
        self._busy_files: list[tuple[str, str, str]] = []
        """Worktree, path and stream of files that the next transaction must check again."""
        self._unchecked_files: list[tuple[str, str, str]] = []
        """Worktree, path and stream of files of the last transaction, not checked yet."""
        self._saved: list[tuple[str, str]] = []
        """Stream and path of what editors saved during commits, to be adopted one by one."""
        self._is_adopting = False
        """True while one of these saves is being adopted, in a separate commit."""
        self._request = ""
        self._is_ending = False
        """True when all events of the caller's command are appended."""
        self._placed: dict[str, os.stat_result] = {}
        """The files that were put in place, by their paths."""
        self._replica: Replica | None = None
        self._is_replica_known = False
        self._must_look_again = False
        """True if a file must be checked again, or could not be put in place."""

    def __enter__(self) -> Self:
        assert self.store.open_transaction is None, "a transaction is open already"
        store, ledger = self.store, self.store.ledger
        if store.kept is not None:
            self._session.replay_queue()
        ledger.acquire()
        try:
            store.open_transaction = self
            store.forecasts = []
            if not ledger.head_seq:
                store.workspace.prepare(store.disk, store.note)
                store.workspace.list_ledger(store.disk)
            if store.workspace.is_unnamed:
                store.workspace.take_name(store.disk, ledger.has_worktree)
            if not ledger.is_in_place():
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
                # The mark tells the next transaction that the files are in place.
                if self._must_look_again or len(self._placed) > 1:
                    self.store.ledger.clear_mark()
                elif self._placed:
                    self.store.ledger.mark_in_place(*self._placed.popitem())
        finally:
            self._close()
        if isinstance(error, OSError):
            raise storage_fault(error) from error
        self._session.spread()

    def _close(self) -> None:
        if self._is_begun:
            self.store.ledger.roll_back()
            self._is_begun = False
        self.store.open_transaction = None
        self.store.ledger.release()

    # Loading

    def load(self, stream: str) -> Any:
        """Return a stream's state after the appended events; ``None`` if there is no such workflow.

        Loading a stream for the first time settles its record.
        """
        cached = self._streams.get(stream)
        if cached is not None:
            return cached.state
        stored = self.store.stream(stream)
        if stored is None and is_workflow(stream):
            return None
        subject = self.store.subject_of(stored) if stored else self.store.blank_subject(stream)
        loaded = LoadedStream(stream, subject.state, stored.row if stored else None)
        loaded.location = subject.location
        self._streams[stream] = loaded
        finding = findings.examine(self.store, subject)
        if finding is not None:
            findings.settle(self, subject, finding)
        if stream not in self._streams:
            return self.load(stream)
        loaded.raw = subject.raw
        return loaded.state

    def subject(self, stream: str) -> Subject:
        """Return a loaded stream with its record's location and the state of this transaction."""
        loaded = self._streams[stream]
        if not loaded.seq and not loaded.is_workflow:
            return self.store.blank_subject(stream)
        return self.store.subject(stream, loaded.state, loaded.seq, loaded.hash)

    def forget(self, stream: str) -> None:
        """Make the next ``load`` read the stream again."""
        self._streams.pop(stream, None)

    def is_loaded(self, stream: str) -> bool:
        return stream in self._streams

    def _settle_last(self) -> None:
        """Put in place the files of the last transaction, whose writer may have been killed."""
        files = self.store.ledger.unplaced()
        for number, (worktree, path, stream) in enumerate(files, 1):
            self._unchecked_files = files[number:]
            full = self._path_of(worktree, path, stream)
            if full is None:
                continue
            row = self.store.ledger.record(worktree, path)
            has_unmerged_save = self.store.files.has_unmerged_save(full)
            is_in_place = not os.path.lexists(full) if row is None else _is_file(full, row)
            is_elsewhere = not is_workflow(stream) and worktree != self.store.workspace.name
            if not has_unmerged_save and (is_in_place or is_elsewhere):
                self._refresh_index(stream)
                continue
            try:
                state = self.load(stream)
            except Fault as fault:
                if fault.code != "ledger_damaged":
                    raise
                continue  # A command on this stream reports it; ``repair`` must get past it.
            if is_workflow(stream) and state is None:
                continue  # The ledger lost the workflow; its record is all that remains.
            if has_unmerged_save:
                findings.settle_unmerged(self, stream, full)
            if row is None and is_workflow(stream):
                self._remove_from_old_address(stream, worktree, path, full)
            self._refresh_index(stream)

    def _path_of(self, worktree: str, path: str, stream: str) -> str | None:
        """Return the absolute path of a listed file; ``None`` if the list is damaged."""
        if not (is_workflow(stream) or is_log(stream)):
            return None
        try:
            return self.store.path_of(worktree, path)
        except Refused:
            return None

    def _remove_from_old_address(self, stream: str, worktree: str, path: str, full: str) -> None:
        """Remove a record that a killed or refused writer left where it was before a move."""
        state = self.load(stream)
        raw = self.store.files.read(full)
        is_empty = raw is None or raw.strip() in (b"", b"{}")
        if is_empty or (state["worktree"], formats.record_path(state)) == (worktree, path):
            return
        for saved in self.store.files.remove(full):
            findings.settle_saved(self, stream, saved)

    def _refresh_index(self, stream: str) -> None:
        if is_workflow(stream):
            self.store.indexes.mend()

    # Changing

    def check_lease(self, stream: str) -> None:
        """Raise ``Refused`` (held) if the caller is an agent and another one's lease runs."""
        self._session.check_lease(self, stream)

    def repeat(
        self, id: str | None, *, log: str | None = None, workflow: str | None = None,
        request_digest: str = "",
    ) -> list[Event]:  # fmt: skip
        """Return the events that an earlier request with this id recorded, and make them durable.

        Return an empty list for a new id; raise ``Refused`` if it belongs to another request.
        """
        if id is None:
            return []
        self.request_digest = request_digest
        events = find_repeat(
            self.store, id, log=log, workflow=workflow, request_digest=request_digest
        )
        if events:
            self.begin()
            self.store.ledger.sync()
            self.store.ledger.commit(id)
            self._is_begun = False
        return events

    def decide(self, stream: str, kind: str, args: Fields) -> list[Draft]:
        """Return the events that a command makes of a stream; raise ``Refused``."""
        loaded = self._streams.get(stream)
        outcome = self._outcome(None if loaded is None else loaded.state, stream, kind, args)
        if isinstance(outcome, Refusal):
            raise outcome.error()
        return outcome

    def decide_on(self, state: Any, stream: str, kind: str, args: Fields) -> list[Draft]:
        """Return the events that a command would make of an earlier state; none if refused."""
        outcome = self._outcome(state, stream, kind, args)
        return [] if isinstance(outcome, Refusal) else outcome

    def _outcome(self, state: Any, stream: str, kind: str, args: Fields) -> list[Draft] | Refusal:
        command: Any = {"type": kind, "at": self.store.now(), "args": args}
        return aggregate_of(stream).decide(state, command)

    def decide_new(self, kind: str, args: Fields) -> list[Draft]:
        """Return the events that open a workflow, even if its stream has earlier events."""
        return self.decide(_NEW, kind, args)

    def do(self, stream: str, kind: str, args: Fields, id: str | None = None) -> list[Event]:
        """Decide a command on a loaded stream, and append its events."""
        return self.append(stream, self.decide(stream, kind, args), (kind, args), id=id)

    def append(
        self,
        stream: str,
        drafts: list[Draft],
        command: tuple[str, Fields] | SharedEvent | None,
        *,
        id: str | None = None,
        show: bool = True,
        surface: str | None = None,
    ) -> list[Event]:
        """Add events to a stream. ``commit`` makes them durable and, if ``show``, its record.

        ``command`` is what decided them, for other replicas; or the shared event that they belong
        to, or ``None`` if they concern only this ledger.
        """
        if not drafts:
            return []
        loaded = self._streams.get(stream) or self._touch(stream)
        self.begin()
        request, at = id or os.urandom(12).hex(), self.store.now()
        self._request = self._request or request
        by = self.store.by if surface is None else {**self.store.by, "surface": surface}
        if id is not None and self.request_digest:
            by = {**by, "asked": self.request_digest}
        if "TRACEPARENT" in os.environ:
            from holdfast.core.trace_parent import trace_in

            by = {**by, **trace_in(os.environ)}
        shared = command if isinstance(command, dict) else None
        if isinstance(command, tuple) and self.replica is not None and _is_shareable(stream):
            shared = self._share(self.replica, loaded, command, drafts, request, at)
        events = self.store.ledger.insert(
            drafts, stream=stream, version=loaded.version, at=at, by=by,
            request=request, of_first=None if shared is None else {SHARED: shared},
        )  # fmt: skip
        if shared is not None and self.replica is not None:
            self.replica.events.add((shared,), events[0]["seq"])
        for event in events:
            loaded.state = loaded.aggregate.evolve(loaded.state, event)
            if loaded.aggregate.is_news(event, loaded.state):
                self.store.has_news = True
        loaded.add(events)
        loaded.is_shown = loaded.is_shown or show
        return events

    @property
    def replica(self) -> Replica | None:
        """This ledger as a replica; ``None`` if it has no hub."""
        if not self._is_replica_known:
            self._is_replica_known = True
            text = self.store.ledger.fact(HUB)
            if text:
                from holdfast.keeper.replica import Replica

                self._replica = Replica(self.store, json_text.loads(text))
                self.begin()
                self._replica.begin()
        return self._replica

    def _share(
        self, replica: Replica, loaded: LoadedStream, command: tuple[str, Fields],
        drafts: list[Draft], request: str, at: str,
    ) -> SharedEvent | None:  # fmt: skip
        """Return the shared event of a command; begin to share its stream if that is not shared.

        Return ``None`` if the command concerns only this machine.
        """
        stream = loaded.stream
        travelling = replica.travelling(loaded.aggregate, loaded.state, stream, command, drafts, at)
        if travelling is None:
            return None
        if not replica.events.has(stream) and loaded.state not in (None, loaded.aggregate.blank()):
            self.publish(stream)
        return replica.stamp(stream, replica.cause(request, *travelling, at))

    def share(self, stream: str, before: Any) -> None:
        """Share what was changed since the state ``before`` by events that are no commands."""
        assert self.replica is not None
        state = self._touch(stream).state
        if not self.replica.events.has(stream):
            self.publish(stream)
        elif changes := self.replica.changes(before, state):
            self.publish(stream, changes)

    def publish(self, stream: str, changes: list[Change] | None = None) -> None:
        """Begin to share a stream as it stands; or share ``changes`` that were not shared yet."""
        assert self.replica is not None
        state = self._touch(stream).state
        drafts, shared = self.replica.published(stream, state, changes, self.store.now())
        self.append(stream, drafts, shared)

    def take_in(self, rows: list[tuple[Any, ...]]) -> list[Event]:
        """Insert events that have their places and hashes; return those that make no sense."""
        self.begin()
        streams: dict[str, LoadedStream] = {}
        for row in rows:
            self.store.ledger.insert_row(row)
            event = read_event(row)
            if is_workflow(event["stream"]) or is_log(event["stream"]):
                loaded = streams[event["stream"]] = self._touch(event["stream"])
                loaded.add([event])
        senseless = []
        for stream, loaded in streams.items():
            loaded.state, ignored = self._replay(loaded)
            loaded.is_shown = loaded.state is not None
            loaded.is_imported = True
            senseless += ignored
            if loaded.state is None:
                del self._streams[stream]
        self.store.has_news = True
        return senseless

    def _replay(self, loaded: LoadedStream) -> tuple[Any, list[Event]]:
        return loaded.aggregate.replay(lambda: self.store.ledger.events(loaded.stream))

    def _touch(self, stream: str) -> LoadedStream:
        """Return a stream of this transaction. Do not settle one that was not loaded."""
        loaded = self._streams.get(stream)
        if loaded is None:
            stored = self.store.ledger.stream(stream)
            loaded = LoadedStream(
                stream, stored.state if stored else None, stored.row if stored else None
            )
            if stored is None:
                # A history whose beginning is lost has no state, but can still be continued.
                loaded.version = self.store.ledger.last_version(stream)
            self._streams[stream] = loaded
        return loaded

    def replace_state(self, stream: str, state: Any) -> None:
        """Record a whole state, in place of the one that the stream's events give."""
        record = {"record": state["record"]} if is_workflow(stream) else {}
        self._touch(stream)
        self.do(stream, "adopt_record", {"state": state, **record})

    def show(self, stream: str) -> None:
        """Write the stream's record anew with the next commit."""
        self._streams[stream].is_shown = True

    def settled_bytes(self, stream: str) -> bytes | None:
        """Return the bytes of the record file when the stream was settled."""
        return self._streams[stream].raw

    def expect(self, stream: str, raw: bytes | None) -> None:
        """Let the stream's next record replace these bytes, which are adopted or kept elsewhere."""
        self._streams[stream].raw = raw

    def expect_at(self, path: str, raw: bytes) -> None:
        """Let the next record at ``path`` replace these bytes: a record moved there."""
        self._writer.expect(path, raw)

    @property
    def next_seq(self) -> int:
        return self.store.ledger.head_seq + 1

    def put_fact(self, name: str, value: str) -> None:
        """Store a small fact with the next commit."""
        self.begin()
        self.store.ledger.put_fact(name, value)

    def keep_looking_for(self, worktree: str, path: str, stream: str) -> None:
        """Let the next transaction check this file again."""
        if (worktree, path, stream) not in self._busy_files:
            self._busy_files.append((worktree, path, stream))
            self.begin()
        self._must_look_again = True

    def begin(self, identity: str = "") -> None:
        """Begin to write, unless already begun. A new ledger gets this identity."""
        if not self._is_begun:
            self.store.ledger.begin(identity)
            self._is_begun = True

    # Committing

    def commit(self, *, is_asked: bool = False) -> None:
        """Make the appended events durable, then put the records in place.

        ``is_asked``: this commits the caller's own command. A record that cannot be put in place is
        then a fault. In a commit before that, such as an adoption, it is a note.
        """
        adopted = 0
        while True:
            changed = [
                loaded for loaded in self._streams.values() if loaded.events or loaded.is_shown
            ]
            if changed or self._is_begun:
                missing_marks, rebuilt = self._writer.missing_formal_marks(self._streams)
                changed += rebuilt
                try:
                    self._saved += self._commit_once(changed, is_asked=is_asked)
                except Fault as fault:
                    if fault.code != "unknown_outcome" or is_asked or self._is_ending:
                        raise
                    # A retry under the id of an adoption would not carry out the caller's command.
                    raise _not_carried_out(fault) from fault
                for mark in missing_marks:
                    self._writer.make_formal_mark(mark)
                is_asked = False
            if not self._saved or self._is_adopting:
                return
            if adopted == _MAX_SAVES:
                # An editor saves again and again. The next transaction adopts the rest.
                self._saved.clear()
                self._must_look_again = True
                return
            adopted += 1
            self._is_adopting = True
            try:
                self._settle_saved(*self._saved.pop(0))
            finally:
                self._is_adopting = False

    def _settle_saved(self, stream: str, path: str) -> None:
        """Adopt what an editor saved during the commit.

        After a failure the next transaction adopts it: the caller's command is recorded already.
        """
        names = list(self._streams)
        try:
            findings.settle_saved(self, stream, path)
        except (OSError, Fault) as error:
            for stored in filter(None, map(self.store.ledger.stream, names)):
                name = stored.row["stream"]
                self._streams[name] = LoadedStream(name, stored.state, stored.row)
            self._must_look_again = True
            self.store.note(f"what was saved meanwhile is taken in by the next change ({error})")

    def _commit_once(self, changed: list[LoadedStream], *, is_asked: bool) -> list[tuple[str, str]]:
        """Commit, and put the records in place; return what editors saved there meanwhile."""
        store, ledger = self.store, self.store.ledger
        prepared: list[tuple[LoadedStream, Location]] = []
        unplaced = list(self._unchecked_files)
        dirty: list[tuple[LoadedStream, list[Index]]] = []
        was_unread = False
        self.begin()
        try:
            for loaded in changed:
                if loaded.events:
                    store.has_changes = True
                    was_unread = was_unread or bool(loaded.row and loaded.row.get("unread"))
                    row = loaded.renew_row()
                    ledger.put_stream(row, loaded.state, with_state=loaded.is_imported)
                    if loaded.is_workflow:
                        ledger.put_glance(loaded.stream, loaded.aggregate.glance(loaded.state))
                    if row.get("unread") and is_active(loaded.state):
                        store.mark_unread()
                    if loaded.is_workflow and _has_questions(loaded):
                        from holdfast.keeper import questions

                        questions.keep_asking(store, loaded.state)
                    if loaded.is_workflow:
                        doubted = store.indexes.doubted(loaded.before, loaded.state)
                        dirty.append((loaded, doubted))
                        if doubted:
                            ledger.clear_mark()
                if loaded.is_shown:
                    unplaced += self._prepare(loaded, prepared)
            while store.facts_to_keep:
                ledger.put_fact(*store.facts_to_keep.popitem())
            ledger.put_unplaced([*unplaced, *self._busy_files])
            if not self._request:
                ledger.clear_mark()
            ledger.commit(self._request or os.urandom(12).hex())
        except BaseException as error:
            # After an unknown outcome the spare file shows that the event, if it is there, is ours.
            if getattr(error, "code", "") != "unknown_outcome":
                for loaded, _ in prepared:
                    store.files.drop(loaded.spare)
            ledger.roll_back()
            self._is_begun = False
            # None of these events may be committed later, even if a caller catches the error.
            self._streams.clear()
            raise
        self._is_begun = False
        self._request = ""
        saved = self._publish(changed, prepared, is_asked=is_asked)
        for loaded, stale in dirty:
            root = loaded.location.root if loaded.location is not None else None
            if not store.indexes.show(loaded.state, stale, root):
                self._must_look_again = True
        if was_unread:
            store.unmark_unread()
        for loaded in changed:
            loaded.events, loaded.is_shown, loaded.before = [], False, loaded.state
            loaded.old_address = None
        return saved

    def _prepare(
        self, loaded: LoadedStream, prepared: list[tuple[LoadedStream, Location]]
    ) -> list[tuple[str, str, str]]:
        """Write a record beside its place; return the files that the commit leaves unplaced.

        A record that cannot be written is looked at again by every transaction until it can be.
        """
        location, address = self._writer.prepare(loaded), loaded.address
        if location is not None:
            prepared.append((loaded, location))
        elif loaded.is_owed and address is not None:
            self.keep_looking_for(*address, loaded.stream)
        addresses = [None if location is None else location.address, loaded.old_address]
        return [(*place, loaded.stream) for place in addresses if place is not None]

    def _publish(
        self,
        changed: list[LoadedStream],
        prepared: list[tuple[LoadedStream, Location]],
        *,
        is_asked: bool,
    ) -> list[tuple[str, str]]:
        """Put the records in place; return the stream and path of what editors saved there."""
        saved: list[tuple[str, str]] = []
        try:
            for loaded, location in prepared:
                saved += [(loaded.stream, path) for path in self._writer.put(loaded, location)]
                self._placed[location.path or ""] = loaded.stat
            for loaded in changed:
                if loaded.old_address is not None and not loaded.is_owed:
                    self._must_look_again = True
                    left = self._writer.leave_old_address(loaded)
                    saved += [(loaded.stream, path) for path in left]
        except (OSError, Fault) as error:
            seqs = [event["seq"] for loaded in changed for event in loaded.events]
            self._must_look_again = True
            behind = _record_behind(max(seqs, default=self.store.ledger.head_seq), error)
            if isinstance(error, OSError) and error.errno in DENIED:
                self.store.note(CANNOT_WRITE)
            elif is_asked:
                raise behind from error
            self.store.note(behind.message)
        return saved


def _is_shareable(stream: str) -> bool:
    return is_workflow(stream) or is_log(stream)


def _is_file(path: str, row: Fields) -> bool:
    """True if the file at ``path`` is the one that the ledger's row describes."""
    try:
        stat = os.lstat(path)
    except OSError:
        return False
    status = stat.st_ino, stat.st_dev, stat.st_size, stat.st_mtime_ns
    return status == (row["inode"], row["device"], row["size"], row["mtime_ns"])


def _has_questions(loaded: LoadedStream) -> bool:
    before = loaded.before
    return "questions" in loaded.state or (before is not None and "questions" in before)


def storage_fault(error: OSError) -> Fault:
    """Return the fault of a system call that failed before anything was recorded."""
    where = f" ({error.filename})" if error.filename else ""
    return Fault(
        "storage",
        f"the system refused: {error.strerror or error}{where}",
        "make room or fix the disk, then run the same command again",
    )


def _not_carried_out(fault: Fault) -> Fault:
    return Fault(
        "not_written",
        f"the command was not carried out, because a change of its record came first: "
        f"{fault.message}",
        "fix the disk, then run the same command again",
    )


def _record_behind(seq: int, error: OSError | Fault) -> Fault:
    why = str(error) if isinstance(error, Fault) else error.strerror or str(error)
    return Fault(
        "record_behind",
        f"recorded as event {seq}, but its record could not be put in place ({why})",
        "do not repeat the command: the next change brings the record forward",
    )
