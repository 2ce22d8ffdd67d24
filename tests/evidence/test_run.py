"""Real processes: every way in which a command can end, hang, talk too much, or leave a trace."""

import gc
import os
import signal
import sys
import threading
import time
import tracemalloc

import pytest

from holdfast.evidence import run as module
from holdfast.evidence.run import run
from holdfast.system import process_tree

ENOUGH = 600


@pytest.fixture(autouse=True)
def grace(monkeypatch):
    """Nobody waits two seconds for a command that will not listen."""
    monkeypatch.setattr(module, "TERM_GRACE_S", 0.2)
    monkeypatch.setattr(module, "PIPE_GRACE_S", 0.2)


def stat(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def children():
    """Those of this process, dead or alive, where the system tells."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        try:
            if int(stat(name)[1]) == os.getpid():
                found.add(name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_left():
    """No descriptor, no thread and no zombie stays behind."""
    gc.collect()  # What earlier tests left open is not this one's.
    before = os.listdir("/dev/fd"), threading.active_count(), children()
    yield
    assert (os.listdir("/dev/fd"), threading.active_count(), children()) == before


class JumpingClock:
    """A clock that jumps over the limit once the command has said so many words."""

    def __init__(self, words):
        self.words = words
        self.heard = b""
        self.ahead = 0

    def monotonic(self):
        return time.monotonic() + self.ahead

    def sleep(self, seconds):
        time.sleep(seconds)

    def hear(self, chunk):
        self.heard += chunk
        if len(self.heard.split()) >= self.words:
            self.ahead = 2 * ENOUGH


@pytest.fixture
def run_into_the_limit(tmp_path, monkeypatch):
    """The command reaches its limit as soon as it has said so many words, on however slow a day."""

    def run_it(command, words):
        clock = JumpingClock(words)
        monkeypatch.setattr(module, "time", clock)
        outcome = run(command, str(tmp_path), limit_s=ENOUGH, echo=clock.hear)
        assert (outcome.timed_out, outcome.exit_code, outcome.signal) == (True, None, None)
        assert outcome.duration_ms >= ENOUGH * 1000
        return outcome

    return run_it


def python(code):
    return [sys.executable, "-c", code]


def lives(pid):
    try:
        return stat(pid)[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(outcome):
    return [int(word) for word in outcome.output.split()]


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")


# How it ends


def test_exit_code_and_both_streams_are_kept(tmp_path):
    outcome = run(["sh", "-c", "echo out; echo err >&2; exit 3"], str(tmp_path), limit_s=ENOUGH)
    assert (outcome.started, outcome.exit_code, outcome.signal) == (True, 3, None)
    assert (outcome.timed_out, outcome.why) == (False, "")
    assert outcome.output == outcome.tail == "out\nerr\n"
    assert outcome.duration_ms >= 0


def test_text_is_run_by_the_shell_in_its_folder(tmp_path):
    outcome = run("pwd && test -z '' && echo $((1 + 1))", str(tmp_path), limit_s=ENOUGH)
    assert outcome.exit_code == 0
    assert outcome.output.splitlines() == [os.path.realpath(tmp_path), "2"]


def test_words_are_run_as_they_are(tmp_path):
    outcome = run(["printf", "%s", "$HOME; a  b"], str(tmp_path), limit_s=ENOUGH)
    assert outcome.output == "$HOME; a  b"


def test_environment_is_the_one_given(tmp_path):
    env = {"PATH": os.environ["PATH"], "COLOUR": "blue"}
    assert run("echo $COLOUR", str(tmp_path), limit_s=ENOUGH, env=env).output == "blue\n"


def test_death_by_a_signal_is_told_as_a_shell_tells_it(tmp_path):
    outcome = run("kill -9 $$", str(tmp_path), limit_s=ENOUGH)
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (137, signal.SIGKILL, False)


def test_command_that_closes_its_output_is_still_waited_for(tmp_path):
    outcome = run("echo a; exec >&- 2>&-; sleep 0.1; exit 4", str(tmp_path), limit_s=ENOUGH)
    assert (outcome.exit_code, outcome.output) == (4, "a\n")


# What cannot be started


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["no-such-program"], "not found"),
        (["./no-such-file"], "not found"),
        (["./plain.txt"], "not executable"),
        (["./empty"], "not executable"),
        (["."], "not executable"),
        ([], "there is nothing to run"),
        (["a\0b"], "embedded null byte"),
        (["true", "x" * 3_000_000], "argument list too long"),
    ],
)
def test_reason_why_it_did_not_start_is_told(tmp_path, command, why):
    (tmp_path / "plain.txt").write_text("not a program")
    (tmp_path / "empty").write_text("")
    (tmp_path / "empty").chmod(0o755)
    outcome = run(command, str(tmp_path), limit_s=ENOUGH)
    assert (outcome.started, outcome.exit_code, outcome.why) == (False, None, why)
    assert (outcome.output, outcome.tail, outcome.duration_ms) == ("", "", 0)


def test_folder_that_is_gone_is_told(tmp_path):
    outcome = run(["true"], str(tmp_path / "gone"), limit_s=ENOUGH)
    assert (outcome.started, outcome.why) == (False, "its folder is gone")


def test_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert run("true", str(tmp_path / "file"), limit_s=ENOUGH).why == "its folder is gone"


# What hangs


def test_command_that_hangs_is_ended_at_the_limit(run_into_the_limit):
    assert run_into_the_limit("echo before; sleep 600", 1).output == "before\n"


def test_limit_needs_no_word_of_the_command(tmp_path):
    outcome = run("sleep 600", str(tmp_path), limit_s=0.05)
    assert (outcome.timed_out, outcome.exit_code, outcome.output) == (True, None, "")


def test_last_words_after_the_first_request_are_heard(run_into_the_limit):
    script = "trap 'echo tidied up; exit 0' TERM; echo ready; sleep 600 & wait"
    assert run_into_the_limit(script, 1).output == "ready\ntidied up\n"


STUBBORN = "trap '' TERM; sleep 600 & echo $$ $!; while :; do sleep 600; done"


@needs_proc
def test_command_that_does_not_listen_is_killed_with_its_children(run_into_the_limit):
    outcome = run_into_the_limit(STUBBORN, 2)
    assert len(pids(outcome)) == 2
    assert not any(map(lives, pids(outcome)))


STRAYS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def tell():
    os.write(1, b"%d " % os.getpid())
def child_in_its_own_session(then):
    if not os.fork():
        os.setsid()
        then()
        time.sleep(600)
if not os.fork():
    child_in_its_own_session(lambda: (tell(), child_in_its_own_session(tell)))
    time.sleep(600)
tell()
time.sleep(600)
"""


@needs_proc
def test_grandchildren_in_sessions_of_their_own_are_killed_too(run_into_the_limit):
    outcome = run_into_the_limit(python(STRAYS), 3)
    assert len(pids(outcome)) == 3
    assert not any(map(lives, pids(outcome)))


@needs_proc
def test_group_is_ended_where_the_system_tells_nothing_of_others(
    run_into_the_limit, tmp_path, monkeypatch
):
    monkeypatch.setattr(process_tree, "_PROC", str(tmp_path / "nothing"))
    outcome = run_into_the_limit(STUBBORN, 2)
    assert not any(map(lives, pids(outcome)))


@needs_proc
def test_a_process_that_got_the_pid_of_a_detached_one_is_left_alone(monkeypatch):
    sent = []
    monkeypatch.setattr(process_tree.os, "kill", lambda *args: sent.append(args))
    tree = process_tree.ProcessTree.__new__(process_tree.ProcessTree)
    tree._detached = {os.getpid(): b"another time"}
    tree._signal_detached(signal.SIGKILL)
    assert sent == []
    tree._detached = {os.getpid(): process_tree._processes()[os.getpid()].since}
    tree._signal_detached(signal.SIGKILL)
    assert sent == [(os.getpid(), signal.SIGKILL)]


PATIENT_STRAY = """
import os, signal, time
if not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"%d " % os.getpid())
time.sleep(600)
"""


@needs_proc
def test_stray_is_killed_though_its_parent_ended_when_asked(run_into_the_limit):
    outcome = run_into_the_limit(python(PATIENT_STRAY), 1)
    assert not lives(*pids(outcome))


ON_A_TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    from holdfast.evidence.run import run
    for command in ("cat", "exec </dev/tty && read answer"):
        outcome = run(command, "/", limit_s=20)
        print(outcome.timed_out, outcome.exit_code == 0, flush=True)
    os._exit(0)
try:
    while chunk := os.read(terminal, 1000):
        os.write(1, chunk)
except OSError:
    pass  # so Linux tells the end
os.waitpid(pid, 0)
"""


def test_command_finds_neither_input_nor_a_terminal_to_ask(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    outcome = run(python(ON_A_TERMINAL), str(tmp_path), limit_s=ENOUGH, env=env)
    assert outcome.output.split() == ["False", "True", "False", "False"]


# What is left behind


@needs_proc
def test_child_in_the_background_does_not_hold_us(tmp_path):
    outcome = run("sleep 600 & echo $!", str(tmp_path), limit_s=ENOUGH)
    assert (outcome.exit_code, outcome.timed_out) == (0, False)
    assert not lives(*pids(outcome))


@needs_proc
def test_quiet_child_in_the_background_is_ended_too(tmp_path):
    outcome = run("sleep 600 >/dev/null 2>&1 & echo $!", str(tmp_path), limit_s=ENOUGH)
    assert outcome.exit_code == 0
    assert not lives(*pids(outcome))


@needs_proc
def test_child_that_talks_for_ever_does_not_hold_us(tmp_path):
    outcome = run(
        "(trap '' TERM; while :; do echo y; done) & echo $!", str(tmp_path), limit_s=ENOUGH
    )
    assert (outcome.exit_code, outcome.timed_out) == (0, False)
    assert not lives(int(next(line for line in outcome.output.split("\n") if line != "y")))


@needs_proc
def test_interrupted_user_leaves_nothing_running(tmp_path):
    heard = []

    def interrupted(chunk):
        heard.append(chunk)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(STUBBORN, str(tmp_path), limit_s=ENOUGH, echo=interrupted)
    assert not any(lives(int(word)) for word in b"".join(heard).split())


# What it prints


def test_echo_gets_the_bytes_as_they_come(tmp_path):
    heard = []
    outcome = run(
        "echo a; sleep 0.05; printf 'b\\033[1m\\377'",
        str(tmp_path),
        limit_s=ENOUGH,
        echo=heard.append,
    )
    assert len(heard) >= 2
    assert b"".join(heard) == b"a\nb\x1b[1m\xff"
    assert outcome.output == "a\nb\ufffd"


def test_hundred_megabytes_take_little_memory(tmp_path):
    line = "'%05d ' % n + 'x' * 93 + '\\n'"
    code = f"import sys\nfor n in range(100): sys.stdout.write(({line}) * 10486)"
    tracemalloc.start()
    outcome = run(python(code), str(tmp_path), limit_s=ENOUGH)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.exit_code == 0
    assert peak < 16 * 1024 * 1024
    assert len(outcome.output) <= module.MAX_HEAD_BYTES + module.MAX_END_BYTES + 100
    lines = outcome.output.split("\n")
    assert lines[0].startswith("00000 ")
    assert lines[-2].startswith("00099 ")
    whole = {len(line) for line in lines[:-1] if not line.startswith("[")}
    assert whole == {99}
    note = next(line for line in lines if line.startswith("["))
    left_out = int(note.split()[0][1:])
    kept = len(outcome.output) - len(note) - 1
    assert left_out + kept == 100 * 100 * 10486


def test_long_line_without_an_end_is_cut(tmp_path):
    code = "import os\nfor n in range(50): os.write(1, b'y' * 1048576)"
    outcome = run(python(code), str(tmp_path), limit_s=ENOUGH)
    first, note, last = outcome.output.split("\n")
    kept = module.MAX_HEAD_BYTES, module.MAX_END_BYTES
    # What is cut off may be a part of a secret, and so may what is beside it.
    assert (len(first), len(last)) == tuple(size - module._MAX_SECRET_BYTES for size in kept)
    omitted = 50 * 1048576 - len(first) - len(last)
    assert note == f"[{omitted} bytes of output left out]"
    assert outcome.tail == "y" * module.MAX_TAIL_CHARS


def test_output_just_within_the_bounds_is_whole(tmp_path):
    size = module.MAX_HEAD_BYTES + module.MAX_END_BYTES
    outcome = run(python(f"print('z' * {size - 1})"), str(tmp_path), limit_s=ENOUGH)
    assert outcome.output == "z" * (size - 1) + "\n"


def test_binary_output_becomes_text(tmp_path):
    code = "import os; os.write(1, bytes(range(256)) * 40 + b'\\nend\\n')"
    outcome = run(python(code), str(tmp_path), limit_s=ENOUGH)
    assert outcome.tail.endswith("end\n")
    assert outcome.output.replace("\n", "").replace("\t", "").isprintable()


def test_tail_is_the_last_whole_lines(tmp_path):
    outcome = run("seq 1 2000", str(tmp_path), limit_s=ENOUGH)
    numbers = [int(line) for line in outcome.tail.splitlines()]
    assert numbers == list(range(numbers[0], 2001))
    assert module.MAX_TAIL_CHARS - 5 <= len(outcome.tail) <= module.MAX_TAIL_CHARS


def test_clock_is_never_asked_for_the_time_of_day(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the clock may be set back"))
    assert run("true", str(tmp_path), limit_s=ENOUGH).exit_code == 0
