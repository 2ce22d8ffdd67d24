"""Codex with its sandbox: git's folder is read-only for what an agent runs, the ledger is not."""

import json

import pytest

from directives import START, call

PROBE = "touch .git/probe; touch .git/hooks/probe; git config a.b c; ls .git .git/hooks"


@pytest.fixture
def sandboxed(codex):
    codex.sandbox = "workspace-write"
    return codex


def answers(codex):
    """What the commands of the last turn printed."""
    return "\n".join(codex.stub.requests[-1].results())


def test_a_command_in_the_sandbox_records_once_init_allowed_it(sandboxed):
    sandboxed.connect()
    said = sandboxed.say(f"Begin. {call('exec_command', cmd=START)} <<say begun>>")
    assert ".codex/hooks.json" not in said, "it complains about our hooks"
    (started,) = sandboxed.place.events("workflow_started")
    assert started["data"]["session"]["id"]
    sandboxed.go_on(f"Look around. {call('exec_command', cmd=PROBE)} <<say seen>>")
    assert "Read-only file system" in answers(sandboxed)
    assert not (sandboxed.place.path / ".git" / "probe").exists()
    assert not (sandboxed.place.path / ".git" / "hooks" / "probe").exists()


def test_a_command_in_a_linked_worktree_records_too(sandboxed):
    other = sandboxed.at(sandboxed.place.worktree("other"))
    other.sandbox = sandboxed.sandbox
    other.connect()
    other.say(f"Begin. {call('exec_command', cmd=START)} <<say begun>>")
    assert len(sandboxed.place.events("workflow_started")) == 1


def test_without_it_the_command_is_refused_with_both_ways_out_and_the_hook_still_works(sandboxed):
    sandboxed.connect()
    sandboxed.place.holdfast("start", "dev", "docs/login.md", "--task", "One")
    config = sandboxed.place.home / ".codex" / "config.toml"
    config.write_text(config.read_text().partition("[sandbox_workspace_write]")[0])
    command = "holdfast task done 1 --json; holdfast show --json"
    sandboxed.say(f"Begin. {call('exec_command', cmd=command)} <<say done>>")
    said = answers(sandboxed)
    assert '"code":"not_writable"' in said
    assert "holdfast init --agent codex" in said
    assert "holdfast mcp" in said
    assert '"description":"One"' in said, "it cannot even be read"
    assert sandboxed.place.state()["tasks"][0]["status"] == "pending"
    assert sandboxed.place.events("briefing_delivered")
    checks = json.loads(sandboxed.place.run("holdfast", "doctor", "--json", check=False).stdout)
    assert "bad" in [one["status"] for one in checks["checks"] if one["what"] == "sandbox"]
