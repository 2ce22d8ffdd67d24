"""A command that dies after any of its writes: the next finds the old or the new, and agrees."""

import os

import pytest

from holdfast import Initiatives
from holdfast.initiatives.status_yaml import Status
from holdfast.system.disk import Disk
from support.disks import Died
from support.initiative_shop import RECORD, InitiativeShop

pytestmark = pytest.mark.promise(1)


class Mortal(Disk):
    """Dies before the n-th of the calls that change something."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def _live(self):
        self.left -= 1
        if self.left < 0:
            raise Died


def _mortal(name):
    def call(self, *args, **options):
        self._live()
        return getattr(super(Mortal, self), name)(*args, **options)

    return call


for _name in ("write", "create", "exchange", "link", "move", "remove", "sync", "make_folder"):
    setattr(Mortal, _name, _mortal(_name))


def dies(shop, left, change):
    """Whether the command came to its end before its time was up."""
    disk = Mortal(left)
    try:
        change(Initiatives(shop.keeper(disk=disk)))
    except Died:
        return False
    return True


CHANGES = {
    "create": lambda them: them.create("Other", ["M1: a"], files=True),
    "start": lambda them: them.start("M2"),
    "task": lambda them: them.task("M1", "list writers", done=True),
    "complete": lambda them: them.complete("M1", force=True, reason="enough"),
    "block": lambda them: them.block("no key"),
    "sync": lambda them: them.sync(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whenever_a_command_dies_the_next_finds_sources_that_agree(tmp_path, name):
    survived, points = False, 0
    while not survived:
        (tmp_path / str(points)).mkdir()
        shop = InitiativeShop(tmp_path / str(points)).begin(files=True)
        shop.initiatives().start("M1")
        shop.initiatives().task("M1", "list readers")
        if name == "sync":
            shop.later(2)
            shop.edit_yaml(at=shop.now, status="blocked")
        page = shop.text(shop.readme)
        survived = dies(shop, points, CHANGES[name])
        points += 3
        shop.later(1)
        shop.initiatives().sync()
        one = shop.current()
        shop.folder = shop.folder if one["name"] == "Tidy billing" else f"{shop.folder}/../other"
        told, record = Status(shop.read(shop.yaml)), shop.record()
        assert (told.initiative, told.status, told.milestone) == (
            one["name"], one["status"], one["current_milestone"],
        )  # fmt: skip
        assert (record["status"], record["currentMilestone"]) == (told.status, told.milestone)
        assert [n for n in os.listdir(shop.path(shop.folder)) if "holdfast" in n] == []
        assert [n for n in os.listdir(shop.path(shop.folder)) if ".found" in n] == []
        assert shop.keeper().verify().ok
        assert len([e for e in shop.types() if e == "milestone_completed"]) <= 1
        if name not in ("create", "task", "complete"):
            assert shop.text(shop.readme) == page
    assert points > 4
    assert os.path.exists(shop.path(RECORD))
