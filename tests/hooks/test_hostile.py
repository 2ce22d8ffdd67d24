"""What a stranger's repository, or a bad day, puts in a hook's way: it stops and harms nobody."""

import json
import os
import subprocess
import sys

import pytest

from holdfast.keeper import Keeper
from support.hook_client import ENTRY, HOME, break_the_ledger

pytestmark = pytest.mark.promise(14, 15)


@pytest.mark.parametrize(
    ("place", "event"),
    [
        (".claude/holdfast.toml", {"hook_event_name": "Stop", "stop_hook_active": False}),
        (
            ".claude/workflow-state.json",
            {
                "hook_event_name": "PostToolUse",
                "tool_name": "Read",
                "tool_input": {"file_path": "docs/guide.md"},
            },
        ),
    ],
)
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(migration, place, event):
    os.makedirs(os.path.dirname(os.path.join(migration.path, place)), exist_ok=True)
    os.mkfifo(os.path.join(migration.path, place))
    given = json.dumps({**event, "cwd": migration.path}).encode()
    done = subprocess.run(
        [sys.executable, "-I", "-S", ENTRY],
        cwd=migration.path, env=migration.environment, input=given, timeout=20, check=True,
    )  # fmt: skip
    assert done.returncode == 0


def test_a_pipe_in_the_place_of_the_log_keeps_nobody_waiting(migration):
    os.mkfifo(os.path.join(migration.path, HOME, "hook.log"))
    break_the_ledger(migration)
    assert migration.fire("SessionStart", source="compact") is None


def test_a_line_of_the_log_never_leaves_the_workspace(migration):
    outside = os.path.join(migration.path, "..", "outside")
    os.symlink(outside, os.path.join(migration.path, HOME, "hook.log"))
    break_the_ledger(migration)
    assert migration.fire("SessionStart", source="compact") is None
    assert not os.path.exists(outside)


def test_the_log_does_not_follow_its_folder_out_of_the_workspace(client):
    outside = os.path.join(client.path, "..", "outside")
    os.mkdir(outside)
    os.mkdir(os.path.join(client.path, ".claude"))
    os.symlink(outside, os.path.join(client.path, ".claude", "holdfast"))
    client.write(".claude/workflow-state.json", "{}")
    client.fire("SessionStart", source="startup")
    assert os.listdir(outside) == []


def test_the_log_is_for_its_owner_alone(migration):
    break_the_ledger(migration)
    migration.fire("SessionStart", source="compact")
    log = os.path.join(migration.path, HOME, "hook.log")
    assert os.stat(log).st_mode & 0o777 == 0o600


def test_a_fault_in_a_linked_worktree_is_logged_beside_the_ledger(migration):
    migration.git("worktree", "add", "-q", "../linked")
    linked = migration.other("two")
    linked.path = migration.at("..", "linked").path
    linked.ok("start", "custom", "There")
    linked.write(".claude/holdfast.toml", 'enforce = ["everything"]\n')
    assert linked.fire("Stop", stop_hook_active=False) is None
    assert "enforce" in migration.log()


@pytest.mark.parametrize("start", [[ENTRY], ["-m", "holdfast", "hook"]], ids=["entry", "command"])
def test_an_answer_that_nobody_takes_is_no_error(migration, start):
    given = json.dumps({"hook_event_name": "SessionStart", "cwd": migration.path}).encode()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, *start], cwd=migration.path, env=migration.environment,
            input=given, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert "No space left" in migration.log()


def test_what_a_sub_agent_loses_the_session_still_has(migration):
    migration.read("docs/guide.md")
    for event in ("PreCompact", "SessionEnd", "SessionStart"):
        assert migration.fire(event, agent_id="a1", agent_type="reviewer", reason="other") is None
    assert "context_compacted" not in migration.types()
    assert migration.state()["unread"] == []


def test_a_session_with_an_endless_name_lets_go_too(client):
    client.session = "s" * 10_000
    client.as_session("s" * 200).ok("start", "custom", "Mine")
    assert "Mine" in client.briefed()
    client.fire("SessionEnd", reason="other")
    assert client.types()[-1] == "session_ended"
    delivered = client.ok("log")["events"][-2]
    assert len(delivered["data"]["session"]) == 200


def test_a_session_that_ends_lets_go_of_all_it_holds(client):
    mine = client.as_session(client.session)
    first = mine.ok("start", "custom", "First")["workflow"]["id"]
    second = mine.ok("start", "custom", "Second")["workflow"]["id"]
    client.fire("SessionEnd", reason="other")
    assert client.types().count("session_ended") == 2
    assert client.state(first)["session"] is client.state(second)["session"] is None
    # Nobody knows which of them is meant: both are named, and neither is taken.
    text = client.other("next").briefed("startup")
    assert first in text
    assert second in text


def test_a_session_that_holds_more_than_can_be_let_go_ends_in_time(client):
    mine = Keeper(client.path, session=client.session)
    for number in range(60):
        mine.start("custom", f"Work {number}")
    client.fire("SessionEnd", reason="other")
    assert client.types().count("session_ended") == 50
    assert client.state("work-59")["session"] is None
    assert client.state("work-0")["session"] is not None


def test_a_record_of_a_stranger_cannot_have_other_files_read(client):
    os.symlink("/etc", os.path.join(client.path, "link"))
    outside = ["@/etc/hosts", "@../../x", "@link/hosts", "@~/.ssh/id", "@\0"]
    record = {
        "workflow": "QA Loop",
        "workflow_type": "qa-loop",
        "phase": {"current": 2, "total": 3, "name": "Fixing", "status": "in_progress"},
        "required_reading": [*outside, "@README.md"],
        "created_at": "2025-12-09T15:00:00Z",
    }
    client.write("untracked/workflow-state/qa-loop/state-qa-loop-1.json", json.dumps(record))
    client.write(".claude/holdfast.toml", 'enforce = ["reading"]\n')
    briefed = client.briefed()
    denied = client.fire("PreToolUse", tool_name="Edit", tool_input={})["hookSpecificOutput"]
    why = denied["permissionDecisionReason"]
    for text in (briefed, client.ok("resume", "qa-loop")["briefing"], why):
        assert "@README.md" in text
        assert not any(path in text for path in outside)
    assert "(5 more lead out of the workspace" in briefed
    client.read("README.md")
    assert all(" note: " in line for line in client.log().splitlines())
    assert client.fire("PreToolUse", tool_name="Edit", tool_input={}) is None
