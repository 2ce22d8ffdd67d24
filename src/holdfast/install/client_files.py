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
from holdfast.core.json_positions import line_of_path
from holdfast.errors import Refused
from holdfast.install import hooks, sandbox, servers
from holdfast.install.agents import AGENTS, TEAM, USER
from holdfast.install.json_settings import Misfit, edit
from holdfast.workspace.location import is_inside
from holdfast.workspace.settings import BadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields
    from holdfast.install.agents import Agent
    from holdfast.install.journal import Entry
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
"""What Claude Code replaces by the words that the user typed after a skill's name."""


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
    def with_ours(self, raw: bytes | None, entry: Entry | None) -> bytes:
        """Return the content with what is ours; raise ``BadSettings`` if it cannot be changed."""

    @abstractmethod
    def without_ours(self, raw: bytes | None, entry: Entry | None) -> bytes | None:
        """Return the content without what is ours; ``None`` if the file should be removed."""

    def is_outside(self) -> bool:
        """Return True if a project's file is a link that leads out of the project."""
        return self.root is not None and not is_inside(self.path, self.root)

    def target(self) -> str:
        """Return the path behind links; raise ``Refused`` if no file can be written there."""
        target = os.path.realpath(self.path)
        if self.root is not None:
            root = os.path.realpath(self.root)
            if os.path.commonpath((root, target)) != root:
                raise Refused(
                    "outside",
                    f"{self.name} leads out of the workspace {self.root}",
                    "replace the link by a file of its own, or set it up for yourself: "
                    f"holdfast init --agent {self.agent.name} --user",
                )
        if os.path.islink(self.path) and not os.path.exists(self.path):
            raise self._blocked_by(self.path, "is a link to nothing")
        if os.path.exists(target) and not os.path.isfile(target):
            raise self._blocked_by(target, "is not a file")
        folder = os.path.dirname(target)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise self._blocked_by(folder, "is not a folder")
        return target

    def _blocked_by(self, path: str, why: str) -> Refused:
        return Refused(
            "in_the_way",
            f"{self.name} cannot be written: {path} {why}",
            "move it away, then run the command again",
        )


class SharedFile(ClientFile):
    """A file of the user, with an entry of ours in it: JSON, unless a subclass says otherwise."""

    def _add(self, text: str) -> str:
        raise NotImplementedError

    def _remove(self, text: str, kept: frozenset[str]) -> str:
        raise NotImplementedError

    def _containers(self, text: str) -> frozenset[str]:
        """Return the keys around our entry that the text has; ``init`` adds the others."""
        raise NotImplementedError

    def _line_of(self, text: str, path: list[str | int]) -> int:
        return line_of_path(text, path)

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

    def with_ours(self, raw: bytes | None, entry: Entry | None) -> bytes:
        del entry
        mark, text = self._text(raw or b"")
        try:
            after = self._add(text)
        except Misfit as misfit:
            line = self._line_of(text, misfit.path)
            raise BadSettings(self.name, f"line {line}", misfit.why) from None
        return raw if raw is not None and after == text else (mark + after).encode()

    def without_ours(self, raw: bytes | None, entry: Entry | None) -> bytes | None:
        if raw is None:
            return None
        original = None if entry is None or entry.original is None else entry.original.encode()
        if entry is not None and entry.is_ours_alone(raw):
            return original
        if _OURS not in raw:
            return raw
        mark, text = self._text(raw)
        kept = frozenset[str]() if original is None else self._containers(self._text(original)[1])
        after = self._remove(text, kept)
        if after == text:
            return raw
        if entry is not None and original is None and after.strip() in ("", "{}"):
            return None
        return (mark + after).encode()


class SettingsFile(SharedFile):
    """A client's settings, with our hooks."""

    def __init__(
        self, agent: Agent, scope: str, workspace: Workspace, *, enforce: bool = False
    ) -> None:
        path = agent.files[scope]
        if scope == USER:
            path = os.path.join(agent.own_folder(), path)
        super().__init__(agent, scope, workspace, path)
        self._hooks = agent.hooks(scope, enforce=enforce)

    def _add(self, text: str) -> str:
        return edit(text, lambda settings: hooks.add_hooks(settings, self._hooks))

    def _remove(self, text: str, kept: frozenset[str]) -> str:
        return edit(text, lambda settings: hooks.remove_hooks(settings, kept))

    def _containers(self, text: str) -> frozenset[str]:
        return hooks.containers(json.loads(text))

    def has_ours(self, disk: Disk) -> bool:
        """Return True if the file has a hook of ours; False if it cannot be parsed."""
        is_readable = os.path.isfile(self.path) and not self.is_outside()
        raw = disk.read(self.path, MAX_FILE_BYTES) if is_readable else None
        if raw is None or _OURS not in raw:
            return False
        try:
            return any(hooks.own_handlers(json.loads(self._text(raw)[1])))
        except BadSettings:
            return False


class ServersFile(SharedFile):
    """The servers that a project offers to its team's clients, with ours among them."""

    def __init__(self, agent: Agent, workspace: Workspace) -> None:
        super().__init__(agent, TEAM, workspace, servers.FILE)

    def _add(self, text: str) -> str:
        return edit(text, servers.add_server)

    def _remove(self, text: str, kept: frozenset[str]) -> str:
        return edit(text, lambda settings: servers.remove_server(settings, kept))

    def _containers(self, text: str) -> frozenset[str]:
        return servers.containers(json.loads(text))


class SandboxFile(SharedFile):
    """The user's configuration of Codex (TOML), with the ledger's folder as a writable one."""

    def __init__(self, agent: Agent, workspace: Workspace, folder: str) -> None:
        super().__init__(agent, USER, workspace, sandbox.config_path())
        self.folder = folder
        # Every project adds a folder of its own to the same file.
        self.key = f"{self.path}#{folder}"
        self._project = workspace.root

    def _add(self, text: str) -> str:
        return sandbox.add_root(text, self.folder)

    def _remove(self, text: str, kept: frozenset[str]) -> str:
        return sandbox.remove_root(text, self.folder, kept)

    def _containers(self, text: str) -> frozenset[str]:
        return sandbox.containers(text)

    def _line_of(self, text: str, path: list[str | int]) -> int:
        return text.count("\n", 0, max(text.find(str(path[-1])), 0)) + 1

    def _text(self, raw: bytes) -> tuple[str, str]:
        try:
            text = raw.decode()
            mark = BOM if text.startswith(BOM) else ""
            sandbox.parse(text.removeprefix(BOM))
        except (UnicodeDecodeError, sandbox.BadToml) as bad:
            raise BadSettings(self.name, "the file", f"is not TOML: {bad}") from None
        return mark, text.removeprefix(BOM)

    def config(self, disk: Disk) -> Fields:
        """Return the user's configuration; raise ``BadSettings`` if it is not TOML."""
        raw = disk.read(self.path, MAX_FILE_BYTES) if os.path.isfile(self.path) else None
        return self.parse(raw or b"")

    def parse(self, raw: bytes) -> Fields:
        """Return what these bytes configure; raise ``BadSettings`` if they are not TOML."""
        return sandbox.parse(self._text(raw)[1])

    def team_config(self, disk: Disk) -> Fields:
        """Return the project's configuration; an empty one if it cannot be read."""
        path = os.path.join(self._project, sandbox.TEAM_FILE)
        if not os.path.isfile(path) or not is_inside(path, self._project):
            return {}
        try:
            return self.parse(disk.read(path, MAX_FILE_BYTES) or b"")
        except (BadSettings, OSError):
            return {}

    def has_folder(self, disk: Disk) -> bool:
        """Return True if Codex mounts the folder, or if the configuration cannot be parsed."""
        try:
            return sandbox.is_among(self.folder, sandbox.roots_in(self.config(disk)))
        except BadSettings:
            return True


class SkillFile(ClientFile):
    """A skill, as this version of Holdfast has it."""

    def __init__(
        self, agent: Agent, scope: str, workspace: Workspace, name: str, text: str
    ) -> None:
        folder = agent.skills_folder(scope) or ""
        super().__init__(agent, scope, workspace, os.path.join(folder, name, "SKILL.md"))
        self.text = text.encode()

    def with_ours(self, raw: bytes | None, entry: Entry | None) -> bytes:
        if raw is None or (entry is not None and entry.is_ours_alone(raw)):
            return self.text
        return raw

    def without_ours(self, raw: bytes | None, entry: Entry | None) -> bytes | None:
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


def settings_file(agent: Agent, scope: str, workspace: Workspace, *, enforce: bool) -> SettingsFile:
    """Return the client's settings file of this scope; raise ``Refused`` if it has none."""
    if scope not in agent.files:
        raise Refused(
            "invalid",
            f"{agent.name} has no settings file of the {scope} kind",
            f"holdfast init --agent {agent.name}" + ("" if scope == TEAM else " --user"),
        )
    return SettingsFile(agent, scope, workspace, enforce=enforce)


def server_files(agent: Agent, scope: str, workspace: Workspace) -> list[ServersFile]:
    """Return the file of servers, which only a team of Claude Code has."""
    return [ServersFile(agent, workspace)] if (agent.name, scope) == ("claude", TEAM) else []


def sandbox_file(agent: Agent, workspace: Workspace) -> SandboxFile | None:
    """Return Codex's configuration if the ledger is in git's folder; ``None`` otherwise."""
    folder = sandbox.folder_to_allow(workspace) if agent.name == "codex" else None
    return None if folder is None else SandboxFile(agent, workspace, folder)


def skill_files(agent: Agent, scope: str, workspace: Workspace) -> list[SkillFile]:
    """Return the client's skills of this scope; none if it has no folder for them."""
    if agent.skills_folder(scope) is None:
        return []
    skills = read_skills(agent.arguments).items()
    return [SkillFile(agent, scope, workspace, name, text) for name, text in skills]


def all_files(
    agents: Iterable[Agent], scopes: Iterable[str], workspace: Workspace, disk: Disk
) -> list[ClientFile]:
    """Return the files of these clients, without skills that another client of ours shares."""
    chosen = list(agents)
    files: list[ClientFile] = []
    for scope in scopes:
        shared_folders = [
            agent.skills_folder(scope)
            for agent in AGENTS.values()
            if agent not in chosen
            and scope in agent.files
            and SettingsFile(agent, scope, workspace).has_ours(disk)
        ]
        for agent in chosen:
            if scope in agent.files:
                files.append(SettingsFile(agent, scope, workspace))
            files += server_files(agent, scope, workspace)
            if agent.skills_folder(scope) not in shared_folders:
                files += skill_files(agent, scope, workspace)
    return list({file.key: file for file in files}.values())
