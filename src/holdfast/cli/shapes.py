"""The shapes of the command line's own data, for the type checker alone."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Kind = Literal["flag", "text", "id", "count", "task", "pair"]
"""What a value must be: an ``id`` is not empty, a ``count`` is a whole number from 1, a ``task``
is a number where it looks like one, a ``pair`` is ``key=value``."""

Values = Literal[
    "",
    "workflow",
    "recipe",
    "phase",
    "step",
    "task",
    "task phase",
    "loop",
    "unit",
    "initiative",
    "milestone",
    "gate",
    "file",
    "@file",
    "command",
    "shell",
    "agent",
    "severity",
    "violation",
    "kind",
]
"""What a value is the name of, so that it can be completed; nothing where people write freely."""

Count = Literal["one", "maybe", "any", "some"]
"""How many words: the last two, any number and at least one, are for the last argument."""


class Positional(TypedDict):
    """An argument that is known by its place."""

    name: str
    kind: Kind
    count: Count
    into: str
    values: Values
    help: str


class Option(TypedDict):
    """A word that begins with a dash. A flag has no ``value``; ``many`` may stand repeatedly."""

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
    """One command. ``call`` is ``module.function`` within this package."""

    help: str
    call: str
    takes: NotRequired[tuple[Positional, ...]]
    options: NotRequired[tuple[Option, ...]]
    examples: tuple[str, ...]


Arguments = dict[str, Any]
"""What the parser gives: ``command``, and a value for every ``into`` of that command."""


AnswerKind = Literal[
    "here",
    "watch",
    "change",
    "started",
    "workflow",
    "briefing",
    "workflows",
    "events",
    "stream",
    "lines",
    "report",
    "recipes",
    "recipe",
    "script",
    "candidates",
    "run",
    "gates",
    "wishes",
    "cleaned",
    "ended",
    "plan",
    "silence",
    "check",
    "turn",
    "loops",
    "driven",
    "unverified",
    "settings",
    "layers",
    "text",
    "demo",
    "page",
    "failure",
]


class Answer(TypedDict):
    """What a command function gives back; ``answers.json`` and ``screen`` each know every kind."""

    kind: AnswerKind
    data: Any
    code: NotRequired[int]
    """The exit code; 0 where there is none."""
