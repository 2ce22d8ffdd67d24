"""Any settings in any layout: in and out again is nothing, twice is once, others' values stay."""

import json
import os
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import install
from holdfast.install.agents import AGENTS
from holdfast.install.client_files import add_hooks, edit, own_handlers, remove_hooks
from support.git_template import make_repository

EVENTS = ("SessionStart", "PreCompact", "PostToolUse", "Stop", "Notification", "hooks")
names = st.text(max_size=6) | st.sampled_from(["env", "model", "matcher", "größe", '"', "\\"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["holdfast hook", "}", "]", ',"hooks":{', "\u2028", "\x7f"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
handlers = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["date", "holdfast status", "ü"])},
    optional={"timeout": st.integers(1, 60), "args": st.lists(names, max_size=2)},
)
groups = st.fixed_dictionaries(
    {"hooks": st.lists(handlers, max_size=2)},
    optional={"matcher": st.sampled_from(["", "*", "Read", "Edit|Write"]), "note": scalars},
)
hooks = st.dictionaries(st.sampled_from(EVENTS), st.lists(groups, max_size=2), max_size=3)


@st.composite
def objects(draw):
    """Any settings; the hooks, if there are any, at any place among them."""
    pairs = list(draw(st.dictionaries(names.filter(lambda n: n != "hooks"), values)).items())
    if draw(st.booleans()):
        pairs.insert(draw(st.integers(0, len(pairs))), ("hooks", draw(hooks)))
    return dict(pairs)


@st.composite
def layouts(draw):
    """A way to write a value down."""
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, 8, "\t", " \t"]))
    colon = draw(st.sampled_from([": ", ":", " : "]))
    comma = draw(st.sampled_from([",", ", "])) if indent is None else ","
    ascii_only = draw(st.booleans())
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lead = draw(st.sampled_from(["", "\n", "  "]))
    tail = draw(st.sampled_from(["", "\n", "\n\n", " "]))

    def write(value):
        text = json.dumps(value, indent=indent, separators=(comma, colon), ensure_ascii=ascii_only)
        return (lead + text + tail).replace("\n", newline)

    return write


wanted = st.builds(
    lambda agent, enforce: AGENTS[agent].hooks("team", enforce=enforce),
    st.sampled_from(sorted(AGENTS)),
    st.booleans(),
)


def pairs(text):
    """The value with its keys in their order."""
    return json.loads(text, object_pairs_hook=list)


def added(text, hooks):
    return edit(text, lambda settings: add_hooks(settings, hooks))


def removed(text, original=None):
    return edit(text, lambda settings: remove_hooks(settings, original or {}))


@given(objects(), layouts(), wanted)
@settings(max_examples=100)
def test_in_and_out_again_is_the_same_value(value, write, wish):
    text = write(value)
    new = added(text, wish)
    assert any(own_handlers(json.loads(new)))
    assert pairs(removed(new, value)) == pairs(text)
    assert removed(text) == text


@given(objects(), layouts(), wanted)
@settings(max_examples=100)
def test_twice_is_once_and_what_is_wanted_is_there_once(value, write, wish):
    new = added(write(value), wish)
    assert added(new, wish) == new
    found = [
        (event, group.get("matcher"), handler)
        for event, group, handler in own_handlers(json.loads(new))
    ]
    expected = [(event, group.get("matcher"), *group["hooks"]) for event, group in wish.items()]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@given(objects(), layouts(), wanted)
@settings(max_examples=100)
def test_other_values_and_their_order_never_change(value, write, wish):
    new = added(write(value), wish)
    before, after = pairs(write(value)), pairs(new)
    assert [pair for pair in after if pair[0] != "hooks"] == [p for p in before if p[0] != "hooks"]
    assert [key for key, _ in after][: len(before)] == [key for key, _ in before]
    old, events = value.get("hooks", {}), json.loads(new)["hooks"]
    assert list(events)[: len(old)] == list(old)
    for event, groups in old.items():
        assert events[event][: len(groups)] == groups
        assert len(events[event]) <= len(groups) + 1


@given(objects(), st.sampled_from([1, 2, 4, "\t"]), wanted)
@settings(max_examples=100)
def test_what_json_tools_write_keeps_its_indentation(value, indent, wish):
    text = json.dumps({"first": 1, **value}, indent=indent, ensure_ascii=False) + "\n"
    new = added(text, wish)
    assert new == json.dumps(json.loads(new), indent=indent, ensure_ascii=False) + "\n"
    assert removed(new, value) == text


@pytest.mark.parametrize("agent", sorted(AGENTS))
@given(data=st.data())
@settings(max_examples=10)
def test_in_files_in_and_out_again_is_the_same_bytes(agent, data):
    text = data.draw(layouts())(data.draw(objects()))
    raw = (data.draw(st.sampled_from(["", "\ufeff"])) + text).encode()
    with tempfile.TemporaryDirectory() as root:
        make_repository(root)
        path = os.path.join(root, AGENTS[agent].files["team"])
        os.mkdir(os.path.dirname(path))
        with open(path, "wb") as file:
            file.write(raw)
        steps = data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
        for enforce in steps:
            install.init(root, agent=agent, enforce=enforce)
        install.uninstall(root)
        with open(path, "rb") as file:
            assert file.read() == raw
        assert sorted(os.listdir(os.path.dirname(path))) == [os.path.basename(path)]
