"""Parse the output of a test run: which tests failed and passed, how many, and why.

Each runner has a ``Reader``. A runner is recognised by its summary; if the run was stopped before
that, by its first lines. If the output has several runs, the last summary counts, and everything up
to the summary of the run before is skipped. Only cargo and go print several summaries in one run,
one for each binary or package; they are added up until another runner's summary.

A test can print whatever a runner prints, so a parsed output explains an exit code and never
replaces it. Each line is handled once, and every quantifier is possessive: parsing takes time in
proportion to the length of the output. The tests have real output of several versions of each
runner.
"""

from __future__ import annotations

import json
import re

from holdfast.evidence.run import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields

MAX_NAMES = 1_000
MAX_NAME_CHARS = 500
_BLANK_LINES = re.compile(r"\n{3,}+")
_UNITTEST_RAN = re.compile(r"^Ran (\d++) tests?+ in ", re.MULTILINE)
_COUNTED = {
    "failed": "failed", "error": "failed", "errors": "failed", "passed": "passed",
    "skipped": "skipped", "todo": "skipped",
}  # fmt: skip
"""The words of summaries, and the kind of test that each counts."""


def found_no_test(output: str) -> bool:
    """Return True if every run of unittest in the output found no test: it ends as if all passed.

    Other runners fail then.
    """
    numbers = _UNITTEST_RAN.findall(plain(output))
    return bool(numbers) and not any(number.strip("0") for number in numbers)


def parse(output: str) -> Fields:
    """Return the fields that the output has; an empty dictionary if no runner is recognised.

    - ``runner``: its name
    - ``failing``, ``passing``: names of tests; a file or package that could not run is failing
    - ``failed``, ``passed``, ``skipped``: counts; ``failed`` includes what could not run
    - ``error``: the first line with an error message

    A name is as its runner prints it: ``tests/test_a.py::test_x[1]``, ``module::test_x``,
    ``TestX/sub``, ``a.test.js > suite > name``.
    """
    text = _BLANK_LINES.sub("\n\n", plain(output))
    name, start = _last_run(text)
    if name is None:
        return {}
    reader = _READERS[name]()
    for line in text[start:].split("\n"):
        reader.read(line)
    reader.finish()
    return {"runner": name, **reader.fields()}


def _last_run(text: str) -> tuple[str | None, int]:
    """Return the runner of the last summary, and where its run may begin."""
    name, start, end = None, 0, 0
    for summary in _SUMMARY.finditer(text):
        if name is not None and (name != summary.lastgroup or not _READERS[name].adds_up):
            start = end
        name, end = summary.lastgroup, summary.end()
    if name is None:
        for opening in _OPENING.finditer(text):
            name = opening.lastgroup
    return name, start


def _cut(name: str) -> str:
    """Cut a name; also used on prefixes, which would be repeated for every test."""
    return name[:MAX_NAME_CHARS]


class RunnerReader:
    """Collect names and counts of tests from the lines of one runner.

    A count that the output does not have is left out.
    """

    summary = opening = ""
    """Expressions for a line at the end of a run, and for an earlier one."""
    adds_up = False
    """True if one run has several summaries."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.error = ""
        self.failing: dict[str, None] = {}
        self.passing: dict[str, None] = {}

    def read(self, line: str) -> None:
        """Read one line of the run."""
        raise NotImplementedError

    def finish(self) -> None:
        """Finish after the last line."""

    def fail(self, name: str) -> None:
        self.failing[_cut(name)] = None

    def succeed(self, name: str) -> None:
        self.passing[_cut(name)] = None

    def blame(self, line: str) -> None:
        """Keep the first line with an error message."""
        self.error = self.error or _cut(line.strip())

    def count(self, kind: str, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number

    def read_counts(self, parts: Iterable[str]) -> None:
        """Read a summary such as ``2 failed``, ``1 passed``; kinds that it does not name are 0."""
        self.counts = dict.fromkeys(("failed", "passed", "skipped"), 0)
        for part in parts:
            number, _, word = part.strip().partition(" ")
            if word in _COUNTED and number.isdecimal():
                self.count(_COUNTED[word], int(number[:9]))

    def fields(self) -> Fields:
        # A test may pass and fail in its teardown: it counts as passing only if it never failed.
        passing = [name for name in self.passing if name not in self.failing]
        fields = {
            "failing": list(self.failing)[:MAX_NAMES],
            "passing": passing[:MAX_NAMES],
            "error": self.error,
        }
        return {**{key: value for key, value in fields.items() if value}, **self.counts}


# pytest

_PYTEST_WORDS = "failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests"
_PYTEST_COUNT = r"\d{1,9}+ (?:subtests )?+[a-z]++"
_PYTEST_SUMMARY = re.compile(
    rf"(?:=++ )?+(?:no tests ran|(?=\d++ (?:{_PYTEST_WORDS})\b){_PYTEST_COUNT}"
    rf"(?:, {_PYTEST_COUNT})*+) in \d++\.\d++s"
)
_PYTEST_SECTIONS = {
    "", "test session starts", "ERRORS", "FAILURES", "PASSES", "XPASSES", "XFAILURES",
    "warnings summary", "short test summary info",
}  # fmt: skip
_PYTEST_VERDICT = re.compile(r" (PASSED|FAILED|ERROR) *+(?:\[[ \d/%]++\])?+ *+$")
_PYTEST_WORKER = re.compile(r"\[gw\d++\] (?:\[ *+\d++%\] )?+(PASSED|FAILED|ERROR) ")
_PYTEST_AFTER_PARAMETERS = "] - "


class PytestReader(RunnerReader):
    """pytest: quiet, verbose, with ``-rA``, and with xdist.

    Names of failed tests are in the short summary. Names of passed tests are printed only with
    ``-v``, ``-rA`` or ``-rp``. Errors, such as a fixture or a file that fails, count as failed.
    """

    summary = _PYTEST_SUMMARY.pattern
    opening = r"=++ (?:test session starts|short test summary info) ="

    def __init__(self) -> None:
        super().__init__()
        self._section = ""

    def read(self, line: str) -> None:
        if _PYTEST_SUMMARY.match(line):
            self.read_counts(line.strip("= ").rpartition(" in ")[0].split(", "))
        elif line.startswith("==") and line.strip("= ") in _PYTEST_SECTIONS:
            self._section = line.strip("= ")
        elif line.startswith("ERROR: "):
            self.blame(line[7:])
        elif self._section in ("ERRORS", "FAILURES") and line.startswith("E  "):
            self.blame(line[1:])
        elif self._section == "short test summary info":
            self._read_short(line)
        elif self._section in ("", "test session starts") and "::" in line:
            self._read_progress(line)

    def _read_short(self, line: str) -> None:
        verdict, _, test = line.partition(" ")
        if verdict == "PASSED":
            self.succeed(test)
        elif verdict in ("FAILED", "ERROR"):
            self._fail_with_reason(test)
        elif line.startswith("SUBFAILED") and "::" in line:
            # The subtest's description comes first; the test's id is the word with the file in it.
            self._fail_with_reason(line[line.rfind(" ", 0, line.index("::")) + 1 :])

    def _fail_with_reason(self, text: str) -> None:
        """Record a failed test from ``id`` or ``id - reason``."""
        end, bracket = text.find(" - "), text.find("[")
        if 0 <= bracket < end:
            end = _end_of_parameters(text, bracket)
        if end < 0:
            end = len(text)
        self.fail(text[:end])
        self.blame(text[end + 3 :])

    def _read_progress(self, line: str) -> None:
        worker = _PYTEST_WORKER.match(line)
        verdict = worker or _PYTEST_VERDICT.search(line)
        if verdict is None:
            return
        name = line[: verdict.start()] if worker is None else line[worker.end() :].rstrip()
        if verdict[1] == "PASSED":
            self.succeed(name)
        else:
            self.fail(name)


def _end_of_parameters(text: str, start: int) -> int:
    """Return the end of the parameters, which may contain brackets and the separator itself."""
    first = end = text.find(_PYTEST_AFTER_PARAMETERS, start)
    depth = 0
    while end >= 0:
        depth += text.count("[", start, end + 1) - text.count("]", start, end + 1)
        if depth == 0:
            return end + 1
        start = end + 1
        end = text.find(_PYTEST_AFTER_PARAMETERS, start)
    return first + 1 or len(text)


# cargo

_CARGO_RESULT = r"test result: (?:ok|FAILED)\. "
_CARGO_COUNTS = re.compile(
    rf"{_CARGO_RESULT}(\d{{1,9}}+) passed; (\d{{1,9}}+) failed; (\d{{1,9}}+) ignored;"
)
_CARGO_SUFFIXES = (" - should panic", " - compile fail", " - compile")
_CARGO_QUIET_FAILURE = " --- FAILED"
_CARGO_OLD_PANIC = "panicked at '"
_CARGO_ERRORS = ("error: ", "error[", "Error: ")
_CARGO_TARGET = re.compile(r"error: (?:test|doctest) failed, to rerun pass [`']([^`']++)")
_CARGO_NOT_THE_CAUSE = re.compile(
    r"error: (?:test failed|doctest failed|could not compile|\d++ targets? failed)"
)


class CargoReader(RunnerReader):
    """cargo: the unit tests, integration tests and documentation tests of one run.

    Each binary prints a result of its own; they are added up. A binary that crashed has the name
    that cargo gives it, such as ``--test whole``, and counts as one failed test. Code that does not
    compile gives an error and no tests.
    """

    summary = rf"{_CARGO_RESULT}\d|error: could not compile "
    opening = r"running \d++ tests?$"
    adds_up = True

    def __init__(self) -> None:
        super().__init__()
        self._unfinished = ""
        self._is_listing = False
        self._is_output = False
        self._has_panicked = False
        self._target = ""

    def read(self, line: str) -> None:
        counts = _CARGO_COUNTS.match(line)
        if counts is not None:
            self._is_listing = self._is_output = False
            for kind, number in zip(("passed", "failed", "skipped"), counts.groups(), strict=True):
                self.count(kind, int(number))
        elif line.startswith("test ") and " ... " in line:
            name, _, verdict = line[5:].partition(" ... ")
            self._judge(name, verdict)
        elif self._unfinished and line in ("ok", "FAILED"):
            self._judge(self._unfinished, line)
        elif line.endswith(_CARGO_QUIET_FAILURE):
            self._judge(line.removesuffix(_CARGO_QUIET_FAILURE), "FAILED")
        elif line == "failures:":
            self._is_listing, self._is_output = True, False
        elif self._is_listing and line.strip():
            # The heading precedes both the output of failed tests and the list of their names.
            if line.startswith("    "):
                self.fail(line.strip())
            else:
                self._is_listing = False
                self._is_output = line.startswith("---- ")
        elif self._is_output:
            self._look_for_panic(line)
        elif line.startswith(_CARGO_ERRORS):
            target = _CARGO_TARGET.match(line)
            self._target = target[1] if target else ""
            if not _CARGO_NOT_THE_CAUSE.match(line):
                self.blame(line)
        elif line.startswith("  process didn't exit successfully") and self._target:
            self.count("failed", 1)
            self.fail(self._target)
            self.blame(line)

    def _judge(self, name: str, verdict: str) -> None:
        """Record a verdict, or remember the name if the test's output comes before the verdict."""
        self._unfinished = ""
        for suffix in _CARGO_SUFFIXES:
            name = name.removesuffix(suffix)
        if verdict.startswith("ok"):
            self.succeed(name)
        elif verdict.startswith("FAILED"):
            self.fail(name)
        elif not verdict.startswith("ignored"):
            self._unfinished = name

    def _look_for_panic(self, line: str) -> None:
        if self._has_panicked and line.strip():
            self.blame(line)
        self._has_panicked = " panicked at " in line and line.endswith(":")
        if _CARGO_OLD_PANIC in line:
            self.blame(line.partition(_CARGO_OLD_PANIC)[2].rpartition("', ")[0])
        elif line.startswith(_CARGO_ERRORS):
            self.blame(line)


# go

_GO_EVENT = re.compile(r'\{"(?:Time":"[^"\n]*+","|ImportPath":"[^"\n]*+",")?+Action":"')
_GO_VERDICT = re.compile(r"--- (PASS|FAIL|SKIP): (\S++) \(\d++\.\d++s\)$")
_GO_PACKAGE = re.compile(r"(ok  |FAIL)\t(\S++)")
_GO_LOG = re.compile(r" ++[^\s:]++(?<=\.go):\d++: ")
_GO_DOES_NOT_BUILD = re.compile(r"(?:vet: )?+[^\s:]++(?<=\.go):\d++:\d++: ")
_GO_KINDS = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


class GoReader(RunnerReader):
    """go: ``go test``, plain, with ``-v`` or with ``-json``, for any number of packages.

    Without ``-v`` the output names only failed tests, and there is no count of passed ones. A
    package that fails without a failed test (build error, exit, timeout) counts as a failed test of
    its name. The state of each package is kept apart: events of parallel packages are mixed.
    """

    summary = rf"(?:ok  |FAIL|\?   )\t\S|{_GO_EVENT.pattern}"
    opening = r"=== RUN   \S"
    adds_up = True

    def __init__(self) -> None:
        super().__init__()
        self.count("failed", 0)
        self._has_failed: set[str] = set()
        self._logged: dict[str, str] = {}
        self._is_failing: set[str] = set()

    def read(self, line: str) -> None:
        if not (line.startswith("{") and _GO_EVENT.match(line)):
            self._read_line("", line)
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        output, package = event.get("Output"), event.get("Package")
        if isinstance(output, str):
            self._read_line(package if isinstance(package, str) else "", output.rstrip("\n"))

    def _read_line(self, package: str, line: str) -> None:
        verdict = _GO_VERDICT.search(line) if "--- " in line else None
        if verdict is not None:
            self._judge(package, verdict[1], verdict[2])
        elif line.startswith("=== "):
            # A test starts. Only -v prints it, and then passed tests are listed, too.
            self._logged.pop(package, None)
            self._is_failing.discard(package)
            self.count("passed", 0)
            self.count("skipped", 0)
        elif _GO_LOG.match(line):
            if package in self._is_failing:
                self.blame(line)
            self._logged.setdefault(package, line)
        elif line.startswith("panic: ") or _GO_DOES_NOT_BUILD.match(line):
            self.blame(line)
        elif (end := _GO_PACKAGE.match(line)) is not None:
            if end[1] == "FAIL" and package not in self._has_failed:
                self.count("failed", 1)
                self.fail(end[2])
            self._has_failed.discard(package)
            self._is_failing.discard(package)
            self._logged.pop(package, None)

    def _judge(self, package: str, verdict: str, name: str) -> None:
        self.count(_GO_KINDS[verdict], 1)
        if verdict == "PASS":
            self.succeed(name)
        elif verdict == "FAIL":
            self.fail(name)
            self._has_failed.add(package)
            # With -v, a test's log comes before the verdict; without, after it.
            self.blame(self._logged.get(package, ""))
            self._is_failing.add(package)


# jest

_JEST_SUMMARY = re.compile(r"Tests: ++\d{1,9}+ [a-z]")
_JEST_FILE = re.compile(r" ?+(?:PASS|FAIL) ++")
_JEST_TOOK = re.compile(r" \(\d++(?:\.\d++)?+ m?+s\)$")
_JEST_PASSED, _JEST_FAILED = "✓√", "✕×"  # noqa: RUF001 - what it prints, the latter on Windows
_JEST_TEST = re.compile(rf" ++([{_JEST_PASSED}{_JEST_FAILED}]) ")
_JEST_SKIPPED = re.compile(r" ++[○✎] ")
_JEST_BETWEEN = " › "  # noqa: RUF001 - what it prints


class JestReader(RunnerReader):
    """jest: the default reporter, which names only failed tests, and the verbose one.

    A file that could not run counts as a failed test of its name. Skipped and todo tests are
    counted together.
    """

    summary = _JEST_SUMMARY.pattern
    opening = r"(?:PASS|FAIL) \S++(?:(?<=[jt]s)|(?<=[jt]sx))(?: |$)"

    def __init__(self) -> None:
        super().__init__()
        self._not_run: set[str] = set()
        self._file = ""
        self._suites: list[str] | None = None
        """The suites around a line of the verbose reporter; ``None`` outside its tree."""
        self._is_failure = False
        self._is_repeated = False

    def finish(self) -> None:
        if self.counts:
            self.count("failed", len(self._not_run))

    def read(self, line: str) -> None:
        if _JEST_SUMMARY.match(line):
            self.read_counts(line.partition(":")[2].split(", "))
        elif line == "Summary of all failing tests":
            # The paths differ from those above, so use these names only if there are no others.
            self._is_repeated = bool(self.failing)
        elif self._is_repeated:
            return
        elif _JEST_FILE.match(line):
            self._file = _cut(_without_time(" ".join(line.split()[1:])))
            self._suites = []
        elif line.startswith("  ● ") and line[4:5].strip():
            self._suites = None
            self._is_failure = line[4:] != "Console"
            if line[4:] == "Test suite failed to run":
                self._not_run.add(self._file)
                self.fail(self._file)
            elif self._is_failure:
                self.fail(self._file + _JEST_BETWEEN + line[4:])
        elif not line.strip():
            self._suites = None
        elif self._suites is not None:
            self._read_tree(self._suites, line)
        elif self._is_failure:
            self._is_failure = False
            self.blame(line)

    def _read_tree(self, suites: list[str], line: str) -> None:
        """Read a line of the verbose tree: two spaces per suite."""
        text = line.lstrip(" ")
        del suites[max(0, (len(line) - len(text)) // 2 - 1) :]
        test = _JEST_TEST.match(line)
        if test is None:
            if not _JEST_SKIPPED.match(line):
                suites.append(_cut(text))
            return
        name = _JEST_BETWEEN.join([self._file, *suites, _without_time(line[test.end() :])])
        if test[1] in _JEST_PASSED:
            self.succeed(name)
        else:
            self.fail(name)


def _without_time(text: str) -> str:
    took = _JEST_TOOK.search(text)
    return text[: took.start()] if took else text


# vitest

_VITEST_SUMMARY = re.compile(r" ++Tests  [ \dn]")
_VITEST_SUITES = "Failed Suites "
_VITEST_UNCAUGHT = re.compile(r"Unhandled (?!Errors$)|Uncaught ")
_VITEST_PASSED, _VITEST_FAILED, _VITEST_OPEN = "✓×❯"  # noqa: RUF001 - what it prints
_VITEST_MARKED = re.compile(rf"( ++)([{_VITEST_PASSED}{_VITEST_FAILED}{_VITEST_OPEN}]) ")
_VITEST_TESTS_OF_FILE = re.compile(r" \(\d++ tests?+[ )]")
_VITEST_TESTS_OF_SUITE = re.compile(r" \(\d++\)$")
_VITEST_EXTRA = re.compile(r" (?:\d++ms|\((?:retry|repeat) x\d++\)|\d++ MB heap used)$")
_VITEST_MAX_EXTRAS = 4
_VITEST_BETWEEN = " > "


class VitestReader(RunnerReader):
    """vitest: the default reporter, the verbose one and the tree, from version 1 on.

    Failed tests are listed with full names at the end. Passed tests are named by the verbose
    reporter, and by the others as far as they print the suites: version 4 omits them, so only tests
    outside suites have names. A file or suite that could not run counts as a failed test of its
    name. Skipped and todo tests are counted together.
    """

    summary = _VITEST_SUMMARY.pattern
    opening = r" RUN  v\d"

    def __init__(self) -> None:
        super().__init__()
        self._path: list[str] = []
        """The file and the suites around a line of a tree."""
        self._crossed: list[str] = []
        self._not_run = 0
        self._is_failure = False

    def finish(self) -> None:
        # The list at the end has full names; marks are used only if the run was stopped before.
        for name in [] if self.failing else self._crossed:
            self.fail(name)
        if self.counts:
            self.count("failed", self._not_run)

    def read(self, line: str) -> None:
        marked = _VITEST_MARKED.match(line)
        if line.startswith(" FAIL  "):
            name = line[7:].strip()
            self._is_failure = True
            self.fail(name if _VITEST_BETWEEN in name else name.partition(" [ ")[0])
        elif self._is_failure and line.strip():
            self._is_failure = False
            self.blame(line)
        elif marked is not None:
            self._read_tree((len(marked[1]) - 1) // 2, marked[2], line[marked.end() :])
        elif line.startswith("⎯"):
            heading = line.strip("⎯ ")
            number = heading.removeprefix(_VITEST_SUITES)
            if number != heading and number.isdecimal():
                self._not_run = int(number[:9])
            elif _VITEST_UNCAUGHT.match(heading):
                self._is_failure = True
        elif _VITEST_SUMMARY.match(line):
            self.read_counts(line.partition("Tests")[2].partition("(")[0].split(" | "))

    def _read_tree(self, depth: int, mark: str, text: str) -> None:
        """Read a line of the tree, two spaces per suite; the verbose reporter has full names."""
        file, suite = _VITEST_TESTS_OF_FILE.search(text), _VITEST_TESTS_OF_SUITE.search(text)
        del self._path[depth:]
        if depth == 0 and file is not None:
            self._path = [_cut(text[: file.start()].rstrip())]
        elif depth and depth == len(self._path) and suite is not None:
            self._path.append(_cut(text[: suite.start()]))
        elif depth == len(self._path):
            name = _VITEST_BETWEEN.join([*self._path, _without_extras(text)])
            if mark == _VITEST_PASSED and _VITEST_BETWEEN in name:
                self.succeed(name)
            elif mark == _VITEST_FAILED and _VITEST_BETWEEN in name:
                self._crossed.append(name)


def _without_extras(text: str) -> str:
    """Return a name without duration, retries and memory."""
    for _ in range(_VITEST_MAX_EXTRAS):
        extra = _VITEST_EXTRA.search(text)
        if extra is None:
            break
        text = text[: extra.start()].rstrip()
    return text


_READERS: dict[str, type[RunnerReader]] = {
    "pytest": PytestReader,
    "cargo": CargoReader,
    "go": GoReader,
    "jest": JestReader,
    "vitest": VitestReader,
}


def _at_line_starts(patterns: dict[str, str]) -> re.Pattern[str]:
    """Compile a pattern with a group for each runner."""
    groups = "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())
    return re.compile(f"^(?:{groups})", re.MULTILINE)


_SUMMARY = _at_line_starts({name: reader.summary for name, reader in _READERS.items()})
_OPENING = _at_line_starts({name: reader.opening for name, reader in _READERS.items()})
