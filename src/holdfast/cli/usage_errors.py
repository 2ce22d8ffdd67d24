"""Word what is wrong with a command line, and suggest what was probably meant.

Every message says what was given, where, and why it cannot be; every hint is a command to run.
Imported only after a command line was not understood, or a name in it was not known.
"""

from __future__ import annotations

from difflib import get_close_matches

from holdfast.answers.text import clean
from holdfast.cli.parser import GROUPS, Reader, Usage, load_all, members
from holdfast.cli.screen import shortened
from holdfast.core.refusal import word as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.cli.parser import Parameter

_MAX_WORD_COLUMNS = 60
_MAX_HINT_CHARS = 400
_MIN_LIKENESS = 0.65
"""The least ratio of ``difflib`` at which a name is suggested."""
_VERSION = "--version"
_OTHER_PROGRAMS_WORDS = {
    "list": "status", "ls": "status", "version": _VERSION, "-V": _VERSION, "-v": _VERSION,
}  # fmt: skip
"""What other programs call a command or an option."""
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


def missing_command(group: str) -> Usage:
    message = f"`holdfast {group}` needs one of: {', '.join(_next_words(group))}"
    return Usage(message, f"holdfast help {group}")


def unknown_command(words: list[str], position: int, group: str) -> Usage:
    word = words[position - 1]
    if group:
        meant = nearest(word, _next_words(group))
        message = f"`holdfast {group}` has no {_quoted(word)} (argument {position})"
        fallback = f"holdfast help {group}"
    else:
        commands = load_all()
        inner = [name for name in commands if name.endswith(f" {word}")]
        called = [_OTHER_PROGRAMS_WORDS[word]] if word in _OTHER_PROGRAMS_WORDS else inner
        first_words = [name for name in commands if " " not in name]
        meant = called[0] if called else nearest(word, [*first_words, *GROUPS])
        message = f"there is no command {_quoted(word)} (argument {position})"
        fallback = "holdfast help"
    if meant is None:
        return Usage(message, fallback)
    if meant == _VERSION:
        return _version_meant(message, words)
    corrected = [*words[: position - 1], *meant.split(" "), *words[position:]]
    return Usage(f"{message}; did you mean {meant!r}?", _line_of(corrected, fallback))


def _next_words(group: str) -> list[str]:
    """Return the words that can follow the group's name."""
    below = [name[len(group) + 1 :].partition(" ")[0] for name in members(group)]
    return list(dict.fromkeys(below))


def unknown_option(
    words: list[str], position: int, path: list[str], options: Iterable[str]
) -> Usage:
    word = words[position - 1]
    name, equals, value = word.partition("=")
    if word == _VERSION:
        return Usage(f"{_VERSION} (argument {position}) stands alone", f"holdfast {_VERSION}")
    message = f"{_command(path)} has no option {_quoted(name)} (argument {position})"
    if path:
        meant = nearest(name, options)
    else:
        meant = _OTHER_PROGRAMS_WORDS.get(name) or nearest(name, [*options, _VERSION])
    if meant == _VERSION:
        return _version_meant(message, words)
    if meant is not None:
        corrected = [*words[: position - 1], meant + equals + value, *words[position:]]
        return Usage(f"{message}; did you mean {meant}?", _line_of(corrected, _help(path)))
    if " ".join(path) in load_all():
        message += "; text that begins with a dash stands after `--`"
    return Usage(message, _help(path))


def _version_meant(message: str, words: list[str]) -> Usage:
    """Suggest ``--version``, which takes nothing else of the line but ``--json``."""
    as_json = ["--json"] if "--json" in words else []
    return Usage(f"{message}; did you mean {_VERSION}?", _line_of([_VERSION, *as_json], ""))


def flag_with_value(path: list[str], position: int, name: str, value: str) -> Usage:
    message = f"{name} (argument {position}) takes no value, but was given {_quoted(value)}"
    return Usage(message, _help(path))


def missing_value(
    path: list[str], position: int, option: Parameter, name: str, following: list[str]
) -> Usage:
    message = f"{name} (argument {position}) needs a value, {option.value}"
    if not following:
        return Usage(f"{message}, but nothing follows it", _help(path))
    word = _quoted(following[0])
    message += f", but {word} follows it; a value like that is written {option.name}=VALUE"
    return Usage(message, _help(path))


def missing_argument(path: list[str], arguments: list[Parameter], argument: Parameter) -> Usage:
    message = (
        f"{_command(path)} needs {argument.name}, {argument.about},"
        f" as its argument {arguments.index(argument) + 1}, and it was not given"
    )
    return Usage(message, _help(path))


def missing_option(path: list[str], option: Parameter) -> Usage:
    message = f"{_command(path)} needs {option.name} {option.value} ({option.about})"
    return Usage(f"{message}, and it was not given", _help(path))


def too_many(
    words: list[str],
    path: list[str],
    arguments: list[Parameter],
    positionals: list[tuple[int, str]],
) -> Usage:
    position, word = positionals[len(arguments)]
    if not arguments and members(" ".join(path)):
        return unknown_command(words, position, " ".join(path))
    names = " ".join(argument.name for argument in arguments) or "no arguments"
    message = f"{_command(path)} takes {names}; {_quoted(word)} (argument {position}) is too many"
    if not arguments or arguments[-1].kind != "text":
        return Usage(message, _help(path))
    positions = [position for position, _ in positionals[len(arguments) - 1 :]]
    joined = " ".join(words[position - 1] for position in positions)
    corrected = [
        joined if position == positions[0] else word
        for position, word in enumerate(words, 1)
        if position not in positions[1:]
    ]
    hint = _line_of(corrected, _help(path))
    return Usage(f"{message}; text of several words stands in quotes", hint)


def given_twice(path: list[str], position: int, name: str, first: str, second: str) -> Usage:
    values = f"{_quoted(first)} and {_quoted(second)} (argument {position})"
    return Usage(f"{_clipped(name)} was given twice: {values}", _help(path))


def reason_given_twice(name: str) -> Usage:
    message = f"`holdfast {name}` was given two reasons, by --reason and by reason=…"
    return Usage(message, f"holdfast help {name}")


def neither_or_both(name: str, first: str, second: str) -> Usage:
    message = f"`holdfast {name}` takes either {first} or {second}"
    return Usage(message, f"holdfast help {name}")


def not_a_pair(path: list[str], position: int, name: str, word: str) -> Usage:
    where = f"argument {position}" if name == "KEY=VALUE" else f"{name}, argument {position}"
    message = f"{_quoted(word)} ({where}) is not KEY=VALUE"
    why = "the key before the `=` is empty" if word[:1] == "=" else "it has no `=`"
    return Usage(f"{message}: {why}", _help(path))


def empty_value(position: int, name: str) -> Usage:
    message = f"{name} (argument {position}) is empty, so it names nothing; was a variable not set?"
    return Usage(message, "holdfast status")


def not_a_count(path: list[str], position: int, name: str, word: str) -> Usage:
    message = f"{name} (argument {position}) needs a whole number from 1, not {_quoted(word)}"
    return Usage(message, _help(path))


def undecodable(words: list[str]) -> Usage:
    bad = [n for n, word in enumerate(words) if "\0" in word or not _is_unicode(word)]
    position, word = bad[0] + 1, words[bad[0]]
    why = "is not UTF-8 text" if "\0" not in word else "has a NUL in it"
    message = f"argument {position}, {_quoted(word)}, {why}, so it cannot be kept"
    return Usage(message, "holdfast help")


def _is_unicode(word: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in word)


def _clipped(text: str) -> str:
    return clean(shortened(text, _MAX_WORD_COLUMNS))


def _quoted(word: str) -> str:
    return f"'{_clipped(word)}'"


def _command(path: list[str]) -> str:
    return f"`holdfast {' '.join(path)}`" if path else "holdfast"


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

    reader = Reader(words)
    try:
        reader.read()
    except Usage:
        return None
    for position, name, parameter in _names_in(reader):
        if only_fixed and parameter.values not in _SAME_EVERYWHERE:
            continue
        known = [value for value, _ in completion.values(parameter, reader, name)]
        meant = None if name in known else nearest(name, known)
        if meant is None:
            continue
        is_numbered = parameter.values in _NUMBERED
        if is_numbered and name.translate(_WITHOUT_DIGITS) == meant.translate(_WITHOUT_DIGITS):
            continue  # another task's number is no slip of the keyboard
        word = words[position - 1]
        repaired = word[: len(word) - len(name)] + meant
        line = [*words[: position - 1], repaired, *words[position:]]
        return meant, _line_of(line, "holdfast help")
    return None


def _names_in(reader: Reader) -> Iterator[tuple[int, str, Parameter]]:
    """Yield every word that names something, with its position."""
    arguments = reader.command.arguments if reader.command else []
    for argument, (position, word) in zip(arguments, reader.positionals, strict=False):
        if argument.values not in _NOT_NAMES:
            yield position, word, argument
    for name, option in reader.options.items():
        value = reader.values.get(option.into)
        if name == option.short or option.values in _NOT_NAMES or not isinstance(value, str):
            continue
        for position, word in enumerate(reader.words, 1):
            is_value = word in (f"{option.name}={value}", value)
            if is_value and (position, word) not in reader.positionals:
                yield position, value, option
