"""jest: the default reporter, which names only failed tests, and the verbose one.

A file that could not run counts as a failed test of its name. Skipped and todo tests are counted
together.
"""

from __future__ import annotations

import re

from holdfast.evidence.runners.test_counts import Tally, cut

SUMMARY = r"Tests: ++\d{1,9}+ [a-z]"
OPENING = r"(?:PASS|FAIL) \S++(?:(?<=[jt]s)|(?<=[jt]sx))(?: |$)"

_IS_SUMMARY = re.compile(SUMMARY)
_FILE = re.compile(r" ?+(?:PASS|FAIL) ++")
_TOOK = re.compile(r" \(\d++(?:\.\d++)?+ m?+s\)$")
_PASSED, _FAILED = "✓√", "✕×"  # noqa: RUF001 - these are what it prints, the latter on Windows
_TEST = re.compile(rf" ++([{_PASSED}{_FAILED}]) ")
_SKIPPED = re.compile(r" ++[○✎] ")
_FAILURE = "  ● "
_CONSOLE = "Console"
_NOT_RUN = "Test suite failed to run"
_REPEATED = "Summary of all failing tests"
_BETWEEN = " › "  # noqa: RUF001 - the same
_COUNTED = {"failed": "failed", "passed": "passed", "skipped": "skipped", "todo": "skipped"}


def parse(lines: list[str]) -> Tally:
    reader = _Reader()
    for line in lines:
        reader.read(line)
    if reader.tally.counts:
        reader.tally.count("failed", len(reader.not_run))
    return reader.tally


class _Reader:
    """Keeps track of the file, and of the suites in the verbose reporter."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.not_run: set[str] = set()
        self._file = ""
        self._suites: list[str] | None = None
        self._is_failure = False
        self._is_repeated = False

    def read(self, line: str) -> None:
        if _IS_SUMMARY.match(line):
            self._count(line)
        elif line == _REPEATED:
            # The paths differ from those above, so use these names only if there are no others.
            self._is_repeated = bool(self.tally.failing)
        elif self._is_repeated:
            return
        elif _FILE.match(line):
            self._file = cut(_without_time(" ".join(line.split()[1:])))
            self._suites = []
        elif line.startswith(_FAILURE) and line[4:5].strip():
            self._fail(line[4:])
        elif not line.strip():
            self._suites = None
        elif self._suites is not None:
            self._read_tree(self._suites, line)
        elif self._is_failure:
            self._is_failure = False
            self.tally.blame(line)

    def _count(self, line: str) -> None:
        self.tally.reset_counts()
        for part in line.partition(":")[2].split(", "):
            number, _, kind = part.strip().partition(" ")
            if kind in _COUNTED and number.isdecimal():
                self.tally.count(_COUNTED[kind], int(number[:9]))

    def _fail(self, name: str) -> None:
        self._suites = None
        self._is_failure = name != _CONSOLE
        if name == _NOT_RUN:
            self.not_run.add(self._file)
            self.tally.fail(self._file)
        elif name != _CONSOLE:
            self.tally.fail(self._file + _BETWEEN + name)

    def _read_tree(self, suites: list[str], line: str) -> None:
        """Read a line of the verbose tree: two spaces per suite."""
        text = line.lstrip(" ")
        del suites[max(0, (len(line) - len(text)) // 2 - 1) :]
        test = _TEST.match(line)
        if test is None:
            if not _SKIPPED.match(line):
                suites.append(cut(text))
            return
        name = _BETWEEN.join([self._file, *suites, _without_time(line[test.end() :])])
        if test[1] in _PASSED:
            self.tally.succeed(name)
        else:
            self.tally.fail(name)


def _without_time(text: str) -> str:
    took = _TOOK.search(text)
    return text[: took.start()] if took else text
