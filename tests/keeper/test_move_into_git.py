"""A ledger from before ``git init`` moves into git's folder, if it is this person's own."""

import os
import shutil
import subprocess

import pytest

from workshop import Workshop

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
