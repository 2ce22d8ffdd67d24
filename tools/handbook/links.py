"""Find dead links, pages that no link leads to, and names of documents that do not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from handbook.pages import DOCS, ROOT, Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NAMED = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")
ENTRANCE = DOCS / "index.md"


def target_of(page: Page, link: str) -> tuple[Path, str] | None:
    """Return the file and the anchor of a link; ``None`` for a link to another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    where = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    return where, unquote(parts.fragment)


def dead(pages: Iterable[Page], root: Path = ROOT) -> Iterator[str]:
    """Yield the links to a file or an anchor that does not exist."""
    pages_by_path = {page.path: page for page in pages}
    for page in pages_by_path.values():
        for link, line in page.links():
            target = target_of(page, link)
            if target is None:
                continue
            where, anchor = target
            if not where.is_relative_to(root):
                yield f"{page.name}:{line}: {link} leads out of the repository"
            elif not where.exists():
                yield f"{page.name}:{line}: {link} leads nowhere"
            elif anchor and where in pages_by_path and anchor not in pages_by_path[where].anchors:
                yield f"{page.name}:{line}: {link}: there is no heading #{anchor}"


def named(pages: Iterable[Page], root: Path = ROOT) -> Iterator[str]:
    """Yield the names of documents in prose that do not exist."""
    for page in pages:
        for text, line in page.prose():
            for name in NAMED.findall(text):
                if not (root / name).exists():
                    yield f"{page.name}:{line}: {name} is named and not there"


def unreached(pages: Iterable[Page], entrance: Path = ENTRANCE) -> Iterator[str]:
    """Yield the pages of the handbook that cannot be reached from its entrance."""
    pages_by_path = {page.path: page for page in pages}
    reached: set[Path] = set()
    waiting = [entrance]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in pages_by_path:
            continue
        reached.add(path)
        links = (target_of(pages_by_path[path], link) for link, _ in pages_by_path[path].links())
        for where in (target[0] for target in links if target):
            # A link to a folder leads to everything in it.
            inside = [path for path in pages_by_path if path.parent == where]
            waiting += [where] if where.suffix == ".md" else inside
    for path, page in pages_by_path.items():
        if path.is_relative_to(entrance.parent) and path not in reached:
            yield f"{page.name}:1: no way leads here from {entrance.name}"
