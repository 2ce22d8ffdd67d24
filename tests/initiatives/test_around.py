"""What the project's memory is told, where things are, and several beside each other."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import holdfast
from holdfast import Initiatives, Keeper, Refused
from holdfast.initiatives.status_yaml import Status
from initiatives.ground import RECORD, TOP, YAML

SOURCE = os.path.dirname(os.path.dirname(holdfast.__file__))
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
CORRECTED = "Sync corrected: WORKFLOW-STATUS.yaml updated to match initiative.json"


# What the project's memory is told


def memory(ground):
    return ground.text("MEMORY.md") if os.path.exists(ground.path("MEMORY.md")) else ""


@pytest.mark.parametrize("kind", ["pattern", "preference", "insight"])
def test_the_three_kinds_of_learnings_stand_under_initiative_patterns(ground, monkeypatch, kind):
    monkeypatch.setenv("HOLDFAST_MEMORY", ground.path("MEMORY.md"))
    ground.begin()
    text = "Tidy billing: small milestones work well"
    ground.keeper().remember(text, kind=kind, section="Initiative Patterns")
    assert f"## Initiative Patterns\n- {kind.capitalize()}: {text}\n" in memory(ground)


def test_nothing_else_about_an_initiative_reaches_the_memory(ground, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MEMORY", ground.path("MEMORY.md"))
    ground.begin(files=True)
    ground.initiatives().start("M1")
    ground.initiatives().task("M1", "one", done=True)
    ground.initiatives().complete("M1")
    ground.initiatives().block("no key")
    ground.later(5)
    ground.edit_yaml(at=ground.now, status="in_progress")
    ground.initiatives().sync()
    with pytest.raises(Refused, match="stands a pattern, preference, insight only"):
        ground.keeper().remember("M1 is done", section="Initiative Patterns")
    assert memory(ground) == ""


# Where things are


def test_a_yaml_at_the_root_is_used_instead(ground):
    ground.write(YAML, "# ours\nteam: billing\n")
    ground.begin()
    ground.initiatives().start("M1")
    assert ground.text(YAML).startswith("# ours\nteam: billing\ninitiative: Tidy billing\n")
    assert not os.path.exists(ground.path(f"{TOP}/tidy-billing/{YAML}"))


def test_two_initiatives_that_share_a_yaml_do_not_inherit_milestones(ground):
    ground.write(YAML, "# ours\n")
    ground.begin()
    ground.initiatives().create("Other", ["M1: a", "X: b"])
    ground.later(2)
    ground.edit_yaml(at=ground.now, status="in_progress")
    assert ground.initiatives().resume()["status"] == "in_progress"
    assert ground.progress() == {"M1": "pending", "X": "pending"}
    ground.initiatives().use("Tidy billing")
    assert list(Status(ground.read(YAML)).progress) == ["M1", "M2", "M3"]


def test_the_places_can_be_configured_inside_the_workspace(ground):
    ground.write(
        ".claude/holdfast.toml", 'milestones = "plans"\nworkflow_status = "plans/now.yaml"\n'
    )
    ground.begin(files=True)
    assert "initiative: Tidy billing" in ground.text("plans/now.yaml")
    assert ground.text("plans/tidy-billing/README.md").startswith("# Tidy billing")
    ground.write(".claude/holdfast.toml", 'milestones = "../elsewhere"\n')
    with pytest.raises(Refused, match="leads out of the workspace"):
        ground.initiatives().start("M1")


def test_several_initiatives_and_the_current_one_is_in_the_record(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.initiatives().create("Größe", ["M1: Eins"])
    assert ground.record()["name"] == "Größe"
    assert ground.entity()[0] == "initiative: Größe"
    assert "milestone: M1" in ground.entity("initiative-checkpoint:tidy-billing")
    ground.initiatives().use("Tidy billing")
    assert ground.record()["name"] == "Tidy billing"
    assert ground.record()["currentMilestone"] == "M1"
    assert ground.entity()[0] == "initiative: Tidy billing"
    assert ground.entity("initiative-checkpoint:tidy-billing") is None
    assert ground.keeper().verify().ok
    shutil.rmtree(ground.path(".claude/holdfast"))
    assert sorted(one["name"] for one in ground.initiatives().all()["all"].values()) == [
        "Größe",
        "Tidy billing",
    ]


def test_a_record_that_names_another_initiative_takes_nothing_away(ground):
    ground.begin()
    ground.initiatives().start("M1")
    theirs = {"name": "Theirs", "status": "in_progress", "currentMilestone": "M7"}
    ground.write(RECORD, json.dumps(theirs))
    assert ground.one()["name"] == "Theirs"
    ground.initiatives().use("Tidy billing")
    assert ground.progress()["M1"] == "in_progress"


@pytest.mark.parametrize("is_theirs", [True, False])
@pytest.mark.parametrize("current", ["M1", "M2", "M3"])
def test_a_record_that_leaves_milestones_out_takes_none_away(ground, is_theirs, current):
    """Many tools list only those that were begun."""
    ground.begin()
    ground.initiatives().start("M1")
    ground.initiatives().task("M1", "list readers", done=True)
    ground.initiatives().task("M3", "tell everybody")
    ground.later()
    progress = {"M2": "in_progress"}
    ground.edit_record(
        is_theirs=is_theirs, progress=progress, currentMilestone=current, lastUpdated=ground.now
    )
    ground.initiatives().sync()
    milestones = ground.one()["milestones"]
    assert [(each["id"], each["title"]) for each in milestones] == [
        ("M1", "Map"), ("M2", "Move"), ("M3", "Ship"),
    ]  # fmt: skip
    assert milestones[0]["tasks"] == [{"text": "list readers", "done": True}]
    assert milestones[2]["tasks"] == [{"text": "tell everybody", "done": False}]
    assert ground.one()["current_milestone"] == current
    assert (ground.progress()["M1"], ground.progress()["M2"]) == ("in_progress", "in_progress")
    assert ground.record()["progress"] == Status(ground.read(ground.yaml)).progress
    assert ground.keeper().verify().ok


def test_the_same_request_is_carried_out_once(ground):
    ground.begin()
    for _ in range(2):
        ground.initiatives().start("M1", id="abc")
    assert ground.types() == ["initiative_created", "milestone_started"]


def test_a_retry_of_sync_is_carried_out_once(ground):
    ground.begin()
    ground.write(ground.readme, "## M1: Map\n\n- [x] one\n")
    first = ground.initiatives().sync(source="files", id="abc")
    again = ground.initiatives().sync(source="files", id="abc")
    assert first.seqs == again.seqs


def test_a_writer_that_died_before_the_yaml_is_made_up_for(ground):
    """The event is in the ledger and in the record; nothing else knows of it."""
    ground.begin()
    ground.later()
    session = ground.keeper().session
    session.do_log("initiatives", "start_milestone", {"milestone": "M1"})
    assert "status: created" in ground.text(ground.yaml)
    assert CORRECTED in ground.initiatives().sync().notes
    assert "status: in_progress" in ground.text(ground.yaml)


def test_what_a_killed_writer_left_beside_a_file_is_in_nobodys_way(ground):
    ground.begin(files=True)
    folder, name = os.path.split(ground.yaml)
    ground.write(f"{folder}/.{name}.holdfast-0", "half a te")
    noted = ground.initiatives().start("M1")
    assert "status: in_progress" in ground.text(ground.yaml)
    assert any(f"kept as {name}.found-0" in note for note in noted.notes)
    assert ground.text(f"{folder}/{name}.found-0") == "half a te"
    assert not ground.initiatives().complete("M1").notes


def test_there_is_nothing_to_sync_where_there_is_no_initiative(ground):
    with pytest.raises(Refused, match="there is no initiative"):
        ground.initiatives().sync()
    assert os.listdir(ground.root) == []


WRITER = """
import sys
from holdfast import HoldfastError, Initiatives, Keeper

root, name = sys.argv[1:]
for number in range(6):
    keeper = Keeper(root, wait_s=60)
    Initiatives(keeper).task("M1", f"{name} {number}", done=True)
    for change in ("block", "unblock"):
        try:
            them = Initiatives(keeper)
            them.block(name) if change == "block" else them.unblock()
        except HoldfastError as error:
            assert error.code == "wrong_order", error.message
"""


def test_several_writers_leave_sources_that_agree_and_lose_no_task(ground):
    ground.begin(files=True)
    ground.initiatives().start("M1")
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, ground.root, name], env=ENVIRONMENT)
        for name in "abc"
    ]
    assert [process.wait(timeout=240) for process in started] == [0, 0, 0]
    keeper = Keeper(ground.root)
    one = Initiatives(keeper).resume()
    expected = sorted(f"{name} {number}" for name in "abc" for number in range(6))
    assert sorted(task["text"] for task in one["milestones"][0]["tasks"]) == expected
    told = Status(ground.read(ground.yaml))
    assert (told.status, told.milestone) == (one["status"], "M1")
    assert ground.text(ground.readme).count("- [x] ") == len(expected)
    assert keeper.verify().ok
