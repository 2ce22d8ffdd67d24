"""Find the ``MEMORY.md`` that Claude Code loads for this project.

``HOLDFAST_MEMORY`` and the settings come first. A path that comes with a repository must stay
inside the workspace; a person's own settings may name any.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.system.disk import Disk
from holdfast.workspace import settings
from holdfast.workspace.location import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

NAME = "MEMORY.md"
OFF = "off"
_MAX_SETTINGS_BYTES = 1_000_000
_LOCAL_SETTINGS = "settings.local.json"
_INDEX_VERSION_4 = b"\0\0\0\4"
"""Git's index with shortened paths, in which a path cannot be searched."""


def find(workspace: Workspace) -> str | None:
    """Return the absolute path, ``None`` if memory is switched off."""
    path = os.environ.get("HOLDFAST_MEMORY") or settings.load(workspace.root).memory()
    if path == OFF:
        return None
    if path:
        return os.path.abspath(os.path.join(workspace.root, os.path.expanduser(path)))
    if os.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") == "1":
        return None
    return _of_client(workspace)


def _of_client(workspace: Workspace) -> str | None:
    """Return the path by the client's own settings: local, then the team's, then the person's."""
    own = os.path.abspath(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"))
    main = workspace.main_worktree or workspace.root
    project = os.path.join(main, ".claude")
    local = _read(os.path.join(project, _LOCAL_SETTINGS), main)
    team = _read(os.path.join(project, "settings.json"), main)
    person = _read(os.path.join(own, "settings.json"))
    enabled = [layer.get("autoMemoryEnabled") for layer in (local, team, person)]
    if next((value for value in enabled if isinstance(value, bool)), True) is False:
        return None
    local_root = main if "autoMemoryDirectory" in local and _is_tracked(workspace) else None
    for layer, root in ((local, local_root), (team, main), (person, None)):
        folder = _folder(layer.get("autoMemoryDirectory"), main, root)
        if folder is not None:
            return os.path.join(folder, NAME)
    path = os.path.realpath(main)
    slug = "".join([letter if letter.isascii() and letter.isalnum() else "-" for letter in path])
    name = os.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME") or slug
    return os.path.join(own, "projects", name, "memory", NAME)


def _folder(value: object, base: str, root: str | None) -> str | None:
    """Return a configured folder, ``None`` if it is not usable or outside of ``root``."""
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    folder = os.path.abspath(os.path.join(base, os.path.expanduser(value)))
    if root is not None:
        top = os.path.realpath(root)
        if os.path.commonpath((top, os.path.realpath(folder))) != top:
            return None
    return folder


def _is_tracked(workspace: Workspace) -> bool:
    """Return True if the local settings came with the repository, so are not the person's own.

    Return True also if git's index has shortened paths and cannot be searched.
    """
    index = Disk().read(os.path.join(workspace.git, "index")) if workspace.git else None
    if index is None:
        return False
    return index[4:8] == _INDEX_VERSION_4 or _LOCAL_SETTINGS.encode() in index


def _read(path: str, root: str | None = None) -> Fields:
    """Return a client's settings; empty if they are unreadable or lie outside of ``root``."""
    if root is not None and not is_inside(path, root):
        return {}
    try:
        document = json_text.loads(Disk().read(path, _MAX_SETTINGS_BYTES) or b"{}")
    except (OSError, json_text.BadJson):
        return {}
    return document if isinstance(document, dict) else {}
