"""Find the hooks of ours in clients' settings, and run them to see whether they answer.

A project's settings may come from a stranger: of the commands in them, only this installation of
Holdfast and the one on the PATH are run. A user's own settings are trusted.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from errno import EINVAL

from holdfast.core import json_text
from holdfast.install.agents import AGENTS, COMMAND, USER, fastest_command
from holdfast.install.hooks import own_handlers
from holdfast.system.disk import Disk
from holdfast.workspace.location import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.install.agents import Agent

PLUGIN = "holdfast"
PING = b'{"hook_event_name":"HoldfastPing"}'
"""An event that only Holdfast sends; a hook answers it with its version."""
INSTALL_HINT = (
    "install it, in Holdfast's checkout: pipx install . (or: pip install .), or add it to the "
    "PATH; holdfast init --local needs neither"
)
_MAX_FILE_BYTES = 1024 * 1024
_TIMEOUT_S = 20


class InstalledHook:
    """A command in a client's settings that starts Holdfast."""

    def __init__(self, client: str, file: str, words: list[str], *, is_trusted: bool) -> None:
        self.client = client
        self.file = file
        """The settings file, as messages show it."""
        self.words = words
        self.is_trusted = is_trusted

    def program(self) -> list[str] | None:
        """Return the command to run; empty if it is not on the PATH, ``None`` if not trusted."""
        if self.words == COMMAND.split():
            program = which(self.words[0])
            return [program, *self.words[1:]] if program else []
        return self.words if self.is_trusted or self.words == fastest_command() else None


class InstalledHooks:
    """The hooks in the settings of all clients."""

    def __init__(self) -> None:
        self.hooks: list[InstalledHook] = []
        self.events: set[str] = set()
        """The events at which Holdfast is called."""
        self.troubles: list[tuple[str, str]] = []
        """Why hooks do not run: a message, and the file to edit."""


def find_hooks(root: str) -> InstalledHooks:
    """Return the hooks in every settings file of every client, the project's and the user's."""
    installed = InstalledHooks()
    for agent in AGENTS.values():
        for scope, name in agent.files.items():
            is_user = scope == USER
            path = os.path.join(agent.own_folder() if is_user else root, name)
            shown = path if is_user else name
            try:
                settings = read_settings(path, None if is_user else root)
            except (json_text.BadJson, OSError) as error:
                installed.troubles.append((f"{shown} cannot be read: {error}", shown))
                continue
            if settings.get("disableAllHooks") is True:
                installed.troubles.append((f"{shown} disables all hooks (disableAllHooks)", shown))
            installed.events.update(event for event, _, _ in own_handlers(settings))
            for words in _commands(agent, settings):
                installed.hooks.append(InstalledHook(agent.name, shown, words, is_trusted=is_user))
    return installed


def read_settings(path: str, root: str | None = None) -> Fields:
    """Return the settings in a file; an empty object if there is no file.

    Raise ``OSError`` if it leads out of ``root``, or ``BadJson``.
    """
    if not os.path.isfile(path):
        return {}
    if root is not None and not is_inside(path, root):
        raise OSError(EINVAL, "it leads out of the project")
    raw = Disk().read(path, _MAX_FILE_BYTES) or b""
    settings = json_text.loads(raw if raw.strip(b"\xef\xbb\xbf \t\r\n") else b"{}")
    return settings if isinstance(settings, dict) else {}


def _commands(agent: Agent, settings: Fields) -> list[list[str]]:
    """Return the commands that start Holdfast, each once."""
    commands = []
    plugins = settings.get("enabledPlugins")
    if agent.name == "claude" and isinstance(plugins, dict):
        names = [name.partition("@")[0] for name, is_on in plugins.items() if is_on is True]
        if PLUGIN in names:
            commands.append(COMMAND.split())
    for _, _, handler in own_handlers(settings):
        command, args = handler["command"], handler.get("args")
        words = shlex.split(command) if args is None else [command, *args]
        if words not in commands:
            commands.append(words)
    return commands


def version_of(program: list[str], folder: str) -> str | None:
    """Send a hook the event ``PING``; return its version, or ``None`` if it does not answer."""
    try:
        answer = json_text.loads((run(program, folder, PING) or "").encode())
    except json_text.BadJson:
        return None
    version = answer.get("holdfast") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else None


def which(name: str) -> str | None:
    """Return a program on the PATH. Only absolute folders count: a repository has no say."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, name) for folder in folders if os.path.isabs(folder))
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def run(command: list[str], folder: str, given: bytes = b"") -> str | None:
    """Return what a program prints; ``None`` if it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - a program that the person has, or has named
            command, cwd=folder, input=given, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
