"""Promise 2: acknowledged means durable through a power cut.

A journey is recorded at the one disk seam; then the power is cut after every single operation, in
every way that the rules of ``power.py`` allow, and a new process goes on with what is left.
"""

import os
import shutil
from hashlib import blake2b

import pytest

import holdfast.ledger.file as ledger_file
from holdfast import Fault
from holdfast.layers import catalog
from holdfast.ledger.segment import is_unfinished
from promises import power, strace
from promises.disks import Died, RecordingDisk
from promises.journeys import PHASES, Site, call, journey
from workshop import FULL, SEED, many, sampled

pytestmark = pytest.mark.promise(2)

CHANCES = many(2, 12)
STATES = 80
"""So many states after a cut each test looks at, unless it looks at all of them."""
PARTS = 8 if FULL else 1
"""The whole of a journey is long, so it is looked at in parts."""
DEATHS = 14
"""A command has no more operations than this."""
TRIALS = 5


class Run:
    """A recorded journey, and what must be true of everything that a cut may leave of it."""

    def __init__(self, folder):
        self.site = Site.made(os.path.join(folder, "site"))
        self.disk = RecordingDisk(self.site.root)
        self.lines = {}
        self.folder = folder
        self.hashes = []
        self.commits = []
        self.looked = 0

    def do(self, name, line):
        """Carries out a line in a process of its own, as it were; its receipt is its end."""
        self.lines[name] = line
        self.disk.said("begun", name)
        receipt = self.site.do(line, name, self.site.keeper(disk=self.disk))
        self.disk.said("acknowledged", name, receipt.seqs)
        return receipt

    def dies_in(self, name, line, after):
        """The same, but the process dies after some operations; says whether it did."""
        self.disk.dies_after = after
        try:
            self.do(name, line)
        except Died:
            return True
        finally:
            self.disk.dies_after = None
        return False

    def go(self, lines):
        for name, line in lines:
            self.do(name, line)
        return self

    def ended(self):
        """Remembers what the whole run came to."""
        events = self.site.events()
        self.hashes = [event["hash"] for event in events]
        self.commits = [
            number for number, event in enumerate(events, 1) if not is_unfinished(event)
        ]
        return self

    def moments(self, part):
        """One part of all moments at which the power can be cut."""
        return range(part, len(self.disk.log) + 1, PARTS)

    def cuts(self, moments):
        """Every state that is looked at: the cut, and the tree that it left.

        Among them always what is certain right after each answer.
        """
        ways = []
        for moment in moments:
            cut = power.Cut(self.disk, moment)
            if cut.said and self.disk.log[moment - 1][:2] == ("said", "acknowledged"):
                yield (moment, cut, *power.harshest(cut))
            found = power.ways(cut, f"{SEED}-{moment}", CHANCES)
            ways += [(moment, cut, *way) for way in found]
        known = set()
        for moment, cut, changes, data in sampled(ways, STATES):
            tree, folders = cut.left(changes, data)
            mark = blake2b(repr((cut.said, tree, folders)).encode()).digest()
            if mark not in known:
                known.add(mark)
                yield moment, cut, tree, folders

    def check_all(self, moments, check=None):
        for moment, cut, tree, folders in self.cuts(moments):
            root = os.path.join(self.folder, "left")
            power.materialise(tree, folders, self.site.root, root)
            site = Site(root)
            site.workflow = self.site.workflow
            after = self.disk.log[moment - 1][:2] if moment else "nothing"
            try:
                (check or self.check)(site, cut)
            except Exception as error:
                listing = sorted(path.removeprefix(self.site.root) for path in tree)
                raise AssertionError(
                    f"seed {SEED}, cut after operation {moment} {after}, of {cut.said[-2:]}; "
                    f"left were {listing}"
                ) from error
            site.drop()
            self.looked += 1
        return self.looked

    def check(self, site, cut):
        """All that was acknowledged is there, in order and once, and nothing half; it goes on."""
        acknowledged = [said for said in cut.said if said[0] == "acknowledged"]
        found = [event["hash"] for event in site.events()]
        assert found == self.hashes[: len(found)]
        assert len(found) in (0, *self.commits)
        assert len(found) >= max((seqs[-1] for _, _, seqs in acknowledged), default=0)
        if acknowledged:
            _, name, seqs = acknowledged[-1]
            assert site.do(self.lines[name], name).seqs == seqs
        if cut.said and cut.said[-1][0] == "begun":
            self.check_retry(site, cut.said[-1][1])
        call(site.keeper(), ["start", "custom", "after the cut"])
        assert [line for line in site.complaints() if line["what"] != catalog.NAME] == []
        ids = site.ids()
        assert len(ids) == len(set(ids))

    def check_unknown(self, site, cut):
        """After an unknown outcome the event may be there or not, but it is there once."""
        acknowledged = [said[1] for said in cut.said if said[0] == "acknowledged"]
        ids = site.ids()
        assert [name for name in ids if name in acknowledged] == acknowledged
        name = [said[1] for said in cut.said if said[0] == "begun"][-1]
        site.do(self.lines[name], name)
        assert site.ids() in (ids, [*ids, name]), site.events()[-1]
        assert [line for line in site.complaints() if line["level"] == "error"] == []

    def check_retry(self, site, name):
        """The command that the cut interrupted, again under its id: there once."""
        site.do(self.lines[name], name)
        assert site.ids().count(name) == 1


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", 1500)


each_part = pytest.mark.parametrize("part", range(PARTS))


@each_part
@pytest.mark.parametrize("recipe", PHASES)
def test_what_was_acknowledged_is_there_after_a_cut_at_any_moment(recipe, part, quick, tally):
    run = Run(quick).go(journey(recipe)).ended()
    tally("power cuts", states=run.check_all(run.moments(part)))


@each_part
@pytest.mark.parametrize("recipe", ["dev", "custom"])
def test_a_cut_while_segments_are_closed_loses_nothing(recipe, part, quick, small_segments, tally):
    run = Run(quick).go(journey(recipe)).ended()
    assert any(entry[0] == "move" and "ledger-" in entry[2] for entry in run.disk.log)
    tally("power cuts", states=run.check_all(run.moments(part)))


@pytest.mark.parametrize("recipe", PHASES)
def test_a_retry_that_finds_the_work_of_a_killed_writer_makes_it_durable(recipe, quick, tally):
    trials = [(number, after) for number in range(len(journey(recipe))) for after in range(DEATHS)]
    states = 0
    for trial, (number, after) in enumerate(sampled(trials, TRIALS, recipe)):
        lines = journey(recipe)[: number + 1]
        run = Run(os.path.join(quick, str(trial))).go(lines[:-1])
        name, line = lines[-1]
        if run.dies_in(name, line, after):
            run.do(name, line)
            run.ended()
            states += run.check_all([len(run.disk.log)])
        shutil.rmtree(run.folder)
    tally("power cuts", states=states)


@pytest.mark.parametrize("recipe", PHASES)
def test_a_writer_killed_right_before_its_sync_is_made_up_for(recipe, quick):
    *before, (name, line) = journey(recipe)[:9]
    for after in range(DEATHS):
        run = Run(os.path.join(quick, str(after))).go(before)
        ledger = run.disk.names[os.path.join(run.site.home, "ledger.ndjson")]
        run.dies_in(name, line, after)
        if run.disk.log[-1][:2] == ("write", ledger):
            break
    assert run.site.ids()[-1] == name
    run.do(name, line)
    run.ended()
    assert run.check_all([len(run.disk.log)])


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("number", [0, 1, 7, 21])
@pytest.mark.parametrize("recipe", ["dev", "custom"])
def test_after_a_failed_sync_the_retry_applies_once(recipe, number, failing, quick, tally):
    *before, (name, line) = journey(recipe)[: number + 1]
    run = Run(quick).go(before)
    began = len(run.disk.log) + 1
    run.disk.failing_syncs = failing
    with pytest.raises(Fault) as failed:
        run.do(name, line)
    assert failed.value.code in ("not_written", "unknown_outcome"), failed.value
    run.disk.said("failed", name, failed.value.code)
    assert name not in run.site.ids() or failed.value.code == "unknown_outcome"
    run.disk.failing_syncs = 0
    run.do(name, line)
    assert run.site.ids().count(name) == 1
    run.ended()

    def check(site, cut):
        told = [said[2] for said in cut.said if said[0] == "failed"]
        (run.check if told == ["not_written"] else run.check_unknown)(site, cut)

    tally("power cuts", states=run.check_all(range(began, len(run.disk.log) + 1), check))


@pytest.mark.parametrize("number", [0, 8], ids=["first", "later"])
def test_the_real_sync_comes_before_the_answer(number, quick, not_shown):
    if strace.cannot_trace():
        not_shown(f"promise 2, the real sync: {strace.cannot_trace()}")
    site = Site.made(os.path.join(quick, "site")).go(journey("dev")[:number])
    words = strace.command(site.words(journey("dev")[number][1], "asked"))
    calls = strace.points(site.root, os.path.join(quick, "log"), words)
    happened = [name for name, _, rest in calls if "ledger.ndjson>" in rest or rest[0] == "1"]
    assert happened[happened.index("write") :][:2] == ["write", "fdatasync"]
    assert happened[-1] == "write"
    if number == 0:
        synced = [rest for name, _, rest in calls if name == "fsync"]
        folders = [site.home, os.path.dirname(site.home), site.root]
        assert all(any(f"<{folder}>" in rest for rest in synced) for folder in folders)


def test_a_hand_edit_survives_the_cut_that_follows_its_adoption(quick, tally):
    run = Run(quick).go(journey("dev")[:2])
    record = os.path.join(run.site.root, run.site.keeper().show().state["record"])
    with open(record, "rb") as file:
        edited = file.read().replace(b"A feature", b"An edited feature")
    run.disk.hand(record, edited)
    began = len(run.disk.log)
    run.do("after-edit", ["task", "add", "three"])
    run.ended()

    def check(site, cut):
        run.check(site, cut)
        assert site.seen()["title"] == "An edited feature"

    tally("power cuts", states=run.check_all(range(began, len(run.disk.log) + 1), check))
