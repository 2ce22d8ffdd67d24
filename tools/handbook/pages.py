"""Parse Markdown files: headings with their anchors, links, code, tables."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
IN_HTML = re.compile(r"""((?:href|src|srcset)\s*=\s*)["']([^"'\s]+)["']""")
_ID_IN_HTML = re.compile(r"""(?:id|name)\s*=\s*["']([^"'\s]+)""")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_OURS = ("src", "tests", "docs", "plugin", "bench", "e2e", "tools")


def parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


class Heading(NamedTuple):
    level: int
    text: str
    anchor: str
    line: int


class Link(NamedTuple):
    target: str
    line: int


class Page:
    """One Markdown file."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text("utf-8") if text is None else text
        body = self.text
        if body.startswith("---\n"):
            # A skill begins with settings, which are no Markdown.
            head, _, markdown = body[4:].partition("\n---\n")
            body = "\n" * (head.count("\n") + 2) + markdown
        self.tokens = parser().parse(body)
        self.headings = list(_headings(self.tokens))

    @property
    def name(self) -> str:
        return os.path.relpath(self.path, ROOT)

    @property
    def title(self) -> str:
        return self.headings[0].text if self.headings else self.path.stem

    @functools.cached_property
    def anchors(self) -> set[str]:
        written = {name for _, html in _html(self.tokens) for name in _ID_IN_HTML.findall(html)}
        return {heading.anchor for heading in self.headings} | written

    def links(self) -> Iterator[Link]:
        for token, line in _inline(self.tokens):
            target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src")
            if target:
                yield Link(str(target), line)
        for line, html in _html(self.tokens):
            yield from (Link(match[2], line) for match in IN_HTML.finditer(html))

    def prose(self) -> Iterator[tuple[str, int]]:
        """Yield text and inline code with their lines; skip blocks of code."""
        for token, line in _inline(self.tokens):
            if token.type in ("text", "code_inline"):
                yield token.content, line

    def codes(self, section: str | None = None) -> list[tuple[str, int]]:
        """Return the inline code of a section, or of the whole page, with its lines."""
        tokens = self.tokens if section is None else self.section(section)
        return [(t.content, line) for t, line in _inline(tokens) if t.type == "code_inline"]

    def fences(self) -> Iterator[tuple[str, str, int]]:
        """Yield language, text and line of each block of code."""
        for token in self.tokens:
            if token.type in ("fence", "code_block"):
                yield token.info.strip(), token.content, _line(token)

    def first_cells(self, section: str | None = None) -> list[str]:
        """Return the plain text of the first cell of each table row, in a section or the page."""
        cells = []
        tokens = self.tokens if section is None else self.section(section)
        for number, token in enumerate(tokens):
            if token.type == "tr_open" and number + 2 < len(tokens):
                cells.append(plain(tokens[number + 2]))
        return cells

    def section(self, title: str) -> list[Token]:
        """Return the tokens below a heading, up to the next heading of its level or above."""
        for number, token in enumerate(self.tokens):
            if token.type == "heading_open" and plain(self.tokens[number + 1]) == title:
                following = self.tokens[number + 3 :]
                ends = [at for at, t in enumerate(following) if t.type == "heading_open"
                        and t.tag <= token.tag]  # fmt: skip
                return following[: ends[0]] if ends else following
        return []


def plain(inline: Token) -> str:
    """Return the text of an inline token without its marks."""
    types = ("text", "code_inline")
    return "".join(child.content for child in inline.children or () if child.type in types)


def slug(text: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return _NOT_IN_SLUG.sub("", text.strip().lower()).replace(" ", "-")


def _headings(tokens: list[Token]) -> Iterator[Heading]:
    seen: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            text = plain(tokens[number + 1])
            anchor = slug(text)
            count = seen.get(anchor, 0)
            seen[anchor] = count + 1
            yield Heading(int(token.tag[1]), text, f"{anchor}-{count}" if count else anchor,
                          _line(token))  # fmt: skip


def _inline(tokens: list[Token]) -> Iterator[tuple[Token, int]]:
    for token in tokens:
        line = _line(token)
        for child in token.children or ():
            if child.type in ("softbreak", "hardbreak"):
                line += 1
            yield child, line


def _html(tokens: list[Token]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        if token.type == "html_block":
            yield _line(token), token.content
        for child in token.children or ():
            if child.type == "html_inline":
                yield _line(token), child.content


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 0


def every_file(pattern: str, root: Path = ROOT) -> list[Path]:
    """Return the repository's files that match, also those that are not in git yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", pattern]
    listing = subprocess.run(command, cwd=root, capture_output=True, check=False)  # noqa: S603
    names = listing.stdout.decode().split("\0") if listing.returncode == 0 else []
    if not any(names):
        # Not a repository: an unpacked release.
        below = [path for name in _OURS for path in (root / name).rglob("*")]
        files = [path for path in (*root.glob("*"), *below) if path.is_file()]
        return sorted(p for p in files if fnmatch(p.relative_to(root).as_posix(), pattern))
    return sorted(root / name for name in set(names) if name and (root / name).is_file())


@functools.cache
def of_repository() -> tuple[Page, ...]:
    """Return every Markdown file of the repository."""
    return tuple(Page(path) for path in every_file("*.md"))
