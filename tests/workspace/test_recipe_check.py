"""A bad recipe is refused with its exact key; a good one goes into an event as it is."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.workspace import recipes
from holdfast.workspace.recipes import BadRecipe, check
from holdfast.workspace.settings import BadValue


def minimal(**more):
    return {"format": "verb", "phases": [{"name": "one"}, {"name": "two"}], **more}


def with_phase(**fields):
    return minimal(phases=[{"name": "one"}, {"name": "two"}, fields])


def with_gate(**fields):
    return minimal(gates={"lint": fields})


@pytest.mark.parametrize(
    ("raw", "key", "why"),
    [
        ({}, "format", "missing"),
        ({"format": "verb"}, "phases", "missing"),
        (minimal(format="Verb"), "format", "one of verb, skill, formal, loop"),
        (minimal(format=["verb"]), "format", "one of"),
        (minimal(fromat="verb"), "fromat", "unknown"),
        (minimal(name="other"), "name", "must be mine"),
        (minimal(phases=[]), "phases", "one or more"),
        (minimal(phases={"name": "x"}), "phases", "one or more"),
        (minimal(phases=[{"name": str(n)} for n in range(201)]), "phases", "at most 200"),
        (minimal(phases=["one"]), "phases[0]", "table"),
        (with_phase(), "phases[2].name", "missing"),
        (with_phase(name=3), "phases[2].name", "text"),
        (with_phase(name=""), "phases[2].name", "1 to 100"),
        (with_phase(name="x" * 101), "phases[2].name", "1 to 100"),
        (with_phase(name=" x"), "phases[2].name", "spaces"),
        (with_phase(name="a\nb"), "phases[2].name", "printed"),
        (with_phase(name="a\x1b[31m"), "phases[2].name", "printed"),
        (with_phase(name="a\u202eb"), "phases[2].name", "printed"),
        (with_phase(name="--force"), "phases[2].name", "option"),
        (with_phase(name="one"), "phases[2].name", "phases[0] too"),
        (with_phase(name="x", aproval=True), "phases[2].aproval", "unknown"),
        (with_phase(name="x", approval="yes"), "phases[2].approval", "true or false"),
        (with_phase(name="x", sets_branch=1), "phases[2].sets_branch", "true or false"),
        (with_phase(name="x", steps="lint"), "phases[2].steps", "list"),
        (with_phase(name="x", steps=["a", 1]), "phases[2].steps[1]", "text"),
        (with_phase(name="x", steps=["a", "a"]), "phases[2].steps[1]", "twice"),
        (with_phase(name="x", next="one"), "phases[2].next", "list"),
        (with_phase(name="x", next=["one", "gone"]), "phases[2].next[1]", "no phase: gone"),
        (with_phase(name="x", next=["x"]), "phases[2].next[0]", "own phase"),
        (minimal(title=""), "title", "one line"),
        (minimal(title="a\nb"), "title", "one line"),
        (minimal(title="x" * 101), "title", "at most 100"),
        (minimal(ttl="soon"), "ttl", "duration"),
        (minimal(ttl=24), "ttl", "duration"),
        (minimal(ttl="0h"), "ttl", "duration"),
        (minimal(ttl=""), "ttl", "duration"),
        (minimal(gates=["lint"]), "gates", "table"),
        (minimal(gates={"lint": "pending"}), "gates.lint", "table"),
        (minimal(gates={"lint": {"status": "passed"}}), "gates.lint.status", "pending"),
        (minimal(gates={"-x": {}}), "gates.-x", "option"),
        (with_gate(command=""), "gates.lint.command", "one line"),
        (with_gate(command=" "), "gates.lint.command", "one line"),
        (with_gate(command="a\nb"), "gates.lint.command", "one line"),
        (with_gate(command="a\u202eb"), "gates.lint.command", "one line"),
        (with_gate(command=["make", "lint"]), "gates.lint.command", "one line"),
        (with_gate(command="x" * 1_001), "gates.lint.command", "at most 1000"),
        (with_gate(timeout=600), "gates.lint.timeout", "duration"),
        (with_gate(timeout="soon"), "gates.lint.timeout", "duration"),
        (with_gate(timeout="0m"), "gates.lint.timeout", "duration"),
        (minimal(gates={str(n): {} for n in range(201)}), "gates", "at most 200"),
        (minimal(task_phases=[""]), "task_phases[0]", "1 to 100"),
        (minimal(task_phases=["x"] * 201), "task_phases", "at most 200"),
        (minimal(cycles_at="gone"), "cycles_at", "no phase"),
        (minimal(context=[]), "context", "table"),
        (minimal(context={"a": [1, float("nan")]}), "context.a[1]", "exactly"),
        (minimal(context={"a": float("inf")}), "context.a", "exactly"),
        (minimal(context={"a": 2**64}), "context.a", "exactly"),
        (minimal(context={"a": {"b": None}}), "context.a.b", "quote a date"),
        (minimal(context={"a": "x" * 10_001}), "context.a", "at most 10000"),
        (minimal(context={"a": "\ud800"}), "context.a", "valid text"),
        (minimal(mode="development"), "mode", "loop format"),
        (minimal(format="loop"), "mode", "missing"),
        (minimal(format="loop", mode="fast"), "mode", "one of development, knowledge"),
        (minimal(subject_key="feature_file"), "subject_key", "skill format"),
        (minimal(**{"a\x1b[2J": 1}), "'a\\x1b[2J'", "unknown"),
    ],
)
def test_bad_recipe_is_refused_with_its_exact_key(raw, key, why):
    with pytest.raises(BadValue) as caught:
        check(raw, "mine")
    assert caught.value.key == key
    assert why in caught.value.why
    assert BadRecipe(caught.value.key, caught.value.why).message.isprintable()


@pytest.mark.parametrize("name", ["", "../x", "a b", "a.b", "-x", "_x", "é", "x" * 101])
def test_recipe_with_an_unsafe_name_is_refused(name):
    with pytest.raises(BadValue) as caught:
        check(minimal(), name)
    assert caught.value.key == "name"


def test_value_nested_without_end_is_refused():
    value = 1
    for _ in range(500):
        value = [value]
    with pytest.raises(BadValue, match="deep"):
        check(minimal(context={"a": value}), "mine")


def test_gate_without_a_status_is_pending():
    recipe = check(minimal(gates={"lint": {"command": "make lint"}}), "mine")
    assert recipe["gates"] == {"lint": {"status": "pending", "command": "make lint"}}


def test_a_gate_may_say_what_it_runs_and_how_long_that_may_take():
    fields = {"command": "x" * 1_000, "timeout": "10m", "note": {"free": [1]}}
    recipe = check(with_gate(**fields), "mine")
    assert recipe["gates"] == {"lint": {"status": "pending", **fields}}


def test_numbers_are_as_the_ledger_reads_them_back():
    context = check(minimal(context={"a": 2.0, "b": 2.5, "c": True}), "mine")["context"]
    assert [(value, type(value)) for value in context.values()] == [
        (2, int),
        (2.5, float),
        (True, bool),
    ]


def test_checked_recipe_shares_nothing_with_what_was_read():
    raw = minimal(context={"a": {"b": [1]}}, gates={"lint": {}})
    recipe = check(raw, "mine")
    raw["context"]["a"]["b"].append(2)
    raw["gates"]["lint"]["x"] = 1
    assert recipe["context"] == {"a": {"b": [1]}}
    assert recipe["gates"] == {"lint": {"status": "pending"}}


_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["verb", "loop", "one", "24h", "development"]),
)
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["name", "next", "status", "x"]), inner, max_size=4),
    ),
    max_leaves=12,
)
_keys = st.sampled_from(["zzz", *recipes._RECIPE])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_keys, _values, max_size=6))
def test_any_value_anywhere_is_taken_or_refused_but_never_crashes(changes):
    try:
        recipe = check({**minimal(), **changes}, "mine")
    except BadValue:
        return
    assert check(recipe, "mine") == recipe
