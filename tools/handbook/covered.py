"""Find what the documentation lacks, and what it describes although Holdfast does not have it.

Each kind of name has a page that must have it: as code, as a heading, or in the first column of a
table.
"""

from __future__ import annotations

import functools
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from handbook import declared, schemas
from handbook.pages import DOCS, Page, plain
from holdfast.keeper.event_log import event_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WORD = re.compile(r"[\w.{}/@-]+")
_ENDS_COMMAND = ("|", "&&", "||", ";", ">", "#", "--")
_SHELLS = ("sh", "console")
_MARKS = "`'\"()[],:…"


class Matter(NamedTuple):
    """Names of one kind, and the page and section that must have them."""

    kind: str
    names: list[str]
    page: str
    section: str | None = None


@functools.cache
def matters() -> list[Matter]:
    """Return the names that must be documented, with their pages."""
    recipes = declared.recipes()
    phases = sorted({phase["name"] for recipe in recipes.values() for phase in recipe["phases"]})
    tools = declared.tool_words()
    records = declared.record_places()
    words = sorted({word for words in tools.values() for word in words})
    return [
        Matter("command", [f"holdfast {name}" for name in declared.commands()], "cli.md"),
        Matter("answer", declared.commands(), "json.md", "Answers"),
        Matter("event type", event_types(), "format.md", "Events"),
        Matter("record format", declared.formats(), "format.md", "Records"),
        Matter("record", list(records.values()), "format.md", "Records"),
        Matter("record format", declared.formats(), "systems.md"),
        Matter("record", list(records.values()), "systems.md"),
        Matter("hook event", declared.hook_events(), "hooks.md"),
        Matter("hook event", declared.hook_events(), "install.md"),
        Matter("tool", list(tools), "mcp.md", "The tools of holdfast mcp"),
        Matter("choice of a tool", words, "mcp.md", "The tools of holdfast mcp"),
        Matter("tool of the memory", declared.memory_tools_named(), "mcp.md", "The memory"),
        Matter("setting", declared.setting_keys(), "settings.md", "Keys"),
        Matter("variable", declared.variables(), "settings.md", "The environment"),
        Matter("error code", declared.error_codes(), "json.md"),
        Matter("error code", declared.error_codes(), "troubleshooting.md"),
        Matter("recipe", list(recipes), "recipes.md", "The shipped recipes"),
        Matter("phase of a recipe", phases, "recipes.md", "The shipped recipes"),
        Matter("skill", declared.skills(), "plugin.md"),
        Matter("skill", declared.skills(), "skills.md"),
        Matter("schema", list(schemas.all_schemas()), "schemas.md"),
    ]


def untold(selected: Iterable[Matter] | None = None) -> Iterator[str]:
    """Yield the names that their page does not have."""
    read: dict[str, Page] = {}
    for matter in matters() if selected is None else selected:
        path = DOCS / matter.page
        if path.exists() and matter.page not in read:
            read[matter.page] = Page(path)
        documented = names_in(read[matter.page], matter.section) if matter.page in read else set()
        where = f"docs/{matter.page}" + (f", {matter.section!r}" if matter.section else "")
        for name in matter.names:
            if name not in documented:
                yield f"{where}: the {matter.kind} {name} is not told"


def untold_options(page: Page | None = None) -> Iterator[str]:
    """Yield the options of commands that the reference does not have."""
    page = page or Page(DOCS / "cli.md")
    for command in declared.commands():
        codes = [word.strip(_MARKS) for text, _ in page.codes(f"holdfast {command}")
                 for word in text.split()]  # fmt: skip
        for option in declared.own_options(command):
            if option not in codes:
                yield f"docs/cli.md: the option {option} of {command} is not told"


def names_in(page: Page, section: str | None) -> set[str]:
    """Return the names that a page, or one of its sections, documents."""
    texts = {text for text, _ in page.codes(section)}
    tokens = page.tokens if section is None else page.section(section)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            texts.add(plain(tokens[number + 1]))
    texts |= set(page.first_cells(section))
    words = {word for text in texts for word in WORD.findall(text)}
    return texts | words


def unknown_commands(pages: Iterable[Page]) -> Iterator[str]:
    """Yield the commands and options in pages that Holdfast does not have."""
    for page in pages:
        for text, line in _command_lines(page):
            wrong = wrong_command(text)
            if wrong:
                yield f"{page.name}:{line}: {wrong}"


def _command_lines(page: Page) -> Iterator[tuple[str, int]]:
    for text, line in page.codes():
        if text.startswith("holdfast "):
            yield text, line
    for language, text, line in page.fences():
        if language not in _SHELLS:
            continue
        lines = [part.removeprefix("$ ") for part in text.replace("\\\n", " ").splitlines()]
        yield from ((part, line) for part in lines if part.startswith("holdfast "))


def wrong_command(text: str) -> str | None:
    """Return what is wrong with a ``holdfast`` command line; ``None`` if it is valid."""
    words = []
    for word in _split(text)[1:]:
        if word in _ENDS_COMMAND:
            break
        words.append(word)
    names = declared.commands()
    heads = [" ".join(words[:count]) for count in (3, 2, 1)]
    command = next((head for head in heads if head in names), None)
    if command is None:
        return _unless_group(words)
    options = [
        word.partition("=")[0].strip(_MARKS)
        for word in words
        if word.startswith("-") and word != "-"
    ]
    wrong = [option for option in options if option and option not in declared.options(command)]
    return f"holdfast {command} has no option {wrong[0]}" if wrong else None


def _split(text: str) -> list[str]:
    """Split like a shell; split at spaces if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _unless_group(words: list[str]) -> str | None:
    """Return an error, unless the words are a group, an option or a word in capitals."""
    first = words[0].strip(_MARKS) if words else ""
    whole = {*declared.groups(), *(name.partition(" ")[0] for name in declared.commands())}
    alone = len(words) == 1 and first in whole
    if not first or first.isupper() or first.startswith("-") or alone:
        return None
    return f"holdfast {' '.join(words[:2])}: there is no such command"


def untrue_codes() -> Iterator[str]:
    """Yield the error codes that have a heading and that no answer has."""
    codes = declared.error_codes()
    page = Page(DOCS / "troubleshooting.md")
    for heading in page.headings:
        if heading.level == 3 and heading.text not in codes:
            yield f"{page.name}:{heading.line}: no answer has the error code {heading.text}"
