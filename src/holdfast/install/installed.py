"""Which clients call Holdfast, from which of their settings, and whether it answers.

Settings in a project came with it, so they are a stranger's text: of what they name, nothing is run
but this very Holdfast, or the one on the path. A person's own settings are taken at their word.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from errno import EINVAL

from holdfast.core import json_text
from holdfast.install.agents import AGENTS, COMMAND, USER, fastest
from holdfast.install.hooks import HOOKS, is_ours
from holdfast.system.disk import Disk
from holdfast.workspace.location import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields, Json
    from holdfast.install.agents import Agent

PLUGIN = "holdfast"
_MOST = 1_048_576
_BOM = b"\xef\xbb\xbf"
_LIMIT_S = 20
INSTALL = (
    "in Holdfast's checkout: pipx install . (or: pip install .), or put it on the PATH; "
    "holdfast init --local does without"
)


class Call:
    """One way in which a client calls Holdfast: in which file, and the words that start it."""

    def __init__(self, shown: str, words: list[str], *, is_own: bool) -> None:
        self.shown = shown
        self.words = words
        self.is_own = is_own

    def program(self) -> list[str] | None:
        """What may be run to try it; ``None`` where that is a stranger's."""
        if self.words == COMMAND.split():
            program = which(self.words[0])
            return [program, *self.words[1:]] if program else []
        return self.words if self.is_own or self.words == fastest() else None


class Found:
    """What the settings of all clients say: calls, and reasons why none will come."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Call]] = []
        """Each with the name of its client."""
        self.events: set[str] = set()
        """At which Holdfast is called."""
        self.troubles: list[tuple[str, str]] = []
        """A sentence, and the file to be edited."""


def connections(root: str) -> Found:
    """What every settings file of every client says, in a project and for the person."""
    found = Found()
    for agent in AGENTS.values():
        for scope, name in agent.files.items():
            folder = agent.own_folder() if scope == USER else root
            path = os.path.join(folder, name)
            shown = path if scope == USER else name
            try:
                settings = settings_in(path, None if scope == USER else root)
            except (json_text.BadJson, OSError) as error:
                found.troubles.append((f"{shown} cannot be read: {error}", shown))
                continue
            if settings.get("disableAllHooks") is True:
                found.troubles.append((f"{shown} switches all hooks off: disableAllHooks", shown))
            hooks = settings.get(HOOKS)
            events = hooks.items() if isinstance(hooks, dict) else ()
            found.events.update(name for name, value in events if any(_handlers(value)))
            for words in _calls(agent, settings):
                found.calls.append((agent.name, Call(shown, words, is_own=scope == USER)))
    return found


def settings_in(path: str, root: str | None = None) -> Fields:
    """What a settings file holds; nothing where there is none. A project's lies inside of it."""
    if not os.path.isfile(path):
        return {}
    if root is not None and not is_inside(path, root):
        raise OSError(EINVAL, "it leads out of the project")
    raw = (Disk().read(path, _MOST) or b"").removeprefix(_BOM)
    found = json_text.loads(raw if raw.strip() else b"{}")
    return found if isinstance(found, dict) else {}


def _calls(agent: Agent, settings: Fields) -> Iterator[list[str]]:
    """The commands that start Holdfast, each once."""
    plugins = settings.get("enabledPlugins")
    seen = []
    if agent.name == "claude" and isinstance(plugins, dict):
        names = [name for name, on in plugins.items() if on is True]
        if any(name.partition("@")[0] == PLUGIN for name in names):
            seen.append(COMMAND.split())
    for handler in _handlers(settings.get(HOOKS)):
        args = handler.get("args")
        command = handler["command"]
        words = shlex.split(command) if args is None else [command, *args]
        if words not in seen:
            seen.append(words)
    yield from seen


def _handlers(value: Json) -> Iterator[Fields]:
    """Our handlers, wherever they stand in the settings' hooks."""
    if is_ours(value):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _handlers(inner)


def ways_to_mend(call: Call) -> tuple[str, str]:
    """What is to be said of a call that gets no answer, and the command that mends it."""
    started = " ".join(call.words)[:200]
    if call.program() == []:
        return f"{call.shown}: holdfast is not on the PATH", INSTALL
    return f"{call.shown}: {started} does not answer", "holdfast init, with the options as before"


def version_of(program: list[str], folder: str) -> str | None:
    """The version of the Holdfast that answers; ``None`` when none does."""
    from holdfast.hooks.quick_check import PING

    answer = run(program, folder, json_text.dumps({"hook_event_name": PING}).encode())
    try:
        told = json_text.loads((answer or "").encode())
    except json_text.BadJson:
        return None
    version = told.get("holdfast") if isinstance(told, dict) else None
    return version if isinstance(version, str) else None


def which(name: str) -> str | None:
    """A program by its name, from absolute folders alone: a repository has no say in it."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, name) for folder in folders if os.path.isabs(folder))
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def run(command: list[str], folder: str, given: bytes = b"") -> str | None:
    """What a program prints; ``None`` when it fails, or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - a program that the person has, or has named
            command, cwd=folder, input=given, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
