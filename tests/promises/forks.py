"""Processes that die in the middle of a command, by the hundred: one process forks all others.

Run as a script it reads a request a line, as JSON, and answers each with a line. ``Forks`` is the
other side.
"""

import json
import os
import signal
import subprocess
import sys

from holdfast import HoldfastError, Keeper
from promises.journeys import ENVIRONMENT, call

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = {
    "execute", "executescript", "flock", "mkdir", "write", "fsync", "fdatasync", "rename", "link",
    "unlink", "call_function",
}  # fmt: skip
"""Functions in C that change something outside the process."""


class Forks:
    def __init__(self):
        path = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], TESTS])
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            env={**ENVIRONMENT, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, root, words, dies_at=None):
        """Carry out a command line in a process of its own, which may die before one of its steps.

        Return ``{"seqs": …}`` of a receipt, ``{"code": …}`` of an error, or ``{"died": True}``.
        """
        request = json.dumps({"root": root, "words": words, "dies_at": dies_at})
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


def _die_at(step):
    steps = 0

    def count(_frame, event, function):
        nonlocal steps
        if event == "c_call" and function.__name__ in STEPS:
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def _carry_out(root, words, dies_at):
    keeper = Keeper(root)
    if dies_at is not None:
        _die_at(dies_at)
    try:
        seqs = call(keeper, words).seqs
    except HoldfastError as error:
        sys.setprofile(None)
        return {"code": error.code, "message": error.message}
    sys.setprofile(None)
    return {"seqs": seqs}


def _in_child(request):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, json.dumps(_carry_out(**request)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer.decode() or '{"died": true}'


if __name__ == "__main__":
    for _line in sys.stdin:
        print(_in_child(json.loads(_line)), flush=True)
