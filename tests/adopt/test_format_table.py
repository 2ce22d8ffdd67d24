"""What is found in place of a record, row by row of the table in ``docs/format.md``; in all formats
in which the row makes sense.
"""

import json
import os
import shutil

import pytest

from holdfast import Refused
from holdfast.core.workflow.edits import as_adopted
from support.paths import SAMPLES
from support.workshop import (
    FORMATS,
    HOME,
    RECIPES,
    OneWorkflow,
    Workshop,
    lines_of,
    types,
    without_time,
    worked_on,
)

each_format = pytest.mark.parametrize("record_format", FORMATS)


# digest valid, shows the last event


@each_format
def test_the_current_record_is_the_state(work):
    before = work.shop.files()
    assert work.looked() == (work.state, [])
    assert work.shop.files() == before


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
def test_other_formatting_is_not_an_edit(work, written):
    work.shop.write(work.record, written(work.raw()))
    assert work.looked()[0] == work.state
    assert work.news() == []
    assert work.shop.beside(work.record) == {}
    work.shop.keeper().remind("afterwards", workflow=work.id)
    assert work.news() == ["reminder_added"]
    assert lines_of(work.shop.keeper()) == []


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
def test_a_stale_copy_is_brought_forward_and_said(work):
    stale = work.raw()
    work.shop.keeper().remind("later", workflow=work.id)
    current = work.raw()
    work.shop.write(work.record, stale)
    state, notes = work.looked()
    assert state["reminders"][-1] == "later"
    assert any("older copy" in note and work.record in note for note in notes)
    assert work.raw() == current
    assert work.news() == ["reminder_added"]
    assert work.shop.beside(work.record) == {}


@each_format
def test_a_stale_copy_is_behind_and_not_an_error(work):
    stale = work.raw()
    work.shop.keeper().remind("later", workflow=work.id)
    work.shop.write(work.record, stale)
    report = work.shop.keeper().verify()
    assert report.ok
    assert report.counts["behind"] == 1


@each_format
def test_a_command_on_a_stale_copy_works_on_the_last_state(work):
    stale = work.raw()
    work.shop.keeper().remind("one", workflow=work.id)
    work.shop.write(work.record, stale)
    state = work.shop.keeper().remind("two", workflow=work.id).state
    assert state["reminders"][-2:] == ["one", "two"]
    assert work.news() == ["reminder_added", "reminder_added"]


@each_format
def test_a_stale_copy_of_an_ended_workflow_does_not_bring_it_back(work):
    stale = work.raw()
    work.shop.keeper().abandon("enough", workflow=work.id)
    work.shop.write(work.record, stale)
    rows, _ = work.shop.keeper().workflows()
    assert rows == []
    assert work.looked()[0]["status"] == "abandoned"
    assert work.news() == ["workflow_abandoned"]


# digest valid, of an unknown ledger or ahead of this one


@each_format
def test_a_record_of_another_ledger_is_adopted(tmp_path, record_format):
    here, there = (
        OneWorkflow(tmp_path / "here", record_format),
        OneWorkflow(tmp_path / "there", record_format),
    )
    elsewhere = there.shop.keeper().remind("told elsewhere", workflow=there.id).state
    here.shop.write(here.record, there.raw())
    state, notes = here.looked()
    assert without_time(state) == without_time(as_adopted(elsewhere))
    assert here.news() == ["record_adopted"]
    assert any("adopted" in note for note in notes)
    assert lines_of(here.shop.keeper()) == []


@each_format
def test_a_record_ahead_of_the_ledger_is_adopted(work):
    shutil.copytree(work.shop.path(HOME), work.shop.path("backup"))
    ahead = work.shop.keeper().remind("only the record knows", workflow=work.id).state
    shutil.rmtree(work.shop.path(HOME))
    shutil.move(work.shop.path("backup"), work.shop.path(HOME))
    state, _ = work.looked()
    assert without_time(state) == without_time(as_adopted(ahead))
    assert work.news() == ["record_adopted"]
    assert lines_of(work.shop.keeper()) == []


@each_format
def test_a_record_in_a_fresh_clone_is_adopted(work, tmp_path):
    fresh = Workshop(tmp_path / "fresh")
    fresh.write(work.record, work.raw())
    rows, notes = fresh.keeper().workflows()
    assert [row["id"] for row in rows] == [work.id]
    assert any("is not in the ledger yet" in note for note in notes)
    assert types(fresh.keeper()) == []
    state = fresh.keeper().settle(workflow=work.id).state
    assert without_time(state) == without_time(as_adopted(work.state))
    assert types(fresh.keeper()) == ["record_adopted"]


@pytest.mark.parametrize("record_format", ["formal", "skill", "loop"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "foreign"])
def test_the_record_of_another_workflow_does_not_push_this_one_out(work, known, tmp_path):
    shop = work.shop if known else Workshop(tmp_path / "there")
    other = worked_on(shop.keeper(), work.format, "other work")
    work.shop.write(work.record, shop.read(other["record"]))
    state, notes = work.looked()
    assert state == work.state
    assert any(other["id"] in note for note in notes)
    assert list(work.shop.beside(work.record).values()) == (
        [] if known else [shop.read(other["record"])]
    )
    ids = {row["id"] for row in work.shop.keeper().workflows()[0]}
    assert ids == ({work.id, other["id"]} if known else {work.id})


@pytest.mark.parametrize("record_format", ["verb"])
def test_the_record_of_a_new_workflow_in_the_only_place_takes_it_over(work, tmp_path):
    there = Workshop(tmp_path / "there")
    other = worked_on(there.keeper(), "verb", "other work")
    work.shop.write(work.record, there.read(other["record"]))
    rows, notes = work.shop.keeper().workflows()
    assert [row["id"] for row in rows] == [other["id"]]
    assert any(work.id in note and "abandoned" in note for note in notes)
    assert work.shop.keeper().show().state["id"] == other["id"]
    assert work.news() == []
    assert work.shop.keeper().remind("for the new one").state["id"] == other["id"]
    assert work.news() == ["record_adopted", "workflow_abandoned", "reminder_added"]
    assert work.shop.keeper().settle(workflow=work.id).state["status"] == "abandoned"


@pytest.mark.parametrize("record_format", ["verb"])
def test_an_old_record_of_an_ended_workflow_does_not_push_the_active_one_out(work):
    stale = work.raw()
    work.shop.keeper().complete("done", force=True, reason="enough", workflow=work.id)
    other = worked_on(work.shop.keeper(), "verb", "other work")
    work.shop.write(work.record, stale)
    rows, notes = work.shop.keeper().workflows()
    assert [row["id"] for row in rows] == [other["id"]]
    assert any(work.id in note for note in notes)
    assert work.shop.keeper().settle(workflow=other["id"]).state == other


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
    record = OneWorkflow(tmp_path / "other", record_format).record
    shop.write(record, b'{\n  "nothing":\n}')
    rows, notes = shop.keeper().workflows()
    assert rows == []
    assert any(record in note and "line 3" in note for note in notes)
    assert shop.read(record) == b'{\n  "nothing":\n}'


# gone


@each_format
def test_a_record_that_is_gone_is_rebuilt_with_a_way_out_named(work):
    before = work.raw()
    os.unlink(work.shop.path(work.record))
    state, notes = work.looked()
    assert state == work.state
    assert any(f"holdfast abandon -w {work.id}" in note for note in notes)
    assert work.raw() == before
    assert work.news() == []


@each_format
def test_an_emptied_record_is_rebuilt(work):
    before = work.raw()
    for nothing in (b"", b"\n", b"\0" * 4_096, b"{}"):
        work.shop.write(work.record, nothing)
        assert work.looked()[0] == work.state
        assert work.raw() == before
    assert work.news() == []


@pytest.mark.parametrize("record_format", ["formal", "skill", "loop"])
def test_a_record_that_is_gone_with_its_folder_is_rebuilt(work):
    before = work.raw()
    shutil.rmtree(os.path.dirname(work.shop.path(work.record)))
    work.looked()
    assert work.raw() == before


@each_format
def test_a_folder_in_the_records_place_is_moved_aside(work):
    os.unlink(work.shop.path(work.record))
    work.shop.write(f"{work.record}/inside.txt", b"somebody's")
    state, notes = work.looked()
    assert state == work.state
    folder = os.path.dirname(work.shop.path(work.record))
    aside = [name for name in os.listdir(folder) if ".rejected-" in name]
    assert len(aside) == 1
    assert work.shop.read(os.path.join(folder, aside[0], "inside.txt")) == b"somebody's"
    assert any(aside[0] in note for note in notes)
    assert lines_of(work.shop.keeper()) == []


def in_last_phase(work):
    keeper = work.shop.keeper()
    state = work.state
    while state["phase"] != state["phases"][-1]["name"]:
        state = keeper.advance(workflow=work.id, force=True, reason="to its end").state
    work.events = len(keeper.log())
    return state


@pytest.mark.parametrize("record_format", ["formal"])
@pytest.mark.parametrize("removed", ["file", "folder"])
def test_a_formal_record_removed_in_its_last_phase_is_a_completion(work, removed):
    in_last_phase(work)
    if removed == "file":
        os.unlink(work.shop.path(work.record))
    else:
        shutil.rmtree(os.path.dirname(work.shop.path(work.record)))
    state, notes = work.looked()
    assert state["status"] == "completed"
    assert work.news() == ["workflow_completed"]
    assert state["skipped"]["phases"] == ["Sign-off"]
    assert state["phases"][-1]["status"] == "in_progress"
    assert any("completed" in note for note in notes)
    assert not os.path.exists(work.shop.path(work.record))
    assert work.shop.keeper().resume(workflow=work.id).state["status"] == "in_progress"


@pytest.mark.parametrize("record_format", ["formal"])
def test_a_formal_record_emptied_in_its_last_phase_is_no_completion(work):
    in_last_phase(work)
    work.shop.write(work.record, b"")
    assert work.looked()[0]["status"] == "in_progress"
    assert work.news() == []


@pytest.mark.parametrize("record_format", ["verb", "skill", "loop"])
def test_another_record_removed_in_its_last_phase_is_rebuilt(work):
    in_last_phase(work)
    os.unlink(work.shop.path(work.record))
    assert work.looked()[0]["status"] == "in_progress"
    assert work.news() == []


def completed_twin(work):
    return work.record.replace("/active/", "/completed/")


@pytest.mark.parametrize("record_format", ["skill"])
@pytest.mark.parametrize(
    ("status", "stays"),
    [("in_progress", False), ("completed", False), ("completed", True)],
    ids=["moved", "changed and moved", "changed and copied"],
)
def test_a_skill_record_in_completed_is_a_completion(work, status, stays):
    """Scripts move the record, or write a changed copy of it there and leave the first behind."""
    document = work.shop.document(work.record)
    document["workflow"]["status"] = status
    raw = work.raw() if status == "in_progress" else json.dumps(document).encode()
    work.shop.write(completed_twin(work), raw)
    if not stays:
        os.unlink(work.shop.path(work.record))
    state, notes = work.looked()
    assert state["status"] == "completed"
    assert work.news() == ["workflow_completed"]
    assert state["skipped"]["tasks"] == [1, 2, 3]
    assert any("completed" in note for note in notes)
    assert not os.path.exists(work.shop.path(work.record))
    assert work.shop.document(completed_twin(work))["workflow"]["status"] == "completed"
    assert work.shop.beside(completed_twin(work)) == {}
    assert lines_of(work.shop.keeper()) == []


@pytest.mark.parametrize("record_format", ["skill"])
def test_a_plain_copy_in_completed_says_nothing(work):
    work.shop.write(completed_twin(work), work.raw())
    assert work.looked()[0] == work.state
    assert work.news() == []


@pytest.mark.parametrize("record_format", ["skill"])
@pytest.mark.parametrize(
    "found", [b'{"workflow": "x"}', b"[]", b"", b"{", b'{"workflow": {"id": 7}}']
)
def test_nonsense_in_completed_is_no_completion(work, found):
    work.shop.write(completed_twin(work), found)
    os.unlink(work.shop.path(work.record))
    assert work.looked()[0] == work.state
    assert work.news() == []


@pytest.mark.parametrize("record_format", ["skill"])
def test_an_old_completed_copy_of_an_earlier_run_is_no_completion(work):
    work.shop.keeper().complete("done", force=True, reason="enough", workflow=work.id)
    old = work.shop.read(completed_twin(work))
    again = worked_on(work.shop.keeper(), "skill")
    assert again["id"] == work.id
    work.shop.write(completed_twin(work), old)
    assert work.shop.keeper().settle(workflow=work.id).state == again
    os.unlink(work.shop.path(work.record))
    assert work.shop.keeper().settle(workflow=work.id).state == again


def test_the_only_place_for_a_verb_record_is_told_when_it_is_taken(tmp_path):
    work = OneWorkflow(tmp_path, "verb")
    with pytest.raises(Refused) as caught:
        work.shop.keeper().start("oneshot", "another")
    assert caught.value.code == "occupied"
    assert work.id in caught.value.message
