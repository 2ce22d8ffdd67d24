"""The working tree in one digest: what a gate's result was shown on.

It covers what the files hold, tracked and untracked alike, and not whether that is staged or
committed: a commit makes nothing stale, an edit does. Ignored files and Holdfast's own are left
out. Nothing is written, not even into git's store of objects.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache

from holdfast.core.digest import digest
from holdfast.evidence import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.workspace.location import Workspace

Tree = dict[str, str]
"""Path to ``mode content``."""

_SUBMODULE = "160000"
_STATUS = (
    "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all",
    "--no-ahead-behind",
)  # fmt: skip
"""How git is asked what differs from its index: unlike ``ls-files``, ``status`` uses all cores."""
_PLAIN = ("H 100", "H 120")
"""How the rows of files and links begin that git looks at itself."""
_BLOCK = 1 << 20


def read(workspace: Workspace) -> Tree:
    """Every file that counts. Without git, every file."""
    found = _versioned(workspace.root)
    if found is None:
        found = _unversioned(workspace.root)
    for path in [path for path in found if workspace.is_own(path)]:
        del found[path]
    return found


def digest_of(tree: Tree) -> str:
    rows = [f"{path}\0{tree[path]}" for path in sorted(tree)]
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
    rows = _names(repository.ask("status", *_STATUS))
    # A row is two letters, for the index and the work tree, and the path. A path with a slash at
    # its end is another repository's work tree, and no file of this one.
    names = {row[3:] for row in rows if row[1] != " " and not row.endswith("/")}
    held, special = _indexed(listed)
    for tag, mode, path in special:
        if _is_unseen(tag, mode, os.path.join(root, path)):
            names.add(path)
    found = {**held}
    for path in names:
        found.pop(path, None)
    return found | _hashed(repository, sorted(names))


@lru_cache(maxsize=1)
def _indexed(listed: bytes) -> tuple[Tree, list[tuple[str, str, str]]]:
    """Return what git's index holds, and tag, mode and path of what git may not look at.

    Remembered, since a command that is run between two looks seldom changes the index.
    """
    rows = _names(listed)
    # A row is a tag, the mode, the content, the stage in one digit, and after a tab the path.
    special = [(row[0], row[2:8], row.partition("\t")[2]) for row in rows if row[:5] not in _PLAIN]
    return {path: told[2:-2] for told, _, path in (row.partition("\t") for row in rows)}, special


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
