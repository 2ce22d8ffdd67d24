"""Promise 12: a clock that jumps never reorders history; what a jump expired comes back whole."""

import os

import pytest

from holdfast import Refused
from holdfast.core.time import epoch_ms
from support.workshop import DAY_MS, FORMATS, YEAR_MS, lines_of, open_workflow, worked_on

pytestmark = pytest.mark.promise(12)

JUMPS = {"a year ahead": YEAR_MS, "a year back": -YEAR_MS}
BOOKKEEPING = ("updated_at", "history", "history_earlier", "session", "status")
EXPIRE = ("verb", "skill")
"""The formats whose recipes have a time to live."""
each_format = pytest.mark.parametrize("record_format", FORMATS)
each_jump = pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)


def without_bookkeeping(state):
    return {key: value for key, value in state.items() if key not in BOOKKEEPING}


def jumping(shop, jump, workflow):
    """A few commands with the clock jumping before each; the seqs they were given."""
    seqs = []
    for number in range(6):
        shop.clock.ms += jump if number % 2 else -jump
        seqs += shop.keeper().remind(f"reminder {number}", workflow=workflow).seqs
    return seqs


@each_jump
@each_format
def test_history_stays_in_the_order_in_which_it_was_recorded(shop, record_format, jump):
    workflow = open_workflow(shop.keeper(), record_format, ttl="999d")["id"]
    before = shop.keeper().log()
    seqs = jumping(shop, jump, workflow)
    events = shop.keeper().log()
    assert events[: len(before)] == before
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert seqs == [event["seq"] for event in events[len(before) :]]
    assert [event["data"]["text"] for event in events[len(before) :]] == [
        f"reminder {number}" for number in range(6)
    ]
    times = [epoch_ms(event["at"]) for event in events[len(before) :]]
    assert times != sorted(times), "the clock really jumped"
    assert shop.keeper().log(workflow=workflow) == events
    assert shop.keeper().log(limit=3) == events[-3:]
    assert lines_of(shop.keeper()) == []


@each_jump
@each_format
def test_the_state_is_that_of_the_last_event_not_of_the_latest_time(shop, record_format, jump):
    workflow = open_workflow(shop.keeper(), record_format, ttl="999d")["id"]
    for number in range(4):
        shop.clock.ms += jump if number % 2 else -jump
        shop.keeper().set_context({"last": number}, workflow=workflow)
    state = shop.keeper().show(workflow=workflow).state
    assert state["context"]["last"] == 3
    entries = [entry for entry in state["history"] if entry["event"] == "context_set"]
    assert len(entries) == 4
    os.unlink(shop.path(state["record"]))
    assert shop.keeper().show(workflow=workflow).state == state


@each_format
def test_a_clock_set_back_expires_nothing(shop, record_format):
    state = worked_on(shop.keeper(), record_format)
    shop.clock.ms -= YEAR_MS
    look = shop.keeper().show(workflow=state["id"])
    assert look.state == state
    assert look.notes == []
    assert shop.keeper().remind("on we go", workflow=state["id"]).state["status"] == "in_progress"
    assert [row["id"] for row in shop.keeper().workflows()[0]] == [state["id"]]


@pytest.mark.parametrize("record_format", ["formal", "loop"])
def test_what_has_no_time_to_live_lives_through_any_jump(shop, record_format):
    state = worked_on(shop.keeper(), record_format)
    shop.clock.ms += 10 * YEAR_MS
    assert shop.keeper().show(workflow=state["id"]).state == state


def expire(shop, record_format, *, way="status"):
    state = worked_on(shop.keeper(), record_format)
    shop.clock.ms += YEAR_MS
    if way == "status":
        rows, notes = shop.keeper().workflows()
        assert rows == []
    elif way == "show":
        notes = shop.keeper().show(workflow=state["id"]).notes
    else:
        with pytest.raises(Refused) as refused:
            shop.keeper().remind("too late", workflow=state["id"])
        assert refused.value.code == "ended"
        assert f"holdfast resume {state['id']}" in refused.value.hint
        return state
    assert any(f"holdfast resume {state['id']}" in note for note in notes)
    shop.keeper().settle(workflow=state["id"])
    return state


@pytest.mark.parametrize("way", ["status", "show", "command"])
@pytest.mark.parametrize("record_format", EXPIRE)
def test_what_a_jump_expired_comes_back_whole(shop, record_format, way):
    state = expire(shop, record_format, way=way)
    if record_format == "verb":
        with open(shop.path(state["record"]), encoding="utf-8") as record:
            assert record.read() == "{}\n"
    else:
        assert not os.path.exists(shop.path(state["record"]))
    assert shop.keeper().log()[-1]["type"] == "workflow_expired"
    receipt = shop.keeper().resume(workflow=state["id"])
    assert without_bookkeeping(receipt.state) == without_bookkeeping(state)
    assert receipt.state["status"] == "in_progress"
    kept = [entry["event"] for entry in receipt.state["history"]]
    assert kept[-2:] == ["workflow_expired", "workflow_resumed"]
    assert receipt.state["history"][: len(state["history"])] == state["history"]
    assert without_bookkeeping(
        shop.keeper().show(workflow=state["id"]).state
    ) == without_bookkeeping(state)
    assert shop.document(state["record"])["_holdfast"]["seq"] == receipt.seqs[-1]
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("record_format", EXPIRE)
def test_it_comes_back_whole_when_the_clock_is_right_again(shop, record_format):
    state = expire(shop, record_format)
    shop.clock.ms -= YEAR_MS
    assert shop.keeper().show(workflow=state["id"]).state["status"] == "expired"
    resumed = shop.keeper().resume(workflow=state["id"]).state
    assert without_bookkeeping(resumed) == without_bookkeeping(state)
    shop.clock.ms += DAY_MS // 2
    assert shop.keeper().show(workflow=state["id"]).state["status"] == "in_progress"


@pytest.mark.parametrize("record_format", EXPIRE)
def test_a_blocked_workflow_comes_back_blocked(shop, record_format):
    state = worked_on(shop.keeper(), record_format)
    blocked = shop.keeper().block_phase(state["phase"], {"reason": "waits"}, workflow=state["id"])
    shop.clock.ms += YEAR_MS
    assert shop.keeper().workflows()[0] == []
    resumed = shop.keeper().resume(workflow=state["id"]).state
    assert without_bookkeeping(resumed) == without_bookkeeping(blocked.state)
    assert resumed["status"] == "blocked"


@pytest.mark.parametrize("record_format", EXPIRE)
def test_an_expired_workflow_with_an_unadopted_edit_comes_back_with_it(shop, record_format):
    """The edit was saved, nobody looked, and then the clock jumped."""
    state = worked_on(shop.keeper(), record_format)
    shop.edit(state["record"], lambda document: document.update({"x-note": "by hand"}))
    shop.clock.ms += YEAR_MS
    shop.keeper().workflows()
    resumed = shop.keeper().resume(workflow=state["id"]).state
    assert resumed["extra"]["x-note"] == "by hand"


@pytest.mark.parametrize("record_format", EXPIRE)
def test_a_stale_copy_does_not_bring_an_expired_workflow_back_by_itself(shop, record_format):
    state = worked_on(shop.keeper(), record_format)
    stale = shop.read(state["record"])
    shop.clock.ms += YEAR_MS
    shop.keeper().settle(workflow=state["id"])
    shop.write(state["record"], stale)
    rows, _ = shop.keeper().workflows()
    assert rows == []
    resumed = shop.keeper().resume(workflow=state["id"]).state
    assert without_bookkeeping(resumed) == without_bookkeeping(state)


def remove(shop, state):
    os.unlink(shop.path(state["record"]))


def empty(shop, state):
    shop.write(state["record"], b"")


def put_back_an_earlier_copy(shop, state):
    copy = shop.read(state["record"])
    shop.keeper().remind("later", workflow=state["id"])
    shop.write(state["record"], copy)


@pytest.mark.parametrize("command", ["remind", "repair", "clean"])
@pytest.mark.parametrize("lose", [remove, empty, put_back_an_earlier_copy])
@pytest.mark.parametrize("record_format", EXPIRE)
def test_a_record_that_is_gone_or_older_keeps_no_workflow_alive(shop, record_format, lose, command):
    state = worked_on(shop.keeper(), record_format)
    lose(shop, state)
    shop.clock.ms += YEAR_MS
    assert shop.keeper().workflows()[0] == []
    if command == "remind":
        with pytest.raises(Refused) as refused:
            shop.keeper().remind("too late", workflow=state["id"])
        assert refused.value.code == "ended"
    else:
        getattr(shop.keeper(), command)()
    assert shop.keeper().log()[-1]["type"] == "workflow_expired"
    assert shop.keeper().workflows()[0] == []
    assert lines_of(shop.keeper()) == []
    assert (
        without_bookkeeping(shop.keeper().resume(workflow=state["id"]).state)["phase"]
        == state["phase"]
    )


@each_jump
def test_several_workflows_are_never_mixed_up(shop, jump):
    ids = [open_workflow(shop.keeper(), one, f"work on {one}", ttl="999d")["id"] for one in FORMATS]
    for number in range(8):
        shop.clock.ms += jump if number % 3 else -jump
        text = f"number {number} for {ids[number % 4]}"
        shop.keeper().remind(text, workflow=ids[number % 4])
    for place, workflow in enumerate(ids):
        state = shop.keeper().show(workflow=workflow).state
        expected = [f"number {number} for {workflow}" for number in (place, place + 4)]
        assert state["reminders"] == ["mind the gap", *expected]
        versions = [event["version"] for event in shop.keeper().log(workflow=workflow)]
        assert versions == list(range(1, len(versions) + 1))
    assert lines_of(shop.keeper()) == []


@each_jump
def test_the_session_that_was_bound_last_holds_the_workflow_whatever_the_clock_says(shop, jump):
    first = open_workflow(shop.keeper(session="mine"), "skill", "first work", ttl="999d")["id"]
    shop.clock.ms += jump
    second = open_workflow(shop.keeper(session="mine"), "loop", "second work", ttl="999d")["id"]
    assert shop.keeper(session="mine").show().state["id"] == second
    shop.clock.ms -= 2 * jump
    shop.keeper(session="mine").resume(workflow=first)
    assert shop.keeper(session="mine").show().state["id"] == first


@each_format
def test_a_workflow_begun_again_under_a_clock_set_back_is_a_new_run(shop, record_format):
    state = worked_on(shop.keeper(), record_format)
    shop.keeper().complete("done", force=True, reason="enough", workflow=state["id"])
    shop.clock.ms -= YEAR_MS
    again = worked_on(shop.keeper(), record_format)
    assert again["id"] == state["id"]
    assert again["created_at"] < state["created_at"]
    assert shop.keeper().show(workflow=again["id"]).state == again
    os.unlink(shop.path(again["record"]))
    assert shop.keeper().settle(workflow=again["id"]).state == again
    seqs = [event["seq"] for event in shop.keeper().log()]
    assert seqs == sorted(seqs)
    assert lines_of(shop.keeper()) == []


def test_a_jump_changes_no_event_that_was_recorded_before(shop):
    workflow = open_workflow(shop.keeper(), "formal")["id"]
    before = shop.keeper().log()
    jumping(shop, YEAR_MS, workflow)
    assert shop.keeper().log()[: len(before)] == before
