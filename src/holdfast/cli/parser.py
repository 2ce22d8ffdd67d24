"""The grammar of the command line, and the parser that reads the words of a line by it.

A module of ``commands`` declares a command with ``@command`` above its function. ``load`` imports
the one module that a line needs; help, completion and usage errors use ``load_all``. A line that is
not understood raises ``Usage``; ``usage_errors`` words it, and is imported only then.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any, Literal, TypeVar

    from holdfast.core.types import Json

    Arguments = dict[str, Any]
    """The parser's result: ``command``, and a value for every parameter of that command."""
    Function = TypeVar("Function", bound=Callable[..., object])
    Kind = Literal["flag", "text", "id", "count", "task", "pair"]
    """An ``id`` is not empty, a ``count`` is a whole number from 1, a ``task`` is a number where it
    looks like one, a ``pair`` is ``key=value``."""
    Values = Literal[
        "", "workflow", "recipe", "phase", "step", "task", "task phase", "loop", "unit",
        "initiative", "milestone", "gate", "file", "@file", "command", "shell", "agent", "severity",
        "violation", "kind",
    ]  # fmt: skip
    """What a value names, so that it can be completed; empty for free text."""

SECTIONS: dict[str, dict[str, str]] = {
    "Workflows": {
        "start": "workflow",
        "recipes": "workflow",
        "status": "workflow",
        "show": "workflow",
        "resume": "resume",
        "log": "watch",
        "watch": "watch",
        "complete": "workflow",
        "abandon": "workflow",
    },
    "Progress": dict.fromkeys(
        ("advance", "phase", "step", "task", "remind", "read", "set"), "progress"
    ),
    "Evidence": dict.fromkeys(("gate", "violation", "tests", "files"), "evidence"),
    "Loops": {"loop": "loop"},
    "Initiatives": {"initiative": "initiative"},
    "Beside workflows": {
        "context": "overview",
        "remember": "logs",
        "memory": "mcp",
        "forge": "logs",
        "interview": "logs",
        "delegation": "logs",
    },
    "Setting up": {
        "init": "setup",
        "uninstall": "setup",
        "hook": "setup",
        "mcp": "mcp",
        "doctor": "setup",
    },
    "Upkeep": {
        **dict.fromkeys(("trust", "clean", "sync", "verify", "repair", "export"), "upkeep"),
        "import": "upkeep",
        "completion": "completion",
        "demo": "upkeep",
        "help": "help",
    },
}
"""The first word of every command and the module that declares it, by section of the help."""
COMMANDS: dict[str, Command] = {}
"""The commands of the modules that have been imported."""
GROUPS: dict[str, str] = {}
"""First words that are no command themselves, each with what its commands do."""

_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}
_CLOSERS = {"{": "}", "[": "]", '"': '"'}
_MAX_NUMBER_CHARS = 60


class Parameter:
    """An argument or an option of a command, declared as the help spells it.

    ``NAME`` is required and ``[NAME]`` is not; ``--reason TEXT`` takes a value and ``--force`` is a
    flag. Three dots say that there may be several.
    """

    __slots__ = (
        "about", "into", "is_many", "is_option", "is_required", "kind", "name", "short",
        "value", "values",
    )  # fmt: skip

    def __init__(
        self,
        spelling: str,
        about: str,
        *,
        into: str = "",
        kind: Kind | None = None,
        values: Values = "",
        required: bool = False,
        short: str = "",
    ) -> None:
        name, _, self.value = spelling.removesuffix("...").partition(" ")
        self.is_option = name[0] == "-"
        self.is_required = required or name[0] not in "-["
        self.is_many = spelling.endswith("...")
        self.name = name.strip("[]")
        self.short = short
        self.about = about
        self.into = into or self.name.lstrip("-@").lower().replace("-", "_")
        """The key of the value in ``Arguments``."""
        if kind is None:
            is_flag = self.is_option and not self.value
            kind = "flag" if is_flag else "pair" if "=" in spelling else "text"
        self.kind: Kind = kind
        self.values = values

    def empty_value(self) -> Json:
        """Return the value if the line has none."""
        if self.kind == "flag":
            return False
        if self.kind == "pair":
            return {}
        return [] if self.is_many else None


class Command:
    """A command: what it does, its parameters and examples of it, and the function that runs it.

    Only the last argument may take several words.
    """

    def __init__(
        self, about: str, items: tuple[Parameter | str, ...], run: Callable[..., Any], *,
        workspace: bool = True,
    ) -> None:  # fmt: skip
        self.about = about
        self.parameters = [item for item in items if not isinstance(item, str)]
        self.arguments = [parameter for parameter in self.parameters if not parameter.is_option]
        self.options = [parameter for parameter in self.parameters if parameter.is_option]
        self.examples = [item for item in items if isinstance(item, str)]
        self.run = run
        self.has_workspace = workspace
        """Whether ``run`` takes a keeper of the current workspace before the arguments."""


def command(
    name: str, about: str, *items: Parameter | str, workspace: bool = True
) -> Callable[[Function], Function]:
    """Declare the decorated function as a command with these parameters, then its examples."""

    def declare(function: Function) -> Function:
        COMMANDS[name] = Command(about, items, function, workspace=workspace)
        return function

    return declare


COMMON: tuple[Parameter, ...] = (
    Parameter("--json", "answer with one JSON object"),
    Parameter(
        "--workflow ID",
        "the workflow that is meant (default: this session's, else this branch's)",
        short="-w",
        kind="id",
        values="workflow",
    ),
    Parameter(
        "--id ID", "names this request: a retry with the same one is applied once", kind="id"
    ),
    Parameter(
        "--session ID", "who is asking (default: the client's session; an empty one is nobody)"
    ),
    Parameter("--help", "show help for the command", short="-h"),
)
"""The options that every command has."""
WORKFLOW = Parameter(
    "[ID]", "the workflow, the same as -w ID", into="workflow", kind="id", values="workflow"
)


def load(first: str) -> None:
    """Import the module of the commands that begin with this word, if there is one."""
    for modules in SECTIONS.values():
        if first in modules:
            __import__(f"holdfast.cli.commands.{modules[first]}")


def load_all() -> dict[str, Command]:
    """Import every module, and return all commands by name, in the order of the help."""
    order = [first for modules in SECTIONS.values() for first in modules]
    for first in order:
        load(first)
    names = sorted(COMMANDS, key=lambda name: order.index(name.partition(" ")[0]))
    return {name: COMMANDS[name] for name in names}


def members(group: str) -> list[str]:
    """Return the full names of the commands that begin with these words."""
    return [name for name in load_all() if name.startswith(f"{group} ")]


class Usage(HoldfastError):
    """The command line was not understood."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("usage", message, hint)


def parse(words: list[str]) -> Arguments:
    """Return the command and its values; a value that is not there has its empty form.

    Raise ``Usage`` if the words do not fit the grammar, or cannot be kept: those that are not UTF-8
    arrive with half surrogates, which no record can hold, and neither can it hold a NUL.
    """
    try:
        is_text = b"\0" not in "".join(words).encode()
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise _errors().undecodable(words)
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
        self.options: dict[str, Parameter] = {}
        """The options that the command has, by name and short form."""
        self._add_options(COMMON)
        self.positionals: list[tuple[int, str]] = []
        """The words that are neither options nor the command's name, with their positions."""
        self.values: Arguments = {}

    def _add_options(self, options: Iterable[Parameter]) -> None:
        for option in options:
            self.options[option.name] = option
            if option.short:
                self.options[option.short] = option

    def read(self) -> None:
        has_ended = False
        while self.position < len(self.words):
            word = self.words[self.position]
            self.position += 1
            if not has_ended and word == "--":
                has_ended = True
            elif not has_ended and _is_option(word):
                self._read_option(word)
            elif self.command is None:
                self._read_name(word)
            elif not self.positionals and " ".join([*self.path, word]) in COMMANDS:
                # The command is the beginning of another one: ``recipes show``.
                self._read_name(word)
            else:
                self.positionals.append((self.position, word))

    def result(self) -> Arguments:
        name = " ".join(self.path)
        if self.values.get("help"):
            load("help")
            topic = [word for _, word in self.positionals] if name == "help" else self.path
            self.values["topic"] = topic
            name, self.command = "help", COMMANDS["help"]
        elif self.command is not None:
            self._bind(self.command)
        elif self.path:
            raise _errors().missing_command(name)
        parameters = (*COMMON, *(self.command.parameters if self.command else ()))
        empty = {parameter.into: parameter.empty_value() for parameter in parameters}
        return {**empty, **self.values, "command": name}

    def _read_name(self, word: str) -> None:
        if not self.path:
            load(word)
        name = " ".join([*self.path, word])
        self.command = COMMANDS.get(name)
        if self.command is not None:
            self._add_options(self.command.options)
        elif name not in GROUPS:
            raise _errors().unknown_command(self.words, self.position, " ".join(self.path))
        self.path.append(word)

    def _read_option(self, word: str) -> None:
        position = self.position
        name, attached, value = word.partition("=")
        option = self.options.get(name)
        if option is None:
            raise _errors().unknown_option(self.words, position, self.path, self.options)
        if option.kind == "flag":
            if attached:
                raise _errors().flag_with_value(self.path, position, option.name, value)
            self.values[option.into] = True
            return
        if not attached:
            following = self.words[position : position + 1]
            value = following[0] if following else "--"
            if value == "--" or value.partition("=")[0] in self.options:
                raise _errors().missing_value(self.path, position, option, name, following)
            self.position += 1
        self._store(option, value, position)

    def _bind(self, command: Command) -> None:
        """Give the words that are no options to the command's arguments, in order.

        Raise ``Usage`` if words are missing or too many, or a required option is missing.
        """
        rest = self.positionals
        for parameter in command.arguments:
            number = len(rest) if parameter.is_many else 1
            taken, rest = rest[:number], rest[number:]
            if not taken and parameter.is_required:
                raise _errors().missing_argument(self.path, command.arguments, parameter)
            for position, word in taken:
                self._store(parameter, word, position)
        if rest:
            raise _errors().too_many(self.words, self.path, command.arguments, self.positionals)
        for option in command.options:
            if option.is_required and option.into not in self.values:
                raise _errors().missing_option(self.path, option)

    def _store(self, parameter: Parameter, word: str, position: int) -> None:
        name, into, kind = parameter.name, parameter.into, parameter.kind
        value: Json = word
        if kind == "pair":
            key, equals, text = word.partition("=")
            if not equals or not key:
                raise _errors().not_a_pair(self.path, position, name, word)
            pairs = self.values.setdefault(into, {})
            if key in pairs:
                raise _errors().given_twice(self.path, position, key, str(pairs[key]), text)
            pairs[key] = json_or_text(text)
            return
        if kind == "id" and not word:
            raise _errors().empty_value(position, name)
        if kind == "count":
            if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word)):
                raise _errors().not_a_count(self.path, position, name, word)
            value = int(word)
        elif kind == "task":
            number = json_or_text(word)
            value = number if type(number) is int else word
        if parameter.is_many:
            self.values.setdefault(into, []).append(value)
        elif self.values.setdefault(into, value) != value:
            raise _errors().given_twice(self.path, position, name, str(self.values[into]), word)


def own_values(args: Arguments) -> Arguments:
    """Return the values of the command's own parameters, without those that every command has."""
    parameters = COMMANDS[args["command"]].parameters
    return {parameter.into: args[parameter.into] for parameter in parameters}


def json_or_text(text: str) -> Json:
    """Return the JSON value that the text is, else the text.

    A number counts only in the form in which it would be written back: ``1.10`` may be a version
    and ``1234e56`` a commit, so they stay text.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.isascii() and text.removeprefix("-")[:1].isdigit() and len(text) <= _MAX_NUMBER_CHARS:
        if text.removeprefix("-").isdigit():
            return int(text) if str(int(text)) == text else text
        try:
            number = float(text)
        except ValueError:
            return text
        return number if repr(number) == text and number % 1 else text
    if len(text) > 1 and text[-1] == _CLOSERS.get(text[0]):
        from holdfast.core import json_text

        try:
            return json_text.loads(text, strict=True)
        except json_text.BadJson:
            return text
    return text


def _is_option(word: str) -> bool:
    """Return whether the word is an option; ``-``, ``-5`` and ``- an item`` are text."""
    return word[:1] == "-" and len(word) > 1 and not (word[1].isspace() or word[1].isdigit())


def _errors() -> ModuleType:
    from holdfast.cli import usage_errors

    return usage_errors
