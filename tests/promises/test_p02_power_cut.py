"""Promise 2: acknowledged means durable through a power cut.

Every command of a journey runs under strace, which sees each call with its bytes: what Holdfast
does to files, and what SQLite does to the ledger's database and its journal. Then the power is cut
after every single call, in every way that the rules of ``power.py`` allow, and new processes go on
with what is left. Shared memory (``ledger.db-shm``) is gone then, or full of anything.
"""

import os
import random
from hashlib import blake2b
from itertools import product

import pytest

from holdfast.system import kernel
from promises import aftermath, power, strace
from promises.journeys import PHASES, Site, ask, journey
from promises.traces import Trace
from support.workshop import FULL, SEED, many, sampled

pytestmark = pytest.mark.promise(2)

CHANCES = many(2, 6)
WAYS = many(1, 4)
"""So many ways in which one cut may end are looked at."""
STATES = 8
"""So many states after a cut each test looks at, unless it looks at all of them."""
PARTS = 8 if FULL else 1
"""The whole of a journey is long, so it is looked at in parts."""
TWO = ("dev", "custom")
NUMBERS = (0, 1, 7, 8, 21)
"""The places of some lines in the journeys: the first, two plain ones, and an end."""
SHARED_MEMORY = "ledger.db-shm"
AFTER = ["start", "custom", "after the cut"]


@pytest.fixture(autouse=True)
def _needs_strace(untraceable, not_shown):
    if untraceable:
        not_shown(f"promise 2, power cuts: {untraceable}")


class Run:
    """A traced journey, and what must be true of everything that a cut may leave of it."""

    edited = None
    """A record with an edit, which waits for the next change of its own workflow."""

    def __init__(self, folder, site):
        self.folder = folder
        self.site = site
        self.trace = Trace(self.site.root)
        self.words = {}
        self.hashes = []
        self.commits = set()

    def do(self, name, line, *options):
        """Carry out a line under strace, with options of strace; return how it ended."""
        self.words[name] = self.site.words(line, name)
        ended = self.trace.run(self.words[name], name, *options)
        if ended.returncode == 0:
            self.site.workflow = aftermath.events(self.site.root)[-1]["stream"]
        return ended

    def sync_of(self, line):
        """The number, among the syncs of a command, of the one that makes its commit durable."""
        copy = self.site.copy(os.path.join(self.folder, "copy"))
        words = [*copy.words(line, "tried"), "--json"]
        points = strace.points(copy.root, os.path.join(self.folder, "strace.log"), words)
        copy.drop()
        return strace.commit_in(points)[1]

    def go(self, lines):
        for name, line in lines:
            ended = self.do(name, line)
            assert ended.returncode == 0, ended
        events = aftermath.events(self.site.root)
        self.hashes = [event["hash"] for event in events]
        first = [event["seq"] for event in events if "." not in event["id"]]
        self.commits = {0, len(events), *(seq - 1 for seq in first)}
        return self

    def moments(self, part=0):
        """One part of all moments at which the power can be cut."""
        return range(part, len(self.trace.log) + 1, PARTS)

    def _cuts(self, moments):
        """Every state that is looked at: the cut, and the tree that it left.

        Among them always what is certain right after each answer.
        """
        listed = list(moments)
        answered = [at for at in listed if self.trace.log[at - 1][:2] == ("said", "acknowledged")]
        known = set()
        for moment in sampled(answered, STATES // 2):
            cut = power.Cut(self.trace, moment)
            yield moment, cut, *power.harshest(cut)
        for moment in sampled(listed, STATES):
            cut = power.Cut(self.trace, moment)
            ways = list(power.ways(cut, f"{SEED}-{moment}", CHANCES))
            for way in random.Random(f"{SEED}{moment}").sample(ways, min(WAYS, len(ways))):
                tree, folders = cut.left(*way)
                mark = blake2b(repr((cut.said, tree, folders)).encode()).digest()
                if mark not in known:
                    known.add(mark)
                    yield moment, cut, tree, folders

    def check_all(self, moments, check=None):
        """Look at what cuts at these moments left; return how many states it were."""
        looked = 0
        for moment, cut, whole, folders in self._cuts(moments):
            root = os.path.join(self.folder, "left")
            tree = _without_memory(whole, f"{SEED}-{moment}-{looked}")
            power.materialise(tree, folders, self.site.root, root)
            site = Site(root)
            site.workflow = self.site.workflow
            torn = _torn(cut, tree, self.site.root)
            try:
                (check or self.check)(site, cut, torn)
            except Exception as error:
                listing = sorted(path.removeprefix(self.site.root) for path in tree)
                raise AssertionError(
                    f"seed {SEED}, cut after call {moment} {self.trace.log[moment - 1][:2]}, of "
                    f"{cut.said[-2:]}; left were {listing}"
                ) from error
            site.drop()
            looked += 1
        return looked

    def check(self, site, cut, torn):
        """All that was acknowledged is there, in order and once, and nothing half; it goes on.

        Of a record that the cut tore, ``verify`` may say that it cannot be read.
        """
        acknowledged = [said for said in cut.said if said[0] == "acknowledged"]
        hashes = [event["hash"] for event in aftermath.events(site.root)]
        assert hashes == self.hashes[: len(hashes)]
        assert len(hashes) in self.commits
        assert len(hashes) >= max((seqs[-1] for _, _, seqs in acknowledged), default=0)
        assert [line for line in aftermath.errors(site.root) if line["what"] not in torn] == []
        if acknowledged:
            _, name, seqs = acknowledged[-1]
            assert self.answer(site, name)["seqs"] == seqs
        if cut.said and cut.said[-1][0] == "begun":
            self.answer(site, cut.said[-1][1])
        self.goes_on(site, [said[1] for said in cut.said if said[0] == "begun"][-1:])

    def answer(self, site, name):
        """Carry out one of the run's commands again, under its id; return the answer."""
        code, answer = ask(site.root, *self.words[name])
        assert code == 0, answer
        return answer

    def goes_on(self, site, recorded=()):
        """Another workflow can be started; then records are right, and nothing is there twice."""
        code, answer = ask(site.root, *AFTER)
        assert code == 0, answer
        assert aftermath.complaints(site.root, self.edited) == []
        ids = aftermath.ids(site.root)
        assert len(ids) == len(set(ids))
        assert set(recorded) <= set(ids)


def _without_memory(tree, seed):
    """The tree with shared memory as a cut leaves it: nothing, zeros, or anything.

    The mark in the lock's file names a boot before the cut.
    """
    lots = random.Random(seed)
    fate = lots.randrange(3)
    left = {}
    for path, (node, data) in tree.items():
        if path.endswith("/holdfast/lock"):
            left[path] = (node, data.replace(kernel.boot_id().encode(), b"before the cut"))
        elif not path.endswith(SHARED_MEMORY):
            left[path] = (node, data)
        elif fate:
            left[path] = (node, data if fate == 1 else lots.randbytes(32768))
    return left


def _torn(cut, tree, root):
    """The views that the cut may have torn, by their paths from the root: nobody synced them."""
    nodes = {id(node) for node in cut.unsynced}
    paths = [path for path, (node, _) in tree.items() if node in nodes]
    return {os.path.relpath(path, root) for path in paths if "ledger.db" not in path}


each_part = pytest.mark.parametrize("part", range(PARTS))


@each_part
@pytest.mark.parametrize("recipe", PHASES)
def test_what_was_acknowledged_is_there_after_a_cut_at_any_moment(recipe, part, quick, tally):
    run = Run(quick, Site.made(os.path.join(quick, "site"))).go(journey(recipe))
    tally("power cuts", states=run.check_all(run.moments(part)))


@pytest.mark.parametrize("git", [True, False], ids=["in git", "without git"])
@pytest.mark.parametrize("recipe", ["dev", "custom"])
def test_a_cut_while_the_ledger_is_made_leaves_all_of_it_or_nothing(recipe, git, quick, tally):
    run = Run(quick, Site.made(os.path.join(quick, "site"), git=git)).go(journey(recipe)[:1])
    tally("power cuts", states=run.check_all(run.moments()))


@pytest.mark.parametrize(
    ("recipe", "number", "git"), sampled(product(TWO, NUMBERS, (True, False)), 6, "killed")
)
def test_a_retry_that_finds_the_work_of_a_killed_writer_makes_it_durable(
    recipe, number, git, stages, quick, tally
):
    """The writer wrote its commit, and was killed before it was synced."""
    name, line = journey(recipe)[number]
    run = Run(quick, stages.site(os.path.join(quick, "site"), recipe, number, git=git))
    ended = run.do(name, line, "-e", f"inject=fdatasync:signal=SIGKILL:when={run.sync_of(line)}")
    assert ended.returncode == -9, ended
    assert name in aftermath.ids(run.site.root)
    run.go([(name, line)])
    tally("power cuts", states=run.check_all([len(run.trace.log)]))


@pytest.mark.parametrize(
    ("recipe", "number", "always"), sampled(product(TWO, NUMBERS, (True, False)), 6, "failed")
)
def test_after_a_failed_sync_the_retry_applies_once(recipe, number, always, stages, quick, tally):
    """A disk that forgets what it failed to sync is survived if it syncs again right after."""
    name, line = journey(recipe)[number]
    run = Run(quick, stages.site(os.path.join(quick, "site"), recipe, number))
    when = f"{run.sync_of(line)}{'+' if always else ''}"
    ended = run.do(name, line, "-e", f"inject=fdatasync:error=EIO:when={when}")
    assert ended.returncode == 3, ended
    if always:
        run.trace.log = [entry for entry in run.trace.log if entry[0] != "failed"]
    began = len(run.trace.log)
    run.go([(name, line)])
    assert aftermath.ids(run.site.root).count(name) == 1
    tally("power cuts", states=run.check_all(range(began, len(run.trace.log) + 1)))


def test_a_hand_edit_survives_the_cut_that_follows_its_adoption(stages, quick, tally):
    site = stages.site(os.path.join(quick, "site"), "dev", 2)
    record = aftermath.record_of(site)
    with open(record, "rb") as file:
        edited = file.read().replace(b"A feature", b"An edited feature")
    with open(record, "wb") as file:
        file.write(edited)
    run = Run(quick, site).go([("after-edit", ["task", "add", "three"])])
    run.edited = os.path.relpath(record, site.root)

    def check(site, cut, torn):
        run.check(site, cut, torn)
        assert aftermath.state_of(site.root, run.site.workflow)["title"] == "An edited feature"

    tally("power cuts", states=run.check_all(run.moments(), check))
