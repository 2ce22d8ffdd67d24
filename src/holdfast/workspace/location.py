"""Where things are: the worktree, the ledger's folder, git's branch. Read from files alone.

git itself is never run here: its ``HEAD``, ``commondir`` and ``config`` say everything that is
needed, in a tenth of the time.
"""

from __future__ import annotations

import os
from errno import EACCES, EPERM, EROFS
from stat import S_ISREG

from holdfast.core.json_text import is_encodable
from holdfast.core.record_formats import FORMATS
from holdfast.errors import Fault, Refused, not_writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.system.disk import Disk

LEDGER = "ledger.db"
"""The ledger's name in its folder."""
_UNREAD = "unread"
OLD_LEDGER = "ledger.ndjson"
"""The name of the ledger of version 0.1."""
TEAM_SETTINGS = os.path.join(".claude", "holdfast.toml")
PERSON_SETTINGS = "config.toml"
MAIN = "."
"""The name of the main worktree."""
_NAME_FILE = "holdfast-worktree"
"""The file in a linked worktree's git folder that has its name. git's own names are reused."""
_NEW = "*"
"""Ends the name of a linked worktree in which nothing was recorded yet."""

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
_SHORTEST = 4
"""The digits of a commit that git wants at least."""
_MOST = 16 * 1024 * 1024
_RECORDS = tuple(line.partition("*")[0] for line in _IGNORED[1:])
"""What the path of every record begins with."""
_OWN = (_IGNORED[0], *_RECORDS)
_SPARES = (".claude/.*.json.holdfast*", ".claude/iterative/**/.*.json.holdfast*")
"""What a killed writer leaves beside a record, where not all of the folder is ignored."""


def person_folder() -> str:
    """Where a person's own settings and approvals are; a repository has no say in it."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "holdfast")


def _list_of_ledgers() -> str:
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "holdfast", "ledgers")


def is_own_ledger(folder: str) -> bool:
    """True if this person's Holdfast made the ledger in this folder."""
    return os.path.realpath(folder) in _read(_list_of_ledgers()).split("\n")


class Workspace:
    """A worktree and the ledger it belongs to."""

    def __init__(
        self, root: str, name: str, home: str, git: str | None, common: str | None
    ) -> None:
        self.root = root
        self.name = name
        self.home = home
        """The ledger's folder, shared by all worktrees of a repository."""
        self.git = git
        """This worktree's own git folder."""
        self.common = common
        """The git folder that all worktrees share."""
        self._safe: set[str] = set()
        self._records: dict[tuple[str, str], str] = {}

    @property
    def project(self) -> str:
        """The main worktree's folder; of a bare repository, the folder that holds it."""
        if self.common is None:
            return self.root
        return self.root_of(MAIN) or os.path.dirname(self.common)

    @property
    def old_homes(self) -> tuple[str, ...]:
        """The folders where version 0.1 kept its ledger; in git's, it kept links to the files."""
        return os.path.join(self.project, ".claude", "holdfast"), self.home

    def has_old_ledger(self) -> bool:
        """True if an earlier ledger is here, taken over or not: of 0.1, or from before git."""
        if any(os.path.lexists(os.path.join(home, OLD_LEDGER)) for home in self.old_homes):
            return True
        plain = os.path.join(self.root, ".claude", "holdfast")
        return plain != self.home and os.path.lexists(os.path.join(plain, LEDGER))

    def list_ledger(self, disk: Disk) -> None:
        """Add this ledger to the person's list, by which one that came with a folder is known."""
        path = _list_of_ledgers()
        home = os.path.realpath(self.home)
        try:
            if "\n" not in home and not is_own_ledger(home):
                disk.make_folder(os.path.dirname(path), 0o700)
                disk.extend(path, f"{home}\n".encode(errors="surrogateescape"))
        except (OSError, Fault):
            return  # Without the list, a ledger is only not moved into git later.

    def is_current(self) -> bool:
        """True if the ledger still belongs here: since then git may have been set up, or moved."""
        try:
            return find(self.root).home == self.home
        except Refused:
            return False

    def has_ledger(self) -> bool:
        return os.path.lexists(os.path.join(self.home, LEDGER))

    @property
    def unread_mark(self) -> str:
        """The file that is there while an active workflow may require reading.

        A hook that fires at every file an agent reads asks for this name alone.
        """
        return os.path.join(self.home, _UNREAD)

    def has_records(self) -> bool:
        """True if something stands where records stand."""
        return any(os.path.lexists(os.path.join(self.root, place)) for place in _RECORDS)

    def has_settings(self) -> bool:
        """True if the team or the person has a settings file."""
        team = os.path.join(self.root, TEAM_SETTINGS)
        person = os.path.join(person_folder(), PERSON_SETTINGS)
        return os.path.lexists(team) or os.path.lexists(person)

    def branch(self) -> str | None:
        """The branch that is checked out, or being rebased; ``None`` if there is none."""
        if self.git is None:
            return None
        for name in ("rebase-merge/head-name", "rebase-apply/head-name", "HEAD"):
            text = _read(os.path.join(self.git, name)).removeprefix("ref: ")
            if text.startswith("refs/heads/"):
                # A name may be any bytes to git; here it is text that is stored and shown.
                raw = text.removeprefix("refs/heads/").encode(errors="surrogateescape")
                return raw.decode(errors="replace") or None
        return None

    def commit(self) -> str | None:
        """The commit that is checked out, as far as plain files tell."""
        if self.git is None or self.common is None:
            return None
        head = _read(os.path.join(self.git, "HEAD"))
        if head.startswith("ref: refs/"):
            return self._commit_of(head.removeprefix("ref: "))
        return head if _is_whole(head) else None

    def commit_named(self, name: str | None) -> str | None:
        """The commit that goes by this name here, HEAD or a branch; else what was given."""
        if not isinstance(name, str) or not name or not is_encodable(name):
            return name
        found = self.commit() if name == "HEAD" else self._commit_of(f"refs/heads/{name}")
        return found or name

    def can_switch(self, branch: str) -> bool:
        """Whether the branch is there, and no other worktree has it."""
        there = self._commit_of(f"refs/heads/{branch}") if is_encodable(branch) else None
        heads = [os.path.join(git, "HEAD") for git in self._linked()]
        heads.append(os.path.join(self.common or "", "HEAD"))
        return there is not None and f"ref: refs/heads/{branch}" not in map(_read, heads)

    def _commit_of(self, ref: str) -> str | None:
        if self.common is None or ".." in ref:
            return None
        path = os.path.join(self.common, ref)
        # The name of a branch may be the folder of others.
        found = (os.path.isfile(path) and _read(path)) or self._packed(ref)
        return found if _is_whole(found) else None

    def _packed(self, name: str) -> str:
        rows = _read(os.path.join(self.common or "", "packed-refs")).split("\n")
        return next((row.partition(" ")[0] for row in rows if row.endswith(f" {name}")), "")

    def root_of(self, worktree: str) -> str | None:
        """The folder of a worktree by its name, if it still exists."""
        if worktree == self.name and os.path.isdir(self.root):
            return self.root
        if self.common is None:
            return None
        if worktree == MAIN:
            root = _main_root(self.common)
            return root if root is not None and os.path.isdir(root) else None
        for git in self._linked():
            if _worktree_name(git) == worktree:
                pointer = _read(os.path.join(git, "gitdir"))
                linked = os.path.dirname(pointer)
                return linked if pointer and os.path.isdir(linked) else None
        return None

    def _linked(self) -> list[str]:
        """Return the git folders of the linked worktrees."""
        folder = os.path.join(self.common or "", "worktrees")
        names = os.listdir(folder) if self.common is not None and os.path.isdir(folder) else []
        return [os.path.join(folder, name) for name in sorted(names)]

    @property
    def is_unnamed(self) -> bool:
        """True for a linked worktree in which nothing was recorded yet."""
        return self.git is not None and self.name.endswith(_NEW)

    def take_name(self, disk: Disk, is_taken: Callable[[str], bool]) -> None:
        """Give a new linked worktree a name that no earlier one had, and write it down.

        Raise ``Fault`` where a sandbox keeps its git folder read-only.
        """
        if self.git is None or not self.is_unnamed:
            return
        base = name = self.name.removesuffix(_NEW)
        others = {_worktree_name(git) for git in self._linked()}
        number = 1
        while is_taken(name) or name in others:
            number += 1
            name = f"{base}-{number}"
        try:
            disk.create(os.path.join(self.git, _NAME_FILE), f"{name}\n".encode(), durable=True)
        except FileExistsError:
            name = _worktree_name(self.git)  # ``init`` takes it without the lock.
        except OSError as error:
            if error.errno not in (EROFS, EACCES, EPERM):
                raise
            raise not_writable(self.git, error.strerror or str(error)) from error
        self.name = name

    def keep_names(self, disk: Disk) -> None:
        """Name all linked worktrees as git does, which version 0.1 went by."""
        for git in self._linked():
            if _worktree_name(git).endswith(_NEW):
                name = os.path.basename(git)
                disk.create(os.path.join(git, _NAME_FILE), f"{name}\n".encode(), durable=True)
        if self.git is not None and self.name.endswith(_NEW):
            self.name = _worktree_name(self.git)

    def check_home(self) -> None:
        """Refuse a ledger's folder that a link leads out of git's folder, or of the workspace."""
        above = os.path.dirname(self.home)
        root = above if above == self.common else os.path.dirname(above)
        if os.path.islink(self.home) or (root != above and os.path.islink(above)):
            self._check_contained(root, self.home, os.path.relpath(self.home, root))

    def _check_contained(self, root: str, folder: str, path: str) -> None:
        top = os.path.realpath(root)
        if not (os.path.realpath(folder) + os.sep).startswith(os.path.join(top, "")):
            raise Refused(
                "outside",
                f"{path} leads out of the workspace {root}",
                "remove the symbolic link, or move the folder into the workspace",
            )

    def inside(self, root: str, path: str) -> str:
        """A record's absolute path; another place than a record's, or a link, is refused."""
        full = self._records.get((root, path)) or self._checked(root, path)
        if os.path.islink(full):
            raise Refused(
                "outside",
                f"{path} is a symbolic link; a record has to be a file of its own",
                f"replace the link by the file it names: {path}",
            )
        return full

    def _checked(self, root: str, path: str) -> str:
        if not path.startswith(_RECORDS) or ".." in path.split("/") or "\0" in path:
            raise Refused("outside", f"{path[:200]!r} is no place for a record", "holdfast verify")
        full = os.path.join(root, path)
        folder = os.path.dirname(full)
        if folder not in self._safe:
            self._check_contained(root, folder, path)
            self._safe.add(folder)
        self._records[root, path] = full
        return full

    def contains(self, path: str) -> bool:
        """Whether a path from the root stays inside, by its name and by the links on its way."""
        if "\0" in path or path.startswith("~") or not is_encodable(path):
            return False
        top = os.path.join(os.path.realpath(self.root), "")
        return (os.path.realpath(os.path.join(top, path)) + os.sep).startswith(top)

    def prepare(self, disk: Disk, note: Callable[[str], None]) -> None:
        """Keep what is Holdfast's own out of git, by the one file for it that nobody shares."""
        if self.common is None:
            return
        path = os.path.join(self.common, "info", "exclude")
        if os.path.realpath(path) != os.path.join(os.path.realpath(self.common), "info", "exclude"):
            note("git's exclude file is a link, and was not extended")
            return
        try:
            current = (disk.read(path) or b"").decode(errors="surrogateescape")
            missing = self.ignore_lines(current)
            if missing:
                disk.make_folder(os.path.dirname(path))
                disk.extend(path, missing.encode())
        except OSError as error:
            note(f"git's exclude file could not be extended ({error.strerror})")

    def is_own(self, path: str) -> bool:
        """Whether a path from the root is one of Holdfast's own files."""
        return path.startswith(_OWN)

    def ignore_lines(self, current: str) -> str:
        """What git's own exclude file lacks, to leave records out of commits."""
        present = {line.strip() for line in current.splitlines()}
        missing = [line for line in (*_IGNORED, *_SPARES) if line not in present]
        if not missing:
            return ""
        lead = "" if not current or current.endswith("\n") else "\n"
        return lead + "\n".join(missing) + "\n"


def is_commit(text: str) -> bool:
    """Whether it reads as the id of a commit, perhaps a short one."""
    is_hex = not text.lower().strip("0123456789abcdef")
    return is_hex and _SHORTEST <= len(text) <= max(_COMMIT_DIGITS)


def _is_whole(text: str) -> bool:
    return len(text) in _COMMIT_DIGITS and text.isalnum()


def find(path: str = ".") -> Workspace:
    """The workspace that a folder belongs to."""
    start = os.path.abspath(path)
    if not os.path.isdir(start):
        raise Refused("not_found", f"{path} is not a folder", "run holdfast in a project's folder")
    for folder in _upwards(start):
        pointer = os.path.join(folder, ".git")
        if os.path.isdir(pointer):
            if os.path.exists(os.path.join(pointer, "HEAD")):
                return _in_git(folder, pointer)
            # A ledger beside an unfinished repository would be a second one a moment later.
            raise Refused(
                "not_ready",
                f"{pointer} has no HEAD: git is still making it, or was interrupted",
                "wait until git is done; if it was interrupted, remove that folder",
            )
        if os.path.isfile(pointer):
            target = _read(pointer).removeprefix("gitdir: ")
            return _in_git(folder, os.path.normpath(os.path.join(folder, target)))
        if os.path.isdir(os.path.join(folder, ".claude", "holdfast")):
            return _plain(folder)
        if os.path.isfile(os.path.join(folder, "HEAD")) and _is_bare(folder):
            # It may have come as files of a clone: nothing else that it says is believed.
            return Workspace(folder, MAIN, os.path.join(folder, "holdfast"), folder, folder)
    return _plain(start)


def _plain(root: str) -> Workspace:
    return Workspace(root, MAIN, os.path.join(root, ".claude", "holdfast"), None, None)


def _in_git(root: str, git: str) -> Workspace:
    shared = _read(os.path.join(git, "commondir"))
    common = os.path.normpath(os.path.join(git, shared)) if shared else git
    if shared and not _is_same(os.path.dirname(git), os.path.join(common, "worktrees")):
        # Whoever says so is no worktree of that repository: git keeps those in it.
        shared, common = "", git
    main = _main_root(common)
    if main is not None and not shared:
        if not _is_same(main, root):
            # The git folder of another work tree is read, and nothing is put into it.
            return Workspace(root, MAIN, os.path.join(root, ".claude", "holdfast"), git, None)
        main = root
    name = _worktree_name(git) if shared else MAIN
    return Workspace(root, name, os.path.join(common, "holdfast"), git, common)


def _worktree_name(git: str) -> str:
    """Return the name of a linked worktree by its git folder."""
    return _read(os.path.join(git, _NAME_FILE)) or f"{os.path.basename(git)}{_NEW}"


def is_inside(path: str, root: str) -> bool:
    """Whether a path lies below the root when the links on its way are followed."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def _main_root(common: str) -> str | None:
    """The main worktree of a repository; ``None`` when it is bare, or does not say where."""
    settings = _settings(common)
    if settings.get("bare") == "true":
        return None
    if "worktree" in settings:
        return os.path.normpath(os.path.join(common, settings["worktree"]))
    folder, name = os.path.split(common)
    return folder if name == ".git" else None


def _is_bare(folder: str) -> bool:
    return _settings(folder).get("bare") == "true"


def _settings(common: str) -> dict[str, str]:
    """Git's ``core`` settings of the main worktree; they may stand in a file of its own."""
    return {
        **_core_settings(os.path.join(common, "config")),
        **_core_settings(os.path.join(common, "config.worktree")),
    }


def _core_settings(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    section = ""
    for line in _read(path).splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text.lower()
        elif section == "[core]" and "=" in text:
            key, _, value = text.partition("=")
            found[key.strip().lower()] = value.strip().strip('"')
    return found


def _upwards(folder: str) -> list[str]:
    found = [folder]
    while os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        found.append(folder)
    return found


def _read(path: str) -> str:
    """The beginning of a file; a pipe or a device in its place is not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            if S_ISREG(os.fstat(fd).st_mode):
                return file.read(_MOST).rstrip("\r\n")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise Fault("unreadable", f"{path} cannot be read ({error.strerror})", "") from error
    raise Fault("unreadable", f"{path} cannot be read (it is not an ordinary file)", "")
