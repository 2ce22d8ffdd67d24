"""What the table of commands is made of, and the options that every command has.

``values`` says what a value names, for completion: ``completion`` knows where each is found.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Count, Kind, Option, Positional, Values


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
    into = into or name.lower()
    return {
        "name": name,
        "kind": kind,
        "count": count,
        "into": into,
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
        "--session",
        "ID",
        "who is asking (default: the client's session; an empty one is nobody)",
    ),
    flag("--help", "show help for the command", short="-h"),
)
