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
def shop(tmp_path):
    shop = Workshop(tmp_path / "project", git=False)
    keeper = shop.keeper()
    keeper.start("dev", "a.md", tasks=["one"])
    keeper.complete_task(1)
    return shop


def init(root):
    subprocess.run(["git", "init", "-q", root], check=True)


def test_the_ledger_moves_with_its_whole_history(shop):
    before = shop.keeper().log()
    init(shop.root)
    keeper = shop.keeper()
    rows, notes = keeper.workflows()
    assert [row["tasks_done"] for row in rows] == [1]
    assert [note for note in notes if "moved from .claude/holdfast" in note]
    assert keeper.log() == before
    assert not os.path.exists(shop.path(PLAIN))
    assert shop.keeper().workflows()[1] == []
    assert shop.keeper().verify().ok


def test_the_records_are_kept_out_of_git_from_then_on(shop):
    init(shop.root)
    shop.keeper().add_task("two")
    status = subprocess.run(
        ["git", "-C", shop.root, "status", "--porcelain"], capture_output=True, check=True
    )
    assert status.stdout == b""


def test_a_ledger_that_came_with_a_folder_is_not_believed(shop, tmp_path):
    root = tmp_path / "clone"
    shutil.copytree(shop.root, root)
    init(root)
    clone = Workshop.__new__(Workshop)
    clone.__dict__.update(vars(shop), root=str(root))
    keeper = clone.keeper()
    assert keeper.log() == []
    assert os.path.exists(clone.path(PLAIN))
    keeper.settle()
    assert [event["type"] for event in keeper.log()] == ["record_adopted"]


def test_a_ledger_in_git_is_not_replaced(shop):
    plain = shop.read(PLAIN)
    init(shop.root)
    shop.keeper()
    os.makedirs(shop.path(".claude/holdfast"), exist_ok=True)
    shop.write(PLAIN, plain)
    before = shop.keeper().log()
    shop.keeper().add_task("two")
    assert shop.keeper().log()[: len(before)] == before
    assert shop.read(PLAIN) == plain


def test_a_ledger_that_git_has_already_is_not_overwritten(shop):
    """The second of two keepers that both saw no ledger in git comes after the first."""
    aside = shop.path("..", "aside")
    os.rename(shop.path(".claude", "holdfast"), aside)
    init(shop.root)
    late = shop.keeper()
    late.start("dev", "b.md")
    before = late.log()
    os.rename(aside, shop.path(".claude", "holdfast"))
    old = Database(shop.path(".claude", "holdfast"), Disk(), 0.0, lambda: True)
    assert not late.store.ledger.database.move_in(old)
    assert shop.keeper().log() == before
    assert os.path.exists(shop.path(PLAIN))
    report = shop.keeper().verify()
    assert report.ok
    assert [line["level"] for line in report.lines if line["what"] == PLAIN] == ["behind"]


def test_a_journal_in_the_new_place_is_not_played_into_the_ledger(shop):
    init(shop.root)
    os.makedirs(shop.path(".git", "holdfast"))
    with open(shop.path(f"{IN_GIT}-wal"), "wb") as journal:
        journal.write(b"another ledger's journal")
    assert shop.keeper().show().state["tasks"][0]["status"] == "completed"
    assert shop.keeper().verify().ok


def test_a_keeper_from_before_git_makes_no_second_ledger(shop):
    before_git = shop.keeper()
    init(shop.root)
    shop.keeper().add_task("two")
    with pytest.raises(Fault) as caught:
        before_git.add_task("three")
    assert caught.value.code == "moved"
    assert not os.path.exists(shop.path(PLAIN))


def test_no_ledger_is_made_beside_a_repository_that_git_is_still_making(tmp_path):
    shop = Workshop(tmp_path / "clone", git=False)
    os.mkdir(shop.path(".git"))
    with pytest.raises(Refused) as caught:
        shop.keeper().start("dev", "a.md")
    assert caught.value.code == "not_ready"
    assert not os.path.exists(shop.path(".claude"))
