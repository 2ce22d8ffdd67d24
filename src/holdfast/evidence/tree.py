"""The working tree in one digest: what a gate's result was shown on.

It covers what the files hold, tracked and untracked alike, and not whether that is staged or
committed: a commit makes nothing stale, an edit does. Ignored files and Holdfast's own are left
out. Nothing is written, not even into git's store of objects.
"""

from __future__ import annotations

import os
import stat

from holdfast.digest import digest
from holdfast.evidence import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.workspace import Workspace

Tree = dict[str, str]
"""Path to ``mode content``."""

_SUBMODULE = "160000"


def read(workspace: Workspace) -> Tree:
    """Every file that counts. Without git, every file."""
    listed = git.ask(workspace.root, "ls-files", "-s", "-z")
    found = _unversioned(workspace.root) if listed is None else _versioned(workspace.root, listed)
    return {path: held for path, held in found.items() if not workspace.is_own(path)}


def digest_of(tree: Tree) -> str:
    rows = [f"{path}\0{held}" for path, held in sorted(tree.items())]
    return digest("\0\0".join(rows).encode(errors="surrogateescape"))


def changed(before: Tree, after: Tree) -> list[str]:
    """Files that were there before and are different now; new ones are not among them."""
    return sorted(path for path, held in before.items() if after.get(path) != held)


def _versioned(root: str, listed: bytes) -> Tree:
    found: Tree = {}
    for row in listed.decode(errors="surrogateescape").split("\0"):
        told, _, path = row.partition("\t")
        if path:
            mode, content, _stage = told.split(" ")
            found[path] = f"{mode} {content}"
    options = ("--modified", "--deleted", "--others", "--exclude-standard")
    touched = git.ask(root, "ls-files", "-z", *options) or b""
    names = {name for name in touched.decode(errors="surrogateescape").split("\0") if name}
    for path in names:
        found.pop(path, None)
    return {**found, **_hashed(root, sorted(names))}


def _hashed(root: str, names: list[str]) -> Tree:
    """Files as git would hold them: changed and untracked ones look like committed ones."""
    found: Tree = {}
    plain: list[tuple[str, str]] = []
    for name in names:
        mode = _mode(os.path.join(root, name))
        if mode in ("100644", "100755") and "\n" not in name:
            plain.append((name, mode))
        elif mode:
            found[name] = f"{mode} {_content(os.path.join(root, name), mode)}"
    given = "".join(f"{name}\n" for name, _ in plain).encode(errors="surrogateescape")
    told = (git.ask(root, "hash-object", "--stdin-paths", given=given) or b"").decode().split("\n")
    if len(told) == len(plain) + 1:
        return {
            **found,
            **{name: f"{mode} {held}" for (name, mode), held in zip(plain, told, strict=False)},
        }
    # A file went away, or cannot be read, while git looked.
    return {
        **found,
        **{name: f"{mode} {_content(os.path.join(root, name), mode)}" for name, mode in plain},
    }


def _mode(path: str) -> str:
    """Git's mode of what stands there; empty when nothing does."""
    try:
        found = os.lstat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISLNK(found):
        return "120000"
    if stat.S_ISDIR(found):
        return _SUBMODULE
    if not stat.S_ISREG(found):
        return ""
    return "100755" if found & 0o100 else "100644"


def _content(path: str, mode: str) -> str:
    """What a file holds, in git's own hash of it."""
    try:
        if mode == _SUBMODULE:
            return git.head(path) or ""
        data = os.fsencode(os.readlink(path)) if mode == "120000" else _bytes(path)
    except OSError:
        return "unreadable"
    from hashlib import sha1

    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _unversioned(root: str) -> Tree:
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in files:
            full = os.path.join(folder, name)
            mode = _mode(full)
            if mode:
                found[os.path.relpath(full, root)] = f"{mode} {_content(full, mode)}"
    return found
