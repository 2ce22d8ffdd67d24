"""Stored text on a page: it may hold anything, stays inside its line or item, and comes back.

Two marks, both Markdown's own. A backslash goes before what would start structure at the
beginning of a line, and stands alone for an empty line. ``&#13;`` is a character that a page
cannot show: a control character, or white space at either end of a line. Text that has such a mark
of its own gets one more, so ``plain`` gives back what was stored, whatever that was.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"&#([0-9]{1,7});")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_AT_ENDS = re.compile(r"\A\s|\s\Z")
_LAST_CHARACTER = 0x10FFFF

_STARTERS = r"(?=[#>+*_=~<|:-]|`{3}|\Z)"
_STRUCTURE = re.compile(r"\\*" + _STARTERS)
_ESCAPED = re.compile(r"\\+" + _STARTERS)
_NUMBERED = re.compile(r"([0-9]{1,9})\\*[.)]")
_NUMBERED_ESCAPED = re.compile(r"([0-9]{1,9})\\+[.)]")
_EMPTY = re.compile(r"\\*\Z")


def one_line(text: str) -> str:
    """Text in a heading, a name or a path: its line breaks are codes too."""
    return "&#10;".join(_coded(line) for line in text.split("\n"))


def heading(text: str) -> str:
    """Text that is a heading: Markdown would drop a last ``#``."""
    line = one_line(text)
    return f"{line[:-1]}&#35;" if line.endswith("#") else line


def span(text: str) -> str:
    """Text as code, such as a path."""
    return "`" + one_line(text).replace("`", "&#96;") + "`"


def after_key(text: str, indent: int) -> str:
    """Text behind a key on the same line; what follows is indented below it."""
    first, *others = text.split("\n")
    shown = _coded(first)
    if text and _EMPTY.match(shown):
        shown = "\\" + shown
    return _indented([shown, *(_escaped(_coded(line)) for line in others)], indent)


def item(text: str, indent: int) -> str:
    """Text that is a list's item by itself."""
    return _indented([_escaped(_coded(line)) for line in text.split("\n")], indent)


def block(text: str) -> str:
    """Text that is a section's: empty lines between others may stay, they part paragraphs."""
    lines = text.split("\n") if text else []
    last = len(lines) - 1
    return "\n".join(
        line and _escaped(_coded(line)) if 0 < place < last else _escaped(_coded(line))
        for place, line in enumerate(lines)
    )


def plain(lines: list[str]) -> str:
    """What ``after_key`` was given; of what people wrote, their words."""
    first, *others = [line.strip() for line in lines] or [""]
    if first and _EMPTY.match(first):
        first = first[1:]
    return "\n".join(map(decoded, [first, *map(_unescaped, others)]))


def plain_item(lines: list[str]) -> str:
    return "\n".join(decoded(_unescaped(line.strip())) for line in lines)


def plain_block(lines: list[str]) -> str:
    """A section's text without the empty lines around it; people's indents stay."""
    first, end = trimmed(lines, 0, len(lines))
    return "\n".join(decoded(_unescaped(line.rstrip())) for line in lines[first:end])


def trimmed(lines: list[str], first: int, end: int) -> tuple[int, int]:
    """The range without empty lines at its ends."""
    while first < end and not lines[first].strip():
        first += 1
    while first < end and not lines[end - 1].strip():
        end -= 1
    return first, end


def decoded(line: str) -> str:
    return _CODE.sub(_character, line)


def _coded(line: str) -> str:
    line = _CODE.sub(lambda found: f"&#38;{found.group()[1:]}", line)
    return _AT_ENDS.sub(_code, _UNSEEN.sub(_code, line))


def _code(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"


def _character(found: re.Match[str]) -> str:
    number = int(found[1])
    return chr(number) if number <= _LAST_CHARACTER else found.group()


def _escaped(line: str) -> str:
    numbered = _NUMBERED.match(line)
    at = numbered.end(1) if numbered else 0
    return f"{line[:at]}\\{line[at:]}" if numbered or _STRUCTURE.match(line) else line


def _unescaped(line: str) -> str:
    numbered = _NUMBERED_ESCAPED.match(line)
    at = numbered.end(1) if numbered else 0
    return line[:at] + line[at + 1 :] if numbered or _ESCAPED.match(line) else line


def _indented(lines: list[str], indent: int) -> str:
    return ("\n" + " " * indent).join(lines)
