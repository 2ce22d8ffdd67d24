"""Time travel: a workflow as it was after an event, and what changed between two events."""

import pytest

from holdfast.errors import Fault, Refused
from support.workshop import DAY_MS, FORMATS, HOME, open_workflow


def test_every_earlier_state_of_every_format_is_what_it_was_then(shop):
    keeper = shop.keeper()
    seen = {}

    def look(workflow):
        seen[keeper.store.ledger.head_seq, workflow] = keeper.show(workflow=workflow).state

    for name in FORMATS:
        workflow = open_workflow(keeper, name, subject=f"work of {name}")["id"]
        look(workflow)
        keeper.remind("hold on", workflow=workflow)
        look(workflow)
        keeper.set_context({"attempt": 2}, workflow=workflow)
        look(workflow)
        keeper.undo(workflow=workflow)
        look(workflow)
    for (seq, workflow), state in seen.items():
        past = keeper.state_at(seq)
        assert past.state == state
        assert past.state["id"] == workflow
        assert past.event == keeper.log()[seq - 1]


def test_the_workflow_is_that_of_the_event_unless_one_is_named(shop):
    keeper = shop.keeper()
    first = keeper.start("dev", "docs/a.md").state["id"]
    begun = keeper.store.ledger.head_seq
    second = keeper.start("tdd", "docs/b.md").state["id"]
    later = keeper.store.ledger.head_seq
    keeper.remind("later", workflow=first)
    assert keeper.state_at(begun).state["id"] == first
    assert keeper.state_at(later).state["id"] == second
    past = keeper.state_at(later, workflow=first)
    assert (past.state["id"], past.state["reminders"]) == (first, [])
    with pytest.raises(Refused) as caught:
        keeper.state_at(begun, workflow=second)
    assert caught.value.hint == f"holdfast show {second} --at {begun + 1}"


def test_after_an_event_of_a_log_it_is_the_callers_own_workflow(shop):
    keeper = shop.keeper()
    workflow = keeper.start("dev", "docs/a.md").state["id"]
    keeper.remember("a fact")
    seq = keeper.store.ledger.head_seq
    keeper.remind("later")
    assert keeper.state_at(seq).state["id"] == workflow
    assert keeper.state_at(seq).state["reminders"] == []


@pytest.mark.parametrize("seq", [0, -1, 999, 2**70])
def test_an_event_that_does_not_exist_is_refused(dev_shop, seq):
    with pytest.raises(Refused) as caught:
        dev_shop.keeper().state_at(seq)
    assert caught.value.code == "not_found"
    assert caught.value.hint == "holdfast log --limit 20"


def test_archived_states_are_shown_as_long_as_their_archive_is_there(shop, tmp_path):
    keeper = shop.keeper()
    workflow = keeper.start("dev", "docs/a.md", tasks=["one"]).state["id"]
    keeper.remind("early")
    seq = keeper.store.ledger.head_seq
    before = keeper.state_at(seq).state
    keeper.abandon("no more")
    shop.clock.ms += 90 * DAY_MS
    name = keeper.archive("1d").name
    keeper = shop.keeper()
    assert keeper.state_at(seq).state == before
    (archive,) = (tmp_path / "work" / HOME / "archives").iterdir()
    assert archive.name == name
    archive.rename(tmp_path / name)
    with pytest.raises(Fault) as caught:
        shop.keeper().state_at(seq, workflow=workflow)
    assert caught.value.code == "archive_unreadable"


def test_changes_are_told_by_their_paths_and_in_words(shop):
    keeper = shop.keeper()
    workflow = keeper.start("dev", "docs/a.md", tasks=["one", "two"]).state["id"]
    begin = keeper.store.ledger.head_seq
    keeper.remind("hold on")
    keeper.start_task(2)
    keeper.set_context({"baseline_ms": 41})
    keeper.evidence().run_gate("lint", ["test", "-d", "."])
    end = keeper.store.ledger.head_seq
    rows = {row["path"]: row for row in keeper.changes(workflow, begin, end)}
    assert rows["tasks[1].status"] == {
        "path": "tasks[1].status", "about": "task 2, status", "was": "pending",
        "now": "in_progress",
    }  # fmt: skip
    assert rows["context.baseline_ms"] == {
        "path": "context.baseline_ms", "about": "context baseline_ms", "now": 41,
    }  # fmt: skip
    assert rows["reminders.+"]["about"] == "reminders"
    assert rows["reminders.+"]["now"] == ["hold on"]
    assert rows["gates.lint.passed"]["about"] == "gate lint, passed"
    assert not [path for path in rows if path.startswith(("history", "updated_at"))]


def test_changes_backwards_are_the_same_with_was_and_now_exchanged(shop):
    keeper = shop.keeper()
    workflow = keeper.start("dev", "docs/a.md", tasks=["one"]).state["id"]
    begin = keeper.store.ledger.head_seq
    keeper.start_task(1)
    end = keeper.store.ledger.head_seq
    there = keeper.changes(workflow, begin, end)
    back = {row["path"]: row for row in keeper.changes(workflow, end, begin)}
    for row in there:
        assert back[row["path"]].get("was") == row.get("now")
        assert back[row["path"]].get("now") == row.get("was")
    assert keeper.changes(workflow, end, end) == []


def test_before_its_first_event_a_workflow_has_nothing(shop):
    keeper = shop.keeper()
    keeper.remember("a fact")
    workflow = keeper.start("dev", "docs/a.md").state["id"]
    rows = keeper.changes(workflow, 0, 2)
    assert rows == keeper.changes(workflow, 1, 2)
    assert {"path": "subject", "about": "subject", "now": "docs/a.md"} in rows
    assert not [row for row in rows if "was" in row]
