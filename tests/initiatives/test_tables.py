"""Every row of the tables: what is written when, who wins on resume, what happens in trouble."""

import os
import shutil

import pytest

from holdfast import Refused
from support.initiative_shop import RECORD

CORRECTED = "Sync corrected: WORKFLOW-STATUS.yaml updated to match initiative.json"
TAKEN = "Sync corrected: initiative.json updated to match WORKFLOW-STATUS.yaml"


def sources_of(shop):
    """What each of the three says."""
    return shop.record(), shop.text(shop.yaml), shop.entity()


# Which event updates what


def test_milestone_started_updates_record_yaml_and_graph(shop):
    shop.begin()
    shop.initiatives().start("M1")
    record, yaml, entity = sources_of(shop)
    assert (record["status"], record["currentMilestone"]) == ("in_progress", "M1")
    assert record["progress"] == {"M1": "in_progress", "M2": "pending", "M3": "pending"}
    assert f"milestone: M1\nstatus: in_progress\nupdated: {shop.now}\n" in yaml
    assert entity == [
        "initiative: Tidy billing",
        "milestone: M1",
        "status: in_progress",
        'progress: {"M1":"in_progress","M2":"pending","M3":"pending"}',
        f"updated: {shop.now}",
    ]


def test_task_completed_updates_the_record_and_touches_no_milestone_elsewhere(shop):
    shop.begin()
    shop.initiatives().start("M1")
    _, yaml, entity = sources_of(shop)
    shop.initiatives().task("M1", "list readers")
    shop.initiatives().task("M1", "list readers", done=True)
    assert shop.record()["lastUpdated"] == shop.now
    assert shop.current()["milestones"][0]["tasks"] == [{"text": "list readers", "done": True}]
    assert shop.text(shop.yaml) == yaml
    assert shop.entity()[:4] == entity[:4]


def test_milestone_completed_updates_the_record_with_the_next_and_the_others(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().complete("M1")
    record, yaml, entity = sources_of(shop)
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
def test_status_change_updates_record_yaml_and_graph(shop, change, status):
    shop.begin()
    shop.initiatives().start("M1")
    change(shop.initiatives())
    record, yaml, entity = sources_of(shop)
    assert record["status"] == status
    assert f"status: {status}\n" in yaml
    assert f"status: {status}" in entity


def test_session_resume_reads_the_record_then_the_yaml(shop):
    shop.begin()
    shop.initiatives().start("M1")
    before = [shop.read(place) for place in (RECORD, shop.yaml)]
    shop.later(600)
    assert shop.initiatives().resume()["current_milestone"] == "M1"
    assert [shop.read(place) for place in (RECORD, shop.yaml)] == before
    shop.edit_yaml(at=shop.later(), milestone="M2")
    assert shop.initiatives().resume()["current_milestone"] == "M2"


def test_a_whole_life_through_all_milestones(shop):
    """The checkpoints from the first to the last."""
    shop.begin()
    seen = [(shop.record()["status"], shop.record()["currentMilestone"])]
    shop.initiatives().start("M1")
    for milestone in ("M1", "M2", "M3"):
        shop.initiatives().complete(milestone)
        seen.append((shop.record()["status"], shop.record()["currentMilestone"]))
    shop.initiatives().finish()
    shop.initiatives().archive()
    seen.append((shop.record()["status"], shop.record()["currentMilestone"]))
    assert seen == [
        ("created", "M1"),
        ("in_progress", "M2"),
        ("in_progress", "M3"),
        ("in_progress", "M3"),
        ("archived", "M3"),
    ]
    assert shop.keeper().verify().ok


# Which source is right


def test_a_newer_yaml_is_taken_in_and_the_loser_is_kept(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.later(3)
    shop.edit_yaml(at=shop.now, milestone="M2", M1="completed", M2="in_progress")
    noted = shop.initiatives().sync()
    assert TAKEN in noted.notes
    assert shop.progress() == {"M1": "completed", "M2": "in_progress", "M3": "pending"}
    event = shop.events()[-1]
    assert event["type"] == "initiative_sync_corrected"
    assert event["data"]["said"] == TAKEN
    assert event["data"]["lost"]["initiative.json"]["milestone"] == "M1"
    assert "milestone: M2" in shop.entity()


def test_an_older_yaml_is_brought_forward_and_what_it_said_is_kept(shop):
    shop.begin()
    old = shop.text(shop.yaml)
    shop.initiatives().start("M1")
    shop.write(shop.yaml, old)
    noted = shop.initiatives().sync()
    assert CORRECTED in noted.notes
    assert "status: in_progress" in shop.text(shop.yaml)
    lost = shop.events()[-1]["data"]["lost"]["WORKFLOW-STATUS.yaml"]
    assert lost["status"] == "created"
    assert not shop.initiatives().sync().seqs


def test_an_edit_of_the_record_reaches_the_yaml(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.edit_record(status="blocked")
    noted = shop.initiatives().sync()
    assert CORRECTED in noted.notes
    assert "status: blocked" in shop.text(shop.yaml)


def test_an_older_record_of_another_tool_loses_against_the_yaml(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.edit_record(is_theirs=True, currentMilestone="M3", lastUpdated="2026-03-01T00:00:00Z")
    noted = shop.initiatives().sync()
    assert TAKEN in noted.notes
    assert shop.current()["current_milestone"] == "M1"
    assert shop.events()[-1]["data"]["lost"]["initiative.json"]["milestone"] == "M3"


def test_far_apart_is_warned_of_in_the_words_that_people_know(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.later(120)
    shop.edit_yaml(at=shop.now, status="blocked")
    shop.later(90)
    _, notes = shop.initiatives().show()
    assert "Initiative state may be stale — last updated 3 hours ago (initiative.json)" in notes
    assert any("WORKFLOW-STATUS.yaml says M1 blocked" in note for note in notes)
    assert "initiative_sync_corrected" not in shop.types()
    notes = shop.initiatives().sync().notes
    assert TAKEN in notes
    assert shop.types().count("initiative_sync_corrected") == 1


def test_a_tie_goes_to_the_record(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.edit_yaml(milestone="M2")
    assert CORRECTED in shop.initiatives().sync().notes
    assert shop.current()["current_milestone"] == "M1"


def test_a_yaml_cannot_bring_back_what_is_final(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().finish(force=True, reason="sold")
    shop.later(2)
    shop.edit_yaml(at=shop.now, status="in_progress")
    noted = shop.initiatives().sync()
    assert any("cannot be in_progress again" in note for note in noted.notes)
    assert CORRECTED in noted.notes
    assert "status: completed" in shop.text(shop.yaml)


def test_every_command_compares_the_sources_after_its_write(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.later(2)
    shop.edit_yaml(at=shop.now, status="blocked")
    shop.later(-2)
    noted = shop.initiatives().task("M1", "list readers")
    assert TAKEN in noted.notes
    assert shop.current()["status"] == "blocked"


def test_a_yaml_that_speaks_of_another_initiative_is_put_right(shop):
    shop.begin()
    shop.edit_yaml(initiative="Somebody else's", status="blocked")
    assert CORRECTED in shop.initiatives().sync().notes
    assert shop.current()["status"] == "created"
    lost = shop.events()[-1]["data"]["lost"]["WORKFLOW-STATUS.yaml"]
    assert (lost["initiative"], lost["status"]) == ("Somebody else's", "blocked")


# The status machine


def test_what_is_final_refuses_and_says_what_to_do(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().finish(force=True, reason="sold")
    files = [shop.read(place) for place in (RECORD, shop.yaml)]
    for change in (
        lambda: shop.initiatives().start("M2"),
        lambda: shop.initiatives().unblock(),
        lambda: shop.initiatives().finish(),
    ):
        with pytest.raises(Refused) as refused:
            change()
        assert refused.value.hint.startswith("holdfast initiative create")
    shop.initiatives().archive()
    with pytest.raises(Refused):
        shop.initiatives().start("M2")
    assert files[0] != shop.read(RECORD)


def test_an_edit_that_goes_back_is_refused_and_kept(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().finish(force=True, reason="sold")
    shop.edit_record(status="in_progress")
    noted = shop.initiatives().sync()
    assert any("cannot be in_progress again" in note for note in noted.notes)
    assert shop.current()["status"] == "completed"
    assert any(".rejected-" in name for name in os.listdir(shop.path(".claude")))


# Trouble


def test_a_missing_record_is_rebuilt_from_the_ledger(shop):
    shop.begin()
    shop.initiatives().start("M1")
    for change in ("sync", "resume"):
        os.remove(shop.path(RECORD))
        assert shop.current()["current_milestone"] == "M1"
        shop.initiatives().show()
        assert not os.path.exists(shop.path(RECORD))
        getattr(shop.initiatives(), change)()
        assert shop.record()["currentMilestone"] == "M1"
    os.remove(shop.path(RECORD))
    shop.initiatives().complete("M1")
    assert shop.record()["currentMilestone"] == "M2"


def test_a_missing_record_without_a_ledger_is_reconstructed_from_milestone_files(shop):
    shop.begin(files=True)
    shop.initiatives().start("M1")
    shop.initiatives().task("M1", "list readers", done=True)
    shop.initiatives().complete("M1")
    before = shop.current()
    shutil.rmtree(shop.path(".claude"))
    fields, _ = shop.initiatives().show()
    assert (fields["initiative"], fields["recoverable"]) == (None, ["tidy-billing"])
    shop.initiatives().recover()
    after = shop.current()
    for name in ("name", "status", "current_milestone"):
        assert after[name] == before[name]
    assert [each["tasks"] for each in after["milestones"]] == [
        each["tasks"] for each in before["milestones"]
    ]
    assert shop.progress() == {"M1": "completed", "M2": "in_progress", "M3": "pending"}


@pytest.mark.parametrize("text", [b"{", b"not json", b'{"name": 7}', b'{"name": "x"}', b"\xff"])
def test_a_corrupted_record_falls_back_to_the_folders(shop, text):
    shop.write(shop.readme, "# Tidy billing\n\n## M1: Map\n\n- [x] one\n\n## M2: Move\n")
    shop.write(RECORD, text)
    fields, notes = shop.initiatives().show()
    assert fields["recoverable"] == ["tidy-billing"]
    assert any("cannot be adopted" in note for note in notes)
    shop.initiatives().recover()
    assert shop.progress() == {"M1": "completed", "M2": "in_progress"}
    assert shop.record()["name"] == "Tidy billing"


def test_conflicting_times_prefer_the_most_recent_and_are_logged(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.later(30)
    shop.edit_yaml(at=shop.now, status="blocked")
    shop.initiatives().resume()
    (event,) = [e for e in shop.events() if e["type"] == "initiative_sync_corrected"]
    assert event["data"]["said"] == TAKEN


def test_without_a_memory_the_record_goes_on(shop, monkeypatch):
    shop.write("blocked", "a file where the folder should be")
    monkeypatch.setenv("HOLDFAST_MEMORY", shop.path("blocked/MEMORY.md"))
    shop.begin()
    shop.initiatives().start("M1")
    assert shop.record()["status"] == "in_progress"


def test_without_a_graph_everything_goes_on(shop, monkeypatch):
    monkeypatch.setenv("HOLDFAST_GRAPH", "off")
    shop.begin()
    assert not shop.initiatives().start("M1").notes
    assert shop.record()["status"] == "in_progress"
    assert not shop.initiatives().complete("M1").notes
    assert "milestone: M2" in shop.text(shop.yaml)
