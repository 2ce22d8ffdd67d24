"""Writers that run beside a test: processes that send commands and note every answer.

Run as a script this is one writer. It notes each attempt on its standard output, before and after:
that file lies outside the repository, so what was acknowledged is known whatever becomes of it.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time

from holdfast import HoldfastError, Keeper
from support.paths import SOURCE, TESTS

PATIENCE_S = 120
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": SOURCE,
    "CLAUDE_CODE_SESSION_ID": "",
    "HOLDFAST_WAIT_MS": str(PATIENCE_S * 1000),
}
UNKNOWN = "unknown_outcome"


class Attempt:
    """A command under one id, and what its sender knows of it."""

    def __init__(self, name):
        self.name = name
        self.began = 0
        self.ended = 0
        self.seqs = None
        self.code = None
        self.message = None
        self.is_unknown = False
        """True after an answer that leaves open whether it was recorded."""

    def note(self, line):
        """Take in a line of the writer; only the first beginning counts."""
        self.began = self.began or line["began"]
        self.code, self.message = line.get("code"), line.get("message")
        self.is_unknown = self.is_unknown or self.code == UNKNOWN
        if "seqs" in line:
            self.ended, self.seqs = line["ended"], line["seqs"]


class Writer:
    """A writer process. It takes the first of its roots that answers, and the next if it moved."""

    def __init__(self, folder, name, roots, workflow, *, home=None, **options):
        self.log = os.path.join(folder, f"{name}.log")
        self.order = {"name": name, "roots": roots, "workflow": workflow, **options}
        path = os.pathsep.join([SOURCE, TESTS])
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), json.dumps(self.order)],
                env={**ENVIRONMENT, "PYTHONPATH": path, **({"HOME": home} if home else {})},
                cwd=folder,
                stdout=log,
            )

    def attempts(self):
        """Return what the writer tried, by name, in its order."""
        found = {}
        with open(self.log, "rb") as log:
            lines = log.read().split(b"\n")
        for text in lines[:-1]:
            line = json.loads(text)
            found.setdefault(line["name"], Attempt(line["name"])).note(line)
        return list(found.values())


class Load:
    """Writers without end on one repository, until ``stop``."""

    def __init__(self, folder, roots, workflow, *, library=2, commands=1):
        self._end = os.path.join(folder, "end")
        by = ["library"] * library + ["command"] * commands
        self.writers = [
            Writer(folder, f"{kind}-{number}", roots, workflow, by=kind, end=self._end)
            for number, kind in enumerate(by)
        ]

    def wait_for_each(self, count=1):
        """Return when every writer has had so many further answers, of whatever kind."""
        wanted = [_size(writer.log) for writer in self.writers]
        for writer, size in zip(self.writers, wanted, strict=True):
            while _lines_after(writer.log, size) < 2 * count:
                assert writer.process.poll() is None, "a writer ended by itself"
                time.sleep(0.002)

    def stop(self):
        """End the writers; return all that they tried."""
        with open(self._end, "wb"):
            pass
        for writer in self.writers:
            assert writer.process.wait(PATIENCE_S) == 0
        return [attempt for writer in self.writers for attempt in writer.attempts()]

    def kill(self):
        for writer in self.writers:
            writer.process.kill()
            writer.process.wait()


def _size(path):
    return os.path.getsize(path)


def _lines_after(path, size):
    with open(path, "rb") as file:
        file.seek(size)
        return file.read().count(b"\n")


class Lane:
    """One of many writers: its processes come one after another, as they are killed."""

    def __init__(self, folder, root, number, workflow, count, seed, *, by, home=None):
        self._folder, self._root, self._workflow, self._by = folder, root, workflow, by
        self._home = home
        self._lots = random.Random(f"{seed}-{number}")
        self._names = [f"w{number}-{index}" for index in range(count)]
        self.attempts = {name: Attempt(name) for name in self._names}
        self.kills = 0
        self.raised = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self):
        self._thread.join()
        if self.raised is not None:
            raise self.raised

    def _run(self):
        try:
            waiting, rounds = self._names, 0
            while waiting:
                waiting = self._go_on(waiting, rounds)
                rounds += 1
        except BaseException as error:  # noqa: BLE001 - raised again by join
            self.raised = error

    def _go_on(self, waiting, rounds):
        """Run a process that sends the rest; return what is left when it was killed."""
        name = f"{waiting[0]}-{rounds}"
        options = {"names": waiting, "by": self._by, "home": self._home}
        writer = Writer(self._folder, name, [self._root], self._workflow, **options)
        timer = threading.Timer(self._lots.uniform(0.1, 1.2), writer.process.kill)
        is_doomed = self._lots.random() < 0.6
        if is_doomed:
            timer.start()
        code = writer.process.wait()
        timer.cancel()
        assert code in (0, -9), code
        self.kills += code == -9
        for line in writer.attempts():
            own = self.attempts[line.name]
            own.began = own.began or line.began
            own.ended, own.seqs, own.code = line.ended, line.seqs, line.code
            own.message, own.is_unknown = line.message, own.is_unknown or line.is_unknown
        left = [each for each in waiting if self.attempts[each].seqs is None]
        begun = [each for each in left if self.attempts[each].began]
        # Whoever got no answer may ask again, or leave it at that.
        return [each for each in left if each not in begun or self._lots.random() < 0.6]


# The checks


def check_found_once(attempts, events, *, ledgers=1):
    """What was acknowledged is in history once, as the receipt said; all else at most once.

    Where there are several ledgers, whoever had no clear answer may have asked in two of them.
    """
    seqs = {}
    for event in events:
        seqs.setdefault(event["id"].partition(".")[0], []).append(event["seq"])
    lost = [one.name for one in attempts if one.seqs is not None and one.name not in seqs]
    doubled = [
        one.name
        for one in attempts
        if not (ledgers > 1 and one.is_unknown)
        and len(seqs.get(one.name, ())) > len(one.seqs if one.seqs is not None else (1,))
    ]
    assert not lost, lost
    assert not doubled, doubled
    for one in attempts:
        if one.seqs is not None:
            assert seqs[one.name] == one.seqs or one.is_unknown, one.name
        elif one.code == "record_behind":
            assert one.name in seqs
        elif one.code is not None and not one.is_unknown:
            assert one.name not in seqs, (one.name, one.code)


def check_history(events):
    """Positions and versions have no gaps, and each event proves the one before it."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    versions, prev = {}, ""
    for event in events:
        versions.setdefault(event["stream"], []).append(event["version"])
        assert event["prev"] == prev, event["seq"]
        prev = event["hash"]
    for numbers in versions.values():
        assert numbers == list(range(1, len(numbers) + 1))


def check_linearizable(attempts, events):
    """Whoever began after another had its answer comes after it in history."""
    position = {event["id"]: event["seq"] for event in events}
    answers = sorted((one.ended, one.seqs[-1]) for one in attempts if one.seqs)
    newest = done = 0
    begun = [one for one in attempts if one.name in position]
    for one in sorted(begun, key=lambda one: one.began):
        while done < len(answers) and answers[done][0] < one.began:
            newest = max(newest, answers[done][1])
            done += 1
        assert position[one.name] > newest, one.name


# One writer, as a process


def _note(line):
    os.write(1, json.dumps(line).encode() + b"\n")


class _ByLibrary:
    """Sends commands through a keeper that stays open as long as it answers."""

    def __init__(self):
        self._keeper = None

    def send(self, root, workflow, name):
        try:
            if self._keeper is None:
                self._keeper = Keeper(root, wait_s=PATIENCE_S)
            return {"seqs": self._keeper.set_context({"n": name}, workflow=workflow, id=name).seqs}
        except HoldfastError as error:
            if error.code != UNKNOWN:
                self._keeper = None
            return {"code": error.code, "message": error.message}


class _ByCommand:
    """Sends every command as a command line of its own."""

    def send(self, root, workflow, name):
        words = ["set", f"n={name}", "-w", workflow, "--id", name, "--json"]
        command = [sys.executable, "-m", "holdfast", *words]
        try:
            ended = subprocess.run(
                command, cwd=root, env=ENVIRONMENT, capture_output=True, check=False
            )
        except (FileNotFoundError, NotADirectoryError):
            return {"code": "no_folder"}
        answer = json.loads(ended.stdout)
        return {"seqs": answer["seqs"]} if answer["ok"] else answer["error"]


def _endless(order):
    number = 0
    while not os.path.exists(order["end"]):
        yield f"{order['name']}-{number}"
        number += 1


def _workflow(order):
    """Return the workflow that is meant now: a test may name another in a file."""
    if not order["workflow"].startswith(os.sep):
        return order["workflow"]
    with open(order["workflow"], encoding="utf-8") as file:
        return file.read()


def main():
    order = json.loads(sys.argv[1])
    sender = _ByCommand() if order["by"] == "command" else _ByLibrary()
    roots = order["roots"]
    for name in order.get("names") or _endless(order):
        for _ in range(3):
            line = {"name": name, "began": time.monotonic_ns(), "workflow": _workflow(order)}
            _note(line)
            answer = sender.send(roots[0], line["workflow"], name)
            _note({**line, **answer, "ended": time.monotonic_ns(), "root": roots[0]})
            if "code" in answer:
                roots = [*roots[1:], roots[0]]
            if answer.get("code") != UNKNOWN:
                break


if __name__ == "__main__":
    main()
