"""Events that are read from the pages of a database, without SQLite."""

import sqlite3
from contextlib import closing

import pytest

from holdfast.core.json_text import digest, dumps
from holdfast.storage.database import _schema
from holdfast.storage.ledger import EVENT_COLUMNS, body_of
from holdfast.storage.salvage import events_in, fill_gaps

TEXTS = ("short", "größer 漢字 🦉 \x7f\u2028", "", "x" * 3_000, "é" * 9_000, "long " * 40_000)
"""One that takes several pages is among them, for every page size."""
PAGE_SIZES = [512, 1024, 4096, 16384, 65536]


def rows_of(count, *, first=1, prev="", stream="one", texts=TEXTS):
    """Return the rows of a chain of events."""
    rows = []
    for number in range(count):
        data = dumps({"text": texts[number % len(texts)], "number": number})
        seq, by = first + number, '{"surface":"cli"}'
        at, own_id = "2026-01-02T03:04:05.678Z", f"request-{stream}-{seq}"
        body = (seq, own_id, at, stream, seq, 1, "noted", data, by, None, prev)
        prev = digest(body_of(body).encode())
        rows.append((*body, prev))
    return rows


def connected(path, page_bytes=4096):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    connection.executescript(_schema())
    return closing(connection)


def insert(connection, rows):
    marks = ",".join("?" * 12)
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({marks})", rows)
    connection.execute("COMMIT")


def database_of(path, rows, page_bytes=4096):
    with connected(path, page_bytes) as connection:
        insert(connection, rows)
    return path.read_bytes()


def found(pages, journal=b""):
    return sorted(set(events_in(pages, journal)))


def types_of_pages(pages, page_bytes=4096):
    return {at: pages[at] for at in range(page_bytes, len(pages), page_bytes)}


@pytest.mark.parametrize("page_bytes", PAGE_SIZES)
def test_every_event_is_read_whatever_the_page_size(tmp_path, page_bytes):
    rows = rows_of(24)
    assert found(database_of(tmp_path / "a.db", rows, page_bytes)) == rows


def test_events_about_as_long_as_a_page_are_read(tmp_path):
    rows = rows_of(400, texts=["x" * length for length in range(3_700, 4_100)])
    pages = database_of(tmp_path / "a.db", rows)
    assert found(pages) == rows


def test_large_and_imported_numbers_are_read(tmp_path):
    rows = [
        row
        for first in (1, 127, 128, 16_383, 16_384, 2**31, 2**47, 2**55)
        for row in rows_of(1, first=first)
    ]
    part = (*rows[0][:9], "[1,2]", rows[0][10])
    rows[0] = (*part, digest(body_of(part).encode()))
    assert found(database_of(tmp_path / "a.db", rows)) == rows


def test_every_event_is_read_after_a_vacuum(tmp_path):
    rows = rows_of(200)
    path = tmp_path / "a.db"
    with connected(path) as connection:
        insert(connection, rows)
        connection.execute("DROP TRIGGER events_are_never_removed")
        connection.execute("DELETE FROM events WHERE seq % 3 = 0")
        connection.execute("VACUUM")
    assert found(path.read_bytes()) == [row for row in rows if row[0] % 3]


def test_events_on_free_pages_are_read(tmp_path):
    rows = rows_of(200, texts=["short"])
    path = tmp_path / "a.db"
    with connected(path) as connection:
        insert(connection, rows)
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("DROP TABLE events")
    assert found(path.read_bytes()) == rows


def test_no_event_is_lost_with_the_pages_above_the_leaves(tmp_path):
    rows = rows_of(3_000, texts=["short", "x" * 900])
    pages = bytearray(database_of(tmp_path / "a.db", rows, 512))
    above = [at for at, kind in types_of_pages(pages, 512).items() if kind in (0x02, 0x05)]
    assert len(above) > 20
    for at in above:
        pages[at : at + 512] = bytes(512)
    assert found(bytes(pages)) == rows


def test_no_event_is_lost_with_the_headers_of_pages(tmp_path):
    rows = rows_of(100, texts=["short"])
    pages = bytearray(database_of(tmp_path / "a.db", rows))
    leaves = [at for at, kind in types_of_pages(pages).items() if kind == 0x0D]
    for at in [0, *leaves]:
        pages[at : at + 64] = bytes(64)
    assert found(bytes(pages)) == rows


def test_a_file_that_was_cut_has_the_events_before_the_cut(tmp_path):
    rows = rows_of(100, texts=["short"])
    pages = database_of(tmp_path / "a.db", rows)
    counts = [len(found(pages[:length])) for length in range(0, len(pages) + 1, 1_111)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert len(found(pages[:-1])) >= len(rows) - 1


def test_a_changed_event_is_not_read(tmp_path):
    rows = rows_of(12, texts=["short", "x" * 9_000])
    pages = database_of(tmp_path / "a.db", rows)
    for row in (rows[2], rows[5]):
        number = f'"number":{row[0] - 1}}}'.encode()
        pages = pages.replace(number, number.replace(b"number", b"member"))
    assert found(pages) == [row for row in rows if row[0] not in (3, 6)]


def test_a_chain_of_pages_that_ends_nowhere_is_left(tmp_path):
    rows = rows_of(3, texts=["é" * 9_000])
    pages = bytearray(database_of(tmp_path / "a.db", rows))
    for at in range(4096, len(pages), 4096):
        if pages[at] == 0:  # A page that continues a row names the next one first.
            pages[at : at + 4] = (1 + at // 4096).to_bytes(4, "big")
    assert found(bytes(pages)) == []


def test_bytes_that_are_no_database_have_no_events():
    assert found(b"") == []
    assert found(b"\0" * 10_000, b"\0" * 10_000) == []
    assert found(bytes(range(256)) * 100, bytes(range(255, -1, -1)) * 100) == []


@pytest.fixture
def journaled(tmp_path):
    """Return a database, its journal with the later half of the events, and all events."""
    rows = rows_of(60)
    path = tmp_path / "a.db"
    with connected(path) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        insert(connection, rows[:30])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for row in rows[30:]:
            insert(connection, [row])
        return path.read_bytes(), (tmp_path / "a.db-wal").read_bytes(), rows


def test_events_of_the_journal_are_read(journaled):
    pages, journal, rows = journaled
    assert found(pages) == rows[:30]
    assert found(pages, journal) == rows


def test_a_journal_is_read_behind_its_damaged_frames(journaled):
    pages, journal, rows = journaled
    for at in range(32, len(journal), 70 * 4_120):
        damaged = journal[:at] + bytes(4_120) + journal[at + 4_120 :]
        assert len(found(pages, damaged)) >= len(rows) - 1  # That frame may be part of a long one.
    assert found(pages, bytes(32) + journal[32:]) == rows


def test_a_damaged_frame_leaves_the_same_page_of_the_database(journaled):
    pages, _, rows = journaled
    page_numbers = range(1, len(pages) // 4096 + 1)
    frames = [number.to_bytes(4, "big") + bytes(4_116) for number in page_numbers]
    assert found(pages, bytes(32) + b"".join(frames)) == rows[:30]


def test_what_the_journal_committed_comes_before_what_it_did_not(tmp_path):
    path = tmp_path / "a.db"
    journal = tmp_path / "a.db-wal"
    with connected(path) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        insert(connection, rows_of(3, stream="first"))
        committed = journal.read_bytes()
        connection.execute("DROP TRIGGER events_are_never_removed")
        connection.execute("DELETE FROM events")
        start = journal.stat().st_size
        insert(connection, rows_of(3, stream="other"))
        unfinished = bytearray(journal.read_bytes()[start:])
    for at in range(0, len(unfinished), 4_120):
        unfinished[at + 4 : at + 8] = bytes(4)  # No frame ends the transaction.
    both = [row[3] for row in events_in(b"", committed + bytes(unfinished))]
    assert both.index("first") < both.index("other")


# Which of the events belong together


def by_seq(rows):
    return {row[0]: row for row in rows}


def test_gaps_are_filled_by_events_that_agree_with_both_sides():
    rows = rows_of(9)
    sound = by_seq([*rows[:3], *rows[6:]])
    assert fill_gaps(sound, rows) == by_seq(rows)
    others = rows_of(3, first=4, prev="another", stream="other")
    assert fill_gaps(sound, others) == sound
    assert fill_gaps(sound, [*others, *rows]) == by_seq(rows)


def test_what_follows_a_refused_event_is_refused():
    rows = rows_of(5)
    rolled_back = rows_of(6, first=3, prev=rows[1][11], stream="other")
    assert fill_gaps(by_seq(rows), rolled_back) == by_seq(rows)


def test_events_after_the_last_one_are_kept_behind_a_gap():
    rows = rows_of(9)
    assert fill_gaps(by_seq(rows[:3]), rows[5:]) == by_seq([*rows[:3], *rows[5:]])


def test_of_two_chains_the_newest_wins_as_a_whole():
    rows = rows_of(6)
    older = rows_of(4, first=3, prev=rows[1][11], stream="older")
    assert fill_gaps({}, [*rows, *older]) == by_seq(rows)
    assert fill_gaps({}, [*older, *rows]) == by_seq([*rows[:2], *older])
