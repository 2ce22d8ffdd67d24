"""Units of a loop, in the pure core: nothing is done without a confirmation and a verification."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import workflow
from holdfast.core.next_step import next_step
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import find_task
from holdfast.core.workflow.tasks import TIMEOUT_CHOICES, limit_of
from holdfast.formats import aggregate_of
from holdfast.workspace import recipes

AT = "2026-02-17T12:00:00.000Z"
NAMES = ("T1", "T2", "T3")


class Loop:
    """A loop that lives in memory."""

    def __init__(self, mode="development"):
        self.events = []
        self.state = None
        recipe = recipes.load(f"loop-{mode}")
        args = {"recipe": recipe, "subject": "try", "title": "try", "record": "x", "worktree": "."}
        self.do("start_workflow", **args)

    def do(self, kind, **args):
        outcome = workflow.decide(self.state, {"type": kind, "at": AT, "args": args})
        if isinstance(outcome, Refusal):
            return outcome
        for draft in outcome:
            event = {"at": AT, "stream": "try", "type": draft["type"], "data": draft["data"]}
            self.state = workflow.evolve(self.state, event)
            self.events.append(event)
        return None

    def unit(self, name="T1"):
        return find_task(self.state, name)

    def planned(self, *names, **fields):
        for name in names:
            assert self.do("plan_unit", task=name, description=f"unit {name}", **fields) is None
        return self

    def signalled(self, name="T1"):
        args = {"task": name, "did": "all", "signal": f"{name}_DONE"}
        assert self.do("record_iteration", **args) is None
        return self

    def finished(self, name="T1"):
        self.signalled(name)
        assert self.do("confirm_unit", task=name) is None
        assert self.do("verify_unit", task=name) is None
        return self


def test_a_unit_goes_all_the_way():
    loop = Loop().planned("T1")
    assert loop.state["phase"] == "plan"
    loop.do("record_iteration", task="T1", did="some", remaining="more")
    assert (loop.unit()["status"], loop.unit()["iterations_used"]) == ("in_progress", 1)
    assert loop.state["phase"] == "execute"
    loop.signalled()
    assert loop.unit()["status"] == "confirming"
    loop.do("confirm_unit", task="T1")
    assert (loop.unit()["status"], loop.unit()["confirmations_used"]) == ("verifying", 1)
    loop.do("verify_unit", task="T1")
    assert (loop.unit()["status"], loop.unit()["verification_passed"]) == ("completed", True)
    assert loop.state["phase"] == "deliver"


def test_what_is_found_leads_back_to_work():
    loop = Loop().planned("T1").signalled()
    loop.do("confirm_unit", task="T1", found="no test")
    assert (loop.unit()["status"], loop.unit()["remaining"]) == ("in_progress", "no test")
    loop.signalled()
    loop.do("confirm_unit", task="T1")
    loop.do("verify_unit", task="T1", found="it fails")
    assert loop.unit()["status"] == "in_progress"
    assert loop.unit()["verification_passed"] is False
    assert loop.unit()["confirmations_used"] == 2


def test_the_iteration_after_the_last_runs_out_of_time():
    loop = Loop().planned("T1", max_iterations=2)
    for _ in range(2):
        loop.do("record_iteration", task="T1", did="some", remaining="more")
    assert loop.unit()["status"] == "in_progress"
    loop.do("record_iteration", task="T1", did="some", remaining="more")
    assert (loop.unit()["status"], loop.unit()["iterations_used"]) == ("timeout", 2)
    refusal = loop.do("record_iteration", task="T1", did="x", signal="T1_DONE")
    assert TIMEOUT_CHOICES in refusal.message
    assert loop.do("extend_unit", task="T1", max_iterations=2).code == "invalid"
    assert loop.do("extend_unit", task="T1", max_iterations=3) is None
    assert loop.unit()["status"] == "in_progress"
    loop.finished()


def test_a_wrong_signal_is_refused():
    loop = Loop().planned("T1", "T2")
    for signal in ("T2_DONE", "DONE", "t1_done", "T1_DONE "):
        assert loop.do("record_iteration", task="T1", did="x", signal=signal).code == "invalid"
    assert loop.unit()["status"] == "pending"


def test_dependencies_are_respected_and_cycles_refused():
    loop = Loop().planned("T1", "T2")
    assert loop.do("plan_unit", task="T2", depends=["T1"]) is None
    assert loop.do("record_iteration", task="T2", did="x", remaining="y").code == "wrong_order"
    assert loop.do("plan_unit", task="T1", depends=["T2"]).code == "invalid"
    assert loop.do("plan_unit", task="T1", depends=["T1"]).code == "invalid"
    assert loop.do("plan_unit", task="T1", depends=["T9"]).code == "not_found"
    loop.finished("T1")
    assert loop.do("record_iteration", task="T2", did="x", remaining="y") is None


def test_a_blocked_unit_goes_on_where_it_was():
    loop = Loop().planned("T1", "T2")
    loop.do("record_iteration", task="T1", did="some", remaining="more")
    loop.do("block_task", task="T1", reason="access")
    assert loop.do("record_iteration", task="T1", did="x", remaining="y").code == "wrong_order"
    loop.do("unblock_unit", task="T1")
    assert (loop.unit()["status"], loop.unit()["iterations_used"]) == ("in_progress", 1)
    loop.do("block_task", task="T2", reason="access")
    loop.do("unblock_unit", task="T2")
    assert loop.unit("T2")["status"] == "pending"


def test_an_iteration_that_cannot_go_on_is_one_commit_with_its_block():
    loop = Loop().planned("T1")
    loop.do("record_iteration", task="T1", did="looked", remaining="all", blocked="no access")
    assert [event["type"] for event in loop.events[-2:]] == ["iteration_recorded", "task_blocked"]
    unit = loop.unit("T1")
    assert (unit["status"], unit["iterations_used"], unit["reason"]) == ("blocked", 1, "no access")


def test_who_blocks_the_last_unit_to_be_reviewed_ends_the_review():
    loop = Loop().planned("T1")
    loop.do("record_iteration", task="T1", did="all", signal="T1_DONE")
    assert loop.state["phase"] == "verify"
    loop.do("block_task", task="T1", reason="no access")
    assert loop.state["phase"] == "execute"


def test_more_iterations_by_a_new_plan_are_told_in_the_log_too():
    loop = Loop().planned("T1", max_iterations=1)
    for _ in range(2):
        loop.do("record_iteration", task="T1", did="some", remaining="more")
    assert loop.unit("T1")["status"] == "timeout"
    loop.do("plan_unit", task="T1", criteria="less", max_iterations=3)
    assert loop.unit("T1")["status"] == "in_progress"
    assert loop.events[-1]["type"] == "task_extended"
    assert loop.events[-1]["data"] == {"task": "T1", "max_iterations": 3}


def test_a_loops_unit_cannot_be_ticked_off():
    loop = Loop().planned("T1")
    assert loop.do("complete_task", task="T1").code == "wrong_order"


def test_knowledge_mode_has_phases():
    loop = Loop("knowledge")
    loop.do("plan_unit", task="R1", description="read")
    loop.finished("R1")
    assert loop.unit("R1")["status"] == "completed"


commands = st.one_of(
    st.tuples(st.just("record_iteration"), st.booleans()),
    st.tuples(st.just("confirm_unit"), st.booleans()),
    st.tuples(st.just("verify_unit"), st.booleans()),
    st.tuples(st.just("block_task"), st.booleans()),
    st.tuples(st.just("unblock_unit"), st.booleans()),
    st.tuples(st.just("extend_unit"), st.booleans()),
    st.tuples(st.just("complete_task"), st.booleans()),
    st.tuples(st.just("start_task"), st.booleans()),
    st.tuples(st.just("plan_unit"), st.booleans()),
)


def arguments(kind, name, good):
    if kind == "record_iteration":
        return {"did": "x", "signal": f"{name}_DONE"} if good else {"did": "x", "remaining": "y"}
    if kind in ("confirm_unit", "verify_unit"):
        return {} if good else {"found": "something"}
    if kind == "block_task":
        return {"reason": "x"}
    if kind == "extend_unit":
        return {"max_iterations": 20 if good else 1}
    return {"description": "new"} if kind == "plan_unit" else {}


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(NAMES), commands), max_size=60))
def test_there_is_no_way_to_done_but_through_confirmation_and_verification(steps):
    loop = Loop().planned(*NAMES, max_iterations=3)
    for name, (kind, good) in steps:
        loop.do(kind, task=name, **arguments(kind, name, good))
    for task in loop.state["tasks"]:
        told = [
            (event["type"], event["data"].get("clean"), event["data"].get("signal"))
            for event in loop.events
            if event["data"].get("task") == task["id"]
        ]
        assert task.get("iterations_used", 0) <= limit_of(task)
        if task["status"] == "completed":
            kinds = [one for one in told if one[0] not in ("unit_planned", "task_extended")]
            assert kinds[-1] == ("verification_recorded", True, None)
            assert kinds[-2] == ("confirmation_recorded", True, None)
            assert kinds[-3][2] == f"{task['id']}_DONE"
    assert aggregate_of("try").replay(lambda: loop.events) == (loop.state, [])


# Evidence of a verification


def to_verify(loop, name="T1"):
    loop.signalled(name)
    assert loop.do("confirm_unit", task=name) is None
    return loop


def ran(exit_code):
    return {"command": "make check", "exit_code": exit_code}


def test_a_claim_does_not_verify_a_unit_that_declares_a_command():
    loop = to_verify(Loop().planned("T1", verify="make check"))
    refusal = loop.do("verify_unit", task="T1")
    assert (refusal.code, refusal.hint) == ("needs_run", "holdfast loop verify T1 --run")
    assert loop.unit()["status"] == "verifying"
    assert loop.do("verify_unit", task="T1", evidence=ran(0)) is None
    assert loop.unit()["status"] == "completed"


@pytest.mark.parametrize("mode", ["development", "knowledge"])
@pytest.mark.parametrize("exit_code", [1, None])
def test_a_run_that_failed_is_not_covered_by_a_claim(mode, exit_code):
    name = "T1" if mode == "development" else "R1"
    loop = to_verify(Loop(mode).planned(name), name)
    loop.do("verify_unit", task=name, found="it fails", evidence=ran(exit_code))
    assert "was not verified: fix it" in next_step(loop.state).about
    to_verify(loop, name)
    refusal = loop.do("verify_unit", task=name)
    assert (refusal.code, refusal.hint) == (
        "needs_run", f"holdfast loop verify {name} --run -- COMMAND",
    )  # fmt: skip
    step = next_step(loop.state)
    assert step.words == ["loop", "verify", name, "--run", "--", "COMMAND"]
    assert step.fill == {"COMMAND": "the command that failed before: make check"}
    # A claim that it fails changes nothing of that.
    loop.do("verify_unit", task=name, found="still")
    assert to_verify(loop, name).do("verify_unit", task=name).code == "needs_run"
    assert loop.do("verify_unit", task=name, evidence=ran(0)) is None
    assert loop.unit(name)["status"] == "completed"


def test_a_claim_verifies_a_unit_for_which_nothing_was_run():
    loop = to_verify(Loop().planned("T1"))
    assert next_step(loop.state).words[-3:] == ["--run", "--", "COMMAND"]
    assert loop.do("verify_unit", task="T1") is None
    loop = to_verify(Loop("knowledge").planned("R1"), "R1")
    assert next_step(loop.state).words == ["loop", "verify", "R1", "--passed"]


def test_a_commit_is_listed_with_its_own_subject():
    loop = Loop().planned("T1")
    work = {"task": "T1", "did": "All of it.\nAnd more.", "remaining": "its tests"}
    loop.do("record_iteration", **work, commit="4f5e6d7", subject="Add the model")
    loop.do("record_iteration", **work, commit="5a6b7c8")
    assert loop.state["commits"] == ["4f5e6d7: Add the model", "5a6b7c8: All of it."]


def test_after_a_block_the_next_step_is_another_unit_or_to_tell_the_user():
    loop = Loop().planned("T1", "T2")
    loop.do("block_task", task="T1", reason="no access")
    assert next_step(loop.state, after="loop block").words[:3] == ["loop", "iterate", "T2"]
    loop.do("block_task", task="T2", reason="no access")
    assert next_step(loop.state, after="loop block").words == ["show"]
    assert next_step(loop.state).words == ["loop", "unblock", "T1"]


@settings(max_examples=300)
@given(st.lists(st.tuples(commands, st.sampled_from([None, 0, 1])), max_size=60))
def test_a_unit_is_never_done_by_a_claim_if_a_run_was_asked_for_or_failed(steps):
    loop = Loop().planned("T1", max_iterations=20).planned("T2", verify="make", max_iterations=20)
    for (kind, good), exit_code in steps:
        for name in ("T1", "T2"):
            args = arguments(kind, name, good and exit_code != 1)
            if kind == "verify_unit" and exit_code is not None:
                args["evidence"] = ran(exit_code)
            loop.do(kind, task=name, **args)
    for task in loop.state["tasks"]:
        runs = [
            event["data"]["evidence"]["exit_code"]
            for event in loop.events
            if event["data"].get("task") == task["id"] and "evidence" in event["data"]
        ]
        if task["status"] == "completed":
            assert runs[-1:] in ([], [0])
            assert runs or not task.get("verify")
