"""Promise 6: with many writers nothing is lost, nothing is there twice, history is linearizable.

Writers are processes of their own: some hold the library and write on and on, some are one command
line per write. The dice say who is killed, and after which of its answers.
"""

import os
import random
import selectors
import subprocess
import sys

import pytest

from workshop import FULL, SEED, SOURCE, Workshop

pytestmark = pytest.mark.promise

WRITERS = 64
LIBRARY_WRITES = 40 if FULL else 8
COMMAND_WRITES = 6 if FULL else 1
KILLED = 20

LIBRARY = """
import sys, time
from holdfast import Keeper
name, workflow, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
keeper = Keeper(".", wait_s=300)
for number in range(count):
    text = f"{name}.{number}"
    print("sent", text, time.monotonic_ns(), flush=True)
    seq = keeper.add_task(text, workflow=workflow).seqs[0]
    print("done", text, time.monotonic_ns(), seq, flush=True)
"""

COMMAND = """
import subprocess, sys, time, json
name, workflow, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    text = f"{name}.{number}"
    print("sent", text, time.monotonic_ns(), flush=True)
    words = ["-m", "holdfast", "task", "add", text, "-w", workflow, "--json"]
    answer = subprocess.run([sys.executable, *words], capture_output=True, check=True)
    seq = json.loads(answer.stdout)["seqs"][0]
    print("done", text, time.monotonic_ns(), seq, flush=True)
"""


class Writer:
    """One writing process, and what it told before it ended."""

    def __init__(self, shop, number, workflow):
        by_command = number % 8 == 7
        script, count = (COMMAND, COMMAND_WRITES) if by_command else (LIBRARY, LIBRARY_WRITES)
        self.count = count
        self.killed_after = None
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, f"w{number}", workflow, str(count)],
            cwd=shop.root,
            env={**os.environ, "PYTHONPATH": SOURCE, "HOLDFAST_WAIT_MS": "300000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.told = b""

    def hear(self):
        """Takes in what was told; says whether there may be more."""
        piece = os.read(self.process.stdout.fileno(), 65_536)
        self.told += piece
        if self.killed_after is not None and self.told.count(b"done") >= self.killed_after:
            self.process.kill()
        return bool(piece)

    def lines(self):
        whole = self.told[: self.told.rfind(b"\n") + 1].decode()
        return [line.split() for line in whole.splitlines()]


def write_all(shop, workflows, dice):
    writers = [
        Writer(shop, number, workflows[number % len(workflows)]) for number in range(WRITERS)
    ]
    for writer in dice.sample(writers, KILLED):
        writer.killed_after = dice.randrange(writer.count)
    with selectors.DefaultSelector() as selector:
        for writer in writers:
            selector.register(writer.process.stdout, selectors.EVENT_READ, writer)
        while selector.get_map():
            for key, _ in selector.select(timeout=300):
                if not key.data.hear():
                    selector.unregister(key.fileobj)
    for writer in writers:
        _, errors = writer.process.communicate()
        assert writer.killed_after is not None or writer.process.returncode == 0, errors.decode()
    return [line for writer in writers for line in writer.lines()]


def check(shop, told):
    """The log against what the writers were told; gives sent, acknowledged and found."""
    sent = {text: int(at) for word, text, at, *_ in told if word == "sent"}
    done = {text: (int(at), int(rest[0])) for word, text, at, *rest in told if word == "done"}
    events = shop.keeper().log()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    added = [event for event in events if event["type"] == "task_added"]
    found = {event["data"]["description"]: event["seq"] for event in added}
    assert len(found) == len(added), "something is there twice"
    assert set(found) <= set(sent), "something is there that nobody sent"
    lost = {text for text, (_, seq) in done.items() if found.get(text) != seq}
    assert not lost, "something that was acknowledged is not there, or elsewhere"
    check_linear(sent, done)
    for stream in {event["stream"] for event in events}:
        versions = [event["version"] for event in events if event["stream"] == stream]
        assert versions == list(range(1, len(versions) + 1))
    return len(sent), len(done), len(found)


def check_linear(sent, done):
    """What was sent after an answer came has a higher seq than what was answered."""
    answered = sorted(done.values())
    highest, place = 0, 0
    for text, at in sorted(sent.items(), key=lambda item: item[1]):
        while place < len(answered) and answered[place][0] < at:
            highest, place = max(highest, answered[place][1]), place + 1
        if text in done:
            assert done[text][1] > highest, f"{text} went back in time"


@pytest.mark.parametrize("count", [1, 8], ids=["one workflow", "eight workflows"])
def test_sixty_four_writers_with_kills_lose_and_double_nothing(tmp_path, tally, count):
    dice = random.Random(SEED + count)
    shop = Workshop(tmp_path)
    names = [shop.keeper().start("custom", f"Work {n}").state["id"] for n in range(count)]
    told = write_all(shop, names, dice)
    sent, acknowledged, found = check(shop, told)
    shop.keeper().add_task("afterwards", workflow=names[0])
    report = shop.keeper().verify()
    assert report.ok, (SEED, report.lines)
    for name in names:
        state = shop.keeper().show(workflow=name).state
        ids = [task["id"] for task in state["tasks"]]
        assert ids == list(range(1, len(ids) + 1))
    tally("writers", sent=sent, acknowledged=acknowledged, found=found, killed=KILLED)
