"""The section of a document that belongs to others, and what it says next: for any text."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.layers.memory import MemorySection, merge

words = st.text("abc <>-!#\n\r é", max_size=12)


@given(before=words, after=words, lines=st.lists(st.text("abcé", min_size=1), max_size=4))
def test_a_section_that_is_written_is_found_and_leaves_the_rest(before, after, lines):
    raw = MemorySection(before.encode(), "k").with_lines([f"- {line}" for line in lines])
    assert raw.startswith(before.encode())
    found = MemorySection(raw + after.encode(), "k")
    if lines:
        assert found.lines == [f"- {line}".strip() for line in lines]
        assert found.with_lines(found.lines) == raw + after.encode()


@given(
    st.lists(st.tuples(st.sampled_from(["A", "B"]), st.lists(st.sampled_from("abcdefgh")))),
    st.lists(st.sampled_from("abcxyz")),
    st.integers(0, 9),
)
def test_no_sentence_stands_twice_and_room_is_kept(wanted, standing, room):
    last = {"written": [f"- {line}" for line in standing], "dropped": []}
    lines, _, _ = merge([], wanted, last, room)
    assert len(lines) <= room
    bullets = [line for line in lines if line.startswith("- ")]
    assert len(bullets) == len(set(bullets))
