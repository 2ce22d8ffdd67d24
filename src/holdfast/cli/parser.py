"""From the words of a command line to plain values, by the grammar in ``table``.

A command line that is not understood raises ``Usage``; how that is worded, and what may have been
meant, is in ``usage_errors``, which nobody imports before there is one.
"""

from __future__ import annotations

from holdfast.cli.grammar import COMMON
from holdfast.cli.table import COMMANDS, GROUPS
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.cli.shapes import Arguments, Command, Option, Positional
    from holdfast.core.types import Json

_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}
_CLOSERS = {"{": "}", "[": "]", '"': '"'}
_MAX_DIGITS = 60


class Usage(HoldfastError):
    """The command line was not understood."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("usage", message, hint)


def parse(words: list[str]) -> Arguments:
    """The command and its values; every value that was not given has its empty form."""
    _check_text(words)
    reader = Reader(words)
    reader.read()
    return reader.result()


class Reader:
    """One pass over the words. Positions are counted for people, from 1."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.place = 0
        self.path: list[str] = []
        self.command: Command | None = None
        self.options = _by_name(COMMON)
        self.plain: list[tuple[int, str]] = []
        self.found: Arguments = {}

    def read(self) -> None:
        options_end = False
        while self.place < len(self.words):
            word = self.words[self.place]
            self.place += 1
            if not options_end and word == "--":
                options_end = True
            elif not options_end and _is_option(word):
                self._take_option(word)
            elif self.command is None or self._goes_on(word):
                self._take_name(word)
            else:
                self.plain.append((self.place, word))

    def _goes_on(self, word: str) -> bool:
        """Whether a command's name is only the beginning of another one's: ``recipes show``."""
        return not self.plain and " ".join([*self.path, word]) in COMMANDS

    def result(self) -> Arguments:
        name = " ".join(self.path)
        if self.found.get("help"):
            topic = [word for _, word in self.plain] if name == "help" else self.path
            return {**_defaults(COMMANDS["help"]), **self.found, "command": "help", "topic": topic}
        if self.command is None and not self.path:
            # ``holdfast`` alone, or with nothing but options that every command has.
            return {
                **_defaults({"help": "", "call": "", "examples": ()}),
                **self.found,
                "command": "",
            }
        if self.command is None:
            raise _mistakes().missing_command(name)
        self._bind()
        for option in self.command.get("options", ()):
            if option.get("required") and option["into"] not in self.found:
                raise _mistakes().missing_option(name, option)
        return {**_defaults(self.command), **self.found, "command": name}

    def _take_name(self, word: str) -> None:
        name = " ".join([*self.path, word])
        self.command = COMMANDS.get(name)
        if self.command is not None:
            self.options = {**self.options, **_by_name(self.command.get("options", ()))}
        elif name not in GROUPS:
            raise _mistakes().unknown_command(self.words, self.place, " ".join(self.path))
        self.path.append(word)

    def _take_option(self, word: str) -> None:
        place = self.place
        name, attached, value = word.partition("=")
        option = self.options.get(name)
        if option is None:
            raise _mistakes().unknown_option(self.words, place, self.path, self.options)
        if option["kind"] == "flag":
            if attached:
                raise _mistakes().flag_with_value(self.path, place, option["name"], value)
            self.found[option["into"]] = True
            return
        if not attached:
            value = self._next_value(option, name)
        self._store(option, option["name"], value, place)

    def _next_value(self, option: Option, name: str) -> str:
        following = self.words[self.place : self.place + 1]
        if not following or following[0] == "--" or _name_of(following[0]) in self.options:
            raise _mistakes().missing_value(self.path, self.place, option, name, following)
        self.place += 1
        return following[0]

    def _bind(self) -> None:
        takes = self.command.get("takes", ()) if self.command else ()
        left = self.plain
        for positional in takes:
            number = len(left) if positional["count"] in ("any", "some") else 1
            taken, left = left[:number], left[number:]
            if not taken and positional["count"] in ("one", "some"):
                raise _mistakes().missing_argument(self.path, takes, positional)
            for place, word in taken:
                self._store(positional, positional["name"], word, place)
        if left:
            raise _mistakes().too_many(self.words, self.path, takes, self.plain)

    def _store(self, item: Option | Positional, name: str, word: str, place: int) -> None:
        into = item["into"]
        if item["kind"] == "pair":
            self._store_pair(into, name, word, place)
            return
        value = _value(item, self.path, name, word, place)
        if item.get("many") or item.get("count") in ("any", "some"):
            self.found.setdefault(into, []).append(value)
        elif self.found.setdefault(into, value) != value:
            raise _mistakes().given_twice(self.path, place, name, str(self.found[into]), word)

    def _store_pair(self, into: str, name: str, word: str, place: int) -> None:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise _mistakes().not_a_pair(self.path, place, name, word)
        pairs = self.found.setdefault(into, {})
        if key in pairs:
            raise _mistakes().given_twice(self.path, place, key, str(pairs[key]), text)
        pairs[key] = json_or_text(text)


def json_or_text(text: str) -> Json:
    """The JSON value that the text is, else the text.

    A number is one only in the form in which it would be written back: ``1.10`` may be a version
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
    if len(text) > _MAX_DIGITS:
        return text
    if text.removeprefix("-").isdigit():
        return int(text) if str(int(text)) == text else text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if repr(number) == text and number % 1 else text


def _value(item: Option | Positional, path: list[str], name: str, word: str, place: int) -> Json:
    kind = item["kind"]
    if kind == "id" and not word:
        raise _mistakes().empty_value(place, name)
    if kind == "count":
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word)):
            raise _mistakes().not_a_count(path, place, name, word)
        return int(word)
    if kind == "task":
        number = json_or_text(word)
        return number if type(number) is int else word
    return word


def _check_text(words: list[str]) -> None:
    """A word that is not UTF-8 arrives with half surrogates in it, which no record can hold."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise _mistakes().undecodable(words) from None
    if any("\0" in word for word in words):
        raise _mistakes().undecodable(words)


def _is_option(word: str) -> bool:
    """``-``, ``-5`` and ``- an item`` are text."""
    return word[:1] == "-" and len(word) > 1 and not (word[1].isspace() or word[1].isdigit())


def _name_of(word: str) -> str:
    return word.partition("=")[0]


def _by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    named = {option["name"]: option for option in options}
    named.update({option["short"]: option for option in options if option["short"]})
    return named


def _defaults(command: Command) -> Arguments:
    values: Arguments = {}
    for option in (*COMMON, *command.get("options", ())):
        values[option["into"]] = _empty(option["kind"], many=bool(option.get("many")))
    for positional in command.get("takes", ()):
        many = positional["count"] in ("any", "some")
        values.setdefault(positional["into"], _empty(positional["kind"], many=many))
    return values


def _empty(kind: str, *, many: bool) -> Json:
    if kind == "flag":
        return False
    if kind == "pair":
        return {}
    return [] if many else None


def _mistakes() -> ModuleType:
    from holdfast.cli import usage_errors

    return usage_errors
