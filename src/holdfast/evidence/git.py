"""Questions to git, for the commands that have time for a process."""

from __future__ import annotations

import os
import subprocess

from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LIMIT_S = 60
_QUIET = (
    "core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.quotePath=false",
    "safe.bareRepository=explicit",
)  # fmt: skip
"""A repository may name programs that git runs when it looks at files; here they are not run.
Nor is a folder believed to be a repository because its files look like one."""
_ALONE = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # What is missing is missed: nothing is fetched, by whatever program the repository names.
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_READS_FILES = ("ls-files", "status", "diff", "hash-object")
_FILTER = ("clean", "smudge", "process")
_LIST_FILTERS = (
    "config", "--show-scope", "--includes", "-z", "--name-only", "--get-regexp", r"^filter\.",
)  # fmt: skip
_OF_ANOTHER_REPOSITORY = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE",
)  # fmt: skip
"""What a hook of git finds in its environment; it may mean another worktree than ours."""
_COUNTED = (
    "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty",
    "-z",
)  # fmt: skip
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Repository:
    """A work tree to ask about. Its filters are looked up once, so keep it for one command."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._filters: list[str] | None = None

    def ask(self, *words: str, given: bytes = b"") -> bytes | None:
        """Return git's answer; ``None`` if there is no git, no repository, or git fails."""
        unset = []
        if words[0] in _READS_FILES:
            filters = self._own_filters()
            if any("=" in name for name in filters):
                return None  # Such a name cannot be passed to git.
            unset = [f"filter.{name}.{key}=" for name in filters for key in _FILTER]
            unset += [f"filter.{name}.required=false" for name in filters]
        return _answer(self.root, [*_QUIET, *unset], words, given)

    def _own_filters(self) -> list[str]:
        """Return the filters that the repository sets up: git would run them on what it reads.

        Those in a person's own settings are trusted, and are run.
        """
        if self._filters is None:
            output = _answer(self.root, _QUIET, _LIST_FILTERS) or b""
            parts = output.decode(errors="surrogateescape").split("\0")
            names = [
                name.removeprefix("filter.").rpartition(".")[0]
                for scope, name in zip(parts[::2], parts[1::2], strict=False)
                if scope in ("local", "worktree")
            ]
            self._filters = list(dict.fromkeys(names))
        return self._filters


def ask(root: str, *words: str) -> bytes | None:
    """Ask git once about a work tree; see ``Repository.ask``."""
    return Repository(root).ask(*words)


def _answer(
    root: str, settings: Iterable[str], words: tuple[str, ...], given: bytes = b""
) -> bytes | None:
    env = {**os.environ, **_ALONE}
    for name in _OF_ANOTHER_REPOSITORY:
        env.pop(name, None)
    told = [word for setting in settings for word in ("-c", setting)]
    try:
        done = subprocess.run(  # noqa: S603 - words are ours, paths come after them
            ["git", "-C", root, *told, *words],  # noqa: S607
            input=given,
            capture_output=True,
            env=env,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def line(root: str, *words: str) -> str | None:
    """A one-line answer; ``None`` when there is none."""
    answer = ask(root, *words)
    text = answer.decode(errors="replace").strip() if answer is not None else ""
    return text or None


def head(root: str) -> str | None:
    return line(root, "rev-parse", "--verify", "--quiet", "HEAD")


def has(root: str, commit: str, earlier: str) -> bool:
    """Whether a commit is another one, or came after it."""
    words = ("merge-base", "--is-ancestor", earlier, commit)
    return earlier.isalnum() and ask(root, *words) is not None


def pushed_to(root: str, branch: str) -> str | None:
    """The remote branch that has everything of this branch; ``None`` when none has."""
    tip = line(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    if tip is None:
        return None
    refs = ask(root, "for-each-ref", "--format=%(refname:short)", "--contains", tip, "refs/remotes")
    names = refs.decode(errors="replace").split("\n") if refs else []
    return next((name for name in names if name.partition("/")[2] == branch), None)


def lines_added(root: str, base: str | None, since: str) -> dict[str, int]:
    """Path to the lines it gained, in commits, in the index and beside them.

    Counted from the commit ``base``; where that is not known here, from the last before a time.
    """
    known = base and line(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    base = known or line(root, "rev-list", "-1", f"--before={since}", "HEAD") or EMPTY_TREE
    found: dict[str, int] = {}
    told = ask(root, "diff", *_COUNTED, base) or b""
    for row in told.decode(errors="surrogateescape").split("\0"):
        added, _, rest = row.partition("\t")
        path = rest.partition("\t")[2]
        if path:
            found[path] = int(added) if added.isdigit() else 0
    others = ask(root, "ls-files", "-z", "--others", "--exclude-standard") or b""
    for path in others.decode(errors="surrogateescape").split("\0"):
        if path:
            found[path] = _count_lines(os.path.join(root, path))
    return found


def _count_lines(path: str) -> int:
    """Of a file; a link to one has no lines of its own."""
    try:
        with open(Disk().open_read(path), "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0
