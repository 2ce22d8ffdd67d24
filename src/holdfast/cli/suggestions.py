"""What may have been meant by a name that nobody knows: a workflow, a recipe, a phase, a unit.

The names there are come from where completion has them, so whatever can be completed can also be
corrected. Nobody imports this before a command was refused.
"""

from __future__ import annotations

from holdfast.cli import completion
from holdfast.cli.parser import Reader, Usage
from holdfast.cli.usage_errors import line_of, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.shapes import Option, Positional

_NOT_NAMES = ("", "file", "@file", "command")
_FIXED = ("agent", "shell")
_NUMBERED = ("task", "unit", "milestone")


def corrected(words: list[str], *, fixed: bool = False) -> tuple[str, str] | None:
    """The name that was probably meant, and the command line that has it.

    ``fixed``: only names that are the same everywhere, so that no workspace is opened.
    """
    reader = Reader(words)
    try:
        reader.read()
    except Usage:
        return None
    for place, given, item in _named(reader):
        if fixed and item.get("values") not in _FIXED:
            continue
        known = [value for value, _ in completion.values(item, reader, given)]
        meant = None if given in known else nearest(given, known)
        if meant is None or (item.get("values") in _NUMBERED and _is_other_number(given, meant)):
            continue
        word = words[place - 1]
        repaired = word[: len(word) - len(given)] + meant
        return meant, line_of([*words[: place - 1], repaired, *words[place:]], "holdfast help")
    return None


def _named(reader: Reader) -> Iterator[tuple[int, str, Option | Positional]]:
    """Every word that names something, with its place."""
    takes = reader.command.get("takes", ()) if reader.command else ()
    for positional, (place, word) in zip(takes, reader.plain, strict=False):
        if positional["values"] not in _NOT_NAMES:
            yield place, word, positional
    for option in {option["name"]: option for option in reader.options.values()}.values():
        given = reader.found.get(option["into"])
        if option.get("values", "") in _NOT_NAMES or not isinstance(given, str):
            continue
        for place, word in enumerate(reader.words, 1):
            if word in (f"{option['name']}={given}", given) and (place, word) not in reader.plain:
                yield place, given, option


def _is_other_number(given: str, meant: str) -> bool:
    """Whether only digits differ: another task is no slip of the keyboard."""
    return given.translate(_WITHOUT_DIGITS) == meant.translate(_WITHOUT_DIGITS)


_WITHOUT_DIGITS = dict.fromkeys(map(ord, "0123456789"))
