"""What is found in place of a record, row by row of the table in ``docs/format.md``; in all formats
in which the row makes sense.
"""

import json
import os
import shutil

import pytest

from holdfast import Refused
from support.paths import SAMPLES
from support.workshop import (
    FORMATS,
    HOME,
    RECIPES,
    Place,
    Workshop,
    lines_of,
    types,
    without_time,
    worked_on,
)

each_format = pytest.mark.parametrize("record_format", FORMATS)


@pytest.fixture
def place(tmp_path, record_format):
    return Place(tmp_path, record_format)


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
    assert shop.keeper().settle(workflow=state["id"]).state == state
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
    shutil.copytree(place.shop.path(HOME), place.shop.path("backup"))
    ahead = place.shop.keeper().remind("only the record knows", workflow=place.id).state
    shutil.rmtree(place.shop.path(HOME))
    shutil.move(place.shop.path("backup"), place.shop.path(HOME))
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
    assert any("is not in the ledger yet" in note for note in notes)
    assert types(fresh.keeper()) == []
    state = fresh.keeper().settle(workflow=place.id).state
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
    assert place.shop.keeper().show().state["id"] == other["id"]
    assert place.news() == []
    assert place.shop.keeper().remind("for the new one").state["id"] == other["id"]
    assert place.news() == ["record_adopted", "workflow_abandoned", "reminder_added"]
    assert place.shop.keeper().settle(workflow=place.id).state["status"] == "abandoned"


@pytest.mark.parametrize("record_format", ["verb"])
def test_an_old_record_of_an_ended_workflow_does_not_push_the_active_one_out(place):
    stale = place.raw()
    place.shop.keeper().complete("done", force=True, reason="enough", workflow=place.id)
    other = worked_on(place.shop.keeper(), "verb", "other work")
    place.shop.write(place.record, stale)
    rows, notes = place.shop.keeper().workflows()
    assert [row["id"] for row in rows] == [other["id"]]
    assert any(place.id in note for note in notes)
    assert place.shop.keeper().settle(workflow=other["id"]).state == other


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
    assert types(shop.keeper()) == []
    state = shop.keeper().show().state
    adopted = shop.keeper().settle(workflow=state["id"]).state
    assert without_time(adopted) == without_time(state)
    assert types(shop.keeper()) == ["record_adopted"]
    after = shop.document(record)
    assert "_holdfast" in after
    assert {key for key in before if key not in after} == set()
    if state["status"] in ("in_progress", "blocked"):
        assert [row["record"] for row in rows] == [record]
    assert [row["id"] for row in shop.keeper().workflows()[0]] == [row["id"] for row in rows]
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


@pytest.mark.parametrize("record_format", ["formal", "skill", "loop"])
def test_a_record_that_is_gone_with_its_folder_is_rebuilt(place):
    before = place.raw()
    shutil.rmtree(os.path.dirname(place.shop.path(place.record)))
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
@pytest.mark.parametrize(
    ("status", "stays"),
    [("in_progress", False), ("completed", False), ("completed", True)],
    ids=["moved", "changed and moved", "changed and copied"],
)
def test_a_skill_record_in_completed_is_a_completion(place, status, stays):
    """Scripts move the record, or write a changed copy of it there and leave the first behind."""
    document = place.shop.document(place.record)
    document["workflow"]["status"] = status
    raw = place.raw() if status == "in_progress" else json.dumps(document).encode()
    place.shop.write(completed_twin(place), raw)
    if not stays:
        os.unlink(place.shop.path(place.record))
    state, notes = place.looked()
    assert state["status"] == "completed"
    assert place.news()[-1] == "workflow_completed"
    assert any("completed" in note for note in notes)
    assert not os.path.exists(place.shop.path(place.record))
    assert place.shop.document(completed_twin(place))["workflow"]["status"] == "completed"
    assert place.shop.beside(completed_twin(place)) == {}
    assert lines_of(place.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["skill"])
def test_a_plain_copy_in_completed_says_nothing(place):
    place.shop.write(completed_twin(place), place.raw())
    assert place.looked()[0] == place.state
    assert place.news() == []


@pytest.mark.parametrize("record_format", ["skill"])
@pytest.mark.parametrize(
    "found", [b'{"workflow": "x"}', b"[]", b"", b"{", b'{"workflow": {"id": 7}}']
)
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
    assert place.shop.keeper().settle(workflow=place.id).state == again
    os.unlink(place.shop.path(place.record))
    assert place.shop.keeper().settle(workflow=place.id).state == again


def test_the_only_place_for_a_verb_record_is_told_when_it_is_taken(tmp_path):
    place = Place(tmp_path, "verb")
    with pytest.raises(Refused) as caught:
        place.shop.keeper().start("oneshot", "another")
    assert caught.value.code == "occupied"
    assert place.id in caught.value.message
