"""Markdown files as they are read here: headings with their anchors, links, code, tables."""

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
            head, _, rest = body[4:].partition("\n---\n")
            body = "\n" * (head.count("\n") + 2) + rest
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
        written = {found for _, html in _html(self.tokens) for found in _ID_IN_HTML.findall(html)}
        return {heading.anchor for heading in self.headings} | written

    def links(self) -> Iterator[Link]:
        for token, line in _inline(self.tokens):
            target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src")
            if target:
                yield Link(str(target), line)
        for line, html in _html(self.tokens):
            yield from (Link(found[2], line) for found in IN_HTML.finditer(html))

    def prose(self) -> Iterator[tuple[str, int]]:
        """Text and code inside of lines; no blocks of code."""
        for token, line in _inline(self.tokens):
            if token.type in ("text", "code_inline"):
                yield token.content, line

    def codes(self, section: str | None = None) -> list[tuple[str, int]]:
        """What stands as code inside of lines, in the section of this heading or in all."""
        tokens = self.tokens if section is None else self.section(section)
        return [(t.content, line) for t, line in _inline(tokens) if t.type == "code_inline"]

    def fences(self) -> Iterator[tuple[str, str, int]]:
        """Blocks of code: their language, their text, their line."""
        for token in self.tokens:
            if token.type in ("fence", "code_block"):
                yield token.info.strip(), token.content, _line(token)

    def first_cells(self, section: str | None = None) -> list[str]:
        """The first cell of every row of the tables in a section or in all, without marks."""
        found = []
        tokens = self.tokens if section is None else self.section(section)
        for number, token in enumerate(tokens):
            if token.type == "tr_open" and number + 2 < len(tokens):
                found.append(plain(tokens[number + 2]))
        return found

    def section(self, title: str) -> list[Token]:
        """The blocks under a heading, down to the next of its level."""
        for number, token in enumerate(self.tokens):
            if token.type == "heading_open" and plain(self.tokens[number + 1]) == title:
                rest = self.tokens[number + 3 :]
                ends = [at for at, t in enumerate(rest) if t.type == "heading_open"
                        and t.tag <= token.tag]  # fmt: skip
                return rest[: ends[0]] if ends else rest
        return []


def plain(inline: Token) -> str:
    """The text of a line without its marks."""
    kept = ("text", "code_inline")
    return "".join(child.content for child in inline.children or () if child.type in kept)


def slug(text: str) -> str:
    """The anchor of a heading, as the hosts of repositories make it."""
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
    """The files of the repository that are called so, in git or about to be."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", pattern]
    found = subprocess.run(asked, cwd=root, capture_output=True, check=False)  # noqa: S603
    names = found.stdout.decode().split("\0") if found.returncode == 0 else []
    if not any(names):
        # Not a repository: an unpacked release.
        below = [path for name in _OURS for path in (root / name).rglob("*")]
        there = [path for path in (*root.glob("*"), *below) if path.is_file()]
        return sorted(p for p in there if fnmatch(p.relative_to(root).as_posix(), pattern))
    return sorted(root / name for name in set(names) if name and (root / name).is_file())


@functools.cache
def of_repository() -> tuple[Page, ...]:
    """Every Markdown file of the repository."""
    return tuple(Page(path) for path in every_file("*.md"))
