"""vitest: the default reporter, the verbose one and the tree, from version 1 on.

Failed tests are listed with full names at the end. Passed tests are named by the verbose reporter,
and by the others as far as they print the suites: version 4 omits them, so only tests outside
suites have names. A file or suite that could not run counts as a failed test of its name. Skipped
and todo tests are counted together.
"""

from __future__ import annotations

import re

from holdfast.evidence.runners.test_counts import Tally, cut

SUMMARY = r" ++Tests  [ \dn]"
OPENING = r" RUN  v\d"

_IS_SUMMARY = re.compile(SUMMARY)
_FAILURE = " FAIL  "
_RULE = "⎯ "
_SUITES = "Failed Suites "
_UNCAUGHT = re.compile(r"Unhandled (?!Errors$)|Uncaught ")
_PASSED, _FAILED, _OPEN = "✓×❯"  # noqa: RUF001 - these are what it prints
_MARKED = re.compile(rf"( ++)([{_PASSED}{_FAILED}{_OPEN}]) ")
_TESTS_OF_FILE = re.compile(r" \(\d++ tests?+[ )]")
_TESTS_OF_SUITE = re.compile(r" \(\d++\)$")
_EXTRA = re.compile(r" (?:\d++ms|\((?:retry|repeat) x\d++\)|\d++ MB heap used)$")
_MAX_EXTRAS = 4
_BETWEEN = " > "
_COUNTED = {"failed": "failed", "passed": "passed", "skipped": "skipped", "todo": "skipped"}


def parse(lines: list[str]) -> Tally:
    reader = _Reader()
    for line in lines:
        reader.read(line)
    return reader.finish()


class _Reader:
    """Keeps track of the file and the suites in a tree."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._path: list[str] = []
        self._crossed: list[str] = []
        self._not_run = 0
        self._is_failure = False

    def finish(self) -> Tally:
        # The list at the end has full names; marks are used only if the run was stopped before.
        for name in [] if self._tally.failing else self._crossed:
            self._tally.fail(name)
        if self._tally.counts:
            self._tally.count("failed", self._not_run)
        return self._tally

    def read(self, line: str) -> None:
        marked = _MARKED.match(line)
        if line.startswith(_FAILURE):
            self._fail(line[7:].strip())
        elif self._is_failure and line.strip():
            self._is_failure = False
            self._tally.blame(line)
        elif marked is not None:
            self._read_tree((len(marked[1]) - 1) // 2, marked[2], line[marked.end() :])
        elif line.startswith(_RULE[0]):
            self._read_heading(line)
        elif _IS_SUMMARY.match(line):
            self._count(line)

    def _fail(self, name: str) -> None:
        self._is_failure = True
        if _BETWEEN not in name:
            name = name.partition(" [ ")[0]
        self._tally.fail(name)

    def _read_heading(self, line: str) -> None:
        heading = line.strip(_RULE)
        number = heading.removeprefix(_SUITES)
        if number != heading and number.isdecimal():
            self._not_run = int(number[:9])
        elif _UNCAUGHT.match(heading):
            self._is_failure = True

    def _read_tree(self, depth: int, mark: str, text: str) -> None:
        """Read a line of the tree, two spaces per suite; the verbose reporter has full names."""
        file, suite = _TESTS_OF_FILE.search(text), _TESTS_OF_SUITE.search(text)
        del self._path[depth:]
        if depth == 0 and file is not None:
            self._path = [cut(text[: file.start()].rstrip())]
        elif depth == len(self._path):
            if depth and suite is not None:
                self._path.append(cut(text[: suite.start()]))
            else:
                self._mark(mark, _BETWEEN.join([*self._path, _without_extras(text)]))

    def _mark(self, mark: str, name: str) -> None:
        if _BETWEEN not in name:
            return
        if mark == _PASSED:
            self._tally.succeed(name)
        elif mark == _FAILED:
            self._crossed.append(name)

    def _count(self, line: str) -> None:
        self._tally.reset_counts()
        for part in line.partition("Tests")[2].partition("(")[0].split(" | "):
            number, _, kind = part.strip().partition(" ")
            if kind in _COUNTED and number.isdecimal():
                self._tally.count(_COUNTED[kind], int(number[:9]))


def _without_extras(text: str) -> str:
    """Return a name without duration, retries and memory."""
    for _ in range(_MAX_EXTRAS):
        extra = _EXTRA.search(text)
        if extra is None:
            break
        text = text[: extra.start()].rstrip()
    return text
