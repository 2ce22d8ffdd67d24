"""No bytes make a parser raise what is no answer, or break its word; what was found stays found."""

import json
import sys

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from fuzz.mutating import mutated
from fuzz.targets import BY_NAME, TARGETS
from support.workshop import SEED, many

pytestmark = pytest.mark.promise(10)

each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
CASES = [(target.name, case) for target in TARGETS for case in target.cases()]
TRIES = many(60, 1_500)
MOST_GROWTH = 3.0
"""Twice the text may take twice the steps, and a little more; not four times."""


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    """The settings of whoever runs the tests have no say."""
    from fuzz import inputs

    monkeypatch.setenv("XDG_CONFIG_HOME", f"{inputs.folder()}/person")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)


@each_target
def test_what_the_parser_should_take_is_taken(target):
    taken = 0
    for text in target.seeds():
        try:
            target.ask(text)
        except target.answers:
            continue
        taken += 1
    assert taken


@pytest.mark.parametrize(("name", "case"), CASES)
def test_what_was_found_once_is_answered(name, case):
    BY_NAME[name].run(BY_NAME[name].cases()[case])


@each_target
def test_whatever_it_is_it_is_answered(target, tally):
    seeds = target.seeds()
    count = 0

    @seed(SEED)
    @settings(
        max_examples=max(TRIES // 4, 20) if target.is_slow else TRIES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        database=None,
    )
    @given(st.randoms(use_true_random=False), st.sampled_from(seeds) | st.binary(max_size=60))
    def tried(random, begun):
        nonlocal count
        count += 1
        target.run(mutated(begun, random, target.words, seeds))

    tried()
    tally("fuzzed with Hypothesis", targets=1, inputs=count, failures=0)


def steps_of(target, data):
    """How many lines of Python are executed for these bytes."""
    count = 0

    def look(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        target.run(data)
    finally:
        sys.settrace(before)
    return count


@each_target
def test_twice_the_text_takes_no_more_than_twice_the_steps(target):
    text = min(target.seeds(), key=len)
    middle = len(text) // 2
    for word in (*target.words, b"[", b'{"a":', b"x", b"\n", b"- ", text):
        small, large = (text[:middle] + word * count + text[middle:] for count in (150, 300))
        few = steps_of(target, small)
        assert steps_of(target, large) <= MOST_GROWTH * few + 2_000, (target.name, word, few)


@each_target
def test_nesting_takes_no_more_steps_than_it_has_letters(target):
    """Before whatever it is that the parser has to say."""
    objects = [value for value in map(_object_in, target.seeds()) if value is not None][:3]
    for value in objects:
        for name in value:
            small, large = (_nested(value, name, depth) for depth in (12, 24))
            few = steps_of(target, small)
            assert steps_of(target, large) <= MOST_GROWTH * few + 2_000, (target.name, name, few)


def _object_in(seed):
    try:
        value = json.loads(seed)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _nested(value, name, depth):
    """The object with something deep at its beginning, and nonsense under one of its names."""
    rest = json.dumps({**value, name: [[]]})
    return f'{{"x": {"[" * depth}{"]" * depth}, {rest[1:]}'.encode()
