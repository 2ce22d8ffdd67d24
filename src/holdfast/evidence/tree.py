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
    from collections.abc import Iterable

    from holdfast.workspace import Workspace

Tree = dict[str, str]
"""Path to ``mode content``."""

_SUBMODULE = "160000"
_BLOCK = 1 << 20


def read(workspace: Workspace) -> Tree:
    """Every file that counts. Without git, every file."""
    found = _versioned(workspace.root)
    if found is None:
        found = _unversioned(workspace.root)
    return {path: held for path, held in found.items() if not workspace.is_own(path)}


def digest_of(tree: Tree) -> str:
    rows = [f"{path}\0{held}" for path, held in sorted(tree.items())]
    return digest("\0\0".join(rows).encode(errors="surrogateescape"))


def changed(before: Tree, after: Tree) -> list[str]:
    """Files that were there before and are different now; new ones are not among them."""
    return sorted(path for path, held in before.items() if after.get(path) != held)


def _versioned(root: str) -> Tree | None:
    """The files of a repository; ``None`` when git knows none here."""
    repository = git.Repository(root)
    listed = repository.ask("ls-files", "-s", "-v", "-z")
    if listed is None:
        return None
    found: Tree = {}
    options = ("--modified", "--deleted", "--others", "--exclude-standard")
    touched = _names(repository.ask("ls-files", "-z", *options))
    # A name with a slash at its end is another repository's work tree, and no file of this one.
    names = {name for name in touched if not name.endswith("/")}
    for row in _names(listed):
        told, _, path = row.partition("\t")
        tag, mode, content, _stage = told.split(" ")
        found[path] = f"{mode} {content}"
        if _is_unseen(tag, mode, os.path.join(root, path)):
            names.add(path)
    for path in names:
        found.pop(path, None)
    return {**found, **_hashed(repository, sorted(names))}


def _names(told: bytes | None) -> list[str]:
    found = (told or b"").decode(errors="surrogateescape").split("\0")
    return [name for name in found if name]


def _is_unseen(tag: str, mode: str, path: str) -> bool:
    """Whether git was told not to look at this file, or looks only at its commit."""
    if mode == _SUBMODULE:
        return _is_repository(path)
    is_left_out = tag in ("S", "s")
    return os.path.lexists(path) if is_left_out else tag.islower()


def _is_repository(path: str) -> bool:
    return os.path.lexists(os.path.join(path, ".git"))


def _hashed(repository: git.Repository, names: list[str]) -> Tree:
    """Return files as git would hold them: changed and untracked ones look like committed ones."""
    root = repository.root
    found: Tree = {}
    plain: list[tuple[str, str]] = []
    for name in names:
        mode = _mode(os.path.join(root, name))
        if mode in ("100644", "100755") and _is_one_line(name):
            plain.append((name, mode))
        elif mode:
            found[name] = f"{mode} {_content(os.path.join(root, name), mode)}"
    if not plain:
        return found
    given = "".join(f"{name}\n" for name, _ in plain).encode(errors="surrogateescape")
    output = repository.ask("hash-object", "--stdin-paths", given=given) or b""
    told = output.decode().split("\n")
    if len(told) != len(plain) + 1:
        # A file went away, or cannot be read, while git looked.
        told = [_content(os.path.join(root, name), mode) for name, mode in plain]
    held = {name: f"{mode} {hashed}" for (name, mode), hashed in zip(plain, told, strict=False)}
    return {**found, **held}


def _is_one_line(name: str) -> bool:
    """Whether git reads a line with this name as this name."""
    return "\n" not in name and not name.startswith('"') and not name.endswith("\r")


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
    """What a file holds, in git's own hash of it; of a submodule, what all of its files hold."""
    if mode == _SUBMODULE:
        files = _versioned(path) if _is_repository(path) else None
        return "" if files is None else digest_of(files)
    try:
        if mode == "120000":
            target = os.fsencode(os.readlink(path))
            return _blob(len(target), [target])
        with open(path, "rb") as file:
            return _blob(os.fstat(file.fileno()).st_size, iter(lambda: file.read(_BLOCK), b""))
    except OSError:
        return "unreadable"


def _blob(size: int, blocks: Iterable[bytes]) -> str:
    from hashlib import sha1

    hashed = sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in blocks:
        hashed.update(block)
    return hashed.hexdigest()


def _unversioned(root: str) -> Tree:
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in [*files, *folders]:
            full = os.path.join(folder, name)
            mode = _mode(full)
            if mode and mode != _SUBMODULE:
                found[os.path.relpath(full, root)] = f"{mode} {_content(full, mode)}"
    return found
