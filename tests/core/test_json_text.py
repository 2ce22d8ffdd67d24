"""JSON as Holdfast reads and writes it, against the ``json`` package."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core import json_text
from holdfast.core.json_text import BadJson, line_of_path
from support.paths import SOURCE

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
numbers = st.integers(-(10**60), 10**60) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
WRITERS = [json_text.dumps, json_text.pretty, json_text.line_of]


def refusal(text, **options):
    with pytest.raises(BadJson) as caught:
        json_text.loads(text, **options)
    return caught.value


@given(values)
def test_what_is_written_is_what_json_reads(value):
    for write in WRITERS:
        assert json.loads(write(value)) == value


@given(values, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_what_json_writes_is_what_is_read(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert json_text.loads(text) == json_text.loads(text.encode(), strict=True) == value


@given(values)
def test_the_layout_for_people_says_the_same_as_the_line(value):
    line, many = json_text.line_of(value), json_text.pretty(value)
    assert json.loads(line) == json.loads(many) == value
    assert "\n" not in line


@given(values)
def test_text_is_never_escaped_without_need(value):
    assert json_text.dumps(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(st.text(max_size=40) | st.text('{}[]":,0123456789.eE+-truefalsn \n\\', max_size=40))
@example("")
@example("\ufeff{}")
@example("[1] 2")
@example("01")
@example('"\\ud800"')
@example('"\x00"')
def test_what_json_refuses_is_refused(text):
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        expected = BadJson
    found = loaded(text)
    if isinstance(found, BadJson):
        assert expected is BadJson or not_ours(text)
        assert 1 <= found.line <= text.count("\n") + 1
    else:
        assert found == expected


def loaded(text, **options):
    try:
        return json_text.loads(text, **options)
    except BadJson as bad:
        return bad


def not_ours(text):
    """What the json package takes beyond JSON."""
    return any(word in text for word in ("NaN", "Infinity", "e", "E")) or len(text) > 64


@given(st.binary(max_size=40))
def test_bytes_are_a_value_or_refused(raw):
    found = loaded(raw, strict=True)
    assert not isinstance(found, BadJson) or (found.why and found.line >= 1)


def test_numbers_that_mean_the_same_are_the_same():
    assert json_text.loads("[2.0, 2e0, -0.0, 1e3]") == [2, 2, 0, 1_000]
    assert [type(n) for n in json_text.loads("[2.0, 2e0, -0.0, 1e3, 0.5]")] == [int] * 4 + [float]


def test_a_mark_of_byte_order_is_nothing():
    assert json_text.loads(b"\xef\xbb\xbf{}") == {}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ('{\n "a": 1,\n "b": NaN\n}', "NaN is not JSON", 3),
        ('{\n "a": 1,\n "b": -Infinity\n}', "-Infinity is not JSON", 3),
        ('{\n "a": "NaN",\n "b":\n 1e999\n}', "too large", 4),
        ("[1,\n2,\n" + "7" * 5_000 + "\n]", "too large", 3),
        ('{\n "a": 1\n} {', "text after", 3),
        ('{\n\n "a": }', "expecting value", 3),
        (b'{\n"a": "\xff"}', "UTF-8", 2),
        ("\n\n", "empty", 1),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text, why, line, strict):
    bad = refusal(text, strict=strict)
    assert why.lower() in bad.why.lower()
    assert bad.line == line


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ('{"b": {"a": 3},\n "a": 1,\n\n "a": 2}', "stands twice", 4),
        ('{"b": {"a": 3},\n "a": 1,\n "c": [{"x": 1,\n "\\u0078": 2}]}', "stands twice", 4),
        ('{"a":\n "\\ud83d"}', "surrogate", 2),
        ('{"a": "\\ud83d\\ude00",\n "\\udc00": 1}', "surrogate", 2),
        ("[\n" * 80 + "]\n" * 80, "deeply", 65),
        ("[\n" * 100_000, "deeply", 65),
    ],
)
def test_text_from_outside_is_looked_at_more_closely(text, why, line):
    bad = refusal(text, strict=True)
    assert why in bad.why
    assert bad.line == line


def test_the_deepest_that_is_taken_is_taken():
    text = "[" * (json_text.MAX_DEPTH - 1) + "]" * (json_text.MAX_DEPTH - 1)
    assert json.dumps(json_text.loads(text, strict=True)) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_hold_is_never_written(value):
    for write in WRITERS:
        with pytest.raises(ValueError, match="not JSON"):
            write([value])


def test_what_is_no_value_is_never_written():
    with pytest.raises(TypeError, match="object is not JSON"):
        json_text.dumps({"a": object()})


def test_a_syntax_error_is_explained_where_json_was_never_loaded():
    """The C scanner has no exception of its own to raise in such a process."""
    code = (
        "from holdfast.core import json_text\n"
        "try: json_text.loads('{\\n\\n nonsense')\n"
        "except json_text.BadJson as bad: print(bad.line, bad.why)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, capture_output=True, check=True
    )
    assert told.stdout.startswith(b"3 expecting property name")


# Lines of values

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


def test_a_repeated_key_among_very_many_is_found_in_one_pass():
    keys = ",".join(f'"k{number}":0' for number in range(100_000))
    with pytest.raises(BadJson, match="'k99999' stands twice"):
        json_text.loads(f'{{{keys},"k99999":1}}', strict=True)


def test_a_text_with_too_many_values_is_refused_before_it_is_parsed():
    with pytest.raises(BadJson, match="too many values"):
        json_text.loads("[" + "[]," * 600_000 + "1]", strict=True)
    text = "," * 2_000_000
    assert json_text.loads(f'{{"a": "{text}"}}', strict=True) == {"a": text}
