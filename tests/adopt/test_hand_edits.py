"""What is found in place of a record that somebody wrote: edits, good and bad, of all formats."""

import json
import os

import pytest

from support.workshop import FORMATS, edit_document, edited_value, lines_of, worked_on

each_format = pytest.mark.parametrize("record_format", FORMATS)


# digest not valid: an edit


@each_format
def test_an_edit_is_adopted_as_an_event_with_what_changed(work):
    before = edited_value(work.state)
    seq = work.shop.keeper().log()[-1]["seq"]
    work.shop.edit(work.record, lambda document: edit_document(work.format, document))
    state, notes = work.looked()
    assert edited_value(state) == "by hand"
    event = work.last()
    assert event["type"] == "record_edited"
    assert event["data"]["base"] == seq
    changes = event["data"]["changes"]
    assert next(was for _, was, now in changes if now == "by hand") == before
    assert any("adopted an edit" in note for note in notes)
    assert work.shop.beside(work.record) == {}
    assert lines_of(work.shop.keeper()) == []


@each_format
def test_an_edit_of_an_earlier_event_is_merged_with_what_happened_since(work):
    stale = work.raw()
    work.shop.keeper().remind("meanwhile", workflow=work.id)
    work.shop.write(work.record, stale)
    work.shop.edit(work.record, lambda document: edit_document(work.format, document))
    state, _ = work.looked()
    assert edited_value(state) == "by hand"
    assert state["reminders"][-1] == "meanwhile"
    assert work.news() == ["reminder_added", "record_edited"]
    assert work.last()["data"]["base"] < work.last()["seq"] - 1


@each_format
def test_the_same_change_on_both_sides_is_made_once(work):
    stale = work.raw()
    work.shop.edit(work.record, lambda document: edit_document(work.format, document))
    once, _ = work.looked()
    work.shop.write(work.record, stale)
    work.shop.edit(work.record, lambda document: edit_document(work.format, document))
    twice, _ = work.looked()
    assert twice == once
    assert work.news() == ["record_edited"]
    assert work.shop.beside(work.record) == {}


@each_format
def test_overlapping_changes_are_refused_and_both_versions_kept(work):
    stale = work.raw()
    work.shop.edit(work.record, lambda document: edit_document(work.format, document, "one"))
    one, _ = work.looked()
    work.shop.write(work.record, stale)
    work.shop.edit(work.record, lambda document: edit_document(work.format, document, "two"))
    refused = work.raw()
    state, notes = work.looked()
    assert edited_value(state) == "one"
    assert state == one
    assert work.news() == ["record_edited"]
    kept = work.shop.beside(work.record)
    assert list(kept.values()) == [refused]
    name = next(iter(kept))
    assert name.startswith(os.path.basename(work.record) + ".rejected-")
    assert any(name in note and "refused" in note for note in notes)
    assert lines_of(work.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["skill", "loop"])
def test_a_task_added_on_both_sides_is_a_conflict_unless_it_is_the_same(work):
    stale = work.raw()
    work.shop.keeper().add_task("ours", workflow=work.id)

    def added(document):
        if work.format == "skill":
            document["tasks"].append({"index": 4, "description": "theirs", "status": "pending"})
        else:
            document["tasks"]["T4"] = {"status": "blocked", "reason": "theirs"}

    work.shop.write(work.record, stale)
    work.shop.edit(work.record, added)
    state, notes = work.looked()
    assert [task["id"] for task in state["tasks"]].count(state["tasks"][-1]["id"]) == 1
    assert any("tasks" in note and "refused" in note for note in notes)


@each_format
def test_unknown_fields_stay_where_they_were_put(work):
    work.shop.edit(work.record, lambda document: document.update({"x-owner": {"name": "me"}}))
    work.looked()
    work.shop.keeper().remind("afterwards", workflow=work.id)
    assert work.shop.document(work.record)["x-owner"] == {"name": "me"}


@each_format
def test_what_an_edit_cannot_change_is_said_and_left_out(work):
    key = {"verb": "startedAt", "formal": "created_at", "loop": "created"}.get(work.format)

    def changed(document):
        (document["workflow"] if key is None else document)[key or "created_at"] = "2020-01-01"

    work.shop.edit(work.record, changed)
    state, notes = work.looked()
    assert state == work.state
    assert any("created_at" in note and "stays" in note for note in notes)
    assert work.news() == []


@pytest.mark.parametrize("record_format", ["verb", "skill"])
def test_an_edit_to_completed_completes(work):
    def completed(document):
        about = document["workflow"] if work.format == "skill" else document
        about["status"] = "completed"

    work.shop.edit(work.record, completed)
    assert work.looked()[0]["status"] == "completed"
    assert work.news()[-1] == "workflow_completed"
    assert lines_of(work.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["verb", "skill", "loop"])
def test_an_edit_of_an_ended_record_never_reaches_the_next_workflow(work):
    work.shop.keeper().complete("done", force=True, reason="enough", workflow=work.id)
    where = work.record
    if work.format == "skill":
        where = where.replace("/active/", "/completed/")
    work.shop.edit(where, lambda document: edit_document(work.format, document))
    edit = work.shop.read(where)
    other = worked_on(work.shop.keeper(), work.format, "other work")
    assert edited_value(other) != "by hand"
    assert work.shop.keeper().settle(workflow=other["id"]).state == other
    kept = [edit in data for data in work.shop.files().values() if isinstance(data, bytes)]
    adopted = any(event["type"] == "record_edited" for event in work.shop.keeper().log())
    assert any(kept) or adopted


# the values make no sense; not JSON


@each_format
def test_values_that_make_no_sense_are_refused_with_their_line(work):
    def nonsense(document):
        if work.format == "verb":
            document["phases"][1]["status"] = "somehow"
        elif work.format == "formal":
            document["phase"]["status"] = "somehow"
        elif work.format == "skill":
            document["state_machine"]["phases"][1]["status"] = "somehow"
        else:
            document["tasks"]["T2"]["status"] = "somehow"

    work.shop.edit(work.record, nonsense)
    refused = work.raw()
    line = refused[: refused.index(b"somehow")].count(b"\n") + 1
    state, notes = work.looked()
    assert state == work.state
    assert any(f"line {line}:" in note and "status" in note for note in notes), notes
    assert list(work.shop.beside(work.record).values()) == [refused]
    assert work.news() == []


@each_format
def test_what_is_not_json_is_read_again_after_a_moment_then_moved_aside(work):
    broken = work.raw()[:-40] + b"edited"
    work.shop.write(work.record, broken)
    before = work.raw()
    state, notes = work.looked()
    assert work.shop.slept
    assert state == work.state
    kept = work.shop.beside(work.record)
    assert list(kept.values()) == [before]
    assert all(".rejected-" in name for name in kept)
    line = broken.count(b"\n") + 1
    assert any(f"line {line}:" in note for note in notes), notes
    assert work.news() == []
    assert lines_of(work.shop.keeper()) == []


@each_format
@pytest.mark.parametrize("written", [-40, 0], ids=["torn", "empty"])
def test_a_file_that_is_just_being_written_is_waited_for(work, written):
    """The editor empties the file and has not written all of it when it is read."""
    document = work.shop.document(work.record)
    edit_document(work.format, document)
    whole = json.dumps(document).encode()
    work.shop.write(work.record, whole[:written])
    keeper = work.shop.keeper(sleep=lambda _seconds: work.shop.write(work.record, whole))
    assert edited_value(keeper.settle(workflow=work.id).state) == "by hand"
    assert work.news() == ["record_edited"]
    assert work.shop.beside(work.record) == {}
