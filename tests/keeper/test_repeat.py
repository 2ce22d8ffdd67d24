"""A request that is repeated under its id is answered once more; another request is refused."""

import pytest

from holdfast import Initiatives, Loops, Refused
from support.workshop import Workshop


@pytest.fixture
def keeper(tmp_path):
    shop = Workshop(tmp_path / "repository")
    keeper = shop.keeper(session="s1")
    keeper.start("dev", "a.md", tasks=["one", "two"])
    return keeper


CHECK = ["test", "-d", "."]
REQUESTS = {
    "start a task": lambda keeper: keeper.start_task(1, id="same"),
    "start another task": lambda keeper: keeper.start_task(2, id="same"),
    "complete a task": lambda keeper: keeper.complete_task(1, id="same"),
    "set context": lambda keeper: keeper.set_context({"a": 1}, id="same"),
    "set other context": lambda keeper: keeper.set_context({"a": 2}, id="same"),
    "run a gate": lambda keeper: keeper.evidence().run_gate("test", CHECK, id="same"),
    "run another gate": lambda keeper: keeper.evidence().run_gate("lint", CHECK, id="same"),
    "run tests": lambda keeper: keeper.evidence().run_tests(CHECK, id="same"),
    "approve a phase": lambda keeper: keeper.approve_phase("load_feature", id="same"),
    "waive a gate": lambda keeper: keeper.evidence().waive_gate("lint", "no linter", id="same"),
    "skip a phase": lambda keeper: keeper.skip_phase("load_feature", "known", id="same"),
    "complete": lambda keeper: keeper.complete(force=True, reason="enough", id="same"),
    "abandon": lambda keeper: keeper.abandon(id="same"),
    "start": lambda keeper: keeper.start("dev", "b.md", id="same"),
    "start another": lambda keeper: keeper.start("dev", "c.md", id="same"),
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


def test_a_repetition_may_observe_something_else(keeper, tmp_path):
    root = tmp_path / "repository"
    (root / "new.py").write_text("1\n")
    first = keeper.evidence().sync_files(id="files")
    (root / "newer.py").write_text("2\n")
    assert keeper.evidence().sync_files(id="files").seqs == first.seqs


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
