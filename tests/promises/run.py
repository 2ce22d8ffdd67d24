"""All promises of Holdfast over the whole product: ``make promises``.

Runs the tests that show them, with their mutations, draws a bar meanwhile, prints a table and
writes it to ``docs/promises.md``. Whatever is drawn by lot repeats with the seed that is printed.
"""

import argparse
import os
import random
import sys
from collections import Counter
from time import monotonic

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
PAGE = os.path.join(ROOT, "docs", "promises.md")
LOG = os.path.join(ROOT, "build", "promises.log")
PROMISES = {
    1: "Killed at any system call, a command is done or not done, and is in history once.",
    2: "What was acknowledged stands through a power cut.",
    3: "Nothing that git does, or that is done to the folder, loses or forks the ledger.",
    4: "A flipped bit is found and named; all other events stay readable.",
    5: "A full disk or an I/O error is reported, leaves nothing half done, and passes.",
    6: "Any number of writers: nothing is lost, nothing is there twice, one order.",
    7: "The same id, however often it is tried, is applied once.",
    8: "Every view comes back from the ledger byte for byte; other people's bytes stay.",
    9: "A hand edit is never silently overwritten.",
    10: "An invalid edit: the last good state is served, the file kept, the line named.",
    11: "A holder of the lock that died or stands still blocks nobody for ever.",
    12: "A clock that jumps reorders nothing; what a jump expired comes back whole.",
    13: "A cloned repository runs nothing and leaks nothing before it is approved.",
    14: "Stored text cannot reach the terminal, leave its frame or climb out of the workspace.",
    15: "A fault in Holdfast never blocks the agent.",
    16: "Replicas converge, a fenced worker never succeeds, and no conflict is silent.",
    17: "Whoever follows NEXT finishes properly; what was not done is named when work ends.",
}
USUAL = "2"
WIDTH = 30
MONTHS = "simulated months"


class Shown:
    """What was tried for one promise."""

    def __init__(self):
        self.tests = self.failures = self.mutations = self.noticed = 0
        self.seconds = 0.0
        self.tried = {}

    def add(self, counts):
        for name, numbers in counts:
            self.tried.setdefault(name, Counter()).update(numbers)

    def told(self):
        """``144 tests; kill matrix: 1,200 points``; what months hold is told once, for all."""
        ordered = sorted(self.tried.items(), key=lambda item: -max(item[1].values()))
        said = [f"{name}: {_numbers(found)}" for name, found in ordered if name != MONTHS]
        months = self.tried.get(MONTHS, {}).get("months")
        lead = [f"{self.tests:,} tests", *([f"{months:,} {MONTHS}"] if months else [])]
        return "; ".join([*lead, *said])


def _numbers(found):
    return ", ".join(f"{number:,} {what}" for what, number in found.most_common() if number)


class Report:
    """Listens to the tests and keeps, for each promise, what they tried."""

    def __init__(self, screen):
        self.screen = screen
        self.shown = {number: Shown() for number in PROMISES}
        self.total = self.done = self.failures = 0
        self.failed = []
        self.missing = {}
        self._reports = {}
        self._drawn = -1
        self._begun = monotonic()

    @property
    def seconds(self):
        return monotonic() - self._begun

    def pytest_xdist_node_collection_finished(self, ids):
        self.total = len(ids)

    def pytest_runtest_logreport(self, report):
        parts = self._reports.setdefault(report.nodeid, [])
        parts.append(report)
        if report.when == "teardown":
            self._count(self._reports.pop(report.nodeid))

    def _count(self, parts):
        properties = parts[-1].user_properties
        told = {key: value for key, value in properties if key in ("promises", "mutation")}
        has_failed = any(part.failed for part in parts)
        counts = [value for key, value in properties if key == "tally"]
        for key, why in properties:
            if key == "not shown":
                self.missing[why] = self.missing.get(why, 0) + 1
        for number in told.get("promises", ()):
            shown = self.shown[number]
            shown.seconds += sum(part.duration for part in parts)
            shown.failures += has_failed
            if "mutation" in told:
                shown.mutations += 1
                shown.noticed += not has_failed
            else:
                shown.tests += 1
                shown.add(counts)
        self.done += 1
        if has_failed:
            self.failures += 1
            self.failed.append(parts[-1].nodeid)
            self.screen.write(f"\n  ✗ {parts[-1].nodeid}\n")
        self._draw()

    def _draw(self):
        """A bar on a terminal; elsewhere a line for each tenth."""
        share = self.done / max(self.total, self.done)
        told = f"{self.done}/{self.total} · {self.failures} failed · {_clock(self.seconds)}"
        if self.screen.isatty():
            full = int(share * WIDTH)
            self.screen.write(f"\r\x1b[K  {'█' * full}{'░' * (WIDTH - full)} {told}")
        elif int(share * 10) > self._drawn:
            self._drawn = int(share * 10)
            self.screen.write(f"  {told}\n")
        self.screen.flush()


def _clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


ABOUT = """\
# What Holdfast promises, and what was tried

Written by `make promises`, which runs all of it over the whole product: every command that writes,
every hook and tool over MCP, loops and initiatives, all record formats, the ledger, the project's
memory and the graph. A mutation replaces a function by one that breaks the promise: the promise's
test has to fail with it.

The run below took {minutes} minutes, with effort {effort} and seed {seed}. The same again:
`make promises ARGS="--effort {effort} --seed {seed}"`.

| # | promise | tried | mutations noticed | failures | seconds |
|---|---|---|---|---|---|
"""


def page(report, asked):
    """The table as a page of the documentation."""
    minutes = _clock(report.seconds)
    lines = [ABOUT.format(minutes=minutes, effort=asked.effort, seed=asked.seed).rstrip()]
    for number, text in PROMISES.items():
        shown = report.shown[number]
        noticed = f"{shown.noticed} of {shown.mutations}"
        cells = [number, text, shown.told(), noticed, shown.failures, f"{shown.seconds:.0f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "A test that shows two promises counts for both; seconds are those of two cores."]
    lines += _months(report)
    lines += [
        f"Not shown on this machine: {why} ({times})." for why, times in report.missing.items()
    ]
    return "\n".join(lines) + "\n"


def _months(report):
    """What happened in all months together."""
    found = next((one.tried[MONTHS] for one in report.shown.values() if MONTHS in one.tried), None)
    return [f"In the {MONTHS}: {_numbers(found)}."] if found else []


def table(report):
    """The same for a terminal."""
    for number, text in PROMISES.items():
        shown = report.shown[number]
        sign = "✗" if shown.failures or not shown.tests else "✓"
        yield f"{sign} {number:2}  {text}"
        noticed = f"mutations {shown.noticed}/{shown.mutations}"
        yield f"      {shown.told()}"
        yield f"      {noticed} · failures {shown.failures} · {shown.seconds:.0f} s"
    yield from _months(report)
    for why, times in report.missing.items():
        yield f"NOT SHOWN ({times}): {why}"


def arguments():
    parser = argparse.ArgumentParser(description="Show every promise of Holdfast.")
    parser.add_argument("--effort", default=USUAL, help="how many times a quick run, or full")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**8))
    parser.add_argument("--workers", default="auto", help="processes that run tests")
    parser.add_argument("-k", dest="only", default="", help="only tests with such names; no page")
    asked = parser.parse_args()
    if asked.effort != "full" and not (asked.effort.isdecimal() and int(asked.effort)):
        parser.error("--effort is a number from 1, or full")
    return asked


def main():
    asked = arguments()
    os.environ.update(HOLDFAST_PROMISES=asked.effort, HOLDFAST_SEED=str(asked.seed))
    os.chdir(ROOT)
    os.makedirs(os.path.dirname(LOG), exist_ok=True)
    print(f"seed {asked.seed}, effort {asked.effort}; the tests' own words: build/promises.log")
    code, report = _run(asked)
    print()
    print("\n".join(table(report)))
    print(f"{report.done} tests, {report.failures} failed, {_clock(report.seconds)} minutes")
    if report.failures:
        print("\n".join(report.failed))
        print(f'again: make promises ARGS="--effort {asked.effort} --seed {asked.seed}"')
    if not asked.only:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page(report, asked))
    return int(code)


def _run(asked):
    """Pytest's own output goes to a file, so that the bar has the terminal for itself."""
    import pytest

    screen = os.fdopen(os.dup(2), "w")
    report = Report(screen)
    words = ["-m", "promise", "-n", asked.workers, "--dist", "worksteal", "-k", asked.only]
    words += [f"--hypothesis-seed={asked.seed}", "-q", "tests"]
    out, err = os.dup(1), os.dup(2)
    with open(LOG, "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            code = pytest.main(words, plugins=[report])
        finally:
            sys.stdout.flush()
            os.dup2(out, 1)
            os.dup2(err, 2)
    return code, report


if __name__ == "__main__":
    sys.path.insert(0, TESTS)
    sys.exit(main())
