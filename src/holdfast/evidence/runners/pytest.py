"""pytest: quiet, verbose, with ``-rA``, and with xdist.

Names of failed tests are in the short summary. Names of passed tests are printed only with ``-v``,
``-rA`` or ``-rp``. Errors, such as a fixture or a file that fails, count as failed.
"""

from __future__ import annotations

import re

from holdfast.evidence.runners.test_counts import Tally

_KNOWN = "failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests"
_COUNT = r"\d{1,9}+ (?:subtests )?+[a-z]++"
SUMMARY = (
    rf"(?:=++ )?+(?:no tests ran|(?=\d++ (?:{_KNOWN})\b){_COUNT}(?:, {_COUNT})*+) in \d++\.\d++s"
)
OPENING = r"=++ (?:test session starts|short test summary info) ="

_IS_SUMMARY = re.compile(SUMMARY)
_COUNTED = {"failed": "failed", "error": "failed", "errors": "failed"}
_COUNTED |= {"passed": "passed", "skipped": "skipped"}
_BEGINNING = ("", "test session starts")
_TROUBLES = ("ERRORS", "FAILURES")
_SHORT_SUMMARY = "short test summary info"
_OTHERS = ("PASSES", "XPASSES", "XFAILURES", "warnings summary")
_SECTIONS = {*_BEGINNING, *_TROUBLES, _SHORT_SUMMARY, *_OTHERS}
_AFTER_PARAMETERS = "] - "
_VERDICT = re.compile(r" (PASSED|FAILED|ERROR) *+(?:\[[ \d/%]++\])?+ *+$")
_WORKER = re.compile(r"\[gw\d++\] (?:\[ *+\d++%\] )?+(PASSED|FAILED|ERROR) ")


def parse(lines: list[str]) -> Tally:
    tally = Tally()
    section = ""
    for line in lines:
        if _IS_SUMMARY.match(line):
            _count(tally, line)
        elif line.startswith("==") and line.strip("= ") in _SECTIONS:
            section = line.strip("= ")
        elif line.startswith("ERROR: "):
            tally.blame(line[7:])
        elif section in _TROUBLES and line.startswith("E  "):
            tally.blame(line[1:])
        elif section == _SHORT_SUMMARY:
            _read_short(tally, line)
        elif section in _BEGINNING and "::" in line:
            _read_progress(tally, line)
    return tally


def _count(tally: Tally, line: str) -> None:
    tally.reset_counts()
    for part in line.strip("= ").rpartition(" in ")[0].split(", "):
        number, _, kind = part.partition(" ")
        if kind in _COUNTED:
            tally.count(_COUNTED[kind], int(number))


def _read_short(tally: Tally, line: str) -> None:
    verdict, _, rest = line.partition(" ")
    if verdict == "PASSED":
        tally.succeed(rest)
    elif verdict in ("FAILED", "ERROR"):
        _fail(tally, rest)
    elif line.startswith("SUBFAILED") and "::" in line:
        # The subtest's description comes first; the test's id is the word with the file in it.
        _fail(tally, line[line.rfind(" ", 0, line.index("::")) + 1 :])


def _fail(tally: Tally, text: str) -> None:
    """Record a failed test from ``id`` or ``id - reason``."""
    end, bracket = text.find(" - "), text.find("[")
    if 0 <= bracket < end:
        end = _end_of_parameters(text, bracket)
    if end < 0:
        end = len(text)
    tally.fail(text[:end])
    tally.blame(text[end + 3 :])


def _end_of_parameters(text: str, start: int) -> int:
    """Return the end of the parameters, which may contain brackets and the separator itself."""
    first = end = text.find(_AFTER_PARAMETERS, start)
    depth = 0
    while end >= 0:
        depth += text.count("[", start, end + 1) - text.count("]", start, end + 1)
        if depth == 0:
            return end + 1
        start = end + 1
        end = text.find(_AFTER_PARAMETERS, start)
    return first + 1 or len(text)


def _read_progress(tally: Tally, line: str) -> None:
    worker = _WORKER.match(line)
    if worker is not None:
        _note(tally, worker[1], line[worker.end() :].rstrip())
        return
    verdict = _VERDICT.search(line)
    if verdict is not None:
        _note(tally, verdict[1], line[: verdict.start()])


def _note(tally: Tally, verdict: str, name: str) -> None:
    if verdict == "PASSED":
        tally.succeed(name)
    else:
        tally.fail(name)
