"""Archives: where the events of ended workflows go, and what still finds them."""

import os
import sqlite3
import stat
import subprocess

import pytest

from holdfast.errors import INSTALL_NEWER, Fault, Refused
from holdfast.install.doctor import examine
from holdfast.keeper import archiving
from holdfast.storage.database import SCHEMA_VERSION
from support.workshop import DAY_MS, HOME, LEDGER, Workshop

ARCHIVES = f"{HOME}/archives"


class Shop(Workshop):
    """A repository with workflows that ended on different days."""

    def __init__(self, root, ended=3):
        super().__init__(root)
        keeper = self.keeper()
        self.ids = []
        for number in range(ended + 1):
            name = f"docs/{number}.md"
            receipt = keeper.start("dev", name, tasks=["one"], ttl="99w", id=f"start-{number}")
            self.ids.append(receipt.state["id"])
            for text in ("a", "b"):
                keeper.remind(f"{text} of {number}", workflow=self.ids[-1])
            if number < ended:
                keeper.abandon("no more", workflow=self.ids[-1])
            self.clock.ms += 10 * DAY_MS

    def archive(self, before="1d"):
        return self.keeper().archive(before)

    def archives(self):
        return sorted(os.listdir(self.path(ARCHIVES)))

    def own_events(self):
        """The number of events in the ledger itself."""
        with sqlite3.connect(self.path(LEDGER)) as connection:
            count = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        connection.close()
        return count


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def test_events_of_ended_workflows_move_and_are_still_read(shop):
    before = shop.keeper().log()
    done = shop.archive()
    assert [row["id"] for row in done.rows] == shop.ids[:3]
    assert shop.archives() == [done.name]
    assert shop.own_events() == len(before) - done.events + 1
    keeper = shop.keeper()
    assert keeper.log()[:-1] == before
    assert keeper.log()[-1]["type"] == "events_archived"
    assert keeper.log(limit=4) == keeper.log()[-4:]
    of_first = [event for event in before if event["stream"] == shop.ids[0]]
    assert keeper.log(workflow=shop.ids[0]) == of_first
    assert keeper.log(workflow=shop.ids[0], limit=2) == of_first[-2:]
    assert keeper.show(workflow=shop.ids[0]).state["status"] == "abandoned"
    assert keeper.verify(everything=True).ok


def test_nothing_but_the_archive_is_left_beside_the_ledger(shop):
    before = set(os.listdir(shop.path(HOME)))
    shop.archive()
    assert set(os.listdir(shop.path(HOME))) - before == {"archives"}


def test_only_what_ended_before_the_date_moves(shop):
    """Each one's last event is that its record left the folder, ten days after its end."""
    assert shop.archive("35d").rows == []
    assert [row["id"] for row in shop.archive("2026-03-01").rows] == shop.ids[:1]
    assert shop.archive("2026-03-01").rows == []
    assert [row["id"] for row in shop.archive("2030-01-01").rows] == shop.ids[1:3]
    assert shop.keeper().show(workflow=shop.ids[3]).state["status"] == "in_progress"


def test_two_archives_of_one_day_have_two_names_and_one_history(shop):
    before = shop.keeper().log()
    shop.clock.ms += DAY_MS - shop.clock.ms % DAY_MS
    first, second = shop.archive("25d"), shop.archive()
    assert second.name == first.name.replace(".db", "-2.db")
    assert shop.archives() == sorted([first.name, second.name])
    events = [event for event in shop.keeper().log() if event["stream"] != "_ledger"]
    assert events == before
    assert shop.keeper().verify(everything=True).ok


def test_files_of_archives_are_their_owners_alone(shop):
    old = os.umask(0)
    try:
        shop.archive()
    finally:
        os.umask(old)
    modes = [stat.S_IMODE(os.stat(shop.path(ARCHIVES, name)).st_mode) for name in shop.archives()]
    assert modes == [0o600]
    assert stat.S_IMODE(os.stat(shop.path(ARCHIVES)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(shop.path(LEDGER)).st_mode) == 0o600


def test_an_archived_workflow_is_resumed_changed_undone_and_archived_again(shop):
    shop.archive()
    keeper = shop.keeper()
    receipt = keeper.resume(workflow=shop.ids[0])
    assert receipt.state["status"] == "in_progress"
    assert receipt.state["reminders"] == ["a of 0", "b of 0"]
    keeper.remind("c", workflow=shop.ids[0])
    keeper.undo(workflow=shop.ids[0])
    keeper.abandon("again", workflow=shop.ids[0])
    versions = [event["version"] for event in keeper.log(workflow=shop.ids[0])]
    assert versions == list(range(1, len(versions) + 1))
    shop.clock.ms += 10 * DAY_MS
    assert [row["id"] for row in shop.archive().rows] == shop.ids[:1]
    assert [event["version"] for event in shop.keeper().log(workflow=shop.ids[0])] == versions
    assert shop.keeper().verify(everything=True).ok


def test_a_subject_that_was_archived_begins_again_under_its_id(shop):
    shop.archive()
    receipt = shop.keeper().start("dev", "docs/0.md", tasks=["two"])
    assert receipt.state["id"] == shop.ids[0]
    assert not receipt.resumed
    versions = [event["version"] for event in shop.keeper().log(workflow=shop.ids[0])]
    assert versions == list(range(1, len(versions) + 1))
    assert shop.keeper().verify(everything=True).ok


def test_a_request_that_was_archived_is_still_answered_once(shop):
    shop.archive()
    head = shop.keeper().store.ledger.head_seq
    receipt = shop.keeper().start("dev", "docs/0.md", tasks=["one"], ttl="99w", id="start-0")
    assert receipt.is_repeat
    assert shop.keeper().store.ledger.head_seq == head
    with pytest.raises(Refused, match="another command"):
        shop.keeper().remind("x", workflow=shop.ids[3], id="start-0")


def test_an_export_has_what_is_archived_and_a_new_ledger_takes_it(shop, tmp_path):
    shop.archive()
    lines = list(shop.keeper().export())
    other = Workshop(tmp_path / "other")
    other.write("backup", "\n".join(lines))
    other.keeper().import_file(other.path("backup"))
    assert other.keeper().log() == shop.keeper().log()
    assert len(list(shop.keeper().export(workflow=shop.ids[0]))) > 4
    assert shop.keeper().import_file(other.path("backup")).events == 0
    other.clock.ms = shop.clock.ms
    other.keeper().archive("1d")
    assert other.keeper().verify(everything=True).ok
    third = Workshop(tmp_path / "third")
    third.keeper().start("dev", "third.md")
    third.keeper().import_file(other.path("backup"))
    assert third.keeper().verify(everything=True).ok


@pytest.mark.parametrize(
    "damage", ["missing", "another file", "a flip", "another ledger's", "a newer one"]
)
def test_an_archive_that_cannot_be_read_is_named_and_nothing_else_is_lost(shop, tmp_path, damage):
    done = shop.archive()
    path = shop.path(ARCHIVES, done.name)
    kept = shop.read(f"{ARCHIVES}/{done.name}")
    os.unlink(path)
    if damage == "another file":
        shop.write(path, b"not a database" * 1000)
    elif damage == "a flip":
        at = kept.rindex(b"no more")
        shop.write(path, kept[:at] + b"N" + kept[at + 1 :])
    elif damage == "another ledger's":
        stranger = Shop(tmp_path / "stranger")
        shop.write(path, stranger.read(f"{ARCHIVES}/{stranger.archive().name}"))
    elif damage == "a newer one":
        shop.write(path, kept)
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        connection.close()
    keeper = shop.keeper()
    report = keeper.verify(everything=True)
    assert [line["what"] for line in report.lines] == [f"archives/{done.name}"]
    # All but the history works.
    assert keeper.show(workflow=shop.ids[0]).state["status"] == "abandoned"
    assert len(keeper.workflows()[0]) == 1
    keeper.remind("x", workflow=shop.ids[3], id="new")
    assert keeper.resume(workflow=shop.ids[1]).state["status"] == "in_progress"
    if damage != "a flip":
        with pytest.raises(Fault, match=done.name):
            keeper.log(workflow=shop.ids[0])
        with pytest.raises(Fault, match=done.name):
            keeper.log()
        with pytest.raises(Fault, match=done.name) as caught:
            shop.keeper().log(workflow=shop.ids[0])
        assert (caught.value.hint == INSTALL_NEWER) == (damage == "a newer one")
    # A repair accepts no loss and forgets no state.
    shop.keeper().repair()
    assert shop.keeper().show(workflow=shop.ids[0]).state["status"] == "abandoned"
    assert shop.keeper().log(limit=1)[0]["type"] != "ledger_repaired"
    shop.keeper().abandon("x", workflow=shop.ids[3])
    shop.clock.ms += 10 * DAY_MS
    with pytest.raises(Fault, match="not sound"):
        shop.archive()
    shop.write(path, kept)
    assert shop.keeper().verify(everything=True).ok


def test_a_missing_event_is_not_taken_for_one_of_a_missing_archive(shop):
    done = shop.archive()
    os.unlink(shop.path(ARCHIVES, done.name))
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_removed")
        connection.execute("DELETE FROM events WHERE stream = ? AND version = 2", shop.ids[3:])
    connection.close()
    told = [line["message"] for line in shop.keeper().verify().lines if line["what"] == "ledger.db"]
    assert any("missing" in message for message in told)


def test_an_id_is_noted_if_an_archive_that_may_have_it_is_missing(shop):
    done = shop.archive()
    os.unlink(shop.path(ARCHIVES, done.name))
    receipt = shop.keeper().remind("x", workflow=shop.ids[3], id="perhaps")
    assert any("perhaps" in note and done.name in note for note in receipt.notes)


def test_a_damaged_ledger_is_repaired_beside_its_archives(shop):
    shop.archive()
    keeper = shop.keeper()
    keeper.resume(workflow=shop.ids[0])
    before = [event["hash"] for event in keeper.log()]
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    raw = bytearray(shop.read(LEDGER))
    raw[:100] = bytes(100)
    for end in ("-wal", "-shm"):
        if os.path.exists(shop.path(LEDGER + end)):
            os.unlink(shop.path(LEDGER + end))
    shop.write(LEDGER, bytes(raw))
    assert shop.keeper().repair().ok
    assert [event["hash"] for event in shop.keeper().log()] == before
    states = [shop.keeper().show(workflow=name).state["status"] for name in shop.ids]
    assert states == ["in_progress", "abandoned", "abandoned", "in_progress"]


def test_a_damaged_ledger_whose_archive_is_missing_keeps_its_states(shop):
    done = shop.archive()
    kept = shop.read(f"{ARCHIVES}/{done.name}")
    os.unlink(shop.path(ARCHIVES, done.name))
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_changed")
        connection.execute("UPDATE events SET at = '' WHERE type = 'reminder_added'")
    connection.close()
    shop.keeper().repair()
    assert shop.keeper().show(workflow=shop.ids[0]).state["status"] == "abandoned"
    assert not shop.keeper().verify(everything=True).ok
    shop.write(f"{ARCHIVES}/{done.name}", kept)
    assert shop.keeper().repair().ok
    assert len(shop.keeper().log(workflow=shop.ids[0])) > 3


def test_a_ledger_that_is_damaged_is_not_archived(shop):
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_changed")
        connection.execute("UPDATE events SET at = '2026-01-01' WHERE seq = 2")
    connection.close()
    before = shop.own_events()
    with pytest.raises(Fault, match="hash does not match"):
        shop.archive()
    assert shop.own_events() == before
    assert not os.path.exists(shop.path(HOME, "archiving"))


def test_archives_move_into_git_with_their_ledger(tmp_path):
    shop = Workshop(tmp_path / "here", git=False)
    keeper = shop.keeper()
    one = keeper.start("dev", "a.md", tasks=["one"]).state["id"]
    keeper.abandon("no", workflow=one)
    shop.clock.ms += 10 * DAY_MS
    shop.keeper().archive("1d")
    before = shop.keeper().log()
    subprocess.run(["git", "init", "-q", shop.root], check=True)
    assert shop.keeper().log() == before
    assert os.path.exists(shop.path(ARCHIVES))


def test_a_ledger_whose_journal_is_in_use_is_not_exchanged(shop):
    """What is only in the journal would be missing for a reader after a kill."""
    before = shop.own_events()
    reader = sqlite3.connect(shop.path(LEDGER), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchone()
    shop.keeper().remind("later", workflow=shop.ids[3])
    with pytest.raises(Fault, match="locked"):
        shop.keeper(wait_s=0.1).archive("1d")
    reader.close()
    assert shop.own_events() == before + 1
    assert shop.archive().rows
    assert shop.keeper().verify(everything=True).ok


def test_an_open_keeper_goes_on_with_the_exchanged_ledger(shop):
    reader = shop.keeper()
    assert len(reader.workflows()[0]) == 1
    shop.archive()
    assert len(reader.log(workflow=shop.ids[0])) > 3
    reader.remind("after", workflow=shop.ids[3])
    assert shop.keeper().log()[-1]["type"] == "reminder_added"
    assert shop.keeper().verify(everything=True).ok


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-1-1", "90", "-3d", "2026-01-31T"])
def test_what_is_no_date_is_refused(shop, text):
    with pytest.raises(Refused, match="not a date"):
        shop.archive(text)


def test_an_age_and_a_date_mean_a_moment():
    now = 1_771_329_600_000
    assert archiving.moment("1d", now) == "2026-02-16T12:00:00.000Z"
    assert archiving.moment("2026-01-31", now) == "2026-01-31T00:00:00.000Z"


def test_doctor_sends_to_verify_if_an_archive_is_missing(shop):
    done = shop.archive()
    assert [check for check in examine(shop.keeper()) if check["found"].endswith("all sound")]
    os.unlink(shop.path(ARCHIVES, done.name))
    ledger = [check for check in examine(shop.keeper()) if check["hint"] == "holdfast verify"]
    assert [check["status"] for check in ledger] == ["bad"]
