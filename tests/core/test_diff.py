"""The laws of edits: what changed, and how two sets of changes meet."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import diff, json_text

keys = st.sampled_from(["a", "b", "c", "+", "_absent", "history", "tasks"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(0, 1) | st.text(max_size=2)
values = st.recursive(
    scalars | st.builds(lambda: {"_absent": True}),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
states = st.dictionaries(keys, values, max_size=5)


def same(one, other):
    """Equal as JSON: ``1`` is not ``true``, and the order of keys says nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


@st.composite
def edited_states(draw, state):
    """The state after a few changes here and there."""
    after = copy.deepcopy(state)
    for _ in range(draw(st.integers(0, 3))):
        place, key = draw(st.sampled_from(places(after)))
        if isinstance(place, list):
            draw(st.sampled_from(list_edits))(place, key, draw(values))
        elif draw(st.booleans()) and key in place:
            del place[key]
        else:
            place[draw(keys)] = draw(values)
    return after


def places(value):
    """Every container in the value, with each of its keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, "a" if isinstance(value, dict) else 0)]
    for key, below in inner:
        found.append((value, key))
        if isinstance(below, (dict, list)):
            found += places(below)
    return found


def replaced(listed, position, value):
    if listed:
        listed[position] = value


def added(listed, _position, value):
    listed.append(value)


def removed(listed, position, _value):
    if listed:
        del listed[position]


list_edits = [replaced, added, removed]
threes = states.flatmap(
    lambda base: st.tuples(st.just(base), edited_states(base), edited_states(base))
)


@given(states, states)
@settings(max_examples=200)
def test_the_changes_between_two_states_make_one_of_the_other(old, new):
    assert same(diff.apply(old, diff.diff(old, new)), new)


@given(threes)
@settings(max_examples=200)
def test_the_changes_of_an_edit_survive_the_ledger(three):
    old, new, _ = three
    changes = json_text.loads(json_text.dumps(diff.diff(old, new)))
    assert same(diff.apply(old, changes), new)


@given(states)
def test_an_unchanged_state_has_no_changes(state):
    assert diff.diff(state, copy.deepcopy(state)) == []


@given(threes)
def test_applying_changes_leaves_the_state_itself_alone(three):
    old, new, _ = three
    before = copy.deepcopy(old)
    diff.apply(old, diff.diff(old, new))
    assert same(old, before)


@given(threes)
@settings(max_examples=200)
def test_who_is_in_whose_way_is_mutual(three):
    base, mine, theirs = three
    ours, others = diff.diff(base, mine), diff.diff(base, theirs)
    assert bool(diff.conflicts(ours, others)) == bool(diff.conflicts(others, ours))


@given(threes)
@settings(max_examples=200)
def test_edits_of_different_places_commute(three):
    base, mine, theirs = three
    ours, others = diff.diff(base, mine), diff.diff(base, theirs)
    if diff.conflicts(ours, others) or both_add(ours, others):
        return
    one = diff.apply(mine, diff.not_yet_applied(ours, others))
    other = diff.apply(theirs, diff.not_yet_applied(others, ours))
    assert same(one, other)


def both_add(ours, others):
    ends = [[path for path, _, _ in side if path[-1] == diff.ADDED] for side in (ours, others)]
    return any(path in ends[1] for path in ends[0])


@given(threes)
def test_a_merge_keeps_every_change_of_both_sides(three):
    base, mine, theirs = three
    ours, others = diff.diff(base, mine), diff.diff(base, theirs)
    if diff.conflicts(ours, others) or both_add(ours, others):
        return
    merged = diff.apply(mine, diff.not_yet_applied(ours, others))
    left = diff.diff(base, merged)
    for change in [*ours, *others]:
        assert any(same(change, kept) for kept in left)


@given(threes)
def test_an_edit_is_never_in_the_way_of_itself(three):
    base, mine, _ = three
    ours = diff.diff(base, mine)
    assert diff.conflicts(ours, copy.deepcopy(ours)) == []
    assert diff.not_yet_applied(ours, copy.deepcopy(ours)) == []


def test_the_same_value_set_twice_is_one_change():
    base, now = {"status": "a", "tasks": []}, {"status": "b", "tasks": [{"id": 1}]}
    ours = diff.diff(base, now)
    assert diff.conflicts(ours, diff.diff(base, now)) == []
    assert diff.apply(now, diff.not_yet_applied(ours, diff.diff(base, now))) == now


def test_two_values_for_one_place_are_a_conflict():
    base = {"phases": [{"status": "pending"}]}
    ours = diff.diff(base, {"phases": [{"status": "completed"}]})
    theirs = diff.diff(base, {"phases": [{"status": "blocked"}]})
    assert diff.conflicts(ours, theirs) == [["phases", 0, "status"]]


def test_true_and_one_are_two_values():
    ours, theirs = diff.diff({}, {"a": True}), diff.diff({}, {"a": 1})
    assert diff.conflicts(ours, theirs) == [["a"]]


def test_a_place_that_was_removed_conflicts_with_what_was_changed_in_it():
    base = {"gates": {"lint": {"passed": None}}}
    ours = diff.diff(base, {"gates": {}})
    theirs = diff.diff(base, {"gates": {"lint": {"passed": True}}})
    assert diff.conflicts(ours, theirs) == [["gates", "lint", "passed"]]
    assert diff.conflicts(theirs, ours) == [["gates", "lint"]]


def test_two_writers_may_both_add_to_the_history_but_not_both_the_next_task():
    base = {"history": [1], "tasks": [1]}
    ours = diff.diff(base, {"history": [1, 2], "tasks": [1, 2]})
    theirs = diff.diff(base, {"history": [1, 3], "tasks": [1, 3]})
    assert diff.conflicts(ours, theirs) == [["tasks", "+"]]


def test_an_addition_and_a_change_further_up_in_a_list_do_not_meet():
    base = {"tasks": [{"status": "pending"}]}
    ours = diff.diff(base, {"tasks": [{"status": "pending"}, {"status": "new"}]})
    theirs = diff.diff(base, {"tasks": [{"status": "done"}]})
    assert diff.conflicts(ours, theirs) == []
    merged = diff.apply(diff.apply(base, ours), theirs)
    assert merged == {"tasks": [{"status": "done"}, {"status": "new"}]}


def test_paths_are_told_as_people_write_them():
    assert diff.path_text(["phases", 2, "status"]) == "phases[2].status"
    assert diff.path_text(["history", diff.ADDED]) == "history.+"
