"""Short-lived processes by the hundred: one process that starts others by forking.

Run as a script it reads a request a line, as JSON, and answers each with a line: what the command
came to in a process of its own, or that the process died. ``Zygote`` is the other side.
"""

import json
import os
import subprocess
import sys

from holdfast import Keeper
from holdfast.disk import Disk
from holdfast.errors import HoldfastError
from holdfast.ledger import file as ledger_file
from promises.disks import DyingDisk
from promises.journeys import ENVIRONMENT, call

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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

    def run(self, root, words, **how):
        """``{"seqs": …}`` of a receipt, ``{"code": …}`` of an error, or ``{"died": True}``.

        ``at`` and ``torn`` are the dying disk's, ``segment_bytes`` the ledger's.
        """
        request = json.dumps({"root": root, "words": words, **how})
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


def carried_out(root, words, at=None, torn=0.0, segment_bytes=None):
    """The command, in this process; its answer as plain data."""
    if segment_bytes is not None:
        ledger_file.SEGMENT_BYTES = segment_bytes
    disk = Disk() if at is None else DyingDisk(at, torn=torn)
    try:
        receipt = call(Keeper(root, disk=disk), words)
    except HoldfastError as error:
        return {"code": error.code, "message": error.message}
    return {"seqs": receipt.seqs, "workflow": receipt.state["id"]}


def _in_child(request):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, json.dumps(carried_out(**request)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer.decode() or '{"died": true}'


def main():
    for line in sys.stdin:
        print(_in_child(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
