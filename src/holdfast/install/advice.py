"""What to tell somebody whose settings have our hooks now: what is missing, what is double."""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.install.agents import COMMAND, SCOPES, TEAM
from holdfast.install.client_files import SettingsFile
from holdfast.install.sandbox import obstacle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.install.client_files import SandboxFile
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace


def notes_on(
    place: SettingsFile, workspace: Workspace, disk: Disk, after: bytes, *, enforce: bool
) -> Iterator[str]:
    """Sentences on a file that has these bytes, or will have."""
    if place.scope == TEAM and not _is_on_path(COMMAND.partition(" ")[0]):
        yield "holdfast is not on the PATH here, and the team's file starts it by its name"
    if enforce:
        kinds = ", ".join([f'"{kind}"' for kind in place.agent.enforceable()])
        yield f"what is insisted on is set in .claude/holdfast.toml: enforce = [{kinds}]"
    settings = json_text.loads(after)
    if settings.get("disableAllHooks") is True:
        yield f"{place.shown} switches all hooks off: disableAllHooks"
    for other in _elsewhere(place, workspace, disk):
        spare = place if other.scope == TEAM else other
        yield (
            f"{other.shown} has the hook too, so it runs twice at each event; one is enough: "
            f"holdfast uninstall --agent {place.agent.name} --{spare.scope}"
        )
    if place.agent.note:
        yield place.agent.note


def notes_on_skills(place: SettingsFile, left: list[str]) -> Iterator[str]:
    """``left`` are those that are somebody's own."""
    if place.agent.skills_folder(place.scope) is None:
        yield (
            f"the skills are for a team or for all your projects: holdfast init --agent "
            f"{place.agent.name}, or with --user"
        )
    for path in left:
        yield f"{path} is not as Holdfast has it, and stays as it is"


def notes_on_sandbox(place: SandboxFile, disk: Disk, after: bytes) -> Iterator[str]:
    """Sentences on a sandbox whose configuration has these bytes, or will have."""
    found = obstacle(place.config_of(after), place.team_config(disk), place.folder)
    if found is not None:
        yield f"Codex's commands cannot write the ledger: {found[0]}; {found[1]}"


def _elsewhere(place: SettingsFile, workspace: Workspace, disk: Disk) -> Iterator[SettingsFile]:
    """Other files of the same client that have our hook."""
    for scope in SCOPES:
        if scope == place.scope or scope not in place.agent.files:
            continue
        other = SettingsFile(place.agent, scope, workspace)
        if other.path != place.path and other.has_ours(disk):
            yield other


def _is_on_path(name: str) -> bool:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders if folder)
