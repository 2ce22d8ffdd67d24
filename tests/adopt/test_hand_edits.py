"""What is found in place of a record that somebody wrote: edits, good and bad, of all formats."""

import json
import os

import pytest

from support.workshop import FORMATS, Place, edit_document, edited_value, lines_of, worked_on

each_format = pytest.mark.parametrize("record_format", FORMATS)


@pytest.fixture
def place(tmp_path, record_format):
    return Place(tmp_path, record_format)


# digest not valid: an edit


@each_format
def test_an_edit_is_adopted_as_an_event_with_what_changed(place):
    before = edited_value(place.state)
    seq = place.shop.keeper().log()[-1]["seq"]
    place.shop.edit(place.record, lambda document: edit_document(place.format, document))
    state, notes = place.looked()
    assert edited_value(state) == "by hand"
    event = place.last()
    assert event["type"] == "record_edited"
    assert event["data"]["base"] == seq
    changes = event["data"]["changes"]
    assert next(was for _, was, now in changes if now == "by hand") == before
    assert any("adopted an edit" in note for note in notes)
    assert place.shop.beside(place.record) == {}
    assert lines_of(place.shop.keeper()) == []


@each_format
def test_an_edit_of_an_earlier_event_is_merged_with_what_happened_since(place):
    stale = place.raw()
    place.shop.keeper().remind("meanwhile", workflow=place.id)
    place.shop.write(place.record, stale)
    place.shop.edit(place.record, lambda document: edit_document(place.format, document))
    state, _ = place.looked()
    assert edited_value(state) == "by hand"
    assert state["reminders"][-1] == "meanwhile"
    assert place.news() == ["reminder_added", "record_edited"]
    assert place.last()["data"]["base"] < place.last()["seq"] - 1


@each_format
def test_the_same_change_on_both_sides_is_made_once(place):
    stale = place.raw()
    place.shop.edit(place.record, lambda document: edit_document(place.format, document))
    once, _ = place.looked()
    place.shop.write(place.record, stale)
    place.shop.edit(place.record, lambda document: edit_document(place.format, document))
    twice, _ = place.looked()
    assert twice == once
    assert place.news() == ["record_edited"]
    assert place.shop.beside(place.record) == {}


@each_format
def test_overlapping_changes_are_refused_and_both_versions_kept(place):
    stale = place.raw()
    place.shop.edit(place.record, lambda document: edit_document(place.format, document, "one"))
    one, _ = place.looked()
    place.shop.write(place.record, stale)
    place.shop.edit(place.record, lambda document: edit_document(place.format, document, "two"))
    refused = place.raw()
    state, notes = place.looked()
    assert edited_value(state) == "one"
    assert state == one
    assert place.news() == ["record_edited"]
    kept = place.shop.beside(place.record)
    assert list(kept.values()) == [refused]
    name = next(iter(kept))
    assert name.startswith(os.path.basename(place.record) + ".rejected-")
    assert any(name in note and "refused" in note for note in notes)
    assert lines_of(place.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["skill", "loop"])
def test_a_task_added_on_both_sides_is_a_conflict_unless_it_is_the_same(place):
    stale = place.raw()
    place.shop.keeper().add_task("ours", workflow=place.id)

    def added(document):
        if place.format == "skill":
            document["tasks"].append({"index": 4, "description": "theirs", "status": "pending"})
        else:
            document["tasks"]["T4"] = {"status": "blocked", "reason": "theirs"}

    place.shop.write(place.record, stale)
    place.shop.edit(place.record, added)
    state, notes = place.looked()
    assert [task["id"] for task in state["tasks"]].count(state["tasks"][-1]["id"]) == 1
    assert any("tasks" in note and "refused" in note for note in notes)


@each_format
def test_unknown_fields_stay_where_they_were_put(place):
    place.shop.edit(place.record, lambda document: document.update({"x-owner": {"name": "me"}}))
    place.looked()
    place.shop.keeper().remind("afterwards", workflow=place.id)
    assert place.shop.document(place.record)["x-owner"] == {"name": "me"}


@each_format
def test_what_an_edit_cannot_change_is_said_and_left_out(place):
    key = {"verb": "startedAt", "formal": "created_at", "loop": "created"}.get(place.format)

    def changed(document):
        (document["workflow"] if key is None else document)[key or "created_at"] = "2020-01-01"

    place.shop.edit(place.record, changed)
    state, notes = place.looked()
    assert state == place.state
    assert any("created_at" in note and "stays" in note for note in notes)
    assert place.news() == []


@pytest.mark.parametrize("record_format", ["verb", "skill"])
def test_an_edit_to_completed_completes(place):
    def completed(document):
        about = document["workflow"] if place.format == "skill" else document
        about["status"] = "completed"

    place.shop.edit(place.record, completed)
    assert place.looked()[0]["status"] == "completed"
    assert place.news()[-1] == "workflow_completed"
    assert lines_of(place.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["verb", "skill", "loop"])
def test_an_edit_of_an_ended_record_never_reaches_the_next_workflow(place):
    place.shop.keeper().complete("done", force=True, reason="enough", workflow=place.id)
    where = place.record
    if place.format == "skill":
        where = where.replace("/active/", "/completed/")
    place.shop.edit(where, lambda document: edit_document(place.format, document))
    edit = place.shop.read(where)
    other = worked_on(place.shop.keeper(), place.format, "other work")
    assert edited_value(other) != "by hand"
    assert place.shop.keeper().settle(workflow=other["id"]).state == other
    kept = [edit in data for data in place.shop.files().values() if isinstance(data, bytes)]
    adopted = any(event["type"] == "record_edited" for event in place.shop.keeper().log())
    assert any(kept) or adopted


# the values make no sense; not JSON


@each_format
def test_values_that_make_no_sense_are_refused_with_their_line(place):
    def nonsense(document):
        if place.format == "verb":
            document["phases"][1]["status"] = "somehow"
        elif place.format == "formal":
            document["phase"]["status"] = "somehow"
        elif place.format == "skill":
            document["state_machine"]["phases"][1]["status"] = "somehow"
        else:
            document["tasks"]["T2"]["status"] = "somehow"

    place.shop.edit(place.record, nonsense)
    refused = place.raw()
    line = refused[: refused.index(b"somehow")].count(b"\n") + 1
    state, notes = place.looked()
    assert state == place.state
    assert any(f"line {line}:" in note and "status" in note for note in notes), notes
    assert list(place.shop.beside(place.record).values()) == [refused]
    assert place.news() == []


@each_format
def test_what_is_not_json_is_read_again_after_a_moment_then_moved_aside(place):
    broken = place.raw()[:-40]
    place.shop.write(place.record, broken)
    before = place.raw()
    state, notes = place.looked()
    assert place.shop.slept
    assert state == place.state
    kept = place.shop.beside(place.record)
    assert list(kept.values()) == [before]
    assert all(".rejected-" in name for name in kept)
    line = broken.count(b"\n") + 1
    assert any(f"line {line}:" in note for note in notes), notes
    assert place.news() == []
    assert lines_of(place.shop.keeper()) == []


@each_format
@pytest.mark.parametrize("written", [-40, 0], ids=["torn", "empty"])
def test_a_file_that_is_just_being_written_is_waited_for(place, written):
    """The editor empties the file and has not written all of it when it is read."""
    document = place.shop.document(place.record)
    edit_document(place.format, document)
    whole = json.dumps(document).encode()
    place.shop.write(place.record, whole[:written])
    keeper = place.shop.keeper(sleep=lambda _seconds: place.shop.write(place.record, whole))
    assert edited_value(keeper.settle(workflow=place.id).state) == "by hand"
    assert place.news() == ["record_edited"]
    assert place.shop.beside(place.record) == {}
