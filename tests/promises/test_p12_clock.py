"""Promise 12: a clock that jumps never reorders history; what a jump expired comes back whole."""

import pytest

from holdfast import Refused
from tests.workshop import DAY_MS, FORMATS, NOON, RECIPES, YEAR_MS, Workshop

pytestmark = pytest.mark.promise

JUMPS = {"a year ahead": YEAR_MS, "a year back": -YEAR_MS}


def bookkeeping(state):
    """Everything of a state but what ending and coming back leave in it."""
    left_out = ("updated_at", "history", "history_earlier")
    return {key: value for key, value in state.items() if key not in left_out}


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
@pytest.mark.parametrize("record_format", FORMATS)
def test_history_keeps_its_order_when_the_clock_jumps(tmp_path, record_format, jump):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    name = keeper.start(RECIPES[record_format], "Work", ttl="9999999w").state["id"]
    keeper.add_task("before", workflow=name)
    shop.clock.ms += jump
    keeper.add_task("after", workflow=name)
    shop.clock.ms -= jump
    keeper.add_task("and again", workflow=name)
    events = shop.keeper().log()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    told = [event["data"]["description"] for event in events if event["type"] == "task_added"]
    assert told == ["before", "after", "and again"]
    state = shop.keeper().show(workflow=name).state
    assert [task["description"] for task in state["tasks"]] == told
    history = [entry["task"] for entry in state["history"] if entry["event"] == "task_added"]
    assert history == [task["id"] for task in state["tasks"]]
    assert shop.keeper().verify().ok


@pytest.mark.parametrize("record_format", ["verb", "skill"])
def test_what_a_jump_expired_comes_back_whole(tmp_path, record_format):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    name = keeper.start(RECIPES[record_format], "Work", tasks=["one", "two"]).state["id"]
    keeper.complete_task(1, workflow=name)
    keeper.advance(workflow=name)
    before = keeper.show(workflow=name).state
    record = (tmp_path / before["record"]).read_bytes()
    shop.clock.ms += YEAR_MS
    _, notes = shop.keeper().workflows()
    assert any("has expired" in note for note in notes)
    assert not (tmp_path / before["record"]).exists()
    with pytest.raises(Refused) as refused:
        shop.keeper().add_task("three", workflow=name)
    assert refused.value.hint == f"holdfast resume {name}"
    shop.clock.ms = NOON
    back = shop.keeper().resume(workflow=name).state
    assert bookkeeping(back) == bookkeeping(before)
    assert (tmp_path / before["record"]).read_bytes() != record
    assert shop.keeper().complete_task(2, workflow=name).state["tasks"][1]["status"] == "completed"


@pytest.mark.parametrize("record_format", ["formal", "loop"])
def test_what_has_no_time_to_live_is_not_expired_by_a_jump(tmp_path, record_format):
    shop = Workshop(tmp_path)
    name = shop.keeper().start(RECIPES[record_format], "Work").state["id"]
    shop.clock.ms += 10 * YEAR_MS
    assert shop.keeper().show(workflow=name).state["status"] == "in_progress"


def test_a_clock_that_went_back_expires_nothing(tmp_path):
    shop = Workshop(tmp_path)
    name = shop.keeper().start("apex", "Work").state["id"]
    shop.clock.ms -= YEAR_MS
    assert shop.keeper().show(workflow=name).state["status"] == "in_progress"


def test_a_workflow_lives_through_its_last_minute_and_not_beyond(tmp_path):
    shop = Workshop(tmp_path)
    name = shop.keeper().start("apex", "Work", ttl="1d").state["id"]
    began = shop.clock.ms
    shop.clock.ms = began + DAY_MS - 5_000
    assert shop.keeper().show(workflow=name).state["status"] == "in_progress"
    shop.clock.ms = began + DAY_MS + 5_000
    assert shop.keeper().show(workflow=name).state["status"] == "expired"
