"""System calls of a command: traced, and one of them killed at its entry or made to fail.

Only calls after which the disk or a lock is another are points. Between two of them a kill leaves
what a kill at the entry of the second leaves: all that a dead process held is closed.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager

from promises.journeys import command

STRACE = shutil.which("strace")
CALLS = (
    "write", "pwrite64", "openat", "fdatasync", "fsync", "rename", "renameat", "renameat2", "link",
    "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "flock", "ftruncate", "close",
    "fcntl",
)  # fmt: skip
_CALL = re.compile(r"^(?:(\d+) +)?(\w+)\((.*)")
_CWD = re.compile(r"AT_FDCWD<[^>]*>")
_SHARED = re.compile(r"F_SETLK, .*l_start=(?:120|128),")
"""SQLite's locks on writing the WAL, and on making the shared memory: stores stand between them."""
_KILLED = -9
POLL_S = 0.001


def cannot_trace():
    """Why calls cannot be traced here; nothing when they can."""
    if STRACE is None:
        return "strace is missing"
    with tempfile.NamedTemporaryFile() as log:
        killing = "inject=write:signal=SIGKILL:when=1"
        ended = run(os.sep, log.name, ["--version"], "-e", killing)
    return "" if ended.returncode == _KILLED else f"strace cannot kill: {ended}"


@contextmanager
def tracing(log, *options, calls=CALLS):
    """Yield a function that has strace follow a process, with further options of strace."""
    words = [STRACE, "-qq", "-y", "-s", "8", "-o", log, "-e", "trace=" + ",".join(calls), *options]
    tracers = []

    def attach(pid):
        tracers.append(subprocess.Popen([*words, "-p", str(pid)]))
        while not _is_traced(pid) and tracers[0].poll() is None:
            time.sleep(POLL_S)

    yield attach
    tracers[0].wait()


def run(root, log, words, *options, calls=CALLS):
    """Run a command line under strace; return how it ended."""
    with tracing(log, *options, calls=calls) as attach:
        return command(root, words, attach=attach)


def _is_traced(pid):
    with open(f"/proc/{pid}/status") as file:
        return "TracerPid:\t0\n" not in file.read()


def points(root, log, words):
    """Run a command undisturbed, and return its points.

    A point is the call's name, its number among the calls of this name, and what it was called
    with.
    """
    ended = run(root, log, words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return points_in(log, root)


def points_in(log, root):
    """Return the points of a run that was traced: they concern its folder or its answer."""
    counts, listed = {}, []
    for process, name, rest in _calls(log):
        counts[process, name] = counts.get((process, name), 0) + 1
        arguments = rest.rpartition(" = ")[0]
        is_ours = root in _CWD.sub("", arguments) or rest.startswith("1<")
        if is_ours and _matters(name, arguments):
            listed.append((name, counts[process, name], arguments))
    return listed


def _matters(name, arguments):
    if name == "openat":
        return "O_CREAT" in arguments
    if name == "close":
        return "/lock>" in arguments
    return name != "fcntl" or _SHARED.search(arguments) is not None


def _calls(log):
    with open(log, errors="replace") as file:
        matches = [_CALL.match(line) for line in file]
    return [match.groups() for match in matches if match]


def kill(root, log, words, point):
    """Run the command, and kill it as it enters the call; return whether that call was its last.

    Now and then a run has one call less than the one before it, and ends undisturbed.
    """
    name, number, arguments = point
    ended = run(root, log, words, "-e", f"inject={name}:signal=SIGKILL:when={number}")
    assert ended.returncode in (0, _KILLED), (ended, point)
    _, last, rest = _calls(log)[-1]
    return (last, rest[:12]) == (name, arguments[:12])


def fail(root, log, words, point, error, *, always=False):
    """Run the command with the call failing, once or from then on; return how it ended."""
    name, number, _ = point
    when = f"{number}+" if always else number
    return run(root, log, words, "-e", f"inject={name}:error={error}:when={when}")


def commit_in(points):
    """Return the point at which the first commit to a ledger is synced.

    A new journal's beginning is synced before it; the lock on writing is given back right after.
    """
    synced = None
    for point in points:
        name, _, arguments = point
        if name == "fdatasync" and "ledger.db-wal>" in arguments:
            synced = point
        elif synced and name == "fcntl" and "F_UNLCK" in arguments:
            return synced
    raise AssertionError("nothing was committed")
