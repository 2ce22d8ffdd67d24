"""Many writers on one workspace: lanes that send commands, die and go on, and what they noted.

Run as a script this is one library writer: it carries out the commands it is told, and says on its
standard output when it began each and when it had the receipt. Its disk may kill it on the way.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time

from holdfast import Keeper
from holdfast.disk import Disk
from holdfast.errors import HoldfastError
from holdfast.ledger import file as ledger_file
from promises.disks import DyingDisk
from promises.journeys import ENVIRONMENT

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE_MS = 120_000
SEGMENT_BYTES = 24 * 1024


class Sent:
    """A command that was sent, and what its sender knows of it."""

    def __init__(self, name, workflow):
        self.name, self.workflow = name, workflow
        self.began = None
        self.acknowledged = None
        self.seqs = None
        self.code = None

    def note(self, said):
        """What a writer said about it; only the first beginning counts."""
        self.began = self.began or said["began"]
        if "seqs" in said:
            self.acknowledged, self.seqs = said["ended"], said["seqs"]
        elif "code" in said:
            self.code = said["code"]


class Lane:
    """One of the writers: its processes come one after another, as they are killed."""

    def __init__(self, root, number, workflows, count, seed):
        self.root = root
        self.lots = random.Random(f"{seed}-{number}")
        self.sent = [
            Sent(f"w{number}-{index}", self.lots.choice(workflows)) for index in range(count)
        ]
        self.kills = 0
        self.raised = None

    def run(self):
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - the test raises it again
            self.raised = error

    def retries(self, sent):
        """Whether the lane asks again after it got no answer; it may also leave it at that."""
        return sent.acknowledged is None and sent.code is None and self.lots.random() < 0.6


class CommandLane(Lane):
    """Each command is a ``python -m holdfast`` of its own, and some are killed by a timer."""

    def work(self):
        for sent in self.sent:
            self.try_once(sent, self.lots.random() < 0.35)
            while self.retries(sent):
                self.try_once(sent, is_killed=False)

    def try_once(self, sent, is_killed):
        words = ["remind", sent.name, "-w", sent.workflow, "--id", sent.name, "--json"]
        began = time.monotonic_ns()
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.root,
            env={**ENVIRONMENT, "HOLDFAST_WAIT_MS": str(PATIENCE_MS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        timer = threading.Timer(self.lots.uniform(0.05, 0.6), process.kill)
        if is_killed:
            timer.start()
        out, _ = process.communicate()
        timer.cancel()
        said = {"began": began, "ended": time.monotonic_ns()}
        if process.returncode < 0:
            self.kills += 1
        else:
            answer = json.loads(out)
            said |= {"seqs": answer["seqs"]} if answer["ok"] else {"code": answer["error"]["code"]}
        sent.note(said)


class LibraryLane(Lane):
    """A process that holds a keeper and sends all its commands, until its disk kills it."""

    def work(self):
        waiting = list(self.sent)
        while waiting:
            dies_at = self.lots.randint(1, 9 * len(waiting)) if self.lots.random() < 0.5 else None
            self.go_on(waiting, dies_at)
            while waiting and (waiting[0].acknowledged or waiting[0].code):
                waiting.pop(0)
            if waiting and not self.retries(waiting[0]):
                waiting.pop(0)

    def go_on(self, waiting, dies_at):
        told = {
            "root": self.root,
            "commands": [[sent.name, sent.workflow] for sent in waiting],
            "dies_at": dies_at,
            "torn": self.lots.choice([0.0, 0.5, 1.0]),
        }
        path = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], TESTS])
        ended = subprocess.run(
            [sys.executable, os.path.abspath(__file__), json.dumps(told)],
            env={**ENVIRONMENT, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            check=False,
        )
        self.kills += ended.returncode < 0
        assert ended.returncode in (0, -9)
        by_name = {sent.name: sent for sent in waiting}
        for line in ended.stdout.splitlines():
            said = json.loads(line)
            by_name[said["name"]].note(said)


def _say(name, **what):
    os.write(1, json.dumps({"name": name, **what}).encode() + b"\n")


def main():
    told = json.loads(sys.argv[1])
    ledger_file.SEGMENT_BYTES = SEGMENT_BYTES
    dies_at = told["dies_at"]
    disk = DyingDisk(dies_at, torn=told["torn"]) if dies_at else Disk()
    keeper = Keeper(told["root"], disk=disk, wait_s=PATIENCE_MS / 1000)
    for name, workflow in told["commands"]:
        began = time.monotonic_ns()
        _say(name, began=began)
        try:
            receipt = keeper.remind(name, workflow=workflow, id=name)
        except HoldfastError as error:
            _say(name, began=began, code=error.code)
        else:
            _say(name, began=began, ended=time.monotonic_ns(), seqs=receipt.seqs)


if __name__ == "__main__":
    main()
