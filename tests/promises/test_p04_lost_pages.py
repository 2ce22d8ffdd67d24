"""Promise 4, further: pages of the ledger that are gone take only their own events with them.

Whatever page is zeroed, wherever the file ends, and whatever the journal has lost: ``repair`` keeps
each event whose bytes are still somewhere, and names the others.
"""

import re
import shutil
import sqlite3

import pytest

from support.workshop import Workshop, sampled

pytestmark = pytest.mark.promise(4)

LEDGER = ".claude/holdfast/ledger.db"
JOURNAL = f"{LEDGER}-wal"
PAGE = 4096
FRAME = 24 + PAGE
LONG = 7
"""One of so many events takes several pages."""


class Sound:
    """A workspace of some events in which nothing is wrong, to be damaged again and again."""

    def __init__(self, folder, *, is_checkpointed):
        shop = Workshop(folder / "sound", git=False)
        keeper = shop.keeper()
        self.workflow = keeper.start("custom", "a process", phases=["one", "two"]).state["id"]
        for number in range(56):
            text = "長い" * 1_900 if number % LONG == 0 else "größer"
            keeper.set_context({"note": f"{number} {text}"})
        self.events = keeper.log()
        self.context = keeper.show().state["context"]
        self.clock_ms = shop.clock.ms
        with sqlite3.connect(shop.path(LEDGER)) as connection:
            if is_checkpointed:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            query = "SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0"
            self.roots = dict(connection.execute(query))
            self.files = {
                path: data
                for path, data in shop.files().items()
                if not path.endswith(("-shm", "lock"))
            }
        connection.close()
        self.shop = Workshop(folder / "damaged", git=False)

    @property
    def pages(self):
        return len(self.files[LEDGER]) // PAGE

    @property
    def frames(self):
        return (len(self.files[JOURNAL]) - 32) // FRAME

    def damaged(self, **files):
        """Return the workspace again, with other bytes in the ledger or its journal."""
        shutil.rmtree(self.shop.root)
        changed = {{"ledger": LEDGER, "journal": JOURNAL}[name]: files[name] for name in files}
        for name, data in {**self.files, **changed}.items():
            self.shop.write(name, data)
        self.shop.clock.ms = self.clock_ms
        return self.shop

    def zeroed(self, name, start, size):
        """Return the bytes of the ledger or its journal, with zeros from a byte on."""
        raw = self.files[{"ledger": LEDGER, "journal": JOURNAL}[name]]
        return raw[:start] + bytes(len(raw[start : start + size])) + raw[start + size :]

    def short_ones(self):
        return {event["seq"] for event in self.events if not is_long(event)}

    def short_ones_in(self, *files):
        """Return the seqs of the short events that have a row in some bytes."""
        return {
            event["seq"]
            for event in self.events
            if not is_long(event) and any(row_part(event) in raw for raw in files)
        }

    def check_repaired(self, **files):
        """Repair a damaged ledger; return the seqs of the events that are lost."""
        shop = self.damaged(**files)
        report = shop.keeper().repair()
        assert report.ok, report.lines
        told = [line["message"] for line in report.lines if line["what"] == "ledger.db"]
        own = {event["id"]: event for event in self.events}
        kept = {event["id"]: event for event in shop.keeper().log() if event["id"] in own}
        assert all(own[name] == event for name, event in kept.items())
        lost = {event["seq"] for name, event in own.items() if name not in kept}
        if told:
            assert f"was made anew with {len(kept)} event" in told[0]
            assert named_in(told) <= lost
            last = max((event["seq"] for event in kept.values()), default=0)
            assert {seq for seq in lost if seq < last} <= named_in(told)
        assert shop.keeper().show(workflow=self.workflow).state["context"] == self.context
        shop.keeper().set_context({"goes": "on"}, workflow=self.workflow)
        assert shop.keeper().verify().ok
        return lost


def is_long(event):
    return "長" in str(event["data"])


def row_part(event):
    """Return bytes that only the row of an event has: three of its columns, side by side."""
    return (event["id"] + event["at"] + event["stream"]).encode()


def named_in(messages):
    """Return the seqs of events that messages name as lost."""
    seqs = set()
    for message in messages:
        if match := re.fullmatch(r"events? (\d+)(?: to (\d+))? (?:is|are) lost", message):
            seqs |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return seqs


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return Sound(tmp_path_factory.mktemp("sound"), is_checkpointed=True)


@pytest.fixture(scope="module")
def journaled(tmp_path_factory):
    return Sound(tmp_path_factory.mktemp("journaled"), is_checkpointed=False)


def test_no_event_is_lost_with_the_root_of_a_table_or_an_index(sound):
    for name, number in sound.roots.items():
        start = (number - 1) * PAGE
        assert sound.check_repaired(ledger=sound.zeroed("ledger", start, PAGE)) == set(), name


def test_no_event_is_lost_with_the_pages_above_the_rows(sound):
    ledger = bytearray(sound.files[LEDGER])
    for start in range(PAGE, len(ledger), PAGE):
        if ledger[start] in (2, 5, 10):  # Inner pages of a table or an index, rows of an index.
            ledger[start : start + PAGE] = bytes(PAGE)
    assert sound.check_repaired(ledger=bytes(ledger)) == set()


def test_a_page_that_is_gone_takes_only_its_own_events(sound, tally):
    numbers = sampled(range(sound.pages), 16, "pages")
    for number in numbers:
        ledger = sound.zeroed("ledger", number * PAGE, PAGE)
        lost = sound.check_repaired(ledger=ledger)
        assert sound.short_ones() - lost == sound.short_ones_in(ledger), number
        assert len(lost - sound.short_ones()) <= PAGE // 400
    tally("lost pages", pages=len(numbers))


def test_no_event_is_lost_with_the_header_of_the_file(sound):
    assert sound.check_repaired(ledger=sound.zeroed("ledger", 0, 100)) == set()
    for byte, value in ((16, b"\x02\0"), (16, b"\xff\xff"), (18, b"\1\1"), (20, b"\x20")):
        raw = sound.files[LEDGER]
        ledger = raw[:byte] + value + raw[byte + len(value) :]
        assert sound.check_repaired(ledger=ledger) == set(), (byte, value)


def test_no_event_is_lost_with_the_headers_of_its_pages(sound):
    ledger = bytearray(sound.files[LEDGER])
    for start in range(PAGE, len(ledger), PAGE):
        if ledger[start] == 13:
            size = 8 + 2 * int.from_bytes(ledger[start + 3 : start + 5], "big")
            ledger[start : start + size] = bytes(size)
    assert sound.check_repaired(ledger=bytes(ledger)) == set()


def test_a_file_that_was_cut_keeps_the_events_before_the_cut(sound):
    for length in sampled(range(0, sound.pages * PAGE, 1_777), 8, "cuts"):
        ledger = sound.files[LEDGER][:length]
        whole = sound.short_ones_in(ledger[: length // PAGE * PAGE])
        assert not whole & sound.check_repaired(ledger=ledger), length


def test_what_only_the_journal_has_is_kept(journaled):
    files = journaled.files
    assert len(journaled.short_ones_in(files[JOURNAL])) > 10
    lost = journaled.check_repaired(ledger=bytes(len(files[LEDGER])))
    assert not journaled.short_ones_in(files[JOURNAL]) & lost


def test_no_event_is_lost_with_the_header_of_the_journal(journaled):
    assert journaled.check_repaired(journal=journaled.zeroed("journal", 0, 32)) == set()


def test_a_frame_of_the_journal_that_is_gone_takes_only_its_own_events(journaled, tally):
    files = journaled.files
    numbers = sampled(range(journaled.frames), 16, "frames")
    for number in numbers:
        journal = journaled.zeroed("journal", 32 + number * FRAME, FRAME)
        lost = journaled.check_repaired(journal=journal)
        assert journaled.short_ones() - lost >= journaled.short_ones_in(files[LEDGER], journal)
        assert len(lost) <= 1, number
    tally("lost frames", frames=len(numbers))
