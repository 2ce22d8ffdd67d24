"""The checkpoint protocol of initiatives, line by line, as a person or an agent meets it."""

import json
import os
import shutil
import subprocess

import pytest

from holdfast.core import time as times

FOLDER = "documentation/milestones/_active/tidy-billing"
YAML = f"{FOLDER}/WORKFLOW-STATUS.yaml"
RECORD = ".claude/initiative.json"
TOLD = "the milestone files tell of tidy-billing"
TORN = '{"name": "Tidy bil'


def read(repo, path):
    with open(os.path.join(repo.path, path), encoding="utf-8") as file:
        return file.read()


def begin(repo):
    milestones = ("--milestone", "M1: Map the readers", "--milestone", "M2: Move")
    repo.ok("initiative", "create", "Tidy billing", *milestones, "--files")
    repo.ok("initiative", "start", "M1")
    return repo.ok("initiative", "complete", "M1")


def lose(repo, *, torn=False):
    """Delete the ledger and the records; ``torn``: leave half of the initiative's record."""
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"))
    shutil.rmtree(os.path.join(repo.path, ".claude"))
    if torn:
        repo.write(RECORD, TORN)


def session_starts(repo, session="s-1"):
    event = {"hook_event_name": "SessionStart", "session_id": session, "cwd": repo.path}
    answer = repo.run("hook", stdin=None, input=json.dumps(event).encode())
    assert answer.code == 0, answer
    return json.loads(answer.out)["hookSpecificOutput"]["additionalContext"] if answer.out else ""


def replace(repo, path, old, new):
    text = read(repo, path)
    assert old in text
    repo.write(path, text.replace(old, new))


def test_compare_last_updated_timestamps_across_all_sources(repo):
    begin(repo)
    updated = [row for row in read(repo, YAML).splitlines() if row.startswith("updated:")]
    replace(repo, YAML, updated[0], "lastUpdated: 2026-01-01T00:00:00Z")
    replace(repo, YAML, "status: in_progress", "status: blocked")
    answer = repo.ok("initiative", "sync")
    assert (answer["agreement"], answer["initiative"]["status"]) == ("corrected", "in_progress")
    assert read(repo, YAML).count("pdated:") == 1
    at = answer["initiative"]["updated_at"]
    replace(repo, YAML, at, times.iso(times.epoch_ms(at) + 60_000))
    replace(repo, YAML, "status: in_progress", "status: blocked")
    assert repo.ok("initiative", "sync")["initiative"]["status"] == "blocked"


def test_the_headline_says_whether_sources_agree_were_corrected_or_disagree(repo):
    begin(repo)
    assert repo.run("initiative", "sync").out.startswith("✓ all sources agree")
    replace(repo, YAML, "milestone: M2", "milestone: M1")
    assert "sources disagree" in repo.run("initiative", "show").out.splitlines()[0]
    corrected = repo.run("initiative", "sync").out
    assert corrected.startswith("✓ sources corrected")
    assert f"Sync corrected: WORKFLOW-STATUS.yaml updated to match {RECORD[8:]}" in corrected
    assert repo.run("initiative", "sync").out.startswith("✓ all sources agree")
    replace(repo, f"{FOLDER}/README.md", "- [ ] M2", "- [x] M2")
    assert not repo.run("initiative", "sync").out.startswith("✓")
    assert repo.ok("initiative", "sync")["agreement"] == "disagree"
    assert repo.ok("initiative", "show")["agreement"] == "disagree"


def test_the_stale_warning_names_the_stale_source_and_its_age(repo):
    begin(repo)
    at = repo.ok("initiative", "show")["initiative"]["updated_at"]
    replace(repo, YAML, at, "2020-01-01T00:00:00Z")
    replace(repo, YAML, "milestone: M2", "milestone: M1")
    notes = repo.ok("initiative", "show")["notes"]
    warning = next(note for note in notes if note.startswith("Initiative state may be stale — "))
    assert "years ago" in warning or "days ago" in warning
    assert warning.endswith("(WORKFLOW-STATUS.yaml)")


def test_a_deleted_yaml_is_not_listed_and_the_next_change_writes_it(repo):
    begin(repo)
    os.remove(os.path.join(repo.path, YAML))
    assert repo.ok("initiative", "show")["status_file"] is None
    assert YAML not in repo.run("initiative", "show").out
    repo.ok("initiative", "block", "--reason", "no key")
    assert repo.ok("initiative", "show")["status_file"] == YAML


@pytest.mark.parametrize("torn", [False, True])
def test_if_not_found_scan_active_and_offer_to_create_a_fresh_checkpoint(repo, torn):
    begin(repo)
    lose(repo, torn=torn)
    before = read(repo, RECORD) if torn else None
    show = repo.ok("initiative", "show")
    assert (show["initiative"], show["recoverable"]) == (None, ["tidy-billing"])
    (preview,) = show["previews"]
    progress = {row["id"]: row["status"] for row in preview["milestones"]}
    assert progress == {"M1": "completed", "M2": "in_progress"}
    assert (preview["name"], preview["current_milestone"]) == ("Tidy billing", "M2")
    page = repo.run("initiative", "show").out
    assert "M1  Map the readers" in page
    assert page.splitlines()[-1].startswith("  next: holdfast initiative recover tidy-billing")
    notes = show.get("notes", [])
    assert torn == any(RECORD in note and "line 1" in note for note in notes)
    context = repo.ok("context")
    assert context["recover"] == {"about": TOLD, "command": "holdfast initiative recover"}
    assert TOLD in repo.run("context").out
    bare = repo.ok()
    assert bare["next"][0] == {"about": TOLD, "command": "holdfast initiative recover"}
    briefing = session_starts(repo)
    assert TOLD in briefing
    assert "holdfast initiative recover tidy-billing" in briefing
    # Looking has written nothing but what the hook logs.
    home = os.path.join(repo.path, ".git/holdfast")
    assert (os.listdir(home) if os.path.exists(home) else []) == (["hook.log"] if torn else [])
    assert (read(repo, RECORD) if torn else None) == before
    refused = repo.refused("resume")
    assert TOLD in refused["message"]
    assert refused["hint"] == "holdfast initiative recover"


def test_a_look_around_with_the_record_alone_shows_the_initiative(repo):
    begin(repo)
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"))
    assert repo.ok()["initiative"]["current_milestone"] == "M2"


def test_resuming_a_workflow_names_the_initiative_that_the_pages_tell_of(repo):
    repo.write(f"{FOLDER}/README.md", "# Tidy billing\n\n## M1: Map\n\n- [ ] look\n")
    workflow = repo.ok("start", "oneshot", "Typos")["workflow"]["id"]
    notes = repo.ok("resume", workflow)["notes"]
    assert f"{TOLD}: holdfast initiative recover" in notes


def test_initiative_json_corrupted_falls_back_to_a_directory_scan_and_the_next_change_rebuilds(
    repo,
):
    begin(repo)
    lose(repo, torn=True)
    answer = repo.ok("initiative", "task", "M2", "Move the first")
    assert any("was rebuilt from" in note and FOLDER in note for note in answer["notes"])
    assert repo.record(RECORD)["progress"] == {"M1": "completed", "M2": "in_progress"}
    kept = [name for name in os.listdir(os.path.join(repo.path, ".claude")) if "rejected" in name]
    assert [read(repo, f".claude/{name}") for name in kept] == [TORN]
    assert repo.ok("initiative", "show")["initiative"]["milestones"][1]["tasks"]


def test_a_broken_yaml_holds_back_no_recovery_from_the_pages(repo):
    begin(repo)
    lose(repo, torn=True)
    repo.write(YAML, "milestone: [\n")
    (preview,) = repo.ok("initiative", "show")["previews"]
    assert preview["current_milestone"] == "M2"
    answer = repo.ok("initiative", "start", "M2")
    (note,) = [note for note in answer["notes"] if "line 2" in note]
    assert note.endswith("then holdfast initiative sync")
    assert repo.record(RECORD)["progress"] == {"M1": "completed", "M2": "in_progress"}
    assert read(repo, YAML) == "milestone: [\n"


def test_a_corrupt_record_with_nothing_to_rebuild_it_from_is_kept_and_no_other_is_written(repo):
    repo.write(RECORD, TORN)
    refused = repo.refused("initiative", "start", "M1")
    assert "there is no initiative" in refused["message"]
    names = os.listdir(os.path.join(repo.path, ".claude"))
    assert [name for name in names if name.startswith("initiative.json")] == [
        name for name in names if name.startswith("initiative.json.rejected-")
    ]


def test_without_a_record_a_change_names_recover_and_does_not_guess(repo):
    begin(repo)
    lose(repo)
    refused = repo.refused("initiative", "start", "M2")
    assert TOLD in refused["message"]
    assert refused["hint"] == "holdfast initiative recover"
    assert not os.path.exists(os.path.join(repo.path, RECORD))


@pytest.mark.parametrize(
    "path",
    [FOLDER, f"{FOLDER}/", f"./{FOLDER}", f"{FOLDER}/README.md", YAML, "tidy-billing", "absolute"],
)
def test_recover_takes_the_path_that_was_printed(repo, path):
    begin(repo)
    lose(repo)
    path = os.path.join(repo.path, FOLDER) if path == "absolute" else path
    assert repo.ok("initiative", "recover", path)["initiative"]["key"] == "tidy-billing"


@pytest.mark.parametrize("path", ["documentation", "../elsewhere", "/", ".", f"{FOLDER}/../.."])
def test_recover_refuses_a_path_that_leads_to_no_initiative(repo, path):
    begin(repo)
    lose(repo)
    assert "there is no folder for" in repo.refused("initiative", "recover", path)["message"]


def test_a_milestone_is_added_and_next_leads_to_it(repo):
    begin(repo)
    repo.ok("initiative", "complete", "M2")
    answer = repo.ok("initiative", "milestone", "add", "M3: Ship")
    assert answer["next"]["command"][1:] == ["initiative", "start", "M3"]
    repo.ok("initiative", "start", "M3")
    assert repo.record(RECORD)["progress"]["M3"] == "in_progress"
    assert "  M3: in_progress\n" in read(repo, YAML)
    page = read(repo, f"{FOLDER}/README.md")
    assert "- [x] M2: Move\n- [ ] M3: Ship\n" in page
    assert page.endswith("## M2: Move\n\n## M3: Ship\n")


def test_a_renamed_initiative_keeps_its_folder_its_workflows_and_its_old_name(repo):
    begin(repo)
    workflow = repo.ok("start", "oneshot", "Move it", "--milestone", "M2")["workflow"]["id"]
    answer = repo.ok("initiative", "rename", "Tidy all billing")
    assert answer["next"]["command"][1:] == ["resume", workflow]
    show = repo.ok("initiative", "show")
    assert show["initiative"]["name"] == repo.record(RECORD)["name"] == "Tidy all billing"
    assert [row["id"] for row in show["workflows"]] == [workflow]
    assert show["agreement"] == "agree"
    assert "initiative: Tidy all billing\n" in read(repo, YAML)
    assert read(repo, f"{FOLDER}/README.md").startswith("# Tidy all billing\n")
    assert repo.ok("initiative", "show", "Tidy billing")["initiative"]["key"] == "tidy-billing"
    for name in ("Tidy billing", "Tidy all billing"):
        refused = repo.refused("initiative", "create", name, "--milestone", "M1")
        assert refused["code"] == "already"
    lose(repo)
    assert repo.ok("initiative", "recover")["initiative"]["name"] == "Tidy all billing"


def test_a_fresh_clone_with_milestone_pages_is_told_of_them_and_writes_nothing(repo):
    repo.write(f"{FOLDER}/README.md", "# Tidy billing\n\n## M1: Map\n\n- [ ] look\n")
    before = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=repo.path, capture_output=True, check=True
    ).stdout
    assert TOLD in session_starts(repo)
    after = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=repo.path, capture_output=True, check=True
    ).stdout
    assert after == before
    assert not os.path.exists(os.path.join(repo.path, ".git/holdfast"))
