"""Ways to break the rules by which the ledger is opened; rows of ``mutations``.

``storage/database.py`` lists the rules, ``tests/storage/test_opening.py`` has a test of each.
"""

import os

from promises.mutating import Mutation, answer, value

_TESTS = "tests/storage/test_opening.py::"
_RETRY = "tests/promises/test_p07_retry.py::"
_DATABASE = "holdfast.storage.database:"


def _opened_with(statement):
    """Open the database for writing, and run one more statement."""

    def broken(original):
        def open_to_write(self):
            connection = original(self)
            connection.execute(statement).fetchall()
            return connection

        return open_to_write

    return broken


open_unsynced = _opened_with("PRAGMA synchronous = OFF")


def commit_ignoring_errors(original):
    def commit(self, request):
        from holdfast.errors import Fault

        try:
            original(self, request)
        except Fault:
            return

    return commit


def _commit_known_to_have_failed(original):
    def commit(self, request):
        from holdfast.errors import Fault

        try:
            original(self, request)
        except Fault as fault:
            raise Fault("not_written", fault.message, fault.hint) from fault

    return commit


def _made_in_place(_original):
    def make(self):
        from sqlite3 import connect

        from holdfast.storage import database

        self._disk.create(self.path, b"", 0o600)
        connection = connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = wal")
        connection.executescript(database._schema())
        connection.close()
        try:
            self._disk.move(self.path, self.path)
        except OSError as error:
            raise self._not_writable(error) from error

    return make


def _checkpoint_after_release(original):
    def release(self):
        original(self)
        if self._connection is not None and self._is_writable:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    return release


def _reading_under_the_lock(original):
    def open_to_read(self):
        if self.lock.is_held:
            return original(self)
        self.lock.acquire(self._wait_s)
        try:
            return original(self)
        finally:
            self.lock.release()

    return open_to_read


def _writable(original):
    return lambda self, _mode: original(self, "rw")


def _unknown(original):
    """Say of a copy that it cannot be made."""

    def open_copy(self):
        from holdfast.errors import not_writable

        raise not_writable(self.folder, "no shared memory")

    return open_copy


def _ended_by_the_interpreter(_original):
    def end(code):
        raise SystemExit(code)

    return end


def _inherited(disk):
    lock = disk.lock

    def inheritable(self, path, wait_s):
        fd = lock(self, path, wait_s)
        os.set_inheritable(fd, True)
        return fd

    disk.lock = inheritable
    disk.unlock = lambda _self, fd: os.close(fd)
    return disk


def _same_path(_original):
    """Compare no inodes: the connection is this process's own, and that is enough."""
    return lambda self: self._owner == os.getpid()


def _same_inode(_original):
    """Compare the inodes alone, also after a fork."""

    def is_current(self):
        return self.files == self._files_found()

    return is_current


def _make_every_folder(_original):
    def make_folder(self):
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    return make_folder


def _begun_anyway(_original):
    def begin(self):
        self._connection.execute("BEGIN IMMEDIATE")

    return begin


def _moved_over(_original):
    def move_in(self, old):
        old.acquire()
        old.close()
        os.rename(old.path, self.path)
        old.release()
        return True

    return move_in


def _belongs_anywhere(original):
    def init(self, folder, disk, wait_s, _belongs_here):
        original(self, folder, disk, wait_s, lambda: True)

    return init


def _connected_anyway(_original):
    def connect(self, mode):
        from sqlite3 import connect

        self._owner = os.getpid()
        uri = f"file:{self.path}?mode={mode}"
        return connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    return connect


def _released_by_the_database_alone(original):
    def release(self):
        if self._head is not None:
            original(self)

    return release


OPENINGS = [
    Mutation(
        3, "no inode comparison of the lock", "holdfast.system.disk:Lock.is_current",
        value(True),
        f"{_TESTS}test_a_lock_whose_file_was_replaced_while_waiting_is_taken_again",
    ),
    Mutation(
        3, "no inode comparison of the database", f"{_DATABASE}Database._is_current", _same_path,
        f"{_TESTS}test_a_writer_that_stays_open_follows_a_ledger_that_was_replaced",
    ),
    Mutation(
        3, "make a moved repository anew", f"{_DATABASE}Database._make_folder",
        _make_every_folder, f"{_TESTS}test_no_ledger_is_made_where_the_repository_is_gone",
    ),
    Mutation(
        3, "go on in a ledger that was moved away", f"{_DATABASE}Database.begin", _begun_anyway,
        f"{_TESTS}test_what_was_read_of_one_ledger_is_not_written_into_another",
    ),
    Mutation(
        3, "acknowledge into a folder that moved", f"{_DATABASE}Database.commit",
        commit_ignoring_errors,
        f"{_TESTS}test_a_commit_into_a_folder_that_moved_is_of_unknown_outcome",
    ),
    Mutation(
        1, "make the database in its place", f"{_DATABASE}Database._make", _made_in_place,
        f"{_TESTS}test_a_ledger_that_is_half_made_is_no_ledger",
    ),
    Mutation(
        4, "play the journal of a ledger that is gone", f"{_DATABASE}BESIDE", value(()),
        f"{_TESTS}test_the_journal_of_a_ledger_that_is_gone_is_not_played_into_the_next",
    ),
    Mutation(
        2, "no journal that is written ahead", f"{_DATABASE}Database._for_writing",
        _opened_with("PRAGMA journal_mode = delete"),
        f"{_TESTS}test_every_commit_is_synced_and_no_checkpoint_runs_by_itself",
    ),
    Mutation(
        2, "no sync at a commit", f"{_DATABASE}Database._for_writing", open_unsynced,
        f"{_TESTS}test_every_commit_is_synced_and_no_checkpoint_runs_by_itself",
    ),
    Mutation(
        6, "checkpoints by themselves", f"{_DATABASE}Database._for_writing",
        _opened_with("PRAGMA wal_autocheckpoint = 1000"),
        f"{_TESTS}test_every_commit_is_synced_and_no_checkpoint_runs_by_itself",
    ),
    Mutation(
        6, "checkpoints without the lock", f"{_DATABASE}Database.release",
        _checkpoint_after_release, f"{_TESTS}test_checkpoints_run_under_the_lock_alone",
    ),
    Mutation(
        15, "close the ledger at the end", "holdfast.cli.main:end", _ended_by_the_interpreter,
        f"{_TESTS}test_a_process_that_ends_leaves_what_a_reader_without_rights_needs",
    ),
    Mutation(
        11, "readers wait for writers", f"{_DATABASE}Database._open_to_read",
        _reading_under_the_lock, f"{_TESTS}test_a_reader_waits_for_nobody",
    ),
    Mutation(
        11, "readers that can write", f"{_DATABASE}Database._connect", _writable,
        f"{_TESTS}test_a_reader_cannot_write",
    ),
    Mutation(
        15, "no copy where memory cannot be shared", f"{_DATABASE}Database._open_copy", _unknown,
        f"{_TESTS}test_a_read_only_ledger_can_still_be_read[without1]",
    ),
    Mutation(
        7, "a failed commit counts as not recorded", f"{_DATABASE}Database.commit",
        _commit_known_to_have_failed, f"{_TESTS}test_a_failed_commit_is_an_unknown_outcome",
    ),
    Mutation(
        2, "a retry is answered without a sync", "holdfast.keeper.transaction:Transaction.repeat",
        lambda _original: lambda self, request, **_about: (
            self.store.ledger.find_request(request or "")
        ),
        f"{_RETRY}test_a_retry_is_synced_before_it_is_acknowledged",
    ),
    Mutation(
        2, "a sync that writes nothing", "holdfast.storage.ledger:_PUT_FACT",
        value(
            "INSERT INTO facts (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        ),
        f"{_TESTS}test_a_sync_writes_although_nothing_changed_since_the_last",
    ),
    Mutation(
        6, "trust a network file system", f"{_DATABASE}refuse_network", answer(),
        f"{_TESTS}test_a_network_file_system_is_refused",
    ),
    Mutation(
        11, "a program that is started inherits the lock", "holdfast.system.disk:Disk", _inherited,
        f"{_TESTS}test_a_child_never_inherits_the_lock",
    ),
    Mutation(
        11, "a fork keeps the lock", "holdfast.system.disk:_HELD",
        lambda _original: type("Forgetful", (set,), {"add": lambda *_: None})(),
        f"{_TESTS}test_a_fork_does_not_keep_the_lock_of_its_parent",
    ),
    Mutation(
        6, "a fork uses the connection of its parent", f"{_DATABASE}Database._is_current",
        _same_inode, f"{_TESTS}test_a_child_process_opens_a_connection_of_its_own",
    ),
    Mutation(
        3, "move a ledger over another one", f"{_DATABASE}Database.move_in", _moved_over,
        "tests/keeper/test_move_into_git.py::"
        "test_a_ledger_that_git_has_already_is_not_overwritten",
    ),
    Mutation(
        3, "make a second ledger beside the one in git", f"{_DATABASE}Database.__init__",
        _belongs_anywhere,
        "tests/keeper/test_move_into_git.py::test_a_keeper_from_before_git_makes_no_second_ledger",
    ),
    Mutation(
        4, "let SQLite open an empty file", f"{_DATABASE}Database._connect", _connected_anyway,
        f"{_TESTS}test_an_empty_file_is_damage_and_its_journal_is_kept",
    ),
    Mutation(
        11, "keep the lock after a fault", "holdfast.storage.ledger:Ledger.release",
        _released_by_the_database_alone,
        f"{_TESTS}test_a_fault_while_the_ledger_is_opened_gives_the_lock_back",
    ),
    Mutation(
        4, "write a newer schema", f"{_DATABASE}SCHEMA_VERSION", value(1_000),
        f"{_TESTS}test_a_newer_schema_is_read_and_never_written",
    ),
]  # fmt: skip
