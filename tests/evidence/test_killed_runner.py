"""Whoever runs a command is killed, at any moment: nothing of the command goes on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from holdfast.evidence.run import run
from holdfast.system.process_tree import process_facts
from support.workshop import PATIENCE_S, sampled

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc"), reason="there is no /proc")

MARK = "MARK_OF_THIS_TEST"
RUNNER = """
import os, signal, sys
from holdfast.evidence.run import run
run(sys.argv[1], ".", limit_s=600, echo=lambda chunk: os.write(1, chunk))
"""
KILLED_AT_A_STEP = """
import os, signal, sys
from holdfast.evidence.run import run

left = int(sys.argv[2])
STEPS = {"fork_exec", "pipe", "write", "read", "close", "fstat", "waitid", "poll", "urandom"}

def count(frame, event, function):
    global left
    # Both before and after a step: a child that was forked may not be the command yet.
    if event in ("c_call", "c_return") and function.__name__ in STEPS:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(count)
run(sys.argv[1], "/", limit_s=600)
"""
TREE = """
import os, signal, sys, time
def tell(*words):
    os.write(1, b"%d " % os.getpid())
def child(*steps):
    if not os.fork():
        for step in steps:
            step()
        tell()
        time.sleep(600)
child()                                                     # in the group
child(os.setsid)                                            # in a session of its own
child(lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
child(os.setsid, lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
child(lambda: os.fork() and os._exit(0), os.setsid)         # its parent is gone
child(lambda: os.execve("/bin/sh", ["sh", "-c", "echo $$; exec sleep 600"], {}))
tell()
time.sleep(600)
"""
MEMBERS = 7
DAEMON = """
import os, sys, time
reading, writing = os.pipe()
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 3)
    os.write(writing, b"!")
    time.sleep(600)
os.wait()
os.read(reading, 1)
print(flush=True)
time.sleep(600 if "wait" in sys.argv else 0)
"""
PROGRAMS = {
    "runner.py": RUNNER,
    "killed.py": KILLED_AT_A_STEP,
    "tree.py": TREE,
    "daemon.py": DAEMON,
}


def marked(mark):
    """The live processes with this mark in their environment."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
            if state not in b"ZX" and process_facts(int(name))[1].get(MARK) == mark:
                found.add(int(name))
    return found


def lives(pid):
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] not in b"ZX"
    return False


def comes_true(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def mark(request):
    name = f"{os.getpid()}-{request.node.name}"
    yield name
    for pid in marked(name):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(tmp_path, mark):
    """Start a program of this test; return the process, and the pids that it prints."""
    for name, program in PROGRAMS.items():
        (tmp_path / name).write_text(program)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), MARK: mark}

    def start_program(*words):
        command = [sys.executable, *words]
        return subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, bufsize=0)

    return start_program


def kill_when_all_are_there(runner):
    """Kill a process when all members of the tree have said their pids; return those."""
    heard = b""
    while len(heard.split()) < MEMBERS or heard[-1:].isdigit():
        heard += runner.stdout.read(1000)
    runner.kill()
    return {int(word) for word in heard.split()}


def test_a_command_and_all_it_started_end_with_a_killed_runner(start, mark):
    with start("runner.py", f"exec {sys.executable} tree.py") as runner:
        pids = kill_when_all_are_there(runner)
    assert len(pids) == MEMBERS
    assert comes_true(lambda: not any(map(lives, pids)))
    assert comes_true(lambda: not marked(mark))


def test_a_run_inside_a_run_ends_with_the_outer_one(start, mark):
    inner = f"exec {sys.executable} runner.py 'exec {sys.executable} tree.py'"
    with start("runner.py", inner) as runner:
        pids = kill_when_all_are_there(runner)
    assert comes_true(lambda: not any(map(lives, pids)))
    assert comes_true(lambda: not marked(mark))


@pytest.mark.promise(1)
def test_killed_at_any_step_the_runner_leaves_no_process(start, mark, tally):
    """The kills begin before the guard is started, and end when the command has said something."""
    kills = 0
    for step in sampled(range(1, 90), 16):
        with start("killed.py", "echo; sleep 600", str(step)) as runner:
            assert runner.wait(PATIENCE_S) == -signal.SIGKILL, step
        assert comes_true(lambda: not marked(mark)), step
        kills += 1
    tally("kills of a process that runs a command", kills=kills)


def test_a_process_that_left_everything_but_its_run_is_ended_at_the_limit(start, tmp_path, mark):
    """A daemon: another session, a parent that is gone, no output of ours."""
    heard = []
    outcome = run(
        [sys.executable, "daemon.py", "wait"],
        str(tmp_path),
        limit_s=PATIENCE_S,
        env={**os.environ, MARK: mark},
        echo=heard.append,
        is_cancelled=lambda: bool(heard),
    )
    assert outcome.cancelled
    assert comes_true(lambda: not marked(mark))


def test_a_daemon_outlives_a_command_that_ended_by_itself(start, tmp_path, mark):
    words = [sys.executable, "daemon.py"]
    outcome = run(words, str(tmp_path), limit_s=PATIENCE_S, env={**os.environ, MARK: mark})
    assert outcome.exit_code == 0
    assert len(marked(mark)) == 1


def test_without_an_interpreter_for_the_guard_a_command_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    outcome = run("echo $HOLDFAST_RUN", str(tmp_path), limit_s=PATIENCE_S)
    assert outcome.exit_code == 0
    assert len(outcome.output.strip()) == 16


def test_other_processes_are_left_alone(start, tmp_path, mark):
    """Those that only have the same user, folder and parent as the command."""
    with subprocess.Popen(["sleep", "600"], cwd=tmp_path) as other:
        with start("runner.py", "echo; sleep 600") as runner:
            runner.stdout.read(1)
            runner.kill()
        assert comes_true(lambda: not marked(mark))
        assert other.poll() is None
        other.kill()
