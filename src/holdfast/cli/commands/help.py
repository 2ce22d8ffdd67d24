"""``holdfast help``, and what was probably meant by a line or a name that was not understood."""

from __future__ import annotations

from difflib import get_close_matches

from holdfast.cli.answer import Answer
from holdfast.cli.commands.completion import find_values
from holdfast.cli.parser import (
    COMMON,
    GROUPS,
    SECTIONS,
    Parameter,
    Usage,
    WordReader,
    command,
    load_all,
    next_words,
)
from holdfast.cli.screen import quote_word
from holdfast.core.refusal import shell_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.cli.parser import Arguments

_MAX_USAGE_COLUMNS = 92
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
DAILY: dict[str, tuple[tuple[str, str], ...]] = {
    "Begin": (
        ("init", "set up Claude Code in this project (once)"),
        ("doctor", "check that everything works here"),
        ("start dev FILE", "start a workflow, or resume it"),
        ("recipes", "list what a workflow can be started from"),
    ),
    "Work": (
        ("task add TEXT", "add a task"),
        ("red -- CMD", "run the tests: a new one must fail"),
        ("green", "run them again: now they must pass"),
        ("refactor", "and again, after the code was improved"),
        ("commit -m TEXT", "commit what is staged, and complete the task"),
        ("gate run NAME -- CMD", "run a check, and keep the result as evidence"),
        ("advance", "complete the phase, and start the next"),
        ("remind TEXT", "leave a rule for every later session"),
        ("undo", "take your last change back"),
    ),
    "Look": (
        ("status", "list the active workflows"),
        ("show", "show this one: phases, tasks, gates, reading"),
        ("resume", "take it up in this session, and print its briefing"),
    ),
    "End": (("complete", "finish the workflow, or list what is pending"),),
}
"""The first page: everyday commands as they are typed, at most 17, so that it fits 24 lines."""
_DAILY_FOOTER = (
    "`holdfast` alone shows what is going on here. Every command takes --json.",
    "More about one: holdfast help COMMAND   All commands: holdfast help --all",
)
_FOOTER = (
    "  holdfast                 what is going on here, and what is likely next",
    "  holdfast help COMMAND    more about one command",
    "  holdfast --version       the version",
    "",
    "Exit codes: 0 done, 1 refused, 2 usage, 3 storage fault, 4 a gate or test that failed.",
)


@command(
    "help: show the everyday commands, all commands, or one of them",
    Parameter("[COMMAND]...", "the command", into="topic", names="command"),
    Parameter("--all", "all commands, with the options that every one has"),
    "holdfast help task done",
    "holdfast help --all",
    workspace=False,
)
def answer(args: Arguments) -> Answer:
    text = help_text(args["topic"], everything=args["all"])
    return Answer({"help": text}, lambda _screen: text.split("\n"))


def help_text(topic: list[str], *, everything: bool = False) -> str:
    """Return the help for these words; raise ``Usage`` if no command has them."""
    name = " ".join(topic)
    if not name:
        return overview() if everything else first_page()
    if name in load_all():
        return command_help(name)
    if name in GROUPS:
        return "\n".join([f"holdfast {name}: {GROUPS[name]}", *_below(name)])
    inner = topic[0] if next_words(topic[0]) else ""
    raise unknown_command(["help", *topic], 3 if inner else 2, inner)


def first_page() -> str:
    """Return the everyday commands, on one screen of 80 columns and 24 lines."""
    rows = [
        ("" if number else group, line, text)
        for group, commands in DAILY.items()
        for number, (line, text) in enumerate(commands)
    ]
    first, second = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(
        [
            "Holdfast keeps the state of a coding agent's work: holdfast COMMAND [OPTIONS]",
            "",
            *[f"{group:{first}}  {line:{second}}  {text}" for group, line, text in rows],
            "",
            *_DAILY_FOOTER,
        ]
    )


def overview() -> str:
    lines = [
        "Holdfast keeps the state of a coding agent's work.",
        "",
        "  holdfast COMMAND [ARGUMENTS] [OPTIONS]",
    ]
    for section, modules in SECTIONS.items():
        rows = [
            (name, spec.about)
            for name, spec in load_all().items()
            if name.partition(" ")[0] in modules
        ]
        lines += ["", section, *_columns(rows)]
    return "\n".join([*lines, "", "Every command", *_rows(COMMON), "", *_FOOTER])


def command_help(name: str) -> str:
    spec = load_all()[name]
    lines = [f"holdfast {name}: {spec.about}", "", *usage(name, "  "), *_below(name)]
    for title, parameters in (("Arguments", spec.arguments), ("Options", spec.options)):
        if parameters:
            lines += ["", title, *_rows(parameters)]
    lines += ["", "Every command", *_rows(COMMON), "", "Examples"]
    return "\n".join([*lines, *[f"  {example}" for example in spec.examples]])


def _below(name: str) -> list[str]:
    """Return the usage of the commands whose names begin with this one."""
    lines = []
    for full, spec in load_all().items():
        if full.startswith(f"{name} "):
            lines += ["", *usage(full, "  "), f"      {spec.about}"]
    return lines


def usage(name: str, indent: str) -> list[str]:
    """Return ``holdfast task done N [--commit SHA]``, on as many lines as it needs."""
    # The words of another program come after all options.
    parameters = sorted(load_all()[name].parameters, key=lambda p: (p.into == "words", p.is_option))
    lines = [f"{indent}holdfast {name}"]
    for parameter in parameters:
        dots = "..." if parameter.is_many else ""
        part = f"{parameter.name} {parameter.value}".rstrip()
        if parameter.into == "words":
            part, dots = f"-- {part}{dots}", ""
        part = part + dots if parameter.is_required else f"[{part}]{dots}"
        if len(lines[-1]) + len(part) < _MAX_USAGE_COLUMNS:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}    {part}")
    return lines


def label(parameter: Parameter) -> str:
    """Return an argument or an option as lists show it: ``-w, --workflow ID``."""
    short = f"{parameter.short}, " if parameter.short else ""
    return f"{short}{parameter.name} {parameter.value}".rstrip()


def about(parameter: Parameter) -> str:
    can_repeat = parameter.is_option and parameter.is_many
    return parameter.about + ("; can be repeated" if can_repeat else "")


def _rows(parameters: Sequence[Parameter]) -> list[str]:
    return _columns([(label(parameter), about(parameter)) for parameter in parameters])


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name:{width}}  {text}" for name, text in rows]


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, if one is near enough."""
    by_folded_name = {name.casefold(): name for name in reversed(list(names))}
    typed = word.casefold()
    if typed in by_folded_name:
        return by_folded_name[typed]
    if len(word.strip("-")) > 2:
        completions = [name for name in reversed(by_folded_name.values()) if name.startswith(word)]
        if completions:
            return completions[0]
    close = get_close_matches(typed, by_folded_name, 1, _MIN_LIKENESS)
    return by_folded_name[close[0]] if close else None


def unknown_command(words: list[str], position: int, group: str) -> Usage:
    """Return the error about a word that is no command, or none of this group."""
    word = words[position - 1]
    if group:
        suggestion = nearest(word, next_words(group))
        message = f"`holdfast {group}` has no {quote_word(word)} (argument {position})"
    else:
        commands = load_all()
        inner = [name for name in commands if name.endswith(f" {word}")]
        called = [_OTHER_PROGRAMS_WORDS[word]] if word in _OTHER_PROGRAMS_WORDS else inner
        first_words = [name for name in commands if " " not in name]
        suggestion = called[0] if called else nearest(word, [*first_words, *GROUPS])
        message = f"there is no command {quote_word(word)} (argument {position})"
    fallback = f"holdfast help {group}".rstrip()
    if suggestion is None:
        return Usage(message, fallback)
    if suggestion == _VERSION:
        return _version_meant(message, words)
    corrected = [*words[: position - 1], *suggestion.split(" "), *words[position:]]
    return Usage(f"{message}; did you mean {suggestion!r}?", _line_of(corrected, fallback))


def unknown_option(reader: WordReader) -> Usage:
    """Return the error about the option that the reader has just met."""
    words, position, path = reader.words, reader.position, reader.path
    word = words[position - 1]
    name, equals, value = word.partition("=")
    if word == _VERSION:
        return Usage(f"{_VERSION} (argument {position}) stands alone", f"holdfast {_VERSION}")
    in_command = f"`holdfast {' '.join(path)}`" if path else "holdfast"
    message = f"{in_command} has no option {quote_word(name)} (argument {position})"
    if path:
        suggestion = nearest(name, reader.options)
    else:
        suggestion = _OTHER_PROGRAMS_WORDS.get(name) or nearest(name, [*reader.options, _VERSION])
    if suggestion == _VERSION:
        return _version_meant(message, words)
    if suggestion is not None:
        corrected = [*words[: position - 1], suggestion + equals + value, *words[position:]]
        return Usage(f"{message}; did you mean {suggestion}?", _line_of(corrected, _help(path)))
    if reader.command is not None:
        message += "; text that begins with a dash stands after `--`"
    return Usage(message, _help(path))


def _version_meant(message: str, words: list[str]) -> Usage:
    """Suggest ``--version``, which takes nothing else of the line but ``--json``."""
    as_json = " --json" if "--json" in words else ""
    return Usage(f"{message}; did you mean {_VERSION}?", f"holdfast {_VERSION}{as_json}")


def too_many(reader: WordReader, arguments: list[Parameter]) -> Usage:
    """Return the error about the words that no argument takes."""
    words, positionals = reader.words, reader.positionals
    name = " ".join(reader.path)
    position, word = positionals[len(arguments)]
    if not arguments and next_words(name):
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
    line = " ".join(["holdfast", *map(shell_word, words)])
    return line if len(line) <= _MAX_HINT_CHARS and line.isprintable() else fallback


def correct(words: list[str], *, only_fixed: bool) -> tuple[str, str] | None:
    """Return the name that was probably meant, and the command line that has it.

    The names come from completion, so whatever can be completed can be corrected. ``only_fixed``:
    consider only names that are the same everywhere, so that no workspace is opened.
    """
    reader = WordReader(words)
    try:
        reader.read()
    except Usage:
        return None
    for position, name, parameter in _names_in(reader):
        if only_fixed and parameter.names not in _SAME_EVERYWHERE:
            continue
        values = [value for value, _ in find_values(parameter, reader, name)]
        suggestion = None if name in values else nearest(name, values)
        if suggestion is None:
            continue
        is_numbered = parameter.names in _NUMBERED
        if is_numbered and name.translate(_WITHOUT_DIGITS) == suggestion.translate(_WITHOUT_DIGITS):
            continue  # another task's number is no slip of the keyboard
        word = words[position - 1]
        repaired = word[: len(word) - len(name)] + suggestion
        line = [*words[: position - 1], repaired, *words[position:]]
        return suggestion, _line_of(line, "holdfast help")
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
