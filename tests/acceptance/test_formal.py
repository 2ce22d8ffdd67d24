"""Formal workflows: a folder each, fields that other tools read, and no trace after the end."""

import os
import re
import shutil

import pytest

PHASES = {
    "planning": ["Research", "Requirements", "Design", "Plan", "Review", "Sign-off"],
    "qa-loop": ["Run QA", "Fix Issues", "Verify"],
    "implementation": ["Design", "Build", "Test", "Deploy"],
}


@pytest.mark.parametrize("recipe", PHASES)
def test_the_shipped_recipes_have_their_phases(repo, recipe):
    state = repo.ok("start", recipe, f"Try {recipe}")["workflow"]
    assert [phase["name"] for phase in state["phases"]] == PHASES[recipe]
    assert repo.record(state["record"])["workflow_type"] == recipe


def test_a_record_has_the_fields_that_others_read(repo):
    repo.write("docs/guide.md", "x")
    state = repo.ok(
        "start", "custom", "Database Migration (v2)", "--phase", "Backup", "--phase", "Transform",
        "--read", "@docs/guide.md", "--read", "@docs/later.md", "--remind", "Back up first",
        "--set", "source_db=postgres",
    )  # fmt: skip
    assert any("@docs/later.md" in note for note in state["notes"])
    path = state["workflow"]["record"]
    pattern = r"untracked/workflow-state/([a-z0-9-]+)/state-\1-\d{8}_\d{6}\.json"
    assert re.fullmatch(pattern, path)
    assert "database-migration-v2" in path
    record = repo.record(path)
    assert {key: record[key] for key in record if key not in ("_holdfast", "created_at")} == {
        "workflow": "Database Migration (v2)",
        "workflow_type": "custom",
        "phase": {"current": 1, "total": 2, "name": "Backup", "status": "in_progress"},
        "required_reading": ["@docs/guide.md", "@docs/later.md"],
        "context": {"source_db": "postgres"},
        "key_reminders": ["Back up first"],
    }
    repo.ok("advance")
    repo.ok("phase", "block", "Transform", "--reason", "no space")
    after = repo.record(path)
    assert after["phase"] == {
        "current": 2,
        "total": 2,
        "name": "Transform",
        "status": "blocked",
    }
    assert after["created_at"] == record["created_at"]


def test_required_reading_is_marked_and_stays_inside(repo):
    assert "@" in repo.refused("start", "custom", "x", "--read", "docs/guide.md")["message"]
    for path in ("@../secret", "@/etc/passwd"):
        assert repo.refused("start", "custom", "x", "--read", path)["code"] == "outside"


def test_equal_names_get_a_folder_each(repo):
    records = {
        repo.ok("start", "custom", name)["workflow"]["record"]
        for name in ("My Plan", "my plan!", "my-plan")
    }
    assert len(records) == 3
    assert len({os.path.dirname(path) for path in records}) == 3
    assert len(repo.ok("status")["workflows"]) == 3


def test_at_the_end_file_and_folder_go_and_resume_brings_them_back(repo):
    state = repo.ok("start", "qa-loop", "Round")["workflow"]
    other = repo.ok("start", "qa-loop", "Other")["workflow"]
    for _ in range(2):
        repo.ok("advance", "-w", state["id"])
    assert repo.refused("complete", "-w", state["id"])["details"]["pending"] == {"gates": ["qa"]}
    repo.ok("gate", "run", "qa", "-w", state["id"], "--", "test", "-e", "README.md")
    repo.ok("complete", "-w", state["id"])
    assert not repo.has(os.path.dirname(state["record"]))
    assert repo.has(other["record"])
    repo.ok("resume", state["id"])
    assert repo.has(state["record"])


def test_removing_the_folder_in_the_last_phase_is_a_completion(repo):
    state = repo.ok("start", "qa-loop", "Round")["workflow"]
    for _ in range(2):
        repo.ok("advance")
    shutil.rmtree(os.path.join(repo.path, os.path.dirname(state["record"])))
    assert repo.ok("status")["workflows"] == []
    assert repo.state(state["id"])["status"] == "completed"
    assert "workflow_completed" not in repo.types()
    repo.ok("start", "qa-loop", "Another")
    assert repo.types().count("workflow_completed") == 1
    assert repo.state(state["id"])["status"] == "completed"


def test_removing_it_earlier_is_an_accident(repo):
    state = repo.ok("start", "qa-loop", "Round")["workflow"]
    shutil.rmtree(os.path.join(repo.path, os.path.dirname(state["record"])))
    looked = repo.ok("status")
    assert [row["id"] for row in looked["workflows"]] == [state["id"]]
    assert "is gone, and its next change rebuilds it" in looked["notes"][0]
    assert not repo.has(state["record"])
    repo.ok("remind", "carefully")
    assert repo.has(state["record"])
