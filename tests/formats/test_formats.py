"""The laws of the four record formats: a state and its record say the same, both ways."""

import copy
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.formats import active_path, formal, loop, skill, verb
from holdfast.formats.schema import Invalid, is_safe
from holdfast.workspace import recipes
from support.paths import SAMPLES
from support.strategies import (
    FORMATS,
    NESTED,
    any_workflow,
    arbitrary_json,
    arbitrary_object,
    json_values,
    origin_of,
)

MODULES = {"verb": verb, "formal": formal, "skill": skill, "loop": loop}
PLACES = {
    "verb": ".claude/workflow-state.json",
    "formal": "untracked/workflow-state/some-process/state-some-process-20260217_060504.json",
    "skill": ".claude/workflow-state/active/some-file.json",
    "loop": ".claude/iterative/some-slug/state.json",
}
SAMPLE_NAMES = sorted(
    name.removesuffix(".json") for name in os.listdir(SAMPLES) if name.partition("-")[0] in FORMATS
)
# Objects whose keys are names of things, not of fields.
KEYED_BY_NAMES = {
    "verb": (),
    "formal": (),
    "skill": (("tdd_phases",), ("checkpoints",)),
    "loop": (("tasks",), ("phases",)),
}
# Where the format has room for what the sample does not tell.
ADDED = {
    "verb-plain": {"status", "startedAt", "phases"},
    "verb-enforced": {"status", "startedAt", "phases"},
    "skill-tdd": {"checkpoints"},
}

each_format = pytest.mark.parametrize("name", FORMATS)
each_sample = pytest.mark.parametrize("sample", SAMPLE_NAMES)


def shipped(name):
    return recipes.load(name) if name in recipes.names() else None


def nothing_known(_name):
    return None


def found_at(name, recipe=nothing_known, path=None):
    return {
        "at": "2026-07-08T09:10:11.000Z",
        "path": path or PLACES[name],
        "worktree": ".",
        "recipe": recipe,
    }


def read(sample):
    with open(os.path.join(SAMPLES, f"{sample}.json"), encoding="utf-8") as file:
        return json.load(file)


def stored(value):
    """As it comes back from a file."""
    return json.loads(json.dumps(value))


def again(name, state):
    """The state after a round trip through the file."""
    document, rest = stored(MODULES[name].render(state))
    return MODULES[name].parse(document, rest, origin_of(state))


def missing(sample, rendered, path=()):
    """The paths at which the rendered document does not say what the sample says."""
    if isinstance(sample, dict) and isinstance(rendered, dict):
        for key, value in sample.items():
            if key not in rendered:
                yield (*path, key)
            else:
                yield from missing(value, rendered[key], (*path, key))
    elif isinstance(sample, list) and isinstance(rendered, list) and len(sample) == len(rendered):
        for place, value in enumerate(sample):
            yield from missing(value, rendered[place], (*path, place))
    elif sample != rendered or type(sample) is not type(rendered):
        yield path


# A state comes back from its record exactly


@settings(max_examples=200, deadline=None)
@given(any_workflow)
def test_state_survives_its_record(drawn):
    name, state = drawn
    before = copy.deepcopy(state)
    assert again(name, state) == before
    assert state == before


@settings(max_examples=50, deadline=None)
@given(any_workflow)
def test_record_is_the_same_byte_for_byte_after_another_round(drawn):
    name, state = drawn
    written = json.dumps(MODULES[name].render(state))
    assert json.dumps(MODULES[name].render(again(name, state))) == written


# What other tools wrote comes back with the same values


@each_sample
@pytest.mark.parametrize("known", [shipped, nothing_known])
def test_sample_keeps_every_value(sample, known):
    name = sample.partition("-")[0]
    document = read(sample)
    state = MODULES[name].parse(copy.deepcopy(document), {}, found_at(name, known))
    rendered = stored(MODULES[name].render(state)[0])
    assert not list(missing(document, rendered))
    allowed = ADDED.get(sample, set())
    assert rendered.keys() - document.keys() <= allowed
    assert again(name, state) == state


@each_sample
@pytest.mark.parametrize("known", [shipped, nothing_known])
def test_sample_becomes_a_whole_workflow(sample, known):
    name = sample.partition("-")[0]
    state = MODULES[name].parse(read(sample), {}, found_at(name, known))
    assert state["recipe"]["format"] == name
    listed = [phase["name"] for phase in state["phases"]]
    assert [phase["name"] for phase in state["recipe"]["phases"]] == listed
    assert state["phase"] is None or state["phase"] in listed
    assert is_safe(state["id"])
    assert state["record"] == PLACES[name]


# Fields that nobody knows stay where they are


def objects_in(value, path=()):
    """The path of every object in a document."""
    if isinstance(value, dict):
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in steps:
        if isinstance(inner, dict | list):
            yield from objects_in(inner, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


@each_sample
@settings(max_examples=30, deadline=None)
@given(data=st.data(), value=json_values)
def test_unknown_field_survives_anywhere_in_a_foreign_document(sample, data, value):
    name = sample.partition("-")[0]
    document = read(sample)
    places = [path for path in objects_in(document) if path[-1:] not in KEYED_BY_NAMES[name]]
    target = at(document, data.draw(st.sampled_from(places)))
    target[data.draw(st.sampled_from(["x-note", "Größe", ""]))] = value
    state = MODULES[name].parse(stored(document), {}, found_at(name, shipped))
    assert not list(missing(document, stored(MODULES[name].render(state)[0])))
    assert again(name, state) == state


def test_field_called_like_one_of_the_aggregate_survives():
    document = read("skill-dev")
    document["tasks"][0] |= {"id": "JIRA-7", "commit": False, "phases": ["a"]}
    state = skill.parse(document, {}, found_at("skill"))
    assert state["tasks"][0]["id"] == 1
    assert state["tasks"][0]["commit"] == "9be41c2"
    assert skill.render(state)[0]["tasks"][0] == document["tasks"][0]


@each_format
def test_unknown_fields_of_an_edit_survive_every_later_write(name):
    sample = next(one for one in SAMPLE_NAMES if one.startswith(name))
    state = MODULES[name].parse(read(sample), {}, found_at(name, shipped))
    document, rest = stored(MODULES[name].render(state))
    document["mine"] = {"deep": [1, {"er": None}]}
    for key in NESTED[name]:
        document.setdefault(key, {})["mine"] = key
    edited = MODULES[name].parse(document, rest, found_at(name))
    assert edited["extra"]["mine"] == {"deep": [1, {"er": None}]}
    later = {**edited, "title": "Another title", "updated_at": "2026-09-09T09:09:09Z"}
    written = stored(MODULES[name].render(later)[0])
    assert written["mine"] == {"deep": [1, {"er": None}]}
    assert all(written[key]["mine"] == key for key in NESTED[name])


def test_unknown_field_whose_place_was_taken_comes_back_when_it_is_free():
    document = read("skill-dev")
    document["workflow"] |= {"completed_at": None, "owner": "me"}
    state = skill.parse(document, {}, found_at("skill"))
    completed = {**state, "status": "completed", "completed_at": state["updated_at"]}
    assert again("skill", completed) == completed
    assert again("skill", completed)["extra"] == {"workflow": {"completed_at": None, "owner": "me"}}
    assert skill.render(state)[0]["workflow"] == document["workflow"]


# Nothing but Invalid comes out


@each_format
@settings(max_examples=100, deadline=None)
@given(document=arbitrary_object(), rest=st.just({}) | arbitrary_object())
def test_arbitrary_json_is_a_workflow_or_invalid(name, document, rest):
    try:
        state = MODULES[name].parse(document, rest, found_at(name, shipped))
    except Invalid:
        return
    assert again(name, state) == state


@settings(max_examples=200, deadline=None)
@given(any_workflow, st.data(), arbitrary_json())
def test_record_with_one_wild_value_is_a_workflow_or_invalid(drawn, data, wild):
    name, state = drawn
    record = stored(MODULES[name].render(state))
    path = data.draw(st.sampled_from(list(objects_in(record)) or [()]))
    target = at(record, path)
    keys = list(target) if isinstance(target, dict) else list(range(len(target)))
    if keys and path:
        target[data.draw(st.sampled_from(keys))] = wild
    try:
        parsed = MODULES[name].parse(*record, origin_of(state))
    except Invalid:
        return
    assert again(name, parsed) == parsed


@each_sample
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_invalid_names_the_field_that_makes_no_sense(sample, data):
    name = sample.partition("-")[0]
    document = read(sample)
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = 3.5
    with pytest.raises(Invalid) as caught:
        MODULES[name].parse(document, {}, found_at(name))
    assert caught.value.path == [key]


def test_number_that_the_ledger_cannot_hold_is_invalid():
    document = read("skill-dev")
    document["state_machine"]["cycle_count"] = 2**63
    with pytest.raises(Invalid, match="cycle_count: must be 9,223,372,036,854,775,807 at most"):
        skill.parse(document, {}, found_at("skill"))


# Foreign documents: where they stand, what they are called, when they began


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("verb", ".claude/workflow-state.json"),
        ("formal", "untracked/workflow-state/a-b/state-a-b-20260218_223000.json"),
        ("skill", ".claude/workflow-state/active/a-b.json"),
        ("loop", ".claude/iterative/a-b/state.json"),
    ],
)
def test_record_has_its_place(name, expected):
    assert active_path(name, "a-b", "2026-02-18T23:30:00.5+01:00") == expected


def test_completed_skill_goes_back_to_the_active_ones():
    place = ".claude/workflow-state/completed/dev-1a2b.json"
    assert place == ".claude/workflow-state/completed/dev-1a2b.json"
    state = skill.parse(read("skill-dev"), {}, found_at("skill", path=place))
    assert state["record"] == ".claude/workflow-state/active/dev-1a2b.json"


@pytest.mark.parametrize(
    ("sample", "changes", "expected"),
    [
        # echo "Uploads above 2 GB stop at the last chunk" | md5sum | cut -c1-8
        ("verb-plain", {}, "debug-a27e65b5"),
        ("formal-start", {}, "some-process"),
        ("skill-dev", {}, "dev-invoices-9c1d"),
        ("skill-dev", {"workflow": {"id": "../../etc"}}, "some-file"),
        ("skill-dev", {"workflow": {}}, "some-file"),
        ("loop-knowledge", {}, "heat-pumps"),
        ("loop-knowledge", {"slug": "../Ärger & Co "}, "rger-co"),
        ("loop-knowledge", {"slug": "…"}, "workflow"),
    ],
)
def test_foreign_document_gets_a_safe_id(sample, changes, expected):
    name = sample.partition("-")[0]
    document = {**read(sample), **changes}
    assert MODULES[name].parse(document, {}, found_at(name))["id"] == expected


@each_format
def test_time_that_is_not_told_is_that_of_reading(name):
    sample = next(one for one in SAMPLE_NAMES if one.startswith(name))
    document = read(sample)
    for key in ("created_at", "created", "updated", "startedAt", "lastUpdated"):
        document.pop(key, None)
    if name == "skill":
        document["workflow"] = {}
    state = MODULES[name].parse(document, {}, found_at(name))
    assert state["created_at"] == state["updated_at"] == "2026-07-08T09:10:11.000Z"


def test_recipe_of_the_place_is_fitted_to_the_phases_of_the_document():
    document = read("skill-dev")
    document["state_machine"]["phases"].insert(3, {"name": "demo", "status": "pending"})
    del document["state_machine"]["phases"][0]
    state = skill.parse(document, {}, found_at("skill", shipped))
    assert state["recipe"]["name"] == "dev"
    assert state["recipe"]["task_phases"] == ["red", "green", "refactor"]
    declared = state["recipe"]["phases"]
    assert [phase["name"] for phase in declared] == [p["name"] for p in state["phases"]]
    assert declared[0] == {"name": "create_branch", "sets_branch": True, "needs": ["branch"]}
    assert declared[2] == {"name": "demo"}


def test_way_on_that_the_document_does_not_have_is_left_out():
    document = {"type": "DEBUG", "phase": "troubleshoot", "context": "x"}
    document["phases"] = [{"name": "troubleshoot"}, {"name": "implement"}, {"name": "git-commit"}]
    state = verb.parse(document, {}, found_at("verb", shipped))
    assert state["recipe"]["phases"][0]["next"] == ["implement"]
