"""A request that is repeated under its id is answered once more; another request is refused."""

import subprocess

import pytest

from holdfast import Initiatives, Loops, Refused
from support.workshop import Workshop


@pytest.fixture
def keeper(tmp_path):
    shop = Workshop(tmp_path / "repository")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    commit = ["git", *who, "commit", "--quiet", "--allow-empty", "-m", "first"]
    subprocess.run(commit, cwd=shop.root, check=True)
    keeper = shop.keeper(session="s1")
    keeper.start("dev", "a.md", tasks=["one", "two"])
    keeper.remind("first")
    keeper.ask("Which?")
    return keeper


CHECK = ["test", "-d", "."]
REQUESTS = {
    "start": lambda keeper: keeper.start("dev", "b.md", id="same"),
    "start another": lambda keeper: keeper.start("dev", "c.md", id="same"),
    "start with a title": lambda keeper: keeper.start("dev", "b.md", title="B", id="same"),
    "start with a task": lambda keeper: keeper.start("dev", "b.md", tasks=["b"], id="same"),
    "complete": lambda keeper: keeper.complete(force=True, reason="enough", id="same"),
    "complete otherwise": lambda keeper: keeper.complete("done", force=True, reason="x", id="same"),
    "abandon": lambda keeper: keeper.abandon(id="same"),
    "abandon for a reason": lambda keeper: keeper.abandon("why", id="same"),
    "undo": lambda keeper: keeper.undo(id="same"),
    "skip a phase": lambda keeper: keeper.skip_phase("load_feature", "known", id="same"),
    "complete a phase": lambda keeper: keeper.complete_phase(
        "load_feature", force=True, reason="known", id="same"
    ),
    "with fields": lambda keeper: keeper.complete_phase(
        "load_feature", {"a": 1}, force=True, reason="known", id="same"
    ),
    "block a phase": lambda keeper: keeper.block_phase("load_feature", {"reason": "a"}, id="same"),
    "block it for b": lambda keeper: keeper.block_phase("load_feature", {"reason": "b"}, id="same"),
    "approve a phase": lambda keeper: keeper.approve_phase("load_feature", id="same"),
    "approve it as Ada": lambda keeper: keeper.approve_phase(
        "load_feature", {"approver": "Ada"}, id="same"
    ),
    "add a task": lambda keeper: keeper.add_task("three", id="same"),
    "add another task": lambda keeper: keeper.add_task("four", id="same"),
    "add two tasks": lambda keeper: keeper.add_tasks(["three", "four"], id="same"),
    "start a task": lambda keeper: keeper.start_task(1, id="same"),
    "start another task": lambda keeper: keeper.start_task(2, id="same"),
    "complete a task": lambda keeper: keeper.complete_task(
        1, force=True, reason="small", id="same"
    ),
    "with a commit": lambda keeper: keeper.complete_task(
        1, "HEAD", force=True, reason="small", id="same"
    ),
    "block a task": lambda keeper: keeper.block_task(1, "why", id="same"),
    "edit a task": lambda keeper: keeper.edit_task(1, "once", id="same"),
    "edit it otherwise": lambda keeper: keeper.edit_task(1, "twice", id="same"),
    "move a task": lambda keeper: keeper.move_task(1, after=2, id="same"),
    "remove a task": lambda keeper: keeper.remove_task(1, id="same"),
    "ask": lambda keeper: keeper.ask("Why?", ["a", "b"], id="same"),
    "ask with other choices": lambda keeper: keeper.ask("Why?", ["a"], id="same"),
    "ask and wait": lambda keeper: keeper.ask("Why?", ["a", "b"], blocking=True, id="same"),
    "answer": lambda keeper: keeper.answer(1, "a", id="same"),
    "answer otherwise": lambda keeper: keeper.answer(1, "b", id="same"),
    "withdraw": lambda keeper: keeper.withdraw_question(1, id="same"),
    "remind": lambda keeper: keeper.remind("a", id="same"),
    "remind of b": lambda keeper: keeper.remind("b", id="same"),
    "require reading": lambda keeper: keeper.require_reading("@a.md", id="same"),
    "set context": lambda keeper: keeper.set_context({"a": 1}, id="same"),
    "set other context": lambda keeper: keeper.set_context({"a": 2}, id="same"),
    "rename": lambda keeper: keeper.rename("x", id="same"),
    "run a gate": lambda keeper: keeper.evidence().run_gate("test", CHECK, id="same"),
    "run another gate": lambda keeper: keeper.evidence().run_gate("lint", CHECK, id="same"),
    "claim a gate": lambda keeper: keeper.evidence().record_gate("docs", passed=True, id="same"),
    "claim it failed": lambda keeper: keeper.evidence().record_gate(
        "docs", passed=False, id="same"
    ),
    "claim with fields": lambda keeper: keeper.evidence().record_gate(
        "docs", {"a": 1}, passed=True, id="same"
    ),
    "waive a gate": lambda keeper: keeper.evidence().waive_gate("lint", "no linter", id="same"),
    "add a violation": lambda keeper: keeper.evidence().add_violation("V1", "LOW", "a", id="same"),
    "a severe one": lambda keeper: keeper.evidence().add_violation("V1", "HIGH", "a", id="same"),
    "one about b": lambda keeper: keeper.evidence().add_violation("V1", "LOW", "b", id="same"),
    "run tests": lambda keeper: keeper.evidence().run_tests(CHECK, id="same"),
    "claim tests": lambda keeper: keeper.evidence().record_tests("x", id="same"),
    "claim other tests": lambda keeper: keeper.evidence().record_tests("y", id="same"),
    "touch a file": lambda keeper: keeper.evidence().add_file("a.py", id="same"),
    "touch another": lambda keeper: keeper.evidence().add_file("b.py", id="same"),
    "remember": lambda keeper: keeper.remember("one", id="same"),
    "remember as a pattern": lambda keeper: keeper.remember("one", kind="pattern", id="same"),
    "note for the forge": lambda keeper: keeper.note_forge("a", "b", id="same"),
    "note for another": lambda keeper: keeper.note_forge("a", "c", id="same"),
    "an interview": lambda keeper: keeper.interviews().record("dev", 0.5, id="same"),
    "another interview": lambda keeper: keeper.interviews().record("dev", 0.6, id="same"),
    "no interview": lambda keeper: keeper.interviews().skip("dev", "a", id="same"),
    "a delegation": lambda keeper: keeper.delegations().record("a", outcome="ok", id="same"),
    "another delegation": lambda keeper: keeper.delegations().record("b", outcome="ok", id="same"),
    "an override": lambda keeper: keeper.delegations().override("a", "b", id="same"),
    "another override": lambda keeper: keeper.delegations().override("a", "c", id="same"),
    "a routing": lambda keeper: keeper.delegations().routing("a", "b", "c", id="same"),
    "begin an initiative": lambda keeper: Initiatives(keeper).create("I", ["M1: a"], id="same"),
    "with another milestone": lambda keeper: Initiatives(keeper).create("I", ["M2: a"], id="same"),
    "begin a loop": lambda keeper: Loops(keeper).new("next", id="same"),
    "with another outcome": lambda keeper: Loops(keeper).new("next", outcome="x", id="same"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_request_is_applied_once(keeper, name):
    first = REQUESTS[name](keeper)
    events = len(keeper.log())
    assert REQUESTS[name](keeper).seqs == first.seqs
    assert len(keeper.log()) == events


@pytest.mark.parametrize("name", REQUESTS)
def test_another_request_with_the_same_id_is_refused(keeper, name):
    REQUESTS[name](keeper)
    before = keeper.log()
    for other, request in REQUESTS.items():
        if other != name:
            with pytest.raises(Refused) as caught:
                request(keeper)
            assert "is that of another command" in caught.value.message, other
    assert keeper.log() == before


def test_the_refusal_names_the_event_of_the_earlier_command(keeper):
    keeper.start_task(1, id="same")
    (event,) = [event for event in keeper.log() if event["id"] == "same"]
    with pytest.raises(Refused) as caught:
        keeper.remind("a", id="same")
    assert f"event {event['seq']}, {event['type']} of {event['stream']}" in caught.value.message


def test_an_id_that_holdfast_gave_an_event_is_no_other_request(keeper):
    """Its caller knows it from the advice after a commit whose outcome is unknown."""
    keeper.start_task(1)
    (event,) = [event for event in keeper.log() if event["type"] == "task_started"]
    others = [
        lambda: keeper.start_task(2, id=event["id"]),
        lambda: keeper.complete_task(1, force=True, reason="small", id=event["id"]),
        lambda: keeper.remind("a", id=event["id"]),
        lambda: keeper.block_task(1, "why", id=event["id"]),
    ]
    for other in others:
        with pytest.raises(Refused) as caught:
            other()
        assert "is that of another command" in caught.value.message
    assert keeper.start_task(1, id=event["id"]).seqs == [event["seq"]]


def test_a_change_of_several_commands_is_repeated_whole(keeper):
    def change(*texts):
        with keeper.transaction(id="same") as tx:
            for text in texts:
                tx.decide("add_reminder", text=text)
            return tx.commit().seqs

    first = change("a", "b")
    assert change("a", "b") == first
    for others in (("a", "c"), ("b", "a"), ("a", "b", "c")):
        with pytest.raises(Refused):
            change(*others)


def test_a_verification_that_failed_can_be_repeated(tmp_path):
    loops = Loops(Workshop(tmp_path / "verified").keeper())
    loops.new("auth")
    loops.plan("auth", "T1: one")
    loops.iterate("T1", did="all", signal="T1_DONE")
    loops.confirm("T1")
    first = loops.run_verification("T1", ["test", "-f", "x"], id="same")
    assert loops.run_verification("T1", ["test", "-f", "x"], id="same").seqs == first.seqs
    for other in (["true"], ["false", "x"]):
        with pytest.raises(Refused):
            loops.run_verification("T1", other, id="same")


def test_a_repetition_may_observe_something_else(keeper, tmp_path):
    root = tmp_path / "repository"
    (root / "new.py").write_text("1\n")
    first = keeper.evidence().sync_files(id="files")
    (root / "newer.py").write_text("2\n")
    assert keeper.evidence().sync_files(id="files").seqs == first.seqs


def test_a_step_that_is_forced_is_another_request(keeper):
    keeper.advance()
    keeper.advance(force=True, reason="known")
    keeper.start_task(1)
    evidence, failing = keeper.evidence(), ["test", "-f", "nothing"]
    first = evidence.take_step("red", failing, id="same")
    assert evidence.take_step("red", failing, id="same").seqs == first.seqs
    with pytest.raises(Refused, match="is that of another command"):
        evidence.take_step("red", failing, force=True, reason="known", id="same")


def test_two_learnings_cannot_share_an_id(keeper):
    keeper.remember("one", id="same")
    with pytest.raises(Refused):
        keeper.remember("two", id="same")
    assert [entry["text"] for entry in keeper.learnings()] == ["one"]


@pytest.fixture
def loops(tmp_path):
    keeper = Workshop(tmp_path / "loops").keeper()
    loops = Loops(keeper)
    loops.new("auth")
    for unit in ("T1: one", "T2: two"):
        loops.plan("auth", unit)
    return loops


LOOP_REQUESTS = {
    "plan": lambda loops: loops.plan("auth", "T3: three", id="same"),
    "plan another": lambda loops: loops.plan("auth", "T4: four", id="same"),
    "block": lambda loops: loops.block("T1", "why", id="same"),
    "block another": lambda loops: loops.block("T2", "why", id="same"),
    "iterate": lambda loops: loops.iterate("T1", did="a", remaining="b", id="same"),
    "iterate otherwise": lambda loops: loops.iterate("T1", did="c", remaining="b", id="same"),
    "a lesson": lambda loops: loops.guardrail(when="a", problem="b", solution="c", id="same"),
    "another lesson": lambda loops: loops.guardrail(when="x", problem="b", solution="c", id="same"),
    "archive": lambda loops: loops.archive("auth", id="same"),
    "begin": lambda loops: loops.new("next", id="same"),
}


@pytest.mark.parametrize("name", LOOP_REQUESTS)
def test_the_same_request_of_a_loop_is_applied_once_and_another_is_refused(loops, name):
    first = LOOP_REQUESTS[name](loops)
    assert LOOP_REQUESTS[name](loops).seqs == first.seqs
    for other, request in LOOP_REQUESTS.items():
        if other != name:
            with pytest.raises(Refused) as caught:
                request(loops)
            assert "is that of another command" in caught.value.message, other


def test_a_sync_of_an_initiative_does_not_pass_for_another_request(tmp_path):
    initiatives = Initiatives(Workshop(tmp_path).keeper())
    initiatives.create("Ship it", milestones=["M1: first"], id="same")
    with pytest.raises(Refused):
        initiatives.sync(id="same")


def test_a_repeated_resume_that_was_not_briefed_still_is(keeper):
    def resume(own_id):
        return keeper.resume(workflow=name, id=own_id)

    name = keeper.abandon("not today").state["id"]
    resume("one")
    keeper.note_briefing("a briefing", "resume", workflow=name)
    assert not keeper.needs_delivery(resume("one"))
    keeper.abandon("not today")
    resume("two")  # Its process is killed before it records the briefing.
    assert keeper.needs_delivery(resume("two"))
