"""The grammar of the command line, and the parser that reads the words of a line by it.

A module of ``commands`` declares a command with ``@command`` above its function. ``load`` imports
the one module that a line needs; help, completion and suggestions use ``load_all``. A line that is
not understood raises ``Usage``: the message says what was given, where, and why it cannot be, and
the hint is a command to run. Only then ``help`` is imported, for what was probably meant.
"""

from __future__ import annotations

from holdfast.cli.screen import quote_word
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal, TypeVar

    from holdfast.core.types import Json

    Arguments = dict[str, Any]
    """The parser's result: ``command``, a value for each of its parameters, and derived from these:

    ``own``: the values of parameters that not every command has; ``target``: the workflow and the
    request's id, as arguments of the keeper; ``is_aimed``: True if the line names a workflow or a
    session, so that the next command has to name it too.
    """
    Function = TypeVar("Function", bound=Callable[..., object])
    Kind = Literal["flag", "text", "id", "count", "number", "task", "pair"]
    """An ``id`` is not empty, a ``count`` is a whole number from 1, a ``number`` one from 0, a
    ``task`` is a number where it looks like one, a ``pair`` is ``key=value``."""
    Named = Literal[
        "", "workflow", "recipe", "phase", "step", "task", "task phase", "loop", "unit",
        "initiative", "milestone", "gate", "file", "@file", "command", "shell", "agent", "severity",
        "violation", "kind", "any task", "reminder", "reading", "key", "folder", "yes or no",
        "hub", "conflict", "event", "report", "question",
    ]  # fmt: skip
    """The kind of thing that a value names, so that it can be completed; empty for free text."""

SECTIONS: dict[str, dict[str, str]] = {
    "Workflows": {
        "start": "workflow", "recipes": "workflow", "status": "workflow", "show": "workflow",
        "resume": "workflow", "log": "upkeep", "search": "search", "watch": "watch",
        "web": "web", "complete": "workflow", "abandon": "workflow", "rename": "workflow",
        "pool": "pool", "report": "report", "pr": "report",
    },
    "Progress": {
        "advance": "progress", "phase": "progress", "step": "progress", "task": "progress",
        "red": "steps", "green": "steps", "refactor": "steps", "commit": "steps",
        "remind": "progress", "read": "progress", "set": "progress", "unset": "progress",
        "ask": "questions", "answer": "questions",
        "undo": "progress",
    },
    "Evidence": {
        "gate": "evidence", "violation": "evidence", "tests": "evidence", "files": "evidence",
    },
    "Loops": {"loop": "loop"},
    "Initiatives": {"initiative": "initiative"},
    "Other machines": {"hub": "hub", "conflicts": "hub"},
    "Beside workflows": {
        "context": "overview", "remember": "logs", "memory": "setup", "forge": "logs",
        "interview": "logs", "delegation": "logs",
    },
    "Setting up": {
        "init": "setup", "uninstall": "setup", "hook": "setup", "statusline": "setup",
        "mcp": "setup", "doctor": "setup",
    },
    "Upkeep": {
        "trust": "upkeep", "clean": "upkeep", "archive": "upkeep", "sync": "upkeep",
        "verify": "upkeep", "repair": "upkeep", "export": "upkeep", "import": "upkeep",
        "completion": "completion", "demo": "upkeep", "help": "help",
    },
}  # fmt: skip
"""The first word of every command and the module that declares it, by section of the help."""
COMMANDS: dict[str, CommandSpec] = {}
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
        "about", "into", "is_many", "is_option", "is_required", "kind", "name", "names",
        "short", "value",
    )  # fmt: skip

    def __init__(
        self,
        spelling: str,
        about: str,
        *,
        into: str = "",
        kind: Kind | None = None,
        names: Named = "",
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
        self.names = names


class CommandSpec:
    """A command: what it does, its parameters, examples of it, and the function that runs it.

    Only the last argument may take several words.
    """

    def __init__(
        self, about: str, items: tuple[Parameter | str, ...], run: Callable[..., Any], *,
        takes_keeper: bool,
    ) -> None:  # fmt: skip
        self.about = about
        self.parameters = [item for item in items if not isinstance(item, str)]
        self.arguments = [parameter for parameter in self.parameters if not parameter.is_option]
        self.options = [parameter for parameter in self.parameters if parameter.is_option]
        self.examples = [item for item in items if isinstance(item, str)]
        self.run = run
        self.takes_keeper = takes_keeper
        """True if ``run`` takes a keeper of the current workspace before the arguments."""


def command(
    title: str, *items: Parameter | str, workspace: bool = True
) -> Callable[[Function], Function]:
    """Declare the decorated function as a command, by its parameters and then examples of it.

    ``title`` is its name and what it does, as the help shows them: ``step: start a step``. Without
    a ``workspace`` the function takes no keeper.
    """

    def declare(function: Function) -> Function:
        name, _, about = title.partition(": ")
        COMMANDS[name] = CommandSpec(about, items, function, takes_keeper=workspace)
        return function

    return declare


COMMON: tuple[Parameter, ...] = (
    Parameter("--json", "answer with one JSON object"),
    Parameter(
        "--workflow ID",
        "the workflow that is meant (default: this session's, else this branch's)",
        short="-w",
        kind="id",
        names="workflow",
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


def _by_name(options: Iterable[Parameter]) -> dict[str, Parameter]:
    """Return options by name and by short form."""
    return {name: option for option in options for name in (option.name, option.short) if name}


_COMMON_OPTIONS = _by_name(COMMON)
WORKFLOW = Parameter(
    "[ID]", "the workflow, the same as -w ID", into="workflow", kind="id", names="workflow"
)


def load(first: str) -> None:
    """Import the module of the commands that begin with this word, if there is one."""
    for modules in SECTIONS.values():
        if first in modules:
            __import__(f"holdfast.cli.commands.{modules[first]}")


def load_all() -> dict[str, CommandSpec]:
    """Import every module, and return all commands by name, in the order of the help."""
    order = [first for modules in SECTIONS.values() for first in modules]
    for first in order:
        load(first)
    names = sorted(COMMANDS, key=lambda name: order.index(name.partition(" ")[0]))
    return {name: COMMANDS[name] for name in names}


def next_words(name: str) -> list[str]:
    """Return the words with which the name of a command can go on; it may have no word yet."""
    begin = f"{name} " if name else ""
    rests = [full[len(begin) :] for full in load_all() if full.startswith(begin)]
    return list(dict.fromkeys([words.partition(" ")[0] for words in rests]))


class Usage(HoldfastError):
    """The command line was not understood."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("usage", message, hint)


def parse(words: list[str]) -> Arguments:
    """Return the command and its values; a value that is not there has its empty form.

    Raise ``Usage`` if the words do not fit the grammar, or if a record cannot hold one: it has a
    NUL, or half surrogates in place of bytes that are not UTF-8.
    """
    for position, word in enumerate(words, 1):
        why = "has a NUL in it" if "\0" in word else ""
        try:
            word.encode()
        except UnicodeEncodeError:
            why = why or "is not UTF-8 text"
        if why:
            message = f"argument {position}, {quote_word(word)}, {why}, so it cannot be kept"
            raise Usage(message, "holdfast help")
    reader = WordReader(words)
    reader.read()
    name = " ".join(reader.path)
    if reader.values.get("help"):
        load("help")
        topic = [word for _, word in reader.positionals] if name == "help" else reader.path
        reader.values["topic"] = topic
        name, reader.command = "help", COMMANDS["help"]
    else:
        reader.bind()
    args: Arguments = {"command": name}
    own = reader.command.parameters if reader.command else []
    for parameter in (*COMMON, *own):
        empty: Json = {} if parameter.kind == "pair" else [] if parameter.is_many else None
        args[parameter.into] = False if parameter.kind == "flag" else empty
    args |= reader.values
    args["own"] = {parameter.into: args[parameter.into] for parameter in own}
    args["target"] = {"workflow": args["workflow"], "id": args["id"]}
    args["is_aimed"] = args["workflow"] is not None or args["session"] is not None
    return args


class WordReader:
    """One pass over the words. Positions are counted for people, from 1."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.position = 0
        self.path: list[str] = []
        self.command: CommandSpec | None = None
        self.options = dict(_COMMON_OPTIONS)
        """The options that the command has, by name and short form."""
        self.positionals: list[tuple[int, str]] = []
        """The words that are neither options nor the command's name, with their positions."""
        self.values: Arguments = {}

    def read(self) -> None:
        """Read all words; raise ``Usage`` at one that is no command or option there."""
        has_ended = False
        while self.position < len(self.words):
            word = self.words[self.position]
            self.position += 1
            name, second = " ".join([*self.path, word]), word[1:2]
            # ``-``, ``-5`` and ``- an item`` are text.
            is_dashed = word[:1] == "-" and second and not (second.isspace() or second.isdigit())
            if word == "--" and not has_ended:
                has_ended = True
            elif is_dashed and not has_ended:
                self._read_option(word)
            elif self.command and (self.positionals or name not in COMMANDS):
                self.positionals.append((self.position, word))
            else:
                # The name of a command may be the beginning of another one: ``recipes show``.
                if not self.path:
                    load(word)
                self.command = COMMANDS.get(name)
                if self.command is not None:
                    self.options |= _by_name(self.command.options)
                elif name not in GROUPS:
                    from holdfast.cli.commands.help import unknown_command

                    raise unknown_command(self.words, self.position, " ".join(self.path))
                self.path.append(word)

    def _read_option(self, word: str) -> None:
        position = self.position
        name, attached, value = word.partition("=")
        option = self.options.get(name)
        if option is None:
            from holdfast.cli.commands.help import unknown_option

            raise unknown_option(self)
        if option.kind == "flag":
            if attached:
                but = f"takes no value, but was given {quote_word(value)}"
                raise self._usage(f"{option.name} (argument {position}) {but}")
            self.values[option.into] = True
            return
        if not attached and option.value.startswith("["):
            following = self.words[position : position + 1]
            if not following or not following[0].isdigit():
                self.values[option.into] = ""
                return
        if not attached:
            message = f"{name} (argument {position}) needs a value, {option.value}, but"
            if position == len(self.words):
                raise self._usage(f"{message} nothing follows it")
            value = self.words[position]
            if value == "--" or value.partition("=")[0] in self.options:
                advice = f"a value like that is written {option.name}=VALUE"
                raise self._usage(f"{message} {quote_word(value)} follows it; {advice}")
            self.position += 1
        self._store(option, value, position)

    def bind(self) -> None:
        """Give the words that are no options to the command's arguments, in order.

        Raise ``Usage`` if words are missing or too many, or a required option is missing.
        """
        name = " ".join(self.path)
        needs = f"`holdfast {name}` needs"
        if self.command is None:
            if name:
                raise self._usage(f"{needs} one of: {', '.join(next_words(name))}")
            return
        unbound = self.positionals
        for number, argument in enumerate(self.command.arguments, 1):
            count = len(unbound) if argument.is_many else 1
            taken, unbound = unbound[:count], unbound[count:]
            if not taken and argument.is_required:
                what = f"{argument.name}, {argument.about}, as its argument {number}"
                raise self._usage(f"{needs} {what}, and it was not given")
            for position, word in taken:
                self._store(argument, word, position)
        if unbound:
            from holdfast.cli.commands.help import too_many

            raise too_many(self, self.command.arguments)
        for option in self.command.options:
            if option.is_required and option.into not in self.values:
                what = f"{option.name} {option.value} ({option.about})"
                raise self._usage(f"{needs} {what}, and it was not given")

    def _store(self, parameter: Parameter, word: str, position: int) -> None:
        name, into, kind = parameter.name, parameter.into, parameter.kind
        value: Json = word
        is_number = word.isascii() and word.isdigit() and len(word) < 10
        if kind == "pair":
            self._store_pair(parameter, word, position)
            return
        if kind == "id" and not word:
            why = "is empty, so it names nothing; was a variable not set?"
            raise Usage(f"{name} (argument {position}) {why}", "holdfast status")
        if kind in ("count", "number"):
            least = 1 if kind == "count" else 0
            if not is_number or int(word) < least:
                why = f"needs a whole number from {least}, not {quote_word(word)}"
                raise self._usage(f"{name} (argument {position}) {why}")
            value = int(word)
        elif kind == "task" and is_number and str(int(word)) == word:
            value = int(word)
        if parameter.is_many:
            self.values.setdefault(into, []).append(value)
        elif self.values.setdefault(into, value) != value:
            raise self._twice(name, self.values[into], word, position)

    def _store_pair(self, parameter: Parameter, word: str, position: int) -> None:
        key, equals, text = word.partition("=")
        if not equals or not key:
            where = f"{parameter.name}, " if parameter.is_option else ""
            why = "the key before the `=` is empty" if equals else "it has no `=`"
            message = f"{quote_word(word)} ({where}argument {position}) is not KEY=VALUE: {why}"
            raise self._usage(message)
        pairs = self.values.setdefault(parameter.into, {})
        if key in pairs:
            raise self._twice(quote_word(key)[1:-1], pairs[key], text, position)
        pairs[key] = json_or_text(text)

    def _twice(self, name: str, first: Json, second: str, position: int) -> Usage:
        values = f"{quote_word(str(first))} and {quote_word(second)} (argument {position})"
        return self._usage(f"{name} was given twice: {values}")

    def _usage(self, message: str) -> Usage:
        return Usage(message, " ".join(["holdfast", "help", *self.path]))


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
