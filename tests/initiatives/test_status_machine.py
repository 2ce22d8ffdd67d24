"""The status machine, whatever is asked."""

from hypothesis import given
from hypothesis import strategies as st

from initiatives.wishes import WISHES, begun, granted


@given(st.lists(WISHES, max_size=40))
def test_status_never_leaves_completed_but_for_the_archive(commands):
    state = begun()
    for each in commands:
        before = state["status"]
        state = granted(state, [each])
        if before == "completed":
            assert state["status"] in ("completed", "archived")
        if before == "archived":
            assert state["status"] == "archived"
        if before != "created":
            assert state["status"] != "created"


@given(st.lists(WISHES, max_size=40))
def test_the_current_milestone_is_open_while_any_is(commands):
    state = granted(begun(), commands)
    statuses = {milestone["id"]: milestone["status"] for milestone in state["milestones"]}
    completed = set(statuses.values()) == {"completed"}
    assert (statuses[state["current_milestone"]] == "completed") == completed
