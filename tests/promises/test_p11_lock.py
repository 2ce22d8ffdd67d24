"""Promise 11: a dead or stopped holder of the lock never blocks for ever.

Another process takes the workspace's lock and is killed or stopped while it has it. The time that a
command waits is given to it; that it is kept is measured with a wide margin.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from holdfast import Fault
from promises.journeys import ENVIRONMENT, Site, journey
from workshop import FULL

pytestmark = pytest.mark.promise(11)

WAIT_S = 0.3
AT_ONCE_S = 5.0
"""Far less than a command would wait, far more than it needs."""

HOLDER = """\
import os, sys
from holdfast.disk import Disk
fd = Disk().lock(sys.argv[1], 60)
print("held", flush=True)
sys.stdin.readline()
os.close(fd)
print("released", flush=True)
sys.stdin.readline()
"""
STOPPED_AT_A_CALL = """\
import os, signal, sys
from holdfast import Keeper
from promises.disks import CountingDisk

class StoppingDisk(CountingDisk):
    def strike(self, name, arguments):
        if len(self.calls) == self.at:
            os.kill(os.getpid(), signal.SIGSTOP)

disk = StoppingDisk(int(sys.argv[1]))
Keeper(disk=disk).remind("from the stopped one", workflow=sys.argv[2], id="stopped")
"""


class Holder:
    """A process that has the lock."""

    def __init__(self, site):
        lock = os.path.join(site.home, "lock")
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, lock],
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
def site(tmp_path):
    return Site.made(tmp_path / "site").go(journey("dev")[:1])


@pytest.fixture
def holder(site):
    held = Holder(site)
    yield held
    held.kill()


def check_busy(site, holder, wait_s=WAIT_S):
    """A command gives up in its time, names who is in the way, and leaves nothing."""
    before = site.events()
    began = time.monotonic()
    with pytest.raises(Fault) as busy:
        site.keeper(wait_s=wait_s).remind("while it was stopped", workflow=site.workflow)
    waited = time.monotonic() - began
    assert wait_s <= waited < wait_s + AT_ONCE_S
    assert busy.value.code == "busy"
    assert f"process {holder.pid} " in busy.value.message
    assert busy.value.hint
    assert site.events() == before


def in_thread(work):
    """Runs it in a thread that is not the first one; what it raised is raised here."""
    raised = []

    def run():
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the first thread
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if raised:
        raise raised[0]


def directly(work):
    work()


each_place = pytest.mark.parametrize("runs", [directly, in_thread])


@each_place
def test_a_killed_holder_gives_the_lock_back_at_once(site, holder, runs):
    holder.kill()
    began = time.monotonic()
    runs(lambda: site.keeper().remind("after the kill", workflow=site.workflow, id="after"))
    assert time.monotonic() - began < AT_ONCE_S
    assert site.ids() == ["step-0", "after"]


@each_place
def test_a_holder_that_is_killed_while_another_waits_lets_it_through(site, holder, runs):
    timer = threading.Timer(WAIT_S, holder.kill)
    timer.start()
    began = time.monotonic()
    runs(lambda: site.keeper(wait_s=60).remind("after", workflow=site.workflow, id="after"))
    assert time.monotonic() - began < WAIT_S + AT_ONCE_S
    timer.join()
    assert site.ids() == ["step-0", "after"]


@each_place
def test_a_stopped_holder_is_named_when_the_time_is_over(site, holder, runs):
    holder.stop()
    runs(lambda: check_busy(site, holder))
    runs(lambda: check_busy(site, holder))


@each_place
def test_no_time_to_wait_means_no_wait(site, holder, runs):
    holder.stop()
    runs(lambda: check_busy(site, holder, wait_s=0.0))


@each_place
def test_everything_goes_on_when_a_stopped_holder_does(site, holder, runs):
    holder.stop()
    runs(lambda: check_busy(site, holder))
    holder.go_on()
    holder.release()
    began = time.monotonic()
    for number in range(3):
        id_ = f"after-{number}"
        runs(lambda id_=id_: site.keeper().remind(f"after {id_}", workflow=site.workflow, id=id_))
    assert time.monotonic() - began < AT_ONCE_S
    assert site.ids() == ["step-0", "after-0", "after-1", "after-2"]
    assert site.complaints() == []


def test_the_caller_s_own_alarm_is_left_as_it_was(site, holder):
    heard = []
    previous = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    try:
        check_busy(site, holder)
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert heard == [1]


def test_reading_needs_no_lock(site, holder):
    holder.stop()
    assert site.keeper(wait_s=0.0).show(workflow=site.workflow).state["id"] == site.workflow
    assert site.keeper(wait_s=0.0).log()
    assert site.keeper(wait_s=0.0).verify().ok


def test_the_command_line_gives_up_with_a_storage_fault(site, holder):
    holder.stop()
    before = site.events()
    wait_s, environment = (
        (10.0, {}) if FULL else (WAIT_S, {"HOLDFAST_WAIT_MS": f"{WAIT_S * 1000:g}"})
    )
    began = time.monotonic()
    code, answer = site.run(["advance"], "tried", env={**ENVIRONMENT, **environment})
    waited = time.monotonic() - began
    assert (code, answer["error"]["code"]) == (3, "busy")
    assert f"process {holder.pid} " in answer["error"]["message"]
    assert wait_s <= waited < wait_s + AT_ONCE_S
    assert site.events() == before
    holder.go_on()
    holder.release()
    assert site.run(["advance"], "tried")[0] == 0
    assert site.ids() == ["step-0", "tried"]


@pytest.mark.parametrize("call", range(2, 9))
def test_a_writer_stopped_in_the_middle_finishes_once_when_it_goes_on(site, call):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    stopped = subprocess.Popen(
        [sys.executable, "-c", STOPPED_AT_A_CALL, str(call), site.workflow],
        cwd=site.root,
        env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], here])},
    )
    try:
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        with pytest.raises(Fault, match=f"process {stopped.pid} "):
            site.keeper(wait_s=WAIT_S).remind("busy", workflow=site.workflow, id="refused")
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    assert stopped.wait(60) == 0
    site.keeper().remind("after", workflow=site.workflow, id="after")
    assert site.ids() == ["step-0", "stopped", "after"]
    assert site.complaints() == []
