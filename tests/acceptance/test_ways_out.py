"""What a refusal names as the next command works where it was refused, and leads on."""

import pytest

from support.command_line import Folder

CHECK = ["python3", "-c", "pass"]


@pytest.fixture
def dev(repo):
    """A dev workflow with one task, on a branch of its own."""
    repo.write("docs/one.md", "# One\n\n- [ ] Write it\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "docs")
    repo.ok("start", "dev", "docs/one.md")
    repo.ok("advance", "--branch", "feat/one")
    return repo


@pytest.fixture
def single(repo):
    repo.ok("start", "oneshot", "Typo", "--task", "Mend it")
    return repo


def lead_on(place, *words, **values):
    """Run a command that is refused, and what it names as next; return the words of that."""
    answer = place.run(*words, "--json").json
    assert not answer["ok"]
    line = [values.get(word, word) for word in answer["next"]["command"]]
    place.ok(*line[1:])
    return line[1:]


def test_without_a_remote_the_refusals_lead_to_the_end(dev):
    dev.ok("task", "done", "1")
    for gate in ("lint", "test"):
        dev.ok("gate", "run", gate, "--", *CHECK)
    dev.ok("gate", "record", "security_review", "--also", "code_simplifier", "--passed")
    answer = dev.run("gate", "record", "pr_created", "--passed", "--json").json
    assert "has no remote" in answer["error"]["message"]
    skip = ["phase", "skip", "pr_creation", "--reason", "TEXT"]
    assert answer["next"]["command"][1:] == skip
    assert lead_on(dev, *skip) == ["advance"]
    assert dev.ok(*skip)["next"]["command"][1:] == ["complete"]
    dev.ok("complete")


def test_a_phase_that_lacks_something_is_not_offered_as_done(dev):
    answer = dev.run("phase", "skip", "verification", "--reason", "none", "--json").json
    assert answer["next"]["command"][1] == "red"


def test_with_nothing_to_commit_the_task_can_be_done_and_the_phase_skipped(single):
    single.ok("task", "start", "1")
    assert lead_on(single, "commit", "-m", "x") == ["task", "done", "1"]
    single.ok("advance")
    skip = ["phase", "skip", "git-commit", "--reason", "nothing changed"]
    assert lead_on(single, "commit", "-m", "x", TEXT="nothing changed") == skip
    single.ok("complete")


def test_with_something_to_commit_it_is_to_be_staged(single):
    single.ok("task", "start", "1")
    single.write("new.py", "")
    assert single.refused("commit", "-m", "x")["hint"] == "git add PATH"


def test_nothing_is_committed_on_another_branch_than_the_workflows_own(dev):
    dev = dev.as_session("ada")
    workflow = dev.ok("resume")["workflow"]["id"]
    dev.git("switch", "-q", "-")
    dev.write("new.py", "")
    dev.git("add", "new.py")
    dev.ok("task", "start", "1")
    head = dev.git("rev-parse", "HEAD")
    answer = dev.run("commit", "-m", "x", "--json").json
    assert answer["error"]["code"] == "other_branch"
    assert answer["next"]["command"] == ["git", "switch", "feat/one"]
    assert dev.git("rev-parse", "HEAD") == head
    dev.ok("commit", "-m", "x", "-w", workflow, "--id", "c1")
    assert dev.git("rev-parse", "HEAD") != head
    dev.ok("commit", "-m", "x", "-w", workflow, "--id", "c1")


def test_a_workflow_that_made_no_branch_is_committed_on_any(single):
    single = single.as_session("ada")
    single.ok("resume")
    single.git("switch", "-q", "-c", "typo")
    single.write("new.py", "")
    single.git("add", "new.py")
    single.ok("task", "start", "1")
    single.ok("commit", "-m", "x")


def test_the_one_place_leads_to_the_workflow_that_has_it(repo):
    ada = repo.as_session("ada")
    first = ada.ok("start", "apex", "Login")["workflow"]["id"]
    assert lead_on(ada, "start", "oneshot", "Typo") == ["resume", first]


def test_the_work_of_a_live_session_is_not_offered_to_be_ended(repo):
    repo.as_session("ada").ok("start", "apex", "Login")
    answer = repo.as_session("kim").run("start", "oneshot", "Typo", "--json").json
    error, following = answer["error"], answer["next"]
    assert "the live session ada works on it" in error["message"]
    assert error["details"]["holder"] == "ada"
    assert not any(word in error["hint"] for word in ("complete", "abandon", "--replace"))
    assert following["command"] == ["git", "worktree", "add", "PATH", "-b", "BRANCH"]
    assert set(following["fill"]) == {"PATH", "BRANCH"}


def test_what_the_next_line_says_is_not_said_twice(repo):
    repo.ok("start", "apex", "Login")
    lines = repo.run("phase", "approve", "plan").err.splitlines()
    assert [line for line in lines if "ask the user" in line] == [lines[-1]]


def test_an_approval_names_the_workflow_because_a_person_has_no_session(repo):
    repo.ok("start", "tdd", "another")
    ada = repo.as_session("ada")
    own = ada.ok("start", "planning", "a plan")["workflow"]["id"]
    for _ in range(5):
        answer = ada.ok("advance")
    command = answer["next"]["command"]
    assert command == ["holdfast", "phase", "approve", "Sign-off", "-w", own]


def test_outside_git_a_workflow_goes_on_without_a_branch(folder):
    folder.ok("start", "dev", "docs/one.md", "--task", "Write it")
    assert lead_on(folder, "advance", "--branch", "feat/one") == ["advance"]


def test_a_loop_without_a_unit_says_so_and_leads_to_a_plan(repo):
    repo.ok("loop", "new", "search")
    answer = repo.run("loop", "block", "T1", "--reason", "why", "--json").json
    assert "has no unit 'T1'" in answer["error"]["message"]
    assert answer["next"]["command"][1:3] == ["loop", "plan"]
    notes = repo.ok("loop", "archive")["notes"]
    assert notes == ["it was not finished: no unit was planned"]


def test_a_unit_that_is_done_is_called_done(repo):
    repo.ok("loop", "new", "search")
    repo.ok("loop", "plan", "--unit", "T1: A")
    repo.ok("loop", "plan", "--unit", "T2: B")
    repo.ok("loop", "iterate", "T1", "--did", "it", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    repo.ok("loop", "verify", "T1", "--passed")
    for words in (["--passed"], ["--run", "--", *CHECK]):
        error = repo.refused("loop", "verify", "T1", *words)
        assert error["message"].endswith("it is done, not verifying")


def test_the_phases_of_a_task_are_shown_in_words(dev):
    dev.run("red", "--", "python3", "-c", "raise SystemExit(1)")
    assert "red in progress" in dev.run("show").out
    assert "in_progress" not in dev.run("show").out


def test_an_imported_phase_is_not_said_to_be_edited(dev, tmp_path):
    export = dev.run("export").out
    dev.git("clone", "-q", ".", str(tmp_path / "clone"))
    clone = Folder(tmp_path / "clone", dev.environment)
    clone.write("backup.jsonl", export)
    clone.ok("import", "backup.jsonl")
    shown = clone.run("show").out
    assert "create_branch  claimed" in shown
    assert "edit" not in shown


def test_a_resume_that_cannot_be_undone_leads_on_with_the_work(repo):
    repo.ok("start", "custom", "Old", "--task", "Never done")
    repo.ok("complete", "--force", "--reason", "enough")
    repo.ok("resume", "old")
    assert lead_on(repo, "undo") == ["task", "start", "1"]
