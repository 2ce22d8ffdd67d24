"""What to tell somebody whose settings have our hooks now: what is missing, what is double."""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.install.agents import COMMAND, SCOPES, TEAM
from holdfast.install.files import Place
from holdfast.install.hooks import has_ours
from holdfast.settings import BadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.disk import Disk
    from holdfast.workspace import Workspace

_ENFORCE = 'what is insisted on is set in .claude/holdfast.toml: enforce = ["reading", "stop"]'


def notes_on(
    place: Place, workspace: Workspace, disk: Disk, after: bytes, *, enforce: bool
) -> Iterator[str]:
    """Sentences on a file that has these bytes, or will have."""
    if place.scope == TEAM and not _is_on_path(COMMAND.partition(" ")[0]):
        yield "holdfast is not on the PATH here, and the team's file starts it by its name"
    if enforce:
        yield _ENFORCE
    settings = jsontext.loads(after)
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


def _elsewhere(place: Place, workspace: Workspace, disk: Disk) -> Iterator[Place]:
    """Other files of the same client that have our hook."""
    for scope in SCOPES:
        if scope == place.scope or scope not in place.agent.files:
            continue
        other = Place(place.agent, scope, workspace)
        if other.path != place.path and os.path.isfile(other.path) and _has_ours(other, disk):
            yield other


def _has_ours(place: Place, disk: Disk) -> bool:
    raw = disk.read(place.path) or b""
    if b"holdfast" not in raw:
        return False
    try:
        return has_ours(place.text_of(raw)[1])
    except BadSettings:
        return False


def _is_on_path(name: str) -> bool:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders if folder)
