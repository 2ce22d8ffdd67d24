"""What comes next: the nearest open thing, and a command for it that can be run as it stands."""

from holdfast.cli import screen
from holdfast.cli.screen import Screen
from holdfast.core.next_step import next_step
from holdfast.core.refusal import shell_word as quote
from holdfast.core.workflow import blank


def workflow(name):
    """A workflow in the second of its three phases."""
    recipe = {
        "name": name,
        "format": "skill",
        "phases": [{"name": "plan"}, {"name": name, "approval": True}, {"name": "review"}],
        "gates": {name: {"status": name}},
    }
    state = blank(name, recipe, "2026-01-02T03:04:05.678Z")
    state["phase"] = name
    state["phases"][0]["status"] = "completed"
    state["phases"][1]["status"] = "in_progress"
    return state


def after(**changes):
    state = workflow("build")
    state.update(changes)
    following = next_step(state)
    return " ".join(following[1]) if following else None


def task(number, status, **fields):
    return {"id": number, "description": "x", "status": status, **fields}


def test_the_next_step_is_the_nearest_open_thing():
    assert after(tasks=[task(1, "pending"), task(2, "verifying")]) == "task done 2"
    assert after(tasks=[task(1, "pending", depends=[2]), task(2, "pending")]) == "task start 2"
    assert after(tasks=[task(1, "completed"), task(2, "blocked")]) == "task start 2"
    assert after() == "phase approve build"
    begun = [{"name": "plan", "status": "in_progress"}, {"name": "review", "status": "pending"}]
    assert after(phase="plan", phases=begun) == "advance"
    assert after(phase="plan", phases=begun[:1]) == "gate run build -- COMMAND"
    assert after(phase="plan", phases=begun[:1], gates={}) == "complete"
    ended = [{"name": "plan", "status": "completed"}]
    assert after(phase="plan", phases=ended, gates={}) == "complete"
    assert after(phase=None) == "phase start review"
    assert after(phase=None, phases=[]) == "complete"
    assert after(status="completed") is None
    assert after(status="expired") == "resume build"
    assert after(phases=[{"name": "build", "status": "blocked"}]) == "phase unblock build"


def test_the_next_step_of_a_task_is_its_next_phase():
    recipe = {**workflow("build")["recipe"], "task_phases": ["red", "green"]}

    def within(**phases):
        return after(recipe=recipe, tasks=[task(1, "in_progress", phases=phases)])

    assert within(red="in_progress", green="pending") == "task phase 1 green"
    assert within(red="completed", green="in_progress") == "task done 1"
    assert within() == "task done 1"


def test_the_next_step_of_a_gate_is_how_it_can_be_passed():
    def gated(name, **gate):
        phases = [{"name": "plan", "status": "in_progress"}]
        return after(phase="plan", phases=phases, gates={name: gate})

    failed = {"status": "completed", "passed": False}
    assert gated("lint", **failed) == "gate run lint -- COMMAND"
    assert gated("lint", **failed, command="make 'a b'") == "gate run lint -- make a b"
    assert gated("lint", **failed, command="make && x") == "gate run lint -- COMMAND"
    assert gated("lint", **failed, command="make '") == "gate run lint -- COMMAND"
    assert gated("pr_created", status="pending") == (
        "gate record pr_created --passed pr_number=N pr_url=URL"
    )


def test_the_workflow_that_is_meant_is_named_before_the_command_of_a_gate():
    state = workflow("build")
    phases = [{"name": "plan", "status": "in_progress"}]
    state.update(phase="plan", phases=phases, gates={"lint": {"status": "pending"}})
    line = next(screen.next_lines(Screen(), state, aimed=True))
    assert line.startswith("  next: holdfast gate run lint -w build -- COMMAND ")


def test_the_next_command_can_be_copied_into_a_shell():
    state = workflow("two words; $(rm)")
    line = next(screen.next_lines(Screen(), state, aimed=True))
    quoted = "'two words; $(rm)'"
    assert line.startswith(f"  next: holdfast phase approve {quoted}")
    assert quote("it's") == "'it'\\''s'"
    assert quote("") == "''"
