"""Edits by which a script moves a workflow on: to its next cycle, to its end, to a new name."""

import os

import pytest

from holdfast.core.workflow import declared_phase, find_phase
from support.workshop import lines_of, types

GREEN = {"implementation_file": "a.py"}
RED = {"test_file": "test_a.py", "failure_confirmed": True}


@pytest.fixture
def tdd(shop):
    """A ``tdd`` workflow in the last phase of its first cycle."""
    keeper = shop.keeper()
    keeper.start("tdd", "a parser")
    keeper.start_phase("red", RED)
    keeper.evidence().run_tests(["test", "-e", "a.py"])
    keeper.advance()
    keeper.start_phase("green", GREEN)
    shop.write("a.py", "")
    keeper.evidence().run_tests()
    keeper.evidence().take_step("refactor")
    state = keeper.advance().state
    assert state["phase"] == "commit"
    return state


def settle_edit(shop, state, change):
    shop.edit(state["record"], change)
    return shop.keeper().settle(workflow=state["id"]).state


def only_the_phase(document):
    document["state_machine"]["current_phase"] = "red"


def only_the_status(document):
    document["state_machine"]["phases"][0]["status"] = "in_progress"


def both(document):
    only_the_phase(document)
    only_the_status(document)


def after_the_last_phase(document):
    document["state_machine"]["phases"][3]["status"] = "completed"
    only_the_phase(document)


def counted(document):
    both(document)
    document["state_machine"]["cycle_count"] = 2


@pytest.mark.parametrize(
    "change", [only_the_phase, only_the_status, both, after_the_last_phase, counted]
)
def test_a_script_that_goes_back_to_red_begins_the_next_cycle(shop, tdd, change):
    state = settle_edit(shop, tdd, change)
    assert (state["phase"], state["cycle"]) == ("red", 2)
    assert state["phases"] == [
        {"name": "red", "status": "in_progress"},
        *({"name": name, "status": "pending"} for name in ("green", "refactor", "commit")),
    ]
    assert shop.document(tdd["record"])["state_machine"]["cycle_count"] == 2
    assert lines_of(shop.keeper()) == []
    assert types(shop.keeper())[-1] == "record_edited"


def test_what_the_script_wrote_for_the_new_cycle_is_kept(shop, tdd):
    def change(document):
        only_the_phase(document)
        document["state_machine"]["phases"][0] |= {"test_file": "test_b.py", "by": "hand"}

    state = settle_edit(shop, tdd, change)
    assert find_phase(state, "red") == {
        "name": "red",
        "status": "in_progress",
        "test_file": "test_b.py",
        "by": "hand",
    }


def test_a_script_that_goes_back_to_another_phase_stays_in_its_cycle(shop, tdd):
    def change(document):
        document["state_machine"]["current_phase"] = "green"

    state = settle_edit(shop, tdd, change)
    assert (state["phase"], state["cycle"]) == ("green", 1)
    assert find_phase(state, "green")["implementation_file"] == "a.py"


def test_another_edit_in_the_new_cycle_does_not_begin_a_third(shop, tdd):
    settle_edit(shop, tdd, only_the_phase)
    state = settle_edit(shop, tdd, lambda document: document["context"].update(page=2))
    assert (state["phase"], state["cycle"]) == ("red", 2)


def test_a_formal_record_begins_its_next_cycle_too(shop):
    keeper = shop.keeper()
    begun = keeper.start("qa-loop", "every night").state
    first = begun["recipe"]["cycles_at"]
    state = keeper.advance().state

    def change(document):
        document["phase"] |= {"current": 1, "name": first}

    state = settle_edit(shop, state, change)
    assert (state["phase"], state["cycle"]) == (first, 2)


# The last word of a loop's lifecycle


@pytest.mark.parametrize("tasks", [[], ["one", "two"]], ids=["done", "pending"])
def test_a_loop_that_is_said_to_be_complete_is_completed(shop, tasks):
    begun = shop.keeper().start("loop-development", "a loop", tasks=tasks).state
    state = settle_edit(shop, begun, lambda document: document.update(phase="complete"))
    assert (state["status"], state["phase"]) == ("completed", "complete")
    assert types(shop.keeper())[-1] == "workflow_completed"
    assert shop.document(begun["record"])["phase"] == "complete"
    assert lines_of(shop.keeper()) == []


def test_a_loop_that_reached_its_last_phase_by_itself_is_still_open(shop):
    keeper = shop.keeper()
    begun = keeper.start("loop-development", "a loop").state
    while keeper.settle().state["phase"] != "complete":
        keeper.advance()
    state = settle_edit(shop, begun, lambda document: document.update(task="renamed"))
    assert (state["status"], state["title"]) == ("in_progress", "renamed")


def test_a_complete_loop_of_another_tool_is_adopted_as_completed(shop):
    record = ".claude/iterative/old/state.json"
    shop.write(record, b'{"mode": "development", "slug": "old", "phase": "complete"}')
    shop.keeper().workflows()
    assert shop.keeper().settle(workflow="old").state["status"] == "completed"


# A phase under a new name


def test_a_renamed_phase_keeps_what_its_recipe_declares(shop):
    shop.write(
        ".claude/workflows/release.toml",
        b'format = "formal"\ncycles_at = "Check"\n'
        b'[[phases]]\nname = "Check"\napproval = true\nsets_branch = true\nnext = ["Ship"]\n'
        b'[[phases]]\nname = "Ship"\nnext = ["Check"]\n',
    )
    begun = shop.keeper().start("release", "1.0").state

    def rename(document):
        document["phase"]["name"] = "Look closely"

    state = settle_edit(shop, begun, rename)
    assert state["phase"] == "Look closely"
    assert declared_phase(state, "Look closely") == {
        "name": "Look closely",
        "needs": ["approval"],
        "sets_branch": True,
        "next": ["Ship"],
    }
    assert declared_phase(state, "Ship")["next"] == ["Look closely"]
    assert state["recipe"]["cycles_at"] == "Look closely"
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("end", ["complete", "abandon"])
def test_our_own_copy_of_an_earlier_run_goes_with_the_next_change(shop, end):
    """Whoever opened the workflow again could not take it away."""
    keeper = shop.keeper()
    state = keeper.start("dev", "a.md").state
    copy = state["record"].replace("/active/", "/completed/")
    if end == "complete":
        keeper.complete("done", force=True, reason="enough")
    else:
        keeper.abandon("no more")
    old = shop.read(copy)
    keeper.resume(workflow=state["id"])
    shop.write(copy, old)
    keeper.set_context({"n": 1})
    assert not os.path.exists(shop.path(copy))
    assert shop.document(state["record"])["workflow"]["status"] == "in_progress"
