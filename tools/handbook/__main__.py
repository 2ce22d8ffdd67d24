"""``make docs``: check the documentation, write its schemas, build its site.

With ``--check`` nothing is written.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from handbook import covered, links, pages, schemas, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handbook.pages import Page

    Check = Callable[[tuple[Page, ...]], Iterator[str]]

CHECKS: dict[str, Check] = {
    "links lead somewhere": links.dead,
    "documents that are named are there": links.named,
    "every page is reached from the entrance": links.unreached,
    "everything that Holdfast has is told": lambda _: covered.untold(),
    "every option is told": lambda _: covered.untold_options(),
    "commands in pages exist": lambda found: covered.unknown_commands(found),
    "error codes with a heading exist": lambda _: covered.untrue_codes(),
}


def main(words: list[str]) -> int:
    is_check = words == ["--check"]
    if words and not is_check:
        print("usage: make docs [ARGS=--check]", file=sys.stderr)
        return 2
    found = pages.of_repository()
    wrong = 0
    for says, check in CHECKS.items():
        problems = list(check(found))
        wrong += len(problems)
        print(f"{'✗' if problems else '✓'} {says}")
        for problem in problems:
            print(f"    {problem}")
    stale = schemas.stale() if is_check else schemas.write()
    if is_check:
        wrong += len(stale)
        print(f"{'✗' if stale else '✓'} the schemas are what the code declares")
        for name in stale:
            print(f"    docs/schemas/{name}: run make docs")
    if wrong:
        print(f"docs: {wrong} problems in {len(found)} pages", file=sys.stderr)
        return 1
    if not is_check:
        built = site.build()
        print(f"docs: {len(found)} pages are sound; {len(schemas.all_schemas())} schemas; "
              f"{built} pages of HTML in {site.shown()}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
