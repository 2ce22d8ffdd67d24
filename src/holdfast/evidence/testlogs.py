"""Parse the output of a test run: which tests failed and passed, how many, and why.

A runner is recognised by its summary; if the run was stopped before that, by its first lines. If
the output has several runs, the last summary counts, and everything up to the summary of the run
before is skipped. Only cargo and go print several summaries in one run, one for each binary or
package; they are added up until another runner's summary.

A test can print whatever a runner prints, so a parsed output explains an exit code and never
replaces it. Each line is handled once, and every quantifier is possessive: parsing takes time in
proportion to the length of the output.
"""

from __future__ import annotations

import re

from holdfast.evidence.ansi import plain
from holdfast.evidence.runners import cargo, go, jest, pytest, vitest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

_RUNNERS = {"pytest": pytest, "cargo": cargo, "go": go, "jest": jest, "vitest": vitest}
_SEVERAL_SUMMARIES = ("cargo", "go")
_BLANK_LINES = re.compile(r"\n{3,}+")


def _at_line_starts(patterns: dict[str, str]) -> re.Pattern[str]:
    """Compile a pattern with a group for each runner."""
    groups = "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())
    return re.compile(f"^(?:{groups})", re.MULTILINE)


_SUMMARY = _at_line_starts({name: runner.SUMMARY for name, runner in _RUNNERS.items()})
_OPENING = _at_line_starts({name: runner.OPENING for name, runner in _RUNNERS.items()})


def parse(output: str) -> Fields:
    """Return the fields that the output has; an empty dictionary if no runner is recognised.

    - ``runner``: its name
    - ``failing``, ``passing``: names of tests; a file or package that could not run is failing
    - ``failed``, ``passed``, ``skipped``: counts; ``failed`` includes what could not run
    - ``error``: the first line that says what is wrong

    A name is as its runner prints it: ``tests/test_a.py::test_x[1]``, ``module::test_x``,
    ``TestX/sub``, ``a.test.js > suite > name``.
    """
    text = _BLANK_LINES.sub("\n\n", plain(output))
    name, start = _last_run(text)
    if name is None:
        return {}
    tally = _RUNNERS[name].parse(text[start:].split("\n"))
    return {"runner": name, **tally.fields()}


def _last_run(text: str) -> tuple[str | None, int]:
    """Return the runner of the last summary, and where its run may begin."""
    name, start, end = None, 0, 0
    for summary in _SUMMARY.finditer(text):
        if name is not None and (name != summary.lastgroup or name not in _SEVERAL_SUMMARIES):
            start = end
        name, end = summary.lastgroup, summary.end()
    if name is None:
        for opening in _OPENING.finditer(text):
            name = opening.lastgroup
    return name, start
