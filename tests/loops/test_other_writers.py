"""Others at a loop's files: another tool that began it, and an editor that saves meanwhile."""

import json
import os

import pytest

from holdfast import Loops
from holdfast.system.disk import Disk
from support.loop_files import HOME, TASKS, edit, finish, open_loop, units_of

pytestmark = pytest.mark.promise(9)


FOREIGN = {
    "task": "user-authentication",
    "slug": "user-auth",
    "mode": "development",
    "created": "2026-01-14T10:30:00Z",
    "updated": "2026-01-14T14:22:00Z",
    "phase": "execute",
    "current_task": "T2",
    "current_iteration": 2,
    "tasks": {
        "T1": {"status": "done", "iterations_used": 3, "confirmations_used": 1,
               "verification_passed": True, "max_iterations": 5,
               "completed_at": "2026-01-14T11:15:00Z"},
        "T2": {"status": "confirming", "iterations_used": 2, "max_iterations": 10},
        "T3": {"status": "blocked", "reason": "Waiting on T2", "max_iterations": 5},
    },
    "commits": ["abc1234: feat(user-auth): Add User model"],
}  # fmt: skip
FOREIGN_TASKS = """\
# User authentication - Tasks

**Total:** 3 tasks
**Status:** 1 done, 1 in progress, 1 pending

## Tasks

- [x] **T1**: The model
  - Files: `a.py`
  - Criteria: it is saved
  - Completion: `<signal>T1_DONE</signal>`
  - Max iterations: 5
  - Depends: none
- [ ] **T2**: The service
  - Criteria: it answers
  - Max iterations: 10
- [ ] **T3**: The form
"""


def test_a_loop_that_another_tool_began_goes_on_with_what_its_pages_tell(shop):
    folder = f"{HOME}/User_Auth"
    shop.write(f"{folder}/state.json", json.dumps(FOREIGN).encode())
    shop.write(f"{folder}/tasks.md", FOREIGN_TASKS.encode())
    log = b"# Progress Log\n\n## T1 - Iteration 1 - 2026-01-14T10:40:00Z\n**Did:** all of it\n"
    shop.write(f"{folder}/progress.md", log)
    loops = Loops(shop.keeper())
    for look in (loops.show, loops.settle):
        found = units_of(look("user-auth"))
        assert found["T1"]["description"] == "The model"
        assert (found["T2"]["criteria"], found["T2"]["status"]) == ("it answers", "confirming")
    assert loops.show("user-auth").notes == []
    assert loops.next()[0]["turn"] == "confirm"
    loops.confirm("T2")
    assert shop.read(f"{folder}/progress.md").startswith(log)
    receipt = loops.archive()
    assert not os.path.exists(shop.path(folder))
    assert "tasks.md" in os.listdir(shop.path(os.path.dirname(receipt.state["record"])))
    back = shop.keeper().resume(workflow="user-auth").state
    assert back["record"] == f"{folder}/state.json"
    assert "archived_from" not in back
    assert os.path.exists(shop.path(folder, "progress.md"))


class Busy(Disk):
    """An editor saves the page at the worst moment: when it is about to be replaced, or before."""

    def __init__(self, path, text, call):
        super().__init__()
        self.editing = (path, text)
        self.call = call

    def _edit(self, call):
        if self.editing and call == self.call:
            (path, text), self.editing = self.editing, None
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def replace(self, path, spare, **options):
        if path.endswith("tasks.md"):
            self._edit("replace")
        return super().replace(path, spare, **options)

    def sync(self, fd):
        self._edit("sync")
        super().sync(fd)


@pytest.mark.parametrize("moment", ["replace", "sync"])
def test_what_an_editor_saves_while_a_command_runs_is_taken_in_by_the_next(shop, moment):
    open_loop(shop, "T1: One", "T2: Two")
    text = shop.read(TASKS).decode().replace("criteria of T2", "saved just now")
    loops = Loops(shop.keeper(disk=Busy(shop.path(TASKS), text, moment)))
    loops.iterate("T1", did="some", remaining="more")
    assert "saved just now" in shop.read(TASKS).decode()
    found = units_of(Loops(shop.keeper()).settle())
    assert found["T2"]["criteria"] == "saved just now"
    assert found["T1"]["iterations_used"] == 1
    assert "1 in progress" in shop.read(TASKS).decode()


def test_a_page_that_another_program_keeps_open_is_written_by_the_next_command(shop):
    loops = open_loop(shop, "T1: One")
    with open(shop.path(TASKS), "a", encoding="utf-8") as file:
        file.write("by another program\n")
        receipt = loops.iterate("T1", did="some", remaining="more")
    assert any("is being written all the time" in note for note in receipt.notes)
    assert units_of(loops.settle())["T1"]["iterations_used"] == 1
    assert "1 in progress" in shop.read(TASKS).decode()
    assert "by another program" in shop.read(TASKS).decode()


def test_a_page_of_ones_own_called_plan_does_not_change_the_mode(shop):
    loops = open_loop(shop, "T1: One")
    shop.write(f"{HOME}/user-auth/plan.md", b"# My plan\n\n- [ ] **R1**: rest\n")
    assert loops.rebuild("user-auth").notes == ["user-auth: its state, its pages and git agree"]
    assert list(units_of(loops.show())) == ["T1"]


def test_a_page_that_lost_a_unit_rebuilds_the_others(shop):
    loops = open_loop(shop, "T1: One", "T2: Two")
    finish(loops, "T1")
    edit(shop, TASKS, ("**T2**", "**two**"))
    found = units_of(loops.rebuild("user-auth"))
    assert (found["T1"]["status"], found["T2"]["status"]) == ("completed", "pending")
