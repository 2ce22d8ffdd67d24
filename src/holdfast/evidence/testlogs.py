"""What the output of a test run says: which tests failed, which passed, how many, and why.

The output is recognised by the summary that its runner prints; one that was stopped before is
recognised by how it begins. Where one log holds the output of several runs, the last summary wins,
and what stands before the summary of another run is not read. Only cargo and go have several
summaries in one run, one for each binary or package; all of them are added up until another runner
speaks.

It is a stranger's text: a test can print whatever a runner prints. So what is found here explains
an exit code, and never replaces it. All that is done to the text is done once per line, and every
quantifier of every expression is possessive, so nothing takes longer than the text is long.
"""

from __future__ import annotations

import re

from holdfast.evidence.ansi import plain
from holdfast.evidence.runners import cargo, go, jest, pytest, vitest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

_RUNNERS = {"pytest": pytest, "cargo": cargo, "go": go, "jest": jest, "vitest": vitest}
_ADD_UP = ("cargo", "go")
_BLANK_LINES = re.compile(r"\n{3,}+")


def _at_line_starts(patterns: dict[str, str]) -> re.Pattern[str]:
    of_each = "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())
    return re.compile(f"^(?:{of_each})", re.MULTILINE)


_SUMMARY = _at_line_starts({name: runner.SUMMARY for name, runner in _RUNNERS.items()})
_OPENING = _at_line_starts({name: runner.OPENING for name, runner in _RUNNERS.items()})


def read(output: str) -> Fields:
    """``runner``, and of the others what the output tells; nothing when no runner is recognised.

    ``failing`` has the tests that failed and what could not be run at all (a file, a package), and
    ``failed`` counts both; ``passing``, ``passed`` and ``skipped``; ``error`` is the first line
    that says what is wrong. A name is as its runner prints it: ``tests/test_a.py::test_x[1]``,
    ``module::test_x``, ``TestX/sub``, ``a.test.js > suite > name``, which jest joins with its own
    sign.
    """
    text = _BLANK_LINES.sub("\n\n", plain(output))
    name, start = _last_run(text)
    if name is None:
        return {}
    tally = _RUNNERS[name].read(text[start:].split("\n"))
    return {"runner": name, **tally.fields()}


def _last_run(text: str) -> tuple[str | None, int]:
    """Whose summary is the last one, and where that run begins at the earliest."""
    name, start, end = None, 0, 0
    for found in _SUMMARY.finditer(text):
        if name is not None and (name != found.lastgroup or name not in _ADD_UP):
            start = end
        name, end = found.lastgroup, found.end()
    if name is None:
        for found in _OPENING.finditer(text):
            name = found.lastgroup
    return name, start
