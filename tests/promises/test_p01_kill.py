"""Promise 1: killed at any system call, the next command sees the old or the new state, and what
happened is in history once.

strace kills every mutating command, of every recipe's journey, as it enters each call that concerns
the workspace: the ledger's database, its journal and shared memory, the lock, records and index.
"""

import os

import pytest

from promises import aftermath, strace
from promises.journeys import MUTATING, PHASES, Site, ask, journey
from support.workshop import SEED, sampled

pytestmark = pytest.mark.promise(1)

ENOUGH = 3
"""So many failures of one command are told; more would only take time."""
MATRIX = [
    pytest.param(recipe, number, id=f"{recipe}-{name}")
    for recipe in PHASES
    for number, (name, _) in enumerate(journey(recipe))
]
OTHER = ["start", "dev", "docs/other.md"]
"""A change of another workflow."""


@pytest.fixture(autouse=True)
def _needs_strace(untraceable, not_shown):
    if untraceable:
        not_shown(f"promise 1, the kill matrix: {untraceable}")


class Case:
    """A command on a site that stands right before it, and the points where it can be killed."""

    def __init__(self, folder, site, line):
        self.folder, self.site, self.line = folder, site, line
        self.kept = []
        """Bytes that have to be somewhere afterwards."""
        self.edited = None
        """A record with an edit, which waits for the next change of its own workflow."""
        self.log = os.path.join(folder, "strace.log")
        self.words = [*site.words(line, "killed"), "--json"]
        self.before = self._look(site)
        self.errors = aftermath.errors(site.root)
        # Every copy has the same name: the calls are the same.
        smooth = site.copy(os.path.join(folder, "done"))
        self.points = strace.points(smooth.root, self.log, self.words)
        last = aftermath.events(smooth.root)[-1]
        self.workflow = last["stream"]
        self.after = self._look(smooth)
        self.seen = [self.before, self.after]
        """What the next command may see."""
        smooth.drop()

    def _look(self, site):
        """The state and the history as the next commands see them."""
        workflow = getattr(self, "workflow", site.workflow)
        return aftermath.state_of(site.root, workflow), aftermath.history(site.root, workflow)

    def check(self, point, *, other_first):
        """Killed at the point: the old or the new; tried again under the same id: the new, once.

        Perhaps another workflow changes in between: that brings files forward, too.
        """
        site = self.site.copy(os.path.join(self.folder, "done"))
        try:
            is_exact = strace.kill(site.root, self.log, self.words, point)
            assert self._look(site) in self.seen
            assert aftermath.errors(site.root) in ([], self.errors)
            if other_first:
                self._change(site, *OTHER, waiting=self.edited)
            self._change(site, *self.words[:-1])
            assert self._look(site) == self.after
            for kept in self.kept:
                assert kept in site.bytes_everywhere()
        except Exception as error:
            raise AssertionError(f"seed {SEED}: {self.line} killed at {point}") from error
        finally:
            site.drop()
        return is_exact

    def _change(self, site, *words, waiting=None):
        """The next change is possible, and everything is right after it."""
        code, answer = ask(site.root, *words)
        assert code == 0, answer
        assert aftermath.complaints(site.root, waiting) == []
        assert aftermath.is_index_right(site.root)

    def check_all(self, count, tally):
        failures, inexact = [], 0
        tried = sampled(self.points, count, f"{self.before[1]}{self.line}")
        # Faults show after the commit, near the end.
        for number, point in reversed(list(enumerate(tried))):
            try:
                inexact += not self.check(point, other_first=number % 2 == 0)
            except AssertionError as error:
                failures.append(error)
            if len(failures) == ENOUGH:
                break
        tally("kill matrix", points=len(tried), failures=len(failures))
        if failures:
            raise failures[0]
        assert inexact <= 1 + len(tried) / 4


def test_the_matrix_has_every_mutating_command():
    names = {" ".join(line[:2]) for recipe in PHASES for _, line in journey(recipe)}
    names |= {line[0] for recipe in PHASES for _, line in journey(recipe)}
    assert names >= MUTATING


@pytest.mark.parametrize(("recipe", "number"), sampled(MATRIX, 40, "matrix"))
def test_a_killed_command_is_done_or_not_done(recipe, number, stages, quick, tally):
    site = stages.site(os.path.join(quick, "site"), recipe, number)
    Case(quick, site, journey(recipe)[number][1]).check_all(1, tally)


@pytest.mark.parametrize("git", [True, False], ids=["in git", "without git"])
@pytest.mark.parametrize("recipe", ["dev", "custom"])
def test_a_kill_while_the_ledger_is_made_leaves_all_of_it_or_nothing(recipe, git, quick, tally):
    site = Site.made(os.path.join(quick, "site"), git=git)
    case = Case(quick, site, journey(recipe)[0][1])
    made = [arguments for name, _, arguments in case.points if name == "rename"]
    assert any("ledger.db" in arguments for arguments in made)
    case.check_all(6, tally)


@pytest.mark.parametrize("recipe", ["dev", "apex"])
def test_a_kill_while_the_journal_is_moved_into_the_database_is_no_loss(
    recipe, stages, quick, tally
):
    """A checkpoint runs after every dozen of events."""
    for number in range(4, len(journey(recipe))):
        site = stages.site(os.path.join(quick, str(number)), recipe, number)
        case = Case(quick, site, journey(recipe)[number][1])
        if any(name == "pwrite64" and "ledger.db>" in rest for name, _, rest in case.points):
            break
    case.points = [point for point in case.points if "ledger.db" in point[2]]
    case.check_all(4, tally)


@pytest.mark.parametrize("number", range(3), ids=["start", "complete", "resume"])
def test_a_kill_in_the_only_phase_is_not_taken_for_a_removed_record(number, quick, tally):
    lines = [("one", ["start", "custom", "one phase"])]
    lines.append(("two", ["complete", "--force", "--reason", "x"]))
    lines.append(("three", ["resume"]))
    site = Site.made(os.path.join(quick, "site")).go(lines[:number])
    Case(quick, site, lines[number][1]).check_all(4, tally)


@pytest.mark.parametrize("edit", ["valid", "invalid"])
@pytest.mark.parametrize("recipe", PHASES)
def test_a_kill_loses_no_hand_edit(recipe, edit, stages, quick, tally):
    site = stages.site(os.path.join(quick, "site"), recipe, 2)
    record = aftermath.record_of(site)
    with open(record, "rb") as file:
        data = file.read()
    edited = data.replace(b"be kind", b"be bold") if edit == "valid" else data[:-40] + b"?"
    with open(record, "wb") as file:
        file.write(edited)
    case = Case(quick, site, ["task", "add", "three"])
    case.edited = os.path.relpath(record, site.root)
    if edit == "valid":
        assert case.before[0]["reminders"] == case.after[0]["reminders"] == ["be bold"]
        adopted = [event for event in case.after[1] if event[0] != "killed"]
        case.seen.append((case.before[0], adopted))
    else:
        case.kept = [edited]
    case.check_all(2, tally)
