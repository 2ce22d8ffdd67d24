"""Every row of the tables: what is written when, who wins on resume, what happens in trouble."""

import os
import shutil

import pytest

from holdfast import Refused
from initiatives.ground import RECORD

CORRECTED = "Sync corrected: WORKFLOW-STATUS.yaml updated to match initiative.json"
TAKEN = "Sync corrected: initiative.json updated to match WORKFLOW-STATUS.yaml"


def sources_of(ground):
    """What each of the three says."""
    return ground.record(), ground.text(ground.yaml), ground.entity()


# Which event updates what


def test_milestone_started_updates_record_yaml_and_graph(ground):
    ground.begin()
    ground.initiatives().start("M1")
    record, yaml, entity = sources_of(ground)
    assert (record["status"], record["currentMilestone"]) == ("in_progress", "M1")
    assert record["progress"] == {"M1": "in_progress", "M2": "pending", "M3": "pending"}
    assert f"milestone: M1\nstatus: in_progress\nupdated: {ground.now}\n" in yaml
    assert entity == [
        "initiative: Tidy billing",
        "milestone: M1",
        "status: in_progress",
        'progress: {"M1":"in_progress","M2":"pending","M3":"pending"}',
        f"updated: {ground.now}",
    ]


def test_task_completed_updates_the_record_and_touches_no_milestone_elsewhere(ground):
    ground.begin()
    ground.initiatives().start("M1")
    _, yaml, entity = sources_of(ground)
    ground.initiatives().task("M1", "list readers")
    ground.initiatives().task("M1", "list readers", done=True)
    assert ground.record()["lastUpdated"] == ground.now
    assert ground.one()["milestones"][0]["tasks"] == [{"text": "list readers", "done": True}]
    assert ground.text(ground.yaml) == yaml
    assert ground.entity()[:4] == entity[:4]


def test_milestone_completed_updates_the_record_with_the_next_and_the_others(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.initiatives().complete("M1")
    record, yaml, entity = sources_of(ground)
    assert record["currentMilestone"] == "M2"
    assert record["progress"] == {"M1": "completed", "M2": "in_progress", "M3": "pending"}
    assert "milestone: M2" in yaml
    assert "  M1: completed\n  M2: in_progress\n" in yaml
    assert entity[1] == "milestone: M2"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda them: them.block("no key"), "blocked"),
        (lambda them: them.finish(force=True, reason="sold"), "completed"),
    ],
)
def test_status_change_updates_record_yaml_and_graph(ground, change, status):
    ground.begin()
    ground.initiatives().start("M1")
    change(ground.initiatives())
    record, yaml, entity = sources_of(ground)
    assert record["status"] == status
    assert f"status: {status}\n" in yaml
    assert f"status: {status}" in entity


def test_session_resume_reads_the_record_then_the_yaml(ground):
    ground.begin()
    ground.initiatives().start("M1")
    before = [ground.read(place) for place in (RECORD, ground.yaml)]
    ground.later(600)
    assert ground.initiatives().resume()["current_milestone"] == "M1"
    assert [ground.read(place) for place in (RECORD, ground.yaml)] == before
    ground.edit_yaml(at=ground.later(), milestone="M2")
    assert ground.initiatives().resume()["current_milestone"] == "M2"


def test_a_whole_life_through_all_milestones(ground):
    """The checkpoints from the first to the last."""
    ground.begin()
    seen = [(ground.record()["status"], ground.record()["currentMilestone"])]
    ground.initiatives().start("M1")
    for milestone in ("M1", "M2", "M3"):
        ground.initiatives().complete(milestone)
        seen.append((ground.record()["status"], ground.record()["currentMilestone"]))
    ground.initiatives().finish()
    ground.initiatives().archive()
    seen.append((ground.record()["status"], ground.record()["currentMilestone"]))
    assert seen == [
        ("created", "M1"),
        ("in_progress", "M2"),
        ("in_progress", "M3"),
        ("in_progress", "M3"),
        ("archived", "M3"),
    ]
    assert ground.keeper().verify().ok


# Which source is right


def test_a_newer_yaml_is_taken_in_and_the_loser_is_kept(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.later(3)
    ground.edit_yaml(at=ground.now, milestone="M2", M1="completed", M2="in_progress")
    noted = ground.initiatives().sync()
    assert TAKEN in noted.notes
    assert ground.progress() == {"M1": "completed", "M2": "in_progress", "M3": "pending"}
    event = ground.events()[-1]
    assert event["type"] == "initiative_sync_corrected"
    assert event["data"]["said"] == TAKEN
    assert event["data"]["lost"]["initiative.json"]["milestone"] == "M1"
    assert "milestone: M2" in ground.entity()


def test_an_older_yaml_is_brought_forward_and_what_it_said_is_kept(ground):
    ground.begin()
    old = ground.text(ground.yaml)
    ground.initiatives().start("M1")
    ground.write(ground.yaml, old)
    noted = ground.initiatives().sync()
    assert CORRECTED in noted.notes
    assert "status: in_progress" in ground.text(ground.yaml)
    lost = ground.events()[-1]["data"]["lost"]["WORKFLOW-STATUS.yaml"]
    assert lost["status"] == "created"
    assert not ground.initiatives().sync().seqs


def test_an_edit_of_the_record_reaches_the_yaml(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.edit_record(status="blocked")
    noted = ground.initiatives().sync()
    assert CORRECTED in noted.notes
    assert "status: blocked" in ground.text(ground.yaml)


def test_an_older_record_of_another_tool_loses_against_the_yaml(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.edit_record(is_theirs=True, currentMilestone="M3", lastUpdated="2026-03-01T00:00:00Z")
    noted = ground.initiatives().sync()
    assert TAKEN in noted.notes
    assert ground.one()["current_milestone"] == "M1"
    assert ground.events()[-1]["data"]["lost"]["initiative.json"]["milestone"] == "M3"


def test_far_apart_is_warned_of_in_the_words_that_people_know(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.later(120)
    ground.edit_yaml(at=ground.now, status="blocked")
    ground.later(90)
    _, notes = ground.initiatives().show()
    assert "Initiative state may be stale — last updated 1 hour ago" in notes
    assert any("WORKFLOW-STATUS.yaml says M1 blocked" in note for note in notes)
    assert "initiative_sync_corrected" not in ground.types()
    notes = ground.initiatives().sync().notes
    assert TAKEN in notes
    assert ground.types().count("initiative_sync_corrected") == 1


def test_a_tie_goes_to_the_record(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.edit_yaml(milestone="M2")
    assert CORRECTED in ground.initiatives().sync().notes
    assert ground.one()["current_milestone"] == "M1"


def test_a_yaml_cannot_bring_back_what_is_final(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.initiatives().finish(force=True, reason="sold")
    ground.later(2)
    ground.edit_yaml(at=ground.now, status="in_progress")
    noted = ground.initiatives().sync()
    assert any("cannot be in_progress again" in note for note in noted.notes)
    assert CORRECTED in noted.notes
    assert "status: completed" in ground.text(ground.yaml)


def test_every_command_compares_the_sources_after_its_write(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.later(2)
    ground.edit_yaml(at=ground.now, status="blocked")
    ground.later(-2)
    noted = ground.initiatives().task("M1", "list readers")
    assert TAKEN in noted.notes
    assert ground.one()["status"] == "blocked"


def test_a_yaml_that_speaks_of_another_initiative_is_put_right(ground):
    ground.begin()
    ground.edit_yaml(initiative="Somebody else's", status="blocked")
    assert CORRECTED in ground.initiatives().sync().notes
    assert ground.one()["status"] == "created"
    lost = ground.events()[-1]["data"]["lost"]["WORKFLOW-STATUS.yaml"]
    assert (lost["initiative"], lost["status"]) == ("Somebody else's", "blocked")


# The status machine


def test_what_is_final_refuses_and_says_what_to_do(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.initiatives().finish(force=True, reason="sold")
    files = [ground.read(place) for place in (RECORD, ground.yaml)]
    for change in (
        lambda: ground.initiatives().start("M2"),
        lambda: ground.initiatives().unblock(),
        lambda: ground.initiatives().finish(),
    ):
        with pytest.raises(Refused) as refused:
            change()
        assert refused.value.hint.startswith("holdfast initiative create")
    ground.initiatives().archive()
    with pytest.raises(Refused):
        ground.initiatives().start("M2")
    assert files[0] != ground.read(RECORD)


def test_an_edit_that_goes_back_is_refused_and_kept(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.initiatives().finish(force=True, reason="sold")
    ground.edit_record(status="in_progress")
    noted = ground.initiatives().sync()
    assert any("cannot be in_progress again" in note for note in noted.notes)
    assert ground.one()["status"] == "completed"
    assert any(".rejected-" in name for name in os.listdir(ground.path(".claude")))


# Trouble


def test_a_missing_record_is_rebuilt_from_the_ledger(ground):
    ground.begin()
    ground.initiatives().start("M1")
    for change in ("sync", "resume"):
        os.remove(ground.path(RECORD))
        assert ground.one()["current_milestone"] == "M1"
        ground.initiatives().show()
        assert not os.path.exists(ground.path(RECORD))
        getattr(ground.initiatives(), change)()
        assert ground.record()["currentMilestone"] == "M1"
    os.remove(ground.path(RECORD))
    ground.initiatives().complete("M1")
    assert ground.record()["currentMilestone"] == "M2"


def test_a_missing_record_without_a_ledger_is_reconstructed_from_milestone_files(ground):
    ground.begin(files=True)
    ground.initiatives().start("M1")
    ground.initiatives().task("M1", "list readers", done=True)
    ground.initiatives().complete("M1")
    before = ground.one()
    shutil.rmtree(ground.path(".claude"))
    fields, _ = ground.initiatives().show()
    assert (fields["initiative"], fields["recoverable"]) == (None, ["tidy-billing"])
    ground.initiatives().recover()
    after = ground.one()
    for name in ("name", "status", "current_milestone"):
        assert after[name] == before[name]
    assert [each["tasks"] for each in after["milestones"]] == [
        each["tasks"] for each in before["milestones"]
    ]
    assert ground.progress() == {"M1": "completed", "M2": "in_progress", "M3": "pending"}


@pytest.mark.parametrize("text", [b"{", b"not json", b'{"name": 7}', b'{"name": "x"}', b"\xff"])
def test_a_corrupted_record_falls_back_to_the_folders(ground, text):
    ground.write(ground.readme, "# Tidy billing\n\n## M1: Map\n\n- [x] one\n\n## M2: Move\n")
    ground.write(RECORD, text)
    fields, notes = ground.initiatives().show()
    assert fields["recoverable"] == ["tidy-billing"]
    assert any("cannot be adopted" in note for note in notes)
    ground.initiatives().recover()
    assert ground.progress() == {"M1": "completed", "M2": "in_progress"}
    assert ground.record()["name"] == "Tidy billing"


def test_conflicting_times_prefer_the_most_recent_and_are_logged(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.later(30)
    ground.edit_yaml(at=ground.now, status="blocked")
    ground.initiatives().resume()
    (event,) = [e for e in ground.events() if e["type"] == "initiative_sync_corrected"]
    assert event["data"]["said"] == TAKEN


def test_without_a_memory_the_record_goes_on(ground, monkeypatch):
    ground.write("blocked", "a file where the folder should be")
    monkeypatch.setenv("HOLDFAST_MEMORY", ground.path("blocked/MEMORY.md"))
    ground.begin()
    ground.initiatives().start("M1")
    assert ground.record()["status"] == "in_progress"


def test_without_a_graph_everything_goes_on(ground, monkeypatch):
    monkeypatch.setenv("HOLDFAST_GRAPH", "off")
    ground.begin()
    assert not ground.initiatives().start("M1").notes
    assert ground.record()["status"] == "in_progress"
    assert not ground.initiatives().complete("M1").notes
    assert "milestone: M2" in ground.text(ground.yaml)
