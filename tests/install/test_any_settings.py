"""Any settings in any layout: in and out again is nothing, twice is once, others' values stay."""

import json
import os
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_template import make_repository
from holdfast import install
from holdfast.install.agents import AGENTS
from holdfast.install.document import Document
from holdfast.install.hooks import containers, has_ours, is_ours, merged, stripped

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


@given(objects(), layouts(), wanted)
@settings(max_examples=400)
def test_in_and_out_again_is_the_same_text(value, write, wish):
    text = write(value)
    new = merged(text, wish)
    assert has_ours(new)
    assert stripped(new, containers(text)) == text
    assert stripped(text) == text


@given(objects(), layouts(), wanted)
@settings(max_examples=200)
def test_twice_is_once_and_what_is_wanted_is_there_once(value, write, wish):
    new = merged(write(value), wish)
    assert merged(new, wish) == new
    found = [
        (event, group.get("matcher"), handler)
        for event, groups in json.loads(new)["hooks"].items()
        for group in groups
        for handler in group["hooks"]
        if is_ours(handler)
    ]
    expected = [(hook.event, hook.matcher, hook.handler) for hook in wish]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@given(objects(), layouts(), wanted)
@settings(max_examples=200)
def test_other_values_and_their_order_never_change(value, write, wish):
    old, new = pairs(write(value)), pairs(merged(write(value), wish))
    assert [pair for pair in new if pair[0] != "hooks"] == [p for p in old if p[0] != "hooks"]
    assert [key for key, _ in new][: len(old)] == [key for key, _ in old]
    before, after = value.get("hooks", {}), json.loads(merged(write(value), wish))["hooks"]
    assert list(after)[: len(before)] == list(before)
    for event, groups in before.items():
        assert after[event][: len(groups)] == groups
        assert len(after[event]) <= len(groups) + 1


@given(objects(), layouts(), wanted, names.filter(lambda name: name != "hooks"), values)
@settings(max_examples=200)
def test_a_key_that_somebody_added_meanwhile_is_all_that_stays(value, write, wish, name, more):
    def with_more(text):
        document = Document(text)
        return document.with_part([document.root], name, more)

    if name in value:
        return
    text = write(value)
    assert stripped(with_more(merged(text, wish)), containers(text)) == with_more(text)


@pytest.mark.parametrize("agent", sorted(AGENTS))
@given(data=st.data())
@settings(max_examples=25)
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
