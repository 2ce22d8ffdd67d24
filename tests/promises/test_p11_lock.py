"""Promise 11: a dead or stopped holder of the lock never blocks for ever.

Another process takes the ledger's lock, or is in the middle of a command, and is killed or stopped
there. Whoever reads goes on with no time to wait at all; whoever writes is refused at the end of
the time that it has, and goes on at once when the holder does or dies.
"""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast import Fault, Keeper
from holdfast.storage.ledger import Ledger
from holdfast.system.disk import Disk
from promises.writers import ENVIRONMENT
from support.paths import SOURCE, TESTS
from support.workshop import Workshop, sampled

pytestmark = pytest.mark.promise(11)

LIMIT_S = 60
"""After this time something hangs."""
STEPS = range(1, 32)

HOLDER = """\
import os, sys
from holdfast.system.disk import Disk
fd = Disk().lock(sys.argv[1], 60)
print("held", flush=True)
sys.stdin.readline()
os.close(fd)
print("released", flush=True)
sys.stdin.readline()
"""
DYING = """\
import os, sys
from holdfast.system.disk import Disk
from holdfast.storage.ledger import Ledger
Ledger(sys.argv[1], Disk(), 0.0).acquire()
os.write(1, b"held")
os.read(0, 1)
"""
STOPPED = """\
import os, signal, sys
from types import SimpleNamespace
from holdfast import Keeper
from support.editors import LIMITS
from support.fork_server import STEPS

LIMITS[sys.argv[2]](SimpleNamespace(setattr=setattr))

steps = 0

def count(frame, event, function):
    global steps
    if event == "c_call" and function.__name__ in STEPS:
        steps += 1
        if steps == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGSTOP)

keeper = Keeper(".")
sys.setprofile(count)
keeper.remind("from the stopped one", id="stopped")
sys.setprofile(None)
"""


class Holder:
    """A process that has the lock."""

    def __init__(self, shop):
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, shop.path(".git", "holdfast", "lock")],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "held\n"
        self.pid = self._process.pid

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def release(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "released\n"

    def kill(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def shop(tmp_path):
    made = Workshop(tmp_path / "repository")
    Keeper(made.root).start("dev", "docs/plan.md", id="first")
    return made


@pytest.fixture
def holder(shop):
    held = Holder(shop)
    yield held
    held.kill()


def ids(shop):
    return [event["id"] for event in Keeper(shop.root).log() if "." not in event["id"]]


def check_busy(shop, pid, wait_s=0.05):
    """A writer gives up, names who is in the way, and leaves nothing."""
    before = Keeper(shop.root).log()
    with pytest.raises(Fault) as caught:
        Keeper(shop.root, wait_s=wait_s).remind("while it was stopped")
    assert caught.value.code == "busy"
    assert f"process {pid} " in caught.value.message
    assert "again" in caught.value.hint
    assert Keeper(shop.root).log() == before


def check_readable(shop):
    """Every look answers, with no time to wait."""
    keeper = Keeper(shop.root, wait_s=0.0)
    assert keeper.show().state["subject"] == "docs/plan.md"
    assert keeper.workflows()[0]
    assert keeper.log()
    assert keeper.verify().ok


def in_thread(work):
    """Run it in a thread that is not the first one; what it raised is raised here."""
    raised = []

    def run():
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again, in the first thread
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    if raised:
        raise raised[0]


def directly(work):
    work()


each_thread = pytest.mark.parametrize("runs", [directly, in_thread])


@each_thread
def test_a_killed_holder_gives_the_lock_back_at_once(shop, holder, runs):
    holder.kill()
    runs(lambda: Keeper(shop.root, wait_s=0.0).remind("after the kill", id="after"))
    assert ids(shop) == ["first", "after"]


def test_a_killed_writer_leaves_no_lock_behind(shop):
    ledger = Ledger(shop.path(".git", "holdfast"), Disk(), 0.0)
    child = subprocess.Popen(
        [sys.executable, "-c", DYING, ledger.folder], env=ENVIRONMENT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout.read(4) == b"held"
    child.kill()
    child.communicate()
    ledger.acquire()
    ledger.release()


@each_thread
def test_a_holder_that_is_killed_while_another_waits_lets_it_through(shop, holder, runs):
    timer = threading.Timer(0.3, holder.kill)
    timer.start()
    runs(lambda: Keeper(shop.root, wait_s=LIMIT_S).remind("after", id="after"))
    timer.join()
    assert ids(shop) == ["first", "after"]


@each_thread
@pytest.mark.parametrize("wait_s", [0.0, 0.1])
def test_a_stopped_holder_is_named_when_the_time_is_over(shop, holder, runs, wait_s):
    holder.stop()
    runs(lambda: check_busy(shop, holder.pid, wait_s))
    runs(lambda: check_busy(shop, holder.pid, wait_s))


@each_thread
def test_everything_goes_on_when_a_stopped_holder_does(shop, holder, runs):
    holder.stop()
    runs(lambda: check_busy(shop, holder.pid))
    holder.go_on()
    holder.release()
    names = [f"after-{number}" for number in range(3)]
    for name in names:
        runs(lambda name=name: Keeper(shop.root, wait_s=0.0).remind(name, id=name))
    assert ids(shop) == ["first", *names]
    assert Keeper(shop.root).verify().ok


def test_a_thread_that_gave_up_waiting_takes_the_lock_from_nobody_later(shop, holder):
    in_thread(lambda: check_busy(shop, holder.pid))
    holder.release()
    for name in ("one", "two", "three"):
        Keeper(shop.root, wait_s=LIMIT_S).remind(name, id=name)
    assert ids(shop) == ["first", "one", "two", "three"]


def test_many_threads_with_a_keeper_each_take_turns(shop):
    def write(number):
        keeper = Keeper(shop.root, wait_s=LIMIT_S)
        for index in range(5):
            keeper.remind(f"{number} {index}", id=f"t{number}-{index}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    names = [f"t{number}-{index}" for number in range(6) for index in range(5)]
    assert sorted(ids(shop)) == sorted(["first", *names])
    assert Keeper(shop.root).verify().ok


def test_the_alarm_of_the_caller_is_left_as_it_was(shop, holder):
    rings = []
    previous = signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
    try:
        check_busy(shop, holder.pid)
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert rings == [1]


def test_reading_needs_no_lock(shop, holder):
    holder.stop()
    check_readable(shop)
    for words in (["status"], ["show"], ["log"], ["context"], ["verify"], []):
        ended = shop.run(*words, HOLDFAST_WAIT_MS="0")
        assert ended.returncode == 0, (words, ended)


@pytest.mark.parametrize("event", ["SessionStart", "PreCompact", "Stop", "SessionEnd"])
def test_a_hook_answers_while_the_holder_is_stopped(shop, holder, event):
    holder.stop()
    before = Keeper(shop.root).log()
    text = json.dumps({"hook_event_name": event, "session_id": "s", "cwd": shop.root})
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast", "hook"], input=text, text=True, capture_output=True,
        cwd=shop.root, env={**ENVIRONMENT, "HOLDFAST_WAIT_MS": "0"}, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0
    assert ("docs/plan.md" in ended.stdout) == (event == "SessionStart")
    assert Keeper(shop.root).log() == before


def test_the_command_line_gives_up_with_a_fault_and_works_later(shop, holder):
    holder.stop()
    ended = shop.run("advance", "--id", "tried", "--json", HOLDFAST_WAIT_MS="100")
    error = json.loads(ended.stdout)["error"]
    assert (ended.returncode, error["code"]) == (3, "busy")
    assert f"process {holder.pid} " in error["message"]
    assert ids(shop) == ["first"]
    holder.go_on()
    holder.release()
    assert shop.run("advance", "--id", "tried").returncode == 0
    assert ids(shop) == ["first", "tried"]


def stopped_at(shop, step, limit):
    """Start a command that stops itself before one of its steps; return it if it got there.

    ``limit`` is what its file system can do.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(step), limit],
        cwd=shop.root,
        env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([SOURCE, TESTS])},
    )
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return process
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return None


@pytest.mark.parametrize("limit", ["all", "no exchange", "little"])
def test_a_writer_stopped_at_any_step_delays_no_reader_and_finishes_once(tmp_path, tally, limit):
    steps = sampled(STEPS, 6, f"stopped, {limit}")
    stopped = killed = 0
    for step in steps:
        shop = Workshop(tmp_path / f"at-{step}")
        Keeper(shop.root).start("dev", "docs/plan.md", id="first")
        writer = stopped_at(shop, step, limit)
        if writer is None:
            continue
        stopped += 1
        check_readable(shop)
        try:
            Keeper(shop.root, wait_s=0.05).remind("meanwhile", id="meanwhile")
        except Fault as fault:
            assert fault.code == "busy"
            assert f"process {writer.pid} " in fault.message
        if step % 2:
            writer.kill()
            writer.wait()
            killed += 1
        else:
            writer.send_signal(signal.SIGCONT)
            assert writer.wait(LIMIT_S) == 0
            assert ids(shop).count("stopped") == 1
        Keeper(shop.root, wait_s=0.0).remind("after", id="after")
        assert ids(shop).count("stopped") <= 1
        assert ids(shop)[-1] == "after"
        assert Keeper(shop.root).verify().ok
    assert stopped
    tally("stopped writers", steps=stopped, killed=killed)
