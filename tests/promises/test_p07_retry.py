"""Promise 7: the same id, retried any number of times, applies once.

A caller that got no answer does not know whether its command was carried out, so it asks again.
Here callers ask again and again: from the same process and from others, after kills in the middle,
after torn writes, with closed segments in between and views taken away. The answer is the same.
"""

import os
import random

import pytest

import holdfast.ledger.file as ledger_file
from holdfast import Fault, Refused
from promises.disks import DoubtfulDisk, FailingDisk
from promises.journeys import PHASES, Site, call, journey
from promises.zygote import Zygote
from workshop import SEED, many, sampled

pytestmark = pytest.mark.promise(7)

SEGMENT_BYTES = 1200
ROUNDS = 40
SEEDS = range(SEED, SEED + many(2, 12))


@pytest.fixture
def zygote():
    started = Zygote()
    yield started
    started.close()


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", SEGMENT_BYTES)


class Caller:
    """Somebody who asks, does not always hear the answer, and asks again."""

    def __init__(self, site, zygote, lots):
        self.site, self.zygote, self.lots = site, zygote, lots
        self.keeper = site.keeper()
        self.lines = {}
        self.answers = {}
        self.attempts = 0

    def ask(self, name):
        """One attempt, in one of the ways; an answer must be the one that was given before."""
        self.attempts += 1
        ways = [self.here, self.fresh, self.other, self.dying, self.dying, self.failing]
        ways.append(self.doubtful)
        seqs = self.lots.choice(ways)(self.site.words(self.lines[name], name), name)
        if seqs is not None:
            assert self.answers.setdefault(name, seqs) == seqs

    def here(self, _words, name):
        return self.site.do(self.lines[name], name, self.keeper).seqs

    def fresh(self, _words, name):
        return self.site.do(self.lines[name], name).seqs

    def other(self, words, _name):
        answer = self.zygote.run(self.site.root, words, segment_bytes=SEGMENT_BYTES)
        return answer["seqs"]

    def dying(self, words, _name):
        """The process dies at some call, perhaps in the middle of a write."""
        torn = self.lots.choice([0.0, 0.5, 0.999, 1.0])
        at = self.lots.randint(1, 16)
        how = {"at": at, "torn": torn, "segment_bytes": SEGMENT_BYTES}
        return self.zygote.run(self.site.root, words, **how).get("seqs")

    def failing(self, _words, name):
        disk = FailingDisk(self.lots.randint(1, 16), once=self.lots.random() < 0.5)
        try:
            return self.site.do(self.lines[name], name, self.site.keeper(disk=disk)).seqs
        except Fault:
            return None

    def doubtful(self, _words, name):
        try:
            disk = DoubtfulDisk(self.lots)
            return self.site.do(self.lines[name], name, self.site.keeper(disk=disk)).seqs
        except Fault:
            return None

    def mischief(self):
        """Something that happens to files now and then."""
        choice = self.lots.randrange(8)
        state = self.keeper.show(workflow=self.site.workflow).state
        if choice == 0:
            _remove(os.path.join(self.site.root, state["record"]))
        elif choice == 1:
            _remove(os.path.join(self.site.home, "catalog.ndjson"))
        elif choice == 2:
            _cut_last_byte(os.path.join(self.site.home, "ledger.ndjson"))


def _remove(path):
    if os.path.exists(path):
        os.unlink(path)


def _cut_last_byte(path):
    """The newline at the end did not make it to the disk."""
    if os.path.exists(path) and os.path.getsize(path):
        os.truncate(path, os.path.getsize(path) - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_attempts_under_one_id_are_one_event(seed, quick, zygote, tally):
    lots = random.Random(seed)
    site = Site.made(os.path.join(quick, "site"))
    caller = Caller(site, zygote, lots)
    site.do(["start", "dev", "the subject"], "first")
    for number in range(ROUNDS):
        name = f"ask-{number}"
        line = lots.choice(["remind", "task add"]).split()
        caller.lines[name] = [*line, f"said {name}"]
        for _ in range(lots.randint(1, 4)):
            caller.ask(name)
            caller.mischief()
            if lots.random() < 0.3:
                caller.ask(lots.choice(list(caller.lines)))
        while name not in caller.answers:
            caller.ask(name)
    caller.fresh([], name)  # It mends the tail that the last mischief cut.
    check_once(site, caller)
    tally("retries", attempts=caller.attempts, commands=len(caller.lines))


def check_once(site, caller):
    ids = site.ids()
    assert sorted(name for name in ids if name in caller.lines) == sorted(caller.lines)
    by_id = {event["id"]: event["seq"] for event in site.events()}
    assert {name: seqs[0] for name, seqs in caller.answers.items()} == {
        name: by_id[name] for name in caller.answers
    }
    state = site.keeper().show(workflow=site.workflow).state
    said = [*state["reminders"], *(task["description"] for task in state["tasks"])]
    assert sorted(said) == sorted(f"said {name}" for name in caller.lines)
    assert len(site.keeper()._engine.ledger.closed.segments()) > 3
    site.keeper().remind("the last", workflow=site.workflow)
    assert [line for line in site.complaints() if line["level"] == "error"] == []


@pytest.mark.parametrize("recipe", PHASES)
def test_every_command_twice_is_every_command_once(recipe, quick):
    site = Site.made(os.path.join(quick, "site"))
    for number, (_, line) in enumerate(journey(recipe)):
        first = site.do(line, f"step-{number}")
        again = site.do(line, f"step-{number}")
        assert again.seqs == first.seqs
        assert again.state == first.state
    names = [f"step-{number}" for number in range(len(journey(recipe)))]
    assert site.ids() == names
    for number in sampled(range(len(names)), 6, recipe):
        _, line = journey(recipe)[number]
        assert site.do(line, names[number]).seqs
    assert site.ids() == names


@pytest.mark.parametrize("torn", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("number", [0, 5, 9, 21])
def test_a_command_killed_at_any_call_is_applied_once_by_its_retry(
    number, torn, quick, zygote, tally
):
    base = Site.made(os.path.join(quick, "base")).go(journey("dev")[:number])
    _, line = journey("dev")[number]
    attempts = 0
    for at in sampled(range(1, 24), 6, f"{number}{torn}"):
        site = base.copy(os.path.join(quick, "copy"))
        words = site.words(line, "asked")
        died = zygote.run(site.root, words, at=at, torn=torn, segment_bytes=SEGMENT_BYTES)
        answers = [zygote.run(site.root, words, segment_bytes=SEGMENT_BYTES) for _ in range(2)]
        attempts += 3
        assert answers[0]["seqs"] == answers[1]["seqs"] == died.get("seqs", answers[0]["seqs"])
        assert site.ids().count("asked") == 1
        assert [line for line in site.complaints() if line["level"] == "error"] == []
        site.drop()
    tally("retries", attempts=attempts)


def test_starting_an_active_subject_again_under_one_id_binds_the_session_once(quick):
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "dev", "the subject"], "first")
    line = ["start", "dev", "the subject", "--session", "s-1"]
    before = len(site.events())
    words = [*line, "--id", "again"]
    receipts = [call(site.keeper(session="s-1"), words) for _ in range(3)]
    assert len({tuple(receipt.seqs) for receipt in receipts}) == 1
    assert len(site.events()) == before + 1


def test_a_command_that_was_refused_at_first_is_tried_again(quick):
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "custom", "the subject"], "first")
    with pytest.raises(Refused):
        site.do(["task", "done", "1"], "done-1")
    site.do(["task", "add", "one"], "add-1")
    assert site.do(["task", "done", "1"], "done-1").seqs


@pytest.mark.parametrize("bad", ['a"b', "", "x" * 65, "ä", "a b", "a\nb", "a.2"])
def test_an_id_that_could_be_mistaken_is_refused(quick, bad):
    site = Site.made(os.path.join(quick, "site"))
    with pytest.raises(Refused) as refused:
        site.keeper().start("custom", "the subject", id=bad)
    assert refused.value.code == "invalid"
    assert site.events() == []
