"""The blocks of a page, as a Markdown parser sees them: what is a heading, and what only looks so.

Only blocks are parsed. What stands within a line is text, and is read as such.
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

MOST_LINES = 20_000
"""A page with more is nobody's plan; the parser would take seconds."""

_DEEPEST = 6
"""Levels of lists and quotes that are told apart, a list being two; below them all is text."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ENDS = ("-->", "?>", "]]>", "</pre>", ">")
_PROBE = "end of the page"


class Block:
    """A block of the lines ``first`` to ``end``, which is the first that is not in it any more."""

    __slots__ = ("depth", "end", "first", "inside", "kind", "text")

    def __init__(self, kind: str, first: int, end: int, depth: int) -> None:
        self.kind = kind
        self.first = first
        self.end = end
        self.depth = depth
        """Of a heading: 1 to 6."""
        self.text = ""
        self.inside: list[Block] = []


def lines_of(text: str) -> list[str]:
    """The lines with their ends, as Markdown counts them."""
    return _LINE.findall(text)


def newline_of(lines: list[str]) -> str:
    """How this page ends its lines."""
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def tree(text: str, *, underlined: bool = False) -> list[Block]:
    """The blocks of a page, with their own inside them; ``underlined``: with such headings too."""
    return _parsed(text, nested=True, underlined=underlined)


def outline(text: str) -> list[Block]:
    """The blocks of a long page, faster: lists and quotes are text, which holds no heading."""
    return _parsed(text, nested=False)


def closing(text: str, *, nested: bool) -> str:
    """Return what ends the code or the comment that somebody left open at the end of a page.

    ``nested`` as the page will be read: code that is left open in a list ends with the list.
    """
    heads = [block.first for block in _parsed(text, nested=nested) if block.kind == "heading"]
    lines = lines_of(text)[heads[-1] if heads else 0 :]
    tail = "".join(lines)
    last = _last_with(tail, "", nested=nested)
    fence = _FENCE.match(lines[last.first]) if last.first < len(lines) else None
    ends = ["", fence[1]] if fence else ["", *_ENDS]
    return next((end for end in ends if _last_with(tail, end, nested=nested).text == _PROBE), "")


def _last_with(text: str, end: str, *, nested: bool) -> Block:
    """Return the last block when a heading follows: that heading, unless something swallows it."""
    return _parsed(f"{text}\n{end}\n\n# {_PROBE}\n", nested=nested)[-1]


@lru_cache(maxsize=2)
def _parsed(text: str, *, nested: bool, underlined: bool = False) -> list[Block]:
    """Remembered, since whoever reads a page patches it next; nobody changes a block."""
    page = Block("page", 0, 0, 0)
    opened = [page]
    for token in _parser(nested=nested, underlined=underlined).parse(text):
        if token.type == "inline":
            opened[-1].text = token.content
        elif token.nesting < 0:
            opened.pop()
        else:
            first, end = token.map or (0, 0)
            depth = int(token.tag[1]) if token.type == "heading_open" else 0
            block = Block(token.type.removesuffix("_open"), first, end, depth)
            opened[-1].inside.append(block)
            if token.nesting > 0:
                opened.append(block)
    return page.inside


@cache
def _parser(*, nested: bool, underlined: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import blockquote, list_block

    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _DEEPEST})
    parser.disable(["inline", "text_join", "reference"])
    if not underlined:
        parser.disable("lheading")
    # The parser's own limit would leave out all that follows; this one only stops the nesting.
    ends = ["paragraph", "reference", "blockquote"]
    parser.block.ruler.at("blockquote", _bounded(blockquote), {"alt": [*ends, "list"]})
    parser.block.ruler.at("list", _bounded(list_block), {"alt": ends})
    return parser if nested else parser.disable(["list", "blockquote"])


def _bounded(rule: Rule) -> Rule:
    def bounded(state: StateBlock, first: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the parser's way
        # Asked silently, it says whether a paragraph ends here, which nests nothing.
        return (silent or state.level < _DEEPEST) and rule(state, first, end, silent)

    return bounded
