"""Promise 11: a dead or stopped holder of the lock never blocks for ever."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast import Fault
from tests.workshop import HOME, SOURCE, Workshop

pytestmark = pytest.mark.promise

HOLDER = """
import sys
from holdfast.disk import Disk
Disk().lock(sys.argv[1], 5)
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """A process of its own that holds the workspace's lock until it is ended."""

    def __init__(self, shop):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, os.path.join(shop.root, HOME, "lock")],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "held\n"
        self.pid = self.process.pid

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def shop(tmp_path):
    made = Workshop(tmp_path)
    made.keeper().start("custom", "Work")
    return made


@pytest.fixture
def holder(shop):
    found = Holder(shop)
    yield found
    found.end()


def test_a_killed_holder_gives_the_lock_back_at_once(shop, holder):
    holder.send(signal.SIGKILL)
    holder.process.wait()
    assert shop.keeper(wait_s=0.001).add_task("goes through").seqs


def test_a_stopped_holder_is_named_when_the_wait_is_over_and_nothing_is_recorded(shop, holder):
    holder.send(signal.SIGSTOP)
    before = shop.keeper().log()
    with pytest.raises(Fault) as busy:
        shop.keeper(wait_s=0.05).add_task("waits")
    assert busy.value.code == "busy"
    assert str(holder.pid) in busy.value.message
    assert shop.keeper().log() == before


def test_the_wait_is_bounded_in_a_thread_as_well(shop, holder):
    holder.send(signal.SIGSTOP)
    found = []

    def wait():
        try:
            shop.keeper(wait_s=0.05).add_task("waits")
        except Fault as fault:
            found.append(fault.code)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(30)
    assert found == ["busy"]


def test_a_waiter_in_a_thread_gets_the_lock_when_the_holder_ends(shop, holder):
    found = []
    keeper = shop.keeper(wait_s=60)
    thread = threading.Thread(target=lambda: found.append(keeper.add_task("later").seqs))
    thread.start()
    holder.send(signal.SIGKILL)
    thread.join(60)
    assert found


def test_a_waiter_that_gave_up_does_not_take_the_lock_later(shop, holder):
    thread = threading.Thread(target=lambda: pytest.raises(Fault, shop.keeper(wait_s=0.02).advance))
    thread.start()
    thread.join(30)
    holder.end()
    assert shop.keeper(wait_s=5).add_task("free").seqs


def test_readers_do_not_wait_for_a_stopped_holder(shop, holder):
    holder.send(signal.SIGSTOP)
    keeper = shop.keeper(wait_s=0.02)
    assert keeper.show(workflow="work").state["status"] == "in_progress"
    assert keeper.workflows()[0]


def test_the_command_line_answers_busy_with_exit_code_3(shop, holder):
    holder.send(signal.SIGSTOP)
    answer = shop.run("task", "add", "waits", "--json", HOLDFAST_WAIT_MS="50")
    assert answer.returncode == 3
    assert b'"code":"busy"' in answer.stdout


def test_after_the_stopped_holder_goes_on_and_ends_everything_goes_on(shop, holder):
    holder.send(signal.SIGSTOP)
    with pytest.raises(Fault):
        shop.keeper(wait_s=0.02).add_task("waits")
    holder.send(signal.SIGCONT)
    holder.process.stdin.close()
    holder.process.wait()
    assert shop.keeper().add_task("goes on").seqs


def test_the_caller_s_own_timer_and_handler_are_left_as_they_were(shop, holder):
    calls = []
    previous = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    try:
        with pytest.raises(Fault):
            shop.keeper(wait_s=0.02).add_task("waits")
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert calls == [1]
