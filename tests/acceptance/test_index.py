"""The index of active skill workflows: exact in who is in it, whatever happened to the file."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command_line import INDEX


def test_the_index_has_exactly_the_active_workflows(repo):
    dev = repo.ok("start", "dev", "a.md")["workflow"]["id"]
    tdd = repo.ok("start", "tdd", "b")["workflow"]["id"]
    assert repo.indexed_ids() == [dev, tdd]
    repo.ok("abandon", "-w", dev)
    assert repo.indexed_ids() == [tdd]
    repo.ok("resume", dev)
    assert repo.indexed_ids() == [dev, tdd]
    repo.ok("complete", "--force", "--reason", "x", "-w", tdd)
    assert repo.indexed_ids() == [dev]
    repo.ok("start", "apex", "of another format")
    assert repo.indexed_ids() == [dev]


def test_a_row_of_the_index_says_what_scripts_look_for(repo):
    state = repo.ok("start", "dev", "features/a.md", "--task", "one")["workflow"]
    repo.ok("task", "start", "1")
    index = repo.record(INDEX)
    assert index["schema_version"] == "1.0"
    after = repo.state()
    assert index["active_workflows"] == [
        {
            "id": state["id"],
            "skill": "dev",
            "feature": "features/a.md",
            "started_at": state["created_at"],
            "last_activity": after["updated_at"],
        }
    ]
    assert index["updated_at"] == after["updated_at"]


def test_an_edit_of_the_subject_is_in_the_index_too(repo):
    state = repo.ok("start", "dev", "a.md")["workflow"]
    repo.edit(state["record"], lambda record: record["context"].update(feature_file="b.md"))
    repo.ok("remind", "carefully")
    assert [row["feature"] for row in repo.record(INDEX)["active_workflows"]] == ["b.md"]
    repo.edit(state["record"], lambda record: record.pop("context"))
    repo.ok("remind", "and again")
    assert repo.ok("verify")["ok"]
    assert [row["feature"] for row in repo.record(INDEX)["active_workflows"]] == [""]


def edit_index(path, change):
    with open(path) as file:
        index = json.load(file)
    change(index)
    with open(path, "w") as file:
        json.dump(index, file, indent=2)


def mark_as_doubtful(path):
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace('"doubtful": 0', '"doubtful": 1'))


@pytest.mark.parametrize(
    "damage",
    [
        os.remove,
        lambda path: os.truncate(path, 0),
        lambda path: os.truncate(path, os.path.getsize(path) + 1),
        lambda path: edit_index(path, lambda index: index["active_workflows"].clear()),
        lambda path: edit_index(path, lambda index: index.update(active_workflows=7)),
        mark_as_doubtful,
    ],
    ids=["gone", "empty", "longer", "emptied by a script", "nonsense", "its writer died"],
)
def test_a_damaged_index_is_built_again_by_the_next_command(repo, damage):
    dev = repo.ok("start", "dev", "a.md", "--task", "one")["workflow"]["id"]
    tdd = repo.ok("start", "tdd", "b")["workflow"]["id"]
    damage(os.path.join(repo.path, INDEX))
    repo.ok("task", "start", "1", "-w", dev)
    assert repo.indexed_ids() == [dev, tdd]
    damage(os.path.join(repo.path, INDEX))
    other = repo.ok("start", "dev", "c.md")["workflow"]["id"]
    assert repo.indexed_ids() == sorted([dev, tdd, other])


def test_a_worktree_has_an_index_of_its_own(repo):
    here = repo.ok("start", "dev", "a.md")["workflow"]["id"]
    repo.git("worktree", "add", "-q", "../linked")
    linked = repo.at("..", "linked")
    there = linked.ok("start", "tdd", "b")["workflow"]["id"]
    assert (repo.indexed_ids(), linked.indexed_ids()) == ([here], [there])
    linked.ok("resume", here)
    assert (repo.indexed_ids(), linked.indexed_ids()) == ([], [here, there])


def test_an_index_that_leads_elsewhere_is_not_written(repo):
    repo.ok("start", "dev", "a.md")
    outside = os.path.join(repo.path, "..", "outside.json")
    shutil.copy(os.path.join(repo.path, INDEX), outside)
    before = repo.record(outside)
    os.remove(os.path.join(repo.path, INDEX))
    os.symlink(outside, os.path.join(repo.path, INDEX))
    repo.run("start", "tdd", "b", "--json")
    repo.run("status", "--json")
    assert repo.record(outside) == before


def test_scripts_that_complete_a_workflow_leave_an_exact_index(repo, not_shown):
    if shutil.which("jq") is None:
        not_shown("an index after scripts that use jq: jq is missing")
    state = repo.ok("start", "dev", "a.md")["workflow"]
    other = repo.ok("start", "tdd", "b")["workflow"]["id"]
    script = """set -e
      mkdir -p .claude/workflow-state/completed
      jq --arg now "$(date -Iseconds)" \
        '.workflow += {status: "completed", completed_at: $now}' "$RECORD" > "$RECORD.tmp"
      mv "$RECORD.tmp" ".claude/workflow-state/completed/$(basename "$RECORD")"
      rm "$RECORD"
      jq --arg id "$ID" 'del(.active_workflows[] | select(.id == $id))' \
        "$INDEX" > "$INDEX.tmp" && mv "$INDEX.tmp" "$INDEX"
    """
    variables = {"RECORD": state["record"], "ID": state["id"], "INDEX": INDEX}
    subprocess.run(
        ["sh", "-c", script], cwd=repo.path, env={**repo.environment, **variables}, check=True
    )
    assert [row["id"] for row in repo.ok("status")["workflows"]] == [other]
    assert repo.indexed_ids() == [other]
    assert repo.state(state["id"])["status"] == "completed"


def test_a_script_finds_the_folder_for_what_it_completed(repo):
    """It moves the record there and cleans up by age, and makes no folder itself."""
    state = repo.ok("start", "dev", "a.md")["workflow"]
    script = """set -e
      find .claude/workflow-state/completed -mtime +1 -delete
      mv "$RECORD" .claude/workflow-state/completed/"""
    told = {**repo.environment, "RECORD": state["record"]}
    subprocess.run(["sh", "-c", script], cwd=repo.path, env=told, check=True)
    assert repo.ok("status")["workflows"] == []
    repo.ok("resume", state["id"])
    os.rmdir(os.path.join(repo.path, ".claude/workflow-state/completed"))
    repo.ok("advance")
    subprocess.run(["sh", "-c", script], cwd=repo.path, env=told, check=True)
    assert repo.state(state["id"])["status"] == "completed"


def test_a_retry_sees_that_the_index_shows_what_its_writer_recorded(repo):
    """The writer died between the record and the index."""
    repo.ok("start", "tdd", "x")
    before = Path(repo.path, INDEX).read_bytes()
    repo.ok("remind", "once", "--id", "the-one")
    Path(repo.path, INDEX).write_bytes(before)
    repo.ok("remind", "once", "--id", "the-one")
    assert repo.ok("verify")["counts"]["behind"] == 0
