"""A person's own memory graph: in a database, and in the JSONL file of a Memory server.

The database is beside the file, one for each path, and is authoritative once it exists. The file is
imported in the transaction that marks it as imported. From then on a file that exists, or that the
caller asks for, is kept up to date (``jsonl_file``): a short one before a change is acknowledged, a
long one soon afterwards and when the graph is closed. Trouble with the file is noted, and fails no
call: the next one tries again.
"""

from __future__ import annotations

import os
import time

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.errors import Fault, HoldfastError, Refused, damaged_graph
from holdfast.layers.graph import jsonl
from holdfast.layers.graph.jsonl_file import JsonlFile, read_mark, version_of, write_mark
from holdfast.layers.graph.store import LOCK_WAIT_S, GraphStore, InMemoryGraph, inode_of
from holdfast.storage import shared_file
from holdfast.system.disk import Disk, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from holdfast.core.types import Fields

FILE_VARIABLE = "MEMORY_FILE_PATH"
DATABASE_SUFFIX = ".db"
_IMPORTED = "imported"
"""The mark of an import: how the file was then."""
_MAX_FILE_BYTES = 1 << 32
_READ_ATTEMPTS = 40
_READ_PAUSE_S = 0.05
_MAX_QUICK_BYTES = 1 << 18
"""A file up to this size is written before a change is acknowledged."""
_PAUSE_S = 1.0
"""A longer one is written at most once in this time, and for a fifth of the time."""
_PAUSE_FACTOR = 4


def path_of(named: str | None, folder: str) -> str:
    """Return the JSONL file: the one that the caller or the environment names, else the default."""
    path = named or os.environ.get(FILE_VARIABLE, "")
    if path:
        return os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    base = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "holdfast", "memory.jsonl")


class MemoryGraph:
    """The graph of one path. ``notes`` has what a person should know about its file."""

    def __init__(
        self,
        path: str,
        *,
        keep_file: bool = False,
        wait_s: float | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.database = path + DATABASE_SUFFIX
        self._wait_s = LOCK_WAIT_S if wait_s is None else wait_s
        self._disk = Disk()
        self._store: GraphStore | None = None
        self._inode = -1
        """The inode of the database that the file was imported into."""
        self._file_read: tuple[int, ...] = ()
        """The version of the file that is served because no database can be created."""
        lock = Lock(f"{self.database}.file-lock", self._disk)
        self._file = JsonlFile(path, lock, self._disk, self._wait_s, clock)
        self.notes = self._file.notes
        self._keeps_file = keep_file
        """True if the file is kept up to date: it was asked for, or it existed."""
        self._timer = timer
        self._due_at: float | None = None
        """When the file has to be written; ``None`` if it is up to date."""
        self._not_before = 0.0
        self._trouble = ""
        """Why the file could not be brought up to date the last time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the file if that was put off, and close the database."""
        if self._due_at is not None and self._store is not None:
            self._sync(self._store)
        self._close_store()

    def reopen(self) -> None:
        """Have the database opened again by the next call, which may find another one there."""
        self._close_store()

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def store(self) -> GraphStore:
        """Return the store; open it at the first use and after another process replaced it.

        What other programs wrote into the file is in it.
        """
        if self._store is None or self._is_outdated():
            self._close_store()
            if os.path.exists(self.path) and not os.path.isfile(self.path):
                raise Refused(
                    "in_the_way", f"{self.path} is not a file", "name another one: --file PATH"
                )
            try:
                self._store = self._open()
            except (Fault, OSError) as error:
                self._store = self._open_in_memory(error)
            self._inode = self._store.inode
        self._follow_file(self._store)
        return self._store

    def _is_outdated(self) -> bool:
        """Return True if the database was replaced, or if one can be created by now."""
        if self._inode != inode_of(self.database):
            return True
        is_in_memory = self._inode == -1
        return is_in_memory and (
            self._file_read != version_of(self.path)
            or os.access(os.path.dirname(self.path), os.W_OK)
        )

    def _open(self) -> GraphStore:
        self._disk.make_folder(os.path.dirname(self.path))
        store = GraphStore(self.database, disk=self._disk, wait_s=self._wait_s)
        try:
            if _IMPORTED not in store.marks():
                with store.writing():
                    if _IMPORTED not in store.marks():
                        self._import(store)
            if not store.is_read_only:
                if self._keeps_file or os.path.exists(self.path):
                    store.check()  # A damaged graph must not replace a good file.
                self._begin_with_file(store)
        except BaseException:
            store.close()
            raise
        return store

    def _open_in_memory(self, error: Fault | OSError) -> GraphStore:
        """Serve the file read-only, if a database cannot be created; else raise the error."""
        is_refused = isinstance(error, OSError) or error.code == "not_written"
        if not is_refused or os.path.lexists(self.database) or not os.path.exists(self.path):
            raise error
        self._file_read = version_of(self.path)
        store = InMemoryGraph(self.database)
        parsed = jsonl.parse(self._read_file() or b"")
        self.notes += jsonl.faults(self.path, parsed)
        store.replace_graph(parsed.graph)
        store.is_read_only = True
        self.notes.append(f"{self.database} cannot be created: {self.path} is served read-only")
        return store

    # The file

    def _import(self, store: GraphStore) -> None:
        """Insert what the file holds, and mark it as imported."""
        raw = self._read_file()
        parsed = jsonl.parse(raw or b"")
        if parsed.is_foreign:
            self.notes += jsonl.faults(self.path, parsed)
        elif raw is not None:
            self._file.take_in(store, raw)
        store.set_marks(**{_IMPORTED: json_text.dumps({"seen": list(version_of(self.path)[1:])})})

    def _begin_with_file(self, store: GraphStore) -> None:
        """See what became of the file while no process kept it up to date."""
        is_known = read_mark(store) is not None
        if not os.path.exists(self.path):
            if is_known and not self._keeps_file:
                store.forget_changes()
            self._due_at = 0.0 if self._keeps_file else None
            return
        if self._file.is_foreign(store):
            return
        if not is_known and self._is_as_imported(store):
            # An earlier version imported the file, and kept only the database up to date.
            raw = self._read_file() or b""
            self._copy(self.path, raw)
            write_mark(store, digest=digest(raw), behind=True)
        if self._file.is_behind(store):
            self._due_at = 0.0

    def _is_as_imported(self, store: GraphStore) -> bool:
        try:
            seen = json_text.loads(store.marks()[_IMPORTED])["seen"]
        except (ValueError, TypeError, KeyError) as error:
            raise damaged_graph(store.path, "what it says of its file cannot be read") from error
        return bool(seen) and seen == list(version_of(self.path)[1:])

    def _read_file(self) -> bytes | None:
        """Read the file while no other process writes it; raise ``Fault`` if one does not stop."""
        for _ in range(_READ_ATTEMPTS):
            before = version_of(self.path)
            raw = self._disk.read(self.path, _MAX_FILE_BYTES)
            if before == version_of(self.path) and not self._disk.is_being_written(self.path):
                return raw
            time.sleep(_READ_PAUSE_S)
        raise Fault(
            "busy",
            f"another process is writing {self.path}; it is imported when that is done",
            "wait for that process or end it, then call again",
            path=self.path,
        )

    def _follow_file(self, store: GraphStore) -> None:
        """Take in what others wrote into the file, if it is kept up to date."""
        if store.is_read_only:
            return
        self._keeps_file = self._keeps_file or os.path.exists(self.path)
        if not self._keeps_file or self._file.is_foreign(store):
            return
        if not self._file.is_current(store):
            self._due_at = 0.0
        self.do_due_work()

    def note_change(self) -> None:
        """Have the file written after a change of the graph: at once if it is short."""
        store = self._store
        if store is None or store.is_read_only or not self._keeps_file:
            return
        if not self._file.is_foreign(store):
            is_quick = self._file.size <= _MAX_QUICK_BYTES and not self._trouble
            if is_quick:
                self._sync(store)
            elif self._due_at is None:
                self._due_at = self._not_before

    def do_due_work(self) -> float | None:
        """Write the file if that is due; return the seconds until then, ``None`` if it is not."""
        if self._due_at is None or self._store is None:
            return None
        wait_s = max(self._due_at, self._not_before) - self._timer()
        if wait_s > 0:
            return wait_s
        is_done = self._sync(self._store)
        return None if is_done else max(self._not_before - self._timer(), 0.0)

    def _sync(self, store: GraphStore) -> bool:
        """Bring file and graph together, and set when that may be done again.

        Return False if that was not possible; note why.
        """
        begin = self._timer()
        try:
            self._file.sync(store)
        except (HoldfastError, OSError) as error:
            why = str(error)
            if why != self._trouble:
                self.notes.append(f"{self.path} is not up to date: {why}")
            self._trouble = why
            self._due_at = begin
        else:
            self._trouble = ""
            self._due_at = None
        end = self._timer()
        is_quick = self._file.size <= _MAX_QUICK_BYTES and not self._trouble
        self._not_before = 0.0 if is_quick else end + max(_PAUSE_S, _PAUSE_FACTOR * (end - begin))
        return not self._trouble

    # Export

    def export(self, target: str | None = None) -> Fields:
        """Write the graph as JSONL; keep a copy of what another file held before."""
        store = self.store()
        path = os.path.realpath(target or self.path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise Refused("in_the_way", f"{path} is not a file", "name another one")
        graph = store.read_graph()
        raw = jsonl.render(graph)
        copies: list[str] = []
        if path == self.path and not store.is_read_only:
            self._keeps_file = True
            self._file.sync(store)
        else:

            def replace(current: bytes | None) -> bytes:
                if current is not None and current != raw:
                    copies.append(self._copy(path, current))
                return raw

            shared_file.clear_spares(self._disk, path, raw.__eq__)
            # Every content that is replaced is copied, so nothing can be left to note.
            shared_file.settle(self._disk, path, replace, lambda _note: None)
        return {
            "path": path,
            "kept": copies[-1] if copies else None,
            "entities": len(graph["entities"]),
            "relations": len(graph["relations"]),
        }

    def _copy(self, path: str, raw: bytes) -> str:
        """Keep a copy of a file's content beside it; return its path."""
        copy = f"{path}.before-{digest(raw)[:12]}"
        if not os.path.lexists(copy):
            self._disk.create(copy, raw, 0o600, durable=True)
        return copy
