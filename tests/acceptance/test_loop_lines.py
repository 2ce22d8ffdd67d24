"""The state of a loop, line by line: its ends, its pages, its log, and its commits."""

import json
import os
import shutil

import pytest

from support.hook_client import HookClient

FOLDER = ".claude/iterative"
LOOP = f"{FOLDER}/user-auth"
ARCHIVED = f"{FOLDER}/archive/user-auth-20260114"


def begin(repo, *options):
    options = options or ("--outcome", "People can log in", "--done-when", "tests pass")
    repo.ok("loop", "new", "user-auth", "--domain", "feature", *options)
    repo.ok("loop", "plan", "--unit", "T1: Add the model")


def finish(repo):
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    repo.ok("loop", "verify", "T1", "--run", "--", "git", "diff", "--check")


def read(repo, name):
    with open(os.path.join(repo.path, LOOP, name), encoding="utf-8") as file:
        return file.read()


def replace(repo, name, old, new):
    text = read(repo, name)
    assert old in text
    repo.write(f"{LOOP}/{name}", text.replace(old, new))


def move(repo, target=ARCHIVED):
    os.rename(os.path.join(repo.path, LOOP), os.path.join(repo.path, target))


# Cleanup: a finished loop's folder is moved to the archive, or removed


@pytest.mark.parametrize("target", [ARCHIVED, f"{FOLDER}/archive/user-auth"])
def test_archive_with_timestamp_by_mv_is_the_end_of_a_finished_loop(repo, target):
    begin(repo)
    finish(repo)
    move(repo, target)
    answer = repo.ok("loop", "status")
    assert answer["loops"] == []
    assert any(f"was moved to {target}: user-auth is completed" in n for n in answer["notes"])
    assert repo.ok("status")["workflows"] == []
    repo.ok("loop", "new", "other")
    state = repo.state("user-auth")
    assert (state["status"], state["record"]) == ("completed", f"{target}/state.json")
    assert not repo.has(LOOP)
    assert repo.record(f"{target}/state.json")["phase"] == "complete"
    assert repo.ok("verify")["counts"]["behind"] == 0
    repo.ok("loop", "archive", "other")
    assert repo.ok("resume", "user-auth")["workflow"]["record"] == f"{LOOP}/state.json"
    assert read(repo, "tasks.md").count("- [x] **T1**") == 1


def test_an_edit_of_a_record_that_was_moved_to_the_archive_is_taken_in(repo):
    begin(repo)
    finish(repo)
    replace(repo, "state.json", '"task": "user-auth"', '"task": "Login"')
    move(repo)
    repo.ok("loop", "new", "other")
    assert repo.state("user-auth")["title"] == "Login"
    assert repo.record(f"{ARCHIVED}/state.json")["task"] == "Login"


def test_remove_if_not_needed_by_rm_is_the_end_of_a_finished_loop(repo):
    begin(repo)
    finish(repo)
    shutil.rmtree(os.path.join(repo.path, LOOP))
    answer = repo.ok("loop", "status", "user-auth")
    assert any(f"{LOOP} was removed: user-auth is completed" in n for n in answer["notes"])
    assert repo.ok("status")["workflows"] == []
    repo.ok("loop", "new", "other")
    assert not repo.has(LOOP)
    assert repo.state("user-auth")["status"] == "completed"
    assert repo.ok("resume", "user-auth")["workflow"]["status"] == "in_progress"
    repo.ok("remind", "x", "-w", "user-auth")
    assert repo.record(f"{LOOP}/state.json")["tasks"]["T1"]["status"] == "done"


@pytest.mark.parametrize("gone", [LOOP, f"{LOOP}/state.json", FOLDER])
def test_a_folder_that_is_gone_for_another_reason_is_rebuilt(repo, gone):
    begin(repo)
    if gone != LOOP:
        finish(repo)
    path = os.path.join(repo.path, gone)
    os.remove(path) if gone.endswith("json") else shutil.rmtree(path)
    assert any("is gone, and its next change rebuilds it" in n for n in repo.ok("status")["notes"])
    repo.ok("remind", "x")
    assert repo.has(f"{LOOP}/state.json")
    assert repo.state("user-auth")["status"] == "in_progress"


def test_an_older_copy_in_the_archive_is_not_what_was_moved(repo):
    begin(repo)
    finish(repo)
    record = repo.ok("loop", "archive")["workflow"]["record"]
    shutil.copytree(
        os.path.join(repo.path, os.path.dirname(record)), os.path.join(repo.path, ARCHIVED)
    )
    before = repo.record(f"{ARCHIVED}/state.json")
    repo.ok("resume", "user-auth")
    shutil.rmtree(os.path.join(repo.path, LOOP))
    repo.ok("loop", "new", "other")
    assert repo.state("user-auth")["status"] == "completed"
    assert repo.record(f"{ARCHIVED}/state.json") == before
    assert not repo.has(LOOP)


def test_a_unit_of_another_tool_has_no_title_and_no_brackets(repo):
    unit = {"status": "confirming", "iterations_used": 1, "max_iterations": 5}
    record = {"task": "x", "slug": "user-auth", "mode": "development", "phase": "execute"}
    record |= {"current_task": "T1", "tasks": {"T1": unit}}
    repo.write(f"{LOOP}/state.json", json.dumps(record))
    assert repo.ok("loop", "status")["next"]["about"].startswith("T1 was declared done")


# brief.md


def test_brief_md_follows_loop_brief(repo):
    begin(repo, "--outcome", "People can log in", "--done-when", "tests pass")
    repo.write(f"{LOOP}/brief.md", read(repo, "brief.md") + "\n## Mine\n\nAsk Kim\n")
    repo.ok(
        "loop", "brief", "--task", "Log in", "--domain", "bug", "--outcome", "All log in",
        "--done-when", "docs too", "--constraint", "no new dependency", "--notes", "Soon",
    )  # fmt: skip
    text = read(repo, "brief.md")
    assert text.startswith("# Log in\n")
    assert "**Domain:** bug\n\n## Outcome Needed\nAll log in\n\n## Done When\n- docs too\n" in text
    assert "## Constraints\n- no new dependency\n\n## Approach / Notes\nSoon\n" in text
    assert text.endswith("\n## Mine\n\nAsk Kim\n")
    assert "**Goal:** All log in\n" in read(repo, "context.md")
    repo.ok("loop", "brief", "--constraint", "", "--notes", "", "--domain", "")
    assert "## Constraints\n\n## Approach / Notes\n\n## Mine" in read(repo, "brief.md")
    about = repo.ok("loop", "brief")["workflow"]
    assert about["title"] == "Log in"
    assert about["context"] == {"outcome": "All log in", "done_when": ["docs too"]}
    assert repo.refused("loop", "brief", "--outcome", "All log in")["code"] == "already"


def test_hand_edits_of_brief_md_are_taken_in(repo):
    begin(repo)
    replace(repo, "brief.md", "People can log in", "People log in and out")
    replace(repo, "brief.md", "- tests pass", "- tests pass\n- docs")
    replace(repo, "brief.md", "# user-auth", "# User auth")
    text = read(repo, "brief.md")
    looked = repo.ok("loop", "brief")
    assert "brief.md: taken in by the next change: title, outcome, done_when" in looked["notes"]
    assert looked["workflow"]["context"]["outcome"] == "People log in and out"
    notes = repo.ok("loop", "iterate", "T1", "--did", "x", "--remaining", "y")["notes"]
    assert "brief.md: taken in: title, outcome, done_when" in notes
    state = repo.state()
    assert (state["title"], state["context"]["done_when"]) == ("User auth", ["tests pass", "docs"])
    assert (read(repo, "brief.md"), "notes" in repo.ok("loop", "brief")) == (text, False)
    assert "**Goal:** People log in and out\n" in read(repo, "context.md")


def test_a_section_that_was_removed_from_brief_md_comes_back(repo):
    begin(repo)
    replace(repo, "brief.md", "## Outcome Needed\nPeople can log in\n\n", "")
    repo.ok("remind", "x")
    repo.ok("loop", "brief", "--notes", "Soon")
    assert repo.state()["context"]["outcome"] == "People can log in"
    assert read(repo, "brief.md").endswith("\n## Outcome Needed\nPeople can log in\n")


def test_a_brief_that_cannot_be_taken_in_is_said_and_stays(repo):
    begin(repo)
    replace(repo, "brief.md", "# user-auth", f"# {'x' * 5_000}")
    text = read(repo, "brief.md")
    answer = repo.ok("loop", "plan", "--unit", "T2: Log in")
    assert any(n.startswith("brief.md: ") and "stays as it is" in n for n in answer["notes"])
    repo.ok("loop", "brief", "--outcome", "All log in")
    assert read(repo, "brief.md") == text


# context.md


def test_context_md_has_approach_and_patterns(repo):
    begin(repo, "--approach", "Sessions first.", "--pattern", "Errors are values", "--notes", "N")
    assert "**Approach:** Sessions first.\n" in read(repo, "context.md")
    assert "**Patterns to follow:**\n- Errors are values\n" in read(repo, "context.md")
    assert "## Approach / Notes\nSessions first.\n\nN\n" in read(repo, "brief.md")
    replace(repo, "brief.md", "Sessions first.", "Tokens first.")
    repo.ok("loop", "brief", "--pattern", "No globals", "--pattern", "UTC")
    assert "**Approach:** Tokens first.\n" in read(repo, "context.md")
    assert "- No globals\n- UTC\n" in read(repo, "context.md")
    assert repo.state()["context"]["notes"] == "N"


def test_context_md_stays_under_200_words_whatever_the_brief_says(repo):
    begin(repo)
    long = " ".join(f"word{number}" for number in range(250))
    refused = repo.refused("loop", "brief", "--outcome", long)
    assert "must have fewer than 200" in refused["message"]
    replace(repo, "brief.md", "People can log in", long)
    repo.ok("set", f"approach={long}", f"patterns={long}")
    repo.ok("rename", " ".join(["Log"] * 100))
    answer = repo.ok("loop", "plan", "--unit", "T2: Log in")
    assert any("has the beginnings only" in note for note in answer["notes"])
    assert len(read(repo, "context.md").split()) < 200
    assert "**Goal:** word0 word1" in read(repo, "context.md")
    assert long in read(repo, "brief.md")


# progress.md


def append(repo, *lines):
    repo.write(f"{LOOP}/progress.md", read(repo, "progress.md") + "\n".join(["", *lines, ""]))


def test_an_iteration_written_into_progress_md_is_adopted_like_any_edit(repo):
    begin(repo)
    repo.ok("loop", "iterate", "T1", "--did", "x", "--remaining", "y")
    repo.commit("a.py", "x", "feat: add it")
    head = repo.git("rev-parse", "HEAD")[:10]
    at = repo.state()["updated_at"]
    append(
        repo, f"## T1 - Iteration 2 - {at}", "**Did:** more", "**Remaining:** tests",
        f"**Commit:** {head}", "", f"## T1 - Iteration 3 - {at}", "**Did:** all",
        "**Signal:** T1_DONE",
    )  # fmt: skip
    text = read(repo, "progress.md")
    looked = repo.ok("loop", "next")
    assert looked["notes"] == [
        "progress.md: taken in by the next change: T1 iteration 2",
        "progress.md: taken in by the next change: T1 iteration 3",
    ]
    assert looked["next"]["turn"] == "confirm"
    notes = repo.ok("loop", "confirm", "T1", "--clean")["notes"]
    assert notes == [
        note.replace("taken in by the next change", "taken in") for note in looked["notes"]
    ]
    unit = repo.state()["tasks"][0]
    assert (unit["status"], unit["iterations_used"]) == ("verifying", 3)
    assert repo.state()["commits"] == [f"{head}: feat: add it"]
    after = read(repo, "progress.md")
    assert after.startswith(text)
    assert after.count("Iteration") == 3
    assert "notes" not in repo.ok("loop", "next")
    assert repo.ok("loop", "rebuild")["notes"] == ["user-auth: its state, its pages and git agree"]
    repo.write(f"{LOOP}/progress.md", after.replace(f"## T1 - Iteration 3 - {at}", "## Now"))
    notes = repo.ok("loop", "guardrail", "add", *LESSON)["notes"]
    assert any(f"'T1 - Iteration 3 - {at}' was gone, and is written again" in n for n in notes)


LESSON = ("--when", "w", "--problem", "p", "--solution", "s")
WRONG = [
    (["## T1 - Iteration 4 - now", "**Did:** x", "**Remaining:** y"], "iteration 2 follows"),
    (["## T1 - Iteration 2 - now", "**Did:** x"], "say what remains"),
    (["## T1 - Iteration 2 - now", "**Did:** x", "**Signal:** T2_DONE"], "is not the signal"),
    (["## T9 - Iteration 1 - now", "**Did:** x", "**Remaining:** y"], "T9 is not planned"),
    (["## T1 - Verification - now", "**Result:** Passed"], "Holdfast writes such entries"),
]


@pytest.mark.parametrize(("lines", "why"), WRONG)
def test_an_entry_of_progress_md_that_makes_no_sense_is_named_with_its_line(repo, lines, why):
    begin(repo)
    repo.ok("loop", "iterate", "T1", "--did", "x", "--remaining", "y")
    append(repo, *lines)
    (note,) = repo.ok("loop", "next")["notes"]
    assert note.startswith(f"progress.md, line 8: {lines[0][3:]}: ")
    assert why in note
    assert note.endswith("; it does not count")
    repo.ok("loop", "iterate", "T1", "--did", "x", "--remaining", "y")
    assert repo.state()["tasks"][0]["iterations_used"] == 2
    assert lines[0] in read(repo, "progress.md")
    assert "notes" not in repo.ok("loop", "next")


def test_the_log_of_a_loop_from_elsewhere_brings_no_second_iteration(repo):
    begin(repo)
    repo.ok("loop", "iterate", "T1", "--did", "x", "--remaining", "y")
    repo.ok("loop", "iterate", "T1", "--did", "x", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"))
    assert not any("progress" in note for note in repo.ok("loop", "next").get("notes", []))
    repo.ok("loop", "verify", "T1", "--failed", "no")
    assert repo.state()["tasks"][0]["iterations_used"] == 2


def test_a_commit_in_progress_md_that_git_lacks_is_left_out(repo):
    begin(repo)
    append(
        repo, "## T1 - Iteration 1 - now", "**Did:** x", "**Remaining:** y", "**Commit:** abcdef1"
    )
    notes = repo.ok("loop", "guardrail", "add", *LESSON)["notes"]
    assert "progress.md: git has no commit 'abcdef1': it is left out" in notes
    assert (repo.state()["commits"], repo.state()["tasks"][0]["iterations_used"]) == ([], 1)


# Conflicting state: git is the source of truth


def test_a_commit_that_git_no_longer_has_is_said_at_once_by_next_hook_and_verify(repo):
    client = HookClient(repo.path, repo.environment)
    begin(client)
    first = client.git("rev-parse", "HEAD")
    client.commit("a.py", "x", "feat: add it")
    client.ok("loop", "iterate", "T1", "--did", "x", "--remaining", "y", "--commit", "HEAD")
    commit = client.git("rev-parse", "HEAD")
    assert "notes" not in client.ok("loop", "next")
    os.remove(os.path.join(client.path, ".git/objects", commit[:2], commit[2:]))
    said = f"git no longer has the commit {commit[:12]}: feat: add it"
    (note,) = client.ok("loop", "next")["notes"]
    assert note == f"{said}; holdfast loop rebuild user-auth leaves it out"
    assert said in client.briefed()
    lines = client.ok("verify")["lines"]
    assert [line["level"] for line in lines if said in line["message"]] == ["note"]
    branch = client.git("symbolic-ref", "HEAD")
    client.write(f".git/{branch}", f"{first}\n")
    client.ok("loop", "rebuild")
    assert client.state()["commits"] == []
    assert "notes" not in client.ok("loop", "next")


# Ends by command


def test_complete_on_a_finished_loop_is_loop_archive(repo):
    begin(repo)
    assert repo.refused("complete")["code"] == "pending"
    finish(repo)
    answer = repo.ok("complete", "--outcome", "Merged", "--id", "a1")
    assert answer["signal"] == "LOOP_DEVELOPMENT_COMPLETE: user-auth"
    record = answer["workflow"]["record"]
    assert record.startswith(f"{FOLDER}/archive/user-auth-")
    assert not repo.has(LOOP)
    assert repo.record(record)["phase"] == "complete"
    assert repo.state("user-auth")["outcome"] == "Merged"
    again = repo.ok("complete", "--outcome", "Merged", "--id", "a1")
    assert again["workflow"]["record"] == record
    assert "a1" in repo.refused("complete", "--id", "a1")["message"]
