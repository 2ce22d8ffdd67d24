"""Lines of values in a JSON text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.json_positions import line_of_path

MARK = "the one that is looked for"
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just('"{[,:]}')
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


def paths(value, path=()):
    yield list(path)
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


def replaced(value, path):
    if not path:
        return MARK
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:])
    return copy


@given(st.data())
def test_every_value_is_found_on_its_line(data):
    document = data.draw(documents)
    path = data.draw(st.sampled_from(list(paths(document))))
    text = json.dumps(replaced(document, path), indent=1)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if MARK in line)
    assert line_of_path(text, path) == line


@pytest.mark.parametrize(
    ("path", "line"), [(["a", "x", 0], 3), (["b", 1, "c"], 7), (["z"], 2), ([], 2)]
)
def test_without_the_value_the_innermost_that_exists_is_named(path, line):
    assert line_of_path('\n{\n"a": {"y":\n 1},\n"b": [\n1,\n2]}', path) == line
