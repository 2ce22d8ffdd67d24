"""Open, read and write a graph's SQLite database, shared by any number of processes.

Writers queue at a kernel lock beside the file, because SQLite polls when it waits and can starve a
writer for seconds. Readers take no lock. The journal is written ahead (WAL) where the file system
shares memory between processes; elsewhere SQLite's rollback journal is used. Every SQLite error
becomes a ``Fault`` that names the file and the next step. A damaged file is never deleted.
"""

from __future__ import annotations

import os
import sqlite3

from holdfast import errors
from holdfast.errors import Fault, Refused
from holdfast.layers.graph import sql
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Row = tuple[object, ...]

LOCK_WAIT_S = 10.0
_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Of the files that a database consists of."""
_MAX_VALUES = 500
"""How many values one statement with ``IN`` gets."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL)
_CANNOT_OPEN = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_NO_TRIGRAMS = ("no such module", "no such tokenizer")


class Database:
    """One connection to one file."""

    def __init__(self, path: str, *, disk: Disk | None = None, wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        self.is_read_only = False
        self._disk = disk or Disk()
        self._wait_s = wait_s
        self._depth = 0
        self._lock_fd = -1
        if os.path.islink(path):
            raise errors.symbolic_link("graph", path)
        try:
            if not os.path.exists(path):
                self._create()
            self._inode = inode_of(path)
            self._connection = self._open()
        except sqlite3.Error as error:
            raise _fault(error, path, "opened") from error

    # Opening

    def _create(self) -> None:
        """Create the file under another name and rename it, so that readers see all or nothing."""
        fd = self._acquire_lock()
        try:
            if os.path.exists(self.path):
                return
            fresh = f"{self.path}.new"
            for suffix in _SUFFIXES:
                self._disk.remove(fresh + suffix)
            # SQLite gives the files beside it the same permissions.
            self._disk.create(fresh, b"", 0o600)
            connection = sqlite3.connect(fresh, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = wal")
                connection.executescript(f"BEGIN;{sql.SCHEMA}COMMIT;")
            finally:
                connection.close()
            # SQLite would replay the journal of a deleted database into the new one.
            for suffix in _SUFFIXES:
                if os.path.lexists(self.path + suffix):
                    self._disk.move(self.path + suffix, f"{self.path}.orphan{suffix}")
            self._disk.move(fresh, self.path)
            self._disk.sync_folder(os.path.dirname(self.path))
        finally:
            self._disk.close(fd)

    def _open(self) -> sqlite3.Connection:
        """Open for writing if possible, else for reading; ``immutable`` for a read-only folder."""
        for mode in ("mode=rw", "mode=ro", "immutable=1"):
            if mode == "immutable=1" and os.path.exists(f"{self.path}-wal"):
                continue
            connection = self._connect(mode)
            try:
                self._prepare(connection)
            except sqlite3.OperationalError as error:
                connection.close()
                if _primary_code(error) not in _CANNOT_OPEN or mode == "immutable=1":
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self.is_read_only = mode != "mode=rw" or not os.access(self.path, os.W_OK)
                return connection
        raise Fault(
            "storage",
            f"the graph {self.path} cannot be opened: its folder is not writable and has a journal",
            "make the folder writable, then run the same command again",
        )

    def _connect(self, mode: str) -> sqlite3.Connection:
        from urllib.parse import quote

        uri = f"file:{quote(os.path.abspath(self.path))}?{mode}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=self._wait_s)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check that the file is a graph of this version, and make its commits durable."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != sql.APPLICATION_ID:
            raise errors.damaged_graph(self.path, "it is not a graph that Holdfast made")
        if version > sql.VERSION:
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

    def reading(self) -> _Transaction:
        """Return a context in which all queries see the graph as of one moment."""
        return _Transaction(self, is_writing=False)

    def writing(self) -> _Transaction:
        """Return a context that commits at its end; one inside another is part of the outer."""
        return _Transaction(self, is_writing=True)

    def begin(self, *, is_writing: bool) -> None:
        if self._depth:
            assert self._lock_fd >= 0 or not is_writing, "a reading transaction cannot write"
            self._depth += 1
            return
        try:
            self._reopen_if_replaced()
            if is_writing:
                if self.is_read_only:
                    raise _not_written(self.path, "it is read-only")
                self._lock_current_file()
            self._connection.execute("BEGIN IMMEDIATE" if is_writing else "BEGIN")
        except sqlite3.Error as error:
            raise _fault(error, self.path, "written" if is_writing else "read") from error
        else:
            self._depth = 1
        finally:
            if not self._depth:
                self._unlock()

    def end(self, error: BaseException | None, *, is_writing: bool) -> None:
        self._depth -= 1
        if self._depth:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK" if error else "COMMIT")
        except sqlite3.Error as failed:
            error = error or failed
            self._roll_back()
        finally:
            self._unlock()
        if isinstance(error, UnicodeEncodeError):
            raise Refused(
                "invalid",
                "a text of the graph has half of a surrogate pair, which is no character",
                "send the text without it",
            ) from error
        if isinstance(error, sqlite3.Error):
            raise _fault(error, self.path, "written" if is_writing else "read") from error
        if error is not None:
            raise error

    def _roll_back(self) -> None:
        """Leave a transaction that failed to end, unless SQLite has done so."""
        try:
            self._connection.rollback()
        except sqlite3.Error:
            return

    def _lock_current_file(self) -> None:
        """Take the writers' lock; open the file again if another process replaced it meanwhile."""
        self._lock_fd = self._acquire_lock()
        while self._inode != inode_of(self.path):
            # A missing file is created under the lock, so release it first.
            self._unlock()
            self._reopen_if_replaced()
            self._lock_fd = self._acquire_lock()

    def _acquire_lock(self) -> int:
        try:
            return self._disk.lock(f"{self.path}.lock", self._wait_s)
        except OSError as error:
            raise _not_written(self.path, error.strerror or str(error)) from error

    def _reopen_if_replaced(self) -> None:
        if self._inode != inode_of(self.path):
            fresh = Database(self.path, disk=self._disk, wait_s=self._wait_s)
            self._connection.close()
            self._connection, self._inode = fresh._connection, fresh._inode
            self.is_read_only = fresh.is_read_only

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            self._disk.close(self._lock_fd)
            self._lock_fd = -1

    # Statements

    def rows(self, statement: str, values: Iterable[object] = ()) -> list[Row]:
        """Return the rows of a query."""
        return self._connection.execute(statement, tuple(values)).fetchall()

    def rows_in(self, statement: str, values: list[object], *first: object) -> Iterator[Row]:
        """Yield the rows of a statement with ``IN ({})``, for any number of values."""
        for start in range(0, len(values), _MAX_VALUES):
            batch = values[start : start + _MAX_VALUES]
            marks = ",".join("?" * len(batch))
            yield from self._connection.execute(statement.format(marks), (*first, *batch))

    def run(self, statement: str, values: Iterable[object] = ()) -> int:
        """Execute one statement; return the id of the row that it inserted."""
        return self._connection.execute(statement, tuple(values)).lastrowid or 0

    def run_in(self, statement: str, values: list[object]) -> None:
        """Execute a statement with ``IN ({})``, for any number of values."""
        for _ in self.rows_in(statement, values):
            pass

    def run_each(self, statement: str, rows: Iterable[Iterable[object]]) -> None:
        """Execute one statement for each row of values."""
        self._connection.executemany(statement, (tuple(row) for row in rows))


class InMemoryDatabase(Database):
    """A database of this process alone, for a folder in which no file can be created."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_read_only = False
        self._depth = 0
        self._lock_fd = -1
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.executescript(f"BEGIN;{sql.SCHEMA}COMMIT;")

    def _reopen_if_replaced(self) -> None:
        """Do nothing: no other process can replace it."""

    def _lock_current_file(self) -> None:
        """Do nothing: no other process can write to it."""


class _Transaction:
    def __init__(self, database: Database, *, is_writing: bool) -> None:
        self._database = database
        self._is_writing = is_writing

    def __enter__(self) -> Database:
        self._database.begin(is_writing=self._is_writing)
        return self._database

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._database.end(error, is_writing=self._is_writing)


def inode_of(path: str) -> int:
    """Return the inode of a file, -1 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _not_written(path: str, why: str) -> Fault:
    remedy = "make room, or make it and its folder writable"
    return errors.not_written(f"the graph {path}", why, remedy)


def _fault(error: sqlite3.Error, path: str, doing: str) -> Fault:
    """Return the fault for an SQLite error."""
    code = _primary_code(error)
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


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's result code without its extension."""
    code: int = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF
