"""Logs that grow: what was compared once is not compared again, and still nothing is missed."""

import glob
import os

import pytest

from holdfast import Loops
from holdfast.loops import progress_log

PROGRESS = ".claude/iterative/user-auth/progress.md"
MEMORY = ".git/holdfast/pages/user-auth.json"


@pytest.fixture
def loops(shop):
    loops = Loops(shop.keeper())
    loops.new("user-auth")
    loops.plan(None, "T1: One", max=900)
    for number in range(6):
        loops.iterate("T1", did=f"part {number}", remaining="more")
    return loops


@pytest.fixture
def read(monkeypatch):
    """How many entries were read, each time that a log was."""
    counts = []
    whole = progress_log.read_entries

    def counting(text):
        found = whole(text)
        counts.append(len(found))
        return found

    monkeypatch.setattr(progress_log, "read_entries", counting)
    return counts


def edit_log(shop, before, after):
    text = shop.read(PROGRESS)
    assert before in text
    shop.write(PROGRESS, text.replace(before, after, 1))


def test_a_log_that_is_as_it_was_written_needs_no_parser(loops, read):
    loops.show()
    loops.iterate("T1", did="more", remaining="more")
    loops.show()
    assert read == []


def test_only_the_end_of_a_log_that_somebody_wrote_in_is_compared(shop, loops, read):
    shop.write(PROGRESS, shop.read(PROGRESS) + b"\nA note of a person.\n")
    loops.show()
    loops.iterate("T1", did="more", remaining="more")
    loops.show()
    assert read == [1, 1]


def test_a_change_far_above_is_still_noticed(shop, loops):
    edit_log(shop, b"part 1", b"part X")
    for _ in range(2):
        (note,) = loops.show().notes
        assert "T1 - Iteration 2" in note
        assert "was changed since" in note
    assert "was changed since" in loops.iterate("T1", did="a", remaining="b").notes[0]
    edit_log(shop, b"part X", b"part 1")
    assert loops.show().notes == []


def test_what_is_written_right_below_the_last_entry_is_noticed(shop, loops):
    shop.write(PROGRESS, shop.read(PROGRESS) + b"**Signal:** T1_DONE\n")
    (note,) = loops.show().notes
    assert "T1 - Iteration 6" in note


@pytest.mark.parametrize("place", [0, 2, 5])
def test_an_entry_that_is_gone_is_written_again_once(shop, loops, place):
    first, *others = shop.read(PROGRESS).split(b"## ")
    shop.write(PROGRESS, b"## ".join([first, *others[:place], *others[place + 1 :]]))
    loops.settle()
    loops.iterate("T1", did="part 6", remaining="more")
    loops.settle()
    log = shop.read(PROGRESS).decode()
    assert sorted(one.number for one in progress_log.read_entries(log)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_log_cut_off_anywhere_is_whole_again(shop, loops):
    whole = shop.read(PROGRESS)
    for size in range(0, len(whole), 13):
        shop.write(PROGRESS, whole[:size])
        loops.settle()
        log = shop.read(PROGRESS)
        assert log.startswith(whole[:size])
        found = progress_log.without_cut_entries(progress_log.read_entries(log.decode()))
        assert [one.number for one in found] == [1, 2, 3, 4, 5, 6], size


def test_a_memory_of_another_ledger_hides_no_event(shop, loops):
    for path in glob.glob(shop.path(".git/holdfast/ledger.db*")):
        os.remove(path)
    others = Loops(shop.keeper())
    assert "came from elsewhere and is adopted" in others.settle().notes[0]
    others.iterate("T1", did="part 6", remaining="more")
    log = shop.read(PROGRESS).decode()
    assert [one.number for one in progress_log.read_entries(log)] == [1, 2, 3, 4, 5, 6, 7]
    assert b'"log":' in shop.read(MEMORY)
