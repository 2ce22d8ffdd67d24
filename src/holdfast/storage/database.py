"""Open, read and write the ledger's database. Nothing else opens ``ledger.db``.

These rules make a committed event safe, and each has a test that fails without it
(``tests/storage/test_opening.py``):

- Writers queue at a kernel lock on a file of its own. The writer that gets the lock compares lock
  and database with their paths, and opens them again if another process replaced them: commits to a
  deleted file could never be read.
- The database is made under another name, whole, and then renamed.
- The journal is written ahead (WAL) and synced at every commit. Checkpoints run only under the
  lock, because one that races a writer can lose commits (SQLite 3.7.0 to 3.51.2).
- A process that ends by ``os._exit`` leaves ``-wal`` and ``-shm`` in place, so that a sandbox
  that cannot write there can still read. Where they are missing, such a reader uses a copy.
- Readers open the file read-only, take no lock, and never wait for a writer. Only an older schema
  makes a reader take the lock, once, to bring it up to date.
- A ``COMMIT`` that fails may have happened: the ``Fault`` reports an unknown outcome.
- Where memory cannot be shared between processes, SQLite's older journal is used. A network file
  system is refused: its locks cannot be trusted.
"""

from __future__ import annotations

import _sqlite3
import os
from errno import EDQUOT, EIO, ENOENT, ENOSPC, ENOTDIR
from stat import S_ISLNK, S_ISREG

from holdfast import errors
from holdfast.errors import Fault, not_writable
from holdfast.system.disk import Lock
from holdfast.workspace.location import RECOVERED, names_in, sign_ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sqlite3 import Connection, Cursor
    from typing import Any

    from holdfast.system.disk import Disk

    Files = tuple[tuple[int, int] | None, ...]

NAME = "ledger.db"
APPLICATION_ID = 0x484F4C44
MIGRATIONS = ("sharing.sql",)
"""Files with statements that bring a ledger to the next schema: the first makes version 2."""
SCHEMA_VERSION = 1 + len(MIGRATIONS)
"""The version of a new ledger: ``schema.sql`` is version 1."""
ARCHIVES = "archives"
"""The folder of archives, in the ledger's folder."""
PAGE_BYTES = 4096
_MAX_JOURNAL_PAGES = 500
BESIDE = ("-wal", "-shm", "-journal")
_CONSTANT = ((0, 18), (20, 24), (44, 60), (64, 92))
"""The parts of SQLite's header that are the same in every ledger."""
_JOURNAL_KINDS = (b"\1\1", b"\2\2")
_JOURNAL_KIND = 18
"""The offset in SQLite's header of the kind of journal: the older one, or WAL."""
_PAGE_COUNT = 28
"""The offset in SQLite's header of the number of pages."""
_MAX_COPIED_BYTES = 64 * 1024 * 1024
_PLAIN = ".claude"
"""The folder above the ledger's folder outside git; it is made with it."""
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "fuse.sshfs", "fuse.glusterfs")
_DAMAGED = (
    _sqlite3.SQLITE_ERROR,  # No such column: the schema is damaged.
    _sqlite3.SQLITE_CORRUPT,
    _sqlite3.SQLITE_CONSTRAINT,  # A row is older than its events.
    _sqlite3.SQLITE_NOTADB,
)
_BUSY = (_sqlite3.SQLITE_BUSY, _sqlite3.SQLITE_LOCKED)
_READ_ONLY = (_sqlite3.SQLITE_PERM, _sqlite3.SQLITE_READONLY, _sqlite3.SQLITE_CANTOPEN)
_NO_SHARED_MEMORY = (
    _sqlite3.SQLITE_IOERR_SHMOPEN,
    _sqlite3.SQLITE_IOERR_SHMSIZE,
    _sqlite3.SQLITE_IOERR_SHMMAP,
)
"""Extended codes of a reader that finds no room, or no right, for the shared memory."""
_FULL = _sqlite3.SQLITE_FULL

Error = (_sqlite3.Error, UnicodeDecodeError)
"""The errors of SQLite; the second one if its message quotes damaged text."""


class Database:
    """One process's connection to the ledger of one repository."""

    def __init__(
        self, folder: str, disk: Disk, wait_s: float, belongs_here: Callable[[], bool]
    ) -> None:
        self.folder = folder
        self.path = os.path.join(folder, NAME)
        self._disk = disk
        self._wait_s = wait_s
        self._belongs_here = belongs_here
        """Returns False if the ledger belongs elsewhere by now. Then none is made here."""
        self.lock = Lock(os.path.join(folder, "lock"), disk)
        self._connection: Connection | None = None
        self._is_writable = False
        self.files: Files = ()
        """Device and inode of the database that is open, of its journal and its shared memory.

        A tool may remove each of them alone.
        """
        self._was_open = False
        self._owner = 0

    # Reading

    def rows(self, statement: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, without taking a lock; no rows if there is no ledger yet."""
        connection = (self.lock.is_held and self._connection) or self._for_reading()
        if connection is None:
            return
        try:
            yield from connection.execute(statement, values)
        except Error as error:
            raise self._fault(error) from error

    def row(self, statement: str, values: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query; ``None`` if there is no row, or no ledger yet."""
        return next(self.rows(statement, values), None)

    def reading(self) -> Reading:
        """Return a context in which every query sees the same commit."""
        connection = self._for_reading()
        if connection is not None and not connection.in_transaction:
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        return Reading(self)

    def _for_reading(self) -> Connection | None:
        connection = self._connection
        if connection is not None and (connection.in_transaction or self._is_current()):
            return connection
        self._forget()
        files = self._files_found()
        if files[0] is None:
            if self._was_open and not os.path.isdir(os.path.dirname(self.folder)):
                raise moved(self.folder)
            if not os.access(self.folder, os.X_OK) and os.path.isdir(self.folder):
                raise _storage(self.path, "permission denied")
            if os.path.lexists(self.folder) and not os.path.isdir(self.folder):
                raise _storage(self.folder, "it is not a folder")
            return None
        self.files = files
        connection = self._open_to_read()
        self.files = self._files_found()
        if self.files[0] != files[0]:
            return self._for_reading()  # SQLite opens the journal by its name, a moment later.
        self._connection = connection
        return connection

    def _open_to_read(self) -> Connection:
        connection = self._connect("ro")
        try:
            version = self._check_identity(connection)
        except Error as error:
            extended = getattr(error, "sqlite_errorcode", None)
            if result_code(error) not in _READ_ONLY and extended not in _NO_SHARED_MEMORY:
                raise self._fault(error) from error
            return self._open_copy()
        if version >= SCHEMA_VERSION:
            return connection
        connection.close()
        self.acquire()  # Writers bring the schema up to date.
        self.release()
        assert self._connection is not None
        return self._connection

    def _open_copy(self) -> Connection:
        """Copy the database to a temporary folder, for a reader that cannot share its memory."""
        import shutil
        import tempfile

        folder = tempfile.mkdtemp(prefix="holdfast-")
        try:
            for end in ("", "-wal"):
                if os.path.exists(self.path + end):
                    shutil.copyfile(self.path + end, os.path.join(folder, NAME) + end)
            connection = _sqlite3.connect(os.path.join(folder, NAME), isolation_level=None)
            self._check_identity(connection)
        except (OSError, *Error) as error:
            raise self._fault(error) from error
        finally:
            # The open connection keeps the files until it ends.
            shutil.rmtree(folder, ignore_errors=True)
        return connection

    # Writing

    def acquire(self) -> None:
        """Take the lock, open the database or create it, and begin a transaction.

        Raise ``Fault`` when the lock is held for longer than the wait.
        """
        self.acquire_lock()
        try:
            connection = self._for_writing()
            self.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                # Another process brought a newer schema while this connection was open.
                self.roll_back()
                self._forget()
                self._for_writing()
                self.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self.release()
            if isinstance(error, OSError):
                raise self._not_writable(error) from error
            raise

    def acquire_lock(self) -> None:
        """Take the lock alone, for a repair of a database that may not open."""
        if self._connection is None:
            refuse_network(self.folder)
            if not (os.path.exists(self.path) or self._belongs_here()):
                raise moved(self.folder)
        try:
            try:
                self.lock.acquire(self._wait_s)
            except (FileNotFoundError, NotADirectoryError):
                self._make_folder()
                self.lock.acquire(self._wait_s)
            finish_recovery(self.path, self._disk)
        except OSError as error:
            self.release()
            raise self._not_writable(error) from error

    def begin(self) -> None:
        """Begin a transaction under the lock that is held, unless one is open.

        Raise ``Fault`` if the database was moved or replaced since, because what was read from it
        is not true of another one.
        """
        assert self._connection is not None
        if not self._connection.in_transaction:
            if not self._is_current():
                raise moved(self.folder)
            self.execute("BEGIN IMMEDIATE")

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> Cursor:
        """Run a statement of the open transaction."""
        assert self._connection is not None
        try:
            return self._connection.execute(statement, values)
        except Error as error:
            raise self._fault(error) from error

    def commit(self, request: str) -> None:
        """Make the transaction durable. ``request`` is the id to retry an unknown outcome with."""
        assert self._connection is not None
        try:
            self._connection.execute("COMMIT")
        except Error as error:
            self.roll_back()
            self._write_over_failed_commit()
            raise _unknown_outcome(self.path, str(error), request) from error
        if not self._is_current():
            raise _unknown_outcome(self.path, "it was moved or removed meanwhile", request)

    def _write_over_failed_commit(self) -> None:
        """Overwrite the transaction in the journal, if the disk allows it.

        The next process that opens the ledger would take it for committed. But a failed sync may
        not have written it, and later syncs do not try again: a power cut would remove it.
        """
        try:
            if self._connection is not None:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                self._connection.execute("COMMIT")
        except Error:
            self.roll_back()

    def checkpoint(self) -> None:
        """Move the journal into the database. A failure is left to the next checkpoint.

        Each process starts without knowing how much of the journal was moved, so the journal could
        grow forever. A large journal is therefore emptied, unless a reader needs it.
        """
        assert self._connection is not None
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if os.path.getsize(f"{self.path}-wal") > _MAX_JOURNAL_PAGES * PAGE_BYTES:
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._connection.execute(f"PRAGMA busy_timeout = {int(self._wait_s * 1_000)}")
        except (OSError, *Error):
            return

    def close(self) -> None:
        """Move the whole journal into the database and close it, before the file is moved.

        Raise ``Fault`` if a reader keeps the journal in use: what is only there would be lost.
        """
        assert self._connection is not None
        self.roll_back()
        try:
            checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
            _, frames, moved_frames = self._connection.execute(checkpoint).fetchone()
            if frames != moved_frames:
                raise errors.busy(f"the ledger {self.path}", self.path)
            self._connection.close()
        except Error as error:
            raise self._fault(error) from error
        self._forget()

    def release(self) -> None:
        """Release the lock; roll back what was not committed."""
        if self.lock.is_held:
            self.roll_back()
            self.lock.release()

    def roll_back(self) -> None:
        """Roll back the open transaction."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except Error:
                # The connection is of no use any more; the next transaction opens another.
                self._forget()

    def _for_writing(self) -> Connection:
        if self._connection is not None and self._is_writable and self._is_current():
            return self._connection
        if self._connection is not None:
            self._forget()
        if not os.path.exists(self.path):
            self._make()
        self.files = files = self._files_found()
        connection = self._connect("rw")
        try:
            version = self._check_identity(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # With this journal a transaction ends by removing a file, which must be synced.
                connection.execute("PRAGMA synchronous = EXTRA")
        except Error as error:
            raise self._fault(error) from error
        if version > SCHEMA_VERSION:
            raise Fault(
                "newer_ledger",
                f"a newer Holdfast wrote the ledger {self.path} (schema {version}); "
                "this one only reads it",
                errors.INSTALL_NEWER,
                path=self.path,
            )
        if version < SCHEMA_VERSION:
            self._migrate(connection, version)
        self.files = self._files_found()
        if self.files[0] != files[0] or not self.lock.is_current:
            raise moved(self.folder)
        self._connection = connection
        self._is_writable = True
        return connection

    def _migrate(self, connection: Connection, version: int) -> None:
        """Bring an older schema up to date, in one transaction."""
        steps = "\n".join(map(_sql, MIGRATIONS[version - 1 :]))
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{steps}\nPRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;"
            )
        except Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise self._fault(error) from error

    def _make_folder(self) -> None:
        """Make the ledger's folder; raise ``Fault`` if the repository around it is gone.

        A process that runs on after its repository was moved must not make a second ledger.
        """
        if os.path.isdir(self.folder):
            return
        above = os.path.dirname(self.folder)
        if os.path.basename(above) == _PLAIN:
            self._disk.add_folder(above)
        self._disk.add_folder(self.folder, 0o700)

    def _make(self) -> None:
        """Make the database under another name, whole, and put it in place.

        If the folder is removed and made again meanwhile, another process may hold the lock there
        and make a database, too. So the temporary name has this process's id, and the lock is
        checked once more.
        """
        fresh = f"{self.path}.new-{os.getpid()}"
        try:
            for name in names_in(self.folder):
                if name.startswith(f"{NAME}.new"):  # A killed process did not put it in place.
                    self._disk.remove(os.path.join(self.folder, name))
            # SQLite gives the files beside it the same permissions.
            self._disk.create(fresh, b"", 0o600)
            connection = _sqlite3.connect(fresh, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = wal")
                connection.execute("PRAGMA synchronous = FULL")
                connection.executescript(f"BEGIN;\n{_schema()}\nCOMMIT;")
                # Closing would move the journal, too, but would not report a failure.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.close()
            is_free = not os.path.lexists(self.path) and self._belongs_here()
            if not (is_free and self.lock.is_current):
                raise moved(self.folder)
            sign_ledger(self.folder, self._disk)
            self._put_in_place(fresh)
        except Error as error:
            raise self._fault(error) from error

    def _put_in_place(self, source: str) -> None:
        """Move a complete database to its final name, where other processes take it for durable.

        A journal whose database is gone is set aside, so that SQLite does not play it into this
        one. Then the folder and its entries are made durable.
        """
        for end in BESIDE:
            if os.path.lexists(self.path + end):
                self._disk.move(self.path + end, f"{self.path}.orphan{end}")
        above = os.path.dirname(self.folder)
        self._disk.sync_folder(self.folder)
        self._disk.sync_folder(above)
        if os.path.basename(above) == _PLAIN:
            self._disk.sync_folder(os.path.dirname(above))
        self._disk.move(source, self.path)
        self._disk.sync_folder(self.folder)

    def exchange(self, fresh: str) -> None:
        """Put a complete and closed database in the place of this one, under the lock.

        If the process is killed, the next writer finishes this, and a reader finds the old one
        complete.
        """
        self.close()
        self._disk.move(fresh, self.path + RECOVERED)
        self._disk.sync_folder(self.folder)
        finish_recovery(self.path, self._disk)

    def move_in(self, old: Database) -> bool:
        """Move another ledger's database here; return False if there is one here already."""
        self.acquire_lock()
        try:
            if os.path.lexists(self.path):
                return False
            old.acquire()
            try:
                old.close()
                self._move_archives(old)
                sign_ledger(self.folder, self._disk)
                self._put_in_place(old.path)
                self._disk.sync_folder(old.folder)
            finally:
                old.release()
        finally:
            self.release()
        return True

    def _move_archives(self, old: Database) -> None:
        """Move the archives before their ledger, which is of no use elsewhere without them."""
        source, target = (os.path.join(folder, ARCHIVES) for folder in (old.folder, self.folder))
        if not os.path.isdir(source):
            return
        self._disk.make_folder(target, 0o700)
        for name in sorted(os.listdir(source)):
            self._disk.move_across(os.path.join(source, name), os.path.join(target, name))
        self._disk.sync_folder(target)
        self._disk.remove_folder(source)

    # Opening

    def _connect(self, mode: str) -> Connection:
        self._owner = os.getpid()
        self._was_open = True
        for end in ("", *BESIDE):
            try:
                stat = os.lstat(self.path + end)
            except OSError:
                continue
            if S_ISLNK(stat.st_mode):
                if not end:
                    raise errors.symbolic_link("ledger", self.path)
            elif not S_ISREG(stat.st_mode):
                # It is a folder, a pipe or a device: SQLite would wait for a pipe for ever.
                raise _storage(self.path + end, "it is not an ordinary file")
            elif not (end or stat.st_size):
                # SQLite would take it for a new database, and delete its journal.
                raise errors.damaged_ledger(self.path, "it is empty")
        try:
            return _sqlite3.connect(
                f"file:{uri_path(self.path)}?mode={mode}",
                uri=True,
                isolation_level=None,
                timeout=self._wait_s,
                check_same_thread=False,
            )
        except Error as error:
            raise self._fault(error) from error

    def _check_identity(self, connection: Connection) -> int:
        """Raise ``Fault`` if the file is not a ledger; return its schema's version."""
        number = connection.execute("PRAGMA application_id").fetchone()[0]
        if number != APPLICATION_ID:
            raise errors.damaged_ledger(self.path, "it is not a ledger that Holdfast made")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version

    def journal_mode(self) -> str:
        """Return how SQLite keeps its journal: "wal" or an older way; empty without a ledger."""
        row = self.row("PRAGMA journal_mode")
        return "" if row is None else str(row[0])

    def schema_damage(self) -> list[str]:
        """Return the tables, indexes and triggers that differ from those this version makes."""
        version = self.row("PRAGMA user_version")
        if version is None or version[0] > SCHEMA_VERSION:
            return []
        pattern = _empty_ledger()
        query = "SELECT name, type, sql FROM sqlite_master WHERE sql IS NOT NULL"
        here = {row[0]: row for row in self.rows(query)}
        damage = [] if self._has_right_header(pattern) else ["its header is not as it was made"]
        for name, kind, sql in pattern.execute(query):
            if kind == "table":
                columns = f"SELECT name, type, [notnull], pk FROM pragma_table_info('{name}')"
                # A migration may have added columns.
                is_right = set(pattern.execute(columns)) <= set(self.rows(columns))
            else:
                is_right = here.get(name) == (name, kind, sql)
            if not is_right:
                damage.append(f"the {kind} {name} is not as it was made")
        return damage

    def _has_right_header(self, pattern: Connection) -> bool:
        """True if the header is as in every ledger, or the file is too large to check it.

        Only SQLite may open the file, so checking it takes a copy of the whole file.
        """
        connection = self._for_reading()
        if connection is None or os.path.getsize(self.path) > _MAX_COPIED_BYTES:
            return True
        right, header = pattern.serialize(), connection.serialize()
        kind = header[_JOURNAL_KIND : _JOURNAL_KIND + 2]
        return kind in _JOURNAL_KINDS and all(
            header[start:end] == right[start:end] for start, end in _CONSTANT
        )

    def _files_found(self) -> Files:
        """Return device and inode of the files that now have the paths of database, WAL and SHM."""
        inodes: list[tuple[int, int] | None] = []
        for end in ("", "-wal", "-shm"):
            try:
                stat = os.stat(self.path + end)
            except OSError:
                inodes.append(None)
            else:
                inodes.append((stat.st_dev, stat.st_ino))
        return tuple(inodes)

    def _is_current(self) -> bool:
        """True if the connection is this process's own and the paths still name its files."""
        return self._owner == os.getpid() and self.files == self._files_found()

    def _forget(self) -> None:
        """Drop the connection. Do not close it if the parent process opened it before a fork."""
        if self._connection is not None and self._owner != os.getpid():
            _KEPT.append(self._connection)
        self._connection = None
        self._is_writable = False
        self.files = ()

    # Faults

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, OSError):
            return _storage(self.path, error.strerror or str(error))
        if self._connection is not None:
            is_current = self._is_current()
        else:  # While it is opened, its journal is not known yet.
            is_current = self.files[:1] in ((), self._files_found()[:1])
        if not os.path.isdir(self.folder) or not is_current:
            return moved(self.folder)
        code = result_code(error)
        if code in _DAMAGED or code == 0:  # 0: text that is no UTF-8
            return errors.damaged_ledger(self.path, str(error))
        if code in _BUSY:
            return errors.busy(f"the ledger {self.path}", self.path)
        if code == _FULL:
            return errors.not_written(self.path, error, "make room")
        if code in _READ_ONLY:
            if os.path.exists(self.path) and not os.access(self.path, os.R_OK):
                return _storage(self.path, "permission denied")
            return not_writable(self.folder, str(error))
        return _storage(self.path, str(error))

    def _not_writable(self, error: OSError) -> Fault:
        if error.errno in (ENOENT, ENOTDIR):
            return moved(self.folder)
        if error.errno in (ENOSPC, EDQUOT, EIO):
            return errors.not_written(self.folder, error.strerror, "make room or fix the disk")
        return not_writable(self.folder, error.strerror or str(error))


class Reading:
    """The context of ``Database.reading``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        """Do nothing: reading has begun."""

    def __exit__(self, *_error: object) -> None:
        if not self._database.lock.is_held:
            self._database.roll_back()


def finish_recovery(path: str, disk: Disk) -> None:
    """Put a recovered ledger in place. Its predecessor's journal must not be played into it."""
    if not os.path.exists(path + RECOVERED):
        return
    for end in BESIDE:
        disk.remove(path + end)
    disk.sync_folder(os.path.dirname(path))
    disk.move(path + RECOVERED, path)
    disk.sync_folder(os.path.dirname(path))


def connect_damaged(path: str) -> Connection:
    """Open a copy of a database that may be damaged, to read what it still has.

    The header and the list of tables, which are equal in every ledger, are repaired first.
    """
    pattern = _empty_ledger()
    pages = pattern.serialize()
    tables = {row[0] for row in pattern.execute("SELECT rootpage FROM sqlite_master")}
    with open(path, "r+b") as file:
        count = os.fstat(file.fileno()).st_size // PAGE_BYTES
        for number in range(1, min(count, len(pages) // PAGE_BYTES) + 1):
            if number not in tables:
                start = (number - 1) * PAGE_BYTES
                file.seek(start)
                file.write(pages[start : start + PAGE_BYTES])
        file.seek(_JOURNAL_KIND)
        file.write(_JOURNAL_KINDS[1])
        file.seek(_PAGE_COUNT)
        file.write(count.to_bytes(4, "big"))
    connection = _sqlite3.connect(path, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    return connection


def connect_archive(path: str) -> Connection:
    """Open an archive to read it. It never changes, so SQLite need not lock it.

    Raise ``OSError`` if there is no such file.
    """
    os.stat(path)
    uri = f"file:{uri_path(path)}?mode=ro&immutable=1"
    return _sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def make_archive(path: str, disk: Disk) -> Connection:
    """Make an empty archive, and begin a transaction on it. Close it to make it durable."""
    disk.remove(path)
    disk.create(path, b"", 0o600)
    connection = _sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")
    connection.executescript(f"BEGIN;\n{_schema()}")
    return connection


def _empty_ledger() -> Connection:
    """Return an empty ledger in memory, which has its tables on the same pages as any other."""
    connection = _sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_schema())
    return connection


_KEPT: list[Connection] = []
"""Connections of a parent process, which a child must not close."""


def moved(folder: str) -> Fault:
    return Fault(
        "moved",
        f"the ledger {folder} was moved, replaced or removed meanwhile: nothing was recorded",
        "run the same command again where the repository is now; start a server anew there",
        path=folder,
    )


def _storage(path: str, why: str) -> Fault:
    return Fault(
        "storage",
        f"the ledger cannot be read: {why} ({path})",
        "fix the disk or the file, then run the same command again",
        path=path,
    )


def _unknown_outcome(path: str, why: str, request: str) -> Fault:
    return Fault(
        "unknown_outcome",
        f"writing {path} failed ({why}): whether this was recorded is unknown",
        f"run the same command again with --id {request}: it is applied once",
        id=request,
    )


def refuse_network(folder: str) -> None:
    """Raise ``Fault`` for a file system that is known to have untrustworthy locks."""
    kind = file_system(folder)
    if kind in _NETWORK:
        raise Fault(
            "network_disk",
            f"{folder} is on a network file system ({kind}), whose locks cannot be trusted",
            "work in a clone on a local disk",
            path=folder,
        )


def file_system(folder: str) -> str:
    """Return the kind of file system that a folder is on; empty if it cannot be determined."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            rows = [line.split() for line in mounts]
    except OSError:
        return ""
    path = os.path.join(os.path.realpath(folder), "")
    kind, longest = "", -1
    for row in rows:
        point = os.path.join(row[1].replace("\\040", " "), "")
        if path.startswith(point) and len(point) >= longest:
            kind, longest = row[2], len(point)
    return kind


def _schema() -> str:
    text = "\n".join(map(_sql, ("schema.sql", *MIGRATIONS)))
    return (
        f"{text}PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {SCHEMA_VERSION};"
    )


def _sql(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def uri_path(path: str) -> str:
    """Escape a path for SQLite's URI."""
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02X}")
    return path


def result_code(error: Exception) -> int:
    """Return SQLite's primary result code."""
    code: int = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF
