"""Write the records of one commit: before it beside their places, after it into them.

A record is written beside its place first, so that a full disk is noticed before anything is
committed. After the commit it is exchanged with the old record, and what an editor saved there in
between is kept for the transaction to adopt.
"""

from __future__ import annotations

import os
import time

from holdfast import formats
from holdfast.errors import Fault, Refused
from holdfast.formats import aggregate_of, is_workflow, signature
from holdfast.storage.record_files import MAX_TRIES
from holdfast.system.disk import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Event, Fields
    from holdfast.keeper.store import Store


class LoadedStream:
    """A stream as a transaction has loaded and changed it."""

    def __init__(self, stream: str, state: Any, row: Fields | None) -> None:
        self.stream = stream
        self.aggregate = aggregate_of(stream)
        self.is_workflow = is_workflow(stream)
        self.before = state
        """The state that was committed last."""
        self.state = state
        self.seq = row["seq"] if row else 0
        self.version = row["version"] if row else 0
        self.hash = row["hash"] if row else ""
        self.raw: bytes | None = None
        """The bytes in the record's place that the next record may replace."""
        self.events: list[Event] = []
        """Events that are appended and not committed yet."""
        self.is_shown = False
        """True if the next commit writes the record."""

    @property
    def has_changes(self) -> bool:
        return bool(self.events) or self.is_shown

    @property
    def ends_when_removed(self) -> bool:
        """True if removing the record in the last phase completes the workflow."""
        return self.is_workflow and formats.spec_of(self.state).ends_when_removed

    def row(self) -> Fields:
        """Return the stream's row in the ledger."""
        return {
            "stream": self.stream, "kind": self.aggregate.kind, "seq": self.seq,
            "version": self.version, "hash": self.hash, **self.aggregate.columns(self.state),
        }  # fmt: skip

    def old_place(self) -> tuple[str, str] | None:
        """Return the worktree and path that the record leaves; ``None`` if it stays."""
        if not self.is_shown or self.before is None or not self.is_workflow:
            return None
        before, after = self.before, self.state
        old, new = formats.place(before), formats.place(after)
        if before is after or (old == new and before["worktree"] == after["worktree"]):
            if new == after["record"] or formats.is_archived(after["record"]):
                return None
            old = after["record"]  # It ended: a copy from before is still among the active ones.
        return None if old is None or formats.is_archived(old) else (before["worktree"], old)


class PreparedRecord:
    """A record that is written beside its place."""

    def __init__(self, loaded: LoadedStream, worktree: str, record: str, path: str) -> None:
        self.loaded = loaded
        self.worktree = worktree
        self.record = record
        self.path = path
        self.spare = ""
        self.data = b""


class RecordWriter:
    """Writes the records of a workspace's transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._expected: dict[str, bytes] = {}

    def expect(self, path: str, raw: bytes) -> None:
        """Let the next record at ``path`` replace these bytes."""
        self._expected[path] = raw

    def prepare(self, loaded: LoadedStream) -> PreparedRecord | None:
        """Write a record beside its place, and note in the ledger how it looks.

        Return ``None`` if the stream has no record, or its worktree is gone. Raise ``Fault`` if the
        record cannot be written, ``Refused`` if it would be too large.
        """
        store = self._store
        place = loaded.aggregate.place(loaded.state, store.workspace.name)
        root = None if place is None else store.workspace.root_of(place[0])
        if place is None or root is None:
            return None
        prepared = PreparedRecord(loaded, *place, store.workspace.inside(root, place[1]))
        prepared.data = loaded.aggregate.render(
            loaded.state, store.ledger.identity(), loaded.seq, loaded.hash
        )
        if len(prepared.data) > LARGEST:
            raise _too_large(loaded.stream, len(prepared.data))
        try:
            stat = self._write_beside(prepared, root)
        except OSError as error:
            if store.workspace.root_of(place[0]) is None:
                return None  # The worktree was moved or removed at this moment.
            raise _record_not_written(place[1], error) from error
        store.ledger.put_record(
            {
                "worktree": place[0], "path": place[1], "stream": loaded.stream, "seq": loaded.seq,
                "digest": signature.digest_in(prepared.data), "size": len(prepared.data),
                "mtime_ns": stat.st_mtime_ns, "inode": stat.st_ino, "device": stat.st_dev,
                "written_ns": time.time_ns(),
            }
        )  # fmt: skip
        return prepared

    def _write_beside(self, prepared: PreparedRecord, root: str) -> os.stat_result:
        """Write the spare file again as long as a tool that cleans the work tree takes it away."""
        is_named = prepared.loaded.ends_when_removed
        for _ in range(MAX_TRIES):
            prepared.spare = self._store.files.prepare(
                prepared.path, prepared.data, root, is_named=is_named
            )
            try:
                return os.stat(prepared.spare)
            except FileNotFoundError:
                continue
        return os.stat(prepared.spare)

    def put(self, prepared: PreparedRecord) -> str | None:
        """Put a record in its place; return the path of what an editor saved there meanwhile."""
        files, durable = self._store.files, prepared.loaded.ends_when_removed
        expected = self._expected.pop(prepared.path, prepared.loaded.raw)
        for _ in range(MAX_TRIES):
            try:
                return files.put(prepared.spare, prepared.path, expected, durable=durable)
            except FileNotFoundError:
                # A tool that cleans the work tree took the spare file away.
                root = self._store.workspace.root_of(prepared.worktree)
                if root is None:
                    break
                prepared.spare = files.prepare(prepared.path, prepared.data, root, is_named=durable)
        return files.put(prepared.spare, prepared.path, expected, durable=durable)

    def leave_old_place(self, loaded: LoadedStream) -> str | None:
        """Remove a record that moved from its old place; return what an editor saved there."""
        place = loaded.old_place()
        root = None if place is None else self._store.workspace.root_of(place[0])
        if place is None or root is None:
            return None
        files, old = self._store.files, place[1]
        path = self._store.workspace.inside(root, old)
        saved = files.reset(path) if formats.is_reset(loaded.state) else files.remove(path)
        if formats.spec_of(loaded.state).has_own_folder:
            self._store.disk.remove_folder(os.path.join(root, os.path.dirname(old)))
        return saved

    def forget_old_place(self, loaded: LoadedStream) -> None:
        """Drop the ledger's row of a record that moves elsewhere."""
        here = self._store.workspace.name
        old = None if loaded.before is None else loaded.aggregate.place(loaded.before, here)
        if old is not None and old != loaded.aggregate.place(loaded.state, here):
            self._store.ledger.drop_record(*old)


def _record_not_written(record: str, error: OSError) -> Fault:
    return Fault(
        "not_written",
        f"the record {record} cannot be written ({error.strerror}): nothing was recorded",
        "make room, or make its folder writable, then run the same command again",
    )


def _too_large(stream: str, size: int) -> Refused:
    return Refused(
        "too_large",
        f"the record of {stream} would have {size:,} bytes; {LARGEST:,} are the most: "
        "nothing was recorded",
        "holdfast start another workflow for the rest",
    )
