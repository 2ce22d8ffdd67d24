"""Encode stored text for a Markdown page, and decode it again.

Stored text may hold anything, and must not start structure where it is put. Two of Markdown's own
marks are used. A backslash goes before what would start structure at the beginning of a line, and
is alone on an empty line. ``&#13;`` is a character that a page cannot show: a control character, or
white space at either end of a line. Text with such a mark of its own gets one more. So decoding
gives back what was stored, and of what people wrote, their words.
"""

from __future__ import annotations

import re
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.markdown import Block

_CODE = re.compile(r"&#([0-9]{1,7});")
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_OUTER_SPACE = re.compile(r"\A\s|\s\Z")
_LAST_CHARACTER = 0x10FFFF

_STARTERS = r"(?=[#>+*_=~<|:-]|`{3}|\Z)"
_STRUCTURE = re.compile(r"\\*" + _STARTERS)
_ESCAPED = re.compile(r"\\+" + _STARTERS)
_NUMBERED = re.compile(r"([0-9]{1,9})\\*[.)]")
_NUMBERED_ESCAPED = re.compile(r"([0-9]{1,9})\\+[.)]")
_EMPTY = re.compile(r"\\*\Z")


def encode_line(text: str) -> str:
    """Encode text for one line, such as a name or a path: line breaks become codes too."""
    return "&#10;".join(_encode(line) for line in text.split("\n"))


def encode_heading(text: str) -> str:
    """Encode text for a heading. Markdown would drop a final ``#``."""
    line = encode_line(text)
    return f"{line[:-1]}&#35;" if line.endswith("#") else line


def encode_span(text: str) -> str:
    """Encode text as inline code, such as a path."""
    return "`" + encode_line(text).replace("`", "&#96;") + "`"


def encode_after_key(text: str, indent: int) -> str:
    """Encode text that follows a key on its line; further lines are indented below it."""
    first, *others = text.split("\n")
    line = _encode(first)
    if text and _EMPTY.match(line):
        line = "\\" + line
    return ("\n" + " " * indent).join([line, *(_escape(_encode(other)) for other in others)])


def encode_item(text: str, indent: int) -> str:
    """Encode text that is the whole item of a list."""
    return ("\n" + " " * indent).join(_escape(_encode(line)) for line in text.split("\n"))


def encode_block(text: str) -> str:
    """Encode the text of a section. Empty lines inside it stay: they separate paragraphs."""
    lines = text.split("\n") if text else []
    return "\n".join(
        _escape(_encode(line)) if line or index in (0, len(lines) - 1) else line
        for index, line in enumerate(lines)
    )


def decode_line(line: str) -> str:
    """Return the text of an encoded line."""
    return _CODE.sub(_character, line)


def decode_after_key(lines: list[str]) -> str:
    """Return the text that follows a key."""
    first, *others = [line.strip() for line in lines] or [""]
    if first and _EMPTY.match(first):
        first = first[1:]
    return "\n".join(map(decode_line, [first, *map(_unescape, others)]))


def decode_item(lines: list[str]) -> str:
    """Return the text of a list's item."""
    return "\n".join(decode_line(_unescape(line.strip())) for line in lines)


def decode_block(lines: list[str]) -> str:
    """Return the text of a section without the empty lines around it; people's indents stay."""
    first, end = trim_lines(lines, 0, len(lines))
    return "\n".join(decode_line(_unescape(line.rstrip())) for line in lines[first:end])


def trim_lines(lines: list[str], first: int, end: int) -> tuple[int, int]:
    """Return a range of lines without the empty ones at its ends."""
    while first < end and not lines[first].strip():
        first += 1
    while first < end and not lines[end - 1].strip():
        end -= 1
    return first, end


def sections_of(blocks: list[Block], line_count: int) -> list[tuple[Block, int, list[Block]]]:
    """Return the headings of the second level, each with its section's end and blocks."""
    heads = [i for i, b in enumerate(blocks) if b.kind == "heading" and b.depth <= 2]
    sections = []
    for head, following in pairwise([*heads, len(blocks)]):
        end = blocks[following].first if following < len(blocks) else line_count
        if blocks[head].depth == 2:
            sections.append((blocks[head], end, blocks[head + 1 : following]))
    return sections


def _encode(line: str) -> str:
    line = _CODE.sub(lambda match: f"&#38;{match.group()[1:]}", line)
    return _OUTER_SPACE.sub(_code, _INVISIBLE.sub(_code, line))


def _code(match: re.Match[str]) -> str:
    return f"&#{ord(match.group())};"


def _character(match: re.Match[str]) -> str:
    number = int(match[1])
    return chr(number) if number <= _LAST_CHARACTER else match.group()


def _escape(line: str) -> str:
    """Put a backslash before what would start structure."""
    numbered = _NUMBERED.match(line)
    at = numbered.end(1) if numbered else 0
    return f"{line[:at]}\\{line[at:]}" if numbered or _STRUCTURE.match(line) else line


def _unescape(line: str) -> str:
    numbered = _NUMBERED_ESCAPED.match(line)
    at = numbered.end(1) if numbered else 0
    return line[:at] + line[at + 1 :] if numbered or _ESCAPED.match(line) else line
