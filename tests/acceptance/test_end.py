"""Ends: completed, forced, abandoned, brought back."""

import pytest


def test_complete_is_refused_with_the_list_of_what_is_pending(repo):
    repo.ok("start", "dev", "x", "--task", "one", "--task", "two")
    repo.ok("task", "done", "1")
    error = repo.refused("complete")
    assert error["code"] == "pending"
    assert error["details"]["pending"] == {
        "tasks": [2],
        "phases": ["create_branch", "task_execution", "verification", "pr_creation"],
        "gates": ["lint", "test", "security_review", "code_simplifier", "pr_created"],
    }
    text = repo.run("complete").err
    assert "task 2; phases create_branch" in text
    assert text.count("pr_creation") == 1
    assert text.splitlines()[-1].startswith("  next: holdfast advance ")
    assert "--force" not in text
    hint = repo.refused("complete", "--force")["hint"]
    assert hint == "holdfast complete --force --reason TEXT"


def test_force_needs_a_reason_and_records_what_was_skipped(repo):
    repo.ok("start", "tdd", "x", "--task", "one")
    assert repo.refused("complete", "--force")["code"] == "invalid"
    assert repo.refused("complete", "--force", "--reason", "")["code"] == "invalid"
    ended = repo.ok("complete", "--force", "--reason", "out of time", "--outcome", "half of it")
    workflow = ended["workflow"]
    assert (workflow["status"], workflow["outcome"]) == ("completed", "half of it")
    last = repo.ok("log", workflow["id"])["events"][-1]
    assert (last["type"], last["data"]) == (
        "workflow_completed",
        {
            "outcome": "half of it",
            "reason": "out of time",
            "skipped": {
                "tasks": [1],
                "phases": ["green", "refactor", "commit"],
                "failure": ["a run that fails"],
            },
        },
    )
    left = "task 1, phase green, phase refactor, phase commit, a test that fails"
    assert ended["signal"] == f"TDD_COMPLETE: x (forced: {left})"
    assert {phase["status"] for phase in workflow["phases"]} == {"in_progress", "pending"}


def test_nothing_pending_is_completed_at_once(repo):
    workflow = repo.ok("start", "oneshot", "a typo")["workflow"]["id"]
    repo.ok("advance")
    assert repo.refused("complete")["details"]["pending"] == {"commit": ["missing"]}
    repo.commit("README.md", "No typo.\n")
    ended = repo.ok("complete", "--outcome", "merged")
    assert ended["signal"] == "ONESHOT_COMPLETE: a typo"
    assert ended["workflow"]["outcome"] == "merged"
    assert repo.types(workflow)[-2:] == ["phase_completed", "workflow_completed"]
    assert "skipped" not in repo.ok("log")["events"][-1]["data"]
    assert repo.ok("status")["workflows"] == []


@pytest.mark.parametrize("end", ["complete --force --reason x", "abandon"])
def test_an_ended_workflow_takes_no_more_commands(repo, end):
    workflow = repo.ok("start", "tdd", "x", "--task", "one")["workflow"]["id"]
    repo.ok(*end.split())
    lines = ["advance", "task done 1", "remind x", "phase block red", "step x", "set a=1"]
    for line in lines:
        error = repo.refused(*line.split(), "-w", workflow)
        assert (error["code"], error["hint"]) == ("ended", f"holdfast resume {workflow}"), line
    assert repo.refused("complete", "-w", workflow)["code"] == "already"
    assert repo.refused("advance")["code"] == "not_found"


def test_an_abandoned_workflow_comes_back_at_the_same_place(repo):
    started = repo.ok("start", "tdd", "x", "--task", "one", "--remind", "this")["workflow"]
    repo.ok("red", "--", "test", "-f", ".")
    assert repo.ok("advance")["workflow"]["phase"] == "green"
    repo.ok("task", "start", "1")
    before = repo.state()
    repo.ok("abandon", "--reason", "holidays")
    assert repo.ok("status", "-w", started["id"])["workflows"] == []
    assert repo.state(started["id"])["reason"] == "holidays"
    back = repo.ok("resume", started["id"])["workflow"]
    told = ("status", "phase", "phases", "tasks", "reminders", "current_task", "record")
    assert {name: back[name] for name in told} == {name: before[name] for name in told}
    assert "reason" not in back
    assert repo.has(back["record"])


def test_a_completed_workflow_comes_back_and_can_be_completed_again(repo):
    workflow = repo.ok("start", "custom", "x", "--phase", "only")["workflow"]["id"]
    repo.ok("complete")
    assert "PHASE 1/1: only (completed" in repo.ok("resume", workflow)["briefing"]
    assert "next: holdfast complete" in repo.run("show").out
    repo.ok("task", "add", "one more thing")
    assert repo.refused("complete")["details"] == {"pending": {"tasks": [1]}}
    repo.ok("task", "done", "1")
    assert repo.ok("complete")["workflow"]["status"] == "completed"


def test_where_the_record_of_an_ended_workflow_is(repo):
    left = {}
    for recipe in ("tdd", "custom", "oneshot", "loop-development"):
        record = repo.ok("start", recipe, "x")["workflow"]["record"]
        repo.ok("complete", "--force", "--reason", "x")
        left[recipe] = repo.has(record)
    assert left == {"tdd": False, "custom": False, "oneshot": True, "loop-development": True}
    assert repo.has(".claude/workflow-state/completed", "tdd-401b30e3.json")


def test_outcomes_and_reasons_are_texts_with_a_limit(repo):
    repo.ok("start", "custom", "x", "--phase", "only")
    for words in (["complete", "--outcome", ""], ["abandon", "--reason", "y" * 5_000]):
        assert repo.refused(*words)["code"] == "invalid"
    assert repo.state()["status"] == "in_progress"


@pytest.mark.parametrize(
    ("recipe", "stays"),
    [("tdd", "completed/tdd-"), ("oneshot", "workflow-state.json"), ("planning", None)],
)
def test_an_ended_workflow_names_the_place_where_its_record_stands_now(repo, recipe, stays):
    workflow = repo.ok("start", recipe, "x")["workflow"]["id"]
    ended = repo.ok("complete", "--force", "--reason", "enough")["workflow"]
    record = repo.state(workflow)["record"]
    assert record == ended["record"]
    panel = repo.run("show", workflow).out
    if stays is None:
        assert record is None
        assert "record:" not in panel
    else:
        assert stays in record
        assert repo.has(record)
        assert f"record: {record}" in panel
