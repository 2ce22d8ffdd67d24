"""A command under the eyes of strace: what it started, whom it called, what it changed."""

import os
import re
import signal
import subprocess
import sys

from promises.strace import STRACE

READING = ("openat", "open")
CHANGING = (
    "creat", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir",
    "mkdirat", "rmdir", "symlink", "symlinkat", "truncate", "chmod", "fchmodat", "chown",
    "fchownat", "utimensat", "mknod", "mknodat",
)  # fmt: skip
STARTING = ("execve", "execveat")
CALLING = ("connect", "sendto", "sendmsg", "bind")
_LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += +(-?\d+)(?:<(.*)>)?(?: .*)?$")
_PATH = re.compile(r'(?:AT_FDCWD<([^>]*)>|\d+<([^>]*)>)?,? ?"((?:[^"\\]|\\.)*)"')
_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
DEADLINE_S = 20
LIMITED = ("/bin/sh", "-c", 'ulimit -v 1048576; exec "$@"', "sh")
"""Whoever reads what has no end is to fail at one gigabyte, not the machine."""


class Call:
    """One system call that succeeded: its name, its words, and the files that it is about."""

    def __init__(self, name, said, paths):
        self.name = name
        self.said = said
        self.paths = paths

    @property
    def is_change(self):
        return self.name in CHANGING or bool(self.name in READING and _WRITING.search(self.said))


class Watched:
    """What a process did and said; ``code`` is ``None`` where it had to be ended."""

    def __init__(self, code, output, calls):
        self.code = code
        self.output = output.decode(errors="surrogateescape")
        self.started = [call.said for call in calls if call.name in STARTING]
        self.called = [call.said for call in calls if call.name in CALLING]
        self.read = {p for c in calls if c.name in READING and not c.is_change for p in c.paths}
        self.changed = {path for call in calls if call.is_change for path in call.paths}


def watch(words, log, given=b"", **options):
    """Runs a program to its end, within the deadline."""
    kinds = ",".join([*READING, *CHANGING, *STARTING, *CALLING])
    tracing = [STRACE, "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-o", log]
    process = subprocess.Popen(
        [*LIMITED, *tracing, "-e", f"trace={kinds}", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, **options,
    )  # fmt: skip
    try:
        out, err = process.communicate(given, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Watched(None, out + err, [])
    return Watched(process.returncode, out + err, list(_calls(log)))


def _calls(log):
    with open(log, errors="surrogateescape") as file:
        for line in _whole(file):
            match = _LINE.match(line.rstrip("\n"))
            if match is None or int(match[4]) < 0:
                continue
            name, said = match[2], match[3]
            resolved = [match[5]] if name in READING and match[5] else _resolved(said)
            yield Call(name, said, resolved)


def _whole(lines):
    """Calls that were interrupted by those of another process, put together again."""
    begun = {}
    for line in lines:
        number, _, rest = line.partition(" ")
        if "<unfinished ...>" in rest:
            begun[number] = line.partition("<unfinished ...>")[0]
        elif "resumed>" in rest and number in begun:
            yield begun.pop(number) + rest.partition("resumed>")[2]
        else:
            yield line


def _resolved(said):
    """The files that a call names, with the links in the folders on their way followed."""
    found = []
    for here, at, name in _PATH.findall(said):
        plain = name.encode("latin-1", "replace").decode("unicode_escape")
        path = os.path.normpath(os.path.join(here or at or "/", plain))
        found.append(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))
    return found


def python_places():
    """Where an interpreter and its libraries are, which every program reads."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(sys.executable)}
    return [*sorted(os.path.realpath(path) for path in own), *sorted(own)]
