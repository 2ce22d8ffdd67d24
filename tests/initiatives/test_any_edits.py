"""Any sequence of edits to any source, then ``sync``: all agree, and nothing is lost."""

import json
import os
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError
from holdfast.core import time as times
from holdfast.initiatives.status_yaml import Status
from support.initiative_shop import RECORD, TOP, YAML, InitiativeShop

pytestmark = pytest.mark.promise(9)

NONSENSE = ["{", "[]", '{"name": 1}']
MILESTONES = [("M1", "Map"), ("M2", "Move"), ("M3", "Ship")]


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
    # Tools that list only what was begun, with and without what they do not know.
    st.tuples(st.sampled_from(["partly", "partly theirs"]), IDS, MILESTONE, MINUTES),
    st.tuples(st.just("gone"), st.sampled_from(["record", "yaml", "page"]), st.just(""), st.none()),
    st.tuples(st.just("nonsense"), st.sampled_from(NONSENSE), IDS, st.none()),
    st.tuples(st.just("page"), IDS, st.booleans(), st.none()),
    st.tuples(st.just("command"), st.sampled_from(["start", "complete"]), IDS, st.none()),
    st.tuples(st.just("command"), st.just("task"), IDS, st.none()),
    st.tuples(st.just("sync"), st.sampled_from([None, "files"]), st.just(""), st.none()),
)
PLACES = {
    "record": RECORD,
    "yaml": f"{TOP}/tidy-billing/{YAML}",
    "page": f"{TOP}/tidy-billing/README.md",
}


def at(shop, minutes):
    return None if minutes is None else times.iso(shop.ms + minutes * 60_000)


def can_be_edited(shop, where, what):
    """Whether there is still something that an editor would open."""
    name = {"yaml": "yaml", "page": "page", "gone": what}.get(where, "record")
    if not os.path.exists(shop.path(PLACES[name])):
        return where not in ("yaml", "page", "gone", "record", "theirs", "partly", "partly theirs")
    is_record = where in ("record", "theirs", "partly", "partly theirs")
    return not is_record or shop.read(RECORD).decode() not in NONSENSE


def carry_out(shop, edit):
    where, what, value, minutes = edit
    if not can_be_edited(shop, where, what):
        return None
    when = at(shop, minutes)
    if where == "yaml":
        shop.edit_yaml(at=when, **{what: value})
    elif where in ("record", "theirs"):
        told = {} if when is None else {"lastUpdated": when}
        shop.edit_record(is_theirs=where == "theirs", **{what: value}, **told)
    elif where.startswith("partly"):
        told = {} if when is None else {"lastUpdated": when}
        told |= {"progress": {what: value}, "currentMilestone": what}
        shop.edit_record(is_theirs=where == "partly theirs", **told)
    elif where == "gone":
        os.remove(shop.path(PLACES[what]))
    elif where == "nonsense":
        shop.write(RECORD, what)
    elif where == "page":
        box = "[x]" if value else "[ ]"
        text = shop.text(shop.readme)
        for old in ("[ ]", "[x]"):
            text = text.replace(f"- {old} {what}:", f"- {box} {what}:")
        shop.write(shop.readme, text)
    elif what == "task":
        text = f"task {shop.ms}"
        shop.initiatives().task(value, text, done=True)
        return (value, text)
    elif where == "command":
        getattr(shop.initiatives(), what)(value)
    else:
        shop.initiatives().sync(source=what)
    return None


def said_by_yaml(shop):
    """What the YAML says now."""
    if not os.path.exists(shop.path(shop.yaml)):
        return None
    told = Status(shop.read(shop.yaml))
    return told.milestone, told.status, told.progress


@settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(EDITS, max_size=8))
def test_after_a_sync_all_agree_and_nothing_is_lost(edits):
    with tempfile.TemporaryDirectory() as root:
        shop = InitiativeShop(root).begin(files=True)
        shop.initiatives().start("M1")
        acknowledged = []
        for edit in edits:
            try:
                acknowledged.append(carry_out(shop, edit))
            except HoldfastError as error:
                assert error.hint
            shop.later()
        yaml_before = said_by_yaml(shop)
        shop.initiatives().sync()
        record = shop.record()
        milestone, status, progress = said_by_yaml(shop)
        assert (record["currentMilestone"], record["status"]) == (milestone, status)
        assert record["progress"] == progress
        entity = shop.entity()
        assert entity[1:3] == [f"milestone: {milestone}", f"status: {status}"]
        assert json.loads(entity[3].removeprefix("progress: ")) == progress
        assert not shop.initiatives().sync().seqs
        assert shop.keeper().verify().ok
        milestones = shop.current()["milestones"]
        assert [(each["id"], each["title"]) for each in milestones] == MILESTONES
        tasks = [(each["id"], task["text"]) for each in milestones for task in each["tasks"]]
        assert sorted(tasks) == sorted(one for one in acknowledged if one is not None)
        # What the YAML said last is there, or it lost and an event keeps it.
        if yaml_before is not None and yaml_before[:2] != (milestone, status):
            lost = [
                event["data"]["lost"].get("WORKFLOW-STATUS.yaml", {})
                for event in shop.events()
                if event["type"] == "initiative_sync_corrected"
            ]
            said = [(one.get("milestone"), one.get("status")) for one in lost]
            assert yaml_before[:2] in said
