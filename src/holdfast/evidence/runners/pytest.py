"""pytest: quiet, verbose, with ``-rA``, and with xdist.

The names of failing tests stand in the short summary. Those of passing ones are told only by
``-v``, and by ``-rA`` or ``-rp``. Errors, such as a fixture or a file that fails, count as failed.
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
_TOLD = {"failed": "failed", "error": "failed", "errors": "failed"}
_TOLD |= {"passed": "passed", "skipped": "skipped"}
_BEGINNING = ("", "test session starts")
_TROUBLES = ("ERRORS", "FAILURES")
_SHORT_SUMMARY = "short test summary info"
_OTHERS = ("PASSES", "XPASSES", "XFAILURES", "warnings summary")
_SECTIONS = {*_BEGINNING, *_TROUBLES, _SHORT_SUMMARY, *_OTHERS}
_AFTER_PARAMETERS = "] - "
_VERDICT = re.compile(r" (PASSED|FAILED|ERROR) *+(?:\[[ \d/%]++\])?+ *+$")
_WORKER = re.compile(r"\[gw\d++\] (?:\[ *+\d++%\] )?+(PASSED|FAILED|ERROR) ")


def read(lines: list[str]) -> Tally:
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
    tally.count_nothing()
    for part in line.strip("= ").rpartition(" in ")[0].split(", "):
        number, _, what = part.partition(" ")
        if what in _TOLD:
            tally.count(_TOLD[what], int(number))


def _read_short(tally: Tally, line: str) -> None:
    verdict, _, rest = line.partition(" ")
    if verdict == "PASSED":
        tally.succeed(rest)
    elif verdict in ("FAILED", "ERROR"):
        _fail(tally, rest)
    elif line.startswith("SUBFAILED") and "::" in line:
        # What follows the word describes the part; the test's id is one word with a file in it.
        _fail(tally, line[line.rfind(" ", 0, line.index("::")) + 1 :])


def _fail(tally: Tally, text: str) -> None:
    """``id``, or ``id - reason``."""
    end, bracket = text.find(" - "), text.find("[")
    if 0 <= bracket < end:
        end = _end_of_parameters(text, bracket)
    if end < 0:
        end = len(text)
    tally.fail(text[:end])
    tally.blame(text[end + 3 :])


def _end_of_parameters(text: str, start: int) -> int:
    """Brackets and that hyphen may stand in them: they end where as many are closed as opened."""
    first = end = text.find(_AFTER_PARAMETERS, start)
    is_open = 0
    while end >= 0:
        is_open += text.count("[", start, end + 1) - text.count("]", start, end + 1)
        if is_open == 0:
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
