"""Promise 1: killed at any system call, the next command sees the old or the new state, and what
happened is in history once.

strace kills every mutating command, of every recipe's journey, as it enters each call that concerns
the workspace. What follows runs the command line in this process, for speed.
"""

import contextlib
import io
import json
import os

import pytest

import holdfast.ledger.file as ledger_file
from holdfast.cli.main import main
from holdfast.layers import catalog
from promises import strace
from promises.journeys import MUTATING, PHASES, Site, journey, timeless, told
from workshop import SEED, sampled

pytestmark = pytest.mark.promise(1)

ENOUGH = 3
"""So many failures of one command are told; more would only take time."""
SMALL = 200
"""So few bytes that every command closes its segment."""
MATRIX = [
    pytest.param(recipe, number, id=f"{recipe}-{name}")
    for recipe in PHASES
    for number, (name, _) in enumerate(journey(recipe))
]


@pytest.fixture(scope="module")
def traceable():
    return strace.cannot_trace()


@pytest.fixture(autouse=True)
def _needs_strace(traceable, not_shown):
    if traceable:
        not_shown(f"promise 1, the kill matrix: {traceable}")


@pytest.fixture
def cli(monkeypatch):
    """``cli(site, words)``: exit code and answer of a command line, run in this process."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "")

    def run(site, *words):
        monkeypatch.chdir(site.root)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main([*words, "--json"])
        return code, json.loads(out.getvalue())

    return run


class Case:
    """A command on a site that stands right before it, and the points where it can be killed."""

    def __init__(self, folder, site, line, cli, segment_bytes=None):
        self.folder, self.site, self.line, self.cli = folder, site, line, cli
        self.kept = []
        """Bytes that have to be somewhere afterwards."""
        self.log = os.path.join(folder, "strace.log")
        self.words = strace.command(site.words(line, "killed"), segment_bytes)
        self.before = self.look_at_copy(site)
        smooth = site.copy(os.path.join(folder, "done"))
        self.points = strace.points(smooth.root, self.log, self.words)
        smooth.workflow = smooth.workflow or smooth.events()[0]["stream"]
        self.workflow = smooth.workflow
        self.after = self.look(smooth)
        smooth.drop()

    def look_at_copy(self, site):
        """Looking takes edits in, so the site itself is left alone."""
        copy = site.copy(os.path.join(self.folder, "looked"))
        found = self.look(copy)
        copy.drop()
        return found

    def look(self, site):
        """The state and the history as the next commands see them."""
        code, shown = self.cli(site, "show", *([site.workflow] if site.workflow else []))
        assert code == 0 or shown["error"]["code"] in ("not_found", "no_workflow"), shown
        _, logged = self.cli(site, "log")
        return timeless(shown.get("workflow")), told(logged["events"])

    def check(self, point):
        """Killed at the point: the old or the new; tried again under the same id: the new, once."""
        site = self.site.copy(os.path.join(self.folder, "done"))
        try:
            last = strace.kill(site.root, self.log, self.words, point)
            assert last[0] == point[0], f"the trace drifted: {last}"
            site.workflow = self.workflow
            found = self.look(site)
            assert found in (self.before, self.after)
            code, report = self.cli(site, "verify")
            assert code == 0, report
            code, answer = self.cli(site, *site.words(self.line, "killed"))
            assert code == 0, answer
            assert self.look(site) == self.after
            assert [line for line in site.complaints() if line["what"] != catalog.NAME] == []
            for kept in self.kept:
                assert kept in site.bytes_everywhere()
        except Exception as error:
            raise AssertionError(f"seed {SEED}: killed at {point}") from error
        finally:
            site.drop()

    def check_all(self, count, tally):
        tried = sampled(self.points, count, f"{self.before[1]}{self.line}")
        failures = []
        points = 0
        for point in tried:
            try:
                self.check(point)
            except AssertionError as error:
                failures.append(error)
            points += 1
            if len(failures) == ENOUGH:
                break
        tally("kill matrix", points=points, failures=len(failures))
        if failures:
            raise failures[0]


def test_the_matrix_has_every_mutating_command():
    names = {" ".join(line[:2]) for recipe in PHASES for _, line in journey(recipe)}
    names |= {line[0] for recipe in PHASES for _, line in journey(recipe)}
    assert names >= MUTATING


@pytest.mark.parametrize(("recipe", "number"), MATRIX)
def test_a_killed_command_is_done_or_not_done(recipe, number, quick, cli, tally):
    lines = journey(recipe)
    site = Site.made(os.path.join(quick, "site")).go(lines[:number])
    Case(quick, site, lines[number][1], cli).check_all(1, tally)


@pytest.mark.parametrize("number", range(3), ids=["start", "complete", "resume"])
def test_a_kill_in_the_only_phase_is_not_taken_for_a_removed_record(number, quick, cli, tally):
    lines = [("", ["start", "custom", "one phase"]), ("", ["complete", "--force", "--reason", "x"])]
    lines.append(("", ["resume"]))
    site = Site.made(os.path.join(quick, "site")).go(lines[:number])
    Case(quick, site, lines[number][1], cli).check_all(4, tally)


@pytest.mark.parametrize("number", [0, 1, 7, 18, 21, 22])
@pytest.mark.parametrize("recipe", ["dev", "custom"])
def test_a_kill_while_a_segment_is_closed_is_no_loss(
    recipe, number, quick, cli, tally, monkeypatch
):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", SMALL)
    lines = journey(recipe)
    site = Site.made(os.path.join(quick, "site")).go(lines[:number])
    case = Case(quick, site, lines[number][1], cli, segment_bytes=SMALL)
    assert any("ledger-00" in rest for name, _, rest in case.points if name.startswith("rename"))
    case.check_all(2, tally)


@pytest.mark.parametrize("edit", ["valid", "invalid"])
@pytest.mark.parametrize("recipe", PHASES)
def test_a_kill_loses_no_hand_edit(recipe, edit, quick, cli, tally):
    site = Site.made(os.path.join(quick, "site")).go(journey(recipe)[:2])
    record = os.path.join(site.root, site.keeper().show().state["record"])
    with open(record, "rb") as file:
        data = file.read()
    edited = data.replace(b"be kind", b"be bold") if edit == "valid" else data[:-40]
    with open(record, "wb") as file:
        file.write(edited)
    case = Case(quick, site, ["task", "add", "three"], cli)
    if edit == "valid":
        assert case.before[0]["reminders"] == case.after[0]["reminders"] == ["be bold"]
    else:
        case.kept = [edited]
    case.check_all(2, tally)
