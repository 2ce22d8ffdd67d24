"""Whatever a text says, a page shows it and does nothing else: no link, no mention, no markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from holdfast.answers.documents import Bullets, Code, Heading, Paragraph, Strong, Table, fitted
from holdfast.answers.html import html
from holdfast.answers.markdown import BREAK, inert, markdown, plain_title
from holdfast.core.visible import clean, folded
from support.hostile import HOSTILE, REFERENCES

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
TEXT_ONLY = {"text", "text_special"}


def shown_in(tokens):
    """Return the text of rendered tokens; fail if there is anything but text."""
    parts = []
    for token in tokens:
        assert token.type in TEXT_ONLY, token
        parts.append(token.content)
    return "".join(parts)


def as_people_see(text):
    return clean(folded(text)).strip(" ")


def cells_of(source):
    tokens = READER.parse(source)
    assert {token.type for token in tokens} <= {
        "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close",
        "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "inline",
    }  # fmt: skip
    return [token.children for token in tokens if token.type == "inline"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_shown_as_it_is_in_a_table(text):
    source = markdown([Table(("a", "b", "c"), [[["before"], [text], ["after"]]])])
    cells = cells_of(source)
    assert len(cells) == 6
    shown = shown_in(cells[4])
    assert shown.replace(BREAK, "") == as_people_see(text)
    assert shown_in(cells[5]) == "after"
    for reference in REFERENCES:
        assert not reference.search(shown), (reference, shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_one_paragraph_or_one_item(text):
    for block, kind in ((Paragraph(text), "paragraph"), (Bullets([[text]]), "list_item")):
        tokens = READER.parse(markdown([block]))
        assert not [t for t in tokens if t.type in ("html_block", "fence", "code_block", "hr")]
        inline = [token for token in tokens if token.type == "inline"]
        if not as_people_see(text):
            assert not inline
            continue
        assert len(inline) == 1
        assert kind in [token.type.removesuffix("_open") for token in tokens]
        assert shown_in(inline[0].children).replace(BREAK, "") == as_people_see(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_code_is_code_or_text_and_refers_to_nothing(text):
    source = markdown([Table(("a", "b"), [[[Code(text)], ["after"]]])])
    cells = cells_of(source)
    assert len(cells) == 4
    kinds = [(token.type, token.content) for token in cells[2]]
    shown = "".join(content for kind, content in kinds if kind != "html_inline")
    assert {content for kind, content in kinds if kind == "html_inline"} <= {"<code>", "</code>"}
    assert shown.replace(BREAK, "") == as_people_see(text)
    for reference in REFERENCES:
        assert not reference.search(shown)


@given(
    st.text(alphabet=st.one_of(st.sampled_from("\\`*_[]<>|~$&#@:-+=!(){}.1 aG\n"), st.characters()))
)
def test_any_text_is_shown_and_does_nothing_else(text):
    source = markdown([Table(("a", "b"), [[[Strong("x"), text], ["after"]]])])
    cells = cells_of(source)
    assert len(cells) == 4
    texts = [token for token in cells[2] if not token.type.startswith("strong")]
    shown = shown_in(texts).replace(BREAK, "")
    assert shown == f"x {as_people_see(text)}".strip(" ")
    tokens = READER.parse(markdown([Paragraph(text)]))
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}


@given(st.text())
def test_any_text_in_html_is_text(text):
    from html.parser import HTMLParser

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.texts = [], []

        def handle_starttag(self, tag, attrs):
            self.tags.append((tag, dict(attrs)))

        def handle_data(self, data):
            self.texts.append(data)

    def read(text):
        reader = Reader()
        rows = [[[text], [Code(text), Strong(text)]]]
        reader.feed(html([Heading(1, text), Paragraph(text), Table(("a", "b"), rows)]))
        return reader

    reader = read(text)
    assert reader.tags == read("x").tags
    if as_people_see(text):
        assert as_people_see(text) in "".join(reader.texts)


def test_a_page_needs_nothing_from_anywhere_and_has_no_script():
    page = html([Heading(1, "A title"), Bullets([["one"]]), Table(("a",), [[["b"]]])])
    assert "default-src 'none'" in page
    assert not re.search(r"(?i)<script|\bsrc=|\bhref=|\bon\w+=|@import|url\(", page)


def test_a_title_refers_to_nothing_and_is_one_line():
    title = plain_title("Fix @ada's\nbug: fixes #1, GH-2, https://evil.example")
    assert title == "Fix @ ada's bug: fixes # 1, GH- 2, https: //evil.example"


def test_the_least_important_rows_are_left_out_first_and_counted():
    blocks = [
        Paragraph("always"),
        Bullets([[f"claim {n}"] for n in range(20)], 1),
        Bullets([[f"commit {n}"] for n in range(400)], 6),
    ]
    text = fitted(blocks, 1_000, markdown)
    assert len(text) <= 1_000
    assert "claim 19" in text
    assert "commit 0" in text
    assert re.search(r"- _\d+ more are left out here\._", text)
    assert fitted(blocks, 60, markdown).startswith("always")


def test_ordinary_texts_stay_readable():
    assert inert("Parse an empty file (see docs/login.md), in 0.4 s") == (
        "Parse an empty file (see docs/login.md), in 0.4 s"
    )
    assert inert("security_review") == "security_review"
