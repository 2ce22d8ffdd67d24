"""``dev`` and ``tdd`` as skills and scripts use them: names, folders, cycles, coming back."""

import hashlib
import json
import subprocess

import pytest

from holdfast import Keeper

PASSES = ("test", "-e", "README.md")
FAILS = ("test", "-e", "nowhere")


def hashed(subject):
    """``echo "$SUBJECT" | md5sum | cut -c1-8``."""
    return hashlib.md5(f"{subject}\n".encode()).hexdigest()[:8]


# Names and places


def test_a_script_finds_the_record_by_its_own_sum(repo):
    script = """
      FEATURE_FILE="features/it's a name.md"
      STATE_FILE=".claude/workflow-state/active/dev-$(echo "$FEATURE_FILE" | md5sum |
        cut -c1-8).json"
      test -f "$STATE_FILE" && echo found
    """
    started = repo.ok("start", "dev", "features/it's a name.md")["workflow"]
    assert started["id"] == f"dev-{hashed(started['subject'])}"
    done = subprocess.run(["sh", "-c", script], cwd=repo.path, capture_output=True, check=True)
    assert done.stdout == b"found\n"


def test_a_record_that_a_script_gave_an_id_of_its_own_is_resumed(repo):
    record = f".claude/workflow-state/active/dev-{hashed('a.md')}.json"
    document = {
        "_schema": {"version": "1.0", "skill": "dev"},
        "workflow": {"id": "dev-my-own", "status": "in_progress", "branch": "main"},
        "context": {"feature_file": "a.md"},
        "state_machine": {"current_phase": "task_execution", "phases": []},
    }
    repo.write(record, json.dumps(document))
    assert [row["id"] for row in repo.ok("status")["workflows"]] == ["dev-my-own"]
    answer = repo.ok("start", "dev", "a.md")
    assert (answer["resumed"], answer["workflow"]["id"]) == (True, "dev-my-own")
    assert repo.indexed_ids() == ["dev-my-own"]
    repo.ok("abandon")
    assert repo.ok("start", "dev", "a.md")["workflow"]["id"] == f"dev-{hashed('a.md')}"


def test_subjects_whose_sums_collide_stay_apart(repo):
    # Two texts whose md5 begins with the same eight digits.
    one, other = "subject 28127", "subject 91245"
    if hashed(one) != hashed(other):
        one, other = colliding()
    first = repo.ok("start", "tdd", one)["workflow"]["id"]
    second = repo.ok("start", "tdd", other)["workflow"]["id"]
    assert second == f"{first}-2"
    assert repo.ok("start", "tdd", other)["resumed"]
    assert repo.state(first)["subject"] == one
    assert sorted(repo.indexed_ids()) == [first, second]


def colliding():
    seen = {}
    for number in range(400_000):
        text = f"subject {number}"
        if (key := hashed(text)) in seen:
            return seen[key], text
        seen[key] = text
    raise AssertionError("no two were found")


# Folders


@pytest.fixture
def features(repo):
    for name in ("b-login", "a-model", "c/logout"):
        repo.write(f"features/auth/{name}.md", f"# The {name}\n\nText.\n")
    repo.write("features/auth/README.md", "# Not a feature\n")
    repo.write("features/auth/notes.txt", "")
    return repo


def test_a_folder_is_done_one_feature_after_the_other(features):
    paths = [f"features/auth/{name}.md" for name in ("a-model", "b-login", "c/logout")]
    started = features.ok("start", "dev", "features/auth/", "--task", "one")["workflow"]
    assert started["id"] == f"dev-{hashed('features/auth/')}"
    context = features.record(started["record"])["context"]
    assert context["folder_mode"] is True
    assert context["folder_path"] == "features/auth/"
    assert context["folder_features"] == paths
    assert (context["feature_file"], context["feature_title"]) == (paths[0], "The a-model")
    features.ok("task", "done", "1")
    features.ok("gate", "run", "lint", "--", "test", "-e", "README.md")
    signals = []
    for number, path in enumerate(paths[1:], 2):
        answer = features.ok("complete", "--force", "--reason", "x")
        signals.append(answer["signal"])
        state = answer["workflow"]
        assert (state["status"], state["tasks"], state["phase"]) == (
            "in_progress",
            [],
            "load_feature",
        )
        assert state["context"]["feature_file"] == path
        assert state["gates"]["lint"] == {"status": "pending"}
        assert f"FEATURE {number}/3: {path}" in features.run("resume").out
        assert features.indexed_ids() == [state["id"]]
    last = features.ok("complete", "--force", "--reason", "x")
    assert last["workflow"]["status"] == "completed"
    gates = "test, security_review, code_simplifier, pr_created"
    phases = ("create_branch", "task_execution", "verification", "pr_creation")
    left = ", ".join(f"phase {name}" for name in phases)
    assert [*signals, last["signal"]] == [
        f"DEV_COMPLETE: The a-model (forced: {left}, {gates}; untested: task 1)",
        f"DEV_COMPLETE: The b-login (forced: {left}, lint, {gates})",
        f"DEV_COMPLETE: The c/logout (forced: {left}, lint, {gates})",
    ]
    assert features.types().count("feature_completed") == 2


@pytest.mark.parametrize("again", ["features/auth/", "./features/auth", "features//auth"])
def test_the_same_folder_written_otherwise_is_the_same_work(features, again):
    first = features.ok("start", "dev", "features/auth")["workflow"]["id"]
    answer = features.ok("start", "dev", again)
    assert (answer["resumed"], answer["workflow"]["id"]) == (True, first)
    assert features.indexed_ids() == [first]
    features.ok("abandon")
    assert features.ok("start", "dev", again)["workflow"]["subject"] == again


def test_where_the_folder_stands_is_told_in_one_line(features):
    features.ok("start", "dev", "features/auth", "--set", "ticket=7")
    shown = features.run("show").out
    assert "feature 1 of 3: features/auth/a-model.md" in shown
    for told in (shown, features.run("resume").out):
        assert "ticket" in told
        assert "folder_" not in told
        assert told.count("a-model.md") == 1


def test_a_folder_without_features_is_refused(repo):
    repo.write("features/notes.txt", "")
    error = repo.refused("start", "dev", "features")
    assert error["code"] == "not_found"
    assert not repo.has(".claude", "holdfast")


def test_the_signal_names_the_feature(repo):
    repo.ok("start", "dev", "features/user-login.md")
    last = repo.run("complete", "--force", "--reason", "x").out.splitlines()[-1]
    assert last.startswith("DEV_COMPLETE: user-login (forced: phase create_branch, ")
    repo.ok("start", "tdd", "Add a parser")
    done = repo.ok("complete", "--force", "--reason", "x")
    forced = "phase green, phase refactor, phase commit, a test that fails"
    assert done["signal"] == f"TDD_COMPLETE: Add a parser (forced: {forced})"
    repo.ok("start", "oneshot", "A typo")
    repo.ok("advance")
    repo.commit("README.md", "No typo.\n")
    assert repo.ok("complete")["signal"] == "ONESHOT_COMPLETE: A typo"


# Test-driven development


def test_a_cycle_is_told_in_the_words_of_its_scripts(repo):
    repo.ok("start", "tdd", "Add login")
    repo.ok("phase", "start", "red", "test_file=tests/a.rs", "test_name=test_login")
    repo.ok("phase", "start", "red", "failure_confirmed=true", "failure_reason=not implemented")
    repo.ok("red", "--", *FAILS)
    repo.ok("advance")
    repo.ok("tests", "record", "--command", "cargo test", "--failing", "x", "--error", "no method")
    record = repo.record(repo.state()["record"])
    red, green = record["state_machine"]["phases"][:2]
    assert (red["test_file"], red["failure_confirmed"]) == ("tests/a.rs", True)
    assert (green["tests_passing"], green["last_error"]) == (False, "no method")
    told = [
        (entry["event"], entry.get("file") or entry.get("reason")) for entry in record["history"]
    ]
    assert ("test_written", "tests/a.rs") in told
    assert ("failure_confirmed", "not implemented") in told
    repo.ok("tests", "record", "--command", "cargo test", "--passing", "x")
    green = repo.record(repo.state()["record"])["state_machine"]["phases"][1]
    assert green["tests_passing"] is True
    assert "last_error" not in green
    assert repo.refused("advance")["details"]["pending"] == {"tests": ["a run is missing"]}
    repo.write(FAILS[-1], "")
    repo.ok("green")
    repo.ok("refactor")
    repo.ok("advance")
    repo.ok("phase", "start", "red")
    machine = repo.record(repo.state()["record"])["state_machine"]
    assert (machine["cycle_count"], machine["current_phase"]) == (2, "red")
    assert [phase["status"] for phase in machine["phases"]] == ["in_progress", *["pending"] * 3]


def test_history_keeps_the_newest_fifty_and_counts_the_others(repo):
    keeper = Keeper(repo.path)
    workflow = keeper.start("tdd", "long").state["id"]
    for number in range(70):
        keeper.set_context({"turn": number}, workflow=workflow)
    record = repo.record(keeper.show(workflow=workflow).state["record"])
    assert (len(record["history"]), record["history_earlier"]) == (50, 22)
    assert len(keeper.log(workflow=workflow)) == 72


# Sub-phases of a task


def test_entering_a_phase_of_a_task_completes_the_earlier_ones(repo):
    repo.ok("start", "dev", "a.md", "--task", "one", "--task", "two")
    assert repo.refused("task", "phase", "1", "green")["code"] == "pending"
    repo.ok("task", "phase", "1", "red")
    repo.run("tests", "run", "--", *FAILS)
    repo.ok("task", "phase", "1", "green")
    task = repo.record(repo.state()["record"])["tasks"][0]
    assert task["tdd_phases"] == {
        "red": "completed",
        "green": "in_progress",
        "refactor": "pending",
    }
    assert "Resuming task 1/2, currently in GREEN phase" in repo.run("resume").out
    assert repo.refused("task", "phase", "1", "blue")["code"] == "not_found"
    assert repo.refused("task", "phase", "9", "red")["code"] == "not_found"
    assert repo.refused("task", "done", "1", "--commit", "HEAD")["code"] == "pending"
    repo.ok("tests", "run", "--", *PASSES)
    error = repo.refused("task", "done", "1", "--commit", "HEAD")
    assert f"a run of {' '.join(FAILS)}" in error["message"]
    repo.write(FAILS[-1], "")
    repo.ok("tests", "run", "--", *FAILS)
    repo.ok("task", "done", "1", "--commit", "HEAD")
    task = repo.record(repo.state()["record"])["tasks"][0]
    assert task["commit_sha"] == repo.git("rev-parse", "HEAD")
    assert task["tdd_phases"] == {"red": "completed", "green": "completed", "refactor": "skipped"}


def test_phases_of_a_task_that_nobody_entered_are_skipped_in_the_record(repo):
    repo.ok("start", "dev", "a.md", "--task", "one")
    repo.ok("task", "done", "1")
    task = repo.record(repo.state()["record"])["tasks"][0]
    assert task["tdd_phases"] == dict.fromkeys(("red", "green", "refactor"), "skipped")


# Coming back


def test_before_verification_the_pending_gates_are_named(repo):
    repo.ok("start", "dev", "a.md", "--task", "one")
    repo.ok("task", "done", "1")
    told = repo.run("resume").out
    assert "All tasks complete. Pending: lint, test, security_review, code_simplifier" in told


def test_a_branch_that_was_pushed_without_a_pull_request_is_noticed(repo):
    repo.git("init", "-q", "--bare", "../remote.git")
    repo.git("remote", "add", "origin", "../remote.git")
    repo.ok("start", "dev", "a.md")
    repo.ok("advance")
    repo.git("switch", "-q", "-c", "feat/a")
    repo.ok("advance")
    for phase in ("task_execution", "verification"):
        repo.ok("phase", "skip", phase, "--reason", "a trial")
    assert repo.state()["phase"] == "pr_creation"
    assert "PULL REQUEST" not in repo.run("resume").out
    repo.git("push", "-q", "origin", "feat/a")
    assert "PULL REQUEST: origin/feat/a" in repo.run("resume").out
    repo.commit("more.txt", "x")
    assert "PULL REQUEST" not in repo.run("resume").out
    repo.git("push", "-q", "origin", "feat/a")
    repo.ok("gate", "record", "pr_created", "--passed", "pr_number=1")
    assert "PULL REQUEST" not in repo.run("resume").out


def test_another_branch_is_said_first_with_both_ways_out(repo):
    repo.ok("start", "dev", "a.md")
    repo.ok("advance")
    repo.ok("phase", "skip", "create_branch", "--reason", "it is done on main")
    repo.git("switch", "-q", "-c", "other")
    workflow = repo.ok("status")["workflows"][0]["id"]
    first = repo.run("resume", workflow).out.splitlines()[0]
    assert "BRANCH MISMATCH" in first
    assert "git switch main" in first
    assert "holdfast abandon" in first
