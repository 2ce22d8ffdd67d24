"""Where a workspace is, compared with what git itself says in the same place."""

import os
import subprocess

import pytest

from holdfast import Refused
from holdfast.system.disk import Disk
from holdfast.workspace.location import find
from support.git_template import ADA, make_repository, run_git

STRANGER = 12345
LAYOUTS = {}


def layout(build):
    LAYOUTS[build.__name__] = build
    return build


def put(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# Each makes a layout below a folder and returns the folders to stand in


@layout
def plain_folder(top):
    os.makedirs(f"{top}/a/b")
    return ["a", "a/b"]


@layout
def repository(top):
    make_repository(f"{top}/r", committed=True)
    os.makedirs(f"{top}/r/a/b")
    return ["r", "r/a/b", "r/.git/objects"]


@layout
def repository_in_a_repository(top):
    make_repository(f"{top}/r", committed=True)
    make_repository(f"{top}/r/inner", committed=True)
    os.makedirs(f"{top}/r/inner/deep")
    return ["r", "r/inner/deep"]


@layout
def linked_worktrees(top):
    make_repository(f"{top}/r", committed=True)
    run_git(f"{top}/r", "worktree", "add", "-q", f"{top}/w")
    run_git(f"{top}/r", "worktree", "add", "-q", f"{top}/old")
    run_git(f"{top}/r", "worktree", "move", f"{top}/old", f"{top}/new")
    os.makedirs(f"{top}/w/deep")
    return ["r", "w", "w/deep", "new"]


@layout
def submodule(top):
    make_repository(f"{top}/source", committed=True)
    make_repository(f"{top}/r", committed=True)
    run_git(f"{top}/r", "submodule", "add", "-q", f"{top}/source", "sub")
    os.makedirs(f"{top}/r/sub/deep")
    return ["r", "r/sub", "r/sub/deep"]


@layout
def bare_repository(top):
    make_repository(f"{top}/r", committed=True)
    run_git(top, "clone", "-q", "--bare", f"{top}/r", f"{top}/b.git")
    run_git(f"{top}/b.git", "worktree", "add", "-q", f"{top}/w")
    return ["b.git", "b.git/objects", "w"]


@layout
def bare_repository_beside_its_worktrees(top):
    make_repository(f"{top}/r", committed=True)
    run_git(top, "clone", "-q", "--bare", f"{top}/r", f"{top}/p/.bare")
    put(f"{top}/p/.git", "gitdir: ./.bare\n")
    run_git(f"{top}/p/.bare", "worktree", "add", "-q", f"{top}/p/w")
    return ["p/w"]


@layout
def separate_git_folder(top):
    os.makedirs(f"{top}/p")
    run_git(f"{top}/p", "init", "-q", "-b", "main", f"--separate-git-dir={top}/store")
    run_git(f"{top}/p", "config", "core.worktree", f"{top}/p")
    run_git(f"{top}/p", "commit", "-q", "--allow-empty", "-m", "x")
    run_git(f"{top}/p", "worktree", "add", "-q", f"{top}/w")
    return ["p", "w"]


@layout
def git_folders_that_git_ignores(top):
    make_repository(f"{top}/r", committed=True)
    for name in ("pipe", "dangling"):
        os.makedirs(f"{top}/r/{name}")
    os.mkfifo(f"{top}/r/pipe/.git")
    os.symlink("nowhere", f"{top}/r/dangling/.git")
    return ["r/pipe", "r/dangling"]


@layout
def names_without_a_commit(top):
    make_repository(f"{top}/r")
    make_repository(f"{top}/detached", committed=True)
    run_git(f"{top}/detached", "checkout", "-q", "--detach")
    make_repository(f"{top}/linked-head", committed=True)
    os.unlink(f"{top}/linked-head/.git/HEAD")
    os.symlink("refs/heads/main", f"{top}/linked-head/.git/HEAD")
    return ["r", "detached", "linked-head"]


def git_says(folder, **environment):
    """Return git's top folder and common folder; ``None`` if it finds no repository to use."""
    done = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **ADA, **environment},
    )  # fmt: skip
    if done.returncode == 0:
        return tuple(map(os.path.realpath, done.stdout.splitlines()))
    if "work tree" in done.stderr:  # a bare repository, or git's own folder
        done = subprocess.run(
            ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"],
            cwd=folder, capture_output=True, text=True, check=True,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **ADA, **environment},
        )  # fmt: skip
        return None, os.path.realpath(done.stdout.strip())
    return None


def holdfast_says(folder):
    try:
        workspace = find(folder)
    except Refused:
        return None
    if workspace.common is None:
        return None
    return os.path.realpath(workspace.root), os.path.realpath(workspace.common)


@pytest.fixture(autouse=True)
def _settings_of_nobody(monkeypatch):
    for name, value in ADA.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SUDO_UID", raising=False)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_repository_is_the_one_that_git_finds(name, tmp_path):
    top = os.path.realpath(tmp_path)
    for start in LAYOUTS[name](top):
        folder = os.path.join(top, start)
        git, ours = git_says(folder), holdfast_says(folder)
        if git is None or ours is None:
            assert ours == git, start
        else:
            assert ours[1] == git[1], start
            assert git[0] is None or ours[0] == git[0], start


@pytest.mark.parametrize("ceiling", ["r", "linked", "r/sub", ".", "", "r/no", ":r"])
@pytest.mark.parametrize("start", ["r", "r/sub", "r/sub/deep"])
def test_a_repository_above_a_ceiling_is_none(ceiling, start, tmp_path, monkeypatch):
    top = os.path.realpath(tmp_path)
    make_repository(f"{top}/r", committed=True)
    os.makedirs(f"{top}/r/sub/deep")
    os.symlink("r", f"{top}/linked")
    folders = ":".join([f"{top}/{name}" if name else "" for name in ceiling.split(":")])
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", folders)
    git = git_says(f"{top}/{start}", GIT_CEILING_DIRECTORIES=folders)
    assert holdfast_says(f"{top}/{start}") == git


# What git would follow, and Holdfast does not


@pytest.fixture
def mine(tmp_path):
    """Return a project of the person, beside a folder that a stranger made."""
    make_repository(tmp_path / "mine", committed=True)
    os.makedirs(tmp_path / "theirs")
    return str(tmp_path / "mine")


def homes(path):
    """Return where the ledger of a folder is, resolved; ``None`` if it has none."""
    try:
        workspace = find(path)
    except Refused:
        return None
    return os.path.realpath(workspace.home)


def make_link(mine, theirs):
    os.symlink(f"{mine}/.git", f"{theirs}/.git")


def make_pointer(mine, theirs):
    put(f"{theirs}/.git", f"gitdir: {mine}/.git\n")


def make_pointer_to_a_worktree(mine, theirs):
    run_git(mine, "worktree", "add", "-q", f"{mine}-linked")
    put(f"{theirs}/.git", f"gitdir: {mine}/.git/worktrees/mine-linked\n")


def make_link_to_the_git_file_of_a_worktree(mine, theirs):
    run_git(mine, "worktree", "add", "-q", f"{mine}-linked")
    os.symlink(f"{mine}-linked/.git", f"{theirs}/.git")


def make_second_name_of_the_git_file_of_a_worktree(mine, theirs):
    run_git(mine, "worktree", "add", "-q", f"{mine}-linked")
    os.link(f"{mine}-linked/.git", f"{theirs}/.git")


def make_pointer_to_a_bare_repository(mine, theirs):
    run_git(mine, "clone", "-q", "--bare", mine, f"{mine}-bare")
    put(f"{theirs}/.git", f"gitdir: {mine}-bare\n")


def make_common_folder(mine, theirs):
    put(f"{theirs}/.git/HEAD", "ref: refs/heads/main\n")
    put(f"{theirs}/.git/commondir", f"{mine}/.git\n")


def make_worktree_setting(mine, theirs):
    make_repository(theirs, committed=True)
    run_git(theirs, "config", "core.worktree", mine)


def make_link_to_a_separate_folder(mine, theirs):
    os.rename(f"{mine}/.git", f"{mine}-store")
    put(f"{mine}/.git", f"gitdir: {mine}-store\n")
    run_git(mine, "config", "core.worktree", mine)
    os.symlink(f"{mine}-store", f"{theirs}/.git")


def make_pointer_to_a_separate_folder(mine, theirs):
    make_link_to_a_separate_folder(mine, theirs)
    os.unlink(f"{theirs}/.git")
    put(f"{theirs}/.git", f"gitdir: {mine}-store\n")


TRICKS = [value for name, value in sorted(globals().items()) if name.startswith("make_")]
TRICKS.remove(make_repository)


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_no_folder_gets_the_ledger_of_another_project(trick, mine, tmp_path):
    theirs = str(tmp_path / "theirs")
    trick(mine, theirs)
    from holdfast import Keeper

    Keeper(mine).start("dev", "docs/x.md")
    own = homes(mine)
    assert os.path.exists(f"{own}/ledger.db")
    for folder in (theirs, f"{mine}-linked", f"{mine}-bare"):
        if os.path.isdir(folder) and folder != f"{mine}-linked":
            assert homes(folder) != own, folder


def test_a_worktree_of_a_stranger_cannot_say_that_its_main_one_is_elsewhere(mine, tmp_path):
    theirs = str(tmp_path / "theirs")
    make_repository(theirs, committed=True)
    run_git(theirs, "worktree", "add", "-q", f"{theirs}-linked")
    run_git(theirs, "config", "core.worktree", mine)
    linked = find(f"{theirs}-linked")
    assert linked.main_worktree is None
    assert linked.root_of(".") != mine


def test_a_worktree_is_only_where_its_git_file_leads_back(mine, tmp_path):
    put(f"{mine}/.git/worktrees/trap/gitdir", f"{tmp_path}/victim/.git\n")
    put(f"{mine}/.git/worktrees/trap/holdfast-worktree", "trap\n")
    make_repository(tmp_path / "victim", committed=True)
    assert find(mine).root_of("trap") is None


def test_a_worktree_that_was_moved_by_hand_says_how_to_repair_it(mine):
    run_git(mine, "worktree", "add", "-q", f"{mine}-linked")
    os.rename(f"{mine}-linked", f"{mine}-moved")
    with pytest.raises(Refused) as caught:
        find(f"{mine}-moved")
    assert "git worktree repair" in caught.value.hint
    run_git(f"{mine}-moved", "worktree", "repair")
    assert find(f"{mine}-moved").common == f"{mine}/.git"


def test_a_git_folder_that_names_no_work_tree_gives_nobody_its_ledger(mine, tmp_path):
    run_git(mine, "init", "-q", f"--separate-git-dir={mine}-store")
    put(f"{tmp_path}/theirs/.git", f"gitdir: {mine}-store\n")
    before = sorted(os.listdir(f"{mine}-store"))
    for folder in (mine, f"{tmp_path}/theirs"):
        with pytest.raises(Refused) as caught:
            find(folder)
        assert f"config core.worktree {folder}" in caught.value.hint
    assert sorted(os.listdir(f"{mine}-store")) == before


def test_links_among_the_worktrees_of_git_are_not_followed(mine, tmp_path):
    os.makedirs(tmp_path / "outside")
    os.makedirs(f"{mine}/.git/worktrees")
    os.symlink(tmp_path / "outside", f"{mine}/.git/worktrees/trap")
    find(mine).keep_names(Disk())
    assert os.listdir(tmp_path / "outside") == []


# Owners

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def give(path):
    for folder, _, names in os.walk(path):
        for name in ("", *names):
            os.lchown(os.path.join(folder, name), STRANGER, STRANGER)


@needs_root
@pytest.mark.parametrize("given", ["r", "r/.git", "r/.git/worktrees/w", "w", "w/.git"])
def test_a_repository_of_another_user_is_used_exactly_where_git_uses_it(given, tmp_path):
    top = os.path.realpath(tmp_path)
    linked_worktrees(top)
    os.lchown(os.path.join(top, given), STRANGER, STRANGER)
    for start in ("r", "w"):
        folder = os.path.join(top, start)
        git, ours = git_says(folder), holdfast_says(folder)
        assert (git is None) == (ours is None), start


@needs_root
@pytest.mark.parametrize(
    "variables",
    [
        {"SUDO_UID": str(STRANGER)},
        {"SUDO_UID": "1"},
        {"safe": "*"},
        {"safe": "{root}"},
        {"safe": "/elsewhere"},
        {"safe": "*|"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"},
    ],
    ids=str,
)
def test_what_a_person_told_git_about_owners_counts(variables, tmp_path, monkeypatch):
    root = os.path.realpath(tmp_path / "r")
    make_repository(root, committed=True)
    give(root)
    variables = dict(variables)
    if "safe" in variables:
        values = variables.pop("safe").format(root=root).split("|")
        lines = "".join(f"\tdirectory = {value}\n" for value in values)
        put(f"{tmp_path}/home/.gitconfig", f"[safe]\n{lines}")
        variables["GIT_CONFIG_GLOBAL"] = f"{tmp_path}/home/.gitconfig"
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    git, ours = git_says(root, **variables), holdfast_says(root)
    assert (git is None) == (ours is None)


@needs_root
def test_a_repository_of_another_user_says_who_owns_it(tmp_path):
    make_repository(tmp_path / "r", committed=True)
    give(tmp_path / "r")
    with pytest.raises(Refused) as caught:
        find(str(tmp_path / "r"))
    assert caught.value.code == "dubious_owner"
    assert f"uid {STRANGER}" in caught.value.message
    assert "safe.directory" in caught.value.hint


@needs_root
def test_a_ledger_of_another_user_above_is_not_taken(tmp_path):
    os.makedirs(tmp_path / ".claude/holdfast")
    os.lchown(tmp_path / ".claude/holdfast", STRANGER, STRANGER)
    os.makedirs(tmp_path / "own")
    assert find(str(tmp_path / "own")).root == str(tmp_path / "own")


def test_settings_of_git_inside_a_repository_do_not_count(tmp_path, monkeypatch):
    from holdfast.workspace.git_trust import is_safe

    make_repository(tmp_path / "r", committed=True)
    put(f"{tmp_path}/r/home/.gitconfig", "[safe]\n\tdirectory = *\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", f"{tmp_path}/r/home/.gitconfig")
    assert not is_safe(str(tmp_path / "r"))
    assert is_safe(str(tmp_path / "other"))


def test_a_bare_repository_that_is_to_be_named_is_not_found(tmp_path, monkeypatch):
    bare_repository(os.path.realpath(tmp_path))
    put(f"{tmp_path}/settings", "[safe]\n\tbareRepository = explicit\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", f"{tmp_path}/settings")
    assert find(f"{tmp_path}/b.git").common is None


@pytest.mark.parametrize("missing", ["HEAD", "objects", "refs"])
def test_a_folder_that_only_looks_like_a_bare_repository_is_none(missing, tmp_path):
    bare_repository(os.path.realpath(tmp_path))
    os.rename(f"{tmp_path}/b.git/{missing}", f"{tmp_path}/b.git/was-{missing}")
    assert git_says(f"{tmp_path}/b.git") is None
    assert find(f"{tmp_path}/b.git").common is None
