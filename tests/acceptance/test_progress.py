"""Moving on: phases with their approvals, alternatives and cycles; steps; tasks."""

import os
import sys

import pytest

from support.pseudoterminal import Pseudoterminal, skip_below_client

PASSES = ("test", "-e", "README.md")
FAILS = ("test", "-e", "nowhere")


def approved(place, phase, *fields, **environment):
    """Let a person approve a phase on a terminal; return the exit code and what was shown."""
    command = [sys.executable, "-m", "holdfast", "phase", "approve", phase, *fields]
    variables = {**place.environment, **environment}
    skip_below_client()
    with Pseudoterminal(command, place.path, variables) as terminal:
        return terminal.ended(), terminal.text


def names(workflow, status):
    return [phase["name"] for phase in workflow["phases"] if phase["status"] == status]


def test_advance_completes_the_phase_and_starts_the_next(repo):
    repo.ok("start", "planning", "a move")
    moved = repo.ok("advance")["workflow"]
    assert (moved["phase"], names(moved, "completed")) == ("Requirements", ["Research"])
    moved = repo.ok("phase", "complete", "Requirements", "pages=3")["workflow"]
    assert moved["phase"] == "Design"
    assert moved["phases"][1]["pages"] == 3


def test_after_the_last_phase_there_is_nothing_to_advance_to(repo):
    repo.ok("start", "custom", "x", "--phase", "only")
    assert "next: holdfast complete" in repo.run("advance").out
    error = repo.refused("advance")
    assert (error["code"], error["hint"]) == ("already", "holdfast complete")
    assert repo.ok("complete")["workflow"]["status"] == "completed"


def test_phases_keep_their_order(repo):
    repo.ok("start", "planning", "a move")
    error = repo.refused("phase", "start", "Review")
    assert (error["code"], error["details"]) == ("wrong_order", {"next": ["Requirements"]})
    assert repo.refused("phase", "complete", "Design")["code"] == "wrong_order"
    assert repo.refused("phase", "block", "Design")["code"] == "wrong_order"
    error = repo.refused("phase", "start", "Nonsense")
    assert error["code"] == "not_found"
    assert "Research, Requirements" in error["message"]
    assert repo.state()["phase"] == "Research"


def test_a_phase_that_is_in_progress_or_done_is_not_begun_or_done_again(repo):
    repo.ok("start", "planning", "a move")
    assert repo.refused("phase", "start", "Research")["code"] == "already"
    repo.ok("advance")
    assert repo.refused("phase", "complete", "Research")["code"] == "already"


def test_going_back_opens_the_phases_after_it_again(repo):
    repo.ok("start", "planning", "a move")
    repo.ok("advance")
    repo.ok("advance")
    back = repo.ok("phase", "start", "Research")["workflow"]
    assert (back["phase"], names(back, "completed")) == ("Research", [])


def test_a_plan_needs_a_persons_approval_in_apex(repo):
    own = repo.ok("start", "apex", "a redesign")["workflow"]["id"]
    repo.ok("advance")
    answer = repo.run("advance", "--json").json
    assert answer["error"]["code"] == "needs_approval"
    assert answer["next"]["command"] == ["holdfast", "phase", "approve", "plan", "-w", own]
    assert answer["next"]["by"] == "person"
    assert repo.refused("phase", "start", "implement")["code"] == "needs_approval"
    assert "holdfast phase approve plan" in repo.run("show").out
    assert "holdfast phase approve plan" in repo.ok("resume")["briefing"]
    assert approved(repo, "plan")[0] == 0
    code, text = approved(repo, "plan")
    assert (code, "is approved" in text) == (1, True)
    assert repo.ok("advance")["workflow"]["phase"] == "implement"


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "AI_AGENT"])
def test_nobody_but_a_person_approves_a_phase(repo, variable):
    repo.ok("start", "apex", "a redesign")
    repo.ok("advance")
    error = repo.refused("phase", "approve", "plan")
    assert (error["code"], "this is no terminal" in error["message"]) == ("needs_person", True)
    code, text = approved(repo, "plan", **{variable: "1"})
    assert (code, "only a person can decide this" in text) == (1, True)
    assert repo.refused("advance")["code"] == "needs_approval"
    assert repo.types().count("phase_approved") == 0


def test_an_approval_does_not_outlive_the_way_back(repo):
    """A recipe may lead back by itself: what is done again is approved again."""
    repo.write(
        ".claude/workflows/release.toml",
        'name = "release"\nformat = "skill"\n'
        '[[phases]]\nname = "prepare"\n'
        '[[phases]]\nname = "review"\napproval = true\nnext = ["publish", "prepare"]\n'
        '[[phases]]\nname = "publish"\n',
    )
    repo.ok("start", "release", "1.0")
    repo.ok("advance")
    assert approved(repo, "review")[0] == 0
    repo.ok("phase", "start", "prepare")
    repo.ok("advance")
    assert repo.refused("advance")["code"] == "needs_approval"
    assert approved(repo, "review")[0] == 0
    assert repo.ok("advance")["workflow"]["phase"] == "publish"
    repo.ok("verify")


def test_a_last_phase_that_needs_approval_cannot_be_completed_around_it(repo):
    recipe = 'format = "skill"\n[[phases]]\nname = "sign"\napproval = true\n'
    repo.write(".claude/workflows/signed.toml", recipe)
    repo.ok("start", "signed", "x")
    assert repo.refused("complete")["details"] == {"pending": {"phases": ["sign"]}}
    assert approved(repo, "sign")[0] == 0
    assert repo.ok("complete")["workflow"]["status"] == "completed"


@pytest.mark.parametrize("way", ["fix", "implement"])
def test_debugging_ends_in_a_fix_or_an_implementation(repo, way):
    repo.ok("start", "debug", "a crash")
    assert repo.refused("phase", "start", "git-commit")["details"]["next"] == ["fix", "implement"]
    repo.ok("phase", "start", way)
    moved = repo.ok("advance")["workflow"]
    assert (moved["phase"], names(moved, "completed")) == ("git-commit", ["troubleshoot", way])
    assert repo.refused("complete")["details"]["pending"] == {"commit": ["missing"]}
    repo.commit("README.md", "It does not crash.\n")
    assert repo.ok("complete")["workflow"]["status"] == "completed"


def test_advance_takes_the_first_of_two_ways(repo):
    repo.ok("start", "debug", "a crash")
    assert repo.ok("advance")["workflow"]["phase"] == "fix"


def test_brainstorming_and_research_take_turns_until_there_is_a_design(repo):
    repo.ok("start", "brainstorm", "an editor")
    for phase in ("research", "brainstorm", "research", "brainstorm", "design"):
        assert repo.ok("phase", "start", phase)["workflow"]["phase"] == phase
    assert repo.types().count("phase_started") == 6
    assert repo.ok("complete")["workflow"]["status"] == "completed"


def test_a_test_driven_workflow_goes_round_in_cycles(repo):
    repo.ok("start", "tdd", "a stack")
    written = ["test_file=test_stack.py", "test_name=test_push", "failure_confirmed=true"]
    repo.ok("phase", "start", "red", *written)
    assert repo.types()[2:] == ["test_written", "failure_confirmed"]
    # Whoever says that a test fails has not shown it.
    assert repo.refused("advance")["details"]["pending"] == {"failure": ["a run that fails"]}
    repo.run("tests", "run", "--", *FAILS)
    assert repo.ok("advance")["workflow"]["phase"] == "green"
    assert repo.refused("advance")["details"]["pending"] == {"tests": ["a run is missing"]}
    repo.write(FAILS[-1], "")
    for phase in ("refactor", "commit"):
        repo.ok("tests", "run")
        assert repo.ok("advance")["workflow"]["phase"] == phase
    again = repo.ok("phase", "start", "red")["workflow"]
    assert (again["cycle"], again["phase"], names(again, "completed")) == (2, "red", [])
    assert "test_file" not in again["phases"][0]
    assert "cycle 2" in repo.run("show").out
    assert repo.refused("complete")["details"]["pending"]["phases"] == [
        "green",
        "refactor",
        "commit",
    ]


def test_a_quality_loop_goes_round_as_well(repo):
    repo.ok("start", "qa-loop", "the release")
    repo.ok("advance")
    repo.ok("advance")
    assert repo.ok("phase", "start", "Run QA")["workflow"]["cycle"] == 2


def test_a_blocked_phase_stands_still_until_it_is_unblocked(repo):
    repo.ok("start", "tdd", "x")
    blocked = repo.ok("phase", "block", "red", "--reason", "no access")["workflow"]
    assert (blocked["status"], blocked["phases"][0]["reason"]) == ("blocked", "no access")
    for words in (["advance"], ["phase", "complete", "red"], ["phase", "start", "green"]):
        error = repo.refused(*words)
        assert (error["code"], error["hint"]) == ("blocked", "holdfast phase unblock red")
        assert "no access" in error["message"]
    assert repo.refused("complete")["details"]["pending"]["phases"][0] == "red"
    assert "no access" in repo.ok("resume")["briefing"]
    assert repo.ok("phase", "unblock", "red")["workflow"]["status"] == "in_progress"
    assert repo.refused("phase", "unblock", "red")["code"] == "not_blocked"
    repo.run("tests", "run", "--", *FAILS)
    assert repo.ok("advance")["workflow"]["phase"] == "green"


def test_fields_that_are_given_with_a_phase_are_kept_with_it(repo):
    repo.ok("start", "apex", "x")
    repo.ok("phase", "start", "analyze", "depth=2")
    repo.ok("phase", "block", "analyze", "since=monday", "--reason", "access")
    repo.ok("phase", "unblock", "analyze", "by=Ada")
    assert approved(repo, "analyze", "approver=Grace")[0] == 0
    repo.ok("phase", "complete", "analyze", "findings=[1, 2]")
    phase = repo.state()["phases"][0]
    told = {"depth": 2, "since": "monday", "by": "Ada", "approver": "Grace", "findings": [1, 2]}
    assert told.items() <= phase.items()
    assert repo.refused("phase", "start", "plan", "status=completed")["code"] == "invalid"


def test_a_phase_has_the_steps_of_its_recipe(repo):
    repo.ok("start", "dev", "x")
    assert repo.ok("step", "read it")["workflow"]["step"] == "read it"
    repo.ok("advance")
    repo.ok("advance", "--branch", "feat/x")
    repo.ok("step", "read the tasks")
    moved = repo.ok("phase", "skip", "task_execution", "--reason", "none is left")["workflow"]
    assert (moved["phase"], moved["step"]) == ("verification", None)
    error = repo.refused("step", "dance")
    assert (error["code"], error["hint"]) == ("not_found", "holdfast step lint")
    assert repo.ok("step", "security_review")["workflow"]["step"] == "security_review"
    assert "step security_review" in repo.ok("resume")["briefing"]


def test_a_task_is_started_done_and_not_done_twice(repo):
    repo.ok("start", "dev", "x", "--task", "one", "--task", "two")
    assert repo.ok("task", "start", "1")["workflow"]["current_task"] == 1
    assert repo.refused("task", "start", "1")["code"] == "already"
    repo.commit("one.txt", "one\n")
    head = repo.git("rev-parse", "HEAD")
    done = repo.ok("task", "done", "1", "--commit", head[:7])["workflow"]["tasks"][0]
    assert (done["status"], done["commit"]) == ("completed", head)
    error = repo.refused("task", "done", "1", "--commit", "HEAD")
    assert (error["code"], "1 of dev-" in error["message"]) == ("already", True)
    assert repo.refused("task", "start", "1")["code"] == "already"
    assert repo.refused("task", "block", "1", "--reason", "x")["code"] == "already"
    assert repo.types().count("task_completed") == 1
    assert repo.state()["tasks"][0]["commit"] == head


def test_a_task_may_be_done_without_having_been_started(repo):
    repo.ok("start", "dev", "x", "--task", "one")
    assert repo.ok("task", "done", "1")["workflow"]["tasks"][0]["status"] == "completed"


def test_a_blocked_task_is_started_again_before_it_is_done(repo):
    repo.ok("start", "dev", "x", "--task", "one")
    repo.ok("task", "block", "1", "--reason", "a decision")
    error = repo.refused("task", "done", "1")
    assert (error["code"], error["hint"]) == ("blocked", "holdfast task start 1")
    assert "BLOCKED task 1 (one): a decision" in repo.ok("resume")["briefing"]
    repo.ok("task", "start", "1")
    done = repo.ok("task", "done", "1")["workflow"]["tasks"][0]
    assert "reason" not in done


@pytest.mark.parametrize("number", ["2", "0", "-1", "one", "9" * 40])
def test_a_task_that_is_not_there_is_named_with_those_that_are(repo, number):
    repo.ok("start", "dev", "x", "--task", "one")
    for words in (["start"], ["done"], ["block", "--reason", "x"]):
        error = repo.refused("task", words[0], number, *words[1:])
        assert error["code"] == "not_found"
        assert "it has 1" in error["message"]


def test_unknown_ids_are_refused_by_every_command_that_takes_one(repo):
    repo.ok("start", "tdd", "x")
    lines = ["show", "resume", "log", "advance", "task add x", "remind x", "set a=1", "complete"]
    for line in [*lines, "abandon", "read @README.md", "step x", "status", "phase start red"]:
        error = repo.refused(*line.split(), "-w", "nosuch")
        assert error["code"] == "not_found", line
        assert "'nosuch'" in error["message"]
        assert "tdd-" in error["message"]
    assert len(repo.types()) == 2


def test_reminders_and_reading_are_kept_once(repo):
    repo.ok("start", "tdd", "x")
    repo.ok("remind", "slowly")
    assert repo.refused("remind", "slowly")["code"] == "already"
    repo.ok("read", "@README.md")
    assert repo.refused("read", "@README.md")["code"] == "already"
    missing = repo.ok("read", "@docs/later.md")
    assert "does not exist yet" in missing["notes"][0]
    workflow = repo.state()
    assert workflow["required_reading"] == ["@README.md", "@docs/later.md"]
    assert workflow["reminders"] == ["slowly"]


def test_context_is_set_field_by_field(repo):
    repo.ok("start", "tdd", "x", "--set", "a=1")
    repo.ok("set", "b=two", "c=true", 'd={"e": null}')
    assert repo.ok("set", "a=3")["workflow"]["context"] == {
        "a": 3,
        "b": "two",
        "c": True,
        "d": {"e": None},
    }


def test_a_commit_may_be_named_by_head_or_a_branch(repo):
    repo.commit("a.txt", "a")
    repo.git("branch", "feat/one")
    one = repo.git("rev-parse", "HEAD")
    repo.git("pack-refs", "--all")
    repo.commit("b.txt", "b")
    repo.ok("start", "dev", "x.md", "--task", "1", "--task", "2", "--task", "3", "--task", "4")
    head = repo.git("rev-parse", "HEAD")
    names = {"1": "HEAD", "2": "main", "3": "feat/one", "4": head[:9].upper()}
    answers = [repo.ok("task", "done", task, "--commit", name) for task, name in names.items()]
    assert [answer.get("notes") for answer in answers] == [None] * 4
    assert [task["commit"] for task in repo.state()["tasks"]] == [head, head, one, head]


@pytest.mark.parametrize(
    "name", ["HEAD", "nonsense_zzz", "feat", "abc", "../../HEAD", "-n", "4f5e6d7", "x" * 999]
)
def test_what_is_no_commit_is_refused(repo, name):
    repo.commit("a.txt", "a")
    repo.git("branch", "feat/one")
    repo.git("symbolic-ref", "HEAD", "refs/heads/unborn")
    repo.ok("start", "dev", "x.md", "--task", "1")
    error = repo.refused("task", "done", "1", f"--commit={name}")
    assert (error["code"], error["hint"]) == ("no_commit", "git log --oneline -5")
    assert error["message"] == f"task done: git has no commit {name[:80]!r}"
    assert repo.state()["tasks"][0]["status"] == "pending"


def test_without_git_nobody_knows_better_what_a_commit_is(folder):
    folder.ok("start", "dev", "x.md", "--task", "1")
    answer = folder.ok("task", "done", "1", "--commit", "r4711")
    assert ("notes" in answer, answer["workflow"]["tasks"][0]["commit"]) == (False, "r4711")


def test_a_task_takes_the_one_commit_that_was_made_since_it_began(repo):
    repo.ok("start", "custom", "x", "--task", "1", "--task", "2", "--task", "3", "--task", "4")
    repo.ok("task", "start", "1")
    repo.commit("one.txt", "one\n", "Make one")
    head = repo.git("rev-parse", "HEAD")
    answer = repo.ok("task", "done", "1")
    assert answer["workflow"]["tasks"][0]["commit"] == head
    said = f"took the commit that was made since it began: {head[:7]} Make one"
    assert answer["notes"] == [said]
    repo.ok("task", "start", "2")
    repo.write("two.txt", "two\n")
    answer = repo.ok("task", "done", "2")
    assert answer["notes"] == ["the work tree has changes that are in no commit"]
    repo.ok("task", "start", "3")
    repo.commit("two.txt", "two\n")
    repo.commit("three.txt", "three\n")
    answer = repo.ok("task", "done", "3")
    assert "2 commits were made since it began" in answer["notes"][0]
    repo.ok("task", "start", "4")
    repo.commit("four.txt", "four\n")
    repo.write("four.txt", "not four\n")
    answer = repo.ok("task", "done", "4")
    assert "so it was not taken" in answer["notes"][0]
    assert ["commit" in task for task in answer["workflow"]["tasks"]] == [True, *[False] * 3]


# What a phase needs before it is left


def test_dev_goes_to_its_end_only_with_what_its_phases_need(repo):
    """Each ``advance`` too early is refused with what is missing, and with the way to it."""
    repo.ok("start", "dev", "x.md", "--task", "one")
    repo.ok("advance")

    def lacks(missing, *command):
        answer = repo.run("advance", "--json").json
        assert answer["error"]["code"] == "pending"
        assert answer["error"]["details"]["pending"] == missing
        assert answer["next"]["command"] == ["holdfast", *command]

    lacks({"branch": ["missing"]}, "advance", "--branch", "BRANCH")
    text = repo.run("advance").err.splitlines()
    assert text[0].endswith("needs a branch of its own")
    assert text[1].startswith("  next: holdfast advance --branch BRANCH ")
    repo.ok("advance", "--branch", "feat/x")
    lacks({"tasks": [1]}, "red", "--", "COMMAND")
    assert repo.run("phase", "start", "verification").code == 1
    repo.ok("task", "done", "1")
    repo.ok("advance")
    every = ["lint", "test", "security_review", "code_simplifier"]
    lacks({"gates": every}, "gate", "run", "lint", "--", "COMMAND")
    for name in ("lint", "test"):
        repo.ok("gate", "run", name, "--", *PASSES)
    repo.ok("gate", "record", "security_review", "--also", "code_simplifier", "--passed")
    repo.write("README.md", "Another project.\n")
    lacks({"gates": ["lint", "test"]}, "gate", "run", "lint")
    repo.ok("gate", "run", "lint")
    repo.ok("gate", "run", "test")
    assert repo.ok("advance")["workflow"]["phase"] == "pr_creation"
    assert repo.refused("complete")["details"]["pending"] == {"gates": ["pr_created"]}


def test_a_phase_that_is_skipped_or_forced_is_never_completed(repo):
    repo.ok("start", "dev", "x.md", "--task", "one")
    repo.ok("advance")
    assert repo.refused("phase", "skip", "create_branch", exit_code=2)["code"] == "usage"
    assert repo.refused("advance", "--force")["code"] == "invalid"
    skipped = repo.ok("phase", "skip", "create_branch", "--reason", "a trial")["workflow"]
    assert names(skipped, "skipped") == ["create_branch"]
    assert skipped["phases"][1]["reason"] == "a trial"
    forced = repo.ok("advance", "--force", "--reason", "later")["workflow"]
    assert (names(forced, "completed"), names(forced, "skipped")) == (
        ["load_feature"],
        ["create_branch", "task_execution"],
    )
    machine = repo.record(forced["record"])["state_machine"]
    statuses = [phase["status"] for phase in machine["phases"]]
    assert statuses == ["completed", "skipped", "skipped", "in_progress", "pending"]
    assert repo.refused("complete")["details"]["pending"]["tasks"] == [1]
    signal = repo.ok("complete", "--force", "--reason", "enough")["signal"]
    assert "(forced: task 1, phase pr_creation, lint" in signal
    assert signal.endswith("; skipped: create_branch, task_execution)")


def test_red_is_a_run_that_fails_and_green_one_that_passes(repo):
    repo.ok("start", "dev", "x.md", "--task", "one")
    repo.git("switch", "-q", "-c", "feat/x")
    answer = repo.run("red", "--json", "--", *PASSES)
    assert answer.code == 4
    assert answer.json["next"]["command"] == ["holdfast", "red"]
    assert "red shows no test that fails" in repo.run("red").out
    assert repo.refused("green")["details"]["pending"] == {"tests": ["a run that fails"]}
    assert repo.refused("task", "phase", "1", "green")["code"] == "pending"
    repo.ok("tests", "record", "--command", "make", "--failing", "a")
    assert repo.refused("green")["code"] == "pending"
    repo.ok("red", "--", *FAILS)
    assert repo.run("green").code == 4
    assert repo.refused("refactor")["code"] == "pending"
    assert repo.refused("task", "done", "1")["code"] == "pending"
    assert repo.refused("commit", "-m", "x")["code"] == "pending"
    repo.write("nowhere", "made\n")
    repo.ok("green")
    repo.ok("refactor")
    repo.git("add", "-A")
    repo.write("nowhere", "made otherwise\n")
    assert repo.refused("commit", "-m", "x")["code"] == "stale"
    repo.write("nowhere", "made\n")
    done = repo.ok("commit", "-m", "Make it")["workflow"]["tasks"][0]
    assert done["phases"] == dict.fromkeys(("red", "green", "refactor"), "completed")
    assert done["commit"] == repo.git("rev-parse", "HEAD")


def test_a_red_that_passed_is_left_by_force_alone_and_is_skipped(repo):
    repo.ok("start", "dev", "x.md", "--task", "one")
    repo.git("switch", "-q", "-c", "feat/x")
    assert repo.run("red", "--", *PASSES).code == 4
    assert repo.refused("green", "--force")["code"] == "invalid"
    moved = repo.ok("green", "--force", "--reason", "it was tested before")["workflow"]
    assert moved["tasks"][0]["phases"]["red"] == "skipped"


def test_a_branch_is_created_with_the_phase_that_asks_for_it(repo):
    repo.ok("start", "dev", "a.md", "--task", "one")
    state = repo.ok("advance", "--branch", "feat/x")["workflow"]
    assert (state["phase"], state["branch"]) == ("task_execution", "feat/x")
    assert names(state, "completed") == ["load_feature", "create_branch"]


def test_a_commit_by_hand_counts_only_if_the_tests_passed_on_its_files(repo):
    repo.ok("start", "tdd", "a thing")
    repo.run("red", "--", "test", "-e", "thing")
    repo.write("thing", "")
    repo.ok("green")
    repo.ok("refactor")
    repo.ok("advance")
    os.unlink(os.path.join(repo.path, "thing"))
    repo.git("commit", "-q", "--allow-empty", "-m", "nothing")
    assert repo.refused("advance")["details"]["pending"] == {"commit": ["untested"]}
    assert repo.refused("commit", "-m", "x")["code"] == "stale"
    repo.write("thing", "")
    repo.ok("advance")
