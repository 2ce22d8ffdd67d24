"""The client files that ``init`` changes: where each is, its content with Holdfast, and without.

A shared file (settings, servers, Codex's configuration) belongs to its user and gets entries of
ours. All clients have the same settings: ``hooks`` maps an event to groups, and a group has a
``matcher`` and its handlers. Ours are in groups of their own, so that no group of another tool is
changed. They are recognised by the command they run: clients reject or drop keys that they do not
know. So is our server: an entry named ``holdfast`` with another command stays.

A skill is a file of our own, unless the user has one of that name or has changed ours: then it is
theirs, and stays. Its name begins with ``holdfast-``, because a skill of a project hides a command
of the client that has the same name. Earlier versions did not do this: ``OldSkillFile``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from abc import ABC, abstractmethod
from errno import EINVAL

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.errors import Refused
from holdfast.install import status_line
from holdfast.install.agents import (
    AGENTS,
    HOOK,
    HOOKS,
    LOCAL,
    TEAM,
    TEAM_HOOK,
    USER,
    is_our_program,
)
from holdfast.system.disk import Disk
from holdfast.workspace.location import is_inside, names_in
from holdfast.workspace.settings import BadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypedDict

    from holdfast.core.types import Fields, Json
    from holdfast.install.agents import Agent
    from holdfast.workspace.location import Workspace

    class JournalEntry(TypedDict):
        """The journal's entry for one file."""

        original: str | None
        """Its text before ``init``; ``None`` if there was no file."""
        written: list[str]
        """Digests of texts that are the original with our entries and nothing else."""
        before: str
        """The digest of the file's content at the last write."""


SERVERS_FILE = ".mcp.json"
SERVERS = "mcpServers"
SERVER = "holdfast"
_SERVER_WORDS = [SERVER, "mcp"]
_TEAM_SERVER = """\
command -v holdfast >/dev/null && exec holdfast mcp; \
while read -r m; do i=$(expr "$m" : '.*"id":\\([^,}]*\\)'); [ "$i" ] || continue; case $m in \
*'"initialize"'*) a='"result":{"protocolVersion":"2025-11-25","capabilities":{},\
"serverInfo":{"name":"holdfast","version":"0"}}';; \
*) a='"error":{"code":-32601,"message":"Holdfast is not installed"}';; esac; \
printf '{"jsonrpc":"2.0","id":%s,%s}\\n' "$i" "$a"; done"""
"""Run our server, or without Holdfast one that offers nothing: a client reports a server that ends
as failed. Claude Code replaces ``${NAME}`` in this file, so the script has none."""
OUR_SERVER: Fields = {"command": "sh", "args": ["-c", _TEAM_SERVER]}
_GROUP_KEYS = {"matcher", HOOKS}
_COMMAND_KEYS = ("type", "command", "args")
_TYPE_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "text"}
_DEFAULT_INDENT = "  "
_ESCAPED_LETTER = re.compile(r"\\u(?!00[0-7])")
"""An escape of a character that is not ASCII; control characters are always escaped."""
_FIRST_KEY = re.compile(r'\s*\{\s*\n([ \t]*)"')
BOM = "\ufeff"
MAX_FILE_BYTES = 16 * 1024 * 1024
_OURS = b"holdfast"
"""Bytes that every file with an entry of ours contains."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED_SKILLS = os.path.join(_PACKAGE, "skills")
_CHECKOUT_SKILLS = os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "plugin", "skills")
SKILL_PREFIX = "holdfast-"
_PLUGIN_PREFIX = "holdfast:"
"""The prefix by which the plugin's skills are called, and name each other."""
_OLD_SKILLS = ("context", "dev", "initiative", "iterate", "resume", "tdd", "workflow")
"""Names of skills that earlier versions put into projects."""
_ARGUMENTS = "$ARGUMENTS"
"""Claude Code replaces this by the words that the user typed after a skill's name."""


# Files


def is_ours_alone(raw: bytes | None, entry: JournalEntry | None) -> bool:
    """Return True if only Holdfast has changed the file, according to the journal."""
    return raw is not None and entry is not None and digest(raw) in entry["written"]


class ClientFile(ABC):
    """A file of a client. ``name`` is its path as messages show it."""

    def __init__(self, agent: Agent, scope: str, workspace: Workspace, path: str) -> None:
        self.agent = agent
        self.scope = scope
        self.root = None if scope == USER else workspace.root
        self.path = path if self.root is None else os.path.join(self.root, path)
        self.name = path
        self.key = path if self.root is None else os.path.join(workspace.name, path)
        """The file's key in the journal, which all worktrees share."""

    @abstractmethod
    def with_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes:
        """Return the content with what is ours; raise ``BadSettings`` if it cannot be changed."""

    @abstractmethod
    def without_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes | None:
        """Return the content without what is ours; ``None`` if the file should be removed."""

    def is_outside(self) -> bool:
        """Return True if a project's file is a link that leads out of the project."""
        return self.root is not None and not is_inside(self.path, self.root)

    def target(self) -> str:
        """Return the path behind links; raise ``Refused`` if no file can be written there."""
        if self.is_outside():
            raise Refused(
                "outside",
                f"{self.name} leads out of the workspace {self.root}",
                "replace the link by a file of its own, or set it up for yourself: "
                f"holdfast init --agent {self.agent.name} --user",
            )
        target = os.path.realpath(self.path)
        folder = existing_part(target)
        obstacle = ""
        if os.path.islink(self.path) and not os.path.exists(self.path):
            obstacle = f"{self.path} is a link to nothing"
        elif folder == target and not os.path.isfile(target):
            obstacle = f"{target} is not a file"
        elif folder != target and not os.path.isdir(folder):
            obstacle = f"{folder} is not a folder"
        if obstacle:
            raise Refused(
                "in_the_way",
                f"{self.name} cannot be written: {obstacle}",
                "move it away, then run the command again",
            )
        return target


def existing_part(path: str) -> str:
    """Return the path, or the first folder above it that exists."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


class SharedFile(ClientFile):
    """A file of the user, with an entry of ours in it: JSON, unless a subclass says otherwise."""

    def _add(self, text: str) -> str:
        raise NotImplementedError

    def _remove(self, text: str, original: str) -> str:
        """Return the text without our entry, and without what ``init`` added around it."""
        raise NotImplementedError

    def _line_of(self, text: str, path: list[str | int]) -> int:
        return json_text.line_of_path(text, path)

    def _text(self, raw: bytes) -> tuple[str, str]:
        """Return the byte order mark, or nothing, and the text; raise ``BadSettings``."""
        if not raw.removeprefix(BOM.encode()).strip():
            return "", "{}\n"
        try:
            json_text.loads(raw, strict=True)
        except json_text.BadJson as bad:
            is_extension = bad.why.startswith(("expecting", "illegal trailing"))
            also = " (comments and trailing commas are not JSON)" if is_extension else ""
            why = f"is not JSON: {bad.why}{also}"
            raise BadSettings(self.name, f"line {bad.line}", why) from None
        text = raw.decode()
        return (BOM, text[1:]) if text.startswith(BOM) else ("", text)

    def with_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes:
        del entry
        mark, text = self._text(raw or b"")
        try:
            after = self._add(text)
        except Misfit as misfit:
            line = self._line_of(text, misfit.path)
            raise BadSettings(self.name, f"line {line}", misfit.why) from None
        return raw if raw is not None and after == text else (mark + after).encode()

    def without_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes | None:
        if raw is None:
            return None
        text_before = None if entry is None else entry["original"]
        original = None if text_before is None else text_before.encode()
        if is_ours_alone(raw, entry):
            return original
        if _OURS not in raw:
            return raw
        mark, text = self._text(raw)
        after = self._remove(text, self._text(original or b"")[1])
        if after == text:
            return raw
        if entry is not None and original is None and after.strip() in ("", "{}"):
            return None
        return (mark + after).encode()


class SettingsFile(SharedFile):
    """A client's settings, with our hooks; raise ``Refused`` if the client has none of a scope."""

    def __init__(
        self, agent: Agent, scope: str, workspace: Workspace, *, enforce: bool = False,
        has_status_line: bool = False,
    ) -> None:  # fmt: skip
        if scope not in agent.files:
            raise Refused(
                "invalid",
                f"{agent.name} has no settings file of the {scope} kind",
                f"holdfast init --agent {agent.name}" + ("" if scope == TEAM else " --user"),
            )
        path = agent.files[scope]
        if scope == USER:
            path = os.path.join(agent.own_folder(), path)
        super().__init__(agent, scope, workspace, path)
        self._hooks = agent.hooks(scope, enforce=enforce)
        self._has_status_line = has_status_line and not agent.without_status_line
        self._workspace = workspace

    def _add(self, text: str) -> str:
        def change(settings: Json) -> None:
            add_hooks(settings, self._hooks)
            if self._has_status_line or status_line.has_own(settings):
                _check_status_line(settings)
                status_line.add(settings, self.scope, self._hidden_status_line())

        return edit(text, change)

    def _hidden_status_line(self) -> str:
        """Return the person's own status line for all projects, which a project's would hide.

        It is theirs in their own settings of a project alone: others get no copy of it, and what a
        team has is not taken over.
        """
        files = settings_files(self.agent, (TEAM, USER), self._workspace)
        if self.scope != LOCAL or not files or any(file.shown_status_line() for file in files[:1]):
            return ""
        command = files[-1].shown_status_line()
        former = status_line.former_of(command)
        return command if former is None else former

    def shown_status_line(self) -> str:
        """Return the command of the status line in the file; empty if it has none."""
        try:
            return status_line.shown_command(read_settings(self.path, self.root))
        except (json_text.BadJson, OSError):
            return ""

    def _remove(self, text: str, original: str) -> str:
        before = json.loads(original)

        def change(settings: Json) -> None:
            remove_hooks(settings, before)
            status_line.remove(settings)

        return edit(text, change)

    def has_ours(self) -> bool:
        """Return True if the file has a hook of ours; False if it cannot be read."""
        try:
            return any(own_handlers(read_settings(self.path, self.root)))
        except (json_text.BadJson, OSError):
            return False


class ServersFile(SharedFile):
    """The servers that a project offers to its team's clients, with ours among them."""

    def __init__(self, agent: Agent, workspace: Workspace) -> None:
        super().__init__(agent, TEAM, workspace, SERVERS_FILE)

    def _add(self, text: str) -> str:
        return edit(text, add_server)

    def _remove(self, text: str, original: str) -> str:
        before = json.loads(original)
        return edit(text, lambda settings: remove_server(settings, before))


class SkillFile(ClientFile):
    """A skill, as this version of Holdfast has it."""

    def __init__(
        self, agent: Agent, scope: str, workspace: Workspace, name: str, text: str
    ) -> None:
        folder = agent.skills_folder(scope) or ""
        super().__init__(agent, scope, workspace, os.path.join(folder, name, "SKILL.md"))
        self.text = text.encode()

    def with_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes:
        return self.text if raw is None or is_ours_alone(raw, entry) else raw

    def without_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes | None:
        return None if raw in (None, self.text) or is_ours_alone(raw, entry) else raw


class OldSkillFile(ClientFile):
    """A skill that an earlier version wrote under a name without prefix. It is only removed."""

    def __init__(self, agent: Agent, scope: str, workspace: Workspace, name: str) -> None:
        folder = agent.skills_folder(scope) or ""
        super().__init__(agent, scope, workspace, os.path.join(folder, name, "SKILL.md"))

    def with_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes:
        raise NotImplementedError

    def without_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes | None:
        return None if is_ours_alone(raw, entry) else raw


def read_settings(path: str, root: str | None) -> Fields:
    """Return the settings in a file; an empty object if there is no file.

    Raise ``OSError`` if it leads out of ``root``, or ``BadJson``.
    """
    if not os.path.isfile(path):
        return {}
    if root is not None and not is_inside(path, root):
        raise OSError(EINVAL, "it leads out of the project")
    raw = Disk().read(path, MAX_FILE_BYTES) or b""
    settings = json_text.loads(raw if raw.strip(b"\xef\xbb\xbf \t\r\n") else b"{}")
    return settings if isinstance(settings, dict) else {}


def read_skills(arguments: str) -> dict[str, str]:
    """Return name and text of our skills, with ``arguments`` in place of ``$ARGUMENTS``.

    The files are the plugin's: an installed package has them beside the code.
    """
    folder = INSTALLED_SKILLS if os.path.isdir(INSTALLED_SKILLS) else _CHECKOUT_SKILLS
    skills = {}
    for name in names_in(folder) if os.path.isdir(folder) else ():
        raw = Disk().read(os.path.join(folder, name, "SKILL.md"), MAX_FILE_BYTES) or b""
        text = raw.decode().replace(_ARGUMENTS, arguments)
        text = text.replace(f"name: {name}\n", f"name: {SKILL_PREFIX}{name}\n", 1)
        skills[SKILL_PREFIX + name] = text.replace(_PLUGIN_PREFIX, SKILL_PREFIX)
    return skills


def server_files(agent: Agent, scope: str, workspace: Workspace) -> list[ServersFile]:
    """Return the file of servers, which only a team of Claude Code has."""
    return [ServersFile(agent, workspace)] if (agent.name, scope) == ("claude", TEAM) else []


def skill_files(agent: Agent, scope: str, workspace: Workspace) -> list[SkillFile]:
    """Return the client's skills of this scope; none if it has no folder for them."""
    if agent.skills_folder(scope) is None:
        return []
    skills = read_skills(agent.arguments).items()
    return [SkillFile(agent, scope, workspace, name, text) for name, text in skills]


def old_skill_files(agent: Agent, scope: str, workspace: Workspace) -> list[OldSkillFile]:
    """Return the files under the names that the client's skills of this scope had before."""
    if agent.skills_folder(scope) is None:
        return []
    return [OldSkillFile(agent, scope, workspace, name) for name in _OLD_SKILLS]


def settings_files(agent: Agent, scopes: Iterable[str], workspace: Workspace) -> list[SettingsFile]:
    """Return the client's settings of these scopes, as far as it has them."""
    return [SettingsFile(agent, scope, workspace) for scope in scopes if scope in agent.files]


def all_files(agents: list[Agent], scopes: Iterable[str], workspace: Workspace) -> list[ClientFile]:
    """Return the files of these clients, without skills that another client of ours shares."""
    files: list[ClientFile] = []
    for scope in scopes:
        shared_folders = [
            agent.skills_folder(scope)
            for agent in AGENTS.values()
            if agent not in agents
            and any(file.has_ours() for file in settings_files(agent, [scope], workspace))
        ]
        for agent in agents:
            files += settings_files(agent, [scope], workspace)
            files += server_files(agent, scope, workspace)
            if agent.skills_folder(scope) not in shared_folders:
                files += skill_files(agent, scope, workspace)
                files += old_skill_files(agent, scope, workspace)
    return list({file.key: file for file in files}.values())


# Entries in JSON files


class Misfit(Exception):
    """Settings of another shape than the client's: the path to the value, and what is wrong."""

    def __init__(self, path: list[str | int], why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def edit(text: str, change: Callable[[Json], None]) -> str:
    """Return the text after ``change`` edited its value; the same text if the value is equal.

    Keys keep their order. Indentation, line ends and escapes are detected and kept; other white
    space is laid out anew. ``uninstall`` restores the original bytes from the journal.
    """
    value = json.loads(text)
    change(value)
    if value == json.loads(text):
        return text
    body = text.strip()
    indent: str | None = _DEFAULT_INDENT
    separators = (",", ": ")
    if (first := _FIRST_KEY.match(text)) is not None:
        indent = first[1]
    elif "\n" not in body and body != "{}":
        indent = None
        separators = (", ", ": ") if '": ' in body else (",", ":")
    has_escapes = body.isascii() and _ESCAPED_LETTER.search(body) is not None
    after = json.dumps(value, indent=indent, separators=separators, ensure_ascii=has_escapes)
    after += "\n" if text.endswith("\n") else ""
    return after.replace("\n", "\r\n") if "\r\n" in text else after


def _object(settings: Json, key: str) -> Fields:
    """Return an object in the settings; an empty one if there is none."""
    value = settings.get(key) if isinstance(settings, dict) else None
    return value if isinstance(value, dict) else {}


# Hooks


def add_hooks(settings: Json, groups: dict[str, Fields]) -> None:
    """Give the settings these groups of ours, by event; raise ``Misfit`` if they do not fit in.

    A handler that runs an older command is updated where it is, and keeps its other fields. Other
    handlers of ours are removed.
    """
    _check_shape(settings, groups)
    present = set()
    for event, group, handler in list(own_handlers(settings)):
        ours = groups.get(event, {})
        is_for_others = (ours.get("matcher") or "*") != (group.get("matcher") or "*")
        if not ours or is_for_others or event in present:
            _remove(settings, event, group, handler, {HOOKS: groups})
            continue
        present.add(event)
        new = ours[HOOKS][0]
        if any(handler.get(key) != new.get(key) for key in _COMMAND_KEYS):
            other_keys = {key: handler[key] for key in handler if key not in _COMMAND_KEYS}
            handler.clear()
            handler.update({**new, **other_keys})
    events = settings.setdefault(HOOKS, {})
    for event, group in groups.items():
        if event not in present:
            events.setdefault(event, []).append(group)


def remove_hooks(settings: Json, original: Json) -> None:
    """Remove our hooks, and what is empty without them unless the original settings have it."""
    for event, group, handler in list(own_handlers(settings)):
        _remove(settings, event, group, handler, original)


def own_handlers(settings: Json) -> Iterator[tuple[str, Fields, Fields]]:
    """Yield event, group and handler of each hook of ours; skip what has another shape."""
    for event, groups in _object(settings, HOOKS).items():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get(HOOKS) if isinstance(group, dict) else None
            for handler in handlers if isinstance(handlers, list) else ():
                if is_our_handler(handler):
                    yield event, group, handler


def is_our_handler(handler: Json) -> bool:
    """Return True if a handler starts our hook, in any form and from any installation."""
    words = words_of(handler)
    if len(words) < 2:
        return False
    return is_our_program(words[:1] if words[1:] == ["hook"] else words)


def words_of(handler: Json) -> list[str]:
    """Return the command of a handler; empty if it has none that can be understood."""
    if not isinstance(handler, dict) or not isinstance(handler.get("command"), str):
        return []
    args = handler.get("args")
    if args is None:
        if handler["command"] == TEAM_HOOK:
            return list(HOOK)
        try:
            return shlex.split(handler["command"])
        except ValueError:
            return []
    if isinstance(args, list) and all(isinstance(word, str) for word in args):
        return [handler["command"], *args]
    return []


def _remove(settings: Json, event: str, group: Fields, handler: Fields, original: Json) -> None:
    """Remove a handler, and then each container that it leaves empty."""
    events = settings[HOOKS]
    group[HOOKS] = [other for other in group[HOOKS] if other is not handler]
    if group[HOOKS] or not set(group) <= _GROUP_KEYS:
        return
    events[event] = [other for other in events[event] if other is not group]
    if not events[event] and event not in _object(original, HOOKS):
        del events[event]
    if not events and HOOKS not in original:
        del settings[HOOKS]


def _check_shape(settings: Json, groups: dict[str, Fields]) -> None:
    """Raise ``Misfit`` where the client would not accept hooks of these events either."""
    _check_type(settings, dict, [], "the settings")
    _check_type(settings.get(HOOKS, {}), dict, [HOOKS], HOOKS)
    for event, present in settings.get(HOOKS, {}).items():
        if event not in groups:
            continue
        name = f"{HOOKS}.{event}"
        _check_type(present, list, [HOOKS, event], name)
        for index, group in enumerate(present):
            path: list[str | int] = [HOOKS, event, index]
            _check_type(group, dict, path, f"an entry of {name}")
            _check_type(group.get("matcher", ""), str, [*path, "matcher"], f"matcher of {name}")
            handlers = group.get(HOOKS, [])
            _check_type(handlers, list, [*path, HOOKS], f"hooks of {name}")
            for at, handler in enumerate(handlers):
                _check_type(handler, dict, [*path, HOOKS, at], f"a hook of {name}")


def _check_status_line(settings: Json) -> None:
    """Raise ``Misfit`` if the client would not run the status line in the settings either."""
    line = settings.get(status_line.KEY, {"type": "command", "command": "true"})
    _check_type(line, dict, [status_line.KEY], status_line.KEY)
    is_command = line.get("type") == "command" and isinstance(line.get("command"), str)
    if not is_command or not line["command"].strip():
        why = f"{status_line.KEY} must have the type command, and a command"
        raise Misfit([status_line.KEY], why)


def _check_type(value: Json, kind: type, path: list[str | int], name: str) -> None:
    if not isinstance(value, kind):
        raise Misfit(path, f"{name} must be {_TYPE_NAMES[kind]}")


# The server


def add_server(settings: Json) -> None:
    """Add our server, or update its command; raise ``Misfit`` if it does not fit in."""
    _check_type(settings, dict, [], "the file")
    servers = settings.setdefault(SERVERS, {})
    _check_type(servers, dict, [SERVERS], SERVERS)
    if has_server(settings):
        servers[SERVER].update(OUR_SERVER)
    servers.setdefault(SERVER, OUR_SERVER)


def remove_server(settings: Json, original: Json) -> None:
    """Remove our server, and the object around it if it is then empty, unless it was there."""
    if not has_server(settings):
        return
    del settings[SERVERS][SERVER]
    if not settings[SERVERS] and SERVERS not in original:
        del settings[SERVERS]


def has_server(settings: Json) -> bool:
    """Return True if the settings have a server that runs our command, from any installation."""
    server = _object(settings, SERVERS).get(SERVER)
    if not isinstance(server, dict) or not isinstance(server.get("command"), str):
        return False
    command, args = server["command"], server.get("args")
    is_plain = isinstance(args, list) and [os.path.basename(command), *args] == _SERVER_WORDS
    return is_plain or {"command": command, "args": args} == OUR_SERVER
