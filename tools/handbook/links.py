"""Links that lead nowhere, pages that nothing leads to, documents that are named and not there."""

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
    """The file that a link of a page means, and the anchor in it; nothing for one abroad."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    where = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    return where, unquote(parts.fragment)


def dead(pages: Iterable[Page], root: Path = ROOT) -> Iterator[str]:
    """Links to a file or an anchor that is not there."""
    known = {page.path: page for page in pages}
    for page in known.values():
        for link, line in page.links():
            found = target_of(page, link)
            if found is None:
                continue
            where, anchor = found
            if not where.is_relative_to(root):
                yield f"{page.name}:{line}: {link} leads out of the repository"
            elif not where.exists():
                yield f"{page.name}:{line}: {link} leads nowhere"
            elif anchor and where in known and anchor not in known[where].anchors:
                yield f"{page.name}:{line}: {link}: there is no heading #{anchor}"


def named(pages: Iterable[Page], root: Path = ROOT) -> Iterator[str]:
    """Documents of ours that a sentence names and that are not there."""
    for page in pages:
        for text, line in page.prose():
            for name in NAMED.findall(text):
                if not (root / name).exists():
                    yield f"{page.name}:{line}: {name} is named and not there"


def unreached(pages: Iterable[Page], entrance: Path = ENTRANCE) -> Iterator[str]:
    """Pages of the handbook to which no way leads from its entrance."""
    known = {page.path: page for page in pages}
    reached: set[Path] = set()
    waiting = [entrance]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in known:
            continue
        reached.add(path)
        links = (target_of(known[path], link) for link, _ in known[path].links())
        for where in (found[0] for found in links if found):
            # A link to a folder leads to everything in it.
            waiting += [where] if where.suffix == ".md" else [p for p in known if p.parent == where]
    for path, page in known.items():
        if path.is_relative_to(entrance.parent) and path not in reached:
            yield f"{page.name}:1: no way leads here from {entrance.name}"
