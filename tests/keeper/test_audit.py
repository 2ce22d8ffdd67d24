"""What ``verify`` says, in words."""

import json
import os
import sqlite3

import pytest

from holdfast.keeper import audit
from support.workshop import Workshop

LEDGER = ".git/holdfast/ledger.db"


def test_one_of_a_kind_is_counted_in_the_singular(tmp_path):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.start("custom", "alone", phases=["only"])
    assert keeper.verify().lines[-1]["message"] == "2 events, 1 stream, 1 record"
    assert "1 stream · 1 record · 0 behind · 0 errors" in shop.run("verify").stdout.decode()


def test_a_ledger_that_lost_its_end_is_not_sound_as_long_as_a_record_tells(tmp_path):
    """A backup of the ledger was put back, and the records are newer."""
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    record = keeper.start("dev", "a.md", tasks=["one", "two"]).state["record"]
    connection = sqlite3.connect(shop.path(LEDGER))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    backup = shop.read(LEDGER)
    shop.keeper().complete_task(1)
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        path = shop.path(".git/holdfast", name)
        if os.path.exists(path):
            os.unlink(path)
    shop.write(LEDGER, backup)
    report = shop.keeper().verify()
    assert [("error", record)] == [
        (line["level"], line["what"]) for line in report.lines if line["level"] == "error"
    ]
    rows, notes = shop.keeper().workflows()
    assert [row["tasks_done"] for row in rows] == [1]
    assert any("the ledger lost events" in note for note in notes)
    shop.keeper().settle()
    assert shop.keeper().verify().ok
    assert shop.keeper().show().state["tasks"][0]["status"] == "completed"


@pytest.mark.parametrize("left", range(5))
def test_a_ledger_whose_last_rows_were_removed_is_named_and_goes_on_from_the_record(tmp_path, left):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.start("dev", "a.md", tasks=["one", "two"])
    keeper.complete_task(1)
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_removed")
        connection.execute("DELETE FROM events WHERE seq > ?", (left,))
    connection.close()
    assert not shop.keeper().verify().ok
    assert shop.keeper().repair().ok
    assert [row["tasks_done"] for row in shop.keeper().workflows()[0]] == [1]
    assert shop.keeper().verify().ok


MARK = ".git/holdfast/verified"


@pytest.fixture
def long(tmp_path, monkeypatch):
    """A repository whose ledger counts as long."""
    monkeypatch.setattr(audit, "RECENT_EVENTS", 3)
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.start("dev", "a.md", tasks=["one", "two"])
    for number in range(4):
        keeper.remind(f"reminder {number}")
    return shop


def edit_event(shop, seq, setting="at = ''"):
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        trigger = "events_are_never_changed"
        sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (trigger,))
        text = sql.fetchone()[0]
        connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(f"UPDATE events SET {setting} WHERE seq = ?", (seq,))
        connection.execute(text)
    connection.close()


def checked(shop, **options):
    """The number of events that were checked, if all was well."""
    report = shop.keeper().verify(**options)
    assert report.ok, report.lines
    return report.counts["events"]


def test_the_first_verify_checks_all_and_a_later_one_what_came_since_or_is_recent(long):
    assert checked(long) == 8
    assert checked(long) == 3
    for number in range(4):
        long.keeper().remind(f"later {number}")
    assert checked(long) == 4
    assert checked(long) == 3
    lines = long.keeper().verify().lines
    left_out = "events 1 to 9 were found sound before: holdfast verify --all checks them"
    assert left_out in [line["message"] for line in lines]
    assert checked(long, everything=True) == 12


def test_damage_after_the_mark_is_found_and_before_it_by_all(long):
    long.keeper().abandon("no more")
    second = long.keeper().start("dev", "b.md", tasks=["one", "two"]).state["id"]
    checked(long)
    edit_event(long, 2)
    assert checked(long) == 3
    assert not long.keeper().verify(everything=True).ok
    long.keeper().remind("more", workflow=second)
    edit_event(long, long.keeper().store.ledger.head_seq)
    assert not long.keeper().verify().ok


def test_damage_before_the_mark_is_found_in_a_workflow_that_has_changed_since(long):
    checked(long)
    edit_event(long, 2)
    assert not long.keeper().verify().ok


def test_a_ledger_that_is_not_sound_gets_no_mark(long):
    edit_event(long, 2)
    assert not long.keeper().verify().ok
    assert not os.path.exists(long.path(MARK))
    assert not long.keeper().verify().ok


@pytest.mark.parametrize(
    "mark", [b"", b"{", b"[]", b"\xff", b'{"seq": 8}', b'{"seq": "8", "hash": "x"}',
             b'{"seq": 8, "hash": "0"}', b'{"seq": 99, "hash": "0"}', b'{"seq": -1, "hash": ""}',
             b'{"seq": 0, "hash": ""}', b"[" * 5000]
)  # fmt: skip
def test_a_mark_that_is_not_of_this_ledger_skips_nothing(long, mark):
    edit_event(long, 2)
    long.write(MARK, mark)
    assert not long.keeper().verify().ok


def test_a_ledger_that_was_put_back_is_checked_whole(long):
    """The mark is of the ledger's later events."""
    checked(long)
    long.write(MARK, b'{"seq": 7, "hash": "00000000000000000000000000000000"}')
    assert checked(long) == 8


def test_a_ledger_whose_mark_cannot_be_written_is_verified_all_the_same(long):
    os.mkdir(long.path(MARK))
    assert checked(long) == 8
    assert checked(long) == 8


def test_a_stream_with_a_change_since_is_compared_with_all_of_its_events(long):
    checked(long)
    with sqlite3.connect(long.path(LEDGER)) as connection:
        connection.execute("UPDATE streams SET title = 'other'")
    connection.close()
    assert not long.keeper().verify().ok


def test_progress_tells_how_far_it_is(long):
    told = []
    long.keeper().verify(progress=lambda *step: told.append(step))
    assert told == [("events", 1, 8), ("streams", 0, 1)]


CUTS = {
    "gone": lambda _raw: None,
    "empty": lambda _raw: b"",
    "zeros": lambda raw: bytes(len(raw)),
    "cut off": lambda raw: raw[: len(raw) // 2],
    "cut off and zeros": lambda raw: raw[:100] + bytes(len(raw) - 100),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_view_that_a_power_cut_took_is_to_be_rebuilt_and_not_damaged(tmp_path, cut):
    shop = Workshop(tmp_path)
    record = shop.keeper().start("dev", "a.md", tasks=["one"]).state["record"]
    shop.keeper().remember("something")
    views = [record, ".claude/workflow-state/index.json"]
    before = {name: shop.read(name) for name in views}
    for name, raw in before.items():
        after = CUTS[cut](raw)
        os.unlink(shop.path(name))
        if after is not None:
            shop.write(name, after)
    report = shop.keeper().verify()
    assert report.ok
    lines = [line for line in report.lines if line["level"] != "ok"]
    assert {(line["level"], line["what"]) for line in lines} == {("behind", name) for name in views}
    assert not any("edit" in line["message"] for line in lines)
    shop.keeper().repair()
    assert {name: shop.read(name) for name in views} == before
    assert os.listdir(os.path.dirname(shop.path(record))) == [os.path.basename(record)]


def test_a_damaged_ledger_is_not_to_be_rebuilt_but_repaired(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("dev", "a.md")
    connection = sqlite3.connect(shop.path(LEDGER))
    triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    for (name,) in connection.execute(triggers).fetchall():
        connection.execute(f'DROP TRIGGER "{name}"')
    connection.execute("""UPDATE events SET data = '{"x":1}' WHERE seq = 1""")
    connection.commit()
    connection.close()
    answer = shop.run("verify", "--json")
    assert answer.returncode == 1
    report = json.loads(answer.stdout)
    assert report["ok"] is False
    assert "error" in {line["level"] for line in report["lines"]}
