"""``make docs``: check the documentation, write its schemas, build its site.

With ``--check`` nothing is written.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from handbook import answers, api, classes, covered, links, pages, reference, schemas, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handbook.pages import Page

    Check = Callable[[tuple[Page, ...]], Iterator[str]]

CHECKS: dict[str, Check] = {
    "links lead somewhere": links.dead,
    "documents that are named are there": links.named,
    "every page is reached from the entrance": links.unreached,
    "everything that Holdfast has is documented": lambda _: covered.untold(),
    "every option is documented": lambda _: covered.untold_options(),
    "commands in pages exist": covered.unknown_commands,
    "error codes with a heading exist": lambda _: covered.untrue_codes(),
    "every key of an answer has a shape": lambda _: answers.unshaped(),
    "what is made from the code is as the code": lambda _: stale(),
}
"""Each check by the sentence that is true if the check yields no problem."""


def stale() -> Iterator[str]:
    """Yield the generated pages and schemas that do not match the code."""
    schemas_stale = [f"schemas/{name}" for name in schemas.stale()]
    for name in (*api.stale(), *classes.stale(), *reference.stale(), *schemas_stale):
        yield f"docs/{name}: it is made from the code, which has changed: make docs"


def main(words: list[str]) -> int:
    if words not in ([], ["--check"]):
        print("usage: make docs [ARGS=--check]", file=sys.stderr)
        return 2
    if not words:
        api.write()
        classes.write()
        reference.write()
        schemas.write()
    repository_pages = pages.of_repository()
    wrong = sum(_report(says, list(check(repository_pages))) for says, check in CHECKS.items())
    if wrong:
        print(f"docs: {wrong} problems in {len(repository_pages)} pages", file=sys.stderr)
        return 1
    if not words:
        built = site.build()
        count = len(schemas.all_schemas())
        print(f"docs: {built} pages and {count} schemas are in {site.relative_folder()}/index.html")
    return 0


def _report(says: str, problems: list[str]) -> int:
    print(f"{'✗' if problems else '✓'} {says}")
    for problem in problems:
        print(f"    {problem}")
    return len(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
