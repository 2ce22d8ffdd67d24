"""Open, read and write a graph's SQLite database, shared by any number of processes.

Writers queue at a kernel lock beside the file, because SQLite polls when it waits and can starve a
writer for seconds. Readers take no lock. The journal is written ahead (WAL) where the file system
shares memory between processes; elsewhere SQLite's rollback journal is used. Every SQLite error
becomes a ``Fault`` that names the file and the next step. A damaged file is never deleted.
"""

from __future__ import annotations

import _sqlite3
import os
from contextlib import contextmanager, suppress

from holdfast import errors
from holdfast.errors import Fault, Refused
from holdfast.storage.database import result_code, uri_path
from holdfast.system.disk import Disk, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from sqlite3 import Connection
    from typing import Any, Self

APPLICATION_ID = 0x48464752
VERSION = 1
SCHEMA = f"""
CREATE TABLE entities (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  name_folded TEXT,
  type_folded TEXT
);
CREATE INDEX entities_by_name ON entities (name);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY,
  entity INTEGER NOT NULL REFERENCES entities (id),
  text TEXT NOT NULL,
  folded TEXT
);
CREATE INDEX observations_by_entity ON observations (entity);
CREATE TABLE relations (
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  target TEXT NOT NULL,
  type TEXT NOT NULL
);
CREATE INDEX relations_by_source ON relations (source);
CREATE INDEX relations_by_target ON relations (target);
CREATE TABLE marks (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
  folded, content='', columnsize=0, tokenize='trigram case_sensitive 1'
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""
"""Names are not unique, because the reference server accepts one name twice in a call. ``id`` is
the order of insertion, which is the order of every answer. A ``*_folded`` column has the text as it
is searched, if that differs from the text: what was put into the index is removed with the same
bytes, even if a later interpreter folds letters differently.

``words`` is an index only and holds no text. Its rows are ``2 * entity`` for name and type, and
``2 * observation + 1`` for an observation.
"""
LOCK_WAIT_S = 10.0
_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Of the files that a database consists of."""
_MAX_VALUES = 500
"""Of one statement with ``IN``."""
_DAMAGED = (_sqlite3.SQLITE_CORRUPT, _sqlite3.SQLITE_NOTADB, _sqlite3.SQLITE_FORMAT)
_BUSY = (_sqlite3.SQLITE_BUSY, _sqlite3.SQLITE_LOCKED)
_NOT_WRITABLE = (_sqlite3.SQLITE_READONLY, _sqlite3.SQLITE_PERM, _sqlite3.SQLITE_FULL)
_CANNOT_OPEN = (_sqlite3.SQLITE_CANTOPEN, _sqlite3.SQLITE_READONLY)
_NO_TRIGRAMS = ("no such module", "no such tokenizer")


class GraphDatabase:
    """One connection to one file."""

    _connection: Connection
    _inode: int
    is_read_only = False

    def __init__(self, path: str, *, disk: Disk | None = None, wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        self._disk = disk or Disk()
        self._wait_s = wait_s
        self._lock = Lock(f"{path}.lock", self._disk)
        self._open()

    # Opening

    def _open(self) -> None:
        """Open the file that has the path now; create one if there is none."""
        if os.path.islink(self.path):
            raise errors.symbolic_link("graph", self.path)
        try:
            if not os.path.exists(self.path):
                self._create()
            inode = inode_of(self.path)
            self._connection = self._connect()
            self._inode = inode
        except _sqlite3.Error as error:
            raise _fault(error, self.path, "opened") from error

    def _create(self) -> None:
        """Create the file under another name and rename it, so that readers see all or nothing."""
        self._acquire_lock()
        try:
            if os.path.exists(self.path):
                return
            fresh = f"{self.path}.new"
            for suffix in _SUFFIXES:
                self._disk.remove(fresh + suffix)
            # SQLite gives the files beside it the same permissions.
            self._disk.create(fresh, b"", 0o600)
            connection = _sqlite3.connect(fresh, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = wal")
                connection.executescript(f"BEGIN;{SCHEMA}COMMIT;")
            finally:
                connection.close()
            # SQLite would replay the journal of a deleted database into the new one.
            for suffix in _SUFFIXES:
                if os.path.lexists(self.path + suffix):
                    self._disk.move(self.path + suffix, f"{self.path}.orphan{suffix}")
            self._disk.move(fresh, self.path)
            self._disk.sync_folder(os.path.dirname(self.path))
        finally:
            self._lock.release()

    def _connect(self) -> Connection:
        """Open for writing if possible, else for reading; ``immutable`` for a read-only folder."""
        for mode in ("mode=rw", "mode=ro", "immutable=1"):
            if mode == "immutable=1" and os.path.exists(f"{self.path}-wal"):
                continue
            uri = f"file:{uri_path(os.path.abspath(self.path))}?{mode}"
            connection = _sqlite3.connect(uri, uri=True, isolation_level=None, timeout=self._wait_s)
            try:
                self._prepare(connection)
            except BaseException as error:
                connection.close()
                can_retry = (
                    isinstance(error, _sqlite3.OperationalError)
                    and result_code(error) in _CANNOT_OPEN
                    and mode != "immutable=1"
                )
                if not can_retry:
                    raise
            else:
                self.is_read_only = mode != "mode=rw" or not os.access(self.path, os.W_OK)
                return connection
        raise Fault(
            "storage",
            f"the graph {self.path} cannot be opened: its folder is not writable and has a journal",
            "make the folder writable, then run the same command again",
        )

    def _prepare(self, connection: Connection) -> None:
        """Check that the file is a graph of this version, and make its commits durable."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise errors.damaged_graph(self.path, "it is not a graph that Holdfast made")
        if version > VERSION:
            raise Fault(
                "newer_graph",
                f"a newer Holdfast wrote the graph {self.path} (version {version})",
                "install that version, or move the file away",
                path=self.path,
            )
        is_wal = connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        # With a rollback journal a transaction ends when a file is removed: sync the folder too.
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_wal else 'EXTRA'}")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("SELECT 1 FROM marks LIMIT 1").fetchone()

    def close(self) -> None:
        self._connection.close()

    # Transactions

    def reading(self) -> AbstractContextManager[Self]:
        """Return a context in which all queries see the graph as of one moment."""
        return self._transaction("BEGIN", "read")

    def writing(self) -> AbstractContextManager[Self]:
        """Return a context that commits at its end; one inside another is part of the outer."""
        return self._transaction("BEGIN IMMEDIATE", "written")

    @contextmanager
    def _transaction(self, begin: str, doing: str) -> Iterator[Self]:
        is_writing = doing == "written"
        if self._connection.in_transaction:
            assert self._lock.is_held or not is_writing, "a reading transaction cannot write"
            yield self
            return
        try:
            self._reopen_if_replaced()
            if is_writing:
                self._lock_current_file()
            self._connection.execute(begin)
            yield self
            self._connection.execute("COMMIT")
        except _sqlite3.Error as error:
            raise _fault(error, self.path, doing) from error
        except UnicodeEncodeError as error:
            raise Refused(
                "invalid",
                "a text of the graph has half of a surrogate pair, which is no character",
                "send the text without it",
            ) from error
        finally:
            with suppress(_sqlite3.Error):
                self._connection.rollback()  # does nothing after a commit
            self._lock.release()

    def _lock_current_file(self) -> None:
        """Take the writers' lock; open the file again if another process replaced it meanwhile."""
        if self.is_read_only:
            raise _not_written(self.path, "it is read-only")
        self._acquire_lock()
        while self._is_replaced():
            # A missing file is created under the lock, so release it first.
            self._lock.release()
            self._reopen_if_replaced()
            self._acquire_lock()

    def _acquire_lock(self) -> None:
        try:
            self._lock.acquire(self._wait_s)
        except OSError as error:
            raise _not_written(self.path, error.strerror or str(error)) from error

    def _reopen_if_replaced(self) -> None:
        if self._is_replaced():
            old = self._connection
            self._open()
            old.close()

    def _is_replaced(self) -> bool:
        """Return True if another process replaced or removed the file that is open."""
        return self._inode != inode_of(self.path)

    # Statements

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        return self._connection.execute(statement, tuple(values)).fetchall()

    def insert(self, statement: str, values: Iterable[Any]) -> int:
        """Insert a row; return its id."""
        return self._connection.execute(statement, tuple(values)).lastrowid or 0

    def run_each(self, statement: str, rows: Iterable[Iterable[Any]]) -> None:
        """Execute one statement for each row of values."""
        self._connection.executemany(statement, (tuple(row) for row in rows))

    def run_in(self, statement: str, values: Iterable[Any], *first: Any) -> list[Any]:
        """Execute a statement with ``IN ({})`` for any number of values; return its rows.

        ``first`` are the values that precede them in the statement.
        """
        unique = list(dict.fromkeys(values))
        rows: list[Any] = []
        for start in range(0, len(unique), _MAX_VALUES):
            batch = unique[start : start + _MAX_VALUES]
            marks = ",".join("?" * len(batch))
            rows += self._connection.execute(statement.format(marks), (*first, *batch))
        return rows


class InMemoryDatabase(GraphDatabase):
    """A database of this process alone, for a folder in which no file can be created."""

    def _open(self) -> None:
        self._connection = _sqlite3.connect(":memory:", isolation_level=None)
        self._connection.executescript(f"BEGIN;{SCHEMA}COMMIT;")

    def _is_replaced(self) -> bool:
        return False

    def _acquire_lock(self) -> None:
        """Do nothing: no other process can write to it."""


def inode_of(path: str) -> int:
    """Return the inode of a file, -1 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _not_written(path: str, why: str) -> Fault:
    remedy = "make room, or make it and its folder writable"
    return errors.not_written(f"the graph {path}", why, remedy)


def _fault(error: _sqlite3.Error, path: str, doing: str) -> Fault:
    """Return the fault for an SQLite error."""
    code = result_code(error)
    if code in _DAMAGED:
        return errors.damaged_graph(path, str(error))
    if code in _BUSY:
        return errors.busy(f"the graph {path}", path)
    if code in _NOT_WRITABLE:
        return _not_written(path, str(error))
    hint = "see to that, then run the same command again"
    if any(part in str(error) for part in _NO_TRIGRAMS):
        hint = "use a Python whose SQLite has FTS5 with trigrams: 3.34 or newer"
    return Fault("storage", f"the graph {path} cannot be {doing} ({error})", hint)
