"""Where a workspace is: worktrees of any layout, and the branch that is checked out."""

import contextlib
import os
import shutil

import pytest

from holdfast import Keeper, Refused
from holdfast.system.disk import Disk
from holdfast.workspace import location
from holdfast.workspace.location import MAIN, find
from support.git_template import make_repository, run_git


@pytest.fixture
def origin(tmp_path):
    root = str(tmp_path / "origin")
    make_repository(root, committed=True)
    return root


@pytest.fixture
def stranger(tmp_path):
    """Return a context in which somebody else works, with a home and a list of their own."""

    @contextlib.contextmanager
    def elsewhere():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(tmp_path / "stranger"))
            patch.setenv("XDG_STATE_HOME", str(tmp_path / "stranger/state"))
            yield

    return elsewhere


@pytest.fixture(params=["repository itself", "folder around it"])
def bare(request, origin, tmp_path):
    """Return the folder of a bare repository in which a person works, and a linked worktree."""
    around = str(tmp_path / "project")
    repository = os.path.join(around, ".bare")
    run_git(tmp_path, "clone", "-q", "--bare", origin, repository)
    if request.param == "folder around it":
        with open(os.path.join(around, ".git"), "w", encoding="utf-8") as file:
            file.write("gitdir: ./.bare\n")
    linked = os.path.join(around, "linked")
    run_git(repository, "worktree", "add", "-q", linked, "-b", "other")
    return (repository if request.param == "repository itself" else around), linked


def test_a_workflow_of_a_bare_repository_is_active_in_its_linked_worktrees(bare):
    root, linked = bare
    state = Keeper(root).start("dev", "docs/feature.md").state
    keeper = Keeper(linked)
    rows, notes = keeper.workflows()
    assert [(row["id"], row["status"]) for row in rows] == [(state["id"], "in_progress")]
    assert notes == []
    assert keeper.show(workflow=state["id"]).notes == []
    assert find(linked).root_of(MAIN) == root


def test_a_workflow_of_a_linked_worktree_is_active_in_its_bare_repository(bare):
    root, linked = bare
    state = Keeper(linked).start("dev", "docs/feature.md").state
    assert Keeper(root).show(workflow=state["id"]).notes == []
    assert find(root).root_of(state["worktree"]) == linked


def test_a_worktree_that_git_names_by_a_relative_path_is_there(origin, tmp_path):
    linked = str(tmp_path / "linked")
    run_git(origin, "worktree", "add", "-q", linked, "-b", "other")
    pointer = os.path.join(origin, ".git", "worktrees", "linked", "gitdir")
    with open(pointer, "w", encoding="utf-8") as file:
        file.write("../../../../linked/.git\n")
    state = Keeper(linked).start("dev", "docs/feature.md").state
    assert find(origin).root_of(state["worktree"]) == linked
    assert Keeper(origin).show(workflow=state["id"]).notes == []


def test_a_worktree_that_moved_is_where_git_says_and_a_removed_one_is_gone(origin, tmp_path):
    linked, moved = str(tmp_path / "linked"), str(tmp_path / "moved")
    run_git(origin, "worktree", "add", "-q", linked, "-b", "other")
    state = Keeper(linked).start("dev", "docs/feature.md").state
    workspaces = find(origin), find(linked)
    run_git(origin, "worktree", "move", linked, moved)
    assert [here.root_of(state["worktree"]) for here in workspaces] == [moved, moved]
    os.rename(origin, str(tmp_path / "elsewhere"))
    assert [here.root_of(MAIN) for here in workspaces] == [None, None]


@pytest.mark.parametrize("kind", ["plain", "bare"])
def test_a_ledger_in_the_work_tree_of_a_clone_is_not_believed(origin, tmp_path, stranger, kind):
    source, clone = str(tmp_path / "source"), os.path.join(origin, "inner")
    os.makedirs(source)
    if kind == "bare":
        run_git(source, "init", "-q", "--bare", ".")
    with stranger():
        Keeper(source).start("dev", "docs/feature.md")
    shutil.copytree(source, clone)
    workspace = find(clone)
    assert (workspace.root, workspace.home) == (origin, os.path.join(origin, ".git", "holdfast"))
    assert Keeper(clone).log() == []


def test_a_ledger_of_version_0_1_in_the_work_tree_of_a_clone_is_not_believed(origin):
    inner = os.path.join(origin, "inner")
    os.makedirs(os.path.join(inner, ".claude", "holdfast"))
    with open(os.path.join(inner, ".claude", "holdfast", "ledger.ndjson"), "wb"):
        pass
    assert find(inner).root == origin


def test_a_ledger_of_ones_own_stays_when_a_folder_above_becomes_a_repository(tmp_path):
    inner = str(tmp_path / "inner")
    os.makedirs(inner)
    state = Keeper(inner).start("dev", "docs/feature.md").state
    make_repository(str(tmp_path))
    assert Keeper(os.path.join(inner, ".claude")).show(workflow=state["id"]).state == state


def test_the_branch_in_a_rebase_is_the_one_that_is_rebased(origin):
    run_git(origin, "switch", "-q", "-c", "side")
    for branch, text in (("side", "ours"), ("main", "theirs")):
        run_git(origin, "switch", "-q", branch)
        with open(os.path.join(origin, "README.md"), "w", encoding="utf-8") as file:
            file.write(text)
        run_git(origin, "commit", "-q", "-a", "-m", text)
    run_git(origin, "switch", "-q", "side")
    workspace = find(origin)
    run_git(origin, "rebase", "main", check=False)
    assert os.path.isdir(os.path.join(origin, ".git", "rebase-merge"))
    assert workspace.branch() == "side"
    run_git(origin, "rebase", "--abort")
    run_git(origin, "switch", "-q", "main")
    assert workspace.branch() == "main"
    run_git(origin, "switch", "-q", "--detach")
    assert workspace.branch() is None


def test_worktree_settings_count_only_where_git_uses_them(origin, tmp_path):
    with open(os.path.join(origin, ".git", "config.worktree"), "w", encoding="utf-8") as file:
        file.write(f"[core]\n\tworktree = {tmp_path}\n")
    assert find(origin).common is not None
    run_git(origin, "config", "extensions.worktreeConfig", "true")
    assert find(origin).common is None


def test_a_repository_that_is_moved_meanwhile_is_not_called_unfinished(tmp_path, monkeypatch):
    make_repository(tmp_path / "here")
    read = location._read

    def move_and_read(path):
        if path.endswith("HEAD"):
            os.rename(tmp_path / "here", tmp_path / "elsewhere")
        return read(path)

    monkeypatch.setattr(location, "_read", move_and_read)
    with pytest.raises(Refused) as caught:
        find(str(tmp_path / "here"))
    assert caught.value.code == "not_found"


def test_an_exclude_file_that_is_a_pipe_is_noted_and_waits_for_nobody(tmp_path):
    make_repository(tmp_path / "r")
    path = tmp_path / "r" / ".git" / "info" / "exclude"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    notes = []
    find(str(tmp_path / "r")).prepare(Disk(), notes.append)
    assert "exclude file could not be extended" in notes[0]
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    find(str(tmp_path / "r")).prepare(Disk(), notes.append)
    assert os.read(reader, 10) == b""
    os.close(reader)
    assert "not an ordinary file" in notes[1]
