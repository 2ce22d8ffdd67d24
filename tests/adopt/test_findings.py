"""The table at the head of ``adopt/findings.py``, row by row, for every format and every log.

A row says what stands in a record's place. A look must see it and change no byte; the next change
must act on it exactly once, and leave nothing that another look could find.
"""

import json
import os
from contextlib import contextmanager

import pytest

from holdfast import Initiatives
from holdfast.adopt import findings
from holdfast.core.record_formats import FORMATS
from holdfast.formats import LOGS, log_of, stream_of
from support.workshop import YEAR_MS, OneWorkflow, Workshop, edit_document, types, worked_on

CHANGES = {
    "interview": lambda keeper, word: keeper.interviews().record(word, 0.5),
    "delegation": lambda keeper, word: keeper.delegations().record(word, outcome="ok"),
    "learning": lambda keeper, word: keeper.remember(word),
    "forge": lambda keeper, word: keeper.note_forge(word, "make"),
    "initiatives": lambda keeper, word: Initiatives(keeper).create(word, ["M1"]),
}


class WorkflowGround:
    """A workflow of one format, and its record."""

    def __init__(self, folder, kind):
        self.place = OneWorkflow(folder, kind)
        self.kind, self.shop = kind, self.place.shop
        self.stream, self.record = self.place.id, self.place.record

    def change(self, word):
        self.shop.keeper().remind(word, workflow=self.stream)

    def edit(self):
        self.shop.edit(self.record, lambda document: edit_document(self.kind, document))


class LogGround:
    """A log with one entry, and its record."""

    def __init__(self, folder, kind):
        self.shop, self.kind = Workshop(folder), kind
        self.stream, self.record = stream_of(kind), log_of(kind).path
        self.change("first")

    def change(self, word):
        CHANGES[self.kind](self.shop.keeper(), word)

    def edit(self):
        self.shop.edit(self.record, lambda document: document.update(a_note="by hand"))


def ground_of(folder, kind):
    return (WorkflowGround if kind in FORMATS else LogGround)(folder, kind)


# What stands there


def laid_out_by_another_tool(ground, _elsewhere):
    document = ground.shop.document(ground.record)
    ground.shop.write(ground.record, json.dumps(document, indent=7).encode())


def an_earlier_copy(ground, _elsewhere):
    copy = ground.shop.read(ground.record)
    ground.change("later")
    ground.shop.write(ground.record, copy)


def the_record_of_another_ledger(ground, elsewhere):
    there = ground_of(elsewhere, ground.kind)
    there.change("told elsewhere")
    ground.shop.write(ground.record, there.shop.read(there.record))


def the_record_of_a_new_workflow(ground, elsewhere):
    there = Workshop(elsewhere)
    other = worked_on(there.keeper(), ground.kind, "other work")
    ground.shop.write(ground.record, there.read(other["record"]))


def an_edit(ground, _elsewhere):
    ground.edit()


def half_an_object(ground, _elsewhere):
    ground.shop.write(ground.record, b'{"half":')


def nothing(ground, _elsewhere):
    os.unlink(ground.shop.path(ground.record))


def nothing_in_the_last_phase(ground, _elsewhere):
    last = ground.place.state["phases"][-1]["name"]
    while ground.shop.keeper().show(workflow=ground.stream).state["phase"] != last:
        ground.shop.keeper().advance(workflow=ground.stream)
    os.unlink(ground.shop.path(ground.record))


def nothing_in_the_last_phase_that_lacks_nothing(ground, elsewhere):
    keeper = ground.shop.keeper()
    for task in ground.place.state["tasks"]:
        keeper.complete_task(task["id"], workflow=ground.stream)
    keeper.approve_phase(ground.place.state["phases"][-1]["name"], workflow=ground.stream)
    nothing_in_the_last_phase(ground, elsewhere)


def the_record_in_completed(ground, _elsewhere):
    target = ground.shop.path(ground.record.replace("/active/", "/completed/"))
    os.rename(ground.shop.path(ground.record), target)


def a_completed_copy_of_an_earlier_run(ground, _elsewhere):
    ground.shop.keeper().complete(force=True, reason="enough", workflow=ground.stream)
    completed = ground.record.replace("/active/", "/completed/")
    copy = ground.shop.read(completed)
    ground.shop.keeper().resume(workflow=ground.stream)
    ground.shop.write(completed, copy)


def a_record_whose_time_is_over(ground, _elsewhere):
    ground.shop.clock.ms += YEAR_MS


WORKFLOWS = tuple(FORMATS)
ALL = (*WORKFLOWS, *LOGS)
WITH_A_TIME = ("verb", "skill")
TABLE = [
    (None, laid_out_by_another_tool, ALL, []),
    (findings.STALE, an_earlier_copy, ALL, []),
    (findings.FOREIGN, the_record_of_another_ledger, ALL, ["record_adopted"]),
    (
        findings.REPLACED,
        the_record_of_a_new_workflow,
        ("verb",),
        ["record_adopted", "workflow_abandoned"],
    ),
    (findings.EDITED, an_edit, ALL, ["record_edited"]),
    (findings.REFUSED, half_an_object, ALL, []),
    (findings.GONE, nothing, ALL, []),
    (findings.COMPLETED, nothing_in_the_last_phase, ("formal",), ["workflow_completed"]),
    (
        findings.COMPLETED,
        nothing_in_the_last_phase_that_lacks_nothing,
        ("formal",),
        ["phase_completed", "workflow_completed"],
    ),
    (findings.COMPLETED, the_record_in_completed, ("skill",), ["workflow_completed"]),
    (findings.COPY, a_completed_copy_of_an_earlier_run, ("skill",), []),
    (findings.EXPIRED, a_record_whose_time_is_over, WITH_A_TIME, ["workflow_expired"]),
]
CASES = [
    pytest.param(kind, stand, name, events, id=f"{name}-{stand.__name__}")
    for kind, stand, names, events in TABLE
    for name in names
]


def found(ground):
    """What a look sees in the record's place."""
    seen = ground.shop.keeper().store.peek(ground.stream).finding
    return None if seen is None else seen.kind


def settle(ground):
    """Make a change that is about nothing but this stream."""
    with ground.shop.keeper().session.transaction() as tx:
        tx.load(ground.stream)


@pytest.mark.parametrize(("kind", "stand", "name", "events"), CASES)
def test_a_look_sees_it_and_the_next_change_acts_on_it_once(tmp_path, kind, stand, name, events):
    ground = ground_of(tmp_path / "here", name)
    stand(ground, tmp_path / "elsewhere")
    before, files = types(ground.shop.keeper()), ground.shop.files()
    assert found(ground) == kind
    assert types(ground.shop.keeper()) == before
    assert ground.shop.files() == files
    settle(ground)
    assert types(ground.shop.keeper())[len(before) :] == events
    assert found(ground) is None
    settle(ground)
    assert types(ground.shop.keeper())[len(before) :] == events
    assert ground.shop.keeper().verify().ok


@pytest.mark.parametrize("name", ALL)
def test_what_cannot_be_taken_in_is_kept_as_it_was_saved(tmp_path, name):
    ground = ground_of(tmp_path, name)
    good = ground.shop.read(ground.record)
    half_an_object(ground, None)
    settle(ground)
    assert list(ground.shop.beside(ground.record).values()) == [b'{"half":']
    assert ground.shop.read(ground.record) == good


@contextmanager
def being_written(path, data):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        yield


@pytest.mark.parametrize("name", ALL)
def test_a_record_that_is_being_written_is_left_alone_until_that_is_done(tmp_path, name):
    ground = ground_of(tmp_path, name)
    before = types(ground.shop.keeper())
    ground.edit()
    whole = ground.shop.read(ground.record)
    with being_written(ground.shop.path(ground.record), whole[: len(whole) // 2]):
        assert found(ground) == findings.BUSY
        settle(ground)
        assert ground.shop.read(ground.record) == whole[: len(whole) // 2]
        assert types(ground.shop.keeper()) == before
    ground.shop.write(ground.record, whole)
    settle(ground)
    assert types(ground.shop.keeper())[len(before) :] == ["record_edited"]


def test_every_finding_has_its_row():
    kinds = {
        value
        for name, value in vars(findings).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    assert {kind for kind, *_ in TABLE if kind} | {findings.BUSY} == kinds
