"""Our command in a client's status line, composed with one that is there.

A client shows the output of one command, so ours runs the former one first: its text becomes the
argument of ours, and the client's other fields stay. Text is taken over only within one file, or
from the person's own settings into the person's own settings of a project. So whatever is run was
in the settings that the client takes it from, or in the person's own: a repository's command is
never moved to where it would be trusted more.
"""

from __future__ import annotations

import shlex

from holdfast.core.refusal import shell_word
from holdfast.install.agents import TEAM, fastest_command, is_our_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json

KEY = "statusLine"
_COMMAND = "statusline"
_AFTER = "--after"
_FOR_TEAM = f"command -v holdfast >/dev/null || exit 0; exec holdfast {_COMMAND}"
_TEAM_START = "f="
_FOR_TEAM_AFTER = (
    f"; command -v holdfast >/dev/null && exec holdfast {_COMMAND} {_AFTER} " + '"$f"; eval "$f"'
)
"""A colleague without Holdfast sees the former status line alone."""


def command_line(scope: str, former: str = "") -> str:
    """Return the command for the settings of a scope, which runs the ``former`` one first."""
    words = fastest_command() if scope != TEAM else []
    if not words:
        return f"{_TEAM_START}{shell_word(former)}{_FOR_TEAM_AFTER}" if former else _FOR_TEAM
    words += [_COMMAND, *([_AFTER, former] if former else [])]
    return " ".join([shell_word(word) for word in words])


def former_of(command: str) -> str | None:
    """Return the command that a command of ours runs first, which may be empty.

    Return ``None`` for a command of somebody else.
    """
    if command == _FOR_TEAM:
        return ""
    if command.startswith(_TEAM_START) and command.endswith(_FOR_TEAM_AFTER):
        words = _split(command[len(_TEAM_START) : -len(_FOR_TEAM_AFTER)])
        return words[0] if len(words) == 1 else None
    words = _split(command)
    after = words.pop() if words[-2:-1] == [_AFTER] else ""
    words = words[:-1] if after else words
    return after if words[-1:] == [_COMMAND] and is_our_program(words[:-1]) else None


def own_words(command: str) -> list[str]:
    """Return the words of our part of a command of ours, without the former one."""
    if command.endswith((_FOR_TEAM, _FOR_TEAM_AFTER)):
        return ["holdfast", _COMMAND]
    words = _split(command)
    return words[:-2] if words[-2:-1] == [_AFTER] else words


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def shown_command(settings: Json) -> str:
    """Return the command of the status line in the settings; empty if there is none."""
    line = settings.get(KEY) if isinstance(settings, dict) else None
    command = line.get("command") if isinstance(line, dict) else None
    return command if isinstance(command, str) else ""


def has_own(settings: Json) -> bool:
    """Return True if the status line in the settings is ours."""
    return former_of(shown_command(settings)) is not None


def add(settings: Json, scope: str, beneath: str = "") -> None:
    """Put our command into the settings, or renew it.

    ``beneath`` is a command that other settings have, and that these hide.
    """
    if KEY not in settings:
        settings[KEY] = {"type": "command", "command": command_line(scope, beneath)}
        return
    line: Fields = settings[KEY]
    command = line["command"]
    former = former_of(command)
    if former is None and f"holdfast {_COMMAND}" in command:
        return  # Somebody has composed it already.
    line["command"] = command_line(scope, command if former is None else former)


def remove(settings: Json) -> None:
    """Take our command out of the settings, and put the former one back."""
    former = former_of(shown_command(settings))
    if former:
        settings[KEY]["command"] = former
    elif former is not None:
        del settings[KEY]
