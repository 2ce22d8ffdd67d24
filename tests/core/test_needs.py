"""What a phase asks before it is left, and what counts as evidence for it."""

import pytest

from holdfast.core.workflow.lifecycle import completion_signal, pending
from holdfast.core.workflow.needs import is_passed, unmet
from support.workflow_desk import BRANCH, HEAD, MAIN, NEXT_HEAD, Desk

PASSED = {"last_result": "passed", "evidence": "run", "test_command": "pytest"}
FAILED = {**PASSED, "last_result": "failed", "failing_tests": ["test_it"]}


def tasks(*texts):
    return [{"text": text} for text in texts]


def verified(desk):
    """Pass the gates of dev's verification."""
    for gate in ("lint", "test"):
        fields = {"command": "x", "exit_code": 0, "tree": "t1"}
        desk.ok("record_gate", gate=gate, passed=True, evidence="run", fields=fields)
    for gate in ("security_review", "code_simplifier"):
        desk.ok("record_gate", gate=gate, passed=True)


@pytest.fixture
def desk():
    return Desk(tasks=tasks("one", "two"))


@pytest.fixture
def executing(desk):
    desk.ok("advance")
    desk.ok("advance")
    assert desk.state["phase"] == "task_execution"
    return desk


def test_a_phase_that_asks_for_a_branch_waits_for_one(desk):
    desk.ok("advance")
    desk.facts = MAIN
    assert desk.refused("advance").details["pending"] == {"branch": ["missing"]}
    desk.facts = {**MAIN, "branch": None, "is_main": False}
    assert desk.refused("advance").details["pending"] == {"branch": ["missing"]}
    desk.facts = BRANCH
    desk.ok("advance")
    assert desk.state["branch"] == "feat/x"


def test_outside_git_neither_a_branch_nor_a_commit_is_asked_for(desk):
    desk.ok("advance")
    desk.facts = {"git": False}
    desk.ok("advance")


def test_a_phase_that_asks_for_tasks_waits_for_all_of_them(executing):
    refusal = executing.refused("advance")
    assert refusal.code == "pending"
    assert refusal.details["pending"] == {"tasks": [1, 2]}
    executing.ok("complete_task", task=1)
    assert executing.refused("advance").details["pending"] == {"tasks": [2]}
    executing.ok("complete_task", task=2)
    executing.ok("advance")


def test_dev_without_any_task_asks_for_one():
    desk = Desk()
    desk.ok("advance")
    desk.ok("advance")
    assert desk.refused("advance").details["pending"] == {"tasks": ["at least one"]}


def test_tasks_that_are_ticked_in_the_file_are_done():
    desk = Desk(tasks=[{"text": "one", "done": True}, {"text": "two"}])
    assert [task["status"] for task in desk.state["tasks"]] == ["completed", "pending"]


def test_a_claim_that_a_run_gate_passed_is_refused(executing):
    refusal = executing.refused("record_gate", gate="lint", passed=True)
    assert (refusal.code, refusal.hint) == ("needs_run", "holdfast gate run lint -- COMMAND")
    executing.ok("record_gate", gate="lint", passed=False)
    assert not is_passed(executing.state, "lint")


@pytest.mark.parametrize("gate", ["lint", "security_review"])
def test_a_failed_or_stale_run_is_not_covered_by_a_claim(executing, gate):
    fields = {"command": "x", "exit_code": 1, "tree": "t1"}
    executing.ok("record_gate", gate=gate, passed=False, evidence="run", fields=fields)
    assert executing.refused("record_gate", gate=gate, passed=True).code == "needs_run"
    assert executing.refused("record_gate", gate=gate, passed=False).code == "needs_run"
    executing.ok("record_gate", gate=gate, passed=True, evidence="run", fields=fields)
    executing.tree = "t2"
    assert executing.refused("record_gate", gate=gate, passed=True).code == "needs_run"
    executing.tree = "t1"
    if gate == "security_review":
        executing.ok("skip_phase", phase="task_execution", reason="nothing to do")
        executing.ok("record_gate", gate=gate, passed=True)


def test_verification_waits_for_fresh_gates(executing):
    executing.ok("complete_task", task=1)
    executing.ok("complete_task", task=2)
    executing.ok("advance")
    names = ["lint", "test", "security_review", "code_simplifier"]
    assert executing.refused("advance").details["pending"] == {"gates": names}
    verified(executing)
    executing.tree = "t2"
    assert executing.refused("advance").details["pending"] == {"gates": ["lint", "test"]}
    executing.tree = "t1"
    executing.ok("advance")
    assert executing.refused("complete_workflow").details["pending"] == {"gates": ["pr_created"]}
    seen = {"pushed_to": "origin/feat/x"}
    check = {"gate": "pr_created", "passed": True, "evidence": "check", "looked_up": seen}
    executing.ok("record_gate", **check, fields={"pr_number": 12})
    gate = executing.state["gates"]["pr_created"]
    assert (gate["pushed_to"], gate["claimed"]) == ("origin/feat/x", ["pr_number"])
    executing.ok("complete_workflow")
    assert set(executing.phases().values()) == {"completed"}


def test_a_gate_enters_its_phase_if_nothing_is_missing_before_it(executing):
    run = {"evidence": "run", "fields": {"command": "x", "exit_code": 0, "tree": "t1"}}
    executing.ok("record_gate", gate="lint", passed=True, **run)
    assert executing.state["phase"] == "task_execution"
    executing.ok("complete_task", task=1)
    executing.ok("complete_task", task=2)
    executing.ok("record_gate", gate="code_simplifier", passed=True)
    assert executing.state["phase"] == "verification"


def test_a_test_that_has_to_fail_fails_no_gate(executing):
    run = {"gate": "test", "result": {"command": "pytest", "exit_code": 0, "tree": "t1"}}
    executing.ok("enter_step", step="red")
    executing.ok("record_tests", tests=FAILED, **run)
    executing.ok("enter_step", step="green")
    executing.ok("record_tests", tests=PASSED, **run)
    assert executing.state["gates"]["test"]["passed"] is True
    executing.ok("complete_task", task=1)
    executing.ok("enter_step", step="red")
    executing.ok("record_tests", tests=FAILED, **run)
    assert executing.state["gates"]["test"]["passed"] is True
    executing.ok("enter_step", step="green")
    executing.ok("record_tests", tests=FAILED, **run)
    assert executing.state["gates"]["test"]["passed"] is False


def test_a_phase_of_a_task_that_showed_nothing_is_skipped(executing):
    executing.ok("enter_step", step="red")
    executing.ok("record_tests", tests=PASSED)
    executing.ok("complete_task", task=1)
    assert set(executing.state["tasks"][0]["phases"].values()) == {"skipped"}


def test_a_review_is_not_claimed_before_there_is_something_to_review(executing):
    refusal = executing.refused("record_gate", gate="security_review", passed=True)
    assert refusal.code == "wrong_order"
    assert "belongs to verification" in refusal.message
    executing.ok("record_gate", gate="security_review", passed=False)
    executing.ok("record_gate", gate="spelling", passed=True)


def test_a_waived_gate_counts_and_is_named_to_the_end(executing):
    refusal = executing.refused("waive_gate", gate="nonsense", reason="x")
    assert refusal.code == "not_found"
    executing.ok("waive_gate", gate="lint", reason="no linter")
    assert is_passed(executing.state, "lint")
    assert executing.state["gates"]["lint"]["reason"] == "no linter"
    assert completion_signal(executing.state, {}) == "DEV_COMPLETE: t (waived: lint)"
    fields = {"command": "x", "exit_code": 1, "tree": "t1"}
    executing.ok("record_gate", gate="lint", passed=False, evidence="run", fields=fields)
    assert not is_passed(executing.state, "lint")
    assert "reason" not in executing.state["gates"]["lint"]


def test_a_skipped_phase_is_never_completed(executing):
    refusal = executing.refused("skip_phase", phase="verification", reason="x")
    assert refusal.code == "wrong_order"
    assert executing.refused("skip_phase", phase="task_execution", reason=" ").code == "invalid"
    executing.ok("skip_phase", phase="task_execution", reason="done elsewhere")
    assert executing.phases()["task_execution"] == "skipped"
    assert executing.state["phase"] == "verification"
    assert pending(executing.state)["tasks"] == [1, 2]
    executing.ok("skip_phase", phase="verification", reason="later")
    assert pending(executing.state)["gates"] == ["pr_created"]
    executing.ok("skip_phase", phase="pr_creation", reason="no remote")
    names = "task_execution, verification, pr_creation"
    assert completion_signal(executing.state, {}) == f"DEV_COMPLETE: t (skipped: {names})"
    executing.ok("start_phase", phase="task_execution")
    assert executing.phases()["task_execution"] == "in_progress"
    assert executing.phases()["verification"] == "pending"


def test_force_skips_what_lacks_something_and_completes_the_rest(executing):
    assert executing.refused("advance", force=True).code == "invalid"
    executing.ok("advance", force=True, reason="hurry")
    assert executing.phases()["task_execution"] == "skipped"
    verified(executing)
    executing.tree = "t1"
    executing.ok("advance", force=True, reason="hurry")
    assert executing.phases()["verification"] == "completed"


def test_a_forced_end_lists_by_name_what_it_skipped(executing):
    assert executing.refused("complete_workflow", force=True).code == "invalid"
    skipped = pending(executing.state)
    signal = completion_signal(executing.state, skipped)
    assert signal == (
        "DEV_COMPLETE: t (forced: task 1, task 2, phase verification, phase pr_creation, lint, "
        "test, security_review, code_simplifier, pr_created)"
    )
    executing.ok("complete_workflow", force=True, reason="enough")
    assert executing.state["skipped"] == skipped
    assert executing.phases()["task_execution"] == "in_progress"


# Tasks with phases


def test_red_is_left_only_after_a_test_was_seen_to_fail(executing):
    assert "red comes first" in executing.refused("start_task_phase", task=1, phase="green").message
    executing.ok("start_task_phase", task=1, phase="red")
    executing.ok("record_tests", tests=PASSED)
    refusal = executing.refused("start_task_phase", task=1, phase="green")
    assert refusal.details["pending"] == {"tests": ["a run that fails"]}
    executing.ok("record_tests", tests={**FAILED, "evidence": "claim"})
    assert executing.refused("start_task_phase", task=1, phase="green").code == "pending"
    executing.ok("record_tests", tests=FAILED)
    executing.ok("start_task_phase", task=1, phase="green")


def test_a_run_counts_in_the_phase_in_which_it_was_made(executing):
    executing.ok("record_tests", tests=FAILED)
    executing.ok("start_task_phase", task=1, phase="red")
    assert executing.refused("start_task_phase", task=1, phase="green").code == "pending"
    executing.ok("record_tests", tests={**FAILED, "ran_in": "task 1 green"})
    executing.ok("start_task_phase", task=1, phase="green")
    assert executing.refused("start_task_phase", task=1, phase="refactor").code == "pending"


def test_failing_tests_hold_green_refactor_and_the_end_of_the_task(executing):
    executing.ok("start_task_phase", task=1, phase="red")
    assert executing.refused("complete_task", task=1).code == "pending"
    executing.ok("record_tests", tests=FAILED)
    executing.ok("start_task_phase", task=1, phase="green")
    executing.ok("record_tests", tests=FAILED)
    refusal = executing.refused("start_task_phase", task=1, phase="refactor")
    assert refusal.details["pending"] == {"tests": ["test_it"]}
    assert executing.refused("complete_task", task=1).details["pending"] == {"tests": ["test_it"]}
    executing.ok("record_tests", tests=PASSED)
    executing.ok("start_task_phase", task=1, phase="refactor")
    executing.ok("record_tests", tests=FAILED)
    assert executing.refused("complete_task", task=1).code == "pending"
    executing.ok("record_tests", tests=PASSED)
    executing.ok("complete_task", task=1)
    done = dict.fromkeys(("red", "green", "refactor"), "completed")
    assert executing.state["tasks"][0]["phases"] == done


def test_phases_of_a_task_that_nobody_went_through_are_skipped(executing):
    executing.ok("complete_task", task=1)
    left_out = dict.fromkeys(("red", "green", "refactor"), "skipped")
    assert executing.state["tasks"][0]["phases"] == left_out
    forced = {"force": True, "reason": "it is tested"}
    assert (
        executing.refused("start_task_phase", task=2, phase="green", force=True).code == "invalid"
    )
    executing.ok("start_task_phase", task=2, phase="green", **forced)
    executing.ok("record_tests", tests=PASSED)
    executing.ok("complete_task", task=2)
    phases = executing.state["tasks"][1]["phases"]
    assert phases == {"red": "skipped", "green": "completed", "refactor": "skipped"}


# Steps that are done whole


def test_red_moves_to_the_tasks_and_begins_the_next_one(desk):
    desk.ok("enter_step", step="red", head=HEAD)
    assert desk.state["phase"] == "task_execution"
    assert desk.state["tasks"][0]["phases"]["red"] == "in_progress"
    assert desk.state["tasks"][0]["base"] == HEAD
    desk.ok("enter_step", step="red")
    assert desk.refused("enter_step", step="green").code == "pending"


def test_red_does_not_pass_a_phase_that_lacks_something(desk):
    desk.facts = MAIN
    refusal = desk.refused("enter_step", step="red")
    assert refusal.details["pending"] == {"branch": ["missing"]}


def test_a_commit_completes_the_task_or_the_phase_that_asks_for_it():
    desk = Desk("tdd")
    desk.ok("record_tests", tests=FAILED)
    desk.ok("enter_step", step="green")
    desk.ok("record_tests", tests=PASSED)
    desk.ok("enter_step", step="refactor")
    desk.ok("record_tests", tests=PASSED)
    desk.facts = {**BRANCH, "head": NEXT_HEAD, "subject": "Add it"}
    desk.ok("record_commit", commit=NEXT_HEAD)
    assert desk.phases()["commit"] == "completed"
    assert desk.state["commits"] == [f"{NEXT_HEAD}: Add it"]
    desk.ok("enter_step", step="red")
    assert desk.state["cycle"] == 2
    assert unmet(desk.state, desk.facts) == {"failure": ["a run that fails"]}


def test_an_old_commit_does_not_complete_a_phase():
    desk = Desk("oneshot")
    desk.ok("advance")
    assert desk.refused("complete_workflow").details["pending"] == {"commit": ["missing"]}
    desk.facts = {**BRANCH, "head": NEXT_HEAD}
    desk.ok("complete_workflow")


def test_an_approval_is_asked_for_last():
    desk = Desk("apex")
    desk.ok("advance")
    assert desk.refused("advance").code == "needs_approval"
    desk.ok("approve_phase", phase="plan")
    desk.ok("advance")


@pytest.mark.parametrize("exit_code", [126, 127])
def test_a_command_that_was_not_found_shows_no_failing_test(executing, exit_code):
    executing.ok("enter_step", step="red")
    executing.ok("record_tests", tests={**FAILED, "failing_tests": [], "exit_code": exit_code})
    assert executing.refused("enter_step", step="green").details["pending"] == {
        "tests": ["a run that fails"]
    }


def test_green_is_shown_by_the_command_that_failed_in_red(executing):
    executing.ok("enter_step", step="red")
    executing.ok("record_tests", tests=FAILED)
    executing.ok("enter_step", step="green")
    executing.ok("record_tests", tests={**PASSED, "test_command": "ls"})
    pending = executing.refused("enter_step", step="refactor").details["pending"]
    assert pending == {"tests": ["a run of pytest"]}
    executing.ok("record_tests", tests=PASSED)
    executing.ok("enter_step", step="refactor")
    executing.ok("record_tests", tests=PASSED)
    executing.ok("complete_task", task=1)
    # The next task may be tested by another command.
    executing.ok("enter_step", step="red")
    executing.ok("record_tests", tests={**FAILED, "test_command": "pytest b"})
    executing.ok("enter_step", step="green")
    executing.ok("record_tests", tests={**PASSED, "test_command": "pytest b"})
    executing.ok("enter_step", step="refactor")
