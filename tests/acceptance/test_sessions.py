"""Which workflow is mine: sessions, their clients, branches."""

import os
import subprocess
import sys

import pytest

from support.command_line import Folder
from support.pseudoterminal import Pseudoterminal

ADVANCE = ("advance", "--force", "--reason", "a test")
"""A change that moves on, whatever the phase lacks."""


@pytest.fixture
def gone():
    """The id of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.fixture
def running():
    """The id of another process that runs until the test is over."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.communicate()


def start_tdd(place, subject, *words):
    return place.ok("start", "tdd", subject, *words)["workflow"]["id"]


def test_each_of_two_sessions_goes_on_with_its_own_workflow(repo):
    ada, grace = repo.as_session("ada"), repo.as_session("grace")
    hers, other = start_tdd(ada, "one"), start_tdd(grace, "two")
    assert ada.ok(*ADVANCE)["workflow"]["id"] == hers
    assert grace.ok(*ADVANCE)["workflow"]["id"] == other
    assert repo.ok("show", "--session", "ada")["workflow"]["id"] == hers
    assert ada.ok("show", "--session", "grace")["workflow"]["id"] == other
    assert ada.state()["session"]["id"] == "ada"


def test_the_option_counts_more_than_the_environment(repo):
    ada = repo.as_session("ada")
    workflow = start_tdd(ada, "one", "--session", "grace")
    assert repo.state(workflow)["session"]["id"] == "grace"


def test_an_empty_session_is_nobodys(repo):
    ada = repo.as_session("ada")
    workflow = start_tdd(ada, "one", "--session", "")
    assert repo.state()["session"] is None
    assert start_tdd(repo.as_session(""), "two")
    assert repo.as_session("", os.getpid()).refused("show")["code"] == "ambiguous"
    assert ada.ok("resume", workflow)["workflow"]["session"]["id"] == "ada"


def in_terminal(place, *words):
    """Return the lines that a command prints on a wide terminal."""
    command = [sys.executable, "-m", "holdfast", *words]
    environment = {**place.environment, "TERM": "xterm", "NO_COLOR": "1"}
    with Pseudoterminal(command, place.path, environment, columns=400) as terminal:
        assert terminal.ended() == 0
    return terminal.text.splitlines()


def in_client(place):
    """Return the folder as a client's command sees it that does not tell its session."""
    return Folder(place.path, {**place.environment, "GEMINI_CLI": "1"})


def test_a_second_session_is_told_who_works_there_and_what_it_can_do_instead(repo):
    workflow = start_tdd(repo.as_session("ada"), "one")
    for other in (in_client(repo), repo.as_session("grace")):
        for line in ("advance", "show", "resume", "complete"):
            answer = other.run(line, "--json").json
            error = answer["error"]
            assert (error["code"], error["details"]["candidates"]) == ("held", [workflow]), line
            assert error["message"] == f"the live session ada works on {workflow} (one)"
            assert answer["next"]["command"][:4] == ["holdfast", "start", "RECIPE", "SUBJECT"]
            assert f"act on this one once: -w {workflow};" in error["hint"]
            # Without a session, resume would bind nobody.
            name = "grace" if other.environment.get("CLAUDE_CODE_SESSION_ID") else "NAME"
            assert f"holdfast resume {workflow} --session {name}" in error["hint"]


def test_acting_once_by_name_takes_nothing_over(repo):
    workflow = start_tdd(repo.as_session("ada"), "one")
    grace = repo.as_session("grace")
    assert grace.ok(*ADVANCE, "-w", workflow)["workflow"]["phase"] == "green"
    assert repo.state(workflow)["session"]["id"] == "ada"
    assert grace.refused("advance")["code"] == "held"


def test_a_person_means_the_only_workflow_and_is_told_who_works_on_it(repo):
    workflow = start_tdd(repo.as_session("ada"), "one")
    for line in (["show"], ["resume"], ADVANCE):
        answer = repo.ok(*line)
        assert answer["workflow"]["id"] == workflow
        assert answer["notes"] == [f"the live session ada works on {workflow}"]
    assert repo.state(workflow)["session"]["id"] == "ada"


def test_a_person_gets_the_free_workflow_before_those_that_are_held(repo):
    start_tdd(repo.as_session("ada"), "one")
    free = start_tdd(repo, "two")
    answer = repo.ok(*ADVANCE)
    assert answer["workflow"]["id"] == free
    assert "notes" not in answer


def test_a_person_has_to_choose_among_several_that_are_held(repo):
    held = {start_tdd(repo.as_session(name), name) for name in ("ada", "grace")}
    error = repo.refused("advance")
    assert (error["code"], set(error["details"]["candidates"])) == ("ambiguous", held)


def test_the_first_change_of_a_session_binds_it(repo):
    workflow = start_tdd(repo, "one")
    ada = repo.as_session("ada")
    assert ada.ok("show")["workflow"]["session"] is None
    changed = ada.ok(*ADVANCE)
    assert changed["workflow"]["session"]["id"] == "ada"
    assert ada.types(workflow)[2:] == ["workflow_resumed", "phase_skipped", "phase_started"]
    # They are one transaction, and the answer to one request.
    assert changed["seqs"] == [3, 4, 5]
    ada.ok(*ADVANCE)
    assert ada.types(workflow).count("workflow_resumed") == 1
    assert repo.as_session("grace").refused("advance")["code"] == "held"


def test_the_first_change_by_name_binds_to_one_of_several(repo):
    one, two = start_tdd(repo, "one"), start_tdd(repo, "two")
    ada = repo.as_session("ada")
    ada.ok(*ADVANCE, "-w", one)
    assert ada.ok(*ADVANCE)["workflow"]["id"] == one
    ada.ok(*ADVANCE, "-w", two)
    assert ada.state()["id"] == one


def test_a_change_that_is_refused_binds_nobody(repo):
    start_tdd(repo, "one")
    ada = repo.as_session("ada")
    assert ada.refused("task", "done", "7")["code"] == "not_found"
    assert repo.state()["session"] is None


def test_a_change_of_another_branch_or_worktree_binds_nobody(repo):
    workflow = start_tdd(repo, "one")
    repo.git("switch", "-q", "-c", "side")
    ada = repo.as_session("ada")
    ada.ok(*ADVANCE, "-w", workflow)
    assert repo.state(workflow)["session"] is None


def test_a_person_is_never_bound(repo):
    workflow = start_tdd(repo, "one")
    repo.ok(*ADVANCE)
    repo.as_session("").ok(*ADVANCE)
    assert repo.state(workflow)["session"] is None


def test_the_first_iteration_of_a_loop_binds_its_session(repo):
    repo.ok("loop", "new", "port", "--outcome", "it is ported", "--done-when", "tests pass")
    ada = repo.as_session("ada")
    ada.ok("loop", "plan", "--unit", "T1: The reader")
    assert repo.state("port")["session"]["id"] == "ada"


def test_the_command_that_takes_it_over_does_so_where_it_is_said(repo):
    """A client says who is asking with every command, a plain terminal only when it is told to."""
    workflow = start_tdd(repo.as_session("ada"), "one")
    client = repo.as_session("grace", os.getpid())
    told = f"holdfast resume {workflow}"
    for other, command in ((in_client(repo), f"{told} --session NAME"), (client, told)):
        assert other.refused("advance")["hint"].endswith(f"; or take it over: {command}")
        _, *words = command.split()
        assert other.ok(*words)["workflow"]["session"]["id"] != "ada"
        repo.as_session("ada").ok("resume", workflow)


def test_resume_by_name_takes_a_workflow_over_and_says_so(repo):
    workflow = start_tdd(repo.as_session("ada"), "one")
    grace = repo.as_session("grace")
    taken = grace.ok("resume", workflow)
    assert "ada held it" in taken["notes"][0]
    assert grace.state()["session"]["id"] == "grace"
    assert repo.as_session("ada").refused("advance")["code"] == "held"


def test_the_workflow_resumed_last_is_the_sessions(repo):
    ada = repo.as_session("ada")
    one, two = start_tdd(ada, "one"), start_tdd(ada, "two")
    assert ada.state()["id"] == two
    ada.ok("resume", one)
    assert ada.state()["id"] == one
    assert ada.ok("start", "tdd", "two")["resumed"]
    assert ada.state()["id"] == two


def test_resuming_what_is_mine_already_records_the_briefing_alone(repo):
    ada = repo.as_session("ada")
    start_tdd(ada, "one")
    briefing = ada.ok("resume")["briefing"]
    assert ada.ok("resume")["seqs"] == []
    resumed = ada.ok("start", "tdd", "one")
    assert (resumed["seqs"], resumed["briefing"]) == ([], briefing)
    assert ada.types()[2:] == ["briefing_delivered"]


def test_whoever_has_a_session_gets_the_whole_briefing_on_a_terminal(repo):
    ada = repo.as_session("ada")
    start_tdd(ada, "one", "--remind", "Keep the old names")
    briefing = ada.ok("resume")["briefing"]
    assert in_terminal(ada, "resume") == briefing.splitlines()
    first, _, *others, _ = in_terminal(ada, "start", "tdd", "one")
    assert first.startswith("▶ resumed tdd-")
    assert others == briefing.splitlines()


def test_a_person_sees_reading_reminders_and_another_branch(repo):
    workflow = start_tdd(repo, "one", "--read", "@gone.md", "--remind", "Keep the old names")
    repo.git("switch", "-q", "-c", "side")
    for words in (("resume", workflow), ("start", "tdd", "one")):
        shown = "\n".join(in_terminal(repo, *words))
        is_first = shown.startswith("The workflow is for branch main, checked out is side.")
        assert is_first is (words[0] == "resume")
        assert "The workflow is for branch main" in "".join(shown.splitlines()[:3])
        assert "git switch main" in shown
        assert "Must be read\n  @gone.md (missing)" in shown
        assert "Reminders\n  Keep the old names" in shown
    assert "briefing_delivered" not in repo.types()


def test_a_session_whose_client_runs_is_live(repo, running):
    workflow = start_tdd(repo.as_session("ada", running), "one")
    assert repo.state(workflow)["session"]["pid"] == running
    assert repo.as_session("grace").refused("advance")["code"] == "held"


def test_a_session_whose_client_has_ended_holds_nothing(repo, gone):
    workflow = start_tdd(repo.as_session("ada", gone), "one")
    assert repo.ok(*ADVANCE)["workflow"]["id"] == workflow
    grace = repo.as_session("grace")
    assert grace.ok("resume")["workflow"]["session"]["id"] == "grace"


def test_after_clear_the_same_client_goes_on_with_its_workflow(repo, running):
    ada = repo.as_session("before-clear", running)
    mine = start_tdd(ada, "one")
    start_tdd(repo.as_session("grace"), "two")
    after = repo.as_session("after-clear", running)
    assert after.ok(*ADVANCE)["workflow"]["id"] == mine
    session = after.ok("resume")["workflow"]["session"]
    assert (session["id"], session["pid"]) == ("after-clear", running)


def test_a_client_that_came_back_under_its_session_is_live_again(repo, gone, running):
    workflow = start_tdd(repo.as_session("ada", gone), "one")
    repo.as_session("ada", running).ok("resume")
    assert repo.state(workflow)["session"]["pid"] == running
    assert repo.as_session("grace").refused("advance")["code"] == "held"


@pytest.mark.parametrize("pid", ["", "0", "-1", "none", "9" * 40])
def test_a_client_that_tells_no_process_is_known_by_its_session(repo, pid):
    ada = repo.as_session("ada", pid)
    start_tdd(ada, "one")
    assert "pid" not in ada.state()["session"]


def test_several_free_workflows_are_listed_not_guessed(repo):
    one, two = start_tdd(repo, "one"), start_tdd(repo, "two")
    for line in ("resume", "advance", "show"):
        error = repo.refused(line)
        assert error["code"] == "ambiguous", line
        assert set(error["details"]["candidates"]) == {one, two}
    assert "-w " in error["hint"]


def test_nothing_to_resume_is_said_with_what_to_start(repo):
    error = repo.refused("resume")
    assert (error["code"], error["hint"]) == ("not_found", "holdfast start RECIPE SUBJECT")


def test_a_workflow_of_another_branch_is_named_not_taken(repo):
    workflow = start_tdd(repo, "one")
    repo.git("switch", "-q", "-c", "side")
    for line in ("advance", "resume"):
        error = repo.refused(line)
        assert (error["code"], error["details"]["candidates"]) == ("other_branch", [workflow])
        assert "git switch main" in error["hint"]
    assert start_tdd(repo, "two")
    assert repo.state()["branch"] == "side"
    repo.git("switch", "-q", "main")
    assert repo.state()["id"] == workflow


def test_resume_says_first_that_the_branch_is_another(repo):
    workflow = start_tdd(repo, "one")
    repo.git("switch", "-q", "-c", "side")
    first = repo.ok("resume", workflow)["briefing"].splitlines()[0]
    assert first.startswith("BRANCH MISMATCH")
    assert "git switch main" in first
    assert "holdfast abandon" in first
    repo.git("switch", "-q", "main")
    assert "MISMATCH" not in repo.ok("resume", workflow)["briefing"]


def test_a_detached_head_is_no_branch(repo):
    workflow = start_tdd(repo, "one")
    repo.git("switch", "-q", "--detach")
    error = repo.refused("advance")
    assert (error["code"], "no branch" in error["message"]) == ("other_branch", True)
    assert repo.ok(*ADVANCE, "-w", workflow)


def test_a_workflow_that_makes_its_own_branch_follows_it(repo):
    workflow = repo.ok("start", "dev", "feature.md")["workflow"]["id"]
    repo.ok("advance")
    repo.git("switch", "-q", "-c", "feat/x")
    assert "MISMATCH" not in repo.ok("resume")["briefing"]
    assert repo.ok("phase", "complete", "create_branch")["workflow"]["branch"] == "feat/x"
    assert repo.state()["id"] == workflow
    repo.git("switch", "-q", "main")
    assert repo.refused("advance")["code"] == "other_branch"


@pytest.mark.parametrize("way", [[], ["--apply"]])
def test_in_the_middle_of_a_rebase_the_branch_is_the_one_that_is_rebased(repo, way):
    repo.git("switch", "-q", "-c", "side")
    repo.commit("README.md", "Ours.\n")
    workflow = start_tdd(repo, "one")
    repo.git("switch", "-q", "main")
    repo.commit("README.md", "Theirs.\n")
    repo.git("switch", "-q", "side")
    repo.git("rebase", "-q", *way, "main", check=False)
    assert repo.git("symbolic-ref", "-q", "HEAD", check=False) == ""
    assert repo.ok(*ADVANCE)["workflow"]["id"] == workflow
    assert "MISMATCH" not in repo.ok("resume")["briefing"]
    repo.git("rebase", "--abort")
    assert repo.state()["branch"] == "side"


def test_in_the_middle_of_a_bisection_the_branch_is_the_one_that_is_bisected(repo):
    workflow = start_tdd(repo, "one")
    for number in range(4):
        repo.commit("README.md", f"{number}\n")
    repo.git("bisect", "start", "HEAD", "HEAD~4")
    assert repo.git("symbolic-ref", "-q", "HEAD", check=False) == ""
    assert repo.ok(*ADVANCE)["workflow"]["id"] == workflow
    assert "MISMATCH" not in repo.ok("resume")["briefing"]
    repo.git("bisect", "reset")
    assert repo.state()["branch"] == "main"


def test_of_many_workflows_a_few_are_named_and_programs_get_them_all(repo):
    names = [start_tdd(repo, f"number {n}") for n in range(8)]
    for place in (repo, repo.as_session("ada")):
        error = place.refused("advance")
        assert sorted(error["details"]["candidates"]) == sorted(names)
        assert error["message"].endswith(" and 3 more")
        assert error["hint"].endswith("; holdfast status lists them all")
        told = place.run("advance").err
        assert sum(name in told for name in names) == 5
        assert "candidates:" not in told
        assert ("holdfast resume" in told) is (place is not repo)


def test_of_a_few_workflows_each_is_named(repo):
    names = [start_tdd(repo, f"number {n}") for n in range(2)]
    error = repo.refused("advance")
    assert error["hint"] == f"name one: -w {names[1]}"
    assert all(name in error["message"] for name in names)
