"""Parse the words of a command line into plain values, by the grammar of its command.

A command line that is not understood raises ``Usage``. ``usage_errors`` words it, and is imported
only then.
"""

from __future__ import annotations

from holdfast.cli.grammar import COMMANDS, COMMON, GROUPS, load
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.cli.types import Arguments, Command, Option, Positional
    from holdfast.core.types import Json

_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}
_CLOSERS = {"{": "}", "[": "]", '"': '"'}
_MAX_NUMBER_CHARS = 60


class Usage(HoldfastError):
    """The command line was not understood."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("usage", message, hint)


def parse(words: list[str]) -> Arguments:
    """Return the command and its values; a value that is not there has its empty form.

    Raise ``Usage`` if the words do not fit the grammar.
    """
    _check_text(words)
    reader = Reader(words)
    reader.read()
    return reader.result()


class Reader:
    """One pass over the words. Positions are counted for people, from 1."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.position = 0
        self.path: list[str] = []
        self.command: Command | None = None
        self.options = _by_name(COMMON)
        self.positionals: list[tuple[int, str]] = []
        """The words that are neither options nor the command's name, with their positions."""
        self.values: Arguments = {}

    def read(self) -> None:
        options_end = False
        while self.position < len(self.words):
            word = self.words[self.position]
            self.position += 1
            if not options_end and word == "--":
                options_end = True
            elif not options_end and _is_option(word):
                self._read_option(word)
            elif self.command is None or self._continues_name(word):
                self._read_name(word)
            else:
                self.positionals.append((self.position, word))

    def _continues_name(self, word: str) -> bool:
        """Return whether the command is the beginning of another one: ``recipes show``."""
        return not self.positionals and " ".join([*self.path, word]) in COMMANDS

    def result(self) -> Arguments:
        name = " ".join(self.path)
        if self.values.get("help"):
            load("help")
            topic = [word for _, word in self.positionals] if name == "help" else self.path
            return {**_defaults(COMMANDS["help"]), **self.values, "command": "help", "topic": topic}
        if self.command is None and not self.path:
            # ``holdfast`` alone, or with nothing but options that every command has.
            return {**_defaults(None), **self.values, "command": ""}
        if self.command is None:
            raise _errors().missing_command(name)
        self._bind(self.command["takes"])
        for option in self.command["options"]:
            if option.get("required") and option["into"] not in self.values:
                raise _errors().missing_option(name, option)
        return {**_defaults(self.command), **self.values, "command": name}

    def _read_name(self, word: str) -> None:
        if not self.path:
            load(word)
        name = " ".join([*self.path, word])
        self.command = COMMANDS.get(name)
        if self.command is not None:
            self.options = {**self.options, **_by_name(self.command["options"])}
        elif name not in GROUPS:
            raise _errors().unknown_command(self.words, self.position, " ".join(self.path))
        self.path.append(word)

    def _read_option(self, word: str) -> None:
        position = self.position
        name, attached, value = word.partition("=")
        option = self.options.get(name)
        if option is None:
            raise _errors().unknown_option(self.words, position, self.path, self.options)
        if option["kind"] == "flag":
            if attached:
                raise _errors().flag_with_value(self.path, position, option["name"], value)
            self.values[option["into"]] = True
            return
        if not attached:
            value = self._next_value(option, name)
        self._store(option, option["name"], value, position)

    def _next_value(self, option: Option, name: str) -> str:
        following = self.words[self.position : self.position + 1]
        if not following or following[0] == "--" or following[0].partition("=")[0] in self.options:
            raise _errors().missing_value(self.path, self.position, option, name, following)
        self.position += 1
        return following[0]

    def _bind(self, takes: tuple[Positional, ...]) -> None:
        """Give the words that are no options to the command's arguments, in order."""
        rest = self.positionals
        for positional in takes:
            number = len(rest) if positional["count"] in ("any", "some") else 1
            taken, rest = rest[:number], rest[number:]
            if not taken and positional["count"] in ("one", "some"):
                raise _errors().missing_argument(self.path, takes, positional)
            for position, word in taken:
                self._store(positional, positional["name"], word, position)
        if rest:
            raise _errors().too_many(self.words, self.path, takes, self.positionals)

    def _store(self, item: Option | Positional, name: str, word: str, position: int) -> None:
        into = item["into"]
        if item["kind"] == "pair":
            self._store_pair(into, name, word, position)
            return
        value = _value(item, self.path, name, word, position)
        if item.get("many") or item.get("count") in ("any", "some"):
            self.values.setdefault(into, []).append(value)
        elif self.values.setdefault(into, value) != value:
            raise _errors().given_twice(self.path, position, name, str(self.values[into]), word)

    def _store_pair(self, into: str, name: str, word: str, position: int) -> None:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise _errors().not_a_pair(self.path, position, name, word)
        pairs = self.values.setdefault(into, {})
        if key in pairs:
            raise _errors().given_twice(self.path, position, key, str(pairs[key]), text)
        pairs[key] = json_or_text(text)


def json_or_text(text: str) -> Json:
    """Return the JSON value that the text is, else the text.

    A number counts only in the form in which it would be written back: ``1.10`` may be a version
    and ``1234e56`` a commit, so they stay text.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    first = text[:1]
    if text.isascii() and text.removeprefix("-")[:1].isdigit():
        return _number_or_text(text)
    if first in _CLOSERS and len(text) > 1 and text[-1] == _CLOSERS[first]:
        from holdfast.core import json_text

        try:
            return json_text.loads(text, strict=True)
        except json_text.BadJson:
            return text
    return text


def _number_or_text(text: str) -> Json:
    if len(text) > _MAX_NUMBER_CHARS:
        return text
    if text.removeprefix("-").isdigit():
        return int(text) if str(int(text)) == text else text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if repr(number) == text and number % 1 else text


def _value(item: Option | Positional, path: list[str], name: str, word: str, position: int) -> Json:
    kind = item["kind"]
    if kind == "id" and not word:
        raise _errors().empty_value(position, name)
    if kind == "count":
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word)):
            raise _errors().not_a_count(path, position, name, word)
        return int(word)
    if kind == "task":
        number = json_or_text(word)
        return number if type(number) is int else word
    return word


def _check_text(words: list[str]) -> None:
    """Refuse words that are not UTF-8: they arrive with half surrogates, which no record can hold.

    A NUL cannot be kept either.
    """
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise _errors().undecodable(words) from None
    if any("\0" in word for word in words):
        raise _errors().undecodable(words)


def _is_option(word: str) -> bool:
    """Return whether the word is an option; ``-``, ``-5`` and ``- an item`` are text."""
    return word[:1] == "-" and len(word) > 1 and not (word[1].isspace() or word[1].isdigit())


def _by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    named = {option["name"]: option for option in options}
    named.update({option["short"]: option for option in options if option["short"]})
    return named


def _defaults(command: Command | None) -> Arguments:
    """Return the empty form of every value that the command can have."""
    values: Arguments = {}
    takes, options = (command["takes"], command["options"]) if command else ((), ())
    for option in (*COMMON, *options):
        values[option["into"]] = _empty(option["kind"], many=bool(option.get("many")))
    for positional in takes:
        many = positional["count"] in ("any", "some")
        values.setdefault(positional["into"], _empty(positional["kind"], many=many))
    return values


def _empty(kind: str, *, many: bool) -> Json:
    if kind == "flag":
        return False
    if kind == "pair":
        return {}
    return [] if many else None


def _errors() -> ModuleType:
    from holdfast.cli import usage_errors

    return usage_errors
