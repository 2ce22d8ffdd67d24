"""Promise 7: the same id, retried any number of times, applies once.

A caller that got no answer does not know whether its command was carried out, so it asks again.
Here callers ask again and again: from the same process and from others, after kills in the middle
and after commits that failed or only seemed to, with records taken away. The answer is the same.
"""

import json
import os
import random
import signal
import sqlite3
from bisect import bisect_left

import pytest

from holdfast import Fault, Refused
from promises.journeys import PHASES, Site, call, command, journey
from support.workshop import SEED, many, sampled

pytestmark = pytest.mark.promise(7)

ROUNDS = 30
SEEDS = range(SEED, SEED + many(2, 24))
MAX_STEPS = 200
"""No command of these has more steps that can be its last."""
SOON = 30
"""A short command has about so many."""


def ask_elsewhere(root, words, dies_at=None):
    """Return the object of a command line in its own process, or that it died before a step."""
    ended = command(root, [*words, "--json"], dies_at=dies_at)
    return {"died": True} if ended.returncode == -signal.SIGKILL else json.loads(ended.stdout)


class _Doubtful:
    """A connection whose COMMIT is answered with an error, whether it was carried out or not."""

    def __init__(self, connection, *, is_done):
        self._connection = connection
        self._is_done = is_done

    def execute(self, statement, *values):
        if statement == "COMMIT":
            if self._is_done:
                self._connection.execute(statement)
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def doubtful(keeper, *, is_done):
    """Return the keeper with a disk that fails at its next commit."""
    database = keeper.store.ledger.database
    connect = database._connect
    database._connect = lambda mode: _Doubtful(connect(mode), is_done=is_done)
    return keeper


class Caller:
    """Somebody who asks, does not always hear the answer, and asks again."""

    def __init__(self, site, lots):
        self.site, self.lots = site, lots
        self.keeper = site.keeper()
        self.lines = {}
        self.answers = {}
        self.attempts = 0

    def ask(self, name):
        """Ask in one of the ways; an answer must be the one that was given before."""
        self.attempts += 1
        ways = [self.here, self.fresh, self.elsewhere, self.dying, self.dying, self.failing]
        seqs = self.lots.choice(ways)(name)
        if seqs is not None:
            assert self.answers.setdefault(name, seqs) == seqs

    def words(self, name):
        return self.site.words(self.lines[name], name)

    def here(self, name):
        return self.site.do(self.lines[name], name, self.keeper).seqs

    def fresh(self, name):
        return self.site.do(self.lines[name], name).seqs

    def elsewhere(self, name):
        return ask_elsewhere(self.site.root, self.words(name))["seqs"]

    def dying(self, name):
        at = self.lots.randint(1, SOON)
        return ask_elsewhere(self.site.root, self.words(name), at).get("seqs")

    def failing(self, name):
        keeper = doubtful(self.site.keeper(), is_done=self.lots.random() < 0.5)
        with pytest.raises(Fault) as caught:
            self.site.do(self.lines[name], name, keeper)
        # The second: what the one before left behind had to be settled first, and failed.
        assert caught.value.code in ("unknown_outcome", "not_written")

    def take_record_away(self):
        state = self.keeper.show(workflow=self.site.workflow).state
        path = os.path.join(self.site.root, state["record"])
        if os.path.exists(path):
            os.unlink(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_attempts_under_one_id_are_one_event(seed, quick, tally):
    lots = random.Random(seed)
    site = Site.made(os.path.join(quick, "site"))
    caller = Caller(site, lots)
    site.do(["start", "dev", "the subject"], "first")
    for number in range(ROUNDS):
        name = f"ask-{number}"
        line = lots.choice(["remind", "task add"]).split()
        caller.lines[name] = [*line, f"said {name}"]
        for _ in range(lots.randint(1, 4)):
            caller.ask(name)
            if lots.random() < 0.1:
                caller.take_record_away()
            if lots.random() < 0.3:
                caller.ask(lots.choice(list(caller.lines)))
        while name not in caller.answers:
            caller.ask(name)
    check_once(site, caller)
    tally("retries", attempts=caller.attempts, commands=len(caller.lines))


def check_once(site, caller):
    assert sorted(name for name in site.ids() if name in caller.lines) == sorted(caller.lines)
    seqs = {event["id"]: event["seq"] for event in site.events()}
    assert {name: own[0] for name, own in caller.answers.items()} == {
        name: seqs[name] for name in caller.answers
    }
    state = site.keeper().show(workflow=site.workflow).state
    texts = [*state["reminders"], *(task["description"] for task in state["tasks"])]
    assert sorted(texts) == sorted(f"said {name}" for name in caller.lines)
    check_sound(site)


def check_sound(site):
    lines = site.keeper().verify().lines
    assert [line for line in lines if line["level"] == "error"] == []


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


def steps_of(base, line, folder):
    """Return how many steps a command has: the last one that it can be killed at."""

    def is_survived(step):
        site = base.copy(folder)
        answer = ask_elsewhere(site.root, site.words(line, "asked"), step)
        site.drop()
        return "died" not in answer

    return bisect_left(range(1, MAX_STEPS), True, key=is_survived)


@pytest.mark.parametrize("number", [0, 5, 9, 21])
def test_a_command_killed_at_any_step_is_applied_once_by_its_retry(number, quick, tally):
    base = Site.made(os.path.join(quick, "base")).go(journey("dev")[:number])
    _, line = journey("dev")[number]
    died = attempts = 0
    steps = steps_of(base, line, os.path.join(quick, "copy"))
    for at in sampled(range(1, steps + 1), 8, f"{number}"):
        site = base.copy(os.path.join(quick, "copy"))
        words = site.words(line, "asked")
        answers = [ask_elsewhere(site.root, words, dies_at) for dies_at in (at, None, None)]
        attempts += 3
        died += "died" in answers[0]
        assert answers[1]["seqs"] == answers[2]["seqs"]
        assert answers[0].get("seqs", answers[1]["seqs"]) == answers[1]["seqs"]
        assert site.ids().count("asked") == 1
        check_sound(site)
        site.drop()
    assert died == attempts / 3
    tally("retries", attempts=attempts, killed=died)


@pytest.mark.parametrize("is_done", [False, True])
def test_the_advice_after_a_commit_of_unknown_outcome_is_right(is_done, quick):
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "dev", "the subject"], "first")
    with pytest.raises(Fault) as caught:
        doubtful(site.keeper(), is_done=is_done).remind("perhaps")
    request = caught.value.details["id"]
    assert f"--id {request}" in caught.value.hint
    assert (request in site.ids()) == is_done
    code, answer = site.run(["remind", "perhaps", "--id", request])
    assert (code, answer["ok"]) == (0, True)
    assert site.ids().count(request) == 1
    assert site.keeper().show().state["reminders"] == ["perhaps"]


def test_a_retry_is_synced_before_it_is_acknowledged(quick):
    """Whoever committed it may have died before the sync: the retry makes one, or does not know."""
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "dev", "the subject"], "first")
    site.keeper().remind("kept", id="again")
    with pytest.raises(Fault) as caught:
        doubtful(site.keeper(), is_done=True).remind("kept", id="again")
    assert caught.value.code == "unknown_outcome"
    assert "--id again" in caught.value.hint
    assert site.keeper().remind("kept", id="again").state["reminders"] == ["kept"]


def test_starting_an_active_subject_again_under_one_id_binds_the_session_once(quick):
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "dev", "the subject"], "first")
    before = len(site.events())
    words = ["start", "dev", "the subject", "--session", "s-1", "--id", "again"]
    receipts = [call(site.keeper(session="s-1"), words) for _ in range(3)]
    assert len({tuple(receipt.seqs) for receipt in receipts}) == 1
    later = [event["type"] for event in site.events()[before:]]
    assert later == ["workflow_resumed", "briefing_delivered"]


def test_a_command_that_was_refused_at_first_is_tried_again(quick):
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "custom", "the subject"], "first")
    with pytest.raises(Refused):
        site.do(["task", "done", "1"], "done-1")
    site.do(["task", "add", "one"], "add-1")
    assert site.do(["task", "done", "1"], "done-1").seqs


def test_the_id_of_another_command_is_refused(quick):
    site = Site.made(os.path.join(quick, "site"))
    site.do(["start", "dev", "the subject"], "first")
    site.keeper().remind("mine", id="taken")
    other = site.keeper().start("tdd", "another subject").state["id"]
    before = site.events()
    for attempt in (
        lambda: site.keeper().remind("mine", workflow=other, id="taken"),
        lambda: site.keeper().remember("something", id="taken"),
        lambda: site.keeper().note_forge("review", "fine", id="taken"),
    ):
        with pytest.raises(Refused) as caught:
            attempt()
        assert caught.value.code == "invalid"
        assert "another command" in caught.value.message
    assert site.events() == before


@pytest.mark.parametrize("bad", ['a"b', "", "x" * 65, "ä", "a b", "a\nb", "a.2"])
def test_an_id_that_could_be_mistaken_is_refused(quick, bad):
    site = Site.made(os.path.join(quick, "site"))
    with pytest.raises(Refused) as refused:
        site.keeper().start("custom", "the subject", id=bad)
    assert refused.value.code == "invalid"
    assert site.events() == []
