"""The types of the command line's own data, for the type checker alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["flag", "text", "id", "count", "task", "pair"]
"""What a value must be: an ``id`` is not empty, a ``count`` is a whole number from 1, a ``task``
is a number where it looks like one, a ``pair`` is ``key=value``."""

Values = Literal[
    "", "workflow", "recipe", "phase", "step", "task", "task phase", "loop", "unit", "initiative",
    "milestone", "gate", "file", "@file", "command", "shell", "agent", "severity", "violation",
    "kind",
]  # fmt: skip
"""What a value names, so that it can be completed; empty for free text."""

Count = Literal["one", "maybe", "any", "some"]
"""How many words an argument takes. Only the last one may take any number, or at least one."""


class Positional(TypedDict):
    """An argument that is known by its position."""

    name: str
    kind: Kind
    count: Count
    into: str
    values: Values
    help: str


class Option(TypedDict):
    """A word that begins with a dash. A flag has no ``value``; ``many`` can be repeated."""

    name: str
    short: str
    value: NotRequired[str]
    kind: Kind
    many: NotRequired[bool]
    required: NotRequired[bool]
    into: str
    values: NotRequired[Values]
    help: str


class Command(TypedDict):
    """One command, as ``grammar.command`` declares it."""

    help: str
    takes: tuple[Positional, ...]
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    call: Callable[..., Any]
    workspace: bool
    """Whether ``call`` takes a keeper of the current workspace before the arguments."""


Arguments = dict[str, Any]
"""The parser's result: ``command``, and a value for every ``into`` of that command."""
