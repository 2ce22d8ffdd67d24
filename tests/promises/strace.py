"""Kills at system calls: which calls a command makes, and the command with one of them its last."""

import os
import re
import shutil
import subprocess
import sys

from promises.journeys import ENVIRONMENT

STRACE = shutil.which("strace")
CALLS = (
    "write", "pwrite64", "openat", "fdatasync", "fsync", "rename", "renameat", "renameat2", "link",
    "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "flock", "ftruncate", "close",
)  # fmt: skip
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)")
_HERE = re.compile(r"AT_FDCWD<[^>]*>")
_KILLED = -9
DRIVER = """\
import sys
import holdfast.ledger.file
holdfast.ledger.file.SEGMENT_BYTES = int(sys.argv.pop(1))
from holdfast.cli.main import main
sys.exit(main())
"""


def cannot_trace():
    """Why calls cannot be traced here; nothing when they can."""
    if STRACE is None:
        return "strace is missing"
    trial = [STRACE, "-f", "-o", os.devnull, "-e", "inject=write:signal=SIGKILL:when=1"]
    tried = subprocess.run([*trial, "echo", "x"], capture_output=True, check=False)
    if tried.returncode in (_KILLED, 128 - _KILLED):
        return ""
    return f"strace cannot kill: {tried.stderr.decode(errors='replace').strip()[-200:]}"


def command(words, segment_bytes=None):
    """How the command line is started, also with small segments."""
    if segment_bytes is None:
        return [sys.executable, "-m", "holdfast", *words, "--json"]
    return [sys.executable, "-c", DRIVER, str(segment_bytes), *words, "--json"]


def under(log):
    """What a command is put under to be traced, without the processes that it starts."""
    return [STRACE, "-y", "-s", "8", "-o", log, "-e", "trace=" + ",".join(CALLS)]


def _traced(root, log, words, *options):
    arguments = [STRACE, "-f", "-y", "-s", "8", "-o", log, "-e", "trace=" + ",".join(CALLS)]
    return subprocess.run(
        [*arguments, *options, *words],
        cwd=root,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
        timeout=120,
    )


def points(root, log, words):
    """Runs a command; each of its calls that concern the workspace or the answer.

    A point is the call's name, its number among the calls of this name, and what it was called
    with.
    """
    ended = _traced(root, log, words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return points_in(log, root)


def points_in(log, root):
    """The points of a run that was traced."""
    counts, found = {}, []
    for name, rest in _calls(log):
        counts[name] = counts.get(name, 0) + 1
        if root in _HERE.sub("", rest) or rest.startswith("1<"):
            found.append((name, counts[name], rest.partition(" = ")[0]))
    return found


def _calls(log):
    with open(log, errors="replace") as file:
        matches = [_CALL.match(line) for line in file]
    return [match.groups() for match in matches if match]


def kill(root, log, words, point):
    """Runs the command and kills it as it enters the call; says what it entered last."""
    name, number, _ = point
    ended = _traced(root, log, words, "-e", f"inject={name}:signal=SIGKILL:when={number}")
    assert ended.returncode in (_KILLED, 128 - _KILLED), (ended.returncode, ended.stdout, point)
    return _calls(log)[-1]
