"""What comes next: what the current phase asks for, and a command that can be run as it stands."""

import pytest

from holdfast.cli import screen
from holdfast.cli.screen import Screen
from holdfast.core.next_step import MEANINGS, next_fields, next_step, step_of_hint
from holdfast.core.refusal import shell_word as quote
from holdfast.core.workflow import blank
from holdfast.workspace import recipes

NAMES = ["plan", "build", "review"]


def workflow(name="build", **changes):
    """A workflow in the second of its three phases."""
    recipe = {
        "name": "own",
        "format": "skill",
        "phases": [{"name": "plan"}, {"name": name, "needs": ["approval"]}, {"name": "review"}],
        "gates": {"lint": {"status": "pending", "evidence": "run"}},
    }
    state = blank("own-1", recipe, "2026-01-02T03:04:05.678Z")
    state["phase"] = name
    state["phases"][0]["status"] = "completed"
    state["phases"][1]["status"] = "in_progress"
    state.update(changes)
    return state


def in_phase(name, needs=(), **changes):
    """A workflow in this phase, which is the first of three unless it is the last."""
    state = workflow(**changes)
    for phase in state["recipe"]["phases"]:
        phase.pop("needs", None)
        if phase["name"] == name:
            phase["needs"] = list(needs)
    names = NAMES[: NAMES.index(name)]
    for phase in state["phases"]:
        phase["status"] = "completed" if phase["name"] in names else "pending"
        if phase["name"] == name:
            phase["status"] = "in_progress"
    return {**state, "phase": name}


def after(state, facts=None, **options):
    step = next_step(state, facts, **options)
    return " ".join(step.words) if step else None


def task(number, status, **fields):
    return {"id": number, "description": "x", "status": status, **fields}


def test_a_phase_that_lacks_nothing_is_left():
    assert after(in_phase("plan")) == "advance"
    assert after(in_phase("review", gates={})) == "complete"
    ended = in_phase("review", gates={})
    ended["phases"][2]["status"] = "completed"
    assert after(ended) == "complete"
    assert after(workflow(phase=None, gates={})) == "phase start review"


def test_phases_come_before_tasks_and_tasks_before_gates():
    tasks = [task(1, "pending")]
    assert after(in_phase("plan", tasks=tasks)) == "advance"
    assert after(in_phase("plan", ["tasks"], tasks=tasks)) == "task start 1"
    assert after(in_phase("review", tasks=tasks)) == "task start 1"
    assert after(in_phase("review")) == "gate run lint -- COMMAND"


def test_a_task_that_was_begun_is_finished_first():
    tasks = [task(1, "pending"), task(2, "in_progress")]
    assert after(in_phase("plan", tasks=tasks)) == "task done 2"


def test_a_task_that_can_start_comes_before_one_that_is_blocked():
    waiting = [task(1, "pending", depends=[2]), task(2, "pending")]
    assert after(in_phase("plan", ["tasks"], tasks=waiting)) == "task start 2"
    blocked = [task(1, "completed"), task(2, "blocked", reason="no key")]
    state = in_phase("plan", ["tasks"], tasks=blocked)
    assert after(state) == "task unblock 2"
    assert "no key" in next_step(state).about


def test_after_the_end_there_is_no_next_step():
    for status in ("completed", "abandoned", "expired"):
        assert next_step(workflow(status=status)) is None
    assert next_fields(None) is None


def test_an_approval_is_for_a_person():
    state = workflow()
    step = next_step(state)
    assert step.words == ["phase", "approve", "build", "-w", state["id"]]
    assert next_fields(step)["by"] == "person"
    assert "by" not in next_fields(next_step(in_phase("plan")))


def test_the_next_step_is_never_the_opposite_of_what_was_done():
    state = workflow(status="blocked")
    state["phases"][1].update(status="blocked", reason="no key")
    assert after(state) == "phase unblock build"
    assert after(state, after="phase block") == "show"
    blocked = in_phase("plan", ["tasks"], tasks=[task(1, "blocked", reason="no key")])
    assert after(blocked, after="task block") == "show"
    assert after(blocked, after="task add") == "task unblock 1"


def dev(**changes):
    state = blank("dev-1", recipes.load("dev"), "2026-01-02T03:04:05.678Z")
    state.update(branch="main", tasks=[task(1, "pending")], **changes)
    return state


def test_dev_is_led_through_its_branch_and_its_tasks():
    assert after({**dev(phase="load_feature"), "tasks": []}) == "task add TASK"
    assert after(dev(phase="load_feature")) == "advance"
    begun = dev(phase="load_feature")
    on_main = {"git": True, "branch": "main", "is_main": True, "head": None}
    on_branch = {**on_main, "branch": "feat/x", "is_main": False}
    assert after(begun, on_main) == "advance --branch BRANCH"
    assert after(begun, on_branch) == "advance"
    assert after(dev(phase="create_branch"), on_main) == "advance --branch BRANCH"
    assert after(dev(phase="create_branch"), on_branch) == "red -- COMMAND"
    assert after(dev(phase="task_execution")) == "red -- COMMAND"


@pytest.mark.parametrize(
    ("phases", "tests", "expected"),
    [
        ({"red": "in_progress"}, {}, "red -- COMMAND"),
        ({"red": "in_progress"}, {"last_result": "passed"}, "red"),
        ({"red": "in_progress"}, {"last_result": "failed"}, "green"),
        ({"red": "completed", "green": "in_progress"}, {"last_result": "failed"}, "green"),
        ({"red": "completed", "green": "in_progress"}, {"last_result": "passed"}, "refactor"),
        ({"refactor": "in_progress"}, {"last_result": "failed"}, "refactor"),
        ({"refactor": "in_progress"}, {"last_result": "passed"}, "commit -m MESSAGE"),
    ],
)
def test_a_task_is_led_through_red_green_refactor_and_commit(phases, tests, expected):
    inner = next(name for name, status in phases.items() if status == "in_progress")
    if tests:
        tests = {**tests, "evidence": "run", "test_command": "t", "ran_in": f"task 1 {inner}"}
    current = task(1, "in_progress", phases=phases)
    state = {**dev(phase="task_execution"), "tasks": [current], "tests": tests, "current_task": 1}
    assert after(state) == expected
    if expected.startswith("commit"):
        assert after({**state, "branch": None}) == "task done 1"


def test_a_gate_is_passed_by_what_the_recipe_asks_for():
    def gated(name, takes="run", facts=None, branch="main", **gate):
        state = in_phase("review", gates={name: {"status": "pending", **gate}})
        state["branch"] = branch
        state["recipe"]["gates"] = {name: {"evidence": takes}}
        return after(state, facts)

    failed = {"status": "completed", "passed": False, "evidence": "run"}
    assert gated("lint") == "gate run lint -- COMMAND"
    assert gated("lint", facts={"commands": ["lint"]}) == "gate run lint"
    assert gated("lint", **failed, command="make lint") == "gate run lint"
    stale = {"status": "stale", "evidence": "run", "command": "make lint"}
    assert gated("lint", **stale) == "gate run lint"
    assert gated("lint", **{**stale, "evidence": "claim"}) == "gate run lint -- COMMAND"
    assert gated("lint", command="rm -rf .") == "gate run lint -- COMMAND"
    assert gated("review", "claim") == "gate record review --passed"
    record = "gate record pr_created --passed pr_number=NUMBER pr_url=URL"
    assert gated("pr_created", "check") == record
    assert gated("pr_created", "check", branch=None) == "gate record pr_created --passed"
    assert gated("review", "claim", facts={"commands": ["review"]}) == "gate run review"


def test_a_gate_that_is_stale_beside_the_tree_is_run_again():
    ran = {"status": "completed", "passed": True, "evidence": "run", "tree": "a", "command": "x"}
    state = in_phase("review", gates={"lint": ran})
    assert after(state, {"tree": "a"}) == "complete"
    assert after(state, {"tree": "b"}) == "gate run lint"


def test_every_capital_of_a_next_command_is_explained():
    for hint in ("holdfast start RECIPE SUBJECT", "git add PATH", "holdfast x key=TEXT"):
        step = step_of_hint(hint)
        assert step.fill
        assert set(step.fill) <= set(MEANINGS)
        assert " ".join(step.command) == hint
    assert step_of_hint("give it as text") is None


def test_a_command_that_ends_a_hint_is_the_next_step():
    step = step_of_hint("let a person read it: holdfast trust")
    assert (step.about, step.command) == ("let a person read it", ["holdfast", "trust"])
    assert next_fields(step)["by"] == "person"
    assert step_of_hint("this: holdfast show; or that: holdfast resume ID") is None


def test_the_workflow_that_is_meant_is_named_before_the_command_of_a_gate():
    line = next(screen.next_lines(Screen(), next_step(in_phase("review"), is_named=True)))
    assert line.startswith("  next: holdfast gate run lint -w own-1 -- COMMAND ")


def test_the_next_command_can_be_copied_into_a_shell():
    state = workflow("two words; $(rm)")
    line = next(screen.next_lines(Screen(), next_step(state, is_named=True)))
    quoted = "'two words; $(rm)'"
    assert line.startswith(f"  next: holdfast phase approve {quoted}")
    assert quote("it's") == "'it'\\''s'"
    assert quote("") == "''"


def test_whoever_skipped_the_tasks_is_not_asked_for_one_again():
    state = {**dev(), "tasks": []}
    done = {"status": "completed", "passed": True}
    for name in ("load_feature", "create_branch", "task_execution"):
        found = next(phase for phase in state["phases"] if phase["name"] == name)
        found["status"] = "completed" if name == "load_feature" else "skipped"
    run = {**done, "evidence": "run"}
    state["gates"] = {**state["gates"], "lint": run, "test": run}
    state["gates"] |= dict.fromkeys(("security_review", "code_simplifier"), done)
    record = "gate record pr_created --passed pr_number=NUMBER pr_url=URL"
    assert after({**state, "phase": "verification"}) == record
    assert after({**state, "phase": "pr_creation"}) == record
