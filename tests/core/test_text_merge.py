"""Two changes of one text are merged if they do not overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.text_merge import merge_lines

lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"]), max_size=6).map(b"".join)


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        (b"a\n", b"a\nmine\n", b"a\ntheirs\n", b"a\nmine\ntheirs\n"),
        (b"a\nb\n", b"x\nb\n", b"a\nb\nc\n", b"x\nb\nc\n"),
        (b"a\nb\nc\n", b"a\nb\nx\n", b"y\nb\nc\n", b"y\nb\nx\n"),
        (b"a\nb\n", b"b\n", b"a\nb\nc\n", b"b\nc\n"),
        (b"a\n", b"x\n", b"y\n", None),
        (b"a", b"a\nmine\n", b"a\ntheirs\n", None),
        (b"", b"mine\n", b"theirs\n", b"mine\ntheirs\n"),
    ],
)
def test_changes_that_do_not_overlap_are_both_there(base, mine, theirs, merged):
    assert merge_lines(base, mine, theirs) == merged


@given(lines, lines)
def test_one_change_alone_is_the_result(base, changed):
    assert merge_lines(base, base, changed) == changed
    assert merge_lines(base, changed, base) == changed
    assert merge_lines(base, changed, changed) == changed


@given(lines, lines, lines)
def test_lines_appended_on_both_sides_all_stay(base, mine, theirs):
    merged = merge_lines(base, base + mine, base + theirs)
    assert merged is not None
    assert merged.startswith(base)
    assert len(merged) in (len(base + mine + theirs), len(base + mine))
