"""A ledger from before ``git init`` moves into git's folder, if it is this person's own."""

import os
import shutil
import subprocess

import pytest

from holdfast import Fault, Refused
from holdfast.storage.database import Database
from holdfast.system.disk import Disk
from support.workshop import Workshop

PLAIN = ".claude/holdfast/ledger.db"
IN_GIT = ".git/holdfast/ledger.db"


@pytest.fixture
def plain_shop(tmp_path):
    """A folder before it became a repository, with a workflow in it."""
    shop = Workshop(tmp_path / "project", git=False)
    keeper = shop.keeper()
    keeper.start("dev", "a.md", tasks=["one"])
    keeper.complete_task(1)
    return shop


def init(root):
    subprocess.run(["git", "init", "-q", root], check=True)


def test_the_ledger_moves_with_its_whole_history(plain_shop):
    before = plain_shop.keeper().log()
    init(plain_shop.root)
    keeper = plain_shop.keeper()
    rows, notes = keeper.workflows()
    assert [row["tasks_done"] for row in rows] == [1]
    assert [note for note in notes if "moved from .claude/holdfast" in note]
    assert keeper.log() == before
    assert not os.path.exists(plain_shop.path(PLAIN))
    assert plain_shop.keeper().workflows()[1] == []
    assert plain_shop.keeper().verify().ok


def test_the_records_are_kept_out_of_git_from_then_on(plain_shop):
    init(plain_shop.root)
    plain_shop.keeper().add_task("two")
    status = subprocess.run(
        ["git", "-C", plain_shop.root, "status", "--porcelain"], capture_output=True, check=True
    )
    assert status.stdout == b""


def test_a_ledger_that_came_with_a_folder_is_not_believed(plain_shop, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another-person"))
    root = tmp_path / "clone"
    shutil.copytree(plain_shop.root, root)
    init(root)
    clone = Workshop.__new__(Workshop)
    clone.__dict__.update(vars(plain_shop), root=str(root))
    keeper = clone.keeper()
    assert keeper.log() == []
    assert os.path.exists(clone.path(PLAIN))
    keeper.settle()
    assert [event["type"] for event in keeper.log()] == ["record_adopted"]


def test_a_ledger_in_git_is_not_replaced(plain_shop):
    plain = plain_shop.read(PLAIN)
    init(plain_shop.root)
    plain_shop.keeper()
    os.makedirs(plain_shop.path(".claude/holdfast"), exist_ok=True)
    plain_shop.write(PLAIN, plain)
    before = plain_shop.keeper().log()
    plain_shop.keeper().add_task("two")
    assert plain_shop.keeper().log()[: len(before)] == before
    assert plain_shop.read(PLAIN) == plain


def test_a_ledger_that_git_has_already_is_not_overwritten(plain_shop):
    """The second of two keepers that both saw no ledger in git comes after the first."""
    aside = plain_shop.path("..", "aside")
    os.rename(plain_shop.path(".claude", "holdfast"), aside)
    init(plain_shop.root)
    late = plain_shop.keeper()
    late.start("dev", "b.md")
    before = late.log()
    os.rename(aside, plain_shop.path(".claude", "holdfast"))
    old = Database(plain_shop.path(".claude", "holdfast"), Disk(), 0.0, lambda: True)
    assert not late.store.ledger.database.move_in(old)
    assert plain_shop.keeper().log() == before
    assert os.path.exists(plain_shop.path(PLAIN))
    report = plain_shop.keeper().verify()
    assert report.ok
    assert [line["level"] for line in report.lines if line["what"] == PLAIN] == ["behind"]


def test_a_journal_in_the_new_place_is_not_played_into_the_ledger(plain_shop):
    init(plain_shop.root)
    os.makedirs(plain_shop.path(".git", "holdfast"))
    with open(plain_shop.path(f"{IN_GIT}-wal"), "wb") as journal:
        journal.write(b"another ledger's journal")
    assert plain_shop.keeper().show().state["tasks"][0]["status"] == "completed"
    assert plain_shop.keeper().verify().ok


def test_a_keeper_from_before_git_makes_no_second_ledger(plain_shop):
    before_git = plain_shop.keeper()
    init(plain_shop.root)
    plain_shop.keeper().add_task("two")
    with pytest.raises(Fault) as caught:
        before_git.add_task("three")
    assert caught.value.code == "moved"
    assert not os.path.exists(plain_shop.path(PLAIN))


def test_no_ledger_is_made_beside_a_repository_that_git_is_still_making(tmp_path):
    shop = Workshop(tmp_path / "clone", git=False)
    os.mkdir(shop.path(".git"))
    with pytest.raises(Refused) as caught:
        shop.keeper().start("dev", "a.md")
    assert caught.value.code == "not_ready"
    assert not os.path.exists(shop.path(".claude"))
