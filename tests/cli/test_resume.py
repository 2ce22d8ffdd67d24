"""The picture of a workflow that is taken up again, as a person sees it on a terminal."""

import io
from types import SimpleNamespace

import pytest

from holdfast.cli.commands.workflow import resume, resume_panel
from holdfast.cli.parser import parse
from holdfast.cli.screen import Screen
from holdfast.core.workflow import blank
from holdfast.workspace.recipes import load

NOW, BEGUN, LAST = "2026-01-02T12:00:00Z", "2026-01-02T10:00:00Z", "2026-01-02T11:15:00Z"
DONE = ("Add the model", "Hash the password", "Add the service")
LONG = "Add a login that says in a whole sentence what it is about and does not fit on a line"
PICTURE = """\
Found active workflow:
  ID: dev-1f2e3d4c
  Feature: features/login.md
  Started: 2 hours ago
  Last activity: 45 minutes ago

  Progress:
    ✓ Load feature
    ✓ Create branch (feat/login)
    ▶ Task execution (3/5 tasks complete):
       ✓ Task 1: Add the model (committed: 4f5e6d7)
       ✓ Task 2: Hash the password (committed: 4f5e6d7)
       ✓ Task 3: Add the service (committed: 4f5e6d7)
       ▶ Task 4: Add login (GREEN phase - tests failing)
       ○ Task 5: Add logout
    ○ Verification (lint, test, security_review, code_simplifier)
    ○ PR creation

━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
▶ Resuming: Task 4/5 - Add login
  Phase: GREEN (make the tests pass)
━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
Last test run (45 minutes ago): failed
  ✗ test_login"""


def workflow(description="Add login"):
    state = blank("dev-1f2e3d4c", load("dev", "."), BEGUN)
    state.update(subject="features/login.md", title="Login", branch="feat/login", updated_at=LAST)
    for phase in state["phases"][:2]:
        phase["status"] = "completed"
    state["phase"] = "task_execution"
    state["phases"][2]["status"] = "in_progress"
    tasks = [
        {"id": number, "description": text, "status": "completed", "commit": "4f5e6d7"}
        for number, text in enumerate(DONE, 1)
    ]
    phases = {"red": "completed", "green": "in_progress", "refactor": "pending"}
    tasks.append({"id": 4, "description": description, "status": "in_progress", "phases": phases})
    tasks.append({"id": 5, "description": "Add logout", "status": "pending"})
    state["tasks"] = tasks
    state["tests"] = {"last_run": LAST, "last_result": "failed", "failing_tests": ["test_login"]}
    return state


def shown(state, branch="feat/login"):
    return list(resume_panel(Screen(now=NOW), state, branch))


def test_the_picture_says_how_far_it_is_and_where_it_goes_on():
    assert "\n".join(shown(workflow())) == PICTURE


def test_a_long_line_is_wrapped_between_words():
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    out.isatty = lambda: True
    receipt = SimpleNamespace(
        is_repeat=False, output="", state=workflow(LONG), notes=[], facts=None
    )
    keeper = SimpleNamespace(
        resume=lambda **_target: receipt,
        has_initiatives=lambda: False,
        briefing=lambda **_state: "",
        needs_explicit_id=lambda _state: False,
        missing_reading=lambda _state: [],
        needs_delivery=lambda _receipt: False,
        session=SimpleNamespace(id=None),
        workspace=SimpleNamespace(branch=lambda: "feat/login"),
    )
    answer = resume(keeper, parse(["resume"]))
    lines = list(answer.text_lines(out))
    words = " ".join(line.replace("\x1b[2m", " ") for line in lines).split()
    assert max(len(line) for line in lines if "\x1b" not in line) <= 80
    assert set(LONG.split()) <= set(words)


def test_another_branch_comes_first_and_its_name_is_one_word_for_a_shell():
    state = workflow()
    state["branch"] = "feat/$(id)"
    lines = shown(state, "main")
    assert lines[:3] == [
        "The workflow is for branch feat/$(id), checked out is main.",
        "  1) git switch 'feat/$(id)'",
        "  2) holdfast abandon -w dev-1f2e3d4c, and start anew",
    ]


@pytest.mark.parametrize(
    ("inner", "said"), [(None, "Task execution"), ("red", "RED (write a test that fails)")]
)
def test_the_phase_of_the_task_comes_before_that_of_the_workflow(inner, said):
    state = workflow()
    state["tasks"][3]["phases"] = {inner: "in_progress"} if inner else {}
    assert f"  Phase: {said}" in shown(state)


def test_after_the_last_task_the_phase_goes_on():
    state = workflow()
    for task in state["tasks"]:
        task["status"] = "completed"
    assert "▶ Resuming: Task execution" in shown(state)
    state["phase"] = None
    assert "▶ Resuming: everything is done" in shown(state)
