"""Units of a loop, in the pure core: nothing is done without a confirmation and a verification."""

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import workflow
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
