"""A hook ends within its time limit with a plain answer, whatever it meets, and harms nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from holdfast.hooks import quick_check
from support.hook_client import ENTRY, HOME
from support.workshop import PATIENCE_S

pytestmark = pytest.mark.promise(15)

LIMIT_MS = "300"
PROGRAM = """\
from holdfast.hooks import quick_check
{trouble}
quick_check.{place} = hang
import os
os._exit(quick_check.main())
"""
TROUBLES = {
    "a read that does not return": "def hang(*_): import os; os.read(os.pipe()[0], 1)",
    "a read that does not return, and a log": (
        "def hang(*_): import os; os.read(os.pipe()[0], 1)\nquick_check.log_fault = hang"
    ),
    "a loop without an end": "def hang(*_):\n    while True: pass",
    "a query without an end": (
        "def hang(*_):\n    import _sqlite3\n    _sqlite3.connect(':memory:').execute("
        "'WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c'"
        ").fetchall()"
    ),
}


def run_hook(client, command, event="SessionStart", **fields):
    message = {"session_id": client.session, "cwd": client.path, "hook_event_name": event, **fields}
    env = {**client.environment, "HOLDFAST_HOOK_MS": LIMIT_MS}
    done = subprocess.run(
        command, cwd=client.path, env=env, input=json.dumps(message).encode(),
        capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout) if done.stdout else None


def hung(client, trouble, place, event="SessionStart"):
    program = PROGRAM.format(trouble=TROUBLES[trouble], place=place)
    return run_hook(client, [sys.executable, "-c", program], event)


@pytest.mark.parametrize("trouble", [name for name in TROUBLES if "log" not in name])
def test_a_hook_that_hangs_ends_and_says_what_to_do(migration, trouble):
    answer = hung(migration, trouble, "_may_matter")
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert text.startswith("Holdfast: this session has no briefing")
    assert "holdfast resume" in text
    assert "TimeoutError: not done in time" in migration.log()


def test_a_hook_that_hangs_before_an_edit_lets_the_agent_go_on(migration):
    assert hung(migration, "a loop without an end", "_may_matter", "PreToolUse") is None


def test_a_hook_whose_log_hangs_ends_as_well(migration):
    assert hung(migration, "a read that does not return, and a log", "_may_matter") is not None


def test_a_client_that_never_ends_its_event_does_not_keep_the_hook(migration):
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", ENTRY], stdin=reading, cwd=migration.path,
            env={**migration.environment, "HOLDFAST_HOOK_MS": LIMIT_MS}, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0


def test_a_stopped_holder_of_the_lock_costs_the_record_of_the_briefing_alone(migration):
    """The answer was decided before anything had to be written."""
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            ("import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX);"
            "print('held', flush=True); time.sleep(600)"),
            os.path.join(migration.path, HOME, "lock"),
        ],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        answer = run_hook(migration, [sys.executable, "-I", "-S", ENTRY], source="startup")
        assert "Database Migration" in answer["hookSpecificOutput"]["additionalContext"]
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert "briefing" not in " ".join(migration.types())


def test_the_wait_for_the_lock_fits_into_the_limit():
    from holdfast.hooks import handlers

    share = quick_check._SESSION_END_SHARE
    assert handlers.WAIT_S < quick_check._LIMIT_S
    assert quick_check._LIMIT_S * share > handlers.SESSION_END_WAIT_S
    assert quick_check._LIMIT_S < 2
    assert quick_check._LIMIT_S * share < 1.5


def test_a_hook_that_is_ended_at_any_moment_leaves_no_half_done_change(migration):
    """The limit ends it anywhere: while it reads, waits, commits, or puts the record in place."""
    entry = [sys.executable, "-I", "-S", ENTRY]
    before = len(migration.types())
    for number in range(24):
        client = migration.other(f"session-{number}")
        message = {"session_id": client.session, "cwd": client.path, "source": "startup"}
        message["hook_event_name"] = "SessionStart" if number % 2 else "PreCompact"
        env = {**client.environment, "HOLDFAST_HOOK_MS": str(1 + 6 * number)}
        subprocess.run(
            entry, cwd=client.path, env=env, input=json.dumps(message).encode(),
            capture_output=True, timeout=PATIENCE_S, check=True,
        )  # fmt: skip
    migration.ok("verify")
    migration.ok("advance")
    assert len(migration.types()) > before
    migration.ok("verify")


def fill_with_records(client, count):
    folder = os.path.join(client.path, ".claude", "workflow-state", "active")
    os.makedirs(folder)
    for number in range(count):
        with open(os.path.join(folder, f"dev-{number:08x}.json"), "w") as file:
            file.write("{")


def fill_memory(client, _count):
    client.write("MEMORY.md", "x" * 50_000_000)
    client.write(".claude/holdfast.toml", 'memory = "MEMORY.md"\n')


def fill_pages(client, count):
    client.write("CLAUDE.local.md", "# workflow state\nWorkflow: a\nPhase: 1/2\n" * 300_000)
    for number in range(count // 10):
        client.write(f"CLAUDE/Plan/{number:05}/PLAN.md", "# Plan\n🔄 in progress\nPhase: 1/2\n")


def fill_milestones(client, count):
    top = os.path.join(client.path, "documentation", "milestones", "_active")
    for number in range(count):
        os.makedirs(os.path.join(top, f"goal-{number}"))


def fill_refs(client, _count):
    client.write(".git/packed-refs", "# pack-refs\n" + f"{'0' * 40} refs/heads/x\n" * 500_000)
    client.write(".git/index", "DIRC" + "x" * 50_000_000)


@pytest.mark.parametrize(
    "fill", [fill_with_records, fill_memory, fill_pages, fill_milestones, fill_refs]
)
@pytest.mark.parametrize("event", ["SessionStart", "PreCompact"])
def test_a_hook_answers_in_time_whatever_lies_there(migration, fill, event):
    fill(migration, 5_000)
    begin = time.monotonic()
    run_hook(migration, [sys.executable, "-I", "-S", ENTRY], event)
    assert time.monotonic() - begin < 20, "the limit was 0.3 s"
    migration.ok("show")
