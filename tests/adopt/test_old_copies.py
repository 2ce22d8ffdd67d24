"""A copy of an earlier record, however it came back, never undoes what was done since."""

import contextlib
import json
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import Refused, formats
from support.workshop import FORMATS, OneWorkflow, edit_document, edited_value

each_format = pytest.mark.parametrize("record_format", FORMATS)


def as_it_was(document, _newest):
    return document


def without_signature(document, _newest):
    return {key: value for key, value in document.items() if key != "_holdfast"}


def with_newest_signature(document, newest):
    return {**document, "_holdfast": newest["_holdfast"]}


def of_unknown_event(document, _newest):
    return {**document, "_holdfast": {**document["_holdfast"], "hash": "0" * 64}}


def of_no_event(document, _newest):
    return {**document, "_holdfast": {**document["_holdfast"], "seq": 0}}


def of_a_later_event(document, _newest):
    return {**document, "_holdfast": {**document["_holdfast"], "seq": 10**6}}


DAMAGES = (
    as_it_was, without_signature, with_newest_signature, of_unknown_event, of_no_event,
    of_a_later_event,
)  # fmt: skip
STEPS = {
    "advance": lambda keeper, _task, _phase: keeper.advance(),
    "start a task": lambda keeper, task, _phase: keeper.start_task(task),
    "complete a task": lambda keeper, task, _phase: keeper.complete_task(
        task, force=True, reason="small"
    ),
    "skip a phase": lambda keeper, _task, phase: keeper.skip_phase(phase, "known"),
    "remind": lambda keeper, task, phase: keeper.remind(f"of {task} in {phase}"),
    "claim a gate": lambda keeper, _task, _phase: keeper.evidence().record_gate(
        "docs", passed=True
    ),
}


def done(state):
    """Return the tasks, phases and gates that are done, and where the workflow is."""
    return (
        {task["id"] for task in state["tasks"] if task["status"] == "completed"},
        {phase["name"] for phase in state["phases"] if phase["status"] in ("completed", "skipped")},
        {name for name, gate in state["gates"].items() if gate.get("status") == "completed"},
        state["phase"],
        state["status"],
    )


def walk(work, rng, count):
    """Take random steps; return every version of the record."""
    versions = [work.raw()]
    for _ in range(count):
        work.shop.clock.ms += 1_000
        keeper = work.shop.keeper()
        state = keeper.show(workflow=work.id).state
        task = rng.choice(state["tasks"])["id"]
        with contextlib.suppress(Refused):
            STEPS[rng.choice(list(STEPS))](keeper, task, state["phase"])
        if work.raw() != versions[-1]:
            versions.append(work.raw())
    return versions


@each_format
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), damage=st.sampled_from(DAMAGES), is_edited=st.booleans())
def test_an_old_copy_undoes_nothing(tmp_path_factory, record_format, seed, damage, is_edited):
    # A formal document has no time: beside the newest ``_holdfast`` it is an edit like any other.
    assume((record_format, damage) != ("formal", with_newest_signature))
    rng = random.Random(seed)
    work = OneWorkflow(tmp_path_factory.mktemp("copy"), record_format)
    versions = walk(work, rng, 6)
    before = work.shop.keeper().show(workflow=work.id).state
    newest = json.loads(work.raw())
    document = damage(json.loads(rng.choice(versions)), newest)
    if is_edited:
        edit_document(record_format, document)
    work.shop.clock.ms += 1_000
    work.shop.write(work.record, json.dumps(document).encode())
    after, notes = work.looked()
    assert done(after) == done(before), notes
    if is_edited and damage is as_it_was and "refused" not in str(notes):
        assert edited_value(after) == "by hand"


@each_format
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_an_old_copy_of_a_workflow_that_ended_opens_nothing(tmp_path, record_format, damage):
    work = OneWorkflow(tmp_path, record_format)
    old = json.loads(work.raw())
    work.shop.clock.ms += 1_000
    keeper = work.shop.keeper()
    keeper.complete(force=True, reason="enough", workflow=work.id)
    work.shop.clock.ms += 1_000
    work.shop.write(work.record, json.dumps(damage(old, old)).encode())
    for _ in range(2):
        keeper = work.shop.keeper()
        keeper.remember(f"something {work.shop.clock.ms}")
        assert keeper.show(workflow=work.id).state["status"] == "completed"
        work.shop.clock.ms += 1_000
    if (record_format, damage) != ("verb", without_signature):
        # A verb's record without ``_holdfast`` is how another tool begins a workflow.
        assert keeper.workflows()[0] == []


def test_a_record_of_elsewhere_undoes_nothing(tmp_path):
    """A copy of the workflow that went on in another place may not know what was done here."""
    here, there = OneWorkflow(tmp_path / "here", "skill"), OneWorkflow(tmp_path / "there", "skill")
    here.shop.keeper().complete_task(1, force=True, reason="small")
    there.shop.clock.ms += 10_000_000
    there.shop.keeper().remind("later")
    signed = json.loads(there.raw())["_holdfast"]
    assert formats.parse_signed(there.raw()).is_intact
    assert signed["ledger"] != json.loads(here.raw())["_holdfast"]["ledger"]
    here.shop.write(here.record, there.raw())
    state, notes = here.looked()
    assert state["tasks"][0]["status"] == "completed"
    assert any("would undo task 1" in note and "kept as" in note for note in notes)
