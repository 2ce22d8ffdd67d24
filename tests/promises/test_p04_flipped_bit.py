"""Promise 4: a flipped bit of the ledger is detected and named; what is sound stays readable.

SQLite leaves bytes unused, and a flip among those changes nothing. So for every flip: either
``verify`` names damage, or every answer is what it was. ``repair`` makes a new ledger of what can
be read, and keeps the damaged file beside it as it was.
"""

import shutil
import sqlite3

import pytest

from holdfast import HoldfastError
from holdfast.core.workflow.edits import as_adopted
from support.workshop import Workshop, lines_of, sampled, without_time

pytestmark = pytest.mark.promise(4)

HOME = ".claude/holdfast"
LEDGER = f"{HOME}/ledger.db"
VERSION = {(LEDGER, byte) for byte in range(60, 64)}
"""The schema's version in SQLite's header. Another number there is that of a newer Holdfast, whose
ledger is read and never changed (``acceptance/test_newer_version.py``)."""
PARTS = 8
"""A full run is divided into so many tests, for as many cores."""
SAMPLE = 20
REPAIRED = 6
"""One of so many damaged ledgers is repaired as well."""


class Sound:
    """A small workspace in which nothing is wrong, to be damaged again and again."""

    def __init__(self, folder, *, is_checkpointed):
        self.folder = folder
        shop = Workshop(folder / "sound", git=False)
        keeper = shop.keeper()
        tdd = keeper.start("tdd", "a function", tasks=["only"]).state["id"]
        own = keeper.start("custom", "a process", phases=["one", "two"]).state["id"]
        for number in range(12):
            keeper.remind(f"reminder {number}", workflow=tdd)
            keeper.set_context({"seq": {"seq": number}}, workflow=own)
        keeper.advance(force=True, reason="known", workflow=tdd)
        keeper.remember("a learning")
        self.events = keeper.log()
        self.states = {one: keeper.show(workflow=one).state for one in (tdd, own)}
        self.rows = keeper.workflows()[0]
        self.clock_ms = shop.clock.ms
        if is_checkpointed:
            connection = sqlite3.connect(shop.path(LEDGER))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        self.files = {
            path: data for path, data in shop.files().items() if not path.endswith(("-shm", "lock"))
        }
        self.shop = Workshop(folder / "damaged", git=False)

    def damaged(self, path, byte, bit):
        """Return the workspace again, with one bit of one file flipped."""
        shop = self.shop
        shutil.rmtree(shop.root)
        for name, data in self.files.items():
            shop.write(name, data)
        raw = bytearray(self.files[path])
        raw[byte] ^= 1 << bit
        shop.write(path, bytes(raw))
        shop.clock.ms = self.clock_ms
        return shop

    def bits_of(self, path):
        places = [byte for byte in range(len(self.files[path])) if (path, byte) not in VERSION]
        return [(path, byte, bit) for byte in places for bit in range(8)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return Sound(tmp_path_factory.mktemp("sound"), is_checkpointed=True)


@pytest.fixture(scope="module")
def journaled(tmp_path_factory):
    """Return the same with most of the ledger still in the journal."""
    return Sound(tmp_path_factory.mktemp("journaled"), is_checkpointed=False)


def answer(ask):
    """Return an answer, or the error's code; anything else is a mistake of ours."""
    try:
        return ask()
    except HoldfastError as error:
        return error.code


def answers(keeper, states):
    """Return all that can be asked without changing anything."""
    return {
        "log": answer(keeper.log),
        "rows": answer(lambda: keeper.workflows()[0]),
        **{one: answer(lambda one=one: keeper.show(workflow=one).state) for one in states},
        "learnings": answer(keeper.learnings),
        "context": answer(keeper.context),
    }


def kept_files(shop):
    """Return what a repair kept beside the ledger, by its bytes."""
    return [data for path, data in shop.files().items() if ".damaged-" in path]


def check_looked_at(sound, shop, expected):
    """Verify names the damage, or nothing is different; and a look changes nothing."""
    before = {path: data for path, data in shop.files().items() if not path.endswith("-shm")}
    keeper = shop.keeper()
    report = keeper.verify()
    told = answers(shop.keeper(), sound.states)
    is_named = not report.ok or any(line["level"] == "behind" for line in report.lines)
    assert is_named or told == expected
    if report.ok:
        assert told["log"] == expected["log"]
    after = {path: data for path, data in shop.files().items() if not path.endswith("-shm")}
    assert {path: after.get(path) for path in before} == before
    return report.ok


def check_repaired(sound, shop, path):
    damaged = shop.read(path)
    report = shop.keeper().repair()
    assert report.ok, report.lines
    fresh = shop.keeper()
    assert lines_of(fresh) == []
    if any("was made anew" in line["message"] for line in report.lines):
        assert damaged in kept_files(shop)
    own = {event["id"]: event for event in sound.events}
    kept = [event for event in fresh.log() if event["id"] in own]
    assert all(own[event["id"]] == event for event in kept)
    assert len(kept) >= len(own) - 1
    for workflow, state in sound.states.items():
        # Where its events are lost, it comes from its record, which is not evidence.
        possible = [without_time(state), without_time(as_adopted(state))]
        now = fresh.show(workflow=workflow).state
        # What the last event changed may come back as an edit of the record.
        history = [entry for entry in now["history"] if entry["event"] != "record_edited"]
        assert without_time({**now, "history": history}) in possible
    fresh.add_task("goes on", workflow=next(iter(sound.states)))
    assert shop.keeper().verify().ok


def check_flips(sound, flips):
    whole = sound.damaged(*flips[0])
    whole.write(flips[0][0], sound.files[flips[0][0]])
    expected = answers(whole.keeper(), sound.states)
    named = 0
    for number, (path, byte, bit) in enumerate(flips):
        shop = sound.damaged(path, byte, bit)
        try:
            is_whole = check_looked_at(sound, shop, expected)
            named += not is_whole
            if number % REPAIRED == 0 or not is_whole:
                check_repaired(sound, shop, path)
        except BaseException as error:
            error.add_note(f"{path}: byte {byte}, bit {bit}")
            raise
    return named


@pytest.mark.parametrize("part", range(PARTS))
def test_every_bit_of_the_ledger(part, sound, tally):
    flips = sampled(sound.bits_of(LEDGER)[part::PARTS], SAMPLE, f"ledger {part}")
    named = check_flips(sound, flips)
    tally("flipped bits", flips=len(flips), named=named)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_bit_of_the_journal(part, journaled, tally):
    flips = sampled(journaled.bits_of(f"{LEDGER}-wal")[part::PARTS], SAMPLE, f"journal {part}")
    named = check_flips(journaled, flips)
    tally("flipped bits", flips=len(flips), named=named)
