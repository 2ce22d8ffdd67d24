"""Promise 7: the same event id, retried any number of times, applies once."""

import random

import pytest

from holdfast import Fault, Refused
from holdfast.disk import Disk
from holdfast.ledger import file as ledger_file
from workshop import FULL, SEED, Workshop

pytestmark = pytest.mark.promise

ROUNDS = 400 if FULL else 60


class Doubtful(Disk):
    """A disk whose answers get lost: the call is carried out, or not, and then it fails."""

    def __init__(self, dice):
        super().__init__()
        self._dice = dice

    def _maybe(self, call, *args):
        fate = self._dice.random()
        if fate < 0.15:
            raise OSError(5, "the answer was lost before")
        result = call(*args)
        if fate > 0.85:
            raise OSError(5, "the answer was lost after")
        return result

    def write(self, fd, data):
        return self._maybe(super().write, fd, data)

    def sync(self, fd):
        return self._maybe(super().sync, fd)

    def exchange(self, one, other):
        return self._maybe(super().exchange, one, other)


def attempt(keeper, text, event_id):
    """Tries until it is acknowledged; every try is under the same id."""
    for tries in range(1, 200):
        try:
            return keeper().add_task(text, workflow="work", id=event_id), tries
        except Fault:
            continue
    raise AssertionError(f"{event_id} was never acknowledged")


@pytest.mark.parametrize("seed", [SEED + number for number in range(4 if FULL else 2)])
def test_a_command_whose_answer_was_lost_is_applied_once(tmp_path, monkeypatch, tally, seed):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", 4_000)
    dice = random.Random(seed)
    shop = Workshop(tmp_path)
    shop.keeper().start("custom", "Work")
    disk = Doubtful(dice)
    tried = 0
    for number in range(ROUNDS):
        receipt, tries = attempt(lambda: shop.keeper(disk=disk), f"task {number}", f"try-{number}")
        tried += tries
        again = shop.keeper().add_task(f"task {number}", workflow="work", id=f"try-{number}")
        assert again.seqs == receipt.seqs, f"seed {seed}"
    added = [e["data"]["description"] for e in shop.keeper().log() if e["type"] == "task_added"]
    assert added == [f"task {number}" for number in range(ROUNDS)], f"seed {seed}"
    assert shop.keeper().verify().ok, f"seed {seed}"
    tally("retries", commands=ROUNDS, tries=tried)


def test_a_retry_in_another_process_and_after_closed_segments_finds_the_first(
    tmp_path, monkeypatch
):
    shop = Workshop(tmp_path)
    shop.run("start", "custom", "Work", "--id", "open-1")
    assert b"2" in shop.run("task", "add", "one", "--id", "add-1", "--json").stdout
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", 1)
    for number in range(5):
        shop.keeper().add_task(f"more {number}", workflow="work")
    for _ in range(3):
        assert shop.run("task", "add", "one", "--id", "add-1", "--json").returncode == 0
        assert shop.run("start", "custom", "Work", "--id", "open-1", "--json").returncode == 0
    types = [event["type"] for event in shop.keeper().log()]
    assert types.count("workflow_started") == 1
    assert types.count("task_added") == 6


def test_the_retry_of_several_events_gives_all_their_seqs(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("planning", "Work")
    first = shop.keeper().advance(id="advance-1")
    assert len(first.seqs) == 2
    assert shop.keeper().advance(id="advance-1").seqs == first.seqs
    assert shop.keeper().show().state["phase"] == "Requirements"


def test_a_retry_that_was_refused_the_first_time_is_tried_again(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("custom", "Work")
    with pytest.raises(Refused):
        shop.keeper().complete_task(1, id="done-1")
    shop.keeper().add_task("one")
    assert shop.keeper().complete_task(1, id="done-1").seqs


@pytest.mark.parametrize("bad", ['a"b', "", "x" * 65, "ä", "a b", "a\nb"])
def test_an_id_that_could_be_mistaken_is_refused(tmp_path, bad):
    shop = Workshop(tmp_path)
    with pytest.raises(Refused) as refused:
        shop.keeper().start("custom", "Work", id=bad)
    assert refused.value.code == "invalid"
