"""A request that is repeated under its id is answered once more; another request is refused."""

import pytest

from holdfast import Refused
from support.workshop import Workshop


@pytest.fixture
def keeper(tmp_path):
    shop = Workshop(tmp_path / "repository")
    keeper = shop.keeper(session="s1")
    keeper.start("dev", "a.md", tasks=["one", "two"])
    return keeper


REQUESTS = {
    "start a task": lambda keeper: keeper.start_task(1, id="same"),
    "start another task": lambda keeper: keeper.start_task(2, id="same"),
    "complete a task": lambda keeper: keeper.complete_task(1, id="same"),
    "set context": lambda keeper: keeper.set_context({"a": 1}, id="same"),
    "set other context": lambda keeper: keeper.set_context({"a": 2}, id="same"),
    "run a gate": lambda keeper: keeper.run_gate("test", ["true"], id="same"),
    "run another gate": lambda keeper: keeper.run_gate("lint", ["true"], id="same"),
    "run tests": lambda keeper: keeper.run_tests(["true"], id="same"),
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
    first = keeper.sync_files(id="files")
    (root / "newer.py").write_text("2\n")
    assert keeper.sync_files(id="files").seqs == first.seqs


def test_two_learnings_cannot_share_an_id(keeper):
    keeper.remember("one", id="same")
    with pytest.raises(Refused):
        keeper.remember("two", id="same")
    assert [entry["text"] for entry in keeper.learnings()] == ["one"]
