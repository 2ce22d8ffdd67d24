"""What Holdfast has and its page does not tell, and what a page tells that Holdfast has not.

Each matter has one page that is responsible for it. "Told" means: by its name, as code, as a
heading or in the first column of a table there.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from handbook import declared, schemas
from handbook.pages import DOCS, Page, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WORD = re.compile(r"[\w.{}/@-]+")
_ENDS_COMMAND = ("|", "&&", "||", ";", ">", "#", "--")
_SHELLS = ("sh", "console")
_MARKS = "`'\"()[],:…"


class Matter(NamedTuple):
    """Names of one kind, and where they have to be told."""

    kind: str
    names: list[str]
    page: str
    section: str | None = None


def matters() -> list[Matter]:
    """Everything that has to be told, by the page that is responsible for it."""
    recipes = declared.recipes()
    phases = sorted({phase["name"] for recipe in recipes.values() for phase in recipe["phases"]})
    tools = declared.tool_words()
    places = declared.record_places()
    words = sorted({word for words in tools.values() for word in words})
    return [
        Matter("command", [f"holdfast {name}" for name in declared.commands()], "cli.md"),
        Matter("answer", declared.commands(), "json.md", "Answers"),
        Matter("event type", declared.event_types(), "format.md", "Events"),
        Matter("record format", declared.formats(), "format.md", "Records"),
        Matter("record", list(places.values()), "format.md", "Records"),
        Matter("record format", declared.formats(), "systems.md"),
        Matter("record", list(places.values()), "systems.md"),
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


def untold(found: Iterable[Matter] | None = None) -> Iterator[str]:
    """What is missing in the page that is responsible for it."""
    read: dict[str, Page] = {}
    for matter in matters() if found is None else found:
        path = DOCS / matter.page
        if path.exists() and matter.page not in read:
            read[matter.page] = Page(path)
        told = names_in(read[matter.page], matter.section) if matter.page in read else set()
        where = f"docs/{matter.page}" + (f", {matter.section!r}" if matter.section else "")
        for name in matter.names:
            if name not in told:
                yield f"{where}: the {matter.kind} {name} is not told"


def untold_options(page: Page | None = None) -> Iterator[str]:
    """Options of a command that its section of the reference does not have."""
    page = page or Page(DOCS / "cli.md")
    for command in declared.commands():
        codes = [word.strip(_MARKS) for text, _ in page.codes(f"holdfast {command}")
                 for word in text.split()]  # fmt: skip
        for option in declared.own_options(command):
            if option not in codes:
                yield f"docs/cli.md: the option {option} of {command} is not told"


def names_in(page: Page, section: str | None) -> set[str]:
    """What a page, or a section of it, tells by name."""
    found = {text for text, _ in page.codes(section)}
    tokens = page.tokens if section is None else page.section(section)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            found.add(plain(tokens[number + 1]))
    found |= set(page.first_cells(section))
    words = {word for text in found for word in WORD.findall(text)}
    return found | words


def unknown_commands(pages: Iterable[Page]) -> Iterator[str]:
    """Commands and options in a page that Holdfast does not have."""
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
    """What Holdfast does not know in a command line of ours; nothing where all is known."""
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
    """As a shell splits it; a piece of a command line with half a quotation, at its spaces."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _unless_group(words: list[str]) -> str | None:
    """A group may stand for its commands; an option or a word in capitals for any."""
    first = words[0].strip(_MARKS) if words else ""
    whole = {*declared.groups(), *(name.partition(" ")[0] for name in declared.commands())}
    alone = len(words) == 1 and first in whole
    if not first or first.isupper() or first.startswith("-") or alone:
        return None
    return f"holdfast {' '.join(words[:2])}: there is no such command"


def untrue_codes() -> Iterator[str]:
    """Error codes with a heading of their own that no answer has."""
    codes = declared.error_codes()
    page = Page(DOCS / "troubleshooting.md")
    for heading in page.headings:
        if heading.level == 3 and heading.text not in codes:
            yield f"{page.name}:{heading.line}: no answer has the error code {heading.text}"
