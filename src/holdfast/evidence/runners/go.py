"""go: ``go test``, plain, with ``-v`` or with ``-json``, for any number of packages.

Without ``-v`` the output names only failed tests, and there is no count of passed ones. A package
that fails without a failed test (build error, exit, timeout) counts as a failed test of its name.
"""

from __future__ import annotations

import json
import re

from holdfast.evidence.runners.test_counts import Tally

_EVENT = r'\{"(?:Time":"[^"\n]*+","|ImportPath":"[^"\n]*+",")?+Action":"'
SUMMARY = rf"(?:ok  |FAIL|\?   )\t\S|{_EVENT}"
OPENING = r"=== RUN   \S"

_IS_EVENT = re.compile(_EVENT)
_VERDICT = re.compile(r"--- (PASS|FAIL|SKIP): (\S++) \(\d++\.\d++s\)$")
_PACKAGE = re.compile(r"(ok  |FAIL)\t(\S++)")
_LOG = re.compile(r" ++[^\s:]++(?<=\.go):\d++: ")
_DOES_NOT_BUILD = re.compile(r"(?:vet: )?+[^\s:]++(?<=\.go):\d++:\d++: ")
_KINDS = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def parse(lines: list[str]) -> Tally:
    reader = _Reader()
    for line in lines:
        if line.startswith("{") and _IS_EVENT.match(line):
            reader.read_event(line)
        else:
            reader.read("", line)
    return reader.tally


class _Reader:
    """Keeps the state of each package apart: events of parallel packages are mixed."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.tally.count("failed", 0)
        self._has_failed: set[str] = set()
        self._logged: dict[str, str] = {}
        self._is_failing: set[str] = set()

    def read_event(self, line: str) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        output, package = event.get("Output"), event.get("Package")
        if isinstance(output, str):
            self.read(package if isinstance(package, str) else "", output.rstrip("\n"))

    def read(self, package: str, line: str) -> None:
        verdict = _VERDICT.search(line) if "--- " in line else None
        if verdict is not None:
            self._judge(package, verdict[1], verdict[2])
        elif line.startswith("=== "):
            self._begin(package)
        elif _LOG.match(line):
            self._note(package, line)
        elif line.startswith("panic: ") or _DOES_NOT_BUILD.match(line):
            self.tally.blame(line)
        elif line.startswith(("ok", "FAIL")):
            self._read_package(package, line)

    def _begin(self, package: str) -> None:
        """Handle the start of a test. Only ``-v`` prints it; then passed tests are listed too."""
        self._logged.pop(package, None)
        self._is_failing.discard(package)
        self.tally.count("passed", 0)
        self.tally.count("skipped", 0)

    def _judge(self, package: str, verdict: str, name: str) -> None:
        self.tally.count(_KINDS[verdict], 1)
        if verdict == "PASS":
            self.tally.succeed(name)
        elif verdict == "FAIL":
            self.tally.fail(name)
            self._has_failed.add(package)
            # With -v, a test's log comes before the verdict; without, after it.
            self.tally.blame(self._logged.get(package, ""))
            self._is_failing.add(package)

    def _note(self, package: str, line: str) -> None:
        if package in self._is_failing:
            self.tally.blame(line)
        self._logged.setdefault(package, line)

    def _read_package(self, package: str, line: str) -> None:
        end = _PACKAGE.match(line)
        if end is None:
            return
        if end[1] == "FAIL" and package not in self._has_failed:
            self.tally.count("failed", 1)
            self.tally.fail(end[2])
        self._has_failed.discard(package)
        self._is_failing.discard(package)
        self._logged.pop(package, None)
