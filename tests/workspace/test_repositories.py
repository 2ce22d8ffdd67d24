"""Which repositories a page, a search or a listing of everything goes through."""

import shutil
import subprocess

import pytest

from holdfast import Keeper
from holdfast.workspace.repositories import repositories, short_names


def git(*words):
    subprocess.run(["git", *words], check=True, capture_output=True)


def worked_in(folder):
    Keeper(str(folder)).remember("a fact")
    return str(folder)


def listed():
    return [workspace.root for workspace in repositories()]


def test_every_kind_of_repository_with_a_ledger_is_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plain, bare, outside = (tmp_path / name for name in ("plain", "bare.git", "outside"))
    git("init", "-q", str(plain))
    git("init", "-q", "--bare", str(bare))
    outside.mkdir()
    expected = [worked_in(folder) for folder in (plain, bare, outside)]
    assert sorted(expected) == listed()


def test_a_linked_worktree_is_listed_with_its_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    main, linked = tmp_path / "main", tmp_path / "linked"
    git("init", "-q", str(main))
    git("-C", str(main), "commit", "-q", "--allow-empty", "-m", "first")
    git("-C", str(main), "worktree", "add", "-q", str(linked))
    worked_in(linked)
    assert listed() == [str(main)]


def test_what_is_gone_and_what_is_not_this_persons_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    gone, foreign = tmp_path / "gone", tmp_path / "foreign"
    for folder in (gone, foreign):
        folder.mkdir()
        worked_in(folder)
    shutil.rmtree(gone)
    (foreign / ".claude" / "holdfast" / "made").unlink()
    with (tmp_path / "state" / "holdfast" / "ledgers").open("a") as file:
        file.write("no line of ours\n0 relative/path\n")
    assert listed() == []


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        ([], []),
        (["/a/shop", "/b/site"], ["shop", "site"]),
        (["/a/shop", "/b/shop", "/b/site"], ["a/shop", "b/shop", "site"]),
        (["/x/a/shop", "/y/a/shop", "/b/shop"], ["x/a/shop", "y/a/shop", "b/shop"]),
        (["/shop", "/a/shop"], ["shop", "a/shop"]),
        (["/"], ["/"]),
    ],
)
def test_repositories_of_one_name_are_told_apart_by_the_folders_above(folders, names):
    assert short_names(folders) == dict(zip(folders, names, strict=True))
