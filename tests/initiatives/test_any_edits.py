"""Any sequence of edits to any source, then ``sync``: all agree, and nothing is lost."""

import json
import tempfile

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError
from holdfast.core import moment
from holdfast.initiatives.status import Status
from initiatives.ground import Ground

IDS = st.sampled_from(["M1", "M2", "M3"])
MILESTONE = st.sampled_from(["pending", "in_progress", "completed", "blocked"])
STATUS = st.sampled_from(["created", "in_progress", "blocked", "completed"])
MINUTES = st.sampled_from([None, -30, -1, 0, 1, 2])
EDITS = st.one_of(
    st.tuples(st.just("yaml"), st.sampled_from(["status"]), STATUS, MINUTES),
    st.tuples(st.just("yaml"), st.sampled_from(["milestone"]), IDS, MINUTES),
    st.tuples(st.just("yaml"), IDS, MILESTONE, MINUTES),
    st.tuples(st.just("record"), st.sampled_from(["status"]), STATUS, MINUTES),
    st.tuples(st.just("record"), st.sampled_from(["currentMilestone"]), IDS, MINUTES),
    st.tuples(st.just("theirs"), st.sampled_from(["status"]), STATUS, MINUTES),
    st.tuples(st.just("page"), IDS, st.booleans(), st.none()),
    st.tuples(st.just("graph"), IDS, STATUS, MINUTES),
    st.tuples(st.just("command"), st.sampled_from(["start", "complete"]), IDS, st.none()),
    st.tuples(st.just("command"), st.just("task"), IDS, st.none()),
    st.tuples(st.just("sync"), st.just(""), st.just(""), st.none()),
)


def at(ground, minutes):
    return None if minutes is None else moment.iso(ground.ms + minutes * 60_000)


def carry_out(ground, edit):
    where, what, value, minutes = edit
    when = at(ground, minutes)
    if where == "yaml":
        ground.edit_yaml(at=when, **{what: value})
    elif where in ("record", "theirs"):
        told = {} if when is None else {"lastUpdated": when}
        ground.edit_record(is_theirs=where == "theirs", **{what: value}, **told)
    elif where == "page":
        box = "[x]" if value else "[ ]"
        text = ground.text(ground.readme)
        for old in ("[ ]", "[x]"):
            text = text.replace(f"- {old} {what}:", f"- {box} {what}:")
        ground.write(ground.readme, text)
    elif where == "graph":
        ground.set_entity(
            "initiative: Tidy billing", f"milestone: {what}", f"status: {value}", f"updated: {when}"
        )
    elif what == "task":
        ground.initiatives().task(value, f"task {ground.ms}", done=True)
    elif where == "command":
        getattr(ground.initiatives(), what)(value)
    else:
        ground.initiatives().sync()


def said_by_yaml(ground):
    """What the YAML says now."""
    told = Status(ground.read(ground.yaml))
    return told.milestone, told.status, told.progress


@settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(EDITS, max_size=8))
def test_after_a_sync_all_agree_and_nothing_is_lost(edits):
    with tempfile.TemporaryDirectory() as root:
        ground = Ground(root).begin(files=True)
        ground.initiatives().start("M1")
        for edit in edits:
            try:
                carry_out(ground, edit)
            except HoldfastError as error:
                assert error.hint
            ground.later()
        yaml_before = said_by_yaml(ground)
        ground.initiatives().sync()
        record = ground.record()
        milestone, status, progress = said_by_yaml(ground)
        assert (record["currentMilestone"], record["status"]) == (milestone, status)
        assert record["progress"] == progress
        entity = ground.entity()
        assert entity[1:3] == [f"milestone: {milestone}", f"status: {status}"]
        assert json.loads(entity[3].removeprefix("progress: ")) == progress
        assert not ground.initiatives().sync().seqs
        assert ground.keeper().verify().ok
        # What the YAML said last is there, or it lost and an event keeps it.
        if yaml_before[:2] != (milestone, status):
            lost = [
                event["data"]["lost"].get("WORKFLOW-STATUS.yaml", {})
                for event in ground.events()
                if event["type"] == "initiative_sync_corrected"
            ]
            said = [(one.get("milestone"), one.get("status")) for one in lost]
            assert yaml_before[:2] in said
