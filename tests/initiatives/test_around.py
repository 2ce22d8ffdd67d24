"""What the project's memory is told, where things are, and several beside each other."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from holdfast import Initiatives, Keeper, Refused
from holdfast.initiatives.status_yaml import Status
from holdfast.system.disk import Disk
from support.initiative_shop import RECORD, TOP, YAML
from support.paths import SOURCE

ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
CORRECTED = "Sync corrected: WORKFLOW-STATUS.yaml updated to match initiative.json"


# What goes into the project's memory


def memory(shop):
    return shop.text("MEMORY.md") if os.path.exists(shop.path("MEMORY.md")) else ""


@pytest.mark.parametrize("kind", ["pattern", "preference", "insight"])
def test_the_three_kinds_of_learnings_stand_under_initiative_patterns(shop, monkeypatch, kind):
    monkeypatch.setenv("HOLDFAST_MEMORY", shop.path("MEMORY.md"))
    shop.begin()
    text = "Tidy billing: small milestones work well"
    shop.keeper().remember(text, kind=kind, section="Initiative Patterns")
    assert f"## Initiative Patterns\n- {kind.capitalize()}: {text}\n" in memory(shop)


def test_nothing_else_about_an_initiative_reaches_the_memory(shop, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MEMORY", shop.path("MEMORY.md"))
    shop.begin(files=True)
    shop.initiatives().start("M1")
    shop.initiatives().task("M1", "one", done=True)
    shop.initiatives().complete("M1")
    shop.initiatives().block("no key")
    shop.later(5)
    shop.edit_yaml(at=shop.now, status="in_progress")
    shop.initiatives().sync()
    with pytest.raises(Refused, match="stands a pattern, preference, insight only"):
        shop.keeper().remember("M1 is done", section="Initiative Patterns")
    assert memory(shop) == ""


# Where things are


def test_a_yaml_at_the_root_is_used_instead(shop):
    shop.write(YAML, "# ours\nteam: billing\n")
    shop.begin()
    shop.initiatives().start("M1")
    assert shop.text(YAML).startswith("# ours\nteam: billing\ninitiative: Tidy billing\n")
    assert not os.path.exists(shop.path(f"{TOP}/tidy-billing/{YAML}"))


def test_two_initiatives_that_share_a_yaml_do_not_inherit_milestones(shop):
    shop.write(YAML, "# ours\n")
    shop.begin()
    shop.initiatives().create("Other", ["M1: a", "X: b"])
    shop.later(2)
    shop.edit_yaml(at=shop.now, status="in_progress")
    assert shop.initiatives().resume()["status"] == "in_progress"
    assert shop.progress() == {"M1": "pending", "X": "pending"}
    shop.initiatives().use("Tidy billing")
    assert list(Status(shop.read(YAML)).progress) == ["M1", "M2", "M3"]


def test_the_places_can_be_configured_inside_the_workspace(shop):
    shop.write(
        ".claude/holdfast.toml", 'milestones = "plans"\nworkflow_status = "plans/now.yaml"\n'
    )
    shop.begin(files=True)
    assert "initiative: Tidy billing" in shop.text("plans/now.yaml")
    assert shop.text("plans/tidy-billing/README.md").startswith("# Tidy billing")
    shop.write(".claude/holdfast.toml", 'milestones = "../elsewhere"\n')
    with pytest.raises(Refused, match="leads out of the workspace"):
        shop.initiatives().start("M1")


def test_several_initiatives_and_the_current_one_is_in_the_record(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().create("Größe", ["M1: Eins"])
    assert shop.record()["name"] == "Größe"
    assert shop.entity()[0] == "initiative: Größe"
    assert "milestone: M1" in shop.entity("initiative-checkpoint:tidy-billing")
    shop.initiatives().use("Tidy billing")
    assert shop.record()["name"] == "Tidy billing"
    assert shop.record()["currentMilestone"] == "M1"
    assert shop.entity()[0] == "initiative: Tidy billing"
    assert shop.entity("initiative-checkpoint:tidy-billing") is None
    assert shop.keeper().verify().ok
    shutil.rmtree(shop.path(".claude/holdfast"))
    assert sorted(one["name"] for one in shop.initiatives().all()["all"].values()) == [
        "Größe",
        "Tidy billing",
    ]


def test_a_record_that_names_another_initiative_takes_nothing_away(shop):
    shop.begin()
    shop.initiatives().start("M1")
    theirs = {"name": "Theirs", "status": "in_progress", "currentMilestone": "M7"}
    shop.write(RECORD, json.dumps(theirs))
    assert shop.current()["name"] == "Theirs"
    shop.initiatives().use("Tidy billing")
    assert shop.progress()["M1"] == "in_progress"


@pytest.mark.parametrize("is_theirs", [True, False])
@pytest.mark.parametrize("current", ["M1", "M2", "M3"])
def test_a_record_that_leaves_milestones_out_takes_none_away(shop, is_theirs, current):
    """Many tools list only those that were begun."""
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().task("M1", "list readers", done=True)
    shop.initiatives().task("M3", "tell everybody")
    shop.later()
    progress = {"M2": "in_progress"}
    shop.edit_record(
        is_theirs=is_theirs, progress=progress, currentMilestone=current, lastUpdated=shop.now
    )
    shop.initiatives().sync()
    milestones = shop.current()["milestones"]
    assert [(each["id"], each["title"]) for each in milestones] == [
        ("M1", "Map"), ("M2", "Move"), ("M3", "Ship"),
    ]  # fmt: skip
    assert milestones[0]["tasks"] == [{"text": "list readers", "done": True}]
    assert milestones[2]["tasks"] == [{"text": "tell everybody", "done": False}]
    assert shop.current()["current_milestone"] == current
    assert (shop.progress()["M1"], shop.progress()["M2"]) == ("in_progress", "in_progress")
    assert shop.record()["progress"] == Status(shop.read(shop.yaml)).progress
    assert shop.keeper().verify().ok


def test_the_same_request_is_carried_out_once(shop):
    shop.begin()
    for _ in range(2):
        shop.initiatives().start("M1", id="abc")
    assert shop.types() == ["initiative_created", "milestone_started"]


def test_a_retry_of_sync_is_carried_out_once(shop):
    shop.begin()
    shop.write(shop.readme, "## M1: Map\n\n- [x] one\n")
    first = shop.initiatives().sync(source="files", id="abc")
    again = shop.initiatives().sync(source="files", id="abc")
    assert first.seqs == again.seqs


def test_a_writer_that_died_before_the_yaml_is_made_up_for(shop):
    """The event is in the ledger and in the record; nothing else knows of it."""
    shop.begin()
    shop.later()
    session = shop.keeper().session
    session.do_log("initiatives", "start_milestone", {"milestone": "M1"})
    assert "status: created" in shop.text(shop.yaml)
    assert CORRECTED in shop.initiatives().sync().notes
    assert "status: in_progress" in shop.text(shop.yaml)


def test_what_a_killed_writer_left_beside_a_file_is_in_nobodys_way(shop):
    shop.begin(files=True)
    folder, name = os.path.split(shop.yaml)
    shop.write(f"{folder}/.{name}.holdfast-0", "half a te")
    noted = shop.initiatives().start("M1")
    assert "status: in_progress" in shop.text(shop.yaml)
    assert any(f"kept as {name}.found-0" in note for note in noted.notes)
    assert shop.text(f"{folder}/{name}.found-0") == "half a te"
    assert not shop.initiatives().complete("M1").notes


def test_there_is_nothing_to_sync_where_there_is_no_initiative(shop):
    with pytest.raises(Refused, match="there is no initiative"):
        shop.initiatives().sync()
    assert os.listdir(shop.root) == []


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


def test_several_writers_leave_sources_that_agree_and_lose_no_task(shop):
    shop.begin(files=True)
    shop.initiatives().start("M1")
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, shop.root, name], env=ENVIRONMENT)
        for name in "abc"
    ]
    assert [process.wait(timeout=240) for process in started] == [0, 0, 0]
    keeper = Keeper(shop.root)
    one = Initiatives(keeper).resume()
    expected = sorted(f"{name} {number}" for name in "abc" for number in range(6))
    assert sorted(task["text"] for task in one["milestones"][0]["tasks"]) == expected
    told = Status(shop.read(shop.yaml))
    assert (told.status, told.milestone) == (one["status"], "M1")
    assert shop.text(shop.readme).count("- [x] ") == len(expected)
    assert keeper.verify().ok


def test_a_status_file_that_is_being_written_is_read_when_that_is_done(shop):
    shop.begin(files=True)
    shop.later(5)
    shop.edit_yaml(at=shop.now, status="in_progress", milestone="M1")
    rest = [shop.text(shop.yaml)]
    shop.write(shop.yaml, rest[0][: rest[0].index("milestone") + 4])

    class BeingWritten(Disk):
        def is_being_written(self, path):
            if rest and path.endswith(YAML):
                shop.write(shop.yaml, rest.pop())
                return True
            return super().is_being_written(path)

    receipt = Initiatives(shop.keeper(disk=BeingWritten())).task("M1", "one")
    assert "fix line" not in str(receipt.notes)
    assert (rest, Status(shop.text(shop.yaml).encode()).status) == ([], "in_progress")
