"""Workflows as the pages show them: what a gate rests on, and what waits for a person."""

import pytest

from holdfast.web import cards
from support.workshop import Clock, open_workflow

PASSED = {"status": "completed", "passed": True}


@pytest.fixture
def dev(dev_shop):
    """The state of a workflow whose gates take runs, claims and looks."""
    keeper = dev_shop.keeper()
    return keeper.peek(workflow=keeper.workflows()[0][0]["id"])


def kind(state, name, **fields):
    return cards.gate_kind({**state, "gates": {**state["gates"], name: fields}}, name)


def test_evidence_a_claim_and_a_waiver_are_three_things(dev):
    assert kind(dev, "lint", **PASSED, evidence="run") == "evidence"
    assert kind(dev, "pr_created", **PASSED, evidence="check") == "evidence"
    assert kind(dev, "security_review", **PASSED, evidence="claim") == "claim"
    assert kind(dev, "lint", status="waived", reason="none here") == "waived"


def test_a_claim_for_a_gate_that_takes_runs_is_no_pass(dev):
    assert kind(dev, "lint", **PASSED, evidence="claim") == "pending"
    assert kind(dev, "lint", **PASSED) == "pending"


@pytest.mark.parametrize("status", ["failed", "blocked", "rejected", "error"])
def test_a_gate_that_failed_is_failed(dev, status):
    assert kind(dev, "lint", status=status, evidence="run") == "failed"
    assert kind(dev, "lint", status="completed", passed=False, evidence="run") == "failed"


def test_a_gate_of_older_files_is_stale_and_one_of_nothing_is_open(dev):
    assert kind(dev, "lint", status="stale", evidence="run", passed=True) == "stale"
    assert kind(dev, "lint", status="pending") == "pending"
    assert {cards.gate_kind(dev, name) for name in dev["gates"]} == {"pending"}


def test_a_waiver_is_as_old_as_itself_and_not_as_the_run_before_it(dev):
    ran, waived = "2026-05-01T10:00:00.000Z", "2026-05-03T10:00:00.000Z"

    def shown_at(**fields):
        state = {**dev, "gates": {"lint": {"last_run": ran, **fields}}}
        return cards.gates(state)[0]["at"]

    assert shown_at(status="waived", waived_at=waived, reason="none here") == waived
    assert shown_at(status="waived", reason="by hand") == ran
    assert shown_at(**PASSED, evidence="run", waived_at=waived) == ran


@pytest.mark.parametrize("odd", [7, "many", {"failed": 1}])
def test_failing_tests_that_are_no_list_are_none(dev, odd):
    assert cards.card({**dev, "tests": {"failing_tests": odd}})["failing"] == 0


def test_nothing_waits_while_an_agent_can_go_on(dev):
    assert cards.waits(dev) == []


def test_what_is_blocked_waits_with_its_reason(dev_shop):
    keeper = dev_shop.keeper()
    keeper.block_task(1, "no logs")
    keeper.ask("Which database?", ["Postgres"])
    state = keeper.block_phase("load_feature", {"reason": "no plan"}).state
    assert [(row["kind"], row["key"], row["text"]) for row in cards.waits(state)] == [
        ("question", "question-1", "Which database?"),
        ("unblock_phase", "unblock_phase-load_feature", "phase load_feature is blocked: no plan"),
        ("unblock_task", "unblock_task-1", "task 1 is blocked: no logs"),
    ]
    assert cards.waits(keeper.abandon("enough").state) == []


def test_an_approval_waits_once_it_is_the_next_step(shop):
    keeper = shop.keeper()
    keeper.start("apex", "Refunds", tasks=["one"])
    assert cards.waits(keeper.peek()) == []
    (row,) = cards.waits(keeper.advance().state)
    assert (row["kind"], row["phase"]) == ("approve", "plan")
    assert cards.waits(keeper.approve_phase("plan").state) == []


def test_a_unit_without_iterations_waits_too(shop):
    keeper = shop.keeper()
    open_workflow(keeper, "loop")
    state = keeper.peek()
    tasks = [{**state["tasks"][0], "status": "timeout"}, *state["tasks"][1:]]
    (row,) = cards.waits({**state, "tasks": tasks})
    assert row["text"].endswith("ran out of iterations")
    card = cards.card(state)
    assert card["is_loop"]
    assert [unit["limit"] for unit in card["units"]] == [5] * len(state["tasks"])


def test_the_state_of_a_card_is_not_changed_by_making_it(dev):
    before = repr(dev)
    cards.card(dev)
    assert repr(dev) == before


def test_many_tasks_have_no_segment_of_their_own(shop):
    keeper = shop.keeper(clock_ms=Clock())
    state = keeper.start("dev", "a.md", tasks=[f"task {n}" for n in range(41)]).state
    assert cards.progress(state) == {"done": 0, "total": 41, "segments": []}
