"""Questions to git, for the commands that have time for a process."""

from __future__ import annotations

import os
import subprocess

from holdfast.disk import Disk

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
_READS_FILES = ("ls-files", "diff", "hash-object")
_FILTER = ("clean", "smudge", "process")
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


def ask(root: str, *words: str, given: bytes = b"") -> bytes | None:
    """What git answers; ``None`` when there is no git, no repository, or it says no."""
    filters = _filters(root) if words[0] in _READS_FILES else []
    if any("=" in name for name in filters):
        return None  # Such a name cannot be told to git, and nobody gives one without a reason.
    unset = [f"filter.{name}.{key}=" for name in filters for key in _FILTER]
    unset += [f"filter.{name}.required=false" for name in filters]
    return _answer(root, [*_QUIET, *unset], words, given)


def _filters(root: str) -> list[str]:
    """The filters that the repository itself sets up: git would run them on what it reads.

    Those in a person's own settings are the person's, and are run.
    """
    found: dict[str, None] = {}
    for scope in ("--local", "--worktree"):
        words = ("config", scope, "--includes", "-z", "--name-only", "--get-regexp", r"^filter\.")
        told = _answer(root, _QUIET, words) or b""
        names = told.decode(errors="surrogateescape").split("\0")
        found.update(dict.fromkeys(name[7:].rpartition(".")[0] for name in names if name))
    return list(found)


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
