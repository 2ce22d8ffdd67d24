"""What is found in place of a record, row by row of the table in ``docs/format.md``; in all formats
in which the row makes sense."""

import json
import os
import shutil

import pytest
from workshop import FORMATS, HOME, LEDGER, RECIPES, Workshop, lines_of, types, without_time, worked_on

from holdfast import Refused

SAMPLES = os.path.join(os.path.dirname(__file__), "samples")
each_format = pytest.mark.parametrize("record_format", FORMATS)


class Place:
    """A workshop with one workflow in it, and its record."""

    def __init__(self, folder, record_format):
        self.shop = Workshop(folder)
        self.format = record_format
        self.state = worked_on(self.shop.keeper(), record_format)
        self.id, self.record = self.state["id"], self.state["record"]
        self.events = len(self.shop.keeper().log())

    def looked(self):
        """The state and the notes that a fresh look gives."""
        receipt = self.shop.keeper().show(workflow=self.id)
        return receipt.state, receipt.notes

    def raw(self):
        return self.shop.read(self.record)

    def news(self):
        """The types of the events since the beginning of the test."""
        return types(self.shop.keeper())[self.events :]

    def last(self):
        return self.shop.keeper().log()[-1]


@pytest.fixture
def place(tmp_path, record_format):
    return Place(tmp_path, record_format)


def edited(record_format, document, value="by hand"):
    """One change in the format's own words."""
    if record_format == "verb":
        document["context"] = value
    elif record_format == "loop":
        document["task"] = value
    else:
        document["context"]["attempt"] = value


def told(state):
    """Where the change of ``edited`` arrives."""
    if state["recipe"]["format"] in ("verb", "loop"):
        return state["title"]
    return state["context"]["attempt"]


# digest valid, shows the last event


@each_format
def test_the_current_record_is_the_state(place):
    before = place.shop.files()
    assert place.looked() == (place.state, [])
    assert place.shop.files() == before


@each_format
@pytest.mark.parametrize(
    "written",
    [
        lambda raw: json.dumps(json.loads(raw), indent=8).encode(),
        lambda raw: json.dumps(json.loads(raw), separators=(",", ":")).encode(),
        lambda raw: json.dumps(json.loads(raw), sort_keys=True).encode(),
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: b"\n\n  " + raw + b"\n\n",
        lambda raw: raw.replace(b'"attempt": 2', b'"attempt": 2.0'),
    ],
    ids=["indented", "compact", "sorted", "crlf", "bom", "spaces", "number"],
)
def test_other_formatting_is_not_an_edit(place, written):
    place.shop.write(place.record, written(place.raw()))
    assert place.looked()[0] == place.state
    assert place.news() == []
    assert place.shop.beside(place.record) == {}
    place.shop.keeper().remind("afterwards", workflow=place.id)
    assert place.news() == ["reminder_added"]
    assert lines_of(place.shop.keeper()) == []


@each_format
def test_many_units_written_in_another_order_are_no_edit(tmp_path, record_format):
    shop = Workshop(tmp_path)
    tasks = [f"task {number}" for number in range(12)]
    state = shop.keeper().start(RECIPES[record_format], "many", tasks=tasks).state
    raw = json.dumps(json.loads(shop.read(state["record"])), sort_keys=True).encode()
    shop.write(state["record"], raw)
    before = types(shop.keeper())
    assert shop.keeper().show(workflow=state["id"]).state == state
    assert types(shop.keeper()) == before


# digest valid, shows an earlier event


@each_format
def test_a_stale_copy_is_brought_forward_and_said(place):
    stale = place.raw()
    place.shop.keeper().remind("later", workflow=place.id)
    current = place.raw()
    place.shop.write(place.record, stale)
    state, notes = place.looked()
    assert state["reminders"][-1] == "later"
    assert any("older copy" in note and place.record in note for note in notes)
    assert place.raw() == current
    assert place.news() == ["reminder_added"]
    assert place.shop.beside(place.record) == {}


@each_format
def test_a_stale_copy_is_behind_and_not_an_error(place):
    stale = place.raw()
    place.shop.keeper().remind("later", workflow=place.id)
    place.shop.write(place.record, stale)
    report = place.shop.keeper().verify()
    assert report.ok
    assert report.counts["behind"] == 1


@each_format
def test_a_command_on_a_stale_copy_works_on_the_last_state(place):
    stale = place.raw()
    place.shop.keeper().remind("one", workflow=place.id)
    place.shop.write(place.record, stale)
    state = place.shop.keeper().remind("two", workflow=place.id).state
    assert state["reminders"][-2:] == ["one", "two"]
    assert place.news() == ["reminder_added", "reminder_added"]


@each_format
def test_a_stale_copy_of_an_ended_workflow_does_not_bring_it_back(place):
    stale = place.raw()
    place.shop.keeper().abandon("enough", workflow=place.id)
    place.shop.write(place.record, stale)
    rows, _ = place.shop.keeper().workflows()
    assert rows == []
    assert place.looked()[0]["status"] == "abandoned"
    assert place.news() == ["workflow_abandoned"]


# digest valid, of an unknown ledger or ahead of this one


@each_format
def test_a_record_of_another_ledger_is_adopted(tmp_path, record_format):
    here, there = Place(tmp_path / "here", record_format), Place(tmp_path / "there", record_format)
    elsewhere = there.shop.keeper().remind("told elsewhere", workflow=there.id).state
    here.shop.write(here.record, there.raw())
    state, notes = here.looked()
    assert without_time(state) == without_time(elsewhere)
    assert here.news() == ["record_adopted"]
    assert any("adopted" in note for note in notes)
    assert lines_of(here.shop.keeper()) == []


@each_format
def test_a_record_ahead_of_the_ledger_is_adopted(place):
    behind = place.shop.read(LEDGER)
    ahead = place.shop.keeper().remind("only the record knows", workflow=place.id).state
    place.shop.write(LEDGER, behind)
    state, _ = place.looked()
    assert without_time(state) == without_time(ahead)
    assert place.news() == ["record_adopted"]
    assert lines_of(place.shop.keeper()) == []


@each_format
def test_a_record_in_a_fresh_clone_is_adopted(place, tmp_path):
    fresh = Workshop(tmp_path / "fresh")
    fresh.write(place.record, place.raw())
    rows, notes = fresh.keeper().workflows()
    assert [row["id"] for row in rows] == [place.id]
    assert any("adopted" in note for note in notes)
    state = fresh.keeper().show(workflow=place.id).state
    assert without_time(state) == without_time(place.state)
    assert types(fresh.keeper()) == ["record_adopted"]


@pytest.mark.parametrize("record_format", ["formal", "skill", "loop"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "foreign"])
def test_the_record_of_another_workflow_does_not_push_this_one_out(place, known, tmp_path):
    shop = place.shop if known else Workshop(tmp_path / "there")
    other = worked_on(shop.keeper(), place.format, "other work")
    place.shop.write(place.record, shop.read(other["record"]))
    state, notes = place.looked()
    assert state == place.state
    assert any(other["id"] in note for note in notes)
    assert list(place.shop.beside(place.record).values()) == (
        [] if known else [shop.read(other["record"])]
    )
    ids = {row["id"] for row in place.shop.keeper().workflows()[0]}
    assert ids == ({place.id, other["id"]} if known else {place.id})


@pytest.mark.parametrize("record_format", ["verb"])
def test_the_record_of_a_new_workflow_in_the_only_place_takes_it_over(place, tmp_path):
    there = Workshop(tmp_path / "there")
    other = worked_on(there.keeper(), "verb", "other work")
    place.shop.write(place.record, there.read(other["record"]))
    rows, notes = place.shop.keeper().workflows()
    assert [row["id"] for row in rows] == [other["id"]]
    assert any(place.id in note and "abandoned" in note for note in notes)
    assert place.shop.keeper().show(workflow=place.id).state["status"] == "abandoned"


@pytest.mark.parametrize("record_format", ["verb"])
def test_an_old_record_of_an_ended_workflow_does_not_push_the_active_one_out(place):
    stale = place.raw()
    place.shop.keeper().complete("done", force=True, reason="enough", workflow=place.id)
    other = worked_on(place.shop.keeper(), "verb", "other work")
    place.shop.write(place.record, stale)
    rows, notes = place.shop.keeper().workflows()
    assert [row["id"] for row in rows] == [other["id"]]
    assert any(place.id in note for note in notes)
    assert place.shop.keeper().show(workflow=other["id"]).state == other


# digest missing, no such workflow


def sample_names():
    return sorted(name for name in os.listdir(SAMPLES) if name.partition("-")[0] in FORMATS)


@pytest.mark.parametrize("name", sample_names())
def test_another_tools_record_is_adopted(name, tmp_path):
    places = {
        "verb": ".claude/workflow-state.json",
        "formal": "untracked/workflow-state/a-process/state-a-process-20260217_060504.json",
        "skill": ".claude/workflow-state/active/dev-1a2b3c4d.json",
        "loop": ".claude/iterative/a-slug/state.json",
    }
    shop = Workshop(tmp_path)
    record = places[name.partition("-")[0]]
    with open(os.path.join(SAMPLES, name), "rb") as file:
        shop.write(record, file.read())
    before = shop.document(record)
    rows, _ = shop.keeper().workflows()
    assert types(shop.keeper()) == ["record_adopted"]
    after = shop.document(record)
    assert "_holdfast" in after
    assert {key for key in before if key not in after} == set()
    state = shop.keeper().log()[0]["data"]["state"]
    if state["status"] in ("in_progress", "blocked"):
        assert [row["record"] for row in rows] == [record]
    assert shop.keeper().workflows()[0] == rows
    assert types(shop.keeper()) == ["record_adopted"]
    assert lines_of(shop.keeper()) == []


@each_format
def test_what_is_no_record_is_left_where_it_is_and_named(tmp_path, record_format):
    shop = Workshop(tmp_path)
    record = Place(tmp_path / "other", record_format).record
    shop.write(record, b'{\n  "nothing":\n}')
    rows, notes = shop.keeper().workflows()
    assert rows == []
    assert any(record in note and "line 3" in note for note in notes)
    assert shop.read(record) == b'{\n  "nothing":\n}'


# digest not valid: an edit


@each_format
def test_an_edit_is_adopted_as_an_event_with_what_changed(place):
    before = told(place.state)
    seq = place.shop.keeper().log()[-1]["seq"]
    place.shop.edit(place.record, lambda document: edited(place.format, document))
    state, notes = place.looked()
    assert told(state) == "by hand"
    event = place.last()
    assert event["type"] == "record_edited"
    assert event["data"]["base"] == seq
    changes = event["data"]["changes"]
    assert [[was, now] for _, was, now in changes if now == "by hand"][0] == [before, "by hand"]
    assert any("adopted an edit" in note for note in notes)
    assert place.shop.beside(place.record) == {}
    assert lines_of(place.shop.keeper()) == []


@each_format
def test_an_edit_of_an_earlier_event_is_merged_with_what_happened_since(place):
    stale = place.raw()
    place.shop.keeper().remind("meanwhile", workflow=place.id)
    place.shop.write(place.record, stale)
    place.shop.edit(place.record, lambda document: edited(place.format, document))
    state, _ = place.looked()
    assert told(state) == "by hand"
    assert state["reminders"][-1] == "meanwhile"
    assert place.news() == ["reminder_added", "record_edited"]
    assert place.last()["data"]["base"] < place.last()["seq"] - 1


@each_format
def test_the_same_change_on_both_sides_is_made_once(place):
    stale = place.raw()
    place.shop.edit(place.record, lambda document: edited(place.format, document))
    once, _ = place.looked()
    place.shop.write(place.record, stale)
    place.shop.edit(place.record, lambda document: edited(place.format, document))
    twice, _ = place.looked()
    assert twice == once
    assert place.news() == ["record_edited"]
    assert place.shop.beside(place.record) == {}


@each_format
def test_overlapping_changes_are_refused_and_both_versions_kept(place):
    stale = place.raw()
    place.shop.edit(place.record, lambda document: edited(place.format, document, "one"))
    one, _ = place.looked()
    place.shop.write(place.record, stale)
    place.shop.edit(place.record, lambda document: edited(place.format, document, "two"))
    refused = place.raw()
    state, notes = place.looked()
    assert told(state) == "one"
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


@each_format
def test_an_edit_to_completed_completes(place):
    def completed(document):
        if place.format == "skill":
            document["workflow"]["status"] = "completed"
        elif place.format == "verb":
            document["status"] = "completed"

    if place.format in ("formal", "loop"):
        pytest.skip("the format has no word for it")
    place.shop.edit(place.record, completed)
    assert place.looked()[0]["status"] == "completed"
    assert place.news()[-1] == "workflow_completed"
    assert lines_of(place.shop.keeper()) == []


@each_format
def test_an_edit_of_an_ended_record_never_reaches_the_next_workflow(place):
    if place.format == "formal":
        pytest.skip("its record is gone when it has ended")
    place.shop.keeper().complete("done", force=True, reason="enough", workflow=place.id)
    where = place.record
    if place.format == "skill":
        where = where.replace("/active/", "/completed/")
    place.shop.edit(where, lambda document: edited(place.format, document))
    edit = place.shop.read(where)
    other = worked_on(place.shop.keeper(), place.format, "other work")
    assert told(other) != "by hand"
    assert place.shop.keeper().show(workflow=other["id"]).state == other
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
@pytest.mark.parametrize("torn", [lambda raw: raw[:-40], lambda raw: b""], ids=["torn", "empty"])
def test_a_file_that_is_just_being_written_is_waited_for(place, torn):
    """The editor empties the file and has not written all of it when it is read."""
    document = place.shop.document(place.record)
    edited(place.format, document)
    whole = json.dumps(document).encode()
    place.shop.write(place.record, torn(whole))
    keeper = place.shop.keeper(sleep=lambda _seconds: place.shop.write(place.record, whole))
    assert told(keeper.show(workflow=place.id).state) == "by hand"
    assert place.news() == ["record_edited"]
    assert place.shop.beside(place.record) == {}


# gone


@each_format
def test_a_record_that_is_gone_is_rebuilt_with_a_way_out_named(place):
    before = place.raw()
    os.unlink(place.shop.path(place.record))
    state, notes = place.looked()
    assert state == place.state
    assert any(f"holdfast abandon -w {place.id}" in note for note in notes)
    assert place.raw() == before
    assert place.news() == []


@each_format
def test_an_emptied_record_is_rebuilt(place):
    before = place.raw()
    for nothing in (b"", b"\n", b"\0" * 4_096, b"{}"):
        place.shop.write(place.record, nothing)
        assert place.looked()[0] == place.state
        assert place.raw() == before
    assert place.news() == []


@each_format
def test_the_record_of_a_writer_that_died_before_its_first_write_is_written(tmp_path, record_format):
    place = Place(tmp_path, record_format)
    before = place.raw()
    shutil.rmtree(os.path.dirname(place.shop.path(place.record)), ignore_errors=record_format == "verb")
    shutil.rmtree(place.shop.path(".claude/workflow-state"), ignore_errors=True)
    if not os.path.exists(place.shop.path(HOME)):
        pytest.skip("the folder is the ledger's, too")
    place.looked()
    assert place.raw() == before


@each_format
def test_a_folder_in_the_records_place_is_moved_aside(place):
    os.unlink(place.shop.path(place.record))
    place.shop.write(f"{place.record}/inside.txt", b"somebody's")
    state, notes = place.looked()
    assert state == place.state
    folder = os.path.dirname(place.shop.path(place.record))
    aside = [name for name in os.listdir(folder) if ".rejected-" in name]
    assert len(aside) == 1
    assert place.shop.read(os.path.join(folder, aside[0], "inside.txt")) == b"somebody's"
    assert any(aside[0] in note for note in notes)
    assert lines_of(place.shop.keeper()) == []


def in_last_phase(place):
    keeper = place.shop.keeper()
    state = place.state
    while state["phase"] != state["phases"][-1]["name"]:
        state = keeper.advance(workflow=place.id).state
    place.events = len(keeper.log())
    return state


@pytest.mark.parametrize("record_format", ["formal"])
@pytest.mark.parametrize("removed", ["file", "folder"])
def test_a_formal_record_removed_in_its_last_phase_is_a_completion(place, removed):
    in_last_phase(place)
    if removed == "file":
        os.unlink(place.shop.path(place.record))
    else:
        shutil.rmtree(os.path.dirname(place.shop.path(place.record)))
    state, notes = place.looked()
    assert state["status"] == "completed"
    assert place.news()[-1] == "workflow_completed"
    assert any("completed" in note for note in notes)
    assert not os.path.exists(place.shop.path(place.record))
    assert place.shop.keeper().resume(workflow=place.id).state["status"] == "in_progress"


@pytest.mark.parametrize("record_format", ["formal"])
def test_a_formal_record_emptied_in_its_last_phase_is_no_completion(place):
    in_last_phase(place)
    place.shop.write(place.record, b"")
    assert place.looked()[0]["status"] == "in_progress"
    assert place.news() == []


@pytest.mark.parametrize("record_format", ["verb", "skill", "loop"])
def test_another_record_removed_in_its_last_phase_is_rebuilt(place):
    in_last_phase(place)
    os.unlink(place.shop.path(place.record))
    assert place.looked()[0]["status"] == "in_progress"
    assert place.news() == []


def completed_twin(place):
    return place.record.replace("/active/", "/completed/")


@pytest.mark.parametrize("record_format", ["skill"])
@pytest.mark.parametrize("status", ["in_progress", "completed"])
@pytest.mark.parametrize("stays", [False, True], ids=["moved", "copied"])
def test_a_skill_record_in_completed_is_a_completion(place, status, stays):
    """Scripts move the record, or write a changed copy of it there and leave the first behind."""
    document = place.shop.document(place.record)
    document["workflow"]["status"] = status
    raw = place.raw() if status == "in_progress" else json.dumps(document).encode()
    place.shop.write(completed_twin(place), raw)
    if not stays:
        os.unlink(place.shop.path(place.record))
    elif status == "in_progress":
        pytest.skip("a plain copy says nothing")
    state, notes = place.looked()
    assert state["status"] == "completed"
    assert place.news()[-1] == "workflow_completed"
    assert any("completed" in note for note in notes)
    assert not os.path.exists(place.shop.path(place.record))
    assert place.shop.document(completed_twin(place))["workflow"]["status"] == "completed"
    assert place.shop.beside(completed_twin(place)) == {}
    assert lines_of(place.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["skill"])
@pytest.mark.parametrize("found", [b'{"workflow": "x"}', b"[]", b"", b"{", b'{"workflow": {"id": 7}}'])
def test_nonsense_in_completed_is_no_completion(place, found):
    place.shop.write(completed_twin(place), found)
    os.unlink(place.shop.path(place.record))
    assert place.looked()[0] == place.state
    assert place.news() == []


@pytest.mark.parametrize("record_format", ["skill"])
def test_an_old_completed_copy_of_an_earlier_run_is_no_completion(place):
    place.shop.keeper().complete("done", force=True, reason="enough", workflow=place.id)
    old = place.shop.read(completed_twin(place))
    again = worked_on(place.shop.keeper(), "skill")
    assert again["id"] == place.id
    place.shop.write(completed_twin(place), old)
    assert place.shop.keeper().show(workflow=place.id).state == again
    os.unlink(place.shop.path(place.record))
    assert place.shop.keeper().show(workflow=place.id).state == again


def test_the_only_place_for_a_verb_record_is_told_when_it_is_taken(tmp_path):
    place = Place(tmp_path, "verb")
    with pytest.raises(Refused) as caught:
        place.shop.keeper().start("oneshot", "another")
    assert caught.value.code == "occupied"
    assert place.id in caught.value.message
