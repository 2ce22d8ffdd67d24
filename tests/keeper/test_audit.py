"""What ``verify`` says, in words."""

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


def test_a_long_ledger_is_checked_at_its_end_unless_everything_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "RECENT_EVENTS", 3)
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.start("dev", "a.md", tasks=["one", "two"])
    for number in range(4):
        keeper.remind(f"reminder {number}")
    messages = [line["message"] for line in shop.keeper().verify().lines]
    assert "events 1 to 5 were not checked: holdfast verify --everything" in messages
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_changed")
        connection.execute("UPDATE events SET at = '' WHERE seq = 2")
    connection.close()
    assert shop.keeper().verify().ok
    assert not shop.keeper().verify(everything=True).ok
