"""Verb workflows as they are typed: their one place, approval, violations, the end, expiry."""

import json
import time

import pytest

from holdfast import Keeper, Refused

RECORD = ".claude/workflow-state.json"
DAY_MS = 86_400_000


def start(repo, *words):
    return repo.ok("start", *words)["workflow"]["id"]


def at_the_last_but_one(repo):
    """An APEX workflow in review: the next phase hands the work over."""
    workflow = start(repo, "apex", "Login")
    repo.ok("advance")
    Keeper(repo.path).approve_phase("plan")
    repo.ok("advance")
    repo.ok("advance")
    assert repo.state()["phase"] == "review"
    return workflow


@pytest.mark.parametrize(
    ("recipe", "phases"),
    [
        ("apex", ["analyze", "plan", "implement", "review", "git-commit"]),
        ("oneshot", ["fix", "git-commit"]),
        ("debug", ["troubleshoot", "fix", "implement", "git-commit"]),
        ("brainstorm", ["brainstorm", "research", "design"]),
    ],
)
def test_each_has_its_phases_and_its_record(repo, recipe, phases):
    start(repo, recipe, "Login")
    record = repo.record(RECORD)
    assert (record["type"], record["phase"], record["status"]) == (
        recipe.upper(),
        phases[0],
        "in_progress",
    )
    assert [phase["name"] for phase in record["phases"]] == phases
    assert (record["ttl"], record["context"]) == ("24h", "Login")
    assert list(record)[:4] == ["type", "phase", "status", "startedAt"]


def test_debug_goes_to_a_fix_or_to_something_that_is_built(repo):
    start(repo, "debug", "Crash")
    repo.ok("phase", "start", "implement")
    repo.ok("advance")
    assert repo.state()["phase"] == "git-commit"


def test_brainstorm_and_research_take_turns(repo):
    start(repo, "brainstorm", "Names")
    for phase in ("research", "brainstorm", "research", "design"):
        repo.ok("phase", "start", phase)
        assert repo.record(RECORD)["phase"] == phase


def test_a_plan_is_approved_before_it_is_implemented(repo):
    own = start(repo, "apex", "Login")
    repo.ok("advance")
    answer = repo.run("advance", "--json").json
    assert answer["error"]["code"] == "needs_approval"
    assert answer["next"]["command"] == ["holdfast", "phase", "approve", "plan", "-w", own]
    Keeper(repo.path).approve_phase("plan")
    repo.ok("advance")
    plan = repo.record(RECORD)["phases"][1]
    assert (plan["approved"], plan["status"]) == (True, "completed")


def test_the_one_place_is_taken_and_there_are_three_ways_out(repo):
    first = start(repo, "apex", "Login")
    error = repo.refused("start", "oneshot", "Typo")
    assert error["code"] == "occupied"
    for way in (f"holdfast complete -w {first}", f"holdfast abandon -w {first}", "--replace"):
        assert way in error["hint"]
    answer = repo.ok("start", "oneshot", "Typo", "--replace")
    assert any(f"{first} is abandoned" in note for note in answer["notes"])
    assert repo.record(RECORD)["type"] == "ONESHOT"
    assert repo.state(first)["status"] == "abandoned"
    repo.ok("abandon")
    assert repo.ok("resume", first)["workflow"]["phase"] == "analyze"


def test_a_start_that_is_refused_replaces_nothing(repo):
    before = start(repo, "apex", "Login")
    repo.refused("start", "oneshot", "Typo", "--replace", "--ttl", "banana")
    assert repo.state()["id"] == before
    assert repo.state()["status"] == "in_progress"


def test_replacing_where_nothing_is_replaced_is_no_different(repo):
    answer = repo.ok("start", "apex", "Login", "--replace")
    assert "notes" not in answer
    again = repo.ok("start", "apex", "Login", "--replace")
    assert again["resumed"]


def test_violations_are_listed_summed_up_and_cleared(repo):
    start(repo, "apex", "Login")
    repo.ok("violation", "add", "V-TEST-03", "high", "No test for an empty name")
    repo.ok("violation", "add", "V-DOC-01", "LOW", "No changelog")
    enforcement = repo.record(RECORD)["enforcement"]
    assert enforcement == {
        "violations": [
            {"code": "V-TEST-03", "severity": "HIGH", "details": "No test for an empty name"},
            {"code": "V-DOC-01", "severity": "LOW", "details": "No changelog"},
        ],
        "blocking": True,
        "summary": "1 HIGH, 1 LOW violations (blocking)",
    }
    listed = repo.ok("violation", "list")
    assert (listed["blocking"], listed["blocking_codes"]) == (True, ["V-TEST-03"])
    repo.ok("violation", "clear", "V-TEST-03")
    assert repo.record(RECORD)["enforcement"]["blocking"] is False
    repo.ok("violation", "clear", "V-DOC-01")
    assert "enforcement" not in repo.record(RECORD)
    assert repo.run("violation", "list").out.startswith("No violation is known.\n")


def test_one_violation_is_summed_up_as_one(repo):
    start(repo, "apex", "Login")
    repo.ok("violation", "add", "V-TEST-03", "HIGH", "No test")
    assert repo.record(RECORD)["enforcement"]["summary"] == "1 HIGH violation (blocking)"


@pytest.mark.parametrize(
    "words", [("advance",), ("phase", "start", "git-commit"), ("phase", "complete", "review")]
)
def test_a_grave_violation_holds_back_the_handing_over(repo, words):
    at_the_last_but_one(repo)
    repo.ok("violation", "add", "V-SEC-01", "CRITICAL", "A key in the code")
    error = repo.refused(*words)
    assert (error["code"], error["details"]["violations"]) == ("blocking", ["V-SEC-01"])
    assert "holdfast violation clear V-SEC-01" in error["hint"]
    assert repo.record(RECORD)["phase"] == "review"
    assert repo.refused(*words, "--force")["code"] == "invalid"
    repo.ok(*words, "--force", "--reason", "the key is a sample")
    phase = repo.record(RECORD)["phases"][-1]
    assert (phase["status"], phase["forced"]) == ("in_progress", "the key is a sample")
    # Whoever forced the way in has said why; the end does not ask again.
    repo.commit("login.py", "pass\n")
    repo.ok("complete")


@pytest.mark.parametrize("severity", ["MEDIUM", "LOW", "INFO"])
def test_a_lesser_one_does_not(repo, severity):
    at_the_last_but_one(repo)
    repo.ok("violation", "add", "V-1", severity, "something")
    repo.ok("advance")
    repo.commit("login.py", "pass\n")
    repo.ok("complete")


def test_one_that_is_found_after_the_handing_over_began_holds_back_the_end(repo):
    at_the_last_but_one(repo)
    repo.ok("advance")
    repo.ok("violation", "add", "V-SEC-01", "HIGH", "A key in the code")
    repo.commit("login.py", "pass\n")
    error = repo.refused("complete")
    assert error["details"]["pending"] == {"violations": ["V-SEC-01"]}
    repo.ok("violation", "clear", "V-SEC-01")
    repo.ok("complete")


def test_force_is_for_the_violations_that_were_known(repo):
    at_the_last_but_one(repo)
    repo.ok("violation", "add", "V-1", "HIGH", "no test")
    repo.ok("advance", "--force", "--reason", "a known flake")
    repo.ok("violation", "add", "V-1", "HIGH", "no test")
    repo.ok("violation", "add", "V-2", "CRITICAL", "leaks")
    assert "still needs violations V-1, V-2" in repo.refused("complete")["message"]


def test_force_that_nothing_asked_for_excuses_nothing_later(repo):
    at_the_last_but_one(repo)
    with pytest.raises(Refused):
        Keeper(repo.path).advance(force=True, reason="half a pair \ud800")
    repo.ok("advance", "--force", "--reason", "just so")
    repo.ok("violation", "add", "V-1", "HIGH", "no test")
    assert repo.refused("complete")["details"]["pending"]["violations"] == ["V-1"]


def test_a_violation_of_no_severity_or_no_name_is_refused(repo):
    start(repo, "apex", "Login")
    error = repo.refused("violation", "add", "V-1", "terrible", "x")
    assert (error["code"], "CRITICAL" in error["hint"]) == ("invalid", True)
    assert repo.refused("violation", "add", "", "LOW", "x")["code"] == "invalid"
    assert repo.refused("violation", "clear", "V-9")["code"] == "not_found"


def test_entering_the_last_phase_is_not_the_end_and_completing_is(repo):
    at_the_last_but_one(repo)
    repo.ok("advance")
    assert repo.record(RECORD)["status"] == "in_progress"
    assert repo.refused("complete")["details"]["pending"] == {"commit": ["missing"]}
    repo.commit("login.py", "pass\n")
    repo.ok("complete", "--outcome", "merged")
    record = repo.record(RECORD)
    assert (record["status"], record["phases"][-1]["status"]) == ("completed", "completed")
    assert record["completedAt"].startswith(time.strftime("%Y-"))


@pytest.mark.parametrize("ttl", ["30s", "90m", "24h", "7d"])
def test_a_time_to_live_is_a_duration(repo, ttl):
    start(repo, "apex", "Login", "--ttl", ttl)
    assert repo.record(RECORD)["ttl"] == ttl


def test_one_that_has_expired_leaves_an_empty_record_and_comes_back(repo):
    clock = [int(time.time() * 1_000)]
    keeper = Keeper(repo.path, clock_ms=lambda: clock[0])
    workflow = keeper.start("apex", "Login").state["id"]
    clock[0] += DAY_MS + 1_000
    rows, notes = Keeper(repo.path, clock_ms=lambda: clock[0]).workflows()
    assert rows == []
    assert any(note.startswith("Workflow state expired (inactive > 24h)") for note in notes)
    assert repo.types()[-1] == "phase_started"
    assert keeper.settle(workflow=workflow).state["status"] == "expired"
    assert repo.types()[-1] == "workflow_expired"
    with open(f"{repo.path}/{RECORD}", encoding="utf-8") as file:
        assert json.load(file) == {}
    # The place is free for another, and nothing was lost.
    other = keeper.start("oneshot", "Typo")
    assert other.notes == []
    keeper.complete(workflow=other.state["id"], force=True, reason="done")
    assert keeper.resume(workflow=workflow).state["phase"] == "analyze"
    assert keeper.verify().ok


def test_a_fresh_clone_with_the_record_alone_goes_on(repo):
    at_the_last_but_one(repo)
    repo.ok("violation", "add", "V-1", "LOW", "x")
    before = repo.record(RECORD)
    other = repo.at("..", "clone")
    other.git("init", "-q", "-b", "main")
    other.write(RECORD, json.dumps(before))
    state = other.ok("resume")["workflow"]
    assert (state["phase"], state["violations"][0]["code"]) == ("review", "V-1")
    assert [phase["status"] for phase in state["phases"]] == [
        *("completed", "completed", "completed", "in_progress", "pending")
    ]
