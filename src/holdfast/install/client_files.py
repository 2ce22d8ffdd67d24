"""The files that are ours to change: where each is, what it is with us, and what without.

A settings file is somebody's, with our hooks in it. A skill is a file of our own, unless somebody
has one of that name already or has changed ours: then it is theirs, and stays.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from holdfast.core import json_text
from holdfast.errors import Refused
from holdfast.install import sandbox, servers
from holdfast.install.agents import AGENTS, TEAM, USER
from holdfast.install.hooks import Misfit, containers, has_ours, merged, stripped
from holdfast.install.skills import skills
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
_MOST = 16 * 1024 * 1024
_OURS = b"holdfast"
"""What no settings with our hooks lack."""


class Place(ABC):
    """A file of a client. ``shown`` is what people know it by."""

    def __init__(self, agent: Agent, scope: str, workspace: Workspace, path: str) -> None:
        self.agent = agent
        self.scope = scope
        self.root = None if scope == USER else workspace.root
        self.path = path if self.root is None else os.path.join(self.root, path)
        self.shown = path
        self.key = path if self.root is None else os.path.join(workspace.name, path)
        """Its name in the journal: all worktrees share one."""

    @abstractmethod
    def with_ours(self, raw: bytes | None, entry: Entry | None) -> bytes:
        """What the file is with what is ours in it."""

    @abstractmethod
    def without_ours(self, raw: bytes | None, entry: Entry | None) -> bytes | None:
        """What the file is without us: what it was, or what somebody has made of it since."""

    def is_elsewhere(self) -> bool:
        """Whether a project's file is a link that leads out of it: nothing of ours is there."""
        return self.root is not None and not is_inside(self.path, self.root)

    def target(self) -> str:
        """The file itself, behind links; refused where none can be, or not one of the project's."""
        target = os.path.realpath(self.path)
        if self.root is not None:
            top = os.path.realpath(self.root)
            if os.path.commonpath((top, target)) != top:
                raise Refused(
                    "outside",
                    f"{self.shown} leads out of the workspace {self.root}",
                    "replace the link by a file of its own, or set it up for yourself: "
                    f"holdfast init --agent {self.agent.name} --user",
                )
        if os.path.islink(self.path) and not os.path.exists(self.path):
            raise self._in_the_way(self.path, "is a link to nothing")
        if os.path.exists(target) and not os.path.isfile(target):
            raise self._in_the_way(target, "is not a file")
        folder = os.path.dirname(target)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise self._in_the_way(folder, "is not a folder")
        return target

    def _in_the_way(self, path: str, why: str) -> Refused:
        return Refused(
            "in_the_way",
            f"{self.shown} cannot be written: {path} {why}",
            "move it away, then run the command again",
        )


class SharedFile(Place):
    """A JSON file that is somebody's, with something of ours among its other keys."""

    def _merged(self, text: str) -> str:
        raise NotImplementedError

    def _stripped(self, text: str, kept: frozenset[str]) -> str:
        raise NotImplementedError

    def _containers(self, text: str) -> frozenset[str]:
        raise NotImplementedError

    def with_ours(self, raw: bytes | None, entry: Entry | None) -> bytes:
        del entry
        mark, text = self._text_of(raw or b"")
        try:
            return (mark + self._merged(text)).encode()
        except Misfit as misfit:
            raise BadSettings(self.shown, f"line {misfit.line}", misfit.why) from None

    def without_ours(self, raw: bytes | None, entry: Entry | None) -> bytes | None:
        if raw is None:
            return None
        original = None if entry is None or entry.original is None else entry.original.encode()
        if entry is not None and entry.is_ours_alone(raw):
            return original
        if _OURS not in raw:
            return raw
        mark, text = self._text_of(raw)
        had = frozenset[str]() if original is None else self._containers(self._text_of(original)[1])
        left = self._stripped(text, had)
        if left == text:
            return raw
        if entry is not None and original is None and left.strip() in ("", "{}"):
            return None
        return (mark + left).encode()

    def _text_of(self, raw: bytes) -> tuple[str, str]:
        """The byte order mark, if there is one, and the text; refused if it is not JSON."""
        if not raw.removeprefix(BOM.encode()).strip():
            return "", "{}\n"
        try:
            json_text.loads(raw, strict=True)
        except json_text.BadJson as bad:
            why = f"is not JSON: {bad.why}{_also(bad.why)}"
            raise BadSettings(self.shown, f"line {bad.line}", why) from None
        text = raw.decode()
        return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


class SettingsFile(SharedFile):
    """A client's settings, with our hooks."""

    def __init__(
        self, agent: Agent, scope: str, workspace: Workspace, *, enforce: bool = False
    ) -> None:
        file = agent.files[scope]
        own = scope == USER
        super().__init__(
            agent, scope, workspace, os.path.join(agent.own_folder(), file) if own else file
        )
        self._wanted = agent.hooks(scope, enforce=enforce)

    def _merged(self, text: str) -> str:
        return merged(text, self._wanted)

    def _stripped(self, text: str, kept: frozenset[str]) -> str:
        return stripped(text, kept)

    def _containers(self, text: str) -> frozenset[str]:
        return containers(text)

    def has_ours(self, disk: Disk) -> bool:
        is_there = os.path.isfile(self.path) and not self.is_elsewhere()
        raw = disk.read(self.path, _MOST) if is_there else None
        if raw is None or _OURS not in raw:
            return False
        try:
            return has_ours(self._text_of(raw)[1])
        except BadSettings:
            return False


class ServersFile(SharedFile):
    """The servers that a project offers to its team's clients, with ours among them."""

    def __init__(self, agent: Agent, workspace: Workspace) -> None:
        super().__init__(agent, TEAM, workspace, servers.FILE)

    def _merged(self, text: str) -> str:
        return servers.merged(text)

    def _stripped(self, text: str, kept: frozenset[str]) -> str:
        return servers.stripped(text, kept)

    def _containers(self, text: str) -> frozenset[str]:
        return servers.containers(text)


class SandboxFile(SharedFile):
    """A person's own configuration of Codex, with the ledger's folder among the writable ones."""

    def __init__(self, agent: Agent, workspace: Workspace, folder: str) -> None:
        super().__init__(agent, USER, workspace, sandbox.config_path())
        self.folder = folder
        # Every project has a folder of its own in the same file.
        self.key = f"{self.path}#{folder}"
        self._project = workspace.root

    def _merged(self, text: str) -> str:
        return sandbox.with_root(text, self.folder)

    def _stripped(self, text: str, kept: frozenset[str]) -> str:
        return sandbox.without_root(text, self.folder, kept)

    def _containers(self, text: str) -> frozenset[str]:
        return sandbox.containers(text)

    def _text_of(self, raw: bytes) -> tuple[str, str]:
        try:
            text = raw.decode()
            mark = BOM if text.startswith(BOM) else ""
            sandbox.parsed(text.removeprefix(BOM))
        except (UnicodeDecodeError, sandbox.BadToml) as bad:
            raise BadSettings(self.shown, "the file", f"is not TOML: {bad}") from None
        return mark, text.removeprefix(BOM)

    def config(self, disk: Disk) -> Fields:
        """Return the configuration as it is; raise ``BadSettings``."""
        raw = disk.read(self.path, _MOST) if os.path.isfile(self.path) else None
        return self.config_of(raw or b"")

    def config_of(self, raw: bytes) -> Fields:
        return sandbox.parsed(self._text_of(raw)[1])

    def team_config(self, disk: Disk) -> Fields:
        """Return the project's configuration; nothing where that cannot be read."""
        path = os.path.join(self._project, sandbox.TEAM_FILE)
        if not os.path.isfile(path) or not is_inside(path, self._project):
            return {}
        try:
            return self.config_of(disk.read(path, _MOST) or b"")
        except (BadSettings, OSError):
            return {}

    def names_folder(self, disk: Disk) -> bool:
        """True if the sandbox is told to mount the folder, so that it has to be there."""
        try:
            config = self.config(disk)
        except BadSettings:
            return True  # Nobody can tell, and a folder too many does no harm.
        return sandbox.is_among(self.folder, sandbox.roots_in(config))


class SkillFile(Place):
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


def settings_of(agent: Agent, scope: str, workspace: Workspace, *, enforce: bool) -> SettingsFile:
    if scope not in agent.files:
        raise Refused(
            "invalid",
            f"{agent.name} has no settings file of the {scope} kind",
            f"holdfast init --agent {agent.name}" + ("" if scope == TEAM else " --user"),
        )
    return SettingsFile(agent, scope, workspace, enforce=enforce)


def servers_of(agent: Agent, scope: str, workspace: Workspace) -> list[ServersFile]:
    """Only Claude Code's team has such a file; the others are asked to add a server themselves."""
    return [ServersFile(agent, workspace)] if (agent.name, scope) == ("claude", TEAM) else []


def sandbox_of(agent: Agent, workspace: Workspace) -> SandboxFile | None:
    """Only Codex has to be told that the ledger may be written, where it lies in git's folder."""
    folder = sandbox.folder_to_allow(workspace) if agent.name == "codex" else None
    return None if folder is None else SandboxFile(agent, workspace, folder)


def skills_of(agent: Agent, scope: str, workspace: Workspace) -> list[SkillFile]:
    """None where a client has no folder for them, as for a person's own in somebody's project."""
    if agent.skills_folder(scope) is None:
        return []
    found = skills(agent.arguments)
    return [SkillFile(agent, scope, workspace, name, text) for name, text in found.items()]


def all_of(
    agents: Iterable[Agent], scopes: Iterable[str], workspace: Workspace, disk: Disk
) -> list[Place]:
    """What these clients have or may have; not the skills that other clients of ours share."""
    chosen = list(agents)
    places: list[Place] = []
    for scope in scopes:
        others = [
            agent.skills_folder(scope)
            for agent in AGENTS.values()
            if agent not in chosen
            and scope in agent.files
            and SettingsFile(agent, scope, workspace).has_ours(disk)
        ]
        for agent in chosen:
            if scope in agent.files:
                places.append(SettingsFile(agent, scope, workspace))
            places += servers_of(agent, scope, workspace)
            if agent.skills_folder(scope) not in others:
                places += skills_of(agent, scope, workspace)
    return list({place.key: place for place in places}.values())


def _also(why: str) -> str:
    """For those whose editor lets them: what a parser means by a missing name or value."""
    usual = why.startswith(("expecting", "illegal trailing"))
    return " (comments and trailing commas are not JSON)" if usual else ""
