"""What is said about a command line that was not understood, and what may have been meant.

Every message says what was given, where, and why it cannot be; every hint is a command to run.
"""

from __future__ import annotations

from holdfast.cli.parser import Usage
from holdfast.cli.table import COMMANDS, GROUPS
from holdfast.cli.terminal_text import clean, shortened
from holdfast.core.refusal import word as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.cli.shapes import Option, Positional

_SHOWN = 60
_SHOWN_HINT = 400
_VERSION = "--version"
_ELSEWHERE_CALLED = {
    "list": "status", "ls": "status", "version": _VERSION, "-V": _VERSION, "-v": _VERSION,
}  # fmt: skip
"""What other programs call it."""


def nearest(word: str, names: list[str]) -> str | None:
    """Return the name that was probably meant; ``None`` if none is close."""
    from difflib import get_close_matches

    folded, known = word.casefold(), {name.casefold(): name for name in names}
    close = get_close_matches(folded, known, 1)
    if not close and len(word.strip("-")) > 2:
        close = [name for name in known if name.startswith(folded)]
    return known[close[0]] if close else None


def missing_command(group: str) -> Usage:
    message = f"`holdfast {group}` needs one of: {', '.join(_members(group))}"
    return Usage(message, f"holdfast help {group}")


def unknown_command(words: list[str], place: int, group: str) -> Usage:
    word = words[place - 1]
    if group:
        meant = nearest(word, _members(group))
        message = f"`holdfast {group}` has no {_shown(word)} (argument {place})"
        fallback = f"holdfast help {group}"
    else:
        tops = [name for name in COMMANDS if " " not in name]
        inner = [name for name in COMMANDS if name.endswith(f" {word}")]
        called = [_ELSEWHERE_CALLED[word]] if word in _ELSEWHERE_CALLED else inner
        meant = called[0] if called else nearest(word, [*tops, *GROUPS])
        message = f"there is no command {_shown(word)} (argument {place})"
        fallback = "holdfast help"
    if meant is None:
        return Usage(message, fallback)
    if meant == _VERSION:
        return _version_meant(message, words)
    corrected = [*words[: place - 1], *meant.split(" "), *words[place:]]
    return Usage(f"{message}; did you mean {meant!r}?", line_of(corrected, fallback))


def unknown_option(words: list[str], place: int, path: list[str], options: Iterable[str]) -> Usage:
    word = words[place - 1]
    name, equals, value = word.partition("=")
    if word == _VERSION:
        return Usage(f"{_VERSION} (argument {place}) stands alone", f"holdfast {_VERSION}")
    message = f"{_command(path)} has no option {_shown(name)} (argument {place})"
    known = [*options, _VERSION] if not path else list(options)
    meant = _ELSEWHERE_CALLED.get(name) if not path else None
    meant = meant or nearest(name, known)
    if meant == _VERSION:
        return _version_meant(message, words)
    if meant is not None:
        corrected = [*words[: place - 1], meant + equals + value, *words[place:]]
        return Usage(f"{message}; did you mean {meant}?", line_of(corrected, _help(path)))
    if path and " ".join(path) in COMMANDS:
        message += "; text that begins with a dash stands after `--`"
    return Usage(message, _help(path))


def _version_meant(message: str, words: list[str]) -> Usage:
    """It stands alone, so nothing else of the line is kept."""
    as_json = ["--json"] if "--json" in words else []
    return Usage(f"{message}; did you mean {_VERSION}?", line_of([_VERSION, *as_json], ""))


def flag_with_value(path: list[str], place: int, name: str, value: str) -> Usage:
    message = f"{name} (argument {place}) takes no value, but was given {_shown(value)}"
    return Usage(message, _help(path))


def missing_value(
    path: list[str], place: int, option: Option, name: str, following: list[str]
) -> Usage:
    message = f"{name} (argument {place}) needs a value, {option.get('value', 'VALUE')}"
    if not following:
        return Usage(f"{message}, but nothing follows it", _help(path))
    word = _shown(following[0])
    message += f", but {word} follows it; a value like that is written {option['name']}=VALUE"
    return Usage(message, _help(path))


def missing_argument(
    path: list[str], takes: tuple[Positional, ...], positional: Positional
) -> Usage:
    place = takes.index(positional) + 1
    message = (
        f"{_command(path)} needs {positional['name']}, {positional['help']},"
        f" as its argument {place}, and it was not given"
    )
    return Usage(message, _help(path))


def missing_option(name: str, option: Option) -> Usage:
    message = f"`holdfast {name}` needs {option['name']} {option.get('value')} ({option['help']})"
    return Usage(f"{message}, and it was not given", f"holdfast help {name}")


def too_many(
    words: list[str],
    path: list[str],
    takes: tuple[Positional, ...],
    plain: list[tuple[int, str]],
) -> Usage:
    place, word = plain[len(takes)]
    if not takes and _members(" ".join(path)):
        return unknown_command(words, place, " ".join(path))
    names = " ".join(positional["name"] for positional in takes) or "no arguments"
    message = f"{_command(path)} takes {names}; {_shown(word)} (argument {place}) is too many"
    if not takes or takes[-1]["kind"] != "text":
        return Usage(message, _help(path))
    places = [place for place, _ in plain[len(takes) - 1 :]]
    joined = " ".join(words[place - 1] for place in places)
    corrected = [
        joined if place == places[0] else word
        for place, word in enumerate(words, 1)
        if place not in places[1:]
    ]
    hint = line_of(corrected, _help(path))
    return Usage(f"{message}; text of several words stands in quotes", hint)


def given_twice(path: list[str], place: int, name: str, first: str, second: str) -> Usage:
    values = f"{_shown(first)} and {_shown(second)} (argument {place})"
    return Usage(f"{_shown_name(name)} was given twice: {values}", _help(path))


def reason_given_twice(name: str) -> Usage:
    message = f"`holdfast {name}` was given two reasons, by --reason and by reason=…"
    return Usage(message, f"holdfast help {name}")


def neither_or_both(name: str, one: str, other: str) -> Usage:
    message = f"`holdfast {name}` takes either {one} or {other}"
    return Usage(message, f"holdfast help {name}")


def not_a_pair(path: list[str], place: int, name: str, word: str) -> Usage:
    where = f"argument {place}" if name == "KEY=VALUE" else f"{name}, argument {place}"
    message = f"{_shown(word)} ({where}) is not KEY=VALUE"
    why = "the key before the `=` is empty" if word[:1] == "=" else "it has no `=`"
    return Usage(f"{message}: {why}", _help(path))


def empty_value(place: int, name: str) -> Usage:
    message = f"{name} (argument {place}) is empty, so it names nothing; was a variable not set?"
    return Usage(message, "holdfast status")


def not_a_count(path: list[str], place: int, name: str, word: str) -> Usage:
    message = f"{name} (argument {place}) needs a whole number from 1, not {_shown(word)}"
    return Usage(message, _help(path))


def undecodable(words: list[str]) -> Usage:
    place, word = next((place, word) for place, word in enumerate(words, 1) if not _storable(word))
    why = "is not UTF-8 text" if "\0" not in word else "has a NUL in it"
    return Usage(f"argument {place}, {_shown(word)}, {why}, so it cannot be kept", "holdfast help")


def _members(group: str) -> list[str]:
    below = [name[len(group) + 1 :] for name in COMMANDS if name.startswith(f"{group} ")]
    return list(dict.fromkeys(name.partition(" ")[0] for name in below))


def _storable(word: str) -> bool:
    return "\0" not in word and not any("\ud800" <= char <= "\udfff" for char in word)


def _shown(word: str) -> str:
    return f"'{clean(shortened(word, _SHOWN))}'"


def _shown_name(name: str) -> str:
    return clean(shortened(name, _SHOWN))


def _command(path: list[str]) -> str:
    return f"`holdfast {' '.join(path)}`" if path else "holdfast"


def _help(path: list[str]) -> str:
    return " ".join(["holdfast", "help", *path])


def line_of(words: list[str], fallback: str) -> str:
    """The whole command line, for copying; the fallback where it would be too long to read."""
    line = " ".join(["holdfast", *[quote(word) for word in words]])
    return line if len(line) <= _SHOWN_HINT and line.isprintable() else fallback
