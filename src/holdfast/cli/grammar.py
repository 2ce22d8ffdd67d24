"""The grammar of the command line: what commands are made of, and which module declares each.

A module of ``commands`` declares a command with ``@command`` above its function. ``load`` imports
the one module that a command line needs. Help, completion and usage errors use ``load_all``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.cli.types import Command, Count, Kind, Option, Positional, Values

    Function = TypeVar("Function", bound=Callable[..., object])

SECTIONS: dict[str, dict[str, str]] = {
    "Workflows": {
        "start": "workflow",
        "recipes": "recipes",
        "status": "workflow",
        "show": "workflow",
        "resume": "resume",
        "log": "log",
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
        "context": "context",
        "remember": "logs",
        "memory": "memory",
        "forge": "logs",
        "interview": "logs",
        "delegation": "logs",
    },
    "Setting up": {
        "init": "setup",
        "uninstall": "setup",
        "hook": "hook",
        "mcp": "servers",
        "doctor": "setup",
    },
    "Upkeep": {
        "trust": "trust",
        "clean": "upkeep",
        "sync": "upkeep",
        "verify": "upkeep",
        "repair": "upkeep",
        "export": "upkeep",
        "import": "upkeep",
        "completion": "completion",
        "demo": "upkeep",
        "help": "help",
    },
}
"""The first word of every command and the module that declares it, by section of the help."""

COMMANDS: dict[str, Command] = {}
"""The commands of the modules that have been imported."""
_SECTIONS: dict[str, dict[str, Command]] = {}
"""All commands by section, once every module has been imported."""
GROUPS: dict[str, str] = {}
"""First words that are no command themselves, each with what its commands do."""


def load(first: str) -> None:
    """Import the module of the commands that begin with this word, if there is one."""
    for modules in SECTIONS.values():
        if first in modules:
            __import__(f"holdfast.cli.commands.{modules[first]}")


def load_sections() -> dict[str, dict[str, Command]]:
    """Import every module, and return all commands by section, in the order of the help."""
    if not _SECTIONS:
        for section, modules in SECTIONS.items():
            _SECTIONS[section] = {}
            for first in modules:
                load(first)
                names = [name for name in COMMANDS if name.partition(" ")[0] == first]
                _SECTIONS[section] |= {name: COMMANDS[name] for name in names}
    return _SECTIONS


def load_all() -> dict[str, Command]:
    """Import every module, and return all commands by name, in the order of the help."""
    return {name: spec for section in load_sections().values() for name, spec in section.items()}


def members(group: str) -> list[str]:
    """Return the full names of the commands that begin with these words."""
    return [name for name in load_all() if name.startswith(f"{group} ")]


def command(
    name: str,
    about: str,
    *items: Positional | Option,
    examples: tuple[str, ...],
    workspace: bool = True,
) -> Callable[[Function], Function]:
    """Declare the decorated function as a command that takes these arguments and options."""

    def declare(function: Function) -> Function:
        COMMANDS[name] = {
            "help": about,
            "takes": tuple([item for item in items if "count" in item]),  # type: ignore[misc]
            "options": tuple([item for item in items if "count" not in item]),
            "examples": examples,
            "call": function,
            "workspace": workspace,
        }
        return function

    return declare


def flag(name: str, about: str, short: str = "") -> Option:
    return {
        "name": name,
        "short": short,
        "kind": "flag",
        "into": name[2:].replace("-", "_"),
        "help": about,
    }


def option(
    name: str,
    value: str,
    about: str,
    *,
    into: str = "",
    kind: Kind = "text",
    short: str = "",
    many: bool = False,
    required: bool = False,
    values: Values = "",
) -> Option:
    return {
        "name": name,
        "short": short,
        "value": value,
        "kind": kind,
        "many": many,
        "required": required,
        "into": into or name[2:],
        "values": values,
        "help": about,
    }


def argument(
    name: str,
    about: str,
    *,
    into: str = "",
    kind: Kind = "text",
    count: Count = "one",
    values: Values = "",
) -> Positional:
    return {
        "name": name,
        "kind": kind,
        "count": count,
        "into": into or name.lower(),
        "values": values,
        "help": about,
    }


COMMON: tuple[Option, ...] = (
    flag("--json", "answer with one JSON object"),
    option(
        "--workflow",
        "ID",
        "the workflow that is meant (default: this session's, else this branch's)",
        short="-w",
        kind="id",
        values="workflow",
    ),
    option(
        "--id", "ID", "names this request: a retry with the same one is applied once", kind="id"
    ),
    option(
        "--session", "ID", "who is asking (default: the client's session; an empty one is nobody)"
    ),
    flag("--help", "show help for the command", short="-h"),
)
"""The options that every command has."""

WORKFLOW = argument(
    "ID",
    "the workflow, the same as -w ID",
    into="workflow",
    kind="id",
    count="maybe",
    values="workflow",
)
MEMORY_FILE = option(
    "--file",
    "PATH",
    "the memory's JSONL file (default: MEMORY_FILE_PATH, else the person's own)",
    into="memory_file",
    values="file",
)
