"""The pool: two agents never get the same work, and that of a dead one comes back."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from holdfast import Fault, Keeper, Loops, Pool, Refused
from holdfast.core.json_text import dumps
from holdfast.hub import Sharing
from holdfast.hub.contract import unreachable
from holdfast.hub.exchange import exchange
from holdfast.keeper.leases import write_mark
from holdfast.storage.ledger import HUB
from support.command_line import Folder, clean_environment
from support.git_template import make_repository
from support.memory_hub import MemoryHub
from support.workshop import NOON, SEED, many

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE_MS = 60_000


class Yard:
    """A repository with a pool, and the agents that work on it, on one clock that stands still."""

    def __init__(self, root: Path, clock: Yard | None = None) -> None:
        self.root = str(root)
        self._clock = clock
        self._ms = NOON
        root.mkdir(parents=True, exist_ok=True)
        make_repository(self.root)

    def now_ms(self) -> int:
        return self._ms if self._clock is None else self._clock.now_ms()

    def pass_s(self, seconds: float) -> None:
        self._ms += max(1, round(seconds * 1_000))

    def keeper(self, session: str | None = None, **options: Any) -> Keeper:
        settings = {"clock_ms": self.now_ms, "sleep": self.pass_s, **options}
        return Keeper(self.root, session=session, **settings)

    def pool(self, session: str | None = None, **options: Any) -> Pool:
        return Pool(self.keeper(session, **options))

    def add(self, *subjects: str, **options: Any) -> list[str]:
        """Add work, a second apart; return the ids."""
        ids = []
        for subject in subjects:
            self.pass_s(1)
            ids.append(self.keeper().start("custom", subject, **options).state["id"])
        return ids

    def take(self, session: str, **options: Any) -> str:
        state = self.pool(session).take(**options).receipt.state
        assert state["session"]["id"] == session
        return str(state["id"])

    def ready(self, **options: Any) -> list[str]:
        return [row["id"] for row in self.pool().ready(**options).rows]

    def waiting(self) -> dict[str, tuple[str, str | None]]:
        return {row["id"]: (row["why"], row["next"]) for row in self.pool().ready().waiting}

    def complete(self, workflow: str) -> None:
        self.keeper().complete(force=True, reason="it is done", workflow=workflow)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "here")


def refused(code: str, call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.code == code, caught.value
    return caught.value


class TestTaking:
    def test_each_agent_gets_the_oldest_that_is_left(self, yard: Yard) -> None:
        yard.add("one", "two", "three")
        assert [yard.take(name) for name in ("ada", "kim", "lee")] == ["one", "two", "three"]
        assert yard.ready() == []
        refused("nothing_ready", lambda: yard.take("sam"))

    def test_what_another_took_meanwhile_is_left_to_it(self, yard: Yard) -> None:
        yard.add("one", "two")
        ada = yard.pool("ada")
        look, looks = ada._candidates, []

        def look_before_kim(*words: Any) -> Any:
            found = look(*words)
            looks.append(yard.take("kim") if not looks else "")
            return found

        ada._candidates = look_before_kim  # type: ignore[method-assign]
        assert (ada.take().receipt.state["id"], looks[0]) == ("two", "one")

    def test_an_agent_that_takes_again_gets_other_work(self, yard: Yard) -> None:
        yard.add("one", "two")
        assert [yard.take("ada"), yard.take("ada")] == ["one", "two"]

    def test_what_was_taken_is_the_sessions_workflow_and_its_briefing_is_recorded(
        self, yard: Yard
    ) -> None:
        yard.add("one", "two")
        yard.take("ada")
        yard.take("kim")
        assert yard.keeper("kim").remind("look").state["id"] == "two"

    def test_a_label_and_a_recipe_choose(self, yard: Yard) -> None:
        yard.add("one")
        yard.add("two", labels=["backend", "db"])
        yard.pass_s(1)
        planned = yard.keeper().start("planning", "plan").state["id"]
        assert yard.take("ada", label="db") == "two"
        assert yard.take("kim", recipe="planning") == planned
        refused("nothing_ready", lambda: yard.take("lee", label="db"))
        assert yard.take("lee") == "one"

    def test_a_lease_is_for_a_session(self, yard: Yard) -> None:
        yard.add("one")
        error = refused("invalid", lambda: yard.pool().take())
        assert "--session" in error.hint

    @pytest.mark.parametrize("lease", ["", "0s", "soon", "31d", "-5m"])
    def test_a_time_that_is_none_is_refused(self, yard: Yard, lease: str) -> None:
        yard.add("one")
        refused("invalid", lambda: yard.take("ada", lease=lease))
        assert yard.ready() == ["one"]

    def test_a_request_that_is_sent_again_gets_the_same_work(self, yard: Yard) -> None:
        yard.add("one", "two")
        assert [yard.take("ada", id="job-1"), yard.take("ada", id="job-1")] == ["one", "one"]
        assert yard.ready() == ["two"]

    def test_a_request_that_is_sent_again_is_refused_when_the_work_is_no_longer_held(
        self, yard: Yard
    ) -> None:
        yard.add("one")
        yard.take("ada", id="job-1")
        yard.pool("ada").give("one")
        error = refused("not_held", lambda: yard.take("ada", id="job-1"))
        assert error.message == "pool take: this took one, and it is not held any more"
        yard.take("kim")
        refused("held", lambda: yard.take("ada", id="job-1"))

    def test_what_a_live_session_works_on_without_the_pool_is_not_handed_out(
        self, yard: Yard
    ) -> None:
        yard.keeper("person").start("custom", "one")
        assert yard.ready() == []
        yard.pass_s(3_601)  # A session without a process counts as live for an hour.
        assert yard.ready() == ["one"]

    def test_work_moves_to_the_worktree_of_its_taker(self, yard: Yard, tmp_path: Path) -> None:
        yard.add("one")
        git = Folder(yard.root, clean_environment(tmp_path))
        git.git("commit", "-q", "--allow-empty", "-m", "begin")
        git.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
        side = Keeper(str(tmp_path / "side"), session="ada", clock_ms=yard.now_ms)
        state = Pool(side).take().receipt.state
        assert (state["worktree"], state["branch"]) == ("side", "side")

    def test_waiting_ends_when_something_is_ready(self, yard: Yard) -> None:
        def sleep(seconds: float) -> None:
            yard.pass_s(seconds)
            if yard.now_ms() > NOON + 60_000 and not yard.ready():
                yard.add("late")

        taken = yard.pool("ada", sleep=sleep).take(wait=None)
        assert taken.receipt.state["id"] == "late"

    def test_waiting_ends_when_the_time_is_over(self, yard: Yard) -> None:
        yard.add("first")
        yard.add("second", after=["first"])
        yard.take("ada")
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            yard.pass_s(seconds)

        error = refused("nothing_ready", lambda: yard.pool("kim", sleep=sleep).take(wait=60))
        assert "within 60 s" in error.message
        assert "second (it comes after first" in error.message
        assert abs(sum(pauses) - 60) < 0.1
        assert max(pauses) <= 5
        assert len(pauses) < 30


class TestReady:
    def test_a_row_says_what_and_where(self, yard: Yard) -> None:
        yard.add("one", tasks=["a", "b"], labels=["backend"])
        (row,) = yard.pool().ready().rows
        known = {
            "id": "one", "recipe": "custom", "title": "one", "phase": "Work", "tasks_done": 0,
            "tasks_total": 2, "worktree": ".", "machine": None, "labels": ["backend"],
        }  # fmt: skip
        assert {name: row[name] for name in known} == known

    def test_a_look_changes_nothing(self, yard: Yard) -> None:
        yard.add("one")
        before = yard.keeper().log()
        yard.ready()
        assert yard.keeper().log() == before

    def test_work_with_tasks_is_ready_while_one_of_them_can_be_done(self, yard: Yard) -> None:
        yard.add("one", tasks=["a"])
        keeper = yard.keeper()
        keeper.start_task(1, workflow="one")
        keeper.block_task(1, "the key is missing", workflow="one")
        assert yard.ready() == []
        assert yard.waiting()["one"][0].startswith("its open tasks are blocked")
        keeper.unblock_task(1, workflow="one")
        assert yard.ready() == ["one"]

    def test_a_blocked_phase_and_one_that_waits_for_a_person_are_not_ready(
        self, yard: Yard
    ) -> None:
        keeper = yard.keeper()
        keeper.start("apex", "plan it", title="Plan", tasks=[])
        (own_id,) = yard.ready()
        keeper.advance(workflow=own_id)
        assert keeper.show(workflow=own_id).state["phase"] == "plan"
        assert yard.ready() == []
        why, following = yard.waiting()[own_id]
        assert "approval" in why
        assert following == f"holdfast phase approve plan -w {own_id}"
        keeper.approve_phase("plan", workflow=own_id)
        assert yard.ready() == [own_id]
        keeper.block_phase("plan", {"reason": "no key"}, workflow=own_id)
        assert yard.ready() == []

    def test_a_loop_is_work_like_any_other(self, yard: Yard) -> None:
        loops = Loops(yard.keeper())
        loops.new("port", outcome="It is ported", done_when="tests pass")
        loops.plan("port", "T1: The reader")
        assert yard.ready() == ["port"]
        assert yard.take("ada") == "port"


class TestOrder:
    def test_work_is_ready_when_all_that_comes_before_is_completed(self, yard: Yard) -> None:
        yard.add("one", "two")
        yard.add("three", after=["one", "two"])
        assert yard.ready() == ["one", "two"]
        yard.complete("one")
        assert yard.waiting() == {"three": ("it comes after two, which is not completed", None)}
        yard.complete("two")
        assert yard.ready() == ["three"]

    def test_what_was_abandoned_blocks_and_the_answer_says_what_to_do(self, yard: Yard) -> None:
        yard.add("one")
        yard.add("two", after=["one"])
        yard.keeper().abandon("no", workflow="one")
        why, following = yard.waiting()["two"]
        assert why == "it comes after one, which was abandoned"
        assert following == "holdfast resume one, or holdfast pool change two --no-after one"
        yard.pool().change("two", no_after=["one"])
        assert yard.ready() == ["two"]

    def test_a_circle_is_refused_however_long(self, yard: Yard) -> None:
        yard.add("a", "b", "c")
        pool = yard.pool()
        pool.change("b", after=["a"])
        pool.change("c", after=["b"])
        error = refused("wrong_order", lambda: pool.change("a", after=["c"]))
        assert "a after c after b after a" in error.message
        assert error.hint == "holdfast pool change b --no-after a"
        error = refused("wrong_order", lambda: pool.change("a", after=["a"]))
        assert error.hint == "holdfast pool ready"
        assert "after" not in yard.keeper().show(workflow="a").state

    def test_a_start_after_itself_is_refused(self, yard: Yard) -> None:
        yard.add("one")
        yard.add("two", after=["one"])
        yard.complete("one")
        start = yard.keeper().start
        refused("wrong_order", lambda: start("custom", "one", after=["two"]))

    @pytest.mark.parametrize("name", ["nope", "_learning", "a b", "", "x" * 200, "-w"])
    def test_a_workflow_that_is_not_known_is_refused(self, yard: Yard, name: str) -> None:
        yard.add("one")
        with pytest.raises(Refused):
            yard.pool().change("one", after=[name])
        with pytest.raises(Refused):
            yard.keeper().start("custom", "two", after=[name])
        assert yard.ready() == ["one"]

    @pytest.mark.parametrize("label", ["a b", "", "x" * 81, "-x", "a\nb", "\ud800", "a\x1b[0m"])
    def test_a_label_is_one_printable_word(self, yard: Yard, label: str) -> None:
        yard.add("one")
        refused("invalid", lambda: yard.pool().change("one", label=[label]))
        refused("invalid", lambda: yard.keeper().start("custom", "two", labels=[label]))

    def test_labels_are_limited(self, yard: Yard) -> None:
        yard.add("one")
        names = [f"l{number}" for number in range(101)]
        refused("too_many", lambda: yard.pool().change("one", label=names))
        yard.pool().change("one", label=names[:100])
        refused("too_many", lambda: yard.pool().change("one", label=["more"]))

    def test_labels_come_and_go_and_undo_brings_them_back(self, yard: Yard) -> None:
        yard.add("one", labels=["a"])
        yard.pool().change("one", label=["b", "a"], no_label=[])
        yard.pool().change("one", no_label=["a"])
        assert yard.keeper().show(workflow="one").state["labels"] == ["b"]
        back = yard.keeper().undo(workflow="one").undone
        assert back is not None
        assert back["back"] == ["label is back: a"]
        refused("not_found", lambda: yard.pool().change("one", no_label=["c"]))
        refused("invalid", lambda: yard.pool().change("one"))

    def test_both_are_in_the_record_and_survive_the_ledger(self, yard: Yard) -> None:
        yard.add("one")
        yard.add("two", after=["one"], labels=["backend"])
        for path in Path(yard.root, ".git", "holdfast").iterdir():
            path.unlink()
        state = yard.keeper().settle(workflow="two").state
        assert (state["after"], state["labels"]) == (["one"], ["backend"])

    @pytest.mark.parametrize(
        "hostile", [7, {"a": 1}, [7], ["a b"], ["x" * 1_000], ["ok"] * 1_000, [None]]
    )
    @pytest.mark.parametrize("field", ["labels", "after"])
    def test_a_record_with_hostile_names_is_refused(
        self, yard: Yard, field: str, hostile: object
    ) -> None:
        yard.add("one", labels=["backend"])
        keeper = yard.keeper()
        path = Path(yard.root, keeper.show(workflow="one").record or "")
        document = json.loads(path.read_text("utf-8"))
        document["_holdfast"]["rest"][field] = hostile
        path.write_text(json.dumps(document), "utf-8")
        state = keeper.settle(workflow="one").state
        assert (state["labels"], state.get("after")) == (["backend"], None)


class TestLeases:
    def test_an_agents_change_under_anothers_lease_is_refused(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada", lease="10m")
        kim = yard.keeper("kim")
        before = yard.keeper().log()
        for change in (
            lambda: kim.remind("mine", workflow="one"),
            lambda: kim.complete(force=True, reason="x", workflow="one"),
            lambda: kim.resume(workflow="one"),
            lambda: kim.abandon("x", workflow="one"),
            lambda: kim.abandon_all("x"),
            lambda: kim.start("custom", "one"),
            lambda: Pool(kim).give("one"),
            lambda: Pool(kim).change("one", label=["x"]),
            lambda: yard.keeper(is_person=False).remind("x", workflow="one"),
        ):
            error = refused("held", change)
            assert "ada has taken one from the pool, until 2026-02-17T12:10:01" in error.message
            assert error.hint in ("holdfast pool take --session kim", "holdfast pool take")
        assert yard.keeper().log() == before

    def test_that_the_work_is_anothers_is_said_before_what_it_waits_for(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada")
        refused("held", lambda: yard.keeper("kim").complete_task(7, workflow="one"))
        refused("held", lambda: yard.keeper("kim").start_task(7, workflow="one"))
        refused("not_found", lambda: yard.keeper("ada").complete_task(7))

    def test_nor_may_an_earlier_session_undo_what_it_did(self, yard: Yard) -> None:
        yard.keeper("kim").start("custom", "one")
        yard.keeper("kim").remind("mine")
        yard.pass_s(3_601)
        yard.take("ada")
        refused("held", lambda: yard.keeper("kim").undo(workflow="one"))

    def test_a_person_and_the_holder_may(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada")
        yard.keeper().remind("from a person", workflow="one")
        assert yard.keeper("ada").remind("mine").state["reminders"][1:] == ["mine"]

    def test_what_is_given_back_is_ready_at_once(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada")
        yard.pool("ada").give("one")
        assert yard.ready() == ["one"]
        refused("not_held", lambda: yard.pool("ada").give("one"))
        assert yard.take("kim") == "one"
        yard.pool().give("one")  # A person may give back what an agent holds.
        assert yard.ready() == ["one"]

    def test_the_end_of_a_session_gives_back_what_it_holds(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada")
        hook = yard.keeper("ada", by="hook", is_person=False)
        hook.do("end_session", {"session": "ada", "reason": "exit"}, workflow="one")
        assert yard.ready() == ["one"]

    def test_completed_work_is_held_by_nobody(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada")
        yard.keeper("ada").complete(force=True, reason="done")
        yard.keeper("kim").resume(workflow="one")
        assert yard.pool().reap() == []

    def test_the_work_of_a_dead_agent_comes_back_after_its_lease(self, yard: Yard) -> None:
        yard.add("one")
        yard.take("ada", lease="10m")
        yard.pass_s(599)
        assert yard.ready() == []
        yard.pass_s(2)
        assert yard.ready() == ["one"]
        assert yard.take("kim") == "one"

    def test_whoever_lost_its_work_to_another_is_told_so(self, yard: Yard) -> None:
        yard.add("one", "other")
        yard.take("ada", lease="10m")
        yard.pass_s(601)
        yard.take("kim")
        error = refused("held", lambda: yard.keeper("ada").remind("still here"))
        assert error.message == "your lease of one ran out, and kim has taken it"
        assert error.hint == "holdfast pool take --session ada"
        refused("held", lambda: yard.keeper("ada").remind("still here", workflow="one"))
        assert yard.take("ada") == "other"
        assert yard.keeper("ada").remind("here").state["id"] == "other"

    def test_what_it_meant_for_the_lost_work_is_not_done_to_its_other_work(
        self, yard: Yard
    ) -> None:
        yard.keeper("ada").start("custom", "own", tasks=["mine"])
        yard.add("one", tasks=["shared"])
        assert yard.take("ada", lease="10m") == "one"
        yard.pass_s(601)
        yard.take("kim")
        error = refused("held", lambda: yard.keeper("ada").complete_task(1))
        assert error.message == "your lease of one ran out, and kim has taken it"
        assert error.hint == "holdfast resume own --session ada"
        yard.keeper("ada").resume(workflow="own")
        assert yard.keeper("ada").complete_task(1).state["id"] == "own"

    def test_nor_is_it_after_a_reap(self, yard: Yard) -> None:
        yard.keeper("ada").start("custom", "own", tasks=["mine"])
        yard.add("one", tasks=["shared"])
        yard.take("ada", lease="10m")
        yard.pass_s(601)
        yard.pool().reap()
        error = refused("held", lambda: yard.keeper("ada").complete_task(1))
        assert error.message == "your lease of one ran out, and it was reaped"
        yard.keeper("ada").resume(workflow="one")
        assert yard.keeper("ada").complete_task(1).state["id"] == "one"

    def test_work_on_something_else_is_not_held_up_by_the_loss_of_an_earlier_one(
        self, yard: Yard
    ) -> None:
        yard.add("one", "two")
        yard.take("ada", lease="10m")
        yard.take("ada", lease="2h")
        yard.pass_s(601)
        assert yard.take("kim") == "one"
        assert yard.keeper("ada").remind("go on").state["id"] == "two"

    @pytest.mark.parametrize("way", ["resume", "change"])
    def test_a_lease_that_ran_out_ends_when_another_session_takes_up_the_work(
        self, yard: Yard, way: str
    ) -> None:
        yard.add("one")
        yard.take("ada", lease="10m")
        yard.pass_s(700)
        if way == "resume":
            yard.keeper("kim").resume(workflow="one")
        else:
            yard.keeper("kim").remind("it is mine now")
        error = refused("held", lambda: yard.keeper("ada").remind("late"))
        assert error.message == "your lease of one ran out, and kim has taken it"
        yard.keeper("ada").remind("by its name", workflow="one")
        assert yard.pool("ada").renew() == []
        yard.keeper("kim").remind("mine still")

    def test_an_agent_whose_lease_ran_out_goes_on_while_nobody_has_taken_it(
        self, yard: Yard
    ) -> None:
        yard.add("one")
        yard.take("ada", lease="10m")
        yard.pass_s(700)
        yard.keeper("ada").remind("late")
        assert yard.ready() == []
        refused("held", lambda: yard.keeper("kim").remind("x", workflow="one"))

    def test_a_change_past_half_of_a_lease_renews_it_and_one_before_does_not(
        self, yard: Yard
    ) -> None:
        yard.add("one")
        begun = yard.now_ms()
        yard.take("ada", lease="10m")

        def until_s() -> int:
            row = yard.keeper().store.ledger.database.row("SELECT until_ms FROM leases")
            return (row[0] - begun) // 1_000

        yard.pass_s(299)
        yard.keeper("ada").remind("early")
        assert until_s() == 600
        yard.pass_s(2)
        yard.keeper("ada").remind("late")
        assert until_s() == 901

    def test_reap_ends_what_ran_out_and_says_whose(self, yard: Yard) -> None:
        yard.add("one", "two")
        yard.take("ada", lease="10m")
        yard.take("kim", lease="20m")
        yard.pass_s(601)
        (reaped,) = yard.pool().reap()
        assert (reaped["workflow"], reaped["holder"]) == ("one", "ada")
        assert yard.pool().reap() == []
        assert yard.keeper().show(workflow="one").state["session"] is None
        assert yard.ready() == ["one"]

    def test_epochs_only_grow(self, yard: Yard) -> None:
        yard.add("one")
        epochs = []
        for name in ("ada", "kim", "ada"):
            epochs.append(yard.pool(name).take().lease["epoch"])
            yard.pool(name).give("one")
        assert epochs == [1, 2, 3]


def test_no_claim_is_held_twice_whatever_agents_do(yard: Yard) -> None:
    """Random takes, gives, ends, silences and changes; a model says who may hold what."""
    chance = random.Random(SEED)
    names = [f"agent-{number}" for number in range(5)]
    yard.add(*(f"w{number}" for number in range(3)))
    held: dict[str, tuple[str, int]] = {}
    ttl_ms = 10 * MINUTE_MS
    seen = {"taken": 0, "lost": 0, "nothing": 0}
    for turn in range(many(80, 400)):
        name, now = chance.choice(names), yard.now_ms()
        running = {one for one, (_, until) in held.items() if until > now}
        action = chance.choice(["take", "take", "give", "work", "work", "pass"])
        if action == "pass":
            yard.pass_s(chance.choice([30, 200, 700]))
        elif action == "take":
            try:
                got = yard.take(name, lease="10m")
            except Refused as no:
                assert no.code == "nothing_ready"
                assert running == {f"w{number}" for number in range(3)}
                seen["nothing"] += 1
                continue
            assert got not in running, f"{got} is {held[got]}'s, and {name} got it"
            held[got] = name, now + ttl_ms
            seen["taken"] += 1
        else:
            workflow = f"w{chance.randrange(3)}"
            holder, until = held.get(workflow, ("", 0))
            try:
                if action == "give":
                    yard.pool(name).give(workflow)
                else:
                    yard.keeper(name).remind(f"turn {turn}", workflow=workflow)
            except Refused as no:
                assert no.code in ("held", "not_held")
                assert holder != name
                seen["lost"] += 1
                continue
            assert holder == name or until <= now or not holder, (action, name, holder)
            if action == "give":
                held.pop(workflow, None)
            elif holder == name and until - now <= ttl_ms / 2:
                held[workflow] = name, now + ttl_ms
            elif holder != name:
                # Else it is bound to this session now, which counts as live for an hour.
                session = yard.keeper().show(workflow=workflow).state["session"]
                if session:
                    yard.pool().give(workflow)
                held.pop(workflow, None)
    assert min(seen.values()) > 0, seen


class TestProcesses:
    def test_eight_processes_take_everything_once(self, repo: Any, tally: Any) -> None:
        count = many(16, 64)
        keeper = Keeper(repo.path)
        for number in range(count):
            keeper.start("custom", f"job {number}")
        script = (
            "import sys, json\n"
            "from holdfast import Keeper, Pool, Refused\n"
            "pool, got = Pool(Keeper('.', session=sys.argv[1])), []\n"
            "while True:\n"
            "    try: got.append(pool.take().receipt.state['id'])\n"
            "    except Refused: break\n"
            "print(json.dumps(got))\n"
        )
        agents = [
            subprocess.Popen(
                [sys.executable, "-c", script, f"agent-{number}"], cwd=repo.path,
                env=repo.environment, stdout=subprocess.PIPE,
            )
            for number in range(8)
        ]  # fmt: skip
        taken = [json.loads(agent.communicate(timeout=120)[0]) for agent in agents]
        everything = sorted(one for own in taken for one in own)
        assert everything == sorted(set(everything))
        assert len(everything) == count
        tally("pool", processes=8, taken=count)

    def test_the_work_of_a_killed_process_comes_back(self, repo: Any) -> None:
        repo.ok("start", "custom", "one")
        script = (
            "import signal\n"
            "from holdfast import Keeper, Pool\n"
            "print(Pool(Keeper('.', session='ada')).take(lease='1s').lease['until'], flush=True)\n"
            "signal.pause()\n"
        )
        ada = subprocess.Popen(
            [sys.executable, "-c", script], cwd=repo.path, env=repo.environment,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert ada.stdout is not None
        until = ada.stdout.readline().decode().strip()
        ada.kill()
        ada.communicate()
        taken = repo.ok("pool", "take", "--session", "kim", "--wait", "60")
        assert taken["workflow"]["id"] == "one"
        assert "WORKFLOW: one" in taken["workflow"]["briefing"]
        assert taken["lease"]["holder"] == "kim"
        assert taken["workflow"]["session"]["at"] > until

    def test_the_commands_answer_in_json(self, repo: Any) -> None:
        repo.ok("start", "custom", "one", "--label", "backend", "--label", "db")
        repo.ok("start", "custom", "two", "--after", "one")
        assert "labels backend, db" in repo.run("show", "one").out
        assert "after one" in repo.run("show", "two").out
        answer = repo.ok("pool", "ready")
        assert [row["id"] for row in answer["ready"]] == ["one"]
        assert [row["id"] for row in answer["waiting"]] == ["two"]
        taken = repo.as_session("ada").ok("pool", "take", "--label", "db")
        assert taken["workflow"]["labels"] == ["backend", "db"]
        assert [one["workflow"] for one in repo.ok("pool", "renew", "--session", "ada")["leases"]]
        error = repo.as_session("kim").refused("remind", "x", "-w", "one")
        assert error["code"] == "held"
        assert repo.as_session("ada").ok("pool", "give", "one")["workflow"]["session"] is None
        assert repo.ok("pool", "reap")["reaped"] == []
        repo.ok("pool", "change", "two", "--no-after", "one", "--label", "late")
        assert len(repo.ok("pool", "ready")["ready"]) == 2
        for words in (["pool", "ready"], ["pool", "reap"], ["pool", "renew"]):
            assert repo.run(*words).code == 0

    def test_the_next_command_of_whoever_lost_its_work_names_its_session(self, repo: Any) -> None:
        repo.ok("start", "custom", "one")
        repo.ok("pool", "take", "--session", "ada", "--lease", "1s")
        time.sleep(1.1)
        repo.ok("pool", "take", "--session", "kim")
        take = "next: holdfast pool take --session ada"
        assert take in repo.run("remind", "late", "--session", "ada").err
        assert take in repo.run("pool", "give", "one", "--session", "ada").err
        repo.ok("start", "custom", "own", "--session", "lee")
        repo.ok("pool", "give", "one", "--session", "kim")
        repo.ok("pool", "take", "--session", "lee", "--lease", "1s")
        time.sleep(1.1)
        repo.ok("pool", "take", "--session", "kim")
        resume = "next: holdfast resume own --session lee"
        assert resume in repo.run("remind", "late", "--session", "lee").err

    def test_wait_takes_a_number_or_none(self, repo: Any) -> None:
        repo.ok("start", "custom", "one")
        words = ("pool", "take", "--session", "ada", "--wait")
        assert repo.ok(*words)["workflow"]["id"] == "one"
        repo.refused(*words, "0")
        assert repo.refused(*words, "soon", exit_code=2)["code"] == "usage"


class TestHooks:
    def hook(self, repo: Any, name: str, session: str) -> None:
        event = {"hook_event_name": name, "session_id": session, "cwd": repo.path}
        answer = repo.run("hook", stdin=None, input=json.dumps(event).encode())
        assert answer.code == 0, answer

    def until_ms(self, repo: Any) -> int:
        row = Keeper(repo.path).store.ledger.database.row("SELECT until_ms FROM leases")
        assert row is not None
        return int(row[0])

    def test_a_hook_that_has_nothing_to_do_renews_a_lease_past_half_of_it(self, repo: Any) -> None:
        repo.ok("start", "custom", "one")
        repo.ok("pool", "take", "--session", "ada", "--lease", "1h")
        first = self.until_ms(repo)
        self.hook(repo, "Stop", "ada")
        assert self.until_ms(repo) == first
        keeper = Keeper(repo.path, session="ada")
        with keeper.session.transaction() as tx:
            tx.begin()
            past = time.time_ns() // 1_000_000 + 60_000
            tx.store.ledger.database.execute("UPDATE leases SET until_ms = ?", (past,))
            write_mark(keeper.store, "ada")
        self.hook(repo, "Stop", "kim")
        assert self.until_ms(repo) == past
        self.hook(repo, "Stop", "ada")
        assert self.until_ms(repo) > past + 3_000_000

    def test_a_look_renews_it_too(self, repo: Any) -> None:
        repo.ok("start", "custom", "one")
        repo.ok("pool", "take", "--session", "ada", "--lease", "1h")
        keeper = Keeper(repo.path, session="ada")
        with keeper.session.transaction() as tx:
            tx.begin()
            tx.store.ledger.database.execute("UPDATE leases SET until_ms = 5")
            write_mark(keeper.store, "ada")
        repo.ok("status", "--session", "ada")
        assert self.until_ms(repo) > 5

    def test_the_mark_goes_with_the_lease(self, repo: Any) -> None:
        repo.ok("start", "custom", "one")
        repo.ok("pool", "take", "--session", "ada")
        mark = Keeper(repo.path).workspace.lease_mark("ada")
        assert os.path.exists(mark)
        repo.ok("pool", "give", "one", "--session", "ada")
        assert not os.path.exists(mark)


class Fleet:
    """Two machines with a hub in memory that fences, on one clock."""

    def __init__(self, folder: Path) -> None:
        self.here = Yard(folder / "here")
        self.there = Yard(folder / "there", self.here)
        self.hub = MemoryHub(lambda: self.here.now_ms() / 1_000)
        for name, yard in (("laptop", self.here), ("server", self.there)):
            settings = {
                "kind": "memory", "where": "memory", "name": name, "fences": True, "cursor": "",
                "output": False, "redact": [],
            }  # fmt: skip
            keeper = yard.keeper()
            with keeper.session.transaction() as tx:
                tx.put_fact(HUB, dumps(settings))
                tx.commit()

    def pool(self, yard: Yard, session: str | None = None) -> Pool:
        pool = yard.pool(session)
        pool.open_hub = lambda: self.hub
        return pool

    def sync(self, yard: Yard) -> None:
        exchange(yard.keeper().session, self.hub)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


class TestWithAHubThatFences:
    def test_two_machines_never_take_the_same(self, fleet: Fleet) -> None:
        fleet.here.add("one", "two")
        fleet.sync(fleet.here)
        fleet.sync(fleet.there)
        assert fleet.there.ready() == ["one", "two"]
        # Sessions of one name on two machines are two.
        first = fleet.pool(fleet.here, "ada").take()
        second = fleet.pool(fleet.there, "ada").take()
        assert [first.receipt.state["id"], second.receipt.state["id"]] == ["one", "two"]
        assert (first.lease["hub"], second.lease["hub"]) == (True, True)
        refused("nothing_ready", lambda: fleet.pool(fleet.there, "kim").take())

    def test_labels_and_order_travel(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.here.add("two", after=["one"], labels=["db"])
        fleet.here.pool().change("one", label=["first"])
        fleet.sync(fleet.here)
        fleet.sync(fleet.there)
        state = fleet.there.keeper().show(workflow="two").state
        assert (state["after"], state["labels"]) == (["one"], ["db"])
        assert fleet.there.ready(label="first") == ["one"]
        assert fleet.there.pool().ready().rows[0]["machine"] == "laptop"

    def test_labels_of_two_machines_are_joined(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.sync(fleet.there)
        fleet.here.pool().change("one", label=["a"])
        fleet.there.pool().change("one", label=["b"])
        for yard in (fleet.here, fleet.there, fleet.here):
            fleet.sync(yard)
        labels = [
            yard.keeper().show(workflow="one").state["labels"] for yard in (fleet.here, fleet.there)
        ]
        assert sorted(labels[0]) == ["a", "b"]
        assert labels[0] == labels[1]

    def test_what_a_worker_does_after_it_lost_its_lease_becomes_a_conflict(
        self, fleet: Fleet
    ) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take(lease="10m")
        fleet.here.pass_s(601)
        taken = fleet.pool(fleet.there, "kim").take(lease="10m")
        assert (taken.receipt.state["id"], taken.lease["epoch"]) == ("one", 2)
        # The laptop has heard of nothing yet, and goes on.
        fleet.here.keeper("ada").remind("from the dead")
        fleet.sync(fleet.here)
        fleet.sync(fleet.there)
        for yard in (fleet.here, fleet.there):
            assert yard.keeper().show(workflow="one").state["reminders"] == []
            (conflict,) = Sharing(yard.keeper()).conflicts()
            assert conflict["from"] == "laptop"

    def test_whoever_lost_it_is_told_so_also_if_it_was_given_back_since(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take(lease="10m")
        fleet.here.pass_s(601)
        fleet.pool(fleet.there, "kim").take()
        fleet.there.keeper("kim").remind("from kim")
        fleet.there.pool("kim").give("one")
        fleet.pool(fleet.there).renew()
        assert fleet.pool(fleet.here, "ada").renew() == []
        error = refused("held", lambda: fleet.here.keeper("ada").remind("mine"))
        assert error.message == "your lease of one ran out, and another session has had it since"
        assert error.hint == "holdfast resume one --session ada"
        fleet.here.keeper("ada").resume(workflow="one")
        fleet.here.keeper("ada").remind("mine")
        fleet.pool(fleet.here).exchange(fleet.hub)
        assert Sharing(fleet.here.keeper()).conflicts() == []

    def test_whoever_lost_it_to_another_machine_is_told_to_take_other_work(
        self, fleet: Fleet
    ) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take(lease="10m")
        fleet.here.pass_s(601)
        fleet.pool(fleet.there, "kim").take()
        fleet.pool(fleet.here, "ada").renew()
        error = refused("held", lambda: fleet.here.keeper("ada").remind("mine"))
        assert error.message.startswith("your lease of one ran out, and kim@server/")
        assert error.hint == "holdfast pool take --session ada"

    def test_work_that_another_machine_ended_is_held_no_longer(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.there, "kim").take()
        fleet.here.complete("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.there).exchange(fleet.hub)
        assert fleet.hub.leases() == []
        assert fleet.pool(fleet.there, "kim").renew() == []

    def test_what_another_machine_holds_is_given_back_there(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.there, "kim").take(lease="10m")
        fleet.pool(fleet.here).exchange(fleet.hub)
        for pool in (fleet.here.pool(), fleet.here.pool("ada")):
            error = refused("held", functools.partial(pool.give, "one"))
            assert "kim@server/" in error.message
            assert "on that machine" in error.message
        assert fleet.here.ready() == []
        fleet.here.pass_s(601)
        refused("not_held", lambda: fleet.here.pool().give("one"))

    def test_its_conflicts_are_settled_by_the_holder_or_a_person(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take(lease="10m")
        fleet.here.pass_s(601)
        fleet.pool(fleet.there, "kim").take()
        fleet.here.keeper("ada").remind("too late")
        fleet.here.keeper("ada").remind("and this")
        fleet.pool(fleet.here).exchange(fleet.hub)
        first, second = (one["id"] for one in Sharing(fleet.here.keeper()).conflicts())
        refused("held", lambda: Sharing(fleet.here.keeper("ada")).take(first))
        refused("held", lambda: Sharing(fleet.here.keeper("ada")).drop(first, "it is mine"))
        Sharing(fleet.here.keeper()).take(first)
        fleet.sync(fleet.here)
        fleet.pool(fleet.there).exchange(fleet.hub)
        Sharing(fleet.there.keeper("kim")).drop(second, "not needed")
        state = fleet.there.keeper("kim").remind("go on").state
        assert state["reminders"] == ["too late", "go on"]

    def test_renewal_at_the_hub_keeps_it_and_finds_out_that_it_was_lost(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take(lease="10m")
        fleet.here.pass_s(400)
        fleet.pool(fleet.here, "ada").renew()
        fleet.here.pass_s(400)
        refused("nothing_ready", lambda: fleet.pool(fleet.there, "kim").take())
        fleet.here.pass_s(400)
        fleet.pool(fleet.there, "kim").take()
        assert fleet.pool(fleet.here, "ada").renew() == []
        error = refused("held", lambda: fleet.here.keeper("ada").remind("x", workflow="one"))
        assert "kim@server" in error.message

    def test_what_is_given_back_reaches_the_hub_after_the_work(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take()
        fleet.here.keeper("ada").remind("half of it is done")
        fleet.here.pool("ada").give("one")
        fleet.pool(fleet.here).renew()  # A command in the background does this.
        taken = fleet.pool(fleet.there, "kim").take()
        assert taken.receipt.state["reminders"] == ["half of it is done"]
        assert Sharing(fleet.here.keeper()).conflicts() == []

    def test_status_knows_of_the_exchange_that_came_with_a_take(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fleet.here.add("one")
        fleet.pool(fleet.here, "ada").take()
        status = Sharing(fleet.here.keeper()).status()
        assert (status["unsent"], "failed" in status["last"]) == (0, False)
        fleet.here.keeper("ada").remind("look")
        monkeypatch.setattr(fleet.hub, "pull", Mock(side_effect=unreachable("x", "gone")))
        with pytest.raises(Fault):
            fleet.pool(fleet.here, "kim").take()
        status = Sharing(fleet.here.keeper()).status()
        assert (status["unsent"], "gone" in status["last"]["failed"]) == (1, True)

    def test_what_was_given_back_while_the_hub_was_away_can_be_taken_after_the_next_exchange(
        self, fleet: Fleet
    ) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take()
        fleet.here.pool("ada").give("one")  # The command in the background fails.
        assert fleet.pool(fleet.here, "kim").take().receipt.state["id"] == "one"
        fleet.here.pool("kim").give("one")
        fleet.pool(fleet.here).exchange(fleet.hub)
        assert fleet.hub.leases() == []

    def test_a_renewal_that_is_late_brings_nothing_back(self, fleet: Fleet) -> None:
        """Another process ends the lease, or has it anew, while the hub is asked."""
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take(lease="10m")
        claim = fleet.hub.claim

        def claim_and_give(*words: Any) -> int:
            epoch = claim(*words)
            fleet.here.pool("ada").give("one")
            return epoch

        fleet.hub.claim = claim_and_give  # type: ignore[method-assign]
        assert fleet.pool(fleet.here, "ada").renew() == []
        fleet.hub.claim = claim  # type: ignore[method-assign]
        assert fleet.here.ready() == ["one"]
        assert fleet.hub.leases() == []

    def test_renewal_without_a_session_renews_nothing(self, fleet: Fleet) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.pool(fleet.here, "ada").take()
        fleet.here.pool("ada").give("one")
        fleet.pool(fleet.here).renew()
        assert fleet.hub.leases() == []
        row = fleet.here.keeper().store.ledger.database.row("SELECT until_ms, is_hub FROM leases")
        assert row == (0, 0)

    def test_completed_work_is_not_taken_by_a_machine_that_has_not_heard_of_it(
        self, fleet: Fleet
    ) -> None:
        fleet.here.add("one")
        fleet.sync(fleet.here)
        fleet.sync(fleet.there)
        fleet.pool(fleet.here, "ada").take()
        fleet.here.keeper("ada").complete(force=True, reason="done")
        fleet.pool(fleet.here).renew()
        assert fleet.there.ready() == ["one"]
        refused("nothing_ready", lambda: fleet.pool(fleet.there, "kim").take())
