"""The blocks of a Markdown page: headings, lists, quotes, code and paragraphs.

Only blocks are parsed. Text inside a line is left to the reader of a page. ``markdown_it`` is
imported at the first page that is parsed.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

    Rule = Callable[[StateBlock, int, int, bool], bool]

MAX_LINES = 20_000
"""The parser would take seconds for a longer page."""

_MAX_DEPTH = 6
"""Levels of lists and quotes that are parsed (a list and its item are two); the rest is text."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_HTML_ENDS = ("-->", "?>", "]]>", "</pre>", ">")
_PROBE = "end of the page"


class Block:
    """The lines from ``first`` up to ``end``, which is not part of it."""

    __slots__ = ("children", "depth", "end", "first", "kind", "text")

    def __init__(self, kind: str, first: int, end: int, depth: int) -> None:
        self.kind = kind
        self.first = first
        self.end = end
        self.depth = depth
        """Of a heading: 1 to 6."""
        self.text = ""
        self.children: list[Block] = []


def split_lines(text: str) -> list[str]:
    """Return the lines with their ends, split as Markdown does."""
    return _LINE.findall(text)


def newline_of(lines: list[str]) -> str:
    """Return the line end of a page."""
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def block_tree(text: str, *, underlined: bool = False) -> list[Block]:
    """Return the blocks of a page with their children; ``underlined``: such headings count too."""
    return _parse(text, nested=True, underlined=underlined)


def outline(text: str) -> list[Block]:
    """Return the top blocks of a long page, faster: lists and quotes are taken for text."""
    return _parse(text, nested=False)


def closing_mark(text: str, *, nested: bool) -> str:
    """Return the line that closes code or a comment left open at the end of a page; else "".

    ``nested`` as the page will be parsed: code that is left open in a list ends with the list.
    """
    headings = [block.first for block in _parse(text, nested=nested) if block.kind == "heading"]
    lines = split_lines(text)[headings[-1] if headings else 0 :]
    tail = "".join(lines)
    last = _last_block(tail, "", nested=nested)
    fence = _FENCE.match(lines[last.first]) if last.first < len(lines) else None
    marks = ["", fence[1]] if fence else ["", *_HTML_ENDS]
    return next((m for m in marks if _last_block(tail, m, nested=nested).text == _PROBE), "")


def _last_block(text: str, mark: str, *, nested: bool) -> Block:
    """Append a mark and a heading; return the last block: that heading, unless it is swallowed."""
    return _parse(f"{text}\n{mark}\n\n# {_PROBE}\n", nested=nested)[-1]


@lru_cache(maxsize=2)
def _parse(text: str, *, nested: bool, underlined: bool = False) -> list[Block]:
    """Parse a page. Cached because a page is read and then patched; blocks are never changed."""
    page = Block("page", 0, 0, 0)
    stack = [page]
    for token in _parser(nested=nested, underlined=underlined).parse(text):
        if token.type == "inline":
            stack[-1].text = token.content
        elif token.nesting < 0:
            stack.pop()
        else:
            first, end = token.map or (0, 0)
            depth = int(token.tag[1]) if token.type == "heading_open" else 0
            block = Block(token.type.removesuffix("_open"), first, end, depth)
            stack[-1].children.append(block)
            if token.nesting > 0:
                stack.append(block)
    return page.children


@cache
def _parser(*, nested: bool, underlined: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import blockquote, list_block

    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _MAX_DEPTH})
    parser.disable(["inline", "text_join", "reference"])
    if not underlined:
        parser.disable("lheading")
    # The parser's own limit drops everything that follows; this one only stops the nesting.
    ends = ["paragraph", "reference", "blockquote"]
    parser.block.ruler.at("blockquote", _bounded(blockquote), {"alt": [*ends, "list"]})
    parser.block.ruler.at("list", _bounded(list_block), {"alt": ends})
    return parser if nested else parser.disable(["list", "blockquote"])


def _bounded(rule: Rule) -> Rule:
    def bounded(state: StateBlock, first: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the parser's way
        # A silent call asks whether a paragraph ends here; it nests nothing.
        return (silent or state.level < _MAX_DEPTH) and rule(state, first, end, silent)

    return bounded
