"""A text for people as blocks: headings, paragraphs, lists and tables, and how they are shortened.

Whoever makes a document says what its parts are; the renderers (``markdown``, ``html``) decide
how they look, and escape every text in it: none of them is trusted, whoever wrote it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Span: TypeAlias = "str | Code | Strong"
    Spans: TypeAlias = "Sequence[Span]"
    Row: TypeAlias = "Sequence[Spans]"


REPORT_FORMATS = ("markdown", "html", "pr")
"""How a report can look; the first is the default."""


class Code:
    """Text that is shown as it was typed: a command, a path, a commit."""

    __slots__ = ("text",)

    def __init__(self, text: object) -> None:
        self.text = str(text)


class Strong:
    """Text that is to be seen first."""

    __slots__ = ("text",)

    def __init__(self, text: object) -> None:
        self.text = str(text)


class Part:
    """A part of a document."""

    rows: Sequence[object] = ()
    rank = 0
    """Rows of blocks with the highest rank are left out first; of those with 0, none is."""
    left_out = 0
    """The number of rows that were left out at the end."""

    def keep(self, count: int) -> None:
        """Leave out the rows after the first ``count``."""
        self.left_out += len(self.rows) - count
        self.rows = self.rows[:count]


class Heading(Part):
    """A heading; the document's own title has level 1."""

    def __init__(self, level: int, text: str) -> None:
        self.level = level
        self.text = text


class Paragraph(Part):
    """Lines of text that belong together."""

    def __init__(self, *spans: Span) -> None:
        self.spans = spans


class Bullets(Part):
    """A list whose items have one line each."""

    def __init__(self, rows: Sequence[Spans], rank: int = 0) -> None:
        self.rows: Sequence[Spans] = rows
        self.rank = rank


class Table(Part):
    """A table; each cell is a list of spans."""

    def __init__(self, header: Sequence[str], rows: Sequence[Row], rank: int = 0) -> None:
        self.header = header
        self.rows: Sequence[Row] = rows
        self.rank = rank


def fitted(blocks: Sequence[Part], limit: int, render: Callable[[Sequence[Part]], str]) -> str:
    """Return the rendered document with at most ``limit`` characters.

    Rows are left out until it fits, half of a block's at a time, the least important block first.
    """
    text = render(blocks)
    for block in sorted(blocks, key=lambda block: -block.rank):
        while len(text) > limit and block.rank and block.rows:
            block.keep(len(block.rows) // 2)
            text = render(blocks)
    return text
