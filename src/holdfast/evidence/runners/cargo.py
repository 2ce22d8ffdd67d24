"""cargo: the unit tests, integration tests and documentation tests of one run.

Each binary prints a result of its own; they are added up. A binary that crashed has the name that
cargo gives it, such as ``--test whole``, and counts as one failed test. Code that does not compile
gives an error and no tests.
"""

from __future__ import annotations

import re

from holdfast.evidence.runners.test_counts import Tally

_RESULT = r"test result: (?:ok|FAILED)\. "
SUMMARY = rf"{_RESULT}\d|error: could not compile "
OPENING = r"running \d++ tests?$"

_COUNTS = re.compile(rf"{_RESULT}(\d{{1,9}}+) passed; (\d{{1,9}}+) failed; (\d{{1,9}}+) ignored;")
_KINDS = ("passed", "failed", "skipped")
_SUFFIXES = (" - should panic", " - compile fail", " - compile")
_QUIET_FAILURE = " --- FAILED"
_OUTPUT_OF = "---- "
_OLD_PANIC = "panicked at '"
_ERRORS = ("error: ", "error[", "Error: ")
_TARGET = re.compile(r"error: (?:test|doctest) failed, to rerun pass [`']([^`']++)")
_DIED = "  process didn't exit successfully"
_NOT_THE_CAUSE = re.compile(
    r"error: (?:test failed|doctest failed|could not compile|\d++ targets? failed)"
)


def parse(lines: list[str]) -> Tally:
    reader = _Reader()
    for line in lines:
        reader.read(line)
    return reader.tally


class _Reader:
    """Keeps track of the section and the test that a line belongs to."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._unfinished = ""
        self._is_listing = False
        self._is_output = False
        self._has_panicked = False
        self._target = ""

    def read(self, line: str) -> None:
        counts = _COUNTS.match(line)
        if counts is not None:
            self._is_listing = self._is_output = False
            for kind, number in zip(_KINDS, counts.groups(), strict=True):
                self.tally.count(kind, int(number))
        elif line.startswith("test ") and " ... " in line:
            name, _, verdict = line[5:].partition(" ... ")
            self._judge(name, verdict)
        elif self._unfinished and line in ("ok", "FAILED"):
            self._judge(self._unfinished, line)
        elif line.endswith(_QUIET_FAILURE):
            self._judge(line.removesuffix(_QUIET_FAILURE), "FAILED")
        elif line == "failures:":
            self._is_listing, self._is_output = True, False
        elif self._is_listing and line.strip():
            self._list(line)
        elif self._is_output:
            self._look_for_panic(line)
        elif line.startswith(_ERRORS):
            self._read_error(line)
        elif line.startswith(_DIED) and self._target:
            self.tally.count("failed", 1)
            self.tally.fail(self._target)
            self.tally.blame(line)

    def _judge(self, name: str, verdict: str) -> None:
        """Record a verdict, or remember the name if the test's output comes before the verdict."""
        self._unfinished = ""
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        if verdict.startswith("ok"):
            self.tally.succeed(name)
        elif verdict.startswith("FAILED"):
            self.tally.fail(name)
        elif not verdict.startswith("ignored"):
            self._unfinished = name

    def _list(self, line: str) -> None:
        """Record a failed test. ``failures:`` precedes both the output and the list of names."""
        if line.startswith("    "):
            self.tally.fail(line.strip())
        else:
            self._is_listing = False
            self._is_output = line.startswith(_OUTPUT_OF)

    def _read_error(self, line: str) -> None:
        target = _TARGET.match(line)
        self._target = target[1] if target else ""
        if not _NOT_THE_CAUSE.match(line):
            self.tally.blame(line)

    def _look_for_panic(self, line: str) -> None:
        if self._has_panicked and line.strip():
            self.tally.blame(line)
        self._has_panicked = " panicked at " in line and line.endswith(":")
        if _OLD_PANIC in line:
            self.tally.blame(line.partition(_OLD_PANIC)[2].rpartition("', ")[0])
        elif line.startswith(_ERRORS):
            self.tally.blame(line)
