"""The one place that opens a graph's database: made whole or not at all, shared by processes.

Writers queue at a kernel lock beside the file, as everywhere in Holdfast: SQLite's own waiting asks
again and again, and lets some wait for seconds. Readers take no lock. The journal is written ahead
(WAL) where the file system shares memory between processes, else it is SQLite's older one. Whatever
SQLite refuses becomes a ``Fault`` that names the file and the next step; a damaged file is never
deleted.
"""

from __future__ import annotations

import os
import sqlite3

from holdfast.errors import Fault, Refused
from holdfast.layers.graph import sql
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Row = tuple[object, ...]

WAIT_S = 10.0
BESIDE = ("", "-wal", "-shm", "-journal")
"""What a database consists of."""
_AT_ONCE = 500
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL)
_TOO_OLD = ("no such module", "no such tokenizer")
_NO_PLACE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class Database:
    """A connection to one file. ``durable`` is for data that nothing else can give again."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk | None = None,
        durable: bool = True,
        wait_s: float = WAIT_S,
    ) -> None:
        self.path = path
        self.is_read_only = False
        self._disk = disk or Disk()
        self._durable = durable
        self._wait_s = wait_s
        self._depth = 0
        self._lock = -1
        if os.path.islink(path):
            raise Refused(
                "outside",
                f"the graph {path} is a symbolic link; it has to be a file of its own",
                f"replace the link by the file it names: {path}",
            )
        try:
            if not os.path.exists(path):
                self._make()
            self._inode = inode_of(path)
            self._connection = self._opened()
        except sqlite3.Error as error:
            raise fault(error, path, "opened") from error

    # Opening

    def _make(self) -> None:
        """Makes the file under another name first: whoever finds it finds all of it."""
        fd = self._locked()
        try:
            if os.path.exists(self.path):
                return
            fresh = f"{self.path}.new"
            for end in BESIDE:
                self._disk.remove(fresh + end)
            # SQLite gives the files beside it the same permissions.
            self._disk.create(fresh, b"", 0o600)
            connection = sqlite3.connect(fresh, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = wal")
                connection.executescript(f"BEGIN;{sql.SCHEMA}COMMIT;")
            finally:
                connection.close()
            # A journal whose database was taken away would be played into the new one.
            _moved(self._disk, self.path, f"{self.path}.orphan")
            self._disk.move(fresh, self.path)
            self._disk.sync_folder(os.path.dirname(self.path))
        finally:
            self._disk.close(fd)

    def _opened(self) -> sqlite3.Connection:
        """For writing if possible, else for reading; the last is for a folder that is read-only."""
        for mode in ("mode=rw", "mode=ro", "immutable=1"):
            if mode == "immutable=1" and os.path.exists(f"{self.path}-wal"):
                continue
            connection = self._connected(mode)
            try:
                self._prepare(connection)
            except sqlite3.OperationalError as error:
                connection.close()
                if _primary(error) not in _NO_PLACE or mode == "immutable=1":
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self.is_read_only = mode != "mode=rw" or not os.access(self.path, os.W_OK)
                return connection
        raise Fault(
            "storage",
            f"the graph {self.path} cannot be opened: its folder is not writable, and a journal "
            "stands beside it",
            "make the folder writable, then run the same command again",
        )

    def _connected(self, mode: str) -> sqlite3.Connection:
        from urllib.parse import quote

        where = f"file:{quote(os.path.abspath(self.path))}?{mode}"
        return sqlite3.connect(where, uri=True, isolation_level=None, timeout=self._wait_s)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        one = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if one != sql.APPLICATION_ID:
            raise damaged(self.path, "it is not a graph that Holdfast made")
        if version > sql.VERSION:
            raise Fault(
                "newer_graph",
                f"a newer Holdfast wrote the graph {self.path} (version {version})",
                "install that version, or move the file away",
                path=self.path,
            )
        level = "FULL" if self._durable else "NORMAL"
        connection.execute(f"PRAGMA synchronous = {level}")
        if self._durable:
            connection.execute("PRAGMA fullfsync = ON")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal" and self._durable:
            # Without the journal ahead, the end of a transaction is the removal of a file.
            connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("SELECT 1 FROM marks LIMIT 1").fetchone()

    def close(self) -> None:
        self._connection.close()

    # Transactions

    def reading(self) -> _Reading:
        """One moment of the graph, however many questions are asked."""
        return _Reading(self)

    def writing(self) -> _Writing:
        """All of it or nothing; a transaction inside another is part of that one."""
        return _Writing(self)

    def begin(self, *, is_writing: bool) -> None:
        if self._depth:
            assert self._lock >= 0 or not is_writing, "a look cannot become a change"
            self._depth += 1
            return
        try:
            self._follow()
            if is_writing:
                self._check_writable()
                self._take_lock()
            self._connection.execute("BEGIN IMMEDIATE" if is_writing else "BEGIN")
        except sqlite3.Error as error:
            raise fault(error, self.path, "written" if is_writing else "read") from error
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
        except sqlite3.Error as trouble:
            error = error or trouble
            self._give_up()
        finally:
            self._unlock()
        if error is not None:
            self._raise(error, "written" if is_writing else "read")

    def _give_up(self) -> None:
        """Leaves a transaction that could not be ended; SQLite may have done so itself."""
        try:
            self._connection.rollback()
        except sqlite3.Error:
            return

    def _take_lock(self) -> None:
        """The writers' lock, on the file that we have open."""
        self._lock = self._locked()
        while self._inode != inode_of(self.path):
            # Another process put one in its place while we waited; making one needs the lock too.
            self._unlock()
            self._follow()
            self._lock = self._locked()

    def _locked(self) -> int:
        try:
            return self._disk.lock(f"{self.path}.lock", self._wait_s)
        except OSError as error:
            raise not_written(self.path, error.strerror or str(error)) from error

    def _follow(self) -> None:
        """Opens the file anew where another process put one in its place."""
        if self._inode != inode_of(self.path):
            fresh = Database(self.path, disk=self._disk, durable=self._durable, wait_s=self._wait_s)
            self._connection.close()
            self._connection, self._inode = fresh._connection, fresh._inode
            self.is_read_only = fresh.is_read_only

    def _check_writable(self) -> None:
        if self.is_read_only:
            raise not_written(self.path, "it is read-only")

    def _unlock(self) -> None:
        if self._lock >= 0:
            self._disk.close(self._lock)
            self._lock = -1

    def _raise(self, error: BaseException, doing: str) -> None:
        if isinstance(error, UnicodeEncodeError):
            raise Refused(
                "invalid",
                "a text of the graph has half of a surrogate pair, which is no character",
                "send the text without it",
            ) from error
        if isinstance(error, sqlite3.Error):
            raise fault(error, self.path, doing) from error
        raise error

    # Statements

    def rows(self, statement: str, values: Iterable[object] = ()) -> list[Row]:
        return self._connection.execute(statement, tuple(values)).fetchall()

    def rows_in(self, statement: str, values: list[object], *first: object) -> Iterator[Row]:
        """The rows of a statement with ``IN ({})``, for any number of values."""
        for start in range(0, len(values), _AT_ONCE):
            some = values[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            yield from self._connection.execute(statement.format(marks), (*first, *some))

    def run(self, statement: str, values: Iterable[object] = ()) -> int:
        """Carries one statement out; gives the row that it made."""
        return self._connection.execute(statement, tuple(values)).lastrowid or 0

    def run_in(self, statement: str, values: list[object]) -> None:
        for _ in self.rows_in(statement, values):
            pass

    def run_each(self, statement: str, rows: Iterable[Iterable[object]]) -> None:
        self._connection.executemany(statement, (tuple(row) for row in rows))


class InMemory(Database):
    """A graph that is nowhere but in this process, in place of one that cannot be made."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_read_only = False
        self._depth = 0
        self._lock = -1
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.executescript(f"BEGIN;{sql.SCHEMA}COMMIT;")

    def _follow(self) -> None:
        """There is no file that another process could replace."""

    def _take_lock(self) -> None:
        """There is nobody else."""


class _Reading:
    is_writing = False

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Database:
        self._database.begin(is_writing=self.is_writing)
        return self._database

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._database.end(error, is_writing=self.is_writing)


class _Writing(_Reading):
    is_writing = True


def set_aside(path: str, disk: Disk, at: str, inode: int | None = None) -> str | None:
    """Moves a damaged database out of the way, with what stands beside it; gives its new path.

    ``inode`` is the file that was found damaged: another one in its place stays, and is ``None``.
    """
    base = f"{path}.rejected-{at.replace(':', '').replace('.', '')}"
    kept, number = base, 1
    fd = disk.lock(f"{path}.lock", WAIT_S)
    try:
        if inode is not None and inode != inode_of(path):
            return None
        while os.path.lexists(kept):
            number += 1
            kept = f"{base}-{number}"
        _moved(disk, path, kept)
    finally:
        disk.close(fd)
    return kept


def _moved(disk: Disk, path: str, target: str) -> None:
    """Moves a database, or what is left of one."""
    for end in BESIDE:
        try:
            disk.move(path + end, target + end)
        except FileNotFoundError:
            continue


def damaged(path: str, why: str) -> Fault:
    return Fault(
        "graph_damaged",
        f"the graph {path} is damaged: {why}; nothing of it was changed",
        f"keep it for a look and begin anew: mv {path} {path}.damaged",
        path=path,
    )


def not_written(path: str, why: str) -> Fault:
    return Fault(
        "not_written",
        f"the graph {path} cannot be written ({why}): nothing was recorded",
        "make room, or make it and its folder writable, then run the same command again",
    )


def fault(error: sqlite3.Error, path: str, doing: str) -> Fault:
    """What SQLite refused, in the words of the house."""
    code = _primary(error)
    if code in _DAMAGED:
        return damaged(path, str(error))
    if code in _BUSY:
        return Fault(
            "busy",
            f"the graph {path} is locked by another process for too long",
            "wait for that process or end it, then run the same command again",
            path=path,
        )
    if code in _NOT_WRITABLE:
        return not_written(path, str(error))
    hint = "see to that, then run the same command again"
    if any(part in str(error) for part in _TOO_OLD):
        hint = "use a Python whose SQLite has FTS5 with trigrams: 3.34 or newer"
    return Fault("storage", f"the graph {path} cannot be {doing} ({error})", hint)


def inode_of(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _primary(error: sqlite3.Error) -> int:
    """SQLite's result code without what it adds for experts."""
    code: int = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF
