"""``dev`` and ``tdd``: one workflow for each feature, what is shown, and how all are ended."""

import hashlib
import json
import os
import sys

import pytest

from holdfast import Keeper
from support.pseudoterminal import Pseudoterminal, skip_below_client
from support.workshop import DAY_MS, Clock

ACTIVE = ".claude/workflow-state/active"
COMPLETED = ".claude/workflow-state/completed"
LAST_ACTIVE = "2025-01-08T22:30:00Z"


def record_of(feature, **fields):
    """Return a record that another tool wrote in its second phase."""
    return json.dumps(
        {
            "_schema": {"version": "1.0", "skill": "dev"},
            "workflow": {
                "id": "dev-evt-infra-a1b2",
                "status": "in_progress",
                "created_at": "2025-01-08T20:00:00Z",
                "updated_at": LAST_ACTIVE,
                "branch": "main",
            },
            "context": {"feature_file": feature, "feature_title": "Event Infrastructure"},
            "state_machine": {
                "current_phase": "task_execution",
                "phases": [
                    {"name": "load_feature", "status": "completed"},
                    {"name": "task_execution", "status": "in_progress", "progress": "5/7"},
                ],
            },
            **fields,
        }
    )


@pytest.fixture
def features(repo):
    repo.write("features/auth/login.md", "# Log in\n\n- [x] Form\n- [ ] Check\n")
    repo.write("features/auth/logout.md", "# Log out\n")
    return repo


# One workflow for each feature


@pytest.mark.parametrize("name", ["dev-evt-infra-a1b2", "dev-12345678", "anything"])
@pytest.mark.parametrize("spelling", ["features/auth/login.md", "./features/auth/login.md"])
def test_start_and_the_feature_file_of_a_record_are_one_workflow(features, name, spelling):
    features.write(f"{ACTIVE}/{name}.json", record_of("features/auth/login.md"))
    answer = features.ok("start", "dev", spelling)
    assert (answer["resumed"], answer["workflow"]["id"]) == (True, "dev-evt-infra-a1b2")
    assert len(features.ok("status")["workflows"]) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("features/auth/login.md", "./features/auth/login.md"),
        ("./features/auth/login.md", "features/auth/login.md"),
        ("features//auth/login.md", "features/auth/../auth/login.md"),
        ("features/auth/login.md", "{root}/features/auth/login.md"),
        ("features/auth", "features/auth/"),
    ],
)
def test_each_spelling_of_a_path_is_the_same_feature(features, first, second):
    features.ok("start", "dev", first)
    assert features.ok("start", "dev", second.format(root=features.path))["resumed"]


def test_a_record_without_a_feature_is_found_by_its_name(repo):
    digest = hashlib.md5(b"a.md\n").hexdigest()[:8]
    repo.write(f"{ACTIVE}/dev-{digest}.json", record_of(None))
    assert repo.ok("start", "dev", "a.md")["resumed"]


def test_a_record_of_another_feature_keeps_its_name(features):
    digest = hashlib.md5(b"features/auth/logout.md\n").hexdigest()[:8]
    path = f"{ACTIVE}/dev-{digest}.json"
    features.write(path, record_of("features/auth/login.md"))
    answer = features.ok("start", "dev", "features/auth/logout.md")
    assert answer["workflow"]["record"] == f"{ACTIVE}/dev-{digest}-2.json"
    assert features.record(path)["context"]["feature_file"] == "features/auth/login.md"


@pytest.mark.parametrize("path", ["features/auth/", "features"])
def test_a_folder_that_contains_an_active_feature_asks(features, path):
    own = features.ok("start", "dev", "features/auth/login.md")["workflow"]["id"]
    error = features.refused("start", "dev", path)
    assert error["code"] == "occupied"
    assert "works on features/auth/login.md" in error["message"]
    for choice in (f"holdfast resume {own}", f"holdfast abandon -w {own}", "--replace"):
        assert choice in error["hint"]
    assert error["details"]["candidates"] == [own]
    replaced = features.ok("start", "dev", path, "--replace")["workflow"]
    assert [row["id"] for row in features.ok("status")["workflows"]] == [replaced["id"]]


def test_a_record_without_a_title_is_named_by_its_id_alone(features):
    text = record_of("features/auth/login.md").replace("Event Infrastructure", "")
    features.write(f"{ACTIVE}/dev-evt-infra-a1b2.json", text)
    message = features.refused("start", "dev", "features/auth/")["message"]
    assert "dev-evt-infra-a1b2 is active" in message


def test_status_names_a_workflow_without_a_title_by_its_subject(features):
    text = record_of("features/auth/login.md").replace("Event Infrastructure", "")
    features.write(f"{ACTIVE}/dev-evt-infra-a1b2.json", text)
    assert features.run("status").out.splitlines()[0].endswith("  features/auth/login.md")


def test_a_feature_of_an_active_folder_asks_until_it_is_done(features):
    own = features.ok("start", "dev", "features/auth/")["workflow"]["id"]
    for path in ("features/auth/login.md", "features/auth/logout.md"):
        assert features.refused("start", "dev", path)["details"]["candidates"] == [own]
    features.ok("complete", "--force", "--reason", "done")
    assert not features.ok("start", "dev", "features/auth/login.md")["resumed"]
    assert features.refused("start", "dev", "features/auth/logout.md")["code"] == "occupied"


@pytest.mark.parametrize("path", ["missing.md", "./missing.md", "features/none/", "features/x"])
def test_start_dev_of_a_missing_file_says_that_there_is_none(repo, path):
    assert any(f"no file {path}" in note for note in repo.ok("start", "dev", path)["notes"])


@pytest.mark.parametrize("subject", ["features/auth/login.md", "Log in", "AUTH-12", "https://x/y"])
def test_start_dev_of_what_is_no_missing_file_says_nothing(features, subject):
    assert "notes" not in features.ok("start", "dev", subject)


# The record


def test_the_phase_of_the_tasks_has_its_progress(features):
    state = features.ok("start", "dev", "features/auth/login.md")["workflow"]
    path = state["record"]

    def progress():
        phases = features.record(path)["state_machine"]["phases"]
        return {phase["name"]: phase.get("progress") for phase in phases if "progress" in phase}

    assert progress() == {}
    features.ok("advance", "--branch", "feat/login")
    assert progress() == {"task_execution": "1/2"}
    features.ok("task", "done", "2", "--force", "--reason", "tried by hand")
    assert progress() == {"task_execution": "2/2"}
    features.ok("task", "add", "Another")
    assert progress() == {"task_execution": "2/3"}
    assert all("progress" not in phase for phase in features.state()["phases"])


def test_progress_is_no_edit_and_follows_the_tasks(repo):
    tasks = [{"index": 1, "description": "A", "status": "completed"}, {"description": "B"}]
    path = f"{ACTIVE}/dev-evt-infra-a1b2.json"
    repo.write(path, record_of("a.md", tasks=tasks))
    repo.ok("remind", "Test first")
    assert repo.record(path)["state_machine"]["phases"][1]["progress"] == "1/2"
    assert repo.types() == ["record_adopted", "reminder_added"]


def test_progress_without_tasks_stays_what_it_was(repo):
    path = f"{ACTIVE}/dev-evt-infra-a1b2.json"
    repo.write(path, record_of("a.md"))
    repo.ok("remind", "Test first")
    assert repo.record(path)["state_machine"]["phases"][1]["progress"] == "5/7"


def test_adopting_keeps_when_the_workflow_was_last_active(repo):
    path = f"{ACTIVE}/dev-evt-infra-a1b2.json"
    repo.write(path, record_of("a.md"))
    repo.ok("start", "dev", "a.md")
    assert repo.types() == ["record_adopted"]
    assert repo.record(path)["workflow"]["updated_at"] == LAST_ACTIVE
    (row,) = repo.ok("status")["workflows"]
    assert (row["updated_at"], row["status"]) == (LAST_ACTIVE, "in_progress")
    # It is old, but was adopted just now.
    assert repo.ok("clean", "--dry-run")["cleaned"] == []
    repo.ok("clean")
    assert repo.state()["status"] == "in_progress"
    repo.ok("remind", "Test first")
    assert repo.state()["updated_at"] > LAST_ACTIVE


def test_a_record_from_the_future_was_active_when_it_was_adopted(repo):
    path = f"{ACTIVE}/dev-evt-infra-a1b2.json"
    repo.write(path, record_of("a.md").replace(LAST_ACTIVE, "2999-01-01T00:00:00Z"))
    repo.ok("start", "dev", "a.md")
    assert repo.state()["updated_at"] < "2999"


# What is shown


def test_show_has_the_tests_and_the_last_output_of_a_gate(repo):
    repo.ok("start", "dev", "a.md", "--task", "one")
    failing = ("--", "sh", "-c", "echo 'a.py:1: unused import'; exit 1")
    assert repo.run("gate", "run", "lint", *failing).code == 4
    repo.ok("gate", "run", "test", "--", "sh", "-c", "echo '7 passed'")
    repo.run("tests", "run", "--", "sh", "-c", "echo 'no method login'; exit 1")
    text = repo.run("show").out
    assert "| a.py:1: unused import" in text
    assert "| 7 passed" in text
    tests = text[text.index("Tests\n") :]
    assert "failed  ran sh -c 'echo '" in tests
    assert "| no method login" in tests


def test_the_briefing_has_test_command_test_file_and_the_last_error_of_the_phase(repo):
    repo.ok("start", "tdd", "Add login")
    repo.ok("phase", "start", "red", "test_file=tests/auth.py", "test_name=test_login")
    run = ("--", "sh", "-c", "test -e done || { echo 'no method login'; exit 1; }")
    repo.ok("red", *run)
    repo.run("green", "--json")
    text = repo.ok("resume")["briefing"]
    assert "TEST COMMAND: sh -c 'test -e done" in text
    assert "TEST FILE: tests/auth.py (test_login)" in text
    assert "LAST ERROR in green: no method login" in text
    assert len(text) < 2_000


# Cleaning up, and ending everything


def test_a_start_that_resumes_cleans_up_as_well(repo):
    clock = Clock()
    keeper = Keeper(repo.path, clock_ms=clock)
    ended = keeper.start("dev", "old.md").state["id"]
    keeper.abandon(workflow=ended)
    keeper.start("dev", "a.md")
    clock.ms += DAY_MS + 3_600_000
    assert repo.has(f"{COMPLETED}/{ended}.json")
    receipt = keeper.start("dev", "a.md")
    assert receipt.resumed
    assert any(f"holdfast resume {ended}" in note for note in receipt.notes)
    assert not repo.has(f"{COMPLETED}/{ended}.json")


@pytest.fixture
def several(repo):
    """Two active workflows, one whose record the ledger does not know, and one that has ended."""
    repo.ok("start", "dev", "done.md")
    repo.ok("abandon")
    repo.ok("start", "dev", "a.md")
    repo.ok("start", "custom", "Move")
    repo.write(f"{ACTIVE}/dev-evt-infra-a1b2.json", record_of("b.md"))
    return repo


def test_abandon_all_ends_everything(several):
    error = several.refused("abandon", "--all")
    assert (error["code"], error["hint"]) == ("needs_yes", "holdfast abandon --all --yes")
    assert len(several.ok("status")["workflows"]) == 3
    rows = several.ok("abandon", "--all", "--yes", "--reason", "over")["abandoned"]
    assert len(rows) == 3
    assert several.ok("status")["workflows"] == []
    assert several.ok("resume", "move")["workflow"]["status"] == "in_progress"
    assert several.ok("abandon", "--all", "--yes")["abandoned"][0]["id"] == "move"
    assert several.ok("abandon", "--all")["abandoned"] == []
    assert several.refused("abandon", "--all", "-w", "move", exit_code=2)["code"] == "usage"


def test_clean_all_lets_every_record_go(several):
    assert several.refused("clean", "--all")["code"] == "needs_yes"
    assert len(several.ok("clean", "--all", "--dry-run")["cleaned"]) == 4
    assert len(several.ok("clean", "--all", "--yes")["cleaned"]) == 4
    assert several.ok("status")["workflows"] == []
    for folder in (ACTIVE, COMPLETED):
        assert os.listdir(os.path.join(several.path, folder)) == []
    assert several.ok("clean", "--all")["cleaned"] == []
    assert several.ok("verify")["counts"]["behind"] == 0


@pytest.mark.parametrize(("key", "left"), [(b"y\n", 0), (b"\n", 3)])
@pytest.mark.parametrize("words", [("abandon", "--all"), ("clean", "--all")])
def test_a_person_on_a_terminal_is_asked(several, words, key, left):
    skip_below_client()
    command = [sys.executable, "-m", "holdfast", *words]
    with Pseudoterminal(command, several.path, several.environment) as terminal:
        terminal.wait_for("[y/N]")
        terminal.press(key)
        terminal.ended()
    assert len(several.ok("status")["workflows"]) == left
