"""Stored text on a page stays inside its place, and comes back the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.layers import markdown
from holdfast.loops.pages import (
    decode_after_key,
    decode_block,
    decode_item,
    decode_line,
    encode_after_key,
    encode_block,
    encode_heading,
    encode_item,
    encode_span,
)
from loops import walks

each_awkward = pytest.mark.parametrize("text", walks.AWKWARD)


def lines(page):
    return [line.rstrip("\r\n") for line in markdown.split_lines(page)]


def in_item(text):
    page = f"- [ ] **T1**: title\n  - Key: {encode_after_key(text, 4)}\n- [ ] **T2**: next\n"
    listed = markdown.block_tree(page)
    assert [one.kind for one in listed] == ["bullet_list"]
    first, second = listed[0].children
    assert [one.kind for one in first.children] == ["paragraph", "bullet_list"]
    assert [one.kind for one in first.children[1].children[0].children] in ([], ["paragraph"])
    assert second.children[0].text == "[ ] **T2**: next"
    found = lines(page)[1 : second.first]
    return decode_after_key([found[0].removeprefix("  - Key:"), *found[1:]])


def in_list(text):
    page = f"- {encode_item(text, 2)}\n- next\n"
    (listed,) = markdown.block_tree(page)
    first, second = listed.children
    assert [one.kind for one in first.children] == ["paragraph"]
    assert second.children[0].text == "next"
    found = lines(page)[: second.first]
    return decode_item([found[0].removeprefix("- "), *found[1:]])


def in_section(text):
    page = f"## One\n{encode_block(text)}\n\n## Two\n"
    found = markdown.block_tree(page)
    heads = [one for one in found if one.kind == "heading"]
    assert [one.text for one in heads] == ["One", "Two"]
    assert {one.kind for one in found} <= {"heading", "paragraph"}
    return decode_block(lines(page)[1 : heads[1].first])


def in_heading(text):
    (found,) = markdown.block_tree(f"## {encode_heading(text)}\n")
    return decode_line(found.text)


def in_code(text):
    shown = encode_span(text)
    assert shown.count("`") == 2
    assert len(lines(shown)) == 1
    return decode_line(shown[1:-1])


each_place = pytest.mark.parametrize("place", [in_item, in_list, in_section, in_heading, in_code])


@each_place
@each_awkward
def test_awkward_text_comes_back(place, text):
    assert place(text) == text


@each_place
@given(text=walks.texts)
def test_any_text_comes_back(place, text):
    assert place(text) == text


@given(st.text(max_size=60))
def test_whatever_people_write_is_read_without_complaint(text):
    for read in (
        decode_after_key,
        decode_item,
        decode_block,
    ):
        assert isinstance(read(text.split("\n")), str)


def test_ordinary_text_is_written_as_it_is():
    text = "Tests pass in < 2 s (`make test`), p95 *under* 100 ms; see #12 & C:\\dir"
    assert encode_after_key(text, 2) == encode_item(text, 2) == encode_block(text) == text


@given(st.lists(st.sampled_from(["a", "\n", "\r\n", "\r", "\u2028", "\x0b", "# x"])).map("".join))
def test_lines_are_counted_as_the_parser_counts_them(page):
    assert "".join(markdown.split_lines(page)) == page
    assert all(block.end <= len(markdown.split_lines(page)) for block in markdown.block_tree(page))


@pytest.mark.parametrize(
    ("page", "end"),
    [
        ("a\n", ""),
        ("```\ncode\n", "```"),
        ("~~~~ python\ncode", "~~~~"),
        ("```\ncode\n```\n", ""),
        ("<!-- note", "-->"),
        ("<!-- note -->", ""),
        ("<pre>\nx\n", "</pre>"),
        ("<?php", "?>"),
        ("> ```\n> quoted", ""),
        ("<div>", ""),
    ],
)
@pytest.mark.parametrize("nested", [True, False])
def test_what_somebody_left_open_is_known_by_its_end(page, end, nested):
    assert markdown.closing_mark(page, nested=nested) == end


def test_code_left_open_in_a_list_ends_with_the_list():
    page = "- a\n  ```\n  code\n"
    assert markdown.closing_mark(page, nested=True) == ""
    assert markdown.closing_mark(page, nested=False) == "```"


def test_nested_deeper_than_anyone_reads_nothing_below_is_lost():
    deep = "".join(" " * 2 * depth + "- a\n" for depth in range(300))
    for page in (
        deep + "\n## After\n",
        "> " * 300 + "a\n\n## After\n",
        "- " * 300 + "a\n## After\n",
    ):
        assert markdown.block_tree(page)[-1].text == "After"
