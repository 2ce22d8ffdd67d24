"""Write the records of one commit: before it beside their paths, after it into them.

A record is written beside its path first, so that a full disk is noticed before anything is
committed. After the commit it is exchanged with the old record, and what an editor saved there in
between is kept for the transaction to adopt.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt.findings import owed_note
from holdfast.core.json_text import MAX_VALUES, BadJson, check_count
from holdfast.core.record_formats import FORMATS, formats_with
from holdfast.errors import CANNOT_WRITE, DENIED, Fault, Refused
from holdfast.formats import aggregate_of, digest_in, is_workflow
from holdfast.storage.ledger import ACTIVE
from holdfast.storage.record_files import MAX_TRIES
from holdfast.system.disk import MAX_RECORD_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.adopt.findings import Location
    from holdfast.core.types import Event, Fields
    from holdfast.keeper.store import Store

_FORMAL_MARK = next(spec.mark for spec in FORMATS.values() if spec.mark)
"""An empty file beside formal records: Holdfast wrote records here. If it is gone, a tool cleaned
the work tree, and a missing record does not mean that its workflow is completed."""
_FORMAL = f"{ACTIVE} AND worktree = ? AND format IN ({formats_with('mark')})"


class LoadedStream:
    """A stream as a transaction has loaded and changed it."""

    stat: os.stat_result
    """The status of the spare file, which the record keeps."""

    def __init__(self, stream: str, state: Any, row: Fields | None) -> None:
        self.stream = stream
        self.aggregate = aggregate_of(stream)
        self.is_workflow = is_workflow(stream)
        self.before = state
        """The state that was committed last."""
        self.state = state
        self.row = row
        """The row that was committed last."""
        self.seq = row["seq"] if row else 0
        self.version = row["version"] if row else 0
        self.hash = row["hash"] if row else ""
        self.raw: bytes | None = None
        """The bytes at the record's path that the next record may replace."""
        self.location: Location | None = None
        """The record's location as it was looked up last."""
        self.address: tuple[str, str] | None = None
        """Worktree and path of the record that the next commit writes; ``None`` for no record."""
        self.old_address: tuple[str, str] | None = None
        """Worktree and path that the record leaves; ``None`` if it stays."""
        self.is_named = False
        """True if the record's name must be durable, because its absence has a meaning."""
        self.record = b""
        """The bytes of the record that the next commit writes."""
        self.spare = ""
        """The path of the spare file, beside the record's, at which those bytes are prepared."""
        self.events: list[Event] = []
        """Events that are appended and not committed yet."""
        self.is_shown = False
        """True if the next commit writes the record."""
        self.is_owed = False
        """True if the record's folder cannot be written, so that it waits until it can be."""
        self.is_imported = False
        """True if the state may leave out imported events that make no sense."""

    @property
    def ends_when_removed(self) -> bool:
        """True if removing the record in the last phase completes the workflow."""
        return self.is_workflow and formats.spec_of(self.state).ends_when_removed

    def add(self, events: list[Event]) -> None:
        """Append events that the state shows already."""
        last = events[-1]
        self.seq, self.version, self.hash = last["seq"], last["version"], last["hash"]
        self.events += events

    def renew_row(self) -> Fields:
        """Return the stream's row in the ledger after the appended events."""
        self.row = {
            "stream": self.stream, "kind": self.aggregate.kind, "seq": self.seq,
            "version": self.version, "hash": self.hash, **self.aggregate.columns(self.state),
        }  # fmt: skip
        return self.row

    def find_addresses(self, here: str) -> None:
        """Find the address of the next record, and the one that it leaves."""
        before, after = self.before, self.state
        self.address = self.aggregate.record_address(after, here)
        self.old_address = None
        self.is_named = self.ends_when_removed
        if before is None or not self.is_workflow:
            return
        old = self.aggregate.record_address(before, here)
        if old == self.address:
            if old is None or old[1] == after["record"] or formats.is_archived(after["record"]):
                return
            # It ended, and an older copy is still among the active records.
            old = before["worktree"], after["record"]
        if old is not None and not formats.is_archived(old[1]):
            self.old_address = old


class RecordWriter:
    """Writes the records of a workspace's transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._expected: dict[str, bytes] = {}

    def expect(self, path: str, raw: bytes) -> None:
        """Let the next record at ``path`` replace these bytes."""
        self._expected[path] = raw

    def prepare(self, loaded: LoadedStream) -> Location | None:
        """Write a record beside its path, and put its digest and file status into the ledger.

        Return its location; ``None`` if the stream has no record, if its worktree is gone, and if
        nobody may write there: the record is then owed. Raise ``Fault`` if it cannot be written
        for another reason, ``Refused`` if it would be too large.
        """
        store = self._store
        loaded.find_addresses(store.workspace.name)
        address = loaded.address
        if loaded.old_address is not None:
            store.ledger.drop_record(*loaded.old_address)
        loaded.is_owed = False
        if address is None:
            return None
        location = loaded.location
        if location is None or location.address != address:
            location = loaded.location = store.locate(*address)
        if location.path is None or location.root is None:
            return None
        loaded.record = loaded.aggregate.render(
            loaded.state, store.ledger.identity(), loaded.seq, loaded.hash
        )
        if len(loaded.record) > MAX_RECORD_BYTES:
            size = f"{len(loaded.record):,} bytes; the limit is {MAX_RECORD_BYTES:,}"
            raise _too_large(loaded.stream, size)
        try:
            check_count(loaded.record)
        except BadJson:
            size = f"too many values; the limit is {MAX_VALUES:,}"
            raise _too_large(loaded.stream, size) from None
        try:
            loaded.spare, loaded.stat = store.files.prepare(
                location.path, loaded.record, location.root, is_named=loaded.is_named
            )
        except OSError as error:
            if store.workspace.root_of(address[0]) is None:
                return None  # The worktree was moved or removed at this moment.
            if error.errno not in DENIED:
                raise _record_not_written(address[1], error) from error
            store.note(CANNOT_WRITE)
            store.note(owed_note(address[1]))
            store.ledger.owe_record(*address, loaded.stream, loaded.seq)
            loaded.is_owed = True
            return None
        digest = digest_in(loaded.record)
        store.ledger.put_record(*address, loaded.stream, loaded.seq, digest, loaded.stat)
        return location

    def put(self, loaded: LoadedStream, location: Location) -> list[str]:
        """Move a record to its path; return the paths of what editors saved there meanwhile."""
        files, durable, path = self._store.files, loaded.is_named, location.path or ""
        expected = self._expected.pop(path, loaded.raw)
        loaded.raw = loaded.record
        files.remember(path, loaded.hash, loaded.record)
        for _ in range(MAX_TRIES):
            try:
                return files.put(loaded.spare, path, expected, durable=durable)
            except FileNotFoundError:
                # A tool that cleans the work tree took the spare file away.
                root = self._store.workspace.root_of(location.address[0])
                if root is None:
                    break
                loaded.spare, loaded.stat = files.prepare(
                    path, loaded.record, root, is_named=durable
                )
        return files.put(loaded.spare, path, expected, durable=durable)

    def leave_old_address(self, loaded: LoadedStream) -> list[str]:
        """Remove a record that moved from its old path; return what editors saved there."""
        address = loaded.old_address
        root = None if address is None else self._store.workspace.root_of(address[0])
        if address is None or root is None:
            return []
        files, old = self._store.files, address[1]
        path = self._store.workspace.inside(root, old)
        saved = files.reset(path) if formats.is_reset(loaded.state) else files.remove(path)
        if formats.spec_of(loaded.state).has_own_folder:
            self._store.disk.remove_folder(os.path.join(root, os.path.dirname(old)))
        return saved

    def missing_formal_marks(
        self, streams: dict[str, LoadedStream]
    ) -> tuple[list[str], list[LoadedStream]]:
        """Return the missing marks, and the streams of missing formal records beside them.

        The streams are added to ``streams``, and their records are written again.
        """
        store = self._store
        missing: list[str] = []
        rebuilt: list[LoadedStream] = []
        for worktree in {
            loaded.state["worktree"] for loaded in streams.values() if loaded.ends_when_removed
        }:
            root = store.workspace.root_of(worktree)
            if root is None or os.path.lexists(os.path.join(root, _FORMAL_MARK)):
                continue
            missing.append(os.path.join(root, _FORMAL_MARK))
            for stored in list(store.ledger.states(_FORMAL, worktree)):
                path = store.path_of(worktree, stored.state["record"])
                name = stored.row["stream"]
                if name not in streams and path is not None and not os.path.lexists(path):
                    streams[name] = LoadedStream(name, stored.state, stored.row)
                    streams[name].is_shown = True
                    rebuilt.append(streams[name])
                    store.note(f"{stored.state['record']} was gone and is rebuilt")
        return missing, rebuilt

    def make_formal_mark(self, path: str) -> None:
        """Make the mark beside formal records. Without it a removed record is rebuilt."""
        try:
            self._store.disk.make_folder(os.path.dirname(path))
            self._store.disk.create(path, b"")
        except OSError:
            return


def _record_not_written(record: str, error: OSError) -> Fault:
    return Fault(
        "not_written",
        f"the record {record} cannot be written ({error.strerror}): nothing was recorded",
        "make room, or make its folder writable, then run the same command again",
    )


def _too_large(stream: str, size: str) -> Refused:
    return Refused(
        "too_large",
        f"the record of {stream} would have {size}: nothing was recorded",
        "begin another one for the rest: holdfast start RECIPE SUBJECT",
    )
