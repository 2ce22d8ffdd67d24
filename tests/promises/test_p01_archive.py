"""Promises 1 and 2 for ``archive``: killed at any system call, or by a power cut at any moment,
every event is there, once, and ``archive`` can be run again.
"""

import os

import pytest

from promises import aftermath, strace
from promises.journeys import Site, ask
from promises.test_p02_power_cut import Run
from support.workshop import SEED, sampled

WORDS = ["archive", "--before", "2999-01-01", "--yes"]
OTHER = ["start", "dev", "docs/other.md"]
OWN = "_ledger"


@pytest.fixture(autouse=True)
def _needs_strace(untraceable, not_shown):
    if untraceable:
        not_shown(f"promise 1, the kill matrix of archive: {untraceable}")


def site_with_ended(folder):
    """A repository with an active workflow and three that ended, one of them archived already."""
    site = Site.made(os.path.join(folder, "site"))
    for number in range(4):
        code, answer = ask(site.root, "start", "dev", f"docs/{number}.md", "--task", "one")
        assert code == 0, answer
        site.workflow = answer["workflow"]["id"]
        if number < 3:
            code, answer = ask(site.root, "abandon", "-w", site.workflow, "--reason", "no")
            assert code == 0, answer
        if number == 0:
            code, answer = ask(site.root, *WORDS)
            assert code == 0, answer
    return site


def hashes(root):
    """Seq and hash of every event but those of archiving itself."""
    events = aftermath.events(root)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    return [(event["seq"], event["hash"]) for event in events]


def check_whole(site, before):
    """Every event is there, everything is sound, and it can be archived and goes on."""
    assert hashes(site.root)[: len(before)] == before
    assert aftermath.errors(site.root) == []
    code, answer = ask(site.root, *WORDS)
    assert code == 0, answer
    assert hashes(site.root)[: len(before)] == before
    code, answer = ask(site.root, *OTHER)
    assert code == 0, answer
    assert aftermath.complaints(site.root) == []
    for name in ("ledger.db", "new.db"):
        assert not os.path.exists(os.path.join(site.home, "archiving", name))
    listed = [e["data"]["archive"] for e in aftermath.events(site.root) if e["stream"] == OWN]
    assert sorted(os.listdir(os.path.join(site.home, "archives"))) == sorted(listed)


@pytest.mark.promise(1)
def test_archiving_that_is_killed_at_any_call_loses_and_doubles_nothing(quick, tally):
    site = site_with_ended(quick)
    before = hashes(site.root)
    log = os.path.join(quick, "strace.log")
    words = [*WORDS, "--json"]
    smooth = site.copy(os.path.join(quick, "done"))
    points = strace.points(smooth.root, log, words)
    assert len(hashes(smooth.root)) == len(before) + 1
    smooth.drop()
    moved = [number for number, (name, _, _) in enumerate(points) if name.startswith("rename")]
    tried = {number: points[number] for number in moved}
    tried |= dict(sampled(list(enumerate(points)), 12, "archive"))
    for number, point in sorted(tried.items()):
        copy = site.copy(os.path.join(quick, "done"))
        try:
            strace.kill(copy.root, log, words, point)
            check_whole(copy, before)
        except Exception as error:
            raise AssertionError(f"seed {SEED}: killed at {number}: {point}") from error
        finally:
            copy.drop()
    tally("kill matrix", points=len(tried), failures=0)


@pytest.mark.promise(2)
def test_a_power_cut_while_archiving_loses_nothing(quick, tally):
    site = site_with_ended(quick)
    before = hashes(site.root)
    run = Run(quick, site)
    ended = run.trace.run(WORDS, "archive")
    assert ended.returncode == 0, ended

    def check(left, _cut, _torn):
        check_whole(left, before)

    tally("power cuts", states=run.check_all(run.moments(), check))
