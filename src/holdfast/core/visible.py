"""Show text so that nothing in it is hidden: what has no shape of its own is shown by its code.

Titles, commands, paths and output come from models and from strangers' repositories. On a screen,
on a page or in a briefing, a character that is blank, invisible or changes the direction of writing
would let two different texts look the same. Such a character is shown as ``<U+3164>``. A text that
contains ``<U+`` itself has its ``<`` shown by its code, so what is shown stands for one text only.

This is the whole table of what is shown as it is:

- the space, and letters, numbers, punctuation and symbols that have a shape (not ``_BLANK``);
- a combining mark on a letter, number or symbol of its own script, up to ``_MAX_MARKS`` on one;
- the joiners U+200C and U+200D inside a word of a script that is written with them, U+200D between
  two pictures, and U+FE0F after a picture: there they select a shape.

``clean_exactly`` is for what a person approves. It also shows by their codes: marks, joiners,
letters that are written from right to left, which a terminal may put into another order, and spaces
at the end.

A letter that resembles another one, such as the Cyrillic A, is shown as it is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_MARK = "\u0300"
"""Below this one, Python's ``isprintable`` is exact."""
_SIGNS = (("\u2010", "\u20cf"), ("\u2100", "\u27ff"), ("\u3400", "\u9fff"))
"""Ranges without marks and blanks: punctuation, symbols, and Chinese characters."""
_OPENINGS = "<\u2039"
"""A briefing shows the first one as the second."""
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159"
)
"""Letters, marks and symbols without a shape; variation selectors are apart."""
_SELECTORS = (("\ufe00", "\ufe0f"), ("\U000e0100", "\U000e01ef"))
_STACKERS = frozenset(
    "\u1039\u17d2\u1a60\u2d7f\U00010a3f\U0001107f\U00011133\U000113d0\U0001193e\U00011a47"
    "\U00011a99\U00011d45\U00011d97\U00011f42"
)
"""Marks that show only in the form of the letter after them."""
_MAX_MARKS = 4
_NON_JOINER, _JOINER, _AS_PICTURE, _KEYCAP = "\u200c", "\u200d", "\ufe0f", "\u20e3"
_KEYS = frozenset("#*0123456789")
_CURSIVE = ("ARABIC", "SYRIAC", "MONGOLIAN", "NKO")
_OTHER_PICTURES = frozenset(
    "\u203c\u2049\u2139\u2194\u25fb\u25fc\u25fd\u25fe\u2934\u2935\u3030\u303d"
)
"""Characters that can be pictures and are not of the category of symbols."""
_SKIN_TONES = ("\U0001f3fb", "\U0001f3ff")
_VIRAMA = 9
"""The combining class of the marks that join two letters of an Indic script."""
_NO_CHARACTER = 0x110000
_RIGHT_TO_LEFT = ("R", "AL", "AN")


def clean(text: object, *, is_shown: bool = False) -> str:
    """Return the text on one line, with every character that cannot be seen shown by its code.

    ``is_shown``: parts of the text were made visible before, and their codes stay as they are.
    """
    line = str(text)
    if _is_plain(line) and (is_shown or "U+" not in line):
        return line
    return _spell(line, code_of, openings="" if is_shown else _OPENINGS)


def original(text: str) -> str:
    """Return the text that ``clean`` was given; codes of characters that can be seen stay."""
    first, *others = text.split("<U+")
    parts = [first]
    for part in others:
        digits, closed, rest = part.partition(">")
        is_code = closed and 4 <= len(digits) <= 6 and not set(digits) - set("0123456789ABCDEF")
        number = int(digits, 16) if is_code else _NO_CHARACTER
        if number < _NO_CHARACTER and (chr(number) in _OPENINGS or _needs_code(chr(number))):
            parts += [chr(number), rest]
        else:
            parts += ["<U+", part]
    return "".join(parts)


def without_hidden(text: str) -> str:
    """Return the text with a space in place of every character that cannot be seen."""
    return text if _is_plain(text) else _spell(text, lambda _char: " ")


def folded(text: str) -> str:
    """Return the text on one line: a single space for each run of spaces, tabs and line ends."""
    for blank in "\r\n\t":
        text = text.replace(blank, " ")
    return " ".join([word for word in text.split(" ") if word])


def clean_exactly(text: str) -> str:
    """Return text that a person approves, in the order of its characters; see the table above."""
    if not (text.isascii() and text.isprintable()) or "<U+" in text:
        text = _spell(text, code_of, openings=_OPENINGS, is_exact=True)
    end = text.rstrip(" ")
    return end + code_of(" ") * (len(text) - len(end))


def clean_json(text: str, *, ascii_only: bool = False) -> str:
    """Return the same JSON value, with every character that cannot be seen escaped.

    JSON itself escapes only what lies below a space. Outside of strings all is ASCII, and line ends
    are layout.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    if ascii_only:
        return "".join([char if char < "\x7f" else _json_code_of(char) for char in text])
    lines = [line if _is_plain(line) else _spell(line, _json_code_of) for line in text.split("\n")]
    return "\n".join(lines)


def first_hidden(text: str) -> str:
    """Return the code of the first character that is never seen; empty if there is none."""
    if _is_plain(text):
        return ""
    from unicodedata import category

    hidden = (c for c in text if not _has_shape(c, category(c)) and not _is_mark(c, category(c)))
    return next((code_of(char) for char in hidden), "")


def code_of(char: str) -> str:
    """Return the code of a character, such as ``<U+200B>``."""
    return f"<U+{ord(char):04X}>"


def count_cells(line: str) -> int:
    """Return how many columns of a terminal the clean line takes."""
    if line.isascii():
        return len(line)
    return sum([count_char_cells(char) for char in line])


def shorten(line: str, width: int) -> str:
    """Return the line, cut with an ellipsis if it is wider."""
    if count_cells(line) <= width:
        return line
    text, free = "", width - 1
    for char in line:
        free -= count_char_cells(char)
        if free < 0:
            break
        text += char
    return text + "…"


def count_char_cells(char: str) -> int:
    """Return the columns of one character: a Chinese one takes two, a combining accent none."""
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if char == _AS_PICTURE:
        # It makes the character before it wide in most terminals; the others are only cautious.
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def _json_code_of(char: str) -> str:
    """Return a character as an escape of JSON."""
    number = ord(char)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"


def _is_plain(text: str) -> bool:
    """Return whether it is clear at once that nothing in the text is hidden."""
    if not text.isprintable():
        return False
    return text.isascii() or all(
        char < _FIRST_MARK or any(a <= char <= z for a, z in _SIGNS) for char in text
    )


def _spell(
    text: str, spell: Callable[[str], str], *, openings: str = "", is_exact: bool = False
) -> str:
    """Return the text with every character that the table does not show put through ``spell``."""
    from unicodedata import bidirectional, category

    parts: list[str] = []
    base, marks, is_shown = "", 0, False
    for index, char in enumerate(text):
        if " " <= char <= "~" and char not in openings:
            base, marks, is_shown = (char if char.isalnum() else ""), 0, True
            parts.append(char)
            continue
        kind = category(char)
        if _is_mark(char, kind):
            marks += 1
            is_shown = not is_exact and marks <= _MAX_MARKS and _fits(char, base, text, index)
        elif char in (_NON_JOINER, _JOINER, _AS_PICTURE):
            is_shown = not is_exact and is_shown and _selects_shape(char, text, index)
        else:
            is_shown = _has_shape(char, kind) and not (
                (char in openings and text.startswith("U+", index + 1))
                or (is_exact and bidirectional(char) in _RIGHT_TO_LEFT)
            )
            base, marks = (char if kind[0] in "LN" or kind == "So" else ""), 0
        if not is_shown:
            base = ""
        parts.append(char if is_shown else spell(char))
    return "".join(parts)


def _is_mark(char: str, kind: str) -> bool:
    """Return whether a character is a mark that can be seen, on a letter that it fits."""
    return kind[0] == "M" and char not in _BLANK and not _is_selector(char)


def _needs_code(char: str) -> bool:
    """Return whether there is a text in which a character is shown by its code."""
    from unicodedata import category

    return not _has_shape(char, category(char))


def _has_shape(char: str, kind: str) -> bool:
    """Return whether a character is seen wherever it stands."""
    return char == " " or (kind[0] in "LNPS" and char not in _BLANK)


def _is_selector(char: str) -> bool:
    return any(first <= char <= last for first, last in _SELECTORS)


def _fits(mark: str, base: str, text: str, index: int) -> bool:
    """Return whether a mark is seen after this base: it is of its script, or of every one."""
    if not base:
        return False
    if mark in _STACKERS:
        return _script(mark) == _script(base) == _script(text[index + 1 : index + 2])
    return _script(mark) in ("COMBINING", _script(base))


def _script(char: str) -> str:
    """Return the first word of a character's name, which is the script of a letter."""
    from unicodedata import name

    return name(char, "").partition(" ")[0] if char else ""


def _selects_shape(char: str, text: str, index: int) -> bool:
    """Return whether a joiner or the selector, after a shown character, selects a shape."""
    before, after = text[index - 1], text[index + 1 : index + 2]
    if char == _AS_PICTURE:
        return _is_picture(before) or (before in _KEYS and after == _KEYCAP)
    if not after:
        return False
    if char == _JOINER and _is_picture(after):
        is_changed = before == _AS_PICTURE or _SKIN_TONES[0] <= before <= _SKIN_TONES[1]
        return _is_picture(before) or (is_changed and _is_picture(text[index - 2 : index - 1]))
    script = _script(before)
    if script != _script(after):
        return False
    if script in _CURSIVE:
        return char == _NON_JOINER and before.isalpha() and after.isalpha()
    from unicodedata import combining

    return combining(before) == _VIRAMA and after.isalpha()


def _is_picture(char: str) -> bool:
    from unicodedata import category

    if not char or char in _BLANK:
        return False
    return category(char) == "So" or char in _OTHER_PICTURES
