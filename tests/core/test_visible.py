"""Nothing that is shown is hidden: every character of Unicode, in several surroundings."""

import json
import re
import sys
from unicodedata import bidirectional, category, name

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.briefing import quoted
from holdfast.core.visible import (
    clean,
    clean_exactly,
    clean_json,
    first_hidden,
    folded,
    original,
    without_hidden,
)
from holdfast.initiatives.pages import MilestonePage, new_page
from holdfast.loops.pages import decode_line, encode_line

CODE = re.compile("<U\\+([0-9A-F]{4,6})>")
DEFAULT_IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8)),
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""The property Default_Ignorable_Code_Point of Unicode."""
OTHER_BLANKS = {0x2800, 0xFFFC, 0x13441, 0x13442, 0x16FE4, 0x1D159}
"""Characters whose shape is blank, or which stand for an object that is not there."""
BIDI_CONTROLS = {"LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
SEEN_IN_CONTEXT = re.compile(
    # The selector of pictures behind one, or in a key; the joiner between two pictures.
    "(?<=[\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    "|(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d(?=[\u2190-\u2bff\U0001f000-\U0001faff])"
    # The joiners inside a word.
    "|(?<=[\u0620-\u074f\u07ca-\u07ff\u1820-\u18aa])\u200c(?=[\u0620-\u074f\u07ca-\u07ff\u1820-\u18aa])"
    "|(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c\u200d](?=[\u0905-\u0dc6])"
)
AROUND = (
    *(("", ""), ("a", "b"), ("e\u0301", ""), ("\u05d0", "\u05d1"), ("\u0628", "\u0628")),
    *(("\u0915\u094d", "\u0937"), ("\u2764", "\U0001f525"), ("1", "\u20e3"), ("<", "U+3164>")),
    *((" ", " "), ("\u3164", "\u3164")),
)
EVERY = [chr(number) for number in range(sys.maxunicode + 1)]
ASSIGNED = [char for char in EVERY if category(char) not in ("Cn", "Co", "Cs")]
IDEOGRAPHS = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00017000-\U00018cff\U00020000-\U0003ffff]"
)
"""Half of all characters, which differ in nothing but their shape."""


def surroundings():
    """Yield every character in several surroundings."""
    for char in ASSIGNED:
        for before, after in AROUND[1:2] if IDEOGRAPHS.match(char) else AROUND:
            yield f"{before}{char}{after}"


def is_blank(char):
    number = ord(char)
    return (
        category(char)[0] in "CZ"
        or any(first <= number <= last for first, last in DEFAULT_IGNORABLE)
        or number in OTHER_BLANKS
    )


def hidden_in(shown):
    """Return what is blank, or a mark on nothing, in text that is shown."""
    rest = SEEN_IN_CONTEXT.sub("", CODE.sub("", shown))
    blanks = [char for char in rest if char != " " and is_blank(char)]
    alone = re.findall("(?:^|[ -,./:-@\\[-`{-~])([\u0300-\u036f])", CODE.sub("> ", shown))
    return blanks + alone


def test_no_character_of_unicode_is_hidden_in_any_surroundings():
    for text in surroundings():
        shown = clean(text)
        assert not hidden_in(shown), (ascii(text), shown)
        assert original(shown) == text, (ascii(text), shown)


def test_what_is_not_a_character_is_shown_by_its_code():
    others = [char for char in EVERY if category(char) in ("Cn", "Co", "Cs")]
    codes = "".join([f"<U+{ord(char):04X}>" for char in others])
    assert clean("".join(others)) == codes


def test_what_is_approved_has_one_order_and_only_characters_with_a_shape():
    for text in surroundings():
        shown = clean_exactly(text)
        for char in CODE.sub("", shown):
            assert char == " " or not is_blank(char), (ascii(text), shown)
            assert char == " " or category(char)[0] in "LNPS", (ascii(text), shown)
            assert bidirectional(char) not in ("R", "AL", "AN", *BIDI_CONTROLS)
        assert not shown.endswith(" ")
        assert decoded(shown) == text, (ascii(text), shown)


def decoded(shown):
    return CODE.sub(lambda match: chr(int(match[1], 16)), shown)


def test_json_keeps_its_value_and_hides_nothing():
    values = [f"\u2764{char}\U0001f525" for char in ASSIGNED]
    text = clean_json(json.dumps(values, ensure_ascii=False))
    assert json.loads(text) == values
    assert [char for char in set(SEEN_IN_CONTEXT.sub("", text)) if is_blank(char)] == [" "]


TEXTS = st.text(
    st.one_of(
        st.sampled_from(
            "ab1<>U+3164&#;\u3164\u200b\u200c\u200d\ufe0f\u0301\u05d0\u0628\u0915\u094d\u2764\U0001f525"
            "\u202e\xa0 \u20e3\u2039\U0001f3fd\u1039\u1000"
        ),
        st.characters(),
    ),
    max_size=20,
)


@given(TEXTS, TEXTS)
def test_two_texts_are_shown_alike_only_if_they_are_the_same(first, second):
    for show in (clean, clean_exactly):
        assert (show(first) == show(second)) == (first == second)
    assert original(clean(first)) == first
    assert decoded(clean_exactly(first)) == first
    assert not hidden_in(clean(first))


@given(TEXTS, TEXTS)
def test_texts_in_a_briefing_are_alike_only_if_they_differ_by_layout_and_tags(first, second):
    def words(text):
        text = folded(text).replace("~~~", "~ ~ ~")
        return text.replace("<", "\u2039").replace(">", "\u203a").replace("`", "'")

    assert (quoted(first) == quoted(second)) == (words(first) == words(second))


@given(TEXTS)
def test_a_text_whose_hidden_characters_are_dropped_has_none(text):
    assert not hidden_in(clean(without_hidden(text).replace("<U+", "")))


@pytest.mark.parametrize(
    "text",
    [
        "Übung für Çelik, Łódź, Tiếng Việt",
        "Дело за малым",
        "日本語とかな、한국어、中文",
        "שָׁלוֹם עולם (2)",
        "السلام عليكم 3",
        "می‌خواهم",
        "क्‍ष क्‌ष हिन्दी",
        "বাংলা தமிழ் മലയാളം සිංහල",
        "สวัสดีที่ ภาษาไทย",
        "ភាសាខ្មែរ မြန်မာဘာသာ བསྒྲུབས",
        "⚠️ done ✔️ 1️⃣ 👩‍💻 👩🏽‍💻 ❤️‍🔥 🇫🇷 👍🏽",
        "a → b · c … “d” — e",
        "if (a < b && c > d) { `x` }",
    ],
)
def test_text_of_people_is_shown_as_it_is(text):
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u3164b", "a<U+3164>b"),
        ("a\tb\nc", "a<U+0009>b<U+000A>c"),
        ("\u202egnp.exe", "<U+202E>gnp.exe"),
        ("a\xa0b", "a<U+00A0>b"),
        ("a\u200cb", "a<U+200C>b"),
        ("a\ufe0f", "a<U+FE0F>"),
        ("\ufe0f\u20e3", "<U+FE0F><U+20E3>"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f<U+FE0F>"),
        ("\u2764\u200d\u200d\U0001f525", "\u2764<U+200D><U+200D>\U0001f525"),
        (" \u0301", " <U+0301>"),
        ("Z" + "\u0301" * 6, "Z" + "\u0301" * 4 + "<U+0301>" * 2),
        ("a\u17d2b", "a<U+17D2>b"),
        ("\u1780\u17d2", "\u1780<U+17D2>"),
        ("a\U000e0041", "a<U+E0041>"),
        ("<U+3164>", "<U+003C>U+3164>"),
        ("\udcff", "<U+DCFF>"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_code(text, shown):
    assert clean(text) == shown


def test_letters_and_symbols_without_a_shape_are_shown_by_their_codes():
    for char in "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159":
        assert clean(f"a{char}b") == f"a<U+{ord(char):04X}>b"


def test_a_mark_without_a_letter_of_its_script_is_shown_by_its_code():
    assert clean("\u0301a") == "<U+0301>a"
    assert clean("a\u0e48") == "a<U+0E48>"


def test_a_joiner_that_selects_no_shape_is_shown_by_its_code():
    assert clean("ab\u200dc") == "ab<U+200D>c"


def test_a_text_that_looks_like_a_code_is_told_from_one():
    assert clean("<U+3164>") != clean("\u3164") == "<U+3164>"
    assert quoted("<U+3164>") != quoted("\u3164") != quoted("\u2039U+3164\u203a")


def test_a_briefing_hides_nothing():
    assert quoted("a\u3164\U000e0041\u202eb\n c") == "a‹U+3164›‹U+E0041›‹U+202E›b c"


def test_pages_hide_nothing_and_give_back_what_was_written():
    text = "a\u3164 <U+3164> \u202e&#8238; b"
    on_loop = encode_line(text)
    assert on_loop == "a<U+3164> <U+003C>U+3164> <U+202E>&#38;#8238; b"
    assert decode_line(on_loop) == text
    initiative = {"name": "x", "milestones": [milestone_of(text)]}
    page = MilestonePage(new_page(initiative), ids=["M1"])
    assert "\u3164" not in page.text
    assert [task for task, _, _ in page.milestones["M1"].tasks] == [text]


def milestone_of(text):
    tasks = [{"text": text, "done": False}]
    return {"id": "M1", "title": text, "status": "pending", "tasks": tasks}


def test_an_approval_shows_marks_joiners_and_letters_from_right_to_left_by_their_codes():
    assert clean_exactly("rm \u05d0 e\u0301 \u2764\ufe0f ") == (
        "rm <U+05D0> e<U+0301> \u2764<U+FE0F><U+0020>"
    )


def test_a_mark_on_a_letter_is_no_hidden_character():
    assert first_hidden("e\u0301 \u0915\u094d") == ""
    assert first_hidden("\u2764\ufe0f \u3164") == "<U+FE0F>"


def test_text_that_was_shown_before_is_not_shown_twice():
    assert clean("a<U+3164>\u3164", is_shown=True) == "a<U+3164><U+3164>"


def test_every_mark_names_its_script():
    assert all(name(char, "") for char in ASSIGNED if category(char)[0] == "M")
