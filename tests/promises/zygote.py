"""Short-lived processes by the hundred: one process that starts others by forking.

Run as a script it reads a request a line, as JSON, and answers each with a line: what the command
came to in a process of its own, or that the process died. ``Zygote`` is the other side.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from typing import NamedTuple

import holdfast
from holdfast.cli.main import process
from promises.journeys import ENVIRONMENT

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PR_SET_PTRACER = 0x59616D61
_ANYBODY = ctypes.c_ulong(-1)


class Ended(NamedTuple):
    """How a command line ended, as ``subprocess`` tells it."""

    returncode: int
    stdout: str
    stderr: str


class Zygote:
    def __init__(self):
        path = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], TESTS])
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            env={**ENVIRONMENT, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def command(self, root, words, attach=None, environment=None):
        """Run a command line; ``attach(pid)`` is called while it waits to begin."""
        is_held = attach is not None
        request = {"root": root, "words": words, "environment": environment, "is_held": is_held}
        self._send(request)
        if attach is not None:
            pid = self._receive()["pid"]
            attach(pid)
            os.kill(pid, signal.SIGCONT)
        return Ended(*self._receive()["ended"])

    def _send(self, request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _receive(self):
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


@functools.cache
def shared():
    """The one zygote of this process."""
    zygote = Zygote()
    atexit.register(zygote.close)
    return zygote


def ask(root, *words, environment=None):
    """Return exit code and object of a command line."""
    ended = shared().command(root, [*words, "--json"], environment=environment)
    assert ended.stdout, ended
    return ended.returncode, json.loads(ended.stdout)


# What a child does


def _run_in_child(root, words, environment, is_held):
    """Run the command line, and print how it ended; before that, of a held one, its number."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.environ.clear()
            os.environ.update(environment or ENVIRONMENT)
            _become(root, words, out, err, is_held=is_held)
        if is_held:
            os.waitpid(child, os.WUNTRACED)
            print(json.dumps({"pid": child}), flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [os.pread(file.fileno(), 1 << 26, 0).decode() for file in (out, err)]
    return json.dumps({"ended": [code, *texts]})


def _become(root, words, out, err, *, is_held):
    """Be the process of a command line, and end as it ends."""
    try:
        os.chdir(root)
        for number, file in enumerate((open(os.devnull), out, err)):  # noqa: SIM115
            os.dup2(file.fileno(), number)
        sys.argv = ["holdfast", *words]
        if is_held:
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
        process()
    finally:
        os._exit(70)


def _import_all():
    """So that no child has to; what an extra brings may be missing."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        with contextlib.suppress(ImportError):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def main():
    _import_all()
    gc.freeze()  # Children share what is never touched.
    for line in sys.stdin:
        print(_run_in_child(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
