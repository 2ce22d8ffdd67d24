"""Text on its way to a terminal: nothing that came from storage is printed without ``clean``.

State is written by models and by strangers' repositories. An escape sequence in it could rewrite
the screen, a bidirectional override could show a command as another one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACES_AND_JOINERS = "\u00a0\u2009\u200c\u200d\u202f\u3000"
"""Not printable to Python, but harmless, and needed by emoji and by several scripts."""
_AS_PICTURE = "\ufe0f"
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: object) -> str:
    """The text on one line, with everything that could steer a terminal shown as an escape."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join([char if _harmless(char) else _escaped(char) for char in line])


def clean_json(text: str, *, ascii_only: bool = False) -> str:
    """The same JSON value, with what could steer a terminal escaped as JSON does it.

    JSON itself escapes only what lies below a space; outside of strings all is ASCII.
    """
    if text.isascii() if ascii_only else text.isprintable():
        return text
    return "".join(
        [
            char if char < "\x7f" or (not ascii_only and _harmless(char)) else _json_escaped(char)
            for char in text
        ]
    )


def cells(line: str) -> int:
    """How many columns of a terminal the clean line takes."""
    if line.isascii():
        return len(line)
    return sum([_cells_of(char) for char in line])


def padded(line: str, width: int) -> str:
    return line + " " * (width - cells(line))


def shortened(line: str, width: int) -> str:
    """The line within so many columns."""
    if cells(line) <= width:
        return line
    kept, left = "", width - 1
    for char in line:
        left -= _cells_of(char)
        if left < 0:
            break
        kept += char
    return kept + "…"


def wrapped(text: str, width: int) -> Iterator[str]:
    """The clean line, painted or not, in pieces of so many columns; the later ones are indented.

    A word that is longer than that stays whole, so that a path or an address can be copied: the
    terminal folds it. Writing that has no spaces is folded here.
    """
    bare = text.lstrip(" ")
    line = " " * (len(text) - len(bare))
    indent, begun = line + "    ", False
    for word in bare.split(" "):
        longer = f"{line} {word}" if begun else line + word
        if painted_cells(longer) > width:
            if not word.isascii() and painted_cells(word) > width - len(indent) and _is_wide(word):
                *full, longer = _folded(longer, width, indent)
                yield from full
            elif begun:
                yield line.rstrip(" ")
                longer = indent + word
        line, begun = longer, True
    yield line


def _is_wide(word: str) -> bool:
    return any(_cells_of(char) > 1 for char in word)


def _folded(line: str, width: int, indent: str) -> list[str]:
    """The line cut after so many columns, wherever that is; colours take none."""
    pieces, taken, place = [""], 0, 0
    while place < len(line):
        end = line.index("m", place) + 1 if line[place] == "\x1b" else place + 1
        columns = 0 if end > place + 1 else _cells_of(line[place])
        if taken + columns > width:
            pieces.append(indent)
            taken = len(indent)
        pieces[-1] += line[place:end]
        taken += columns
        place = end
    return pieces


def painted_cells(line: str) -> int:
    """How many columns a line takes that has colours in it."""
    plain, *painted = line.split("\x1b[")
    return cells(plain) + sum([cells(part.partition("m")[2]) for part in painted])


def _cells_of(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if char == _AS_PICTURE:
        # It makes the character before it wide in most terminals; the others are only cautious.
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def _harmless(char: str) -> bool:
    return char.isprintable() or char in _SPACES_AND_JOINERS


def _escaped(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return _NAMED.get(char) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_escaped(char: str) -> str:
    number = ord(char)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
