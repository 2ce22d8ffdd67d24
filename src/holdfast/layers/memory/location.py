"""Which ``MEMORY.md`` is meant: the one that Claude Code loads for this project.

``HOLDFAST_MEMORY`` and the settings come first. A path that a repository brings along stays inside
the workspace; a person's own settings may name any.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.system.disk import Disk
from holdfast.workspace import settings
from holdfast.workspace.location import MAIN, is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

NAME = "MEMORY.md"
OFF = "off"
_MOST = 1_000_000
_LOCAL = "settings.local.json"
_SHORTENED = b"\0\0\0\4"


def find(workspace: Workspace) -> str | None:
    """The absolute path; ``None`` where memory is switched off."""
    told = os.environ.get("HOLDFAST_MEMORY") or settings.load(workspace.root).memory()
    if told == OFF:
        return None
    if told:
        return os.path.abspath(os.path.join(workspace.root, os.path.expanduser(told)))
    if os.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") == "1":
        return None
    return _of_client(workspace)


def _of_client(workspace: Workspace) -> str | None:
    own = os.path.abspath(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"))
    main = workspace.root_of(MAIN) or workspace.root
    project = os.path.join(main, ".claude")
    local = _read(os.path.join(project, _LOCAL), main)
    team = _read(os.path.join(project, "settings.json"), main)
    person = _read(os.path.join(own, "settings.json"))
    enabled = [found["autoMemoryEnabled"] for found in (local, team, person) if _has_say(found)]
    if enabled and enabled[0] is False:
        return None
    came_along = main if "autoMemoryDirectory" in local and _is_tracked(workspace) else None
    for found, within in ((local, came_along), (team, main), (person, None)):
        folder = _folder(found.get("autoMemoryDirectory"), main, within)
        if folder is not None:
            return os.path.join(folder, NAME)
    slug = os.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME") or _slug(os.path.realpath(main))
    return os.path.join(own, "projects", slug, "memory", NAME)


def _has_say(found: Fields) -> bool:
    return isinstance(found.get("autoMemoryEnabled"), bool)


def _folder(told: object, root: str, within: str | None) -> str | None:
    if not isinstance(told, str) or not told or "\0" in told:
        return None
    folder = os.path.abspath(os.path.join(root, os.path.expanduser(told)))
    if within is not None:
        top = os.path.realpath(within)
        if os.path.commonpath((top, os.path.realpath(folder))) != top:
            return None
    return folder


def _slug(path: str) -> str:
    return "".join([letter if letter.isascii() and letter.isalnum() else "-" for letter in path])


def _is_tracked(workspace: Workspace) -> bool:
    """Whether the local settings came with the repository: then they are not the person's own.

    An index that shortens its paths cannot be asked; it is taken to say yes.
    """
    index = Disk().read(os.path.join(workspace.git, "index")) if workspace.git else None
    return index is not None and (index[4:8] == _SHORTENED or _LOCAL.encode() in index)


def _read(path: str, root: str | None = None) -> Fields:
    """A client's settings, as far as they are any; a project's lie inside of it."""
    if root is not None and not is_inside(path, root):
        return {}
    try:
        found = json_text.loads(Disk().read(path, _MOST) or b"{}")
    except (OSError, json_text.BadJson):
        return {}
    return found if isinstance(found, dict) else {}
