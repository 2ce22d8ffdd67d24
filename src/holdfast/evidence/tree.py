"""Digest the working tree: a gate's result is stale when the digest has changed.

The digest covers the content of files, tracked or untracked, staged or committed: an edit changes
it, a commit does not. Ignored files and Holdfast's own are left out. Nothing is written, not even
to git's object store.

Where files or git's answers cannot be read, the digest is unknown (``needs.UNKNOWN_TREE``), and no
result is fresh beside it.
"""

from __future__ import annotations

import os
import stat

from holdfast.core.json_text import digest
from holdfast.core.workflow.needs import UNKNOWN_TREE
from holdfast.evidence import git
from holdfast.workspace.location import OWN_PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.workspace.location import Workspace

Tree = dict[str, str]
"""Path to mode and content hash, separated by a space. ``_UNKNOWN`` says what was not read."""
_UNKNOWN = ""
_UNREADABLE = "unreadable"
"""The hash of a file that cannot be read."""

_SUBMODULE = "160000"
_STATUS = (
    "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all",
    "--no-ahead-behind",
)  # fmt: skip
"""Options to list what differs from the index: unlike ``ls-files``, ``status`` uses all cores."""
_ORDINARY = ("H 100", "H 120")
"""The beginnings of rows of ``ls-files`` for files and links that ``status`` checks."""
_BLOCK_BYTES = 1024 * 1024
_MAX_HASHED_BYTES = 2 * 1024**3
"""The size of all changed files together whose content is read; of the largest ones it is not."""
_MAX_FILES = 500_000
"""The number of files that are looked at in a folder outside git."""


def read(workspace: Workspace) -> Tree:
    """Return every file that git does not ignore; without git, every file."""
    return start(workspace)()


def start(workspace: Workspace) -> Callable[[], Tree]:
    """Start git on the files; return a function that waits for it and returns the tree."""
    index = None if workspace.git is None else os.path.join(workspace.git, "index")
    finish = _start_repository(workspace.root, index, OWN_PREFIXES)

    def wait() -> Tree:
        tree = finish()
        if tree is not None:
            return tree
        files = _read_folder(workspace.root)
        return {path: files[path] for path in files if not path.startswith(OWN_PREFIXES)}

    return wait


def digest_of(tree: Tree) -> str:
    """Return one digest of all paths, modes and contents; an unknown one if some were not read."""
    if _UNKNOWN in tree:
        return f"{UNKNOWN_TREE}{tree[_UNKNOWN]}"
    rows = map("\0".join, sorted(tree.items()))
    return digest("\0\0".join(rows).encode(errors="surrogateescape"))


def changed(before: Tree, after: Tree) -> list[str]:
    """Return files that changed or are gone; new ones are not among them."""
    if before == after:
        return []
    known = (item for item in before.items() if item[0] != _UNKNOWN)
    return sorted(path for path, content in known if after.get(path) != content)


def _start_repository(
    root: str, index: str | None = None, ignored: tuple[str, ...] = ()
) -> Callable[[], Tree | None]:
    """Begin to read a repository; return a function that returns its files, or ``None``.

    ``index`` is the path of git's index, if it is known. Paths that start with one of ``ignored``
    are left out.
    """
    repository = git.Repository(root)
    status = repository.start("status", *_STATUS)

    def finish() -> Tree | None:
        parsed = _read_index(repository, index, ignored)  # while git looks at the files
        answer = git.answer(status)
        if parsed is None:
            return None
        rows = _split(answer)
        indexed, special = parsed
        # A row has a letter for the index, one for the work tree, a space and the path. A path that
        # ends with a slash is the work tree of another repository.
        names = {row[3:] for row in rows if row[1] != " " and not row.endswith("/")}
        for tag, mode, path in special:
            if _is_unchecked(tag, mode, os.path.join(root, path)):
                names.add(path)
        if not all(map(_is_name, names)):
            return {_UNKNOWN: "git's index is damaged"}
        tree = dict(indexed)
        for name in names:
            tree.pop(name, None)
        changed = sorted(name for name in names if not name.startswith(ignored))
        tree |= _hash_files(repository, changed)
        if answer is None:
            tree[_UNKNOWN] = "git status fails"
        return tree

    return finish


Index = tuple[Tree, list[tuple[str, str, str]]]
_last_index: list[tuple[object, Index]] = []
"""The index that was read last, after the stamp of its file."""


def _read_index(
    repository: git.Repository, path: str | None, ignored: tuple[str, ...]
) -> Index | None:
    """Return the files in git's index, and tag, mode and path of those ``status`` may not check.

    A command that runs between two reads of the tree seldom changes the index. git replaces its
    file for every change, so the same file has the same rows.
    """
    stamp = None if path is None else _stamp(path)
    if stamp is not None and _last_index and _last_index[0][0] == stamp:
        return _last_index[0][1]
    output = repository.ask("ls-files", "-s", "-v", "-z")
    if output is None:
        return None
    rows = _split(output)
    # A row has a tag, the mode, the content hash, the stage (one digit), a tab and the path. All
    # but the path are as long in every row.
    tab = rows[0].index("\t") if rows else 0
    rows = [row for row in rows if not row.startswith(ignored, tab + 1)]
    special = [(row[0], row[2:8], row[tab + 1 :]) for row in rows if row[:5] not in _ORDINARY]
    tree = {row[tab + 1 :]: row[2 : tab - 2] for row in rows}
    if stamp is not None and stamp == _stamp(path or ""):
        _last_index[:] = [(stamp, (tree, special))]
    return tree, special


def _stamp(path: str) -> object:
    """Return values that change when a file is replaced or edited; ``None`` if there is no file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _split(output: bytes | None) -> list[str]:
    """Return the rows of an answer; each ends with a zero byte."""
    return (output or b"").decode(errors="surrogateescape").split("\0")[:-1]


def _is_unchecked(tag: str, mode: str, path: str) -> bool:
    """Return True if git is set to skip this file, or checks only the commit of a submodule."""
    if mode == _SUBMODULE:
        return _is_repository(path)
    is_skipped = tag in ("S", "s")
    return os.path.lexists(path) if is_skipped else tag.islower()


def _is_name(path: str) -> bool:
    """Return False for a path that leads elsewhere, or back to the repository that has it."""
    return not {"", ".", ".."}.intersection(path.split("/"))


def _is_repository(path: str) -> bool:
    return os.path.lexists(os.path.join(path, ".git"))


def _hash_files(repository: git.Repository, names: list[str]) -> Tree:
    """Return files with the hashes that git would give them after a commit."""
    root = repository.root
    tree, names = _without_largest(root, names)
    plain: list[tuple[str, str]] = []
    for name in names:
        mode = _mode(os.path.join(root, name))
        # git takes a line with such a name literally.
        is_line = "\n" not in name and not name.startswith('"') and not name.endswith("\r")
        if mode in ("100644", "100755") and is_line:
            plain.append((name, mode))
        elif mode:
            tree[name] = f"{mode} {_hash_file(os.path.join(root, name), mode)}"
    if not plain:
        return _with_unread(tree)
    paths = "".join(f"{name}\n" for name, _ in plain).encode(errors="surrogateescape")
    output = repository.ask("hash-object", "--stdin-paths", stdin=paths) or b""
    hashes = output.decode().split("\n")
    if len(hashes) != len(plain) + 1:
        # A file was removed meanwhile, or cannot be read.
        hashes = [_hash_file(os.path.join(root, name), mode) for name, mode in plain]
    for (name, mode), hashed in zip(plain, hashes, strict=False):
        tree[name] = f"{mode} {hashed}"
    return _with_unread(tree)


def _without_largest(root: str, names: list[str]) -> tuple[Tree, list[str]]:
    """Return the files that are too large to be read, and the names of the others.

    A sparse file of any size takes up no room in an archive. In place of its content stands what
    changes with every write: its size, inode and change time, which nobody can set.
    """
    sizes = {name: _size_of(os.path.join(root, name)) for name in names}
    if sum(sizes.values()) <= _MAX_HASHED_BYTES:
        return {}, names
    tree: Tree = {}
    total = 0
    for name in sorted(names, key=lambda name: (sizes[name], name)):
        total += sizes[name]
        if total > _MAX_HASHED_BYTES and sizes[name]:
            path = os.path.join(root, name)
            tree[name] = f"{_mode(path)} {digest(repr(_stamp(path)).encode())}"
    return tree, [name for name in names if name not in tree]


def _size_of(path: str) -> int:
    """Return the size of an ordinary file; 0 for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _with_unread(tree: Tree) -> Tree:
    """Return the tree, marked as not known if a file in it could not be read."""
    for name, content in tree.items():
        if content.endswith(_UNREADABLE):
            return {**tree, _UNKNOWN: f"{name} cannot be read"}
    return tree


def _mode(path: str) -> str:
    """Return git's mode of a path; empty if it is no file, link or folder."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return _UNREADABLE
    if stat.S_ISLNK(mode):
        return "120000"
    if stat.S_ISDIR(mode):
        return _SUBMODULE
    if not stat.S_ISREG(mode):
        return ""
    return "100755" if mode & 0o100 else "100644"


def _hash_file(path: str, mode: str) -> str:
    """Return git's hash of a file or link; of a submodule, the digest of its files."""
    if mode == _SUBMODULE:
        if not _is_repository(path):
            return ""  # a folder in place of a file
        files = _start_repository(path)()
        return _UNREADABLE if files is None or _UNKNOWN in files else digest_of(files)
    try:
        if mode == "120000":
            target = os.fsencode(os.readlink(path))
            return _hash_blob(len(target), [target])
        with open(path, "rb") as file:
            return _hash_blob(
                os.fstat(file.fileno()).st_size, iter(lambda: file.read(_BLOCK_BYTES), b"")
            )
    except OSError:
        return _UNREADABLE


def _hash_blob(size: int, blocks: Iterable[bytes]) -> str:
    from hashlib import sha1

    hashed = sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in blocks:
        hashed.update(block)
    return hashed.hexdigest()


def _read_folder(root: str) -> Tree:
    """Return the files of a folder outside git."""
    names: list[str] = []
    unread: list[OSError] = []
    for folder, folders, files in os.walk(root, onerror=unread.append):
        folders[:] = sorted(name for name in folders if name != ".git")
        prefix = os.path.relpath(folder, root)
        names += [os.path.normpath(os.path.join(prefix, name)) for name in (*files, *folders)]
        if len(names) > _MAX_FILES:
            return {_UNKNOWN: f"there are more than {_MAX_FILES:,} files"}
    tree, names = _without_largest(root, names)
    for name in names:
        full = os.path.join(root, name)
        mode = _mode(full)
        if mode and mode != _SUBMODULE:
            tree[name] = f"{mode} {_hash_file(full, mode)}"
    if unread:
        tree[_UNKNOWN] = f"{os.path.relpath(unread[0].filename, root)} cannot be read"
    return _with_unread(tree)
