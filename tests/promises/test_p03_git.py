"""Promise 3: nothing that git does, or that people do to a repository's folder, loses or forks the
ledger.

First every operation by itself, and what the next command says. Then the same again and again
while writers, some of them real command lines, change the same ledger without end: what they were
acknowledged is in history once.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from holdfast import Fault, HoldfastError, Keeper, Refused
from promises.writers import UNKNOWN, Load, check_found_once, check_history
from support.git_template import run_git
from support.paths import SOURCE
from support.workshop import Workshop, many

pytestmark = pytest.mark.promise(3)

ROUNDS = many(2, 60)


def commit(root, name, text="x"):
    with open(os.path.join(root, name), "w", encoding="utf-8") as file:
        file.write(text)
    run_git(root, "add", name)
    run_git(root, "commit", "-q", "-m", name)


def ledger(root):
    return os.path.join(root, ".git", "holdfast", "ledger.db")


class Repository(Workshop):
    """A repository with two branches that differ, a workflow, and its record."""

    def __init__(self, root):
        super().__init__(root)
        self.prepare()
        self.begin()

    def prepare(self):
        commit(self.root, "one.txt")
        run_git(self.root, "branch", "other")
        commit(self.root, "two.txt")

    def begin(self, recipe="dev"):
        state = self.live().start(recipe, "docs/plan.md").state
        self.workflow, self.record = state["id"], state["record"]

    def live(self):
        """Return a keeper with the real clock, like everybody's."""
        return Keeper(self.root)

    def value(self):
        """Return what was last set."""
        return self.live().show(workflow=self.workflow).state["context"].get("n")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


def check_whole(root):
    """The history has no gap, and ``verify`` finds no error."""
    keeper = Keeper(root)
    check_history(keeper.log())
    report = keeper.verify()
    assert [line for line in report.lines if line["level"] == "error"] == []


# Each operation by itself


def test_clean_takes_the_record_which_is_rebuilt_and_said(repository):
    before = repository.live().log()
    run_git(repository.root, "clean", "-fdxq")
    assert not os.path.exists(repository.path(repository.record))
    assert repository.live().log() == before
    receipt = repository.live().set_context({"n": 1}, workflow=repository.workflow)
    assert any("gone and is rebuilt" in note for note in receipt.notes), receipt.notes
    assert os.path.exists(repository.path(repository.record))
    check_whole(repository.root)


def test_clean_in_the_last_phase_completes_nothing(repository):
    keeper = repository.live()
    formal = keeper.start("planning", "a plan").state
    while formal["phase"] != formal["phases"][-1]["name"]:
        formal = keeper.advance(workflow=formal["id"], force=True, reason="quick").state
    run_git(repository.root, "clean", "-fdxq")
    receipt = repository.live().remind("still here", workflow=formal["id"])
    assert receipt.state["status"] == "in_progress"
    assert os.path.exists(repository.path(receipt.record))


def test_stash_takes_the_record_and_pop_brings_an_older_one_forward(repository):
    run_git(repository.root, "stash", "push", "-aq")
    assert not os.path.exists(repository.path(repository.record))
    assert repository.value() is None
    run_git(repository.root, "stash", "pop", "-q")
    repository.live().set_context({"n": 1}, workflow=repository.workflow)
    run_git(repository.root, "stash", "push", "-aq")
    repository.live().set_context({"n": 2}, workflow=repository.workflow)
    # git puts no file back where there is one.
    shutil.rmtree(repository.path(".claude"))
    run_git(repository.root, "stash", "pop", "-q")
    receipt = repository.live().remind("after", workflow=repository.workflow)
    assert receipt.state["context"]["n"] == 2
    assert repository.document(repository.record)["context"]["n"] == 2
    check_whole(repository.root)


def test_checkout_of_another_branch_keeps_the_workflow_and_says_so(repository):
    state = repository.live().start("apex", "on main").state
    run_git(repository.root, "checkout", "-q", "other")
    repository.live().abandon("not now", workflow=repository.workflow)
    with pytest.raises(Refused) as caught:
        repository.live().remind("for whom")
    assert "is for branch main; this is other" in caught.value.message
    assert "git switch main" in caught.value.hint
    repository.live().remind("by its name", workflow=state["id"])
    run_git(repository.root, "checkout", "-q", "main")
    assert repository.live().show().state["reminders"] == ["by its name"]
    check_whole(repository.root)


def test_a_rebase_that_stops_halfway_keeps_the_branch(repository):
    run_git(repository.root, "checkout", "-q", "other")
    commit(repository.root, "two.txt", "another")
    assert run_git(repository.root, "rebase", "main", check=False).returncode
    keeper = repository.live()
    assert keeper.workspace.branch() == "other"
    keeper.set_context({"n": "in the middle"}, workflow=repository.workflow)
    run_git(repository.root, "rebase", "--abort")
    assert repository.value() == "in the middle"
    check_whole(repository.root)


def test_gc_leaves_the_ledger_alone(repository):
    before = repository.live().log()
    run_git(repository.root, "reflog", "expire", "--expire=now", "--all")
    run_git(repository.root, "gc", "-q", "--prune=now", "--aggressive")
    assert repository.live().log() == before


def test_linked_worktrees_share_one_ledger(repository, tmp_path):
    linked = str(tmp_path / "linked")
    run_git(repository.root, "worktree", "add", "-q", linked, "other")
    assert Keeper(linked).log() == repository.live().log()
    state = Keeper(linked).start("tdd", "linked.md").state
    assert os.path.exists(os.path.join(linked, state["record"]))
    assert not os.path.exists(repository.path(state["record"]))
    assert not os.path.exists(os.path.join(linked, ".claude", "holdfast"))
    assert repository.live().log() == Keeper(linked).log()


def test_a_worktree_that_moves_takes_its_record_along(repository, tmp_path):
    linked, moved = str(tmp_path / "linked"), str(tmp_path / "moved")
    run_git(repository.root, "worktree", "add", "-q", linked, "other")
    open_for_long = Keeper(linked)
    state = open_for_long.start("tdd", "linked.md").state
    run_git(repository.root, "worktree", "move", linked, moved)
    receipt = open_for_long.remind("after the move", workflow=state["id"])
    assert not os.path.exists(linked)
    with open(os.path.join(moved, state["record"]), encoding="utf-8") as file:
        assert json.load(file)["_holdfast"]["seq"] == receipt.seqs[-1]
    assert Keeper(moved).show().state["reminders"] == ["after the move"]
    check_whole(moved)


def test_a_removed_worktree_leaves_its_workflow_in_the_ledger(repository, tmp_path):
    linked = str(tmp_path / "linked")
    run_git(repository.root, "worktree", "add", "-q", linked, "other")
    open_for_long = Keeper(linked)
    state = open_for_long.start("tdd", "linked.md").state
    run_git(repository.root, "worktree", "remove", "--force", linked)
    open_for_long.remind("by whoever had it open", workflow=state["id"])
    assert not os.path.exists(linked)
    shown = repository.live().show(workflow=state["id"])
    assert any("worktree" in note and "gone" in note for note in shown.notes), shown.notes
    receipt = repository.live().resume(workflow=state["id"])
    assert receipt.state["reminders"] == ["by whoever had it open"]
    assert os.path.exists(repository.path(receipt.record))
    check_whole(repository.root)


def test_the_worktrees_of_a_bare_repository_share_its_ledger(repository, tmp_path):
    bare = str(tmp_path / "bare.git")
    run_git(tmp_path, "clone", "-q", "--bare", repository.root, bare)
    roots = [str(tmp_path / name) for name in ("first", "second")]
    for root, branch in zip(roots, ("main", "other"), strict=True):
        run_git(bare, "worktree", "add", "-q", root, branch)
        Keeper(root).start("dev", f"{branch}.md")
    assert Keeper(roots[0]).log() == Keeper(roots[1]).log() == Keeper(bare).log()
    assert len(Keeper(bare).workflows()[0]) == 2
    assert os.path.exists(os.path.join(bare, "holdfast", "ledger.db"))
    run_git(bare, "gc", "-q", "--prune=now")
    check_whole(roots[0])


def with_submodule(tmp_path):
    """Return the roots of a repository and of a submodule in it."""
    inner = Repository(tmp_path / "origin")
    outer = str(tmp_path / "outer")
    run_git(tmp_path, "init", "-q", "-b", "main", outer)
    run_git(outer, "submodule", "--quiet", "add", inner.root, "part")
    run_git(outer, "commit", "-q", "-m", "part")
    return outer, os.path.join(outer, "part")


def test_a_submodule_has_a_ledger_of_its_own_that_survives_deinit(tmp_path):
    outer, part = with_submodule(tmp_path)
    state = Keeper(part).start("dev", "part.md").state
    assert Keeper(outer).log() == []
    before = Keeper(part).log()
    run_git(outer, "submodule", "deinit", "-q", "-f", "part")
    run_git(outer, "submodule", "--quiet", "update", "--init")
    assert Keeper(part).log() == before
    receipt = Keeper(part).remind("again", workflow=state["id"])
    assert os.path.exists(os.path.join(part, receipt.record))
    check_whole(part)


def test_a_repository_that_becomes_a_submodule_takes_its_ledger_along(tmp_path):
    outer = str(tmp_path / "outer")
    run_git(tmp_path, "init", "-q", "-b", "main", outer)
    inner = Repository(tmp_path / "outer" / "part")
    open_for_long = inner.live()
    open_for_long.set_context({"n": 1})
    run_git(outer, "submodule", "--quiet", "add", "./part")
    run_git(outer, "submodule", "--quiet", "absorbgitdirs")
    assert os.path.isfile(inner.path(".git"))
    with pytest.raises(Fault) as caught:
        open_for_long.set_context({"n": 2}, workflow=inner.workflow)
    assert caught.value.code == "moved"
    inner.live().set_context({"n": 3}, workflow=inner.workflow)
    assert inner.value() == 3
    check_whole(inner.root)


def test_git_that_is_set_up_later_takes_the_ledger_along(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plain = Workshop(tmp_path / "plain", git=False)
    open_for_long = Keeper(plain.root)
    open_for_long.start("dev", "docs/plan.md")
    before = open_for_long.log()
    run_git(plain.root, "init", "-q")
    receipt = Keeper(plain.root).remind("in git")
    with pytest.raises(Fault) as caught:
        open_for_long.remind("into a ledger that is gone")
    assert caught.value.code == "moved"
    assert not os.path.exists(plain.path(".claude", "holdfast", "ledger.db"))
    events = Keeper(plain.root).log()
    assert events[: len(before)] == before
    assert events[-1]["seq"] == receipt.seqs[-1]
    check_whole(plain.root)


def test_a_clone_has_no_ledger(repository, tmp_path):
    clone = str(tmp_path / "clone")
    run_git(tmp_path, "clone", "-q", repository.root, clone)
    assert Keeper(clone).log() == []
    with pytest.raises(Refused):
        Keeper(clone).show()
    assert not os.path.exists(ledger(clone))


def test_a_copy_is_a_ledger_of_its_own_from_then_on(repository, tmp_path):
    copy = str(tmp_path / "copy")
    subprocess.run(["cp", "-a", repository.root, copy], check=True)
    Keeper(copy).set_context({"n": "copy"}, workflow=repository.workflow)
    repository.live().set_context({"n": "original"}, workflow=repository.workflow)
    assert repository.value() == "original"
    assert Keeper(copy).show(workflow=repository.workflow).state["context"]["n"] == "copy"
    check_whole(copy)
    check_whole(repository.root)


def test_the_record_of_a_copy_is_told_from_ones_own(repository, tmp_path):
    """Two ledgers with one beginning: what the other one recorded is taken for what it is."""
    copy = str(tmp_path / "copy")
    subprocess.run(["cp", "-a", repository.root, copy], check=True)
    Keeper(copy).set_context({"n": "copy"}, workflow=repository.workflow)
    repository.live().set_context({"m": "original"}, workflow=repository.workflow)
    shutil.copy(os.path.join(copy, repository.record), repository.path(repository.record))
    receipt = repository.live().remind("after", workflow=repository.workflow)
    assert any("context.n" in note for note in receipt.notes), receipt.notes
    context = receipt.state["context"]
    assert (context["n"], context["m"]) == ("copy", "original")
    check_whole(repository.root)


def test_a_moved_repository_is_not_made_a_second_time(repository, tmp_path):
    moved = str(tmp_path / "moved")
    open_for_long, reader = repository.live(), repository.live()
    open_for_long.set_context({"n": 1}, workflow=repository.workflow)
    reader.show(workflow=repository.workflow)
    os.rename(repository.root, moved)
    for attempt in (
        lambda: open_for_long.set_context({"n": 2}, workflow=repository.workflow),
        lambda: reader.show(workflow=repository.workflow),
    ):
        with pytest.raises(Fault) as caught:
            attempt()
        assert caught.value.code == "moved"
        assert "again" in caught.value.hint
    assert not os.path.exists(repository.root)
    assert Keeper(moved).show(workflow=repository.workflow).state["context"]["n"] == 1
    check_whole(moved)


def test_a_command_in_a_folder_that_is_gone_says_so(repository):
    script = f'rm -rf "{repository.root}"; exec "{sys.executable}" -m holdfast remind x --json'
    ended = subprocess.run(
        ["sh", "-c", script], cwd=repository.root, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )  # fmt: skip
    assert ended.returncode == 3, ended
    assert "gone" in json.loads(ended.stdout)["error"]["message"]


def test_a_repository_that_is_cloned_again_begins_anew(repository, tmp_path):
    origin = str(tmp_path / "origin.git")
    run_git(tmp_path, "clone", "-q", "--bare", repository.root, origin)
    open_for_long = repository.live()
    open_for_long.set_context({"n": 1}, workflow=repository.workflow)
    shutil.rmtree(repository.root)
    run_git(tmp_path, "clone", "-q", origin, repository.root)
    with pytest.raises(Refused):
        open_for_long.set_context({"n": 2}, workflow=repository.workflow)
    state = open_for_long.start("dev", "anew.md").state
    assert repository.live().show().state["id"] == state["id"]
    assert open_for_long.store.ledger.identity() == repository.live().store.ledger.identity()
    check_whole(repository.root)


# Under load


def check_answers(attempts, allowed):
    """Nobody had an answer that is out of place for what was done to the repository."""
    others = [one for one in attempts if one.code not in (None, *allowed)]
    odd = {(one.code, one.message) for one in others if "folder is gone" not in one.message}
    assert not odd, odd


class Trial:
    """Writers on a repository while operations are carried out on it."""

    def __init__(self, folder, roots, workflow):
        self.root = roots[0]
        self.load = Load(str(folder), roots, workflow)
        self.operations = 0

    def between(self, *operations):
        """Carry out the operations in turn, each after every writer had an answer."""
        for number in range(ROUNDS):
            for operation in operations:
                self.load.wait_for_each()
                operation(number)
                self.operations += 1
        self.load.wait_for_each()

    def end(self, tally, name, *ledgers, allowed=()):
        """Stop the writers and check what they were answered against the ledgers."""
        attempts = self.load.stop()
        events = []
        for root in ledgers or (self.root,):
            own = Keeper(root).log()
            check_history(own)
            events += own
            check_whole(root)
        check_found_once(attempts, events, ledgers=len(ledgers))
        check_answers(attempts, allowed)
        acknowledged = sum(one.seqs is not None for one in attempts)
        assert acknowledged > 0
        counts = {"acknowledged": acknowledged, "lost": 0, "doubled": 0}
        tally(f"{name} under load", operations=self.operations, **counts)


@pytest.fixture
def trial(tmp_path):
    started = []

    def start(roots, workflow):
        folder = tmp_path / "writers"
        folder.mkdir()
        started.append(Trial(folder, roots, workflow))
        return started[-1]

    yield start
    for one in started:
        one.load.kill()


def test_clean_under_load(repository, trial, tally):
    run = trial([repository.root], repository.workflow)
    run.between(lambda _: run_git(repository.root, "clean", "-fdxq", check=False))
    run.end(tally, "clean")


def test_stash_under_load(repository, trial, tally):
    run = trial([repository.root], repository.workflow)
    run.between(
        lambda _: run_git(repository.root, "stash", "push", "-aq", check=False),
        lambda _: run_git(repository.root, "stash", "pop", "-q", check=False),
    )
    run.end(tally, "stash")


def test_checkout_and_rebase_under_load(repository, trial, tally):
    root = repository.root
    run_git(root, "branch", "topic")
    run = trial([root], repository.workflow)
    run.between(
        lambda _: run_git(root, "checkout", "-q", "other"),
        lambda number: commit(root, f"{number}.txt"),
        lambda _: run_git(root, "checkout", "-q", "topic"),
        lambda _: run_git(root, "rebase", "-q", "other"),
        lambda _: run_git(root, "checkout", "-q", "main"),
    )
    run.end(tally, "checkout and rebase")


def test_gc_under_load(repository, trial, tally):
    run = trial([repository.root], repository.workflow)
    run.between(lambda _: run_git(repository.root, "gc", "-q", "--prune=now"))
    run.end(tally, "gc")


def test_worktrees_under_load(repository, trial, tally, tmp_path):
    """Writers in the main worktree and in a linked one, which is removed, made and moved."""
    linked, moved = str(tmp_path / "linked"), str(tmp_path / "moved")
    root = repository.root
    run_git(root, "worktree", "add", "-q", linked, "other")
    run = trial([linked, moved, root], repository.workflow)
    run.between(
        lambda _: run_git(root, "worktree", "move", linked, moved),
        lambda _: run_git(root, "worktree", "remove", "--force", moved, check=False),
        lambda _: shutil.rmtree(moved, ignore_errors=True),
        lambda _: run_git(root, "worktree", "prune"),
        lambda _: run_git(root, "worktree", "add", "-f", "-q", linked, "other"),
    )
    run.end(tally, "worktrees", root, allowed=("moved", "no_folder", "not_found"))


def test_a_bare_repository_under_load(repository, trial, tally, tmp_path):
    bare, root = str(tmp_path / "bare.git"), str(tmp_path / "first")
    run_git(tmp_path, "clone", "-q", "--bare", repository.root, bare)
    run_git(bare, "worktree", "add", "-q", root, "main")
    run = trial([root], Keeper(root).start("dev", "bare.md").state["id"])
    second = str(tmp_path / "second")
    run.between(
        lambda _: run_git(bare, "worktree", "add", "-q", second, "other"),
        lambda _: run_git(bare, "gc", "-q", "--prune=now"),
        lambda _: run_git(bare, "worktree", "remove", "--force", second),
    )
    run.end(tally, "bare repository", root)


def test_a_submodule_under_load(trial, tally, tmp_path):
    outer, part = with_submodule(tmp_path)
    run = trial([part], Keeper(part).start("dev", "part.md").state["id"])
    run.between(
        lambda _: run_git(
            outer, "submodule", "--quiet", "update", "--init", "--force", check=False
        ),
        lambda _: run_git(outer, "submodule", "foreach", "--quiet", "git clean -fdxq", check=False),
        lambda _: run_git(outer, "clean", "-ffdxq", check=False),
    )
    run.end(tally, "submodule")


def test_clones_under_load(repository, trial, tally, tmp_path):
    def clone(number):
        target = str(tmp_path / f"clone-{number}")
        run_git(tmp_path, "clone", "-q", repository.root, target)
        assert Keeper(target).log() == []

    run = trial([repository.root], repository.workflow)
    run.between(clone)
    run.end(tally, "clone")


def test_copies_under_load(repository, trial, tally, tmp_path):
    """A copy that is made file by file while others write is whole, or its damage is named."""
    outcomes = []

    def copy(number):
        target = str(tmp_path / f"copy-{number}")
        subprocess.run(["cp", "-a", repository.root, target], check=False, capture_output=True)
        outcomes.append(_state_of_copy(target, repository.workflow, f"copy-{number}"))

    run = trial([repository.root], repository.workflow)
    run.between(copy)
    run.end(tally, "copy")
    ids = {event["id"] for event in repository.live().log()}
    assert not any(event_id.startswith("copy-") for event_id in ids)
    tally("copies", whole=outcomes.count("whole"), damaged=outcomes.count("damaged"))


def _state_of_copy(root, workflow, name):
    keeper = Keeper(root)
    try:
        if not keeper.verify().ok:
            return "damaged"
        keeper.set_context({"n": name}, workflow=workflow, id=name)
        check_whole(root)
    except HoldfastError as error:
        assert error.code == "ledger_damaged", error
        return "damaged"
    return "whole"


def test_a_repository_that_moves_under_load(repository, trial, tally, tmp_path):
    moved = str(tmp_path / "moved")
    run = trial([repository.root, moved], repository.workflow)
    run.between(
        lambda _: os.rename(repository.root, moved),
        lambda _: os.rename(moved, repository.root),
    )
    codes = ("moved", "not_written", "no_folder", "not_found", "record_behind")
    run.end(tally, "move", repository.root, allowed=codes)
    assert not os.path.exists(moved)


def test_a_repository_that_is_replaced_by_a_clone_under_load(repository, trial, tally, tmp_path):
    """Every acknowledged event is in the ledger that stood there when it was acknowledged."""
    origin, which = str(tmp_path / "origin.git"), str(tmp_path / "workflow")
    run_git(tmp_path, "clone", "-q", "--bare", repository.root, origin)
    graves = []

    def name(workflow):
        with open(f"{which}.new", "w", encoding="utf-8") as file:
            file.write(workflow)
        os.rename(f"{which}.new", which)

    def replace(number):
        clone, grave = str(tmp_path / f"fresh-{number}"), str(tmp_path / f"grave-{number}")
        run_git(tmp_path, "clone", "-q", origin, clone)
        workflow = Keeper(clone).start("dev", f"{number}.md").state["id"]
        os.rename(repository.root, grave)
        os.rename(clone, repository.root)
        graves.append(grave)
        name(workflow)

    name(repository.workflow)
    run = trial([repository.root], which)
    run.between(replace)
    codes = ("moved", "not_written", "no_folder", "not_found", "record_behind", UNKNOWN)
    run.end(tally, "replacement", repository.root, *graves, allowed=codes)


def test_a_repository_that_is_deleted_under_load(repository, trial, tally, tmp_path):
    """A deleted ledger is gone; whatever is acknowledged later is in the one that came after."""
    origin = str(tmp_path / "origin.git")
    run_git(tmp_path, "clone", "-q", "--bare", repository.root, origin)
    generations = []
    begun = time.monotonic_ns()

    def delete(number):
        nonlocal begun
        trash, fresh = str(tmp_path / "trash"), str(tmp_path / f"fresh-{number}")
        looked = time.monotonic_ns()
        generations.append((begun, looked, _ids(repository.root)))
        os.rename(repository.root, trash)
        begun = time.monotonic_ns()
        # Whoever was in the folder may still write there.
        while os.path.exists(trash):
            shutil.rmtree(trash, ignore_errors=True)
        run_git(tmp_path, "clone", "-q", origin, fresh)
        Keeper(fresh).start("dev", "docs/plan.md")
        os.rename(fresh, repository.root)

    run = trial([repository.root], repository.workflow)
    run.between(delete)
    attempts = run.load.stop()
    generations.append((begun, time.monotonic_ns(), _ids(repository.root)))
    known = [one for one in attempts if one.seqs is not None]
    sure = 0
    for first, last, ids in generations:
        within = [one.name for one in known if first < one.began and one.ended < last]
        assert set(within) <= ids
        sure += len(within)
    check_answers(
        attempts, ("moved", "not_written", "no_folder", "not_found", "record_behind", UNKNOWN)
    )
    check_whole(repository.root)
    tally("deletion under load", operations=run.operations, acknowledged=sure, lost=0)


def _ids(root):
    return {event["id"] for event in Keeper(root).log()}
