"""Locate the worktree, the ledger's folder, and git's branch and commit for a command.

Git is not run: reading its ``HEAD``, ``commondir`` and ``config`` files takes a tenth of the time.
"""

from __future__ import annotations

import os
from errno import EACCES, EPERM, EROFS
from os.path import samestat
from stat import S_ISDIR, S_ISLNK, S_ISREG

from holdfast.core.json_text import digest, is_encodable
from holdfast.core.record_formats import FORMATS
from holdfast.errors import Fault, Refused, not_writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.system.disk import Disk

LEDGER = "ledger.db"
"""The file name of the ledger."""
INSTALLED = "installed.json"
"""The file name of the journal of what ``holdfast init`` changed, beside the ledger."""
RECOVERED = ".recovered"
"""Added to the name of a ledger that a repair made and has not put in place yet."""
_UNREAD = "unread"
_LEASE = "lease-"
_QUESTIONS = "questions-"
_MAX_PLAIN_NAME = 64
_MAX_DUE_BYTES = 20
OLD_LEDGER = "ledger.ndjson"
"""The file name of a version 0.1 ledger."""
TEAM_SETTINGS = os.path.join(".claude", "holdfast.toml")
PERSON_SETTINGS = "config.toml"
NOTES = "CLAUDE.local.md"
"""An agent's own notes, which may describe a workflow."""
PLANS = os.path.join("CLAUDE", "Plan")
"""The folder of an agent's plans, each in a folder of its own."""
MILESTONES = "documentation/milestones/_active"
"""The folder with one folder for each initiative, unless the settings name another one."""
MAIN = "."
"""The name of the main worktree."""
_NAME_FILE = "holdfast-worktree"
"""The file in a linked worktree's git folder that contains the worktree's name.

Git's own name for a worktree does not identify it: git reuses the name of a removed worktree.
"""
_MADE = "made"
"""The file beside a ledger that shows that it was made there (``sign_ledger``)."""
_MADE_WITHIN_NS = 10_000_000_000
_TOKEN_DIGITS = 32
_NEW = "*"
"""The suffix of a linked worktree's name until something is recorded in it."""

_IGNORED = (
    ".claude/holdfast/",
    *(spec.ignored for spec in FORMATS.values()),
    ".claude/initiative.json*",
    ".claude/interview-state.json*",
    ".claude/delegation-log.json*",
    ".claude/learnings.json*",
    ".claude/forge-context.json*",
)
_COMMIT_DIGITS = (40, 64)
_OBJECT_START_BYTES = 64
"""Enough of a compressed object to tell its kind."""
_ACROSS = "GIT_DISCOVERY_ACROSS_FILESYSTEM"
"""The variable with which git looks for a repository on the file systems above, too."""
_CEILINGS = "GIT_CEILING_DIRECTORIES"
"""The variable with the folders in which git does not look for a repository on its way up."""
_IN_A_PROJECT = "run holdfast in a project's folder"
_MAX_READ_BYTES = 16 * 1024 * 1024
_MAX_CONTAINED_FOLDERS = 100
MAX_NAMES = 100_000
"""The number of names that are read of one folder."""
_RECORD_PREFIXES = tuple(line.partition("*")[0] for line in _IGNORED[1:])
"""The beginnings of all record paths."""
OWN_PREFIXES = (_IGNORED[0], *_RECORD_PREFIXES)
"""The beginnings of the paths of all files of Holdfast in a worktree."""
_IGNORED_SPARES = (".claude/.*.json.holdfast*", ".claude/iterative/**/.*.json.holdfast*")
"""Temporary files of a killed writer, in folders that git does not ignore as a whole."""
_IGNORED_SETTINGS = ".claude/settings.local.json"
"""A person's own settings of the client, which ``init --local`` writes."""


def person_path(variable: str = "XDG_CONFIG_HOME", default: str = ".config") -> str:
    """Return the path of a person's own folder, which may be in the workspace by mistake."""
    base = os.environ.get(variable, "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), default)
    return os.path.join(base, "holdfast")


def person_folder(
    root: str, variable: str = "XDG_CONFIG_HOME", default: str = ".config"
) -> str | None:
    """Return the folder of a person's own settings and approvals, which are trusted.

    Return ``None`` if it is in the repository of the workspace at ``root``: whoever made that could
    have put anything there.
    """
    folder = person_path(variable, default)
    return None if is_in_repository(folder, root) else folder


def _list_of_ledgers(root: str) -> str | None:
    """Return the path of the file that lists the ledgers this person's Holdfast made."""
    state = person_folder(root, "XDG_STATE_HOME", os.path.join(".local", "state"))
    return None if state is None else os.path.join(state, "ledgers")


def sign_ledger(folder: str, disk: Disk) -> None:
    """Leave a file beside a new ledger that shows that it was made in this folder.

    It has a secret token for the ledger, the folder's inode and the time. What was unpacked from an
    archive or checked out has another inode, and a file's change time cannot be set.
    """
    path = os.path.join(folder, _MADE)
    stat = os.stat(folder)
    text = f"{os.urandom(16).hex()} {stat.st_ino} {stat.st_ctime_ns}\n"
    disk.remove(path)
    disk.create(path, text.encode(), durable=True)


def is_own_ledger(folder: str, root: str) -> bool:
    """Return True if the ledger in this folder was made here, or by this person's Holdfast.

    ``root`` is the workspace that the folder belongs to.
    """
    path = os.path.join(folder, _MADE)
    try:
        mark, here = os.lstat(path), os.stat(folder)
        if not S_ISREG(mark.st_mode):
            return False  # A link could borrow the proof of another ledger.
        token, inode, at = _read(path).split(" ")
        if inode == str(here.st_ino) and abs(mark.st_ctime_ns - int(at)) < _MADE_WITHIN_NS:
            return True
        # A copy, or what a backup restored, has the token of a ledger that this person made.
        listed = _list_of_ledgers(root)
        lines = "" if listed is None else _read(listed)
    except (OSError, Fault, ValueError):
        return False
    return len(token) == _TOKEN_DIGITS and f"\n{token} " in f"\n{lines}"


class Workspace:
    """A worktree and the ledger it belongs to."""

    def __init__(
        self,
        root: str,
        git: str | None = None,
        common: str | None = None,
        name: str = MAIN,
        main: str | None = None,
    ) -> None:
        self.root = root
        self.name = name
        self.git = git
        """This worktree's own git folder."""
        self.common = common
        """The git folder that all worktrees share; ``None`` if the ledger is not kept in git's."""
        self.is_unnamed = git is not None and name.endswith(_NEW)
        """True for a linked worktree in which nothing was recorded yet."""
        self.home = os.path.join(common or os.path.join(root, ".claude"), "holdfast")
        """The ledger's folder, shared by all worktrees of a repository."""
        self.main_worktree = root if name == MAIN else main
        """The main worktree's folder; ``None`` in a linked worktree of a bare repository."""
        self.project = self.main_worktree or os.path.dirname(common or root)
        """The main worktree's folder, or the parent folder of a bare repository."""
        self.old_homes = os.path.join(self.project, ".claude", "holdfast"), self.home
        """The folders in which version 0.1 kept its ledger, or links to the ledger's files."""
        self._contained_folders: set[str] = set()

    def has_old_ledger(self) -> bool:
        """Return True if a ledger from version 0.1 or from before ``git init`` exists.

        It exists even after it was imported: its files are kept.
        """
        for home in self.old_homes:
            if os.path.lexists(os.path.join(home, OLD_LEDGER)):
                return True
        plain = os.path.join(self.root, ".claude", "holdfast")
        return plain != self.home and os.path.lexists(os.path.join(plain, LEDGER))

    def list_ledger(self, disk: Disk) -> None:
        """Add this ledger to the person's list. A ledger that came with a folder is not on it."""
        path = _list_of_ledgers(self.root)
        try:
            token = _read(os.path.join(self.home, _MADE)).partition(" ")[0]
            if path is not None and f"{token} " not in _read(path):
                disk.make_folder(os.path.dirname(path))
                home = os.path.realpath(self.home).replace("\n", " ")
                line = f"{token} {home}\n".encode(errors="surrogateescape")
                disk.extend(path, line, is_own=True)
        except (OSError, Fault):
            return  # The only consequence: a copy of the ledger is not recognized.

    def is_current(self) -> bool:
        """Return False if git was set up or moved since: the ledger belongs in another folder."""
        try:
            return find(self.root).home == self.home
        except Refused:
            return False

    def has_ledger(self) -> bool:
        return os.path.lexists(os.path.join(self.home, LEDGER))

    def has_foreign_ledger(self) -> bool:
        """Return True if there is a ledger that was not made here, nor by this person elsewhere."""
        paths = [os.path.join(self.home, name) for name in (LEDGER, f"{LEDGER}{RECOVERED}")]
        return any(map(os.path.lexists, paths)) and not is_own_ledger(self.home, self.root)

    @property
    def unread_mark(self) -> str:
        """The path of a file that exists while an active workflow may require reading.

        The hook that runs whenever an agent reads a file checks only that this file exists.
        """
        return os.path.join(self.home, _UNREAD)

    def lease_mark(self, session: str) -> str:
        """Return the path of the file that exists while a session holds a lease."""
        return self._mark_of(_LEASE, session)

    def questions_mark(self, session: str) -> str:
        """Return the path of the file that exists while a session waits for answers."""
        return self._mark_of(_QUESTIONS, session)

    def waits_for_answers(self, session: str) -> bool:
        """Return True if a session may have an answer to hear. This is one stat."""
        return bool(session) and os.path.lexists(self.questions_mark(session))

    def _mark_of(self, kind: str, session: str) -> str:
        is_plain = session.isascii() and session.replace("-", "").isalnum()
        if not is_plain or len(session) > _MAX_PLAIN_NAME:
            session = f".{digest(session.encode(errors='replace'))}"
        return os.path.join(self.home, f"{kind}{session}")

    def is_lease_due(self, session: str, now_ms: int) -> bool:
        """Return True if a session holds a lease that is to be renewed. Mostly, this is one stat.

        The file says when, in milliseconds since 1970.
        """
        if not session:
            return False
        path = self.lease_mark(session)
        try:
            due = (read_start(path, _MAX_DUE_BYTES) or b"") if os.path.lexists(path) else b""
        except OSError:
            return False
        return due.isdigit() and int(due) <= now_ms

    def has_records(self) -> bool:
        """Return True if any file or folder of records exists."""
        return any(os.path.lexists(os.path.join(self.root, name)) for name in _RECORD_PREFIXES)

    def has_notes(self) -> bool:
        """Return True if an agent may keep a workflow in notes of its own."""
        return any(os.path.lexists(os.path.join(self.root, name)) for name in (NOTES, PLANS))

    def is_connected(self) -> bool:
        """Return True if ``holdfast init`` has set up a client in this project."""
        return os.path.lexists(os.path.join(self.home, INSTALLED))

    def has_milestones(self) -> bool:
        """Return True if there is a folder of milestone pages at the usual place."""
        return os.path.isdir(os.path.join(self.root, MILESTONES))

    def has_settings(self) -> bool:
        """Return True if the team or the person has a settings file."""
        team = os.path.join(self.root, TEAM_SETTINGS)
        person = os.path.join(person_path(), PERSON_SETTINGS)
        return os.path.lexists(team) or os.path.lexists(person)

    def index_stamp(self) -> str:
        """Return a text that changes with git's index; empty if there is none."""
        try:
            stat = os.stat(os.path.join(self.git or "", "index"))
        except OSError:
            return ""
        return f"{stat.st_mtime_ns} {stat.st_size} {stat.st_ino}"

    def branch(self) -> str | None:
        """Return the branch that is checked out, rebased or bisected; ``None`` if there is none."""
        if self.git is None:
            return None
        # During a rebase or a bisection, ``HEAD`` names no branch.
        for name in ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
            text = _read(os.path.join(self.git, name)).removeprefix("ref: ")
            if name == "BISECT_START" and text and not _is_full_commit(text):
                text = f"refs/heads/{text}"
            if text.startswith("refs/heads/"):
                # Git allows any bytes in a branch name, but only text can be stored and printed.
                raw = text.removeprefix("refs/heads/").encode(errors="surrogateescape")
                return raw.decode(errors="replace") or None
        return None

    def commit(self) -> str | None:
        """Return the commit that is checked out; ``None`` if git's files do not name it."""
        if self.git is None or self.common is None:
            return None
        head = _read(os.path.join(self.git, "HEAD"))
        if head.startswith("ref: refs/"):
            return self._commit_of(head.removeprefix("ref: "))
        return head if _is_full_commit(head) else None

    def facts(self) -> Fields:
        """Return what the phases of a workflow may need of git (``core.workflow.needs``)."""
        if self.git is None:
            return {"git": False}
        branch = self.branch()
        is_main = branch in self.main_branches()
        return {"git": True, "branch": branch, "is_main": is_main, "head": self.commit()}

    def main_branches(self) -> tuple[str, ...]:
        """Return the branch that the remote calls its main one, else the usual names of it."""
        head = _read(os.path.join(self.common or "", "refs", "remotes", "origin", "HEAD"))
        prefix = "ref: refs/remotes/origin/"
        return (head.removeprefix(prefix),) if head.startswith(prefix) else ("main", "master")

    def known_commit(self, name: str) -> str | None:
        """Return the id of ``HEAD``, a branch, or a full id, if git's files show that it exists.

        ``None`` says nothing: git may have packed it, or know it by another name.
        """
        if not is_encodable(name):
            return None
        if name == "HEAD":
            return self.commit()
        if not _is_full_commit(name):
            return self._commit_of(f"refs/heads/{name}")
        path = os.path.join(self.common or "", "objects", name[:2], name[2:])
        try:
            start = read_start(path, _OBJECT_START_BYTES) or b""
        except OSError:
            return None
        from zlib import decompressobj, error

        try:
            return name if decompressobj().decompress(start, 7) == b"commit " else None
        except error:
            return None

    def can_switch(self, branch: str) -> bool:
        """Return True if the branch exists and no worktree has it checked out."""
        commit = self._commit_of(f"refs/heads/{branch}") if is_encodable(branch) else None
        heads = [os.path.join(git, "HEAD") for git in self._linked()]
        heads.append(os.path.join(self.common or "", "HEAD"))
        return commit is not None and f"ref: refs/heads/{branch}" not in map(_read, heads)

    def _commit_of(self, ref: str) -> str | None:
        """Return the commit of a ref, from its own file or from ``packed-refs``."""
        if self.common is None or ".." in ref:
            return None
        path = os.path.join(self.common, ref)
        # A branch ``a`` may be packed while ``a`` is a folder that contains the branch ``a/b``.
        commit = _read(path) if os.path.isfile(path) else ""
        if not commit:
            for row in _read(os.path.join(self.common, "packed-refs")).split("\n"):
                if row.endswith(f" {ref}"):
                    commit = row.partition(" ")[0]
        return commit if _is_full_commit(commit) else None

    def root_of(self, worktree: str) -> str | None:
        """Return the folder of the worktree with this name, or ``None`` if it no longer exists."""
        if worktree == self.name and os.path.isdir(self.root):
            return self.root
        if self.common is None or worktree == self.name == MAIN:
            return None
        if worktree == MAIN:
            main = self.main_worktree or _bare_root(self.common)
            return main if main is not None and os.path.isdir(main) else None
        for git in self._linked():
            if _worktree_name(git) == worktree:
                pointer = _read(os.path.join(git, "gitdir"))
                # Git can be configured to store a path relative to its own folder.
                linked = os.path.dirname(os.path.normpath(os.path.join(git, pointer)))
                return linked if pointer and _leads_to(linked, git) else None
        return None

    def _linked(self) -> list[str]:
        """Return the git folders of the linked worktrees. Git makes no links there."""
        folder = os.path.join(self.common or "", "worktrees")
        if self.common is None or os.path.islink(folder) or not os.path.isdir(folder):
            return []
        paths = [os.path.join(folder, name) for name in names_in(folder)]
        return [path for path in paths if not os.path.islink(path)]

    def take_name(self, disk: Disk, is_taken: Callable[[str], bool]) -> None:
        """Give an unnamed worktree a name that no earlier worktree had, and store the name.

        Raise ``Fault`` if the worktree's git folder is read-only, as in a sandbox.
        """
        assert self.git is not None, "only a linked worktree is unnamed"
        base = name = self.name.removesuffix(_NEW)
        others = {_worktree_name(git) for git in self._linked()}
        number = 1
        while is_taken(name) or name in others:
            number += 1
            name = f"{base}-{number}"
        try:
            disk.create(os.path.join(self.git, _NAME_FILE), f"{name}\n".encode(), durable=True)
        except FileExistsError:
            name = _worktree_name(self.git)  # ``init`` stores a name without taking the lock.
        except OSError as error:
            if error.errno not in (EROFS, EACCES, EPERM):
                raise
            raise not_writable(self.git, error.strerror or str(error)) from error
        self.name, self.is_unnamed = name, False

    def keep_names(self, disk: Disk) -> None:
        """Give unnamed linked worktrees git's names for them, because version 0.1 used those."""
        for git in self._linked():
            if _worktree_name(git).endswith(_NEW):
                name = os.path.basename(git)
                disk.create(os.path.join(git, _NAME_FILE), f"{name}\n".encode(), durable=True)
        if self.git is not None and self.is_unnamed:
            self.name, self.is_unnamed = _worktree_name(self.git), False

    def inside(self, root: str, path: str) -> str:
        """Return a record's absolute path; raise ``Refused`` if it is no record's, or a link."""
        if not path.startswith(_RECORD_PREFIXES) or ".." in path.split("/") or "\0" in path:
            raise Refused(
                "outside", f"{path[:200]!r} is not a place for a record", "holdfast verify"
            )
        full = os.path.join(root, path)
        if os.path.islink(full):
            raise Refused(
                "outside",
                f"{path} is a symbolic link; a record has to be a file of its own",
                f"replace the link by the file it names: {path}",
            )
        folder = os.path.dirname(full)
        if folder not in self._contained_folders:
            self.check_links(full, root)
            if len(self._contained_folders) >= _MAX_CONTAINED_FOLDERS:
                self._contained_folders.clear()
            self._contained_folders.add(folder)
        return full

    def check_links(self, full: str, root: str | None = None) -> None:
        """Raise ``Refused`` if a link on the way from the root to a path leads out of the root.

        The default is the root of the ledger's folder: git's folder, or the worktree.
        """
        root = root or self.common or self.root
        part = full
        while len(part) > len(root):
            if os.path.islink(part) and not is_inside(full, root):
                raise outside(os.path.relpath(full, root), root)
            part = os.path.dirname(part)

    def contains(self, path: str) -> bool:
        """Return True if a path from the root, with its links resolved, is inside the root."""
        if "\0" in path or path.startswith("~") or not is_encodable(path):
            return False
        return is_inside(os.path.join(self.root, path), self.root)

    def prepare(self, disk: Disk, note: Callable[[str], None]) -> None:
        """List Holdfast's files in ``.git/info/exclude``, or add a note if it cannot be changed."""
        if self.common is None:
            return
        path = os.path.join(self.common, "info", "exclude")
        if os.path.realpath(path) != os.path.join(os.path.realpath(self.common), "info", "exclude"):
            note("git's exclude file is a link, and was not extended")
            return
        try:
            current = (disk.read(path) or b"").decode(errors="surrogateescape")
            present = {line.strip() for line in current.splitlines()}
            missing = [
                line
                for line in (*_IGNORED, *_IGNORED_SPARES, _IGNORED_SETTINGS)
                if line not in present
            ]
            if missing:
                lead = "" if not current or current.endswith("\n") else "\n"
                disk.make_folder(os.path.dirname(path))
                text = lead + "\n".join(missing) + "\n"
                disk.extend(path, text.encode(), mode=0o644)
        except OSError as error:
            note(f"git's exclude file could not be extended ({error.strerror})")


def _is_full_commit(text: str) -> bool:
    return len(text) in _COMMIT_DIGITS and text.isalnum()


def find(path: str = ".") -> Workspace:
    """Return the workspace that a folder belongs to, which is the one that git finds.

    Raise ``Refused`` if the path is not a folder, if git has not finished making a repository, or
    if git would not use it, because it belongs to another user.
    """
    start = os.path.abspath(path)
    if not os.path.isdir(start):
        raise Refused("not_found", f"{path} is not a folder", _IN_A_PROJECT)
    try:
        return _find(start)
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"{error.filename} was moved or removed meanwhile"
        raise Refused("not_found", message, _IN_A_PROJECT) from error


def _find(start: str) -> Workspace:
    folder = start
    inner: Workspace | None = None
    device = None
    while True:
        try:
            stat = os.lstat(os.path.join(folder, ".git"))
        except OSError:
            stat = None
        if stat is not None and not _is_odd(stat, folder):
            # A ledger in the work tree may have come with a clone.
            if (
                inner is not None
                and inner.has_ledger()
                and not inner.has_foreign_ledger()
                and not _is_tracked(inner.home, folder)
            ):
                return inner
            return _in_git(folder, stat)
        if inner is None and _is_own_folder(os.path.join(folder, ".claude", "holdfast"), folder):
            inner = Workspace(folder)
        elif inner is None and os.path.isfile(os.path.join(folder, "HEAD")):
            # These files may be part of a clone, so no other setting in them is trusted.
            inner = Workspace(folder, folder, folder) if _is_bare(folder) else None
        above = os.path.dirname(folder)
        if above == folder or _is_ceiling(above):
            return inner or Workspace(start)
        device = os.stat(folder).st_dev if device is None else device
        if os.stat(above).st_dev != device and not os.environ.get(_ACROSS):
            return inner or Workspace(start)  # Git does not look on another file system.
        folder = above


def _is_tracked(home: str, root: str) -> bool:
    """Return True if git tracks files of a ledger's folder in the work tree at ``root``.

    Such a ledger is the team's. It may have been this person's before the team had it.
    """
    from holdfast.workspace.git_index import tracked_files

    pointer = os.path.join(root, ".git")
    git = _git_folder(pointer) if os.path.isfile(pointer) else pointer
    prefix = os.path.join(os.path.relpath(home, root), "")
    return bool(tracked_files(git, _common_folder(root), (prefix,)))


def _is_ceiling(folder: str) -> bool:
    """Return True if the person told git not to look for a repository in this folder."""
    ceilings = os.environ.get(_CEILINGS, "").split(os.pathsep)
    real = os.path.realpath(folder) if any(ceilings) else ""
    return any(os.path.isabs(path) and os.path.realpath(path) == real for path in ceilings)


def _in_git(root: str, stat: os.stat_result) -> Workspace:
    """Return the workspace of a folder with ``.git``, whose ``lstat`` this is.

    Raise ``Refused`` if git is not done with it, or would not use it.
    """
    git = pointer = os.path.join(root, ".git")
    if not S_ISDIR(stat.st_mode):
        git = os.path.realpath(pointer) if S_ISLNK(stat.st_mode) else pointer
        git = _git_folder(git) if os.path.isfile(git) else git
    shared = _read(os.path.join(git, "commondir"))
    common = os.path.normpath(os.path.join(git, shared))
    if not _is_git_folder(git, common):
        if git == pointer:
            os.stat(git)  # It may have been moved or removed meanwhile.
        # A ledger made in the work tree now would not be the one that git's folder gets later.
        raise Refused(
            "not_ready",
            f"{git} is not a whole repository: git is still making it, or was interrupted",
            "wait until git is done; if it was interrupted, remove that folder",
        )
    _check_owner(root, stat, os.stat(root), stat if git == pointer else os.stat(git))
    worktrees = os.path.join(common, "worktrees")
    # Git keeps a linked worktree's folder in the repository; any other one is not its worktree.
    if shared and os.path.realpath(os.path.dirname(git)) == os.path.realpath(worktrees):
        _check_points_back(git, root)
        main, _ = main_root(common)
        is_there = main is not None and _leads_to(main, common)
        return Workspace(root, git, common, _worktree_name(git), main if is_there else None)
    main, is_bare = main_root(git)
    if main is not None:
        is_ours = not S_ISLNK(stat.st_mode) and _is_same_folder(main, root)
    else:
        is_ours = is_inside(git, root)  # Such as a bare repository beside its worktrees.
        if not is_ours and not is_bare:
            # Git would follow any folder's ``.git`` file to it.
            raise Refused(
                "not_ready",
                f"{pointer} names {git}, which does not name this folder as its work tree",
                f"if it is yours, in that folder: git config core.worktree {root}",
            )
    # The git folder of another work tree is only read.
    return Workspace(root, git, git if is_ours else None)


def _is_odd(stat: os.stat_result, folder: str) -> bool:
    """Return True if ``.git`` is neither a folder nor a file, nor a link to one; git ignores it."""
    if S_ISLNK(stat.st_mode):
        pointer = os.path.join(folder, ".git")
        return not (os.path.isdir(pointer) or os.path.isfile(pointer))
    return not (S_ISDIR(stat.st_mode) or S_ISREG(stat.st_mode))


def _is_git_folder(git: str, common: str) -> bool:
    """Return True if git takes the folder for a repository: it has a valid HEAD, objects, refs."""
    head = os.path.join(git, "HEAD")
    text = _read(head)
    if not text and os.path.islink(head):
        text = f"ref: {os.readlink(head)}"  # An old way to name the branch.
    name = text.removeprefix("ref:").lstrip()
    return (
        (name.startswith("refs/") if name != text else _is_full_commit(text))
        and os.access(os.path.join(common, "objects"), os.X_OK)
        and os.access(os.path.join(common, "refs"), os.X_OK)
    )


def _is_bare(folder: str) -> bool:
    """Return True if git takes the folder itself for a bare repository.

    Raise ``Refused`` if it belongs to another user.
    """
    if not _is_git_folder(folder, folder) or not main_root(folder)[1]:
        return False
    from holdfast.workspace.git_trust import allows_bare

    _check_owner(folder, os.stat(folder))
    return allows_bare(folder)


def _is_own_folder(folder: str, root: str) -> bool:
    """Return True if there is such a folder and this user may rely on it; see ``_check_owner``."""
    try:
        stat = os.stat(folder)
    except OSError:
        return False
    return S_ISDIR(stat.st_mode) and (_is_own(stat) or _is_safe(root))


def _is_safe(root: str) -> bool:
    """Return True if the person told git to use a folder of another user."""
    from holdfast.workspace.git_trust import is_safe

    return is_safe(root)


def _check_owner(root: str, *stats: os.stat_result) -> None:
    """Raise ``Refused`` if git would not use this repository, because of who owns it.

    Its owner could have put a ledger there, and commands into git's settings.
    """
    for stat in stats:
        if not _is_own(stat) and not _is_safe(root):
            raise Refused(
                "dubious_owner",
                f"{root} belongs to another user (uid {stat.st_uid}); git does not use it either",
                f"if you trust it: git config --global --add safe.directory {root}",
                path=root,
            )


def _is_own(stat: os.stat_result) -> bool:
    """Return True if this user owns a file, or root acts for its owner by ``sudo``."""
    user = os.geteuid()
    if stat.st_uid == user:
        return True
    return user == 0 and os.environ.get("SUDO_UID") == str(stat.st_uid)


def parse_git_settings(text: str, settings: dict[str, list[str]]) -> None:
    """Add the settings in a file of git's to ``settings``, in lower case: ``core.bare``.

    Sections with a second name are left out. Escapes and continued lines are not interpreted.
    """
    section = ""
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("["):
            name, _, row = row[1:].partition("]")
            section, row = name.strip().lower(), row.strip()
        key, _, value = row.partition("=")
        key = key.strip().lower()
        if key and key[0] not in "#;" and '"' not in section:
            value = value.strip()
            value = value[1:].partition('"')[0] if value.startswith('"') else _bare_value(value)
            settings.setdefault(f"{section}.{key}", []).append(value)


def _bare_value(value: str) -> str:
    """Return a value without a comment after it."""
    return value.partition("#")[0].partition(";")[0].strip()


def _check_points_back(git: str, root: str) -> None:
    """Raise ``Refused`` if a linked worktree's git folder does not name this folder.

    Otherwise any folder could claim to be another project's worktree, and get its ledger. The
    folders are compared, not the ``.git`` files: a link leads to the same file from anywhere.
    """
    named = os.path.dirname(os.path.join(git, _read(os.path.join(git, "gitdir"))))
    if _is_same_folder(named, root):
        return
    raise Refused(
        "not_ready",
        f"{os.path.join(root, '.git')} names the worktree {os.path.basename(git)}, which git has "
        f"at {os.path.normpath(named)}",
        "if you moved it: git worktree repair",
    )


def _leads_to(root: str, git: str) -> bool:
    """Return True if a folder's ``.git`` is this git folder, or a file that names it."""
    pointer = os.path.join(root, ".git")
    return _is_same_folder(_git_folder(pointer) if os.path.isfile(pointer) else pointer, git)


def _is_same_folder(path: str, other: str) -> bool:
    """Return True if two paths lead to the same folder or file, which exists."""
    try:
        return samestat(os.stat(path), os.stat(other))
    except OSError:
        return False


def _git_folder(pointer: str) -> str:
    """Return the git folder that a ``.git`` file names."""
    target = _read(pointer).removeprefix("gitdir:").lstrip()
    return os.path.normpath(os.path.join(os.path.dirname(pointer), target))


def _worktree_name(git: str) -> str:
    """Return the name of the linked worktree that has this git folder."""
    return _read(os.path.join(git, _NAME_FILE)) or f"{os.path.basename(git)}{_NEW}"


def is_inside(path: str, root: str) -> bool:
    """Return True if a path, with its links resolved, is below the root."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))


def is_in_repository(path: str, root: str) -> bool:
    """Return True if a path is below the work tree at ``root``, or elsewhere in its repository.

    That is in another work tree of it, or in git's folder. Links are resolved.
    """
    if is_inside(path, root):
        return True
    common = _common_folder(root)
    is_only_worktree = common == os.path.join(root, ".git") and not os.path.isdir(
        os.path.join(common, "worktrees")
    )
    folder = os.path.realpath(path)
    while not is_only_worktree and folder != os.path.dirname(folder):
        if any(_is_same_folder(part, common) for part in (folder, _common_folder(folder))):
            return True
        folder = os.path.dirname(folder)
    return False


def _common_folder(root: str) -> str:
    """Return the git folder that the work tree at ``root`` shares with others, if it is one."""
    pointer = os.path.join(root, ".git")
    git = _git_folder(pointer) if os.path.isfile(pointer) else pointer
    return os.path.normpath(os.path.join(git, _read(os.path.join(git, "commondir"))))


def read_text(root: str, path: str, most_bytes: int) -> str:
    """Return the beginning of a file in the workspace, or "" if it cannot be read."""
    full = os.path.join(root, path)
    if "\0" in path or not os.path.isfile(full) or not is_inside(full, root):
        return ""
    try:
        return (read_start(full, most_bytes) or b"").decode(errors="replace")
    except OSError:
        return ""


def read_start(path: str, most: int) -> bytes | None:
    """Return the first ``most`` bytes of a file; ``None`` if there is no ordinary file.

    Raise ``OSError`` if it cannot be read. Never wait for a pipe.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.read(fd, most) if S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def names_in(folder: str) -> list[str]:
    """Return the names in a folder in order, but of a very large folder only ``MAX_NAMES``.

    Raise ``OSError`` if there is no folder, or it cannot be read.
    """
    with os.scandir(folder) as entries:
        return sorted(entry.name for _, entry in zip(range(MAX_NAMES), entries, strict=False))


def outside(path: str, root: str) -> Refused:
    """Return the refusal of a path that a link leads out of the workspace."""
    return Refused(
        "outside",
        f"{path} leads out of the workspace {root}",
        "remove the symbolic link, or move the folder into the workspace",
    )


def main_root(common: str) -> tuple[str | None, bool]:
    """Return a repository's main worktree, ``None`` if it does not name one, and if it is bare.

    Git's settings in ``config.worktree`` override those in ``config``.
    """
    text = _read(os.path.join(common, "config"))
    if "worktreeconfig" in text.lower():
        text += "\n" + _read(os.path.join(common, "config.worktree"))
    settings: dict[str, list[str]] = {}
    parse_git_settings(text, settings)
    if settings.get("core.bare", [""])[-1].lower() in ("true", "yes", "on", "1"):
        return None, True
    if "core.worktree" in settings:
        return os.path.normpath(os.path.join(common, settings["core.worktree"][-1])), False
    folder, name = os.path.split(common)
    return folder if name == ".git" else None, False


def _bare_root(common: str) -> str | None:
    """Return the folder that ``find`` takes for the root of a bare repository; else ``None``.

    It is the repository itself, or the folder around it with a ``.git`` file that names it.
    """
    if not main_root(common)[1]:
        return None
    above = os.path.dirname(common)
    pointer = os.path.join(above, ".git")
    if os.path.isfile(pointer) and os.path.realpath(_git_folder(pointer)) == os.path.realpath(
        common
    ):
        return above
    return common


def _read(path: str) -> str:
    """Return the beginning of a file without its last newline, or "" if there is no file.

    Raise ``Fault`` if it cannot be read or is not an ordinary file. Never wait for a pipe.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stat = os.fstat(fd)
            if S_ISREG(stat.st_mode):
                raw = os.read(fd, min(stat.st_size, _MAX_READ_BYTES)).replace(b"\r\n", b"\n")
                return raw.decode(errors="surrogateescape").rstrip("\r\n")
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror})"
        raise Fault(
            "unreadable", message, "make it readable, then run the command again"
        ) from error
    message = f"{path} cannot be read (it is not an ordinary file)"
    raise Fault("unreadable", message, "restore it, then run the command again")
