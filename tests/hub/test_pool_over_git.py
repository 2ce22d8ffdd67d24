"""The pool over a git remote, which fences nothing: who took what is known once it was fetched, and
every answer says so.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast import Keeper, Pool
from support.machines import Machine, git

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.hub.pool import Taken

ADVISORY = "does not fence: agents on other machines can take the same"


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines that share two pieces of work."""
    remote = tmp_path / "hub.git"
    git("init", "-q", "--bare", str(remote))
    desk, laptop = (Machine(tmp_path / name, name, remote) for name in ("desk", "laptop"))
    for subject in ("one", "two"):
        desk.keeper.start("custom", subject, phases=["work"])
    return desk.share(), laptop.share()


def take(machine: Machine, session: str) -> Taken:
    return Pool(Keeper(str(machine.folder), session=session)).take()


def test_what_another_machine_took_is_left_to_it(machines: tuple[Machine, Machine]) -> None:
    desk, laptop = machines
    taken = [take(desk, "ada"), take(laptop, "kim")]
    assert [one.receipt.state["id"] for one in taken] == ["one", "two"]
    for one in taken:
        assert any(ADVISORY in note for note in one.receipt.notes)


def test_two_that_are_offline_can_take_the_same_and_both_keep_what_they_did(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    os.rename(tmp_path / "hub.git", tmp_path / "away.git")
    for machine, session in zip(machines, ("ada", "kim"), strict=True):
        taken = take(machine, session)
        assert taken.receipt.state["id"] == "one"
        assert any(ADVISORY in n and "cannot be reached" in n for n in taken.receipt.notes)
        Keeper(str(machine.folder), session=session).remind(f"seen by {session}", workflow="one")
    os.rename(tmp_path / "away.git", tmp_path / "hub.git")
    desk, laptop = machines
    for machine in (desk, laptop, desk):
        machine.sync()
    assert desk.digests() == laptop.digests()
    reminders = desk.keeper.show(workflow="one").state["reminders"]
    assert sorted(reminders) == ["seen by ada", "seen by kim"]
    assert desk.sharing.conflicts() == []
