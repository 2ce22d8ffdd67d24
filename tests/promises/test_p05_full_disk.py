"""Promise 5: a full disk or an I/O error is told, leaves no half state, and passes.

strace lets each call fail that writes, syncs, makes or moves something in the workspace, in every
command: those of Holdfast, and those that SQLite makes by itself. Real limits are in
``test_p05_real_limits.py``.
"""

import errno
import json
import os

import pytest

from holdfast import Keeper
from holdfast.system.disk import Disk
from promises import aftermath, strace
from promises.journeys import PHASES, Site, ask, journey
from support.workshop import SEED, sampled

pytestmark = pytest.mark.promise(5)

FAULT = 3
RECORDED = (None, "record_behind")
"""A receipt, or a fault that says: it was recorded. Any other fault says that nothing was."""
UNKNOWN = "unknown_outcome"
SPARED = ("flock", "fcntl", "close")
SURVIVING = {"ENOSPC": ("unlink", "unlinkat", "rmdir", "fsync", "fdatasync"), "EIO": ()}
"""What a full disk still does."""


@pytest.fixture(autouse=True)
def _needs_strace(untraceable, not_shown):
    if untraceable:
        not_shown(f"promise 5, failing calls: {untraceable}")


class Trial:
    """One command on a site that stands right before it, and what it would do undisturbed."""

    def __init__(self, site, name, line, folder):
        self.name, self.line, self.folder = name, line, folder
        self.site = site
        self.log = os.path.join(folder, "strace.log")
        self.words = site.words(line, name)
        self.before = aftermath.history(site.root)
        smooth = self.copy()
        self.all_points = strace.points(smooth.root, self.log, [*self.words, "--json"])
        self.points = [
            one for one in self.all_points if one[0] not in SPARED and one[2][:2] != "1<"
        ]
        self.workflow = aftermath.events(smooth.root)[-1]["stream"]
        self.after = aftermath.history(smooth.root)
        self.state = aftermath.state_of(smooth.root, self.workflow)
        smooth.drop()

    def copy(self):
        # Every copy has the same name: the calls are the same.
        return self.site.copy(os.path.join(self.folder, "tried"))

    def fails_at(self, point, error, *, always):
        """The command with one call failing; then again, on a mended disk, under the same id."""
        site = self.copy()
        try:
            ended = strace.fail(
                site.root, self.log, [*self.words, "--json"], point, error, always=always
            )
            self.check(site, self.told(ended))
        except Exception as cause:
            how = "from then on" if always else "once"
            raise AssertionError(f"seed {SEED}: {self.name} at {point}: {error} {how}") from cause
        finally:
            site.drop()

    def told(self, ended):
        """Return the code of the fault that the command told; ``None`` if it told a receipt."""
        assert "Traceback" not in ended.stderr, ended
        answer = json.loads(ended.stdout)
        assert answer["ok"] is (ended.returncode == 0), ended
        if answer["ok"]:
            return None
        assert ended.returncode == FAULT, ended
        assert answer["error"]["message"], ended
        assert answer["error"]["hint"], ended
        if answer["error"]["code"] == UNKNOWN:
            assert answer["error"]["details"]["id"] == self.name, ended
        return answer["error"]["code"]

    def check(self, site, code):
        """What was told is true, and it goes on."""
        history = aftermath.history(site.root)
        if code == UNKNOWN:
            assert history in (self.before, self.after)
        else:
            assert history == (self.after if code in RECORDED else self.before), code
        assert aftermath.errors(site.root) == []
        self.goes_on(site)
        assert aftermath.history(site.root) == self.after

    def goes_on(self, site):
        code, answer = ask(site.root, *self.words)
        assert code == 0, answer
        assert aftermath.state_of(site.root, self.workflow) == self.state
        assert aftermath.complaints(site.root) == []


class EditedTrial(Trial):
    """The same with a record that somebody edited by hand: that is there afterwards, too."""

    edited = b""

    def check(self, site, code):
        count = aftermath.ids(site.root).count(self.name)
        assert count == {None: 1, "record_behind": 1, UNKNOWN: count}.get(code, 0)
        assert self.is_kept(site)
        self.goes_on(site)
        assert aftermath.ids(site.root).count(self.name) == 1
        assert self.is_kept(site)

    def is_kept(self, site):
        """The edit is taken in, or its bytes are there."""
        types = [event["type"] for event in aftermath.events(site.root)]
        return types.count("record_edited") == 1 or self.edited in site.bytes_everywhere()


def fail_some(trial, error, count, salt=""):
    """Let some calls of a trial fail, or all of them; return how many."""
    cases = [
        (point, always)
        for point in trial.points
        if point[0] not in SURVIVING[error]
        for always in (False, True)
        if not (always and point[0] == "write")  # The answer is written, too.
    ]
    tried = sampled(cases, count, f"{salt}{error}{trial.name}")
    for point, always in tried:
        trial.fails_at(point, error, always=always)
    return len(tried)


each_error = pytest.mark.parametrize("error", ["ENOSPC", "EIO"])


@each_error
@pytest.mark.parametrize("recipe", PHASES)
def test_a_failing_call_is_told_and_leaves_nothing_half(recipe, error, stages, quick, tally):
    points = 0
    for number in sampled(range(len(journey(recipe))), 7, f"{recipe}{error}"):
        name, line = journey(recipe)[number]
        site = stages.site(os.path.join(quick, str(number)), recipe, number)
        points += fail_some(Trial(site, f"tried-{name}", line, quick), error, 1, recipe)
    tally("failing calls", points=points)


@each_error
@pytest.mark.parametrize("git", [True, False], ids=["in git", "without git"])
def test_a_call_that_fails_while_the_ledger_is_made_leaves_no_half_ledger(error, git, quick, tally):
    site = Site.made(os.path.join(quick, "site"), git=git)
    trial = Trial(site, "made", journey("dev")[0][1], quick)
    tally("failing calls", points=fail_some(trial, error, 5))


@each_error
@pytest.mark.parametrize("recipe", PHASES)
@pytest.mark.parametrize("edit", ["valid", "invalid"])
def test_a_failing_call_loses_no_hand_edit(recipe, edit, error, stages, quick, tally):
    site = stages.site(os.path.join(quick, "site"), recipe, 2)
    record = aftermath.record_of(site)
    with open(record, "rb") as file:
        data = file.read()
    assert data.count(b"be kind") == 1
    edited = data.replace(b"be kind", b"be bold") if edit == "valid" else data[:-40] + b"?"
    with open(record, "wb") as file:
        file.write(edited)
    trial = EditedTrial(site, "edited", ["task", "add", "three"], quick)
    trial.edited = edited
    tally("failing calls", points=fail_some(trial, error, 2, recipe + edit))


@pytest.mark.parametrize("always", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("number", [0, 8], ids=["first", "later"])
def test_a_commit_that_fails_has_an_unknown_outcome_and_a_retry_applies_once(
    number, always, stages, quick
):
    site = stages.site(os.path.join(quick, "site"), "dev", number)
    trial = Trial(site, "doubtful", journey("dev")[number][1], quick)
    copy = trial.copy()
    words = [*trial.words, "--json"]
    synced = strace.commit_in(trial.all_points)
    ended = strace.fail(copy.root, trial.log, words, synced, "EIO", always=always)
    assert trial.told(ended) == UNKNOWN
    trial.goes_on(copy)
    assert aftermath.ids(copy.root).count("doubtful") == 1


class SavedMeanwhile(Disk):
    """An editor saves a record at the instant it is replaced, and then the disk is full."""

    def __init__(self, path, data):
        super().__init__()
        self._path, self._data = path, data
        self.is_full = False

    def exchange(self, one, other):
        if other == self._path and not self.is_full:
            with open(other, "wb") as file:
                file.write(self._data)
            self.is_full = True
        return super().exchange(one, other)

    def create(self, path, *arguments, **options):
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create(path, *arguments, **options)


def test_what_is_recorded_is_answered_even_if_there_is_no_room_for_what_was_saved_meanwhile(
    stages, quick
):
    site = stages.site(os.path.join(quick, "site"), "dev", 2)
    record = aftermath.record_of(site)
    with open(record, "rb") as file:
        edited = file.read().replace(b"be kind", b"be bold")
    disk = SavedMeanwhile(record, edited)
    receipt = Keeper(site.root, disk=disk).add_task("three", workflow=site.workflow, id="asked")
    assert disk.is_full
    assert any("next change" in note for note in receipt.notes)
    code, answer = ask(site.root, "task", "add", "three", "-w", site.workflow, "--id", "asked")
    assert (code, answer["seqs"]) == (0, receipt.seqs)
    assert aftermath.ids(site.root).count("asked") == 1
    assert aftermath.state_of(site.root, site.workflow)["reminders"] == ["be bold"]
    assert aftermath.complaints(site.root) == []
