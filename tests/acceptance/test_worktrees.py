"""Linked worktrees, bare repositories, submodules: one ledger, and records where the work is."""

import os

import pytest

LEDGER = ".git/holdfast/ledger.db"
ADVANCE = ("advance", "--force", "--reason", "a test")
"""A change that moves on, whatever the phase lacks."""


@pytest.fixture
def trees(repo):
    """A main worktree and two linked ones, ``left`` and ``right``, each on a branch of its name."""
    for name in ("left", "right"):
        repo.git("worktree", "add", "-q", "-b", name, f"../{name}")
    return repo, repo.at("..", "left"), repo.at("..", "right")


def test_worktrees_share_the_ledger_and_keep_their_records(trees):
    main, left, right = trees
    ours = left.ok("start", "tdd", "one")["workflow"]
    theirs = right.ok("start", "tdd", "two")["workflow"]
    assert (ours["worktree"], ours["branch"]) == ("left", "left")
    assert main.has(LEDGER)
    for tree, mine, other in ((left, ours, theirs), (right, theirs, ours)):
        assert tree.has(mine["record"])
        assert not tree.has(other["record"])
        assert not tree.has(".claude", "holdfast")
        assert tree.git("status", "--porcelain") == ""
    assert len(main.types()) == len(left.types()) == 4
    assert {row["worktree"] for row in main.ok("status")["workflows"]} == {"left", "right"}
    assert "left (left)" in main.run("status").out


def test_each_worktree_gets_its_own_workflow(trees):
    main, left, right = trees
    ours = left.ok("start", "tdd", "one")["workflow"]["id"]
    theirs = right.ok("start", "tdd", "two")["workflow"]["id"]
    assert left.ok(*ADVANCE)["workflow"]["id"] == ours
    assert right.at("src").ok(*ADVANCE)["workflow"]["id"] == theirs
    error = main.refused("advance")
    assert (error["code"], set(error["details"]["candidates"])) == ("not_found", {ours, theirs})
    assert main.ok(*ADVANCE, "-w", ours)["workflow"]["phase"] == "refactor"
    assert left.state()["phase"] == "refactor"


def test_each_worktree_has_a_place_for_a_verb_workflow(trees):
    for number, tree in enumerate(trees):
        assert tree.ok("start", "oneshot", f"typo {number}")
        assert tree.has(".claude/workflow-state.json")
    assert trees[1].refused("start", "oneshot", "another")["code"] == "occupied"


def test_a_subject_that_is_active_elsewhere_is_not_opened_twice(trees):
    main, left, _ = trees
    workflow = main.ok("start", "tdd", "one")["workflow"]["id"]
    error = left.refused("start", "tdd", "one")
    assert (error["code"], workflow in error["hint"]) == ("elsewhere", True)


def test_resume_brings_a_workflow_into_this_worktree(trees):
    _, left, right = trees
    started = left.ok("start", "dev", "one", "--task", "a", "--remind", "this")["workflow"]
    moved = right.ok("resume", started["id"])["workflow"]
    assert moved["worktree"] == "right"
    assert right.has(moved["record"])
    assert not left.has(moved["record"])
    for _ in range(2):
        assert "notes" not in right.ok("show")
    assert right.ok("task", "done", "1")["workflow"]["worktree"] == "right"
    assert left.refused("show")["code"] == "not_found"
    assert "notes" not in left.ok("show", started["id"])
    assert right.run("verify").code == 0


def test_a_workflow_is_not_moved_onto_the_record_of_another(trees):
    _, left, right = trees
    mine = left.ok("start", "oneshot", "one")["workflow"]
    right.ok("start", "oneshot", "two")
    assert right.refused("resume", mine["id"])["code"] == "occupied"
    assert left.state()["id"] == mine["id"]


def test_an_edit_in_the_new_place_is_taken_in(trees):
    _, left, right = trees
    started = left.ok("start", "tdd", "one")["workflow"]
    right.ok("resume", started["id"])
    with open(os.path.join(right.path, started["record"]), encoding="utf-8") as file:
        text = file.read()
    assert '"one"' in text
    right.write(started["record"], text.replace('"one"', '"the one"'))
    answer = right.ok("show", started["id"])
    assert "was edited" in answer["notes"][0]
    assert answer["workflow"]["subject"] == "the one"


def test_a_loop_is_driven_verified_and_rebuilt_in_its_own_worktree(trees):
    main, left, _ = trees
    left.ok("loop", "new", "ours")
    left.ok("loop", "plan", "--unit", "T1: One")
    worker = "cat >/dev/null; pwd >>../where; echo '<signal>T1_DONE</signal>'"
    words = ("loop", "run", "ours", "--verify", "pwd >>../where; false", "--json")
    main.run(*words, "--", "sh", "-c", f"test -e stop && exit 1; touch stop; {worker}")
    main.ok("loop", "extend", "T1", "--max", "9")
    main.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    main.ok("loop", "confirm", "T1", "--clean")
    main.ok("loop", "verify", "T1", "--run", "--", "sh", "-c", "pwd >>../where")
    with open(os.path.join(left.path, "../where"), encoding="utf-8") as file:
        assert {os.path.realpath(line.rstrip()) for line in file} == {os.path.realpath(left.path)}
    answer = main.ok("loop", "rebuild", "ours")
    assert answer["notes"] == ["ours: its state, its pages and git agree"]
    main.git("worktree", "remove", "--force", "../left")
    for words in (("loop", "rebuild", "ours"), ("loop", "run", "ours", "--", "true")):
        error = main.refused(*words)
        assert (error["code"], error["hint"]) == (
            "not_found", "bring it here: holdfast resume ours",
        )  # fmt: skip


def test_what_was_in_a_removed_worktree_is_not_lost(trees):
    main, left, _ = trees
    started = left.ok("start", "tdd", "one", "--task", "a")["workflow"]
    left.ok(*ADVANCE)
    main.git("worktree", "remove", "--force", "../left")
    listed = main.ok("status")
    assert [row["id"] for row in listed["workflows"]] == [started["id"]]
    assert "is gone" in listed["notes"][0]
    assert main.ok("task", "done", "1", "-w", started["id"])["workflow"]["phase"] == "green"
    back = main.ok("resume", started["id"])["workflow"]
    assert (back["worktree"], back["phase"]) == (".", "green")
    assert main.has(back["record"])
    assert "notes" not in main.ok("status")
    assert main.run("verify").code == 0


def test_a_worktree_that_was_moved_by_hand_still_shares_the_ledger(trees):
    main, left, _ = trees
    workflow = left.ok("start", "tdd", "one")["workflow"]["id"]
    main.git("worktree", "move", "../left", "../port")
    assert main.at("..", "port").ok(*ADVANCE)["workflow"]["id"] == workflow


@pytest.mark.parametrize("layout", ["project.git", "project/.bare", "project/.git"])
def test_a_bare_repository_keeps_the_ledger_of_its_worktrees(repo, layout):
    top = repo.at("..")
    top.git("clone", "-q", "--bare", repo.path, layout)
    bare = top.at(layout)
    bare.git("worktree", "add", "-q", "-b", "one", f"{top.path}/trees/one")
    bare.git("worktree", "add", "-q", "-b", "two", f"{top.path}/trees/two")
    one, two = top.at("trees", "one"), top.at("trees", "two")
    ours = one.ok("start", "tdd", "one")["workflow"]
    theirs = two.ok("start", "tdd", "two")["workflow"]
    assert bare.has("holdfast", "ledger.db")
    assert (one.has(ours["record"]), two.has(theirs["record"])) == (True, True)
    assert one.ok(*ADVANCE)["workflow"]["id"] == ours["id"]
    rows = {row["id"] for row in bare.ok("status")["workflows"]}
    assert rows == {ours["id"], theirs["id"]}
    if layout != "project.git":
        beside = top.at("project")
        if layout == "project/.bare":
            beside.write(".git", "gitdir: ./.bare\n")
        assert {row["id"] for row in beside.ok("status")["workflows"]} == rows
        assert not beside.has(".claude")


def test_a_separate_git_folder_is_where_all_worktrees_meet(folder):
    folder.git("init", "-q", "-b", "main", f"--separate-git-dir={folder.path}-git")
    assert "config core.worktree" in folder.refused("start", "tdd", "one")["hint"]
    folder.git("config", "core.worktree", folder.path)
    folder.commit("README.md", "A project.\n")
    folder.git("worktree", "add", "-q", "-b", "left", "../left")
    workflow = folder.ok("start", "tdd", "one")["workflow"]["id"]
    left = folder.at("..", "left")
    assert [row["id"] for row in left.ok("status")["workflows"]] == [workflow]
    assert left.ok("start", "tdd", "two")
    assert len(folder.ok("status")["workflows"]) == 2


def test_a_submodule_has_a_ledger_of_its_own(repo):
    other = repo.at("..", "other")
    other.git("init", "-q", "-b", "main")
    other.commit("README.md", "Another project.\n")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other.path, "part")
    outer = repo.ok("start", "oneshot", "outer")["workflow"]["id"]
    part = repo.at("part")
    inner = part.ok("start", "oneshot", "inner")["workflow"]["id"]
    assert repo.has(".git/modules/part/holdfast/ledger.db")
    assert (repo.state()["id"], part.state()["id"]) == (outer, inner)
    assert len(repo.types()) == len(part.types()) == 2
    assert part.git("status", "--porcelain") == ""
    part.git("worktree", "add", "-q", "-b", "side", f"{repo.path}-side")
    assert len(repo.at("..", "work-side").ok("status")["workflows"]) == 1


def test_cleaning_the_work_tree_does_not_lose_the_ledger(repo):
    workflow = repo.ok("start", "tdd", "one", "--task", "a")["workflow"]["id"]
    repo.ok(*ADVANCE)
    repo.git("clean", "-q", "-fdx")
    assert not repo.has(".claude")
    assert repo.state(workflow)["phase"] == "green"
    assert repo.ok("task", "done", "1")["workflow"]["tasks"][0]["status"] == "completed"
    assert repo.run("verify").code == 0
