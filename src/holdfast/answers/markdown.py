"""Render a document as Markdown that GitHub shows as it is meant.

Every text is made inert: what would begin a heading, a list or a table, HTML, a formula or a link
is escaped, and whatever GitHub looks for after it has read the Markdown (a mention, the number of
an issue, which a word such as "fixes" before it would close, an address, an emoji) is broken by an
invisible space. A backslash does not stop these: https://github.com/github/markup/issues/1168.
"""

from __future__ import annotations

import re

from holdfast.answers.documents import Bullets, Code, Heading, Paragraph, Strong, Table
from holdfast.core.visible import clean, folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.answers.documents import Part, Span, Spans

BREAK = "\u200b"
"""A space without width: it breaks a word, and is not seen. It is written as ``&#8203;``."""
_ENTITIES = {char: f"&#{ord(char)};" for char in "\\`|$"} | {
    "&": "&amp;", "<": "&lt;", ">": "&gt;", BREAK: f"&#{ord(BREAK)};"
}  # fmt: skip
_SPECIAL = re.compile(f"[{re.escape(''.join(_ENTITIES))}]" + r"|[*\[\]~]|(?<![^\W_])_|_(?![^\W_])")
_REFERENCE = re.compile(r"@(?=\w)|#(?=\w)|(?i:\bgh-)(?=\d)|(?i:\bwww)(?=\.)|:(?=//|[\w+-]+:)")
"""The beginnings of mentions, numbers of issues, addresses and emoji."""
_BEGINNING = re.compile(r"^(?:([-+#=])|(\d{1,9})([.)]))")
"""What would make a list, a heading or a line of the text."""
_PLAIN_CODE = re.compile(r"[^\\`|&<>$]+")
"""Code without anything that could be read in another way."""


def markdown(blocks: Sequence[Part]) -> str:
    """Return a document as Markdown."""
    return "\n\n".join([text for block in blocks if (text := _block(block))]) + "\n"


def inert(text: object) -> str:
    """Return any text as one line of Markdown that shows it, and does nothing else."""
    line = _REFERENCE.sub(rf"\g<0>{BREAK}", clean(folded(str(text))))
    return _SPECIAL.sub(lambda match: _ENTITIES.get(match[0]) or f"\\{match[0]}", line)


def plain_title(text: object) -> str:
    """Return any text as one line without Markdown, as a title is, that refers to nothing."""
    return _REFERENCE.sub(r"\g<0> ", clean(folded(str(text))))


def _escaped_beginning(match: re.Match[str]) -> str:
    return f"\\{match[1]}" if match[1] else f"{match[2]}\\{match[3]}"


def _span(span: Span) -> str:
    if isinstance(span, Strong):
        return f"**{inert(span.text)}**"
    if isinstance(span, Code):
        text = clean(folded(span.text))
        if _PLAIN_CODE.fullmatch(text) and not _REFERENCE.search(text):
            return f"`{text}`"
        return f"<code>{inert(span.text)}</code>" if text else ""
    return inert(span)


def _spans(spans: Spans) -> str:
    return " ".join(filter(None, map(_span, spans)))


def _line(spans: Spans) -> str:
    """Return spans as a line of its own, which begins no list and no heading."""
    return _BEGINNING.sub(_escaped_beginning, _spans(spans))


def _block(block: Part) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {inert(block.text)}"
    if isinstance(block, Paragraph):
        return _line(block.spans)
    if isinstance(block, Bullets):
        lines = [f"- {_line(row)}" for row in block.rows]
        return "\n".join([*lines, *[f"- {line}" for line in _rest(block)]])
    if isinstance(block, Table) and block.rows:
        rows = [[_spans(cell) for cell in row] for row in block.rows]
        table = [list(map(inert, block.header)), ["---"] * len(block.header), *rows]
        lines = [f"| {' | '.join(row)} |" for row in table]
        return "\n".join([*lines, *[f"\n{line}" for line in _rest(block)]])
    return "\n".join(_rest(block))


def _rest(block: Part) -> list[str]:
    return [f"_{block.left_out} more are left out here._"] if block.left_out else []
