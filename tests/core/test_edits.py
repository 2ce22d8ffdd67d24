"""What an edit of a record can change: what was done, not what the recipe asks for."""

import pytest

from holdfast.core.workflow.lifecycle import completion_signal, pending
from holdfast.core.workflow.needs import is_passed
from support.workflow_desk import AT, Desk


@pytest.fixture
def executing():
    desk = Desk(tasks=[{"text": "one"}, {"text": "two"}])
    desk.ok("advance")
    desk.ok("advance")
    return desk


def edit(desk, **fields):
    """Adopt an edit that gives fields of the workflow new values."""
    changes = [[[name], desk.state[name], value] for name, value in fields.items()]
    desk.ok("adopt_edit", changes=changes, base=1)


def without(desk, name):
    return [phase for phase in desk.state["phases"] if phase["name"] != name]


def test_a_phase_that_an_edit_removes_is_still_asked_for(executing):
    edit(executing, phases=without(executing, "verification"))
    assert executing.phases()["verification"] == "pending"
    assert "verification" in pending(executing.state)["phases"]
    names = [phase["name"] for phase in executing.state["phases"]]
    assert names == [phase["name"] for phase in executing.state["recipe"]["phases"]]


def test_a_phase_that_an_edit_removes_and_passes_over_is_skipped(executing):
    phases = [{**phase, "status": "completed"} for phase in without(executing, "verification")]
    phases[-1]["status"] = "in_progress"
    edit(executing, phases=phases, phase="pr_creation")
    assert executing.phases()["verification"] == "skipped"
    signal = completion_signal(executing.state, {})
    assert "skipped: verification" in signal
    assert "claimed: task_execution" in signal


def test_a_phase_that_asks_for_nothing_can_be_removed(executing):
    edit(executing, phases=without(executing, "load_feature"))
    assert "load_feature" not in executing.phases()


def test_a_phase_that_gets_another_name_keeps_its_rules():
    desk = Desk("apex")
    new = [
        {**p, "name": "design" if p["name"] == "plan" else p["name"]} for p in desk.state["phases"]
    ]
    declared = [
        {**p, "name": "design" if p["name"] == "plan" else p["name"]}
        for p in desk.state["recipe"]["phases"]
    ]
    edit(desk, phases=new, recipe={**desk.state["recipe"], "phases": declared})
    assert [phase["name"] for phase in desk.state["phases"]][:2] == ["analyze", "design"]
    desk.ok("advance")
    assert desk.refused("advance").code == "needs_approval"


def test_a_phase_that_an_edit_completes_is_claimed_until_it_is_done_again():
    desk = Desk("apex")
    desk.ok("advance")
    phases = [dict(phase) for phase in desk.state["phases"]]
    phases[1]["status"], phases[2]["status"] = "completed", "in_progress"
    edit(desk, phases=phases, phase="implement")
    assert completion_signal(desk.state, {}) == "APEX_COMPLETE: t (claimed: plan)"
    edit(desk, phases=[{**phase, "claimed": False} for phase in desk.state["phases"]])
    assert completion_signal(desk.state, {}) == "APEX_COMPLETE: t (claimed: plan)"
    desk.ok("start_phase", phase="plan")
    desk.ok("approve_phase", phase="plan")
    desk.ok("advance")
    assert completion_signal(desk.state, {}) == "APEX_COMPLETE: t"


def test_a_phase_that_lacks_nothing_is_completed_by_an_edit():
    desk = Desk("oneshot")
    phases = [dict(phase) for phase in desk.state["phases"]]
    phases[0]["status"], phases[1]["status"] = "completed", "in_progress"
    edit(desk, phases=phases, phase="git-commit")
    assert completion_signal(desk.state, {}) == "ONESHOT_COMPLETE: t"


@pytest.mark.parametrize("how", ["by an edit", "by a command"])
def test_a_task_that_was_removed_before_it_was_done_is_named_at_the_end(executing, how):
    executing.ok("complete_task", task=1)
    if how == "by an edit":
        edit(executing, tasks=[])
    else:
        executing.ok("remove_task", task=1)
        executing.ok("remove_task", task=2)
    assert completion_signal(executing.state, {}) == "DEV_COMPLETE: t (removed: task 2)"


def test_what_showed_a_failing_test_cannot_be_edited(executing):
    executing.ok("enter_step", step="red")
    run = {"last_result": "failed", "evidence": "run", "test_command": "pytest a", "exit_code": 1}
    executing.ok("record_tests", tests=run)
    edit(executing, tests={**executing.state["tests"], "failure": {"of": "task 1", "command": "x"}})
    assert executing.state["tests"]["failure"]["command"] == "pytest a"


def test_a_claim_in_an_edited_record_does_not_pass_a_run_gate(executing):
    gate = {"status": "completed", "passed": True, "last_run": AT, "evidence": "run"}
    changes = [[["gates", "lint"], {"status": "pending"}, gate]]
    executing.ok("adopt_edit", changes=changes, base=1)
    assert executing.state["gates"]["lint"]["evidence"] == "claim"
    assert not is_passed(executing.state, "lint")


def test_a_waiver_in_an_edited_record_is_not_believed(executing):
    waived = {"status": "waived", "reason": "no linter", "waived_at": AT}
    changes = [[["gates", "lint"], {"status": "pending"}, waived]]
    executing.ok("adopt_edit", changes=changes, base=1)
    assert not is_passed(executing.state, "lint")
    assert executing.state["gates"]["lint"] == {"status": "pending"}


def test_an_edit_changes_no_rule_and_approves_nothing():
    desk = Desk("apex")
    desk.ok("advance")
    before = desk.state
    recipe = {**desk.state["recipe"], "phases": [{"name": "plan"}]}
    approved = [{**phase, "approved": True} for phase in desk.state["phases"]]
    changes = [
        [["recipe"], desk.state["recipe"], recipe],
        [["phases"], desk.state["phases"], approved],
    ]
    desk.ok("adopt_edit", changes=changes, base=1)
    assert desk.state["recipe"] == before["recipe"]
    assert not any(phase.get("approved") for phase in desk.state["phases"])


def test_an_edit_removes_no_gate_that_the_recipe_declares(executing):
    rules = {**executing.state["recipe"], "gates": {}, "task_needs": {}}
    changes = [
        [["gates"], executing.state["gates"], {}],
        [["recipe"], executing.state["recipe"], rules],
    ]
    before = executing.state
    executing.ok("adopt_edit", changes=changes, base=1)
    assert executing.state["gates"] == before["gates"]
    assert executing.state["recipe"] == before["recipe"]


def test_a_phase_that_an_edit_goes_past_is_named():
    desk = Desk("apex")
    edit(desk, phase="git-commit")
    skipped = "APEX_COMPLETE: t (skipped: plan, implement)"
    assert completion_signal(desk.state, {}) == skipped


def test_where_a_recipe_leaves_a_choice_one_phase_is_enough():
    desk = Desk("debug")
    desk.ok("start_phase", phase="implement")
    desk.ok("advance")
    assert desk.state["phase"] == "git-commit"
    assert completion_signal(desk.state, {}) == "DEBUG_COMPLETE: t"


def test_a_record_from_elsewhere_approves_and_shows_nothing():
    desk = Desk("apex")
    phases = [{**phase, "status": "completed", "approved": True} for phase in desk.state["phases"]]
    desk.ok("adopt_record", state={**desk.state, "phases": phases, "phase": "git-commit"})
    assert not any(phase.get("approved") for phase in desk.state["phases"])
    claimed = "claimed: plan, git-commit; recipe: from a record"
    assert completion_signal(desk.state, {}) == f"APEX_COMPLETE: t ({claimed})"


def test_a_failed_gate_is_not_forgotten_by_an_edit_or_a_claim(executing):
    run = {"command": "pytest", "exit_code": 1, "tree": "t1"}
    executing.ok("record_gate", gate="test", passed=False, evidence="run", fields=run)
    edit(executing, gates={**executing.state["gates"], "test": {"status": "pending"}})
    other = {"command": "ls", "exit_code": 0, "tree": "t1"}
    executing.ok("record_gate", gate="test", passed=True, evidence="run", fields=other)
    executing.ok("record_gate", gate="test", passed=False)
    executing.ok("record_gate", gate="test", passed=True, evidence="run", fields=other)
    assert "replaced: test ran ls, not pytest" in completion_signal(executing.state, {})
    run = {**run, "exit_code": 0}
    executing.ok("record_gate", gate="test", passed=True, evidence="run", fields=run)
    assert "replaced" not in completion_signal(executing.state, {})


def test_a_task_that_an_edit_completes_is_untested(executing):
    edit(executing, tasks=[{**t, "status": "completed"} for t in executing.state["tasks"]])
    assert "untested: task 1, task 2" in completion_signal(executing.state, {})
