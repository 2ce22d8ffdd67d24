"""Questions to git, for the commands that have time for a process."""

from __future__ import annotations

import os
import subprocess

_LIMIT_S = 60
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
"""A repository may name a program that git runs to look at files; here it is not run."""
_OF_ANOTHER_REPOSITORY = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE",
)  # fmt: skip
"""What a hook of git finds in its environment; it may mean another worktree than ours."""
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def ask(root: str, *words: str, given: bytes = b"") -> bytes | None:
    """What git answers; ``None`` when there is no git, no repository, or it says no."""
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    for name in _OF_ANOTHER_REPOSITORY:
        env.pop(name, None)
    try:
        done = subprocess.run(  # noqa: S603 - words are ours, paths come after them
            ["git", "-C", root, *_QUIET, *words],  # noqa: S607
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
    told = ask(root, "diff", "--numstat", "--no-renames", "--no-ext-diff", "-z", base) or b""
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
    try:
        with open(path, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0
