"""A client's sandbox that keeps git's folder read-only: what can still be read, and what is said.

The mounts are those that Codex makes: the folder read-only, and what is allowed in it bound again.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from support.command_line import Answer, Folder

MOUNT = """\
mount --bind "$KEPT" "$KEPT" && mount -o remount,bind,ro "$KEPT" || exit 99
if [ -n "$ALLOWED" ]; then
    mount --bind "$ALLOWED" "$ALLOWED" && mount -o remount,bind,rw "$ALLOWED" || exit 99
fi
cd . && exec "$@"
"""
APART = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh")
WAYS_OUT = ("holdfast init --agent codex", "holdfast mcp", "person")
LEDGER = os.path.join(".git", "holdfast")


class Sandbox(Folder):
    """The same folder, as a command sees it that an agent runs."""

    def __init__(self, place, allowed="", kept=".git"):
        super().__init__(place.path, {**place.environment, "ALLOWED": allowed, "KEPT": kept})

    def run(self, *words, **options):
        command = [*APART, sys.executable, "-m", "holdfast", *words]
        settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 120, **options}
        done = subprocess.run(command, cwd=self.path, env=self.environment, check=False, **settings)
        assert done.returncode != 99, done.stderr
        return Answer(done)


@pytest.fixture
def sandbox(repo, not_shown):
    trial = [*APART, "true"]
    env = Sandbox(repo).environment
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            trial, cwd=repo.path, env=env, capture_output=True, check=False
        ).returncode
    ):
        not_shown("a sandbox's read-only ledger: nobody may mount here")
    return Sandbox(repo)


def journal_is_gone(place, *ends):
    """The ledger as another program may leave it: everything in one file."""
    for end in ends:
        path = os.path.join(place.path, LEDGER, f"ledger.db{end}")
        if end == "-wal" and os.path.exists(path):
            import sqlite3

            other = sqlite3.connect(path.removesuffix(end))
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            other.close()
        if os.path.exists(path):
            os.unlink(path)


@pytest.mark.parametrize("without", [(), ("-shm",), ("-wal", "-shm")], ids=["whole", "shm", "both"])
def test_what_only_reads_still_reads(repo, sandbox, without):
    repo.ok("start", "dev", "a.md", "--task", "One")
    before = repo.ok("log")["events"]
    journal_is_gone(repo, *without)
    assert sandbox.ok("show")["workflow"]["subject"] == "a.md"
    assert [row["subject"] for row in sandbox.ok("status")["workflows"]] == ["a.md"]
    assert sandbox.ok("log")["events"] == before
    assert sandbox.ok("verify")["ok"]
    assert repo.ok("log")["events"] == before


def test_a_briefing_is_given_and_says_that_nothing_was_taken_up(repo, sandbox):
    repo.ok("start", "dev", "a.md", "--task", "One")
    before = repo.ok("log")["events"]
    answer = sandbox.ok("resume")
    assert "TASK 1/1 (1): One" in answer["briefing"]
    (note,) = [note for note in answer["notes"] if "not resumed" in note]
    assert all(way in note for way in WAYS_OUT)
    assert repo.ok("log")["events"] == before


def test_a_workflow_that_has_ended_is_not_brought_back(repo, sandbox):
    workflow = repo.ok("start", "dev", "a.md")["workflow"]["id"]
    repo.ok("abandon")
    assert sandbox.refused("resume", workflow, exit_code=3)["code"] == "not_writable"


@pytest.mark.parametrize("event", ["SessionStart", "PreCompact", "SessionEnd", "Stop"])
def test_a_hook_still_briefs_and_stops_nobody(repo, sandbox, event):
    repo.ok("start", "dev", "a.md", "--task", "One")
    told = json.dumps({"hook_event_name": event, "cwd": repo.path, "session_id": "s"})
    answer = sandbox.run("hook", stdin=None, input=told.encode())
    assert answer.code == 0, answer
    assert ("TASK 1/1 (1): One" in answer.out) is (event == "SessionStart")


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "no ledger yet"])
def test_a_change_is_refused_with_both_ways_out(repo, sandbox, begun):
    if begun:
        repo.ok("start", "dev", "a.md")
    lines = [("start", "dev", "b.md"), ("interview", "skip", "plan", "--reason", "x")]
    lines += [("remind", "x"), ("advance",), ("abandon",)] if begun else []
    for words in lines:
        error = sandbox.refused(*words, exit_code=3)
        assert error["code"] == "not_writable", words
        assert "will not persist" in error["message"]
        assert all(way in error["hint"] for way in WAYS_OUT)
    assert len(repo.ok("status")["workflows"]) == int(begun)


def test_holdfast_alone_says_both_ways_out(repo, sandbox):
    repo.ok("start", "dev", "a.md")
    notes = sandbox.ok()["notes"]
    assert any(all(way in note for way in WAYS_OUT) for note in notes)


def test_where_it_is_allowed_everything_works(repo, sandbox):
    repo.ok("init", "--agent", "codex")
    inside = Sandbox(repo, allowed=LEDGER)
    inside.ok("start", "dev", "a.md", "--task", "One")
    inside.ok("task", "start", "1")
    assert repo.state()["tasks"][0]["status"] == "in_progress"
    checks = {check["what"]: check for check in inside.run("doctor", "--json").json["checks"]}
    good = [checks[what]["status"] for what in ("folders", "locks", "ledger", "sandbox")]
    assert good == ["good"] * 4


def test_doctor_says_both_ways_out(repo, sandbox):
    repo.ok("start", "dev", "a.md")
    checks = {check["what"]: check for check in sandbox.run("doctor", "--json").json["checks"]}
    assert checks["folders"]["status"] == checks["locks"]["status"] == "bad"
    assert all(way in checks["folders"]["hint"] for way in WAYS_OUT)
    assert checks["ledger"]["status"] == "good"


def test_a_configuration_that_cannot_be_written_is_said_and_the_hooks_are_in_place(repo, sandbox):
    folder = os.path.join(repo.environment["HOME"], ".codex")
    os.mkdir(folder)
    answer = Sandbox(repo, kept=folder).run("init", "--agent", "codex", "--json").json
    assert any("config.toml could not be written" in note for note in answer["notes"])
    assert any("cannot write the ledger" in note for note in answer["notes"])
    assert repo.has(".codex", "hooks.json")


# Linked worktrees, whose name is a file in git's folder


@pytest.fixture
def linked(repo, sandbox):
    """A new linked worktree of a repository in which something was recorded."""
    repo.ok("start", "dev", "main.md")
    repo.git("worktree", "add", "-q", "-b", "other", "../other")
    return repo.at("..", "other")


def inside(linked, repo):
    """The worktree, with the repository's git folder read-only but for the ledger."""
    allowed, kept = (os.path.join(repo.path, name) for name in (LEDGER, ".git"))
    return Sandbox(linked, allowed=allowed, kept=kept)


def test_a_new_worktree_has_to_be_named_outside_and_that_is_said(repo, linked):
    error = inside(linked, repo).refused("start", "dev", "a.md", exit_code=3)
    assert error["code"] == "not_writable"
    assert all(way in error["hint"] for way in WAYS_OUT)


def test_init_names_it(repo, linked):
    linked.ok("init", "--agent", "codex")
    state = inside(linked, repo).ok("start", "dev", "a.md")["workflow"]
    assert state["worktree"] == "other"


def test_the_start_of_a_session_names_it(repo, linked):
    told = json.dumps({"hook_event_name": "SessionStart", "cwd": linked.path, "session_id": "s"})
    assert linked.run("hook", stdin=None, input=told.encode()).code == 0
    state = inside(linked, repo).ok("start", "dev", "a.md")["workflow"]
    assert state["worktree"] == "other"


def test_two_worktrees_that_recorded_nothing_yet_have_two_names(repo, linked):
    linked.ok("start", "dev", "a.md")
    repo.git("worktree", "remove", "--force", "../other")
    repo.git("worktree", "add", "-q", "../other", "other")
    linked.ok("init", "--agent", "codex")
    repo.git("worktree", "add", "-q", "-b", "third", "../other-2")
    third = repo.at("..", "other-2")
    third.ok("init", "--agent", "codex")
    assert linked.ok("start", "dev", "b.md")["workflow"]["worktree"] == "other-2"
    assert third.ok("start", "dev", "c.md")["workflow"]["worktree"] == "other-2-2"
