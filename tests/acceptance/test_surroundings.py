"""Odd places to be run in: no repository, no home, nobody listening, nothing writable."""

import os
import shutil
import subprocess
import sys

import pytest

HOME = ".git/holdfast"
RECORD = ".claude/workflow-state/active/tdd-401b30e3.json"
"""Where the record of ``start tdd x`` stands."""
ADVANCE = ("advance", "--force", "--reason", "a test")
"""A change that moves on, whatever the phase lacks."""


def test_a_folder_without_git_is_a_workspace_too(folder):
    started = folder.ok("start", "tdd", "x")["workflow"]
    assert (started["branch"], started["worktree"]) == (None, ".")
    deep = folder.at("src", "deep")
    assert deep.ok(*ADVANCE)["workflow"]["phase"] == "green"
    assert not deep.has(".claude")
    assert folder.run("verify").code == 0


def test_looking_makes_nothing(folder):
    for line in ("status", "log", "verify"):
        folder.ok(line)
    assert folder.refused("show")["code"] == "not_found"
    assert os.listdir(folder.path) == []


def test_nested_folders_find_the_root_of_the_repository(repo):
    started = repo.at("src", "deep").ok("start", "tdd", "x")["workflow"]
    assert repo.has(started["record"])
    assert repo.state()["id"] == started["id"]
    assert repo.at(".git", "hooks").state()["id"] == started["id"]


def test_neither_home_nor_anything_else_is_needed_from_the_environment(repo):
    bare = {name: repo.environment[name] for name in ("PYTHONPATH",)}
    assert repo.ok("start", "tdd", "x", env=bare)
    assert repo.ok(*ADVANCE, env=bare)["workflow"]["phase"] == "green"
    nowhere = {**repo.environment, "HOME": "/nowhere/at/all", "TMPDIR": "/nowhere"}
    assert repo.ok(*ADVANCE, env=nowhere)["workflow"]["phase"] == "refactor"


def test_a_poor_locale_gets_escapes_instead_of_an_error(repo):
    poor = {**repo.environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-X", "utf8=0", "-m", "holdfast"]
    repo.ok("start", "tdd", "Grüße, 日本語")
    done = subprocess.run(
        [*words, "show"], cwd=repo.path, env={**poor, "PYTHONIOENCODING": "ascii"}, check=False,
        capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"Gr<U+00FC><U+00DF>e" in done.stdout


def test_a_reader_that_goes_away_is_no_error(repo):
    repo.ok("start", "tdd", "x", *[f"--task={number}" for number in range(400)])
    for line in ("log", "show", "log --json", "help"):
        command = f"'{sys.executable}' -m holdfast {line} | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=repo.path, env=repo.environment, check=False,
            capture_output=True,
        )  # fmt: skip
        assert done.stderr == b"", line
        assert done.stdout.splitlines()[-1] == b"0", line


def shell(repo, line):
    """A line for bash in which ``holdfast`` is the command."""
    prelude = f'holdfast() {{ "{sys.executable}" -m holdfast "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", prelude + line], cwd=repo.path, env=repo.environment, check=False,
        capture_output=True,
    )  # fmt: skip


def test_closed_streams_do_not_undo_the_work(repo):
    repo.ok("start", "tdd", "x")
    assert shell(repo, "holdfast task add one >&-").returncode == 0
    assert shell(repo, "holdfast task add two <&-").returncode == 0
    assert shell(repo, "holdfast task add three <&- >&- 2>&-").returncode == 0
    assert shell(repo, "holdfast task done 9 2>&-").returncode == 1
    assert shell(repo, "holdfast nonsense >&- 2>&-").returncode == 2
    assert [task["description"] for task in repo.state()["tasks"]] == ["one", "two", "three"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_an_answer_that_cannot_be_written_is_a_fault_and_the_work_stands(repo):
    repo.ok("start", "tdd", "x")
    done = shell(repo, "holdfast task add one >/dev/full")
    assert done.returncode == 3
    assert b"could not be written" in done.stderr
    assert len(repo.state()["tasks"]) == 1


def test_without_a_terminal_nothing_waits_for_an_answer(repo):
    reader, writer = os.pipe()
    try:
        for line in ("start tdd x", "resume", "complete", "repair", "abandon", "nonsense"):
            answer = repo.run(*line.split(), stdin=reader, timeout=60)
            assert answer.code in (0, 1, 2), line
    finally:
        os.close(reader)
        os.close(writer)


def test_a_folder_in_the_place_of_a_record_is_moved_aside_whole(repo):
    repo.ok("start", "tdd", "x")
    os.remove(os.path.join(repo.path, RECORD))
    repo.write(f"{RECORD}/mine.txt", "precious")
    assert repo.ok("verify")["counts"]["behind"] == 1
    answer = repo.ok(*ADVANCE)
    assert "a folder stands there" in answer["notes"][0]
    assert repo.record(RECORD)["workflow"]["id"] == "tdd-401b30e3"
    folder = os.path.dirname(RECORD)
    (aside,) = [name for name in os.listdir(repo.at(folder).path) if "rejected" in name]
    assert repo.has(folder, aside, "mine.txt")
    assert repo.run("verify").code == 0


def test_a_folder_in_the_place_of_a_new_record_is_kept(repo):
    repo.write(".claude/workflow-state.json/mine.txt", "precious")
    started = repo.ok("start", "oneshot", "x")
    assert repo.record(".claude/workflow-state.json")
    assert "it is kept as" in started["notes"][0]
    assert repo.ok("advance")["workflow"]["phase"] == "git-commit"
    (kept,) = [name for name in os.listdir(repo.at(".claude").path) if ".rejected-" in name]
    assert repo.has(".claude", kept, "mine.txt")


def chmod(repo, mode, *parts):
    os.chmod(os.path.join(repo.path, *parts), mode)


def test_where_the_ledger_cannot_be_written_nothing_is_recorded(repo):
    chmod(repo, 0o555, ".git")
    error = repo.refused("start", "tdd", "x", exit_code=3, rights=False)
    assert error["code"] == "not_writable"
    assert "will not persist" in error["message"]
    assert repo.ok("status", rights=False)["workflows"] == []
    chmod(repo, 0o755, ".git")
    assert repo.ok("start", "tdd", "x", rights=False)


def test_where_the_records_cannot_be_written_they_are_owed(repo):
    chmod(repo, 0o555, ".")
    started = repo.ok("start", "tdd", "x", rights=False)
    assert "Cannot write state files" in started["notes"][0]
    record = started["workflow"]["record"]
    assert not repo.has(record)
    chmod(repo, 0o755, ".")
    # Any change writes it, one of another thing too.
    repo.ok("remember", "Slowly", rights=False)
    assert repo.record(record)["workflow"]["status"] == "in_progress"
    assert repo.run("verify", rights=False).code == 0


def test_a_ledger_that_cannot_be_written_can_still_be_read(repo):
    repo.ok("start", "tdd", "x")
    names = os.listdir(os.path.join(repo.path, HOME))
    assert {"lock", "ledger.db"} <= set(names)
    for name in names:
        chmod(repo, 0o400, HOME, name)
    chmod(repo, 0o500, HOME)
    assert repo.refused("advance", exit_code=3, rights=False)["code"] == "not_writable"
    for line in ("show", "status", "log", "verify"):
        repo.ok(line, rights=False)
    chmod(repo, 0o700, HOME)
    for name in names:
        chmod(repo, 0o600, HOME, name)
    assert repo.ok(*ADVANCE, rights=False)["workflow"]["phase"] == "green"


def test_a_change_whose_record_cannot_be_written_counts_and_is_written_later(repo):
    repo.ok("start", "tdd", "x")
    chmod(repo, 0o555, os.path.dirname(RECORD))
    answer = repo.ok(*ADVANCE, rights=False)
    assert answer["workflow"]["phase"] == "green"
    assert answer["notes"][0].startswith("ERROR: Cannot write state files")
    assert "is owed" in repo.ok("status", rights=False)["notes"][0]
    assert repo.record(RECORD)["state_machine"]["current_phase"] == "red"
    chmod(repo, 0o755, os.path.dirname(RECORD))
    repo.ok("remind", "Slowly", rights=False)
    assert repo.record(RECORD)["state_machine"]["current_phase"] == "green"
    assert "notes" not in repo.ok("remind", "Softly", rights=False)


def test_a_record_that_cannot_be_taken_away_is_behind_and_said(repo):
    workflow = repo.ok("start", "tdd", "x")["workflow"]["id"]
    chmod(repo, 0o555, os.path.dirname(RECORD))
    notes = repo.ok("abandon", rights=False)["notes"]
    assert notes[0].startswith("ERROR: Cannot write state files")
    assert "could not be put in place" in notes[1]
    chmod(repo, 0o755, os.path.dirname(RECORD))
    assert repo.ok("status", rights=False)["workflows"] == []
    assert repo.state(workflow)["status"] == "abandoned"
    repo.ok("start", "tdd", "another")
    assert not repo.has(RECORD)
    assert repo.types().count("workflow_abandoned") == 1


def test_what_cannot_be_read_is_named(repo):
    repo.ok("start", "tdd", "x")
    chmod(repo, 0o000, HOME, "ledger.db")
    for line in ("status", "advance", "verify"):
        error = repo.refused(line, exit_code=3, rights=False)
        assert error["code"] == "storage"
        assert "ledger.db" in error["message"]


def test_a_file_in_the_place_of_the_ledgers_folder_is_named(repo):
    repo.write(HOME, "not a folder")
    assert repo.refused("start", "tdd", "x", exit_code=3)["code"] == "not_writable"
    assert repo.refused("status", exit_code=3)["code"] == "storage"


def test_a_link_that_leads_out_is_refused(repo):
    outside = repo.at("..", "outside")
    os.makedirs(os.path.join(repo.path, ".claude"))
    os.symlink(outside.path, os.path.join(repo.path, ".claude", "workflow-state"))
    assert repo.refused("start", "tdd", "x")["code"] == "outside"
    assert os.listdir(outside.path) == []


def test_a_copy_of_a_repository_goes_on_by_itself(repo):
    workflow = repo.ok("start", "planning", "x")["workflow"]["id"]
    shutil.copytree(repo.path, f"{repo.path}-copy")
    copy = repo.at(f"{repo.path}-copy")
    copy.ok("remind", "in the copy")
    copy.git("clean", "-qfdx")
    assert copy.state(workflow)["reminders"] == ["in the copy"]
    assert repo.state(workflow)["reminders"] == []


def test_a_record_that_knows_more_than_a_ledger_from_a_backup_is_adopted(repo):
    repo.ok("start", "planning", "x")
    home = os.path.join(repo.path, HOME)
    shutil.copytree(home, f"{repo.path}-backup")
    repo.ok("remind", "after the backup")
    shutil.rmtree(home)
    shutil.move(f"{repo.path}-backup", home)
    assert repo.state("x")["reminders"] == ["after the backup"], "the record knew it"
    repo.ok("remind", "again")
    assert repo.types()[-2:] == ["record_adopted", "reminder_added"]
    assert repo.state("x")["reminders"] == ["after the backup", "again"]


def test_a_person_who_types_hook_is_told_what_it_is_for(repo):
    ours, theirs = os.openpty()
    try:
        answer = repo.run("hook", stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert answer.code == 2
    assert "holdfast hook --explain SessionStart" in answer.err


def test_a_file_in_the_place_of_the_folder_is_named(folder):
    folder.write(".claude", "x")
    error = folder.refused("start", "tdd", "one", exit_code=3)
    assert error["code"] == "not_writable"
    assert "it is not a folder" in error["hint"]


def test_a_folder_is_no_required_reading(repo):
    repo.at("docs")
    error = repo.refused("start", "custom", "x", "--read", "@docs")
    assert (error["code"], "is a folder" in error["message"]) == ("invalid", True)
