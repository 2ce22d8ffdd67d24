"""Suggest what was probably meant, after a command line was not understood or a name not known."""

from __future__ import annotations

from difflib import get_close_matches

from holdfast.cli.parser import GROUPS, Usage, WordReader, find_members, load_all
from holdfast.cli.screen import quote_word
from holdfast.core.refusal import shell_word as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.cli.parser import Parameter

_MAX_HINT_CHARS = 400
_MIN_LIKENESS = 0.65
"""The least ratio of ``difflib`` at which a name is suggested."""
_VERSION = "--version"
_OTHER_PROGRAMS_WORDS = {
    "list": "status", "ls": "status", "version": _VERSION, "-V": _VERSION, "-v": _VERSION,
}  # fmt: skip
"""Other programs' names of a command or an option."""
_NOT_NAMES = ("", "file", "@file", "command")
_SAME_EVERYWHERE = ("agent", "shell")
_NUMBERED = ("task", "unit", "milestone")
_WITHOUT_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, if one is near enough."""
    named = {name.casefold(): name for name in reversed(list(names))}
    typed = word.casefold()
    if typed in named:
        return named[typed]
    if len(word.strip("-")) > 2:
        begun = [name for name in reversed(named.values()) if name.startswith(word)]
        if begun:
            return begun[0]
    close = get_close_matches(typed, named, 1, _MIN_LIKENESS)
    return named[close[0]] if close else None


def unknown_command(words: list[str], position: int, group: str) -> Usage:
    word = words[position - 1]
    if group:
        meant = nearest(word, _next_words(group))
        message = f"`holdfast {group}` has no {quote_word(word)} (argument {position})"
        fallback = f"holdfast help {group}"
    else:
        commands = load_all()
        inner = [name for name in commands if name.endswith(f" {word}")]
        called = [_OTHER_PROGRAMS_WORDS[word]] if word in _OTHER_PROGRAMS_WORDS else inner
        first_words = [name for name in commands if " " not in name]
        meant = called[0] if called else nearest(word, [*first_words, *GROUPS])
        message = f"there is no command {quote_word(word)} (argument {position})"
        fallback = "holdfast help"
    if meant is None:
        return Usage(message, fallback)
    if meant == _VERSION:
        return _version_meant(message, words)
    corrected = [*words[: position - 1], *meant.split(" "), *words[position:]]
    return Usage(f"{message}; did you mean {meant!r}?", _line_of(corrected, fallback))


def _next_words(group: str) -> list[str]:
    """Return the words that can follow the group's name."""
    below = [name[len(group) + 1 :].partition(" ")[0] for name in find_members(group)]
    return list(dict.fromkeys(below))


def unknown_option(reader: WordReader) -> Usage:
    """Return the error about the option that the reader has just met."""
    words, position, path = reader.words, reader.position, reader.path
    word = words[position - 1]
    name, equals, value = word.partition("=")
    if word == _VERSION:
        return Usage(f"{_VERSION} (argument {position}) stands alone", f"holdfast {_VERSION}")
    command = f"`holdfast {' '.join(path)}`" if path else "holdfast"
    message = f"{command} has no option {quote_word(name)} (argument {position})"
    if path:
        meant = nearest(name, reader.options)
    else:
        meant = _OTHER_PROGRAMS_WORDS.get(name) or nearest(name, [*reader.options, _VERSION])
    if meant == _VERSION:
        return _version_meant(message, words)
    if meant is not None:
        corrected = [*words[: position - 1], meant + equals + value, *words[position:]]
        return Usage(f"{message}; did you mean {meant}?", _line_of(corrected, _help(path)))
    if reader.command is not None:
        message += "; text that begins with a dash stands after `--`"
    return Usage(message, _help(path))


def _version_meant(message: str, words: list[str]) -> Usage:
    """Suggest ``--version``, which takes nothing else of the line but ``--json``."""
    as_json = ["--json"] if "--json" in words else []
    return Usage(f"{message}; did you mean {_VERSION}?", _line_of([_VERSION, *as_json], ""))


def too_many(reader: WordReader, arguments: list[Parameter]) -> Usage:
    """Return the error about the words that no argument takes."""
    words, positionals = reader.words, reader.positionals
    name = " ".join(reader.path)
    position, word = positionals[len(arguments)]
    if not arguments and find_members(name):
        return unknown_command(words, position, name)
    names = " ".join(argument.name for argument in arguments) or "no arguments"
    too_much = f"{quote_word(word)} (argument {position}) is too many"
    message = f"`holdfast {name}` takes {names}; {too_much}"
    if not arguments or arguments[-1].kind != "text":
        return Usage(message, _help(reader.path))
    positions = [position for position, _ in positionals[len(arguments) - 1 :]]
    joined = " ".join(words[position - 1] for position in positions)
    corrected = [
        joined if position == positions[0] else word
        for position, word in enumerate(words, 1)
        if position not in positions[1:]
    ]
    hint = _line_of(corrected, _help(reader.path))
    return Usage(f"{message}; text of several words stands in quotes", hint)


def _help(path: list[str]) -> str:
    return " ".join(["holdfast", "help", *path])


def _line_of(words: list[str], fallback: str) -> str:
    """Return the whole command line, for copying, or the fallback if it is too long to read."""
    line = " ".join(["holdfast", *[quote(word) for word in words]])
    return line if len(line) <= _MAX_HINT_CHARS and line.isprintable() else fallback


def correct(words: list[str], *, only_fixed: bool) -> tuple[str, str] | None:
    """Return the name that was probably meant, and the command line that has it.

    The names come from completion, so whatever can be completed can be corrected. ``only_fixed``:
    consider only names that are the same everywhere, so that no workspace is opened.
    """
    from holdfast.cli.commands import completion

    reader = WordReader(words)
    try:
        reader.read()
    except Usage:
        return None
    for position, name, parameter in _names_in(reader):
        if only_fixed and parameter.names not in _SAME_EVERYWHERE:
            continue
        known = [value for value, _ in completion.find_values(parameter, reader, name)]
        meant = None if name in known else nearest(name, known)
        if meant is None:
            continue
        is_numbered = parameter.names in _NUMBERED
        if is_numbered and name.translate(_WITHOUT_DIGITS) == meant.translate(_WITHOUT_DIGITS):
            continue  # another task's number is no slip of the keyboard
        word = words[position - 1]
        repaired = word[: len(word) - len(name)] + meant
        line = [*words[: position - 1], repaired, *words[position:]]
        return meant, _line_of(line, "holdfast help")
    return None


def _names_in(reader: WordReader) -> Iterator[tuple[int, str, Parameter]]:
    """Yield every word that names something, with its position."""
    arguments = reader.command.arguments if reader.command else []
    for argument, (position, word) in zip(arguments, reader.positionals, strict=False):
        if argument.names not in _NOT_NAMES:
            yield position, word, argument
    for name, option in reader.options.items():
        value = reader.values.get(option.into)
        if name == option.short or option.names in _NOT_NAMES or not isinstance(value, str):
            continue
        for position, word in enumerate(reader.words, 1):
            is_value = word in (f"{option.name}={value}", value)
            if is_value and (position, word) not in reader.positionals:
                yield position, value, option
