"""Promise 4: a flipped bit is detected and named; other events stay readable."""

import os
import shutil

import pytest

from holdfast.ledger import file as ledger_file
from workshop import HOME, LEDGER, Workshop, lines_of, sampled, without_time

pytestmark = pytest.mark.promise(4)

PARTS = 8
"""A full run is divided into so many tests, for as many cores."""
SAMPLE = 60
REPAIRED = 12
"""One of so many damaged ledgers is repaired as well."""


class Sound:
    """A small workspace in which nothing is wrong, to be damaged again and again."""

    def __init__(self, folder, rounds):
        self.folder = folder
        shop = Workshop(folder / "sound", git=False)
        keeper = shop.keeper()
        tdd = keeper.start("tdd", "a function", tasks=["only"]).state["id"]
        own = keeper.start("custom", "a process", phases=["one", "two"]).state["id"]
        for number in range(rounds):
            keeper.remind(f"reminder {number}", workflow=tdd)
            keeper.set_context({"seq": {"seq": number}}, workflow=own)
        keeper.advance(workflow=tdd)
        self.files = shop.files()
        self.clock_ms = shop.clock.ms
        self.events = keeper.log()
        self.states = {one: keeper.show(workflow=one).state for one in (tdd, own)}
        self.home = {path: data for path, data in self.files.items() if path.startswith(HOME)}

    def damaged(self, path, byte, bit, where="again"):
        """The workspace again, with one bit of one file flipped."""
        shop = Workshop(self.folder / where, git=False)
        shutil.rmtree(shop.root)
        for name, data in self.files.items():
            shop.write(name, data)
        shop.clock.ms = self.clock_ms
        self.flip(shop, path, byte, bit)
        return shop

    def flip(self, shop, path, byte, bit):
        raw = bytearray(self.files[path])
        raw[byte] ^= 1 << bit
        shop.write(path, bytes(raw))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return Sound(tmp_path_factory.mktemp("sound"), 2)


@pytest.fixture(scope="module")
def in_segments(tmp_path_factory):
    """The same with closed segments and a catalog."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_file, "SEGMENT_BYTES", 1_800)
        return Sound(tmp_path_factory.mktemp("segments"), 6)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", 1_800)


def bits_of(sound, path):
    return [(path, byte, bit) for byte in range(len(sound.files[path])) for bit in range(8)]


def closed_segments(sound):
    return sorted(path for path in sound.home if path.startswith(f"{HOME}/ledger-"))


def is_last_line_end(sound, path, byte):
    return byte == len(sound.files[path]) - 1


def check_detected(sound, shop, path, byte):
    """Verify names file and line; the log has every event but the damaged one."""
    name = os.path.basename(path)
    line = sound.files[path].count(b"\n", 0, byte) + 1
    before = shop.files()
    keeper = shop.keeper()
    said = [text for text in lines_of(keeper) if name in text]
    left = keeper.log()
    assert shop.files() == before, "looking changes nothing"
    if is_last_line_end(sound, path, byte) and path == LEDGER:
        assert any("after the last commit" in text for text in said)
        return
    assert any(f"{name}:{near}: " in text for near in (line, line + 1) for text in said), said
    assert not keeper.verify().ok
    lost = [event for event in sound.events if event not in left]
    assert [event for event in left if event not in sound.events] == []
    assert len(lost) <= 1
    if sound.files[path][byte : byte + 1] == b"\n":
        assert lost == []


def check_whole(sound, keeper):
    """What the records knew is still known, and the history is in its order."""
    for workflow, state in sound.states.items():
        assert without_time(keeper.show(workflow=workflow).state) == without_time(state)
    seqs = [event["seq"] for event in keeper.log()]
    assert seqs == sorted(set(seqs))


def check_repaired(sound, shop, path, byte):
    damaged = shop.read(path)
    keeper = shop.keeper()
    report = keeper.repair()
    assert report.ok, report.lines
    fresh = shop.keeper()
    assert lines_of(fresh) == []
    kept = [event for event in sound.events if event in fresh.log()]
    assert len(kept) >= len(sound.events) - 1
    if not is_last_line_end(sound, path, byte):
        assert any(kept.startswith(damaged) for kept in shop.quarantined())
    check_whole(sound, fresh)


def check_flips(sound, flips):
    """Every flip is detected; of some of them it is seen how the workspace goes on, too."""
    shop = sound.damaged(*flips[0], where="looked at")
    for number, (path, byte, bit) in enumerate(flips):
        sound.flip(shop, path, byte, bit)
        check_detected(sound, shop, path, byte)
        shop.write(path, sound.files[path])
        if number % REPAIRED == 0:
            check_goes_on(sound, (path, byte, bit), number // REPAIRED)


def check_goes_on(sound, flip, number):
    path, byte, bit = flip
    shop = sound.damaged(path, byte, bit)
    if number % 2:
        # Others may go on before anybody repairs anything.
        check_whole(sound, shop.keeper())
        shop.keeper().workflows()
        first = next(iter(sound.states))
        shop.keeper().set_context({"went": "on"}, workflow=first)
        shop.keeper().do("set_context", {"values": {"went": None}}, workflow=first)
        assert shop.keeper().show(workflow=first).state["context"]["went"] is None
        assert shop.keeper().repair().ok
        assert lines_of(shop.keeper()) == []
        return
    check_repaired(sound, shop, path, byte)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_bit_of_the_ledger(part, sound, tally):
    flips = sampled(bits_of(sound, LEDGER)[part::PARTS], SAMPLE, f"open {part}")
    check_flips(sound, flips)
    tally("flipped bits", flips=len(flips))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_bit_of_the_closed_segments(part, in_segments, tally):
    paths = closed_segments(in_segments)
    assert len(paths) >= 2
    everywhere = [flip for path in paths for flip in bits_of(in_segments, path)]
    flips = sampled(everywhere[part::PARTS], SAMPLE, f"closed {part}")
    check_flips(in_segments, flips)
    tally("flipped bits", flips=len(flips))


def line_ends(sound):
    raw = sound.files[LEDGER]
    return [byte for byte in range(len(raw)) if raw[byte] == 0x0A]


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_line_end_takes_no_event_with_it(bit, sound):
    for byte in line_ends(sound):
        shop = sound.damaged(LEDGER, byte, bit)
        check_detected(sound, shop, LEDGER, byte)
        shop.keeper().workflows()
        check_repaired(sound, shop, LEDGER, byte)
        assert [event for event in sound.events if event not in shop.keeper().log()] == []


def test_bits_of_every_event_flipped_at_once_are_all_named(sound):
    raw = bytearray(sound.files[LEDGER])
    for byte in line_ends(sound):
        raw[byte - 40] ^= 1
    shop = sound.damaged(LEDGER, 0, 0)
    shop.write(LEDGER, bytes(raw))
    keeper = shop.keeper()
    said = "\n".join(lines_of(keeper))
    for line in range(1, len(sound.events) + 1):
        assert f"{os.path.basename(LEDGER)}:{line}: " in said
    check_whole(sound, shop.keeper())
    assert keeper.repair().ok
    check_whole(sound, shop.keeper())
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("lost", range(2))
def test_without_a_record_what_is_left_of_a_history_is_still_served(lost, sound):
    """One of a workflow's first events is gone, and so is its record."""
    raw = sound.files[LEDGER]
    byte = line_ends(sound)[lost] - 100
    shop = sound.damaged(LEDGER, byte, 0)
    workflow = next(iter(sound.states))
    assert raw[byte]
    os.unlink(shop.path(sound.states[workflow]["record"]))
    report = shop.keeper().repair()
    assert report.ok, report.lines
    assert lines_of(shop.keeper()) == []
    rows, _ = shop.keeper().workflows()
    others = [one for one in sound.states if one != workflow]
    assert set(others) <= {row["id"] for row in rows}


def test_a_damaged_end_of_a_closed_segment_takes_no_event_with_it(in_segments):
    for path in closed_segments(in_segments):
        byte = len(in_segments.files[path]) - 1
        shop = in_segments.damaged(path, byte, 2)
        check_detected(in_segments, shop, path, byte)
        check_whole(in_segments, shop.keeper())
        assert shop.keeper().repair().ok
        assert lines_of(shop.keeper()) == []
        assert shop.read(path) == in_segments.files[path]


def test_a_flipped_bit_of_the_catalog_misleads_nobody(in_segments, tally):
    path = f"{HOME}/catalog.ndjson"
    listed, _ = in_segments.damaged(path, 0, 0).keeper().workflows()
    flips = sampled(bits_of(in_segments, path), SAMPLE, "catalog")
    shop = in_segments.damaged(*flips[0])
    for _, byte, bit in flips:
        in_segments.flip(shop, path, byte, bit)
        damaged = shop.files()
        assert any("catalog.ndjson" in line for line in lines_of(shop.keeper()))
        assert shop.keeper().workflows()[0] == listed
        check_whole(in_segments, shop.keeper())
        assert shop.files() == damaged, "nothing was written where it does not belong"
    shop.keeper().repair()
    assert shop.read(path) == in_segments.files[path]
    tally("flipped bits", flips=len(flips))
