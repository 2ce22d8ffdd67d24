"""A command that dies after any of its writes: the next finds the old or the new, and agrees."""

import os

import pytest

from holdfast import Initiatives
from holdfast.initiatives.status_yaml import Status
from holdfast.system.disk import Disk
from initiatives.ground import RECORD, Ground

pytestmark = pytest.mark.promise(1)


class Died(BaseException):
    """The process is gone; nothing below catches it."""


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


def dies(ground, left, change):
    """Whether the command came to its end before its time was up."""
    disk = Mortal(left)
    try:
        change(Initiatives(ground.keeper(disk=disk)))
    except Died:
        return False
    return True


CHANGES = {
    "create": lambda them: them.create("Other", ["M1: a"], files=True),
    "start": lambda them: them.start("M2"),
    "task": lambda them: them.task("M1", "list writers", done=True),
    "complete": lambda them: them.complete("M1"),
    "block": lambda them: them.block("no key"),
    "sync": lambda them: them.sync(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whenever_a_command_dies_the_next_finds_sources_that_agree(tmp_path, name):
    survived, points = False, 0
    while not survived:
        (tmp_path / str(points)).mkdir()
        ground = Ground(tmp_path / str(points)).begin(files=True)
        ground.initiatives().start("M1")
        ground.initiatives().task("M1", "list readers")
        if name == "sync":
            ground.later(2)
            ground.edit_yaml(at=ground.now, status="blocked")
        page = ground.text(ground.readme)
        survived = dies(ground, points, CHANGES[name])
        points += 3
        ground.later(1)
        ground.initiatives().sync()
        one = ground.one()
        ground.folder = (
            ground.folder if one["name"] == "Tidy billing" else f"{ground.folder}/../other"
        )
        told, record = Status(ground.read(ground.yaml)), ground.record()
        assert (told.initiative, told.status, told.milestone) == (
            one["name"], one["status"], one["current_milestone"],
        )  # fmt: skip
        assert (record["status"], record["currentMilestone"]) == (told.status, told.milestone)
        assert [n for n in os.listdir(ground.path(ground.folder)) if "holdfast" in n] == []
        assert [n for n in os.listdir(ground.path(ground.folder)) if ".found" in n] == []
        assert ground.keeper().verify().ok
        assert len([e for e in ground.types() if e == "milestone_completed"]) <= 1
        if name not in ("create", "task", "complete"):
            assert ground.text(ground.readme) == page
    assert points > 4
    assert os.path.exists(ground.path(RECORD))
