"""The rules by which the ledger's database is opened; ``storage/database.py`` lists them.

Each test fails without its rule: ``promises/mutations.py`` takes every rule away once.
"""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from holdfast import Fault, Refused
from holdfast.storage import database
from holdfast.storage.database import Database
from holdfast.storage.ledger import Ledger
from holdfast.system.disk import Disk
from holdfast.workspace.location import sign_ledger
from support.paths import SOURCE


def folder_of(shop):
    return shop.path(".git", "holdfast")


def ledger_of(shop, wait_s=0.0):
    return Ledger(folder_of(shop), Disk(), wait_s)


def reminders(shop):
    return shop.keeper().show().state["reminders"]


# The lock and the file that the path names


def test_a_writer_that_stays_open_follows_a_ledger_that_was_replaced(shop):
    open_for_long = shop.keeper()
    open_for_long.start("dev", "a.md")
    os.rename(folder_of(shop), shop.path(".git", "elsewhere"))
    shop.keeper().start("dev", "b.md")
    receipt = open_for_long.start("dev", "c.md")
    last = shop.keeper().log()[-1]
    assert (last["seq"], last["stream"]) == (receipt.seqs[-1], receipt.state["id"])


def test_a_writer_that_stays_open_makes_a_removed_ledger_anew(shop):
    open_for_long = shop.keeper()
    open_for_long.start("dev", "a.md")
    shutil.rmtree(folder_of(shop))
    seqs = open_for_long.start("dev", "c.md").seqs
    assert [event["seq"] for event in shop.keeper().log()][-len(seqs) :] == seqs
    assert shop.keeper().verify().ok


def test_a_reader_that_stays_open_sees_the_ledger_that_took_the_place(shop):
    shop.keeper().start("dev", "a.md")
    reader = shop.keeper()
    assert reader.workflows()[0][0]["subject"] == "a.md"
    shutil.copytree(folder_of(shop), shop.path(".git", "copy"))
    shutil.rmtree(folder_of(shop))
    os.rename(shop.path(".git", "copy"), folder_of(shop))
    shop.keeper().remind("seen")
    assert reader.show().state["reminders"] == ["seen"]


def test_a_lock_whose_file_was_replaced_while_waiting_is_taken_again(shop):
    shop.keeper().start("dev", "a.md")
    lock = os.path.join(folder_of(shop), "lock")
    ours = Ledger(folder_of(shop), Disk(), 5.0)
    opened = os.open(lock, os.O_RDWR)
    ours.database.lock._disk = _ReplacesOnce(lock)
    ours.acquire()
    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # The old file protects nothing.
    with pytest.raises(Fault, match="locked"):
        ledger_of(shop).acquire()
    ours.release()
    os.close(opened)


class _ReplacesOnce(Disk):
    """Replaces the lock's file right after it was locked, as a tool that restores a backup does."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.is_done = False

    def lock(self, path, wait_s):
        fd = super().lock(path, wait_s)
        if not self.is_done:
            self.is_done = True
            os.rename(self.path, f"{self.path}.old")
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        return fd


def test_writers_queue_and_are_told_who_holds_the_lock(shop):
    shop.keeper().start("dev", "a.md")
    held = os.open(os.path.join(folder_of(shop), "lock"), os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(Fault) as caught:
        shop.keeper(wait_s=0.05).remind("never")
    os.close(held)
    assert caught.value.code == "busy"
    assert str(os.getpid()) in caught.value.message
    assert shop.keeper().remind("now").state["reminders"] == ["now"]


def test_a_child_never_inherits_the_lock(shop):
    shop.keeper().start("dev", "a.md")
    ledger = ledger_of(shop)
    ledger.acquire()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        ledger.release()
        shop.keeper(wait_s=0.0).remind("at once")
    finally:
        child.kill()
        child.wait()


def test_a_fork_does_not_keep_the_lock_of_its_parent(shop):
    shop.keeper().start("dev", "a.md")
    code = """
import os, sys
from holdfast.system.disk import Disk
from holdfast.storage.ledger import Ledger
ledger = Ledger(sys.argv[1], Disk(), 5.0)
ledger.acquire()
if os.fork() == 0:
    os.write(1, b"child")
    os.read(0, 1)
    os._exit(0)
os.read(0, 1)
os._exit(0)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code, folder_of(shop)], env={**os.environ, "PYTHONPATH": SOURCE},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert parent.stdout.read(5) == b"child"
        parent.kill()
        parent.wait()
        shop.keeper(wait_s=0.0).remind("the child still runs")
    finally:
        parent.stdin.close()
        parent.stdout.close()


def test_no_ledger_is_made_where_the_repository_is_gone(shop):
    shop.keeper().start("dev", "a.md")
    writer = ledger_of(shop)
    os.rename(shop.path(".git"), shop.path("moved"))
    with pytest.raises(Fault) as caught:
        writer.acquire()
    assert caught.value.code == "moved"
    assert not os.path.exists(shop.path(".git"))


def test_what_was_read_of_one_ledger_is_not_written_into_another(shop):
    shop.keeper().start("dev", "a.md")
    writer = ledger_of(shop)
    writer.acquire()
    writer.begin()
    writer.sync()
    writer.commit("adopted")
    os.rename(folder_of(shop), shop.path(".git", "elsewhere"))
    shop.keeper().start("dev", "b.md")
    before = shop.keeper().log()
    with pytest.raises(Fault) as caught:
        writer.begin()
    writer.release()
    assert caught.value.code == "moved"
    assert shop.keeper().log() == before


def test_a_commit_into_a_folder_that_moved_is_of_unknown_outcome(shop):
    shop.keeper().start("dev", "a.md")
    writer = ledger_of(shop)
    writer.acquire()
    writer.begin()
    writer.put_fact("x", "y")
    os.rename(folder_of(shop), shop.path(".git", "elsewhere"))
    with pytest.raises(Fault) as caught:
        writer.commit("retry-me")
    writer.release()
    assert caught.value.code == "unknown_outcome"
    assert "--id retry-me" in caught.value.hint


# Making it


class _Dies(Disk):
    """A disk on which the database is never put in place."""

    def move(self, source, target):
        if target.endswith("ledger.db"):
            raise OSError(28, "No space left on device", target)
        super().move(source, target)


def test_a_ledger_that_is_half_made_is_no_ledger(shop):
    with pytest.raises(Fault):
        shop.keeper(disk=_Dies()).start("dev", "a.md")
    assert not os.path.exists(os.path.join(folder_of(shop), "ledger.db"))
    assert shop.keeper().log() == []
    shop.keeper().start("dev", "a.md")
    assert shop.keeper().verify().ok


def test_the_journal_of_a_ledger_that_is_gone_is_not_played_into_the_next(shop):
    shop.keeper().start("dev", "a.md")
    os.unlink(os.path.join(folder_of(shop), "ledger.db"))
    assert os.path.exists(os.path.join(folder_of(shop), "ledger.db-wal"))
    shop.keeper().start("dev", "b.md")
    report = shop.keeper().verify()
    assert report.ok, report.lines
    assert os.path.exists(os.path.join(folder_of(shop), "ledger.db.orphan-wal"))


def test_folder_and_files_are_the_persons_alone(shop):
    shop.keeper().start("dev", "a.md")
    assert os.stat(folder_of(shop)).st_mode & 0o777 == 0o700
    for name in os.listdir(folder_of(shop)):
        assert os.stat(os.path.join(folder_of(shop), name)).st_mode & 0o777 == 0o600, name


def test_a_network_file_system_is_refused(shop, monkeypatch):
    monkeypatch.setattr(database, "file_system", lambda _folder: "nfs4")
    with pytest.raises(Fault) as caught:
        shop.keeper().start("dev", "a.md")
    assert caught.value.code == "network_disk"
    assert not os.path.exists(folder_of(shop))


def test_a_link_in_the_ledgers_place_is_refused(shop, tmp_path):
    shop.keeper().start("dev", "a.md")
    file = os.path.join(folder_of(shop), "ledger.db")
    os.rename(file, tmp_path / "stolen.db")
    os.symlink(tmp_path / "stolen.db", file)
    with pytest.raises(Refused, match="symbolic link"):
        shop.keeper().show()


def test_a_file_that_is_no_ledger_is_named_and_left_alone(shop):
    os.makedirs(folder_of(shop))
    file = os.path.join(folder_of(shop), "ledger.db")
    sqlite3.connect(file).execute("CREATE TABLE mine (x)").connection.close()
    sign_ledger(folder_of(shop), Disk())
    before = shop.read(".git/holdfast/ledger.db")
    with pytest.raises(Fault) as caught:
        shop.keeper().start("dev", "a.md")
    assert caught.value.code == "ledger_damaged"
    assert shop.read(".git/holdfast/ledger.db") == before


# Durability


def test_every_commit_is_synced_and_no_checkpoint_runs_by_itself(shop):
    keeper = shop.keeper()
    keeper.start("dev", "a.md")
    connection = keeper.store.ledger.database._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)


def test_a_sync_writes_although_nothing_changed_since_the_last(shop):
    shop.keeper().start("dev", "a.md")
    writer = ledger_of(shop)
    writer.acquire()
    sizes = []
    for _ in range(3):
        writer.begin()
        writer.sync()
        writer.commit("again")
        sizes.append(os.path.getsize(f"{folder_of(shop)}/ledger.db-wal"))
    writer.release()
    assert sizes == sorted(set(sizes))


def test_checkpoints_run_under_the_lock_alone(shop):
    keeper = shop.keeper()
    keeper.start("dev", "a.md")
    database_ = keeper.store.ledger.database
    statements = []
    database_._connection.set_trace_callback(
        lambda statement: statements.append((statement, database_.lock.is_held))
    )
    for number in range(40):
        keeper.set_context({"n": number})
    checkpoints = [held for statement, held in statements if "wal_checkpoint" in statement]
    assert checkpoints
    assert all(checkpoints)


def test_the_journal_stays_small_over_many_commits(shop):
    keeper = shop.keeper()
    keeper.start("dev", "a.md")
    for number in range(200):
        keeper.set_context({"n": number})
    assert os.path.getsize(os.path.join(folder_of(shop), "ledger.db-wal")) < 2_000_000


def test_where_memory_cannot_be_shared_the_older_journal_is_synced_to_the_end(shop):
    assert shop.run("start", "dev", "a.md").returncode == 0
    other = sqlite3.connect(os.path.join(folder_of(shop), "ledger.db"))
    assert other.execute("PRAGMA journal_mode = delete").fetchone() == ("delete",)
    other.close()
    keeper = shop.keeper()
    keeper.remind("kept")
    connection = keeper.store.ledger.database._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
    assert reminders(shop) == ["kept"]


def test_a_newer_schema_is_read_and_never_written(shop):
    shop.keeper().start("dev", "a.md")
    other = sqlite3.connect(os.path.join(folder_of(shop), "ledger.db"))
    other.execute("PRAGMA user_version = 99")
    other.close()
    assert shop.keeper().show().state["subject"] == "a.md"
    before = shop.keeper().log()
    with pytest.raises(Fault) as caught:
        shop.keeper().remind("never")
    assert caught.value.code == "newer_ledger"
    assert shop.keeper().log() == before


# Reading


def test_a_reader_waits_for_nobody(shop):
    shop.keeper().start("dev", "a.md")
    writer = ledger_of(shop)
    writer.acquire()
    writer.begin()
    writer.put_fact("x", "y")
    assert shop.keeper(wait_s=0.0).show().state["subject"] == "a.md"
    assert shop.keeper(wait_s=0.0).log()
    writer.roll_back()
    writer.release()


def test_a_reader_cannot_write(shop):
    shop.keeper().start("dev", "a.md")
    reader = shop.keeper()
    reader.show()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.store.ledger.database._connection.execute("CREATE TABLE x (y)")


def test_a_look_changes_no_byte(shop):
    writer = shop.keeper()  # Its connection would move the journal when it is collected.
    writer.start("dev", "a.md")
    before = kept_bytes(shop)
    keeper = shop.keeper()
    keeper.show()
    keeper.workflows()
    keeper.log()
    keeper.overview()
    keeper.verify()
    assert kept_bytes(shop) == before


def kept_bytes(shop):
    """Return all files but the shared memory, in which readers mark what they look at."""
    files = shop.files(without=())
    return {path: data for path, data in files.items() if not path.endswith("-shm")}


def test_a_look_where_there_is_no_ledger_makes_none(shop):
    before = shop.files(without=())
    assert shop.keeper().workflows() == ([], [])
    with pytest.raises(Refused):
        shop.keeper().show()
    assert shop.files(without=()) == before


def test_a_process_that_ends_leaves_what_a_reader_without_rights_needs(shop):
    assert shop.run("start", "dev", "a.md").returncode == 0
    names = os.listdir(folder_of(shop))
    assert {"ledger.db", "ledger.db-wal", "ledger.db-shm"} <= set(names)


@pytest.mark.parametrize("without", [(), ("-shm",), ("-wal", "-shm")])
def test_a_read_only_ledger_can_still_be_read(shop, not_shown, without):
    assert shop.run("start", "dev", "a.md").returncode == 0
    if "-wal" in without:
        other = sqlite3.connect(os.path.join(folder_of(shop), "ledger.db"))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
    for end in without:
        file = os.path.join(folder_of(shop), f"ledger.db{end}")
        if os.path.exists(file):
            os.unlink(file)
    mount = subprocess.run(
        ["mount", "--bind", folder_of(shop), folder_of(shop)], capture_output=True, check=False
    )
    if mount.returncode:
        not_shown("a read-only ledger: this system lets nobody mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder_of(shop)], check=True)
        shown = shop.run("show", "--json")
        changed = shop.run("remind", "never", "--json")
    finally:
        subprocess.run(["umount", folder_of(shop)], check=True)
    assert shown.returncode == 0, shown
    assert b'"a.md"' in shown.stdout
    assert b"not_writable" in changed.stdout
    assert shop.run("remind", "now").returncode == 0


def test_a_child_process_opens_a_connection_of_its_own(shop):
    code = """
import os, sys
from holdfast import Keeper
keeper = Keeper(".")
keeper.start("dev", "a.md")
pid = os.fork()
if pid == 0:
    keeper.remind("from the child")
    assert keeper.store.ledger.database._owner == os.getpid()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
keeper.remind("from the parent")
print(keeper.show().state["reminders"])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.root, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )  # fmt: skip
    assert ended.stdout.strip() == "['from the child', 'from the parent']"


def test_nothing_but_sqlite_opens_the_database(shop):
    """Closing any other descriptor of the file would drop the locks that SQLite holds."""
    code = """
import sys
opened = []
def hook(event, arguments):
    path = str(arguments[0]) if event == "open" else ""
    # One that is about to be made has no locks yet.
    if "ledger.db" in path and ".new-" not in path:
        opened.append(arguments[0])
sys.addaudithook(hook)
from holdfast.cli.main import main
for line in ("start dev a.md", "task add one", "status", "show", "log", "verify", "repair",
             "complete --force --reason done", "sync", "context"):
    assert main(line.split()) == 0, line
assert opened == [], opened
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.root, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def test_events_are_neither_changed_nor_removed(shop):
    shop.keeper().start("dev", "a.md")
    other = sqlite3.connect(os.path.join(folder_of(shop), "ledger.db"))
    for statement in ("UPDATE events SET type = 'x'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            other.execute(statement)
    other.close()


def test_a_failed_commit_is_an_unknown_outcome(shop):
    keeper = shop.keeper()
    keeper.start("dev", "a.md")

    class Failing:
        def __init__(self, connection):
            self._connection = connection

        def execute(self, statement, *values):
            if statement == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return self._connection.execute(statement, *values)

        def __getattr__(self, name):
            return getattr(self._connection, name)

    own = keeper.store.ledger.database
    own._connection = Failing(own._connection)
    with pytest.raises(Fault) as caught:
        keeper.remind("perhaps", id="retry-me")
    assert caught.value.code == "unknown_outcome"
    assert caught.value.details["id"] == "retry-me"
    assert "--id retry-me" in caught.value.hint
    assert shop.keeper().remind("perhaps", id="retry-me").state["reminders"] == ["perhaps"]
    assert shop.keeper().remind("perhaps", id="retry-me").state["reminders"] == ["perhaps"]


def test_the_database_says_which_file_system_it_is_on(tmp_path):
    kind = database.file_system(str(tmp_path))
    if os.path.exists("/proc/self/mounts"):
        assert kind
    none = Database(str(tmp_path / "none"), Disk(), 0.0, lambda: True)
    assert none.row("PRAGMA user_version") is None


# What grows, and what is lost


def test_one_process_after_another_keeps_the_journal_small(shop):
    shop.keeper().start("dev", "a.md")
    code = """
import os, sys
from holdfast import Keeper
keeper = Keeper(sys.argv[1])
for number in range(3):
    keeper.remember(f"{os.getpid()} {number}")
os._exit(0)
"""
    env = {**os.environ, "PYTHONPATH": SOURCE, "HOLDFAST_MEMORY": "off"}
    for _ in range(40):
        subprocess.run([sys.executable, "-c", code, shop.root], env=env, check=True)
    assert os.path.getsize(f"{folder_of(shop)}/ledger.db-wal") < 2 * 1024 * 1024
    assert shop.keeper().verify().ok


def test_a_journal_that_a_reader_needs_is_not_emptied(shop):
    keeper = shop.keeper()
    keeper.start("dev", "a.md")
    reader = sqlite3.connect(f"{folder_of(shop)}/ledger.db", isolation_level=None)
    reader.execute("BEGIN")
    before = reader.execute("SELECT count(*) FROM events").fetchone()
    for number in range(60):
        keeper.set_context({"number": number})
    assert reader.execute("SELECT count(*) FROM events").fetchone() == before
    reader.close()
    assert keeper.verify().ok


def test_a_writer_notices_that_the_shared_memory_was_removed(shop):
    open_for_long = shop.keeper()
    open_for_long.start("dev", "a.md")
    os.unlink(f"{folder_of(shop)}/ledger.db-shm")
    shop.keeper().remind("by another process")
    open_for_long.remind("by the one that stayed open")
    assert reminders(shop) == ["by another process", "by the one that stayed open"]
    assert shop.keeper().verify().ok


def test_a_fault_while_the_ledger_is_opened_gives_the_lock_back(shop):
    shop.keeper().start("dev", "a.md")
    ledger = ledger_of(shop)
    ledger.acquire()
    ledger.release()

    def fail(*_):
        raise Fault("ledger_damaged", "the first page is not what was written", "")

    ledger.database.row = fail
    with pytest.raises(Fault):
        ledger.acquire()
    shop.keeper(wait_s=0.0).remind("nobody holds the lock")


@pytest.mark.parametrize("table", ["states", "streams"])
def test_a_stream_whose_row_is_lost_is_damage_and_nothing_is_written(shop, table):
    keeper = shop.keeper()
    keeper.remember("one")
    keeper.remember("two")
    keeper.start("dev", "a.md")
    path = shop.path(".claude", "learnings.json")
    with open(path, "rb") as file:
        before = file.read()
    with sqlite3.connect(f"{folder_of(shop)}/ledger.db") as connection:
        connection.execute(f"DELETE FROM {table}")
    workflow = keeper.log()[-1]["stream"]
    commands = (
        lambda: shop.keeper().remember("three"),
        lambda: shop.keeper().remind("x", workflow=workflow),
        lambda: shop.keeper().remind("x"),
        lambda: shop.keeper().show(),
    )
    for command in commands:
        with pytest.raises(Fault) as caught:
            command()
        assert caught.value.code == "ledger_damaged"
    with open(path, "rb") as file:
        assert file.read() == before
    shop.keeper().repair()
    assert [entry["text"] for entry in shop.keeper().learnings()] == ["one", "two"]
    assert shop.keeper().remind("x").state["reminders"] == ["x"]


def test_an_existing_ledger_on_a_network_disk_is_refused(shop, monkeypatch):
    shop.keeper().start("dev", "a.md")
    monkeypatch.setattr(database, "file_system", lambda _folder: "nfs4")
    with pytest.raises(Fault) as caught:
        shop.keeper().remind("x")
    assert caught.value.code == "network_disk"


def test_a_keeper_whose_repository_moved_does_not_answer_that_nothing_is_there(shop):
    keeper = shop.keeper()
    keeper.start("dev", "a.md")
    os.rename(shop.root, f"{shop.root}-moved")
    for _ in range(2):
        with pytest.raises(Fault) as caught:
            keeper.workflows()
        assert caught.value.code == "moved"


def test_an_empty_file_is_damage_and_its_journal_is_kept(shop):
    keeper = shop.keeper()  # Closing its ledger would remove the journal.
    keeper.start("dev", "a.md")
    path = os.path.join(folder_of(shop), "ledger.db")
    os.truncate(path, 0)
    size = os.path.getsize(f"{path}-wal")
    assert size
    for command in (shop.keeper().workflows, lambda: shop.keeper().remind("x")):
        with pytest.raises(Fault) as caught:
            command()
        assert caught.value.code == "ledger_damaged"
    assert os.path.getsize(f"{path}-wal") == size
    shop.keeper().repair()
    assert shop.keeper().remind("x").state["reminders"] == ["x"]
    assert shop.keeper().log()[0]["type"] == "workflow_started"
