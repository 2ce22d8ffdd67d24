"""The client files that ``init`` changes: where each is, its content with Holdfast, and without.

A shared file (settings, servers, Codex's configuration) belongs to its user and gets entries of
ours. A skill is a file of our own, unless the user has one of that name or has changed ours: then
it is theirs, and stays.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod

from holdfast.core import json_text
from holdfast.errors import Refused
from holdfast.install import entries
from holdfast.install.agents import AGENTS, TEAM, USER
from holdfast.workspace.location import is_inside
from holdfast.workspace.settings import BadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.install.agents import Agent
    from holdfast.install.changes import JournalEntry
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

BOM = "\ufeff"
MAX_FILE_BYTES = 16 * 1024 * 1024
_OURS = b"holdfast"
"""Bytes that every file with an entry of ours contains."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED_SKILLS = os.path.join(_PACKAGE, "skills")
_CHECKOUT_SKILLS = os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "plugin", "skills")
_ARGUMENTS = "$ARGUMENTS"
"""Claude Code replaces this by the words that the user typed after a skill's name."""


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
        target = folder = os.path.realpath(self.path)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
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
        except entries.Misfit as misfit:
            line = self._line_of(text, misfit.path)
            raise BadSettings(self.name, f"line {line}", misfit.why) from None
        return raw if raw is not None and after == text else (mark + after).encode()

    def without_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes | None:
        if raw is None:
            return None
        original = None if entry is None or entry.original is None else entry.original.encode()
        if entry is not None and entry.is_ours_alone(raw):
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
        self, agent: Agent, scope: str, workspace: Workspace, *, enforce: bool = False
    ) -> None:
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

    def _add(self, text: str) -> str:
        return entries.edit(text, lambda settings: entries.add_hooks(settings, self._hooks))

    def _remove(self, text: str, original: str) -> str:
        before = json.loads(original)
        return entries.edit(text, lambda settings: entries.remove_hooks(settings, before))

    def has_ours(self, disk: Disk) -> bool:
        """Return True if the file has a hook of ours; False if it cannot be parsed."""
        is_readable = os.path.isfile(self.path) and not self.is_outside()
        raw = disk.read(self.path, MAX_FILE_BYTES) if is_readable else None
        if raw is None or _OURS not in raw:
            return False
        try:
            return any(entries.own_handlers(json.loads(self._text(raw)[1])))
        except BadSettings:
            return False


class ServersFile(SharedFile):
    """The servers that a project offers to its team's clients, with ours among them."""

    def __init__(self, agent: Agent, workspace: Workspace) -> None:
        super().__init__(agent, TEAM, workspace, entries.SERVERS_FILE)

    def _add(self, text: str) -> str:
        return entries.edit(text, entries.add_server)

    def _remove(self, text: str, original: str) -> str:
        before = json.loads(original)
        return entries.edit(text, lambda settings: entries.remove_server(settings, before))


class SkillFile(ClientFile):
    """A skill, as this version of Holdfast has it."""

    def __init__(
        self, agent: Agent, scope: str, workspace: Workspace, name: str, text: str
    ) -> None:
        folder = agent.skills_folder(scope) or ""
        super().__init__(agent, scope, workspace, os.path.join(folder, name, "SKILL.md"))
        self.text = text.encode()

    def with_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes:
        if raw is None or (entry is not None and entry.is_ours_alone(raw)):
            return self.text
        return raw

    def without_ours(self, raw: bytes | None, entry: JournalEntry | None) -> bytes | None:
        if raw is None or raw == self.text:
            return None
        return None if entry is not None and entry.is_ours_alone(raw) else raw


def read_skills(arguments: str) -> dict[str, str]:
    """Return name and text of our skills, with ``arguments`` in place of ``$ARGUMENTS``.

    An installed package has them beside the code, a checkout in its plugin.
    """
    folder = INSTALLED_SKILLS if os.path.isdir(INSTALLED_SKILLS) else _CHECKOUT_SKILLS
    skills = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, name, "SKILL.md"), encoding="utf-8") as file:
            skills[name] = file.read().replace(_ARGUMENTS, arguments)
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


def settings_files(agent: Agent, scopes: Iterable[str], workspace: Workspace) -> list[SettingsFile]:
    """Return the client's settings of these scopes, as far as it has them."""
    return [SettingsFile(agent, scope, workspace) for scope in scopes if scope in agent.files]


def all_files(
    agents: list[Agent], scopes: Iterable[str], workspace: Workspace, disk: Disk
) -> list[ClientFile]:
    """Return the files of these clients, without skills that another client of ours shares."""
    files: list[ClientFile] = []
    for scope in scopes:
        shared_folders = [
            agent.skills_folder(scope)
            for agent in AGENTS.values()
            if agent not in agents
            and any(file.has_ours(disk) for file in settings_files(agent, [scope], workspace))
        ]
        for agent in agents:
            files += settings_files(agent, [scope], workspace)
            files += server_files(agent, scope, workspace)
            if agent.skills_folder(scope) not in shared_folders:
                files += skill_files(agent, scope, workspace)
    return list({file.key: file for file in files}.values())
