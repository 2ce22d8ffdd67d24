"""Promise 5: a full disk or an I/O error is told, leaves no half state, and passes.

Every call that goes to the disk fails, in every command. Real limits are in
``test_p05_real_limits.py``.
"""

import errno
import os

import pytest

import holdfast.ledger.file as ledger_file
from holdfast import Fault
from holdfast.layers import catalog
from promises.disks import CountingDisk, FailingDisk
from promises.journeys import PHASES, Site, journey, told
from workshop import sampled

pytestmark = pytest.mark.promise(5)

RECORDED = (None, "record_behind")
"""A receipt, or a fault that says: it was recorded. Any other fault says that nothing was."""


class Trial:
    """One command on a site that stands right before it, and what it would do undisturbed."""

    def __init__(self, site, name, line, folder):
        self.site, self.name, self.line, self.folder = site, name, line, folder
        self.before = told(site.events())
        disk = CountingDisk()
        smooth = self.copy("smooth")
        smooth.do(line, name, smooth.keeper(disk=disk))
        self.after = told(smooth.events())
        self.seen_after = smooth.seen()
        self.calls = len(disk.calls)
        smooth.drop()

    def copy(self, name):
        return self.site.copy(os.path.join(self.folder, name))

    def fails_at(self, call, number, *, once):
        """The command with one call failing; then again, on a mended disk, under the same id."""
        site = self.copy("trial")
        disk = FailingDisk(call, number, once=once)
        try:
            self._check(site, disk)
        except Exception as error:
            raise AssertionError(
                f"{self.name}: call {call}, {disk.struck}, fails with {os.strerror(number)} "
                f"({'once' if once else 'and all writes after it'}); before it {disk.calls[-6:]}"
            ) from error
        site.drop()

    def _check(self, site, disk):
        code = None
        try:
            site.do(self.line, self.name, site.keeper(disk=disk))
        except Fault as fault:
            code = fault.code
            assert fault.hint
        found = told(site.events())
        if code == "unknown_outcome":
            assert found in (self.before, self.after)
        else:
            assert found == (self.after if code in RECORDED else self.before), code
        if code is None:
            assert [line for line in site.complaints() if line["what"] != catalog.NAME] == []
        self.goes_on(site)

    def goes_on(self, site):
        site.do(self.line, self.name)
        assert told(site.events()) == self.after
        assert site.seen() == self.seen_after
        assert [line for line in site.complaints() if line["level"] == "error"] == []


class EditedTrial(Trial):
    """The same with a record that somebody edited by hand: that is there afterwards, too."""

    edited = b""

    def _check(self, site, disk):
        code = None
        try:
            site.do(self.line, self.name, site.keeper(disk=disk))
        except Fault as fault:
            code = fault.code
        count = site.ids().count(self.name)
        assert count == {None: 1, "record_behind": 1, "unknown_outcome": count}.get(code, 0)
        assert self.is_kept(site)
        site.do(self.line, self.name)
        assert self.is_kept(site)
        assert site.seen() == self.seen_after
        assert [line for line in site.complaints() if line["level"] == "error"] == []

    def is_kept(self, site):
        """The edit is taken in, or its bytes are there."""
        events = [event["type"] for event in site.events()]
        return events.count("record_edited") == 1 or self.edited in site.bytes_everywhere()


def trials_of(recipe, folder):
    site = Site.made(os.path.join(folder, "site"))
    for number, (name, line) in enumerate(journey(recipe)):
        yield Trial(site, name, line, folder)
        site.do(line, f"step-{number}")


def points_of(trials, number, salt, count=3):
    """Tries some calls of every trial, or all of them; how many it tried."""
    points = 0
    for trial in trials:
        calls = [(call, once) for call in range(1, trial.calls + 1) for once in (True, False)]
        for call, once in sampled(calls, count, f"{salt}{number}{trial.name}"):
            trial.fails_at(call, number, once=once)
            points += 1
    return points


each_error = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])


@each_error
@pytest.mark.parametrize("recipe", PHASES)
def test_a_failing_call_is_told_and_leaves_nothing_half(recipe, number, quick, tally):
    tally("failing disk calls", points=points_of(trials_of(recipe, quick), number, recipe))


@each_error
def test_a_failing_call_while_a_segment_is_closed_is_no_loss(number, quick, monkeypatch, tally):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", 600)
    tally("failing disk calls", points=points_of(trials_of("dev", quick), number, "segments"))


@each_error
@pytest.mark.parametrize("recipe", PHASES)
@pytest.mark.parametrize("edit", ["valid", "invalid"])
def test_a_failing_call_loses_no_hand_edit(recipe, edit, number, quick, tally):
    site = Site.made(os.path.join(quick, "site")).go(journey(recipe)[:2])
    record = os.path.join(site.root, site.keeper().show().state["record"])
    with open(record, "rb") as file:
        data = file.read()
    assert data.count(b"be kind") == 1
    edited = data.replace(b"be kind", b"be bold") if edit == "valid" else data[:-40]
    with open(record, "wb") as file:
        file.write(edited)
    trial = EditedTrial(site, "edited", ["task", "add", "three"], quick)
    trial.edited = edited
    tally("failing disk calls", points=points_of([trial], number, recipe + edit, 12))
