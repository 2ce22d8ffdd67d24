"""Which workflow is meant is looked up by indexes, and is the one that a look at all rows gives."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Keeper, Refused
from holdfast.core import selection
from holdfast.core.refusal import Refusal
from holdfast.system.disk import Disk
from support.git_template import make_repository, run_git

SESSIONS = ("one", "on", 'o\'ne "1"', "ünö", None)
BRANCHES = ("main", "side", "main/detail")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("start", "resume", "note", "advance", "complete", "switch", "move")),
        st.sampled_from(SESSIONS),
        st.integers(0, 3),
    ),
    max_size=14,
)


class LinkedWorktrees:
    """A repository with a linked worktree, whose branches are switched by hand."""

    def __init__(self, folder):
        self.roots = [os.path.join(folder, "main"), os.path.join(folder, "linked")]
        make_repository(self.roots[0], committed=True)
        run_git(self.roots[0], "worktree", "add", "-q", "-b", "linked", self.roots[1])
        self.here = 0

    def keeper(self, session):
        return Keeper(self.roots[self.here], session=session)

    def step(self, what, session, number):
        keeper = self.keeper(session)
        workflow = f"w{number}"
        if what == "start":
            keeper.start("custom", workflow)
        elif what == "resume":
            keeper.resume(workflow=workflow)
        elif what == "note":
            keeper.set_context({"n": 1}, workflow=workflow)
        elif what == "advance":
            keeper.advance(workflow=workflow, force=True, reason="on")
        elif what == "complete":
            keeper.abandon("no more", workflow=workflow)
        elif what == "switch":
            with open(os.path.join(self.roots[0], ".git", "HEAD"), "w") as file:
                file.write(f"ref: refs/heads/{BRANCHES[number % len(BRANCHES)]}\n")
        else:
            self.here = 1 - self.here


def whole(keeper):
    """Return what the rule gives for all workflows there are."""
    session = keeper.session
    rows = keeper.store.ledger.rows("kind = 'workflow'")
    return selection.choose(rows, session.asker(), session.live(rows))


def meaning(picked):
    if isinstance(picked, Refusal):
        return picked.code, sorted(picked.details.get("candidates", []))
    return picked["id"]


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_the_quick_way_gives_what_a_look_at_all_gives(tmp_path_factory, steps):
    repository = LinkedWorktrees(str(tmp_path_factory.mktemp("own")))
    for step in steps:
        try:
            repository.step(*step)
        except Refused:
            continue
    for repository.here in (0, 1):
        for session in SESSIONS:
            keeper = repository.keeper(session)
            assert meaning(keeper.session.picked()) == meaning(whole(keeper))


class Reader(Disk):
    """Notes what is read."""

    def __init__(self):
        super().__init__()
        self.paths = []

    def read_own(self, path, most=None, **options):
        self.paths.append(path)
        return super().read_own(path, most, **options)


def test_other_records_are_not_even_opened(tmp_path):
    for number in range(5):
        Keeper(tmp_path).start("custom", f"w{number}")
    Keeper(tmp_path, session="mine").resume(workflow="w3")
    disk = Reader()
    assert Keeper(tmp_path, session="mine", disk=disk).current_workflow()["id"] == "w3"
    records = {path for path in disk.paths if "/workflow-state/" in path}
    assert {path.split("/")[-2] for path in records} == {"w3"}
