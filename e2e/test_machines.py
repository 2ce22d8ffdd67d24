"""Two machines over a git remote: what was begun at the desk goes on at the laptop."""

import time

from briefings import delivered
from directives import bash
from place import LIMIT_S, Place

WORKFLOW = "dev-58d38a18"


def test_work_of_the_desk_goes_on_at_the_laptop(claude, tmp_path):
    hub = str(tmp_path / "hub.git")
    claude.place.git("init", "-q", "--bare", hub)
    (tmp_path / "elsewhere").mkdir()
    desk = Place(tmp_path / "elsewhere")
    desk.holdfast("start", "dev", "docs/login.md", "--title", "Login", "--task", "Check it")
    desk.holdfast("hub", "add", "git", hub, "--name", "desk", "--yes")
    claude.connect()
    claude.place.holdfast("hub", "add", "git", hub, "--name", "laptop", "--yes")
    resume, remind = bash(f"holdfast resume {WORKFLOW}"), bash("holdfast remind 'Keep it short'")
    claude.say(f"Go on with the work of the desk. {resume} {remind} <<say done>>")
    assert "moved here from desk" in claude.stub.requests[1].text
    # The end of the session sends what it did in the background.
    due = time.monotonic() + LIMIT_S
    while not desk.holdfast("hub", "sync")["pulled"]:
        assert time.monotonic() < due, claude.place.holdfast("hub", "status")
        time.sleep(0.1)
    assert desk.state()["reminders"] == ["Keep it short"]
    claude.go_on("/compact")
    claude.go_on("Go on. <<say on>>")
    text = delivered(claude.place, claude.stub.after_summing_up(), WORKFLOW, "compact")
    assert "KEY REMINDERS:\n- Keep it short" in text
