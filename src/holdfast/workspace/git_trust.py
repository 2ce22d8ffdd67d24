"""Read what a person told git about repositories of other users, and about bare ones.

Only settings that no repository can change count: the system's, the person's and the command's.
Files that these include are not read. Only a folder that belongs to another user, or that looks
like a bare repository, needs this module, so commands seldom import it.
"""

from __future__ import annotations

import os

from holdfast.workspace.location import is_in_repository, parse_git_settings, read_text

_MAX_BYTES = 1 << 20


def is_safe(root: str) -> bool:
    """Return True if the person's settings of git call a folder of another user safe."""
    folders: list[str] = []
    for value in _protected_settings(root).get("safe.directory", []):
        folders = [*folders, os.path.expanduser(value)] if value else []
    real = os.path.realpath(root)
    return "*" in folders or any(os.path.realpath(folder) == real for folder in folders)


def allows_bare(root: str) -> bool:
    """Return True unless the person wants bare repositories to be named explicitly."""
    values = _protected_settings(root).get("safe.barerepository", [])
    return values[-1:] != ["explicit"]


def _protected_settings(root: str) -> dict[str, list[str]]:
    """Return the values of each setting, the one with the highest precedence last.

    A file inside the repository at ``root`` does not count.
    """
    environ = os.environ
    own = [
        os.path.join(
            environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", "config"
        ),
        os.path.expanduser("~/.gitconfig"),
    ]
    if "GIT_CONFIG_GLOBAL" in environ:
        own = [environ["GIT_CONFIG_GLOBAL"]]
    system = [environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"]
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() in ("1", "true", "yes", "on"):
        system = []
    settings: dict[str, list[str]] = {}
    for path in (*system, *own):
        if not is_in_repository(path, root):
            parse_git_settings(read_text(os.path.sep, path, _MAX_BYTES), settings)
    count = environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdecimal() else 0):
        key = environ.get(f"GIT_CONFIG_KEY_{number}", "").lower()
        settings.setdefault(key, []).append(environ.get(f"GIT_CONFIG_VALUE_{number}", ""))
    return settings
