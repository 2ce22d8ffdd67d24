"""A command that is interrupted in the very moment of its start leaves nobody behind."""

import signal
import sys
import threading

import pytest

from holdfast.evidence import run as module
from holdfast.evidence.run import run

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def started_processes(monkeypatch):
    """The processes that were started, each followed by Ctrl-C at once."""
    found = []
    start = module._start

    def interrupted(*given):
        found.append(start(*given))
        signal.raise_signal(signal.SIGINT)
        return found[-1]

    monkeypatch.setattr(module, "_start", interrupted)
    return found


def test_ctrl_c_right_after_the_start_ends_the_command(tmp_path, started_processes):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(SLEEPER, str(tmp_path), limit_s=60)
    assert started_processes[0].poll() == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_nothing_could_be_started_still_interrupts(tmp_path, monkeypatch):
    def failing(*_given):
        signal.raise_signal(signal.SIGINT)
        raise FileNotFoundError

    monkeypatch.setattr(module, "_start", failing)
    with pytest.raises(KeyboardInterrupt):
        run(["nothing"], str(tmp_path), limit_s=60)


def test_in_a_thread_no_signal_is_touched(tmp_path):
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(run([sys.executable, "-c", ""], str(tmp_path), limit_s=60))
    )
    thread.start()
    thread.join()
    assert outcomes[0].exit_code == 0
