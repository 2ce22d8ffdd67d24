"""Ask git about a work tree, by starting it as a process.

The program is looked for in absolute folders of the PATH, outside of the repository, which cannot
bring a git of its own. No program is run that the repository's settings name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

from holdfast.errors import Refused
from holdfast.system.disk import Disk
from holdfast.workspace.location import is_in_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields

_TIMEOUT_S = 60
_QUIET = (
    "core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.quotePath=false",
    "safe.bareRepository=explicit", "log.showSignature=false",
)  # fmt: skip
"""Keep git from running programs that a repository names, and from taking a folder for a
repository only because its files look like one."""
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # Never fetch missing objects: a repository could name the program that does it.
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_READS_FILES = ("ls-files", "status", "diff", "hash-object")
_FILTER_KEYS = ("clean", "smudge", "process")
_LIST_FILTERS = (
    "config", "--show-scope", "--includes", "-z", "--name-only", "--get-regexp", r"^filter\.",
)  # fmt: skip
_REPOSITORY_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE",
)  # fmt: skip
"""Variables that git sets for its hooks; they may point to another worktree than ours."""
_NUMSTAT = (
    "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty",
    "-z",
)  # fmt: skip
_COMMIT_ID = re.compile(r"[0-9a-fA-F]{4,64}")
_BLOCK_BYTES = 1 << 20
_MAX_COUNTED_BYTES = 256 * _BLOCK_BYTES
"""The size of all untracked files together whose lines are counted."""
_MAX_SUBJECT_COLUMNS = 1_000
_GITHUB = re.compile(rb"(?:://|@)[^/\s]*github[^/\s]*[:/]")
"""The host in an address of a GitHub."""
_ID_AND_SUBJECT = f"--format=%H %<({_MAX_SUBJECT_COLUMNS},trunc)%s"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Repository:
    """A work tree to ask about. Its filters are looked up once: make a new one per command."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._filters: list[str] | None = None

    def ask(self, *words: str, stdin: bytes = b"") -> bytes | None:
        """Return git's answer; ``None`` if there is no git, no repository, or git fails."""
        return answer(self.start(*words), stdin)

    def start(self, *words: str) -> subprocess.Popen[bytes] | None:
        """Start git; give the process to ``answer``. ``None`` if there is no git."""
        unset = []
        if words[0] in _READS_FILES:
            filters = self._own_filters()
            if any("=" in name for name in filters):
                return None  # Such a name cannot be passed to git.
            unset = [f"filter.{name}.{key}=" for name in filters for key in _FILTER_KEYS]
            unset += [f"filter.{name}.required=false" for name in filters]
        return _start(self.root, [*_QUIET, *unset], words)

    def _own_filters(self) -> list[str]:
        """Return the filters in the repository's own configuration, which git would run.

        Filters in a person's configuration are trusted, and are run.
        """
        if self._filters is None:
            output = answer(_start(self.root, _QUIET, _LIST_FILTERS)) or b""
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


def _start(
    root: str, settings: Iterable[str], words: tuple[str, ...]
) -> subprocess.Popen[bytes] | None:
    program, env = program_and_environment(root)
    if program is None:
        return None
    options = [word for setting in settings for word in ("-c", setting)]
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(  # noqa: S603 - words are ours, paths come after them
            [program, "-C", root, *options, *words],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env={**env, **_ENVIRONMENT},
        )
    except OSError:
        return None


def program_and_environment(root: str) -> tuple[str | None, dict[str, str]]:
    """Return git and the environment to start it in, with nothing from the repository in its PATH.

    No variable names a repository. The program is ``None`` if there is none.
    """
    folders = _folders(root)
    env = {key: value for key, value in os.environ.items() if key not in _REPOSITORY_VARIABLES}
    return _program("git", folders, root), {**env, "PATH": os.pathsep.join(folders)}


def which(name: str, root: str | None = None) -> str | None:
    """Return the program that the PATH leads to; ``None`` if there is none.

    Relative folders do not count, nor does anything in the repository of the work tree ``root``.
    """
    return _program(name, _folders(root), root)


def _program(name: str, folders: list[str], root: str | None) -> str | None:
    for folder in folders:
        path = os.path.join(folder, name)
        is_program = os.path.isfile(path) and os.access(path, os.X_OK)
        if is_program and (root is None or not is_in_repository(path, root)):
            return path
    return None


def _folders(root: str | None) -> list[str]:
    """Return the absolute folders of the PATH that are not in the repository."""
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    if root is None:
        return list(folders)
    return [path for path in folders if not is_in_repository(os.path.join(path, "x"), root)]


def answer(process: subprocess.Popen[bytes] | None, stdin: bytes = b"") -> bytes | None:
    """Return what git prints; ``None`` if it was not started, fails or takes too long."""
    if process is None:
        return None
    with process:
        try:
            output, _ = process.communicate(stdin, _TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
        except BaseException:
            process.kill()
            raise
    return output if process.returncode == 0 else None


def act(root: str, words: list[str]) -> tuple[int, str]:
    """Let git change a repository, with the user's hooks; return its exit code and output."""
    env = {name: v for name, v in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    try:
        done = subprocess.run(  # noqa: S603 - words are ours, or follow those that are
            [which("git", root) or os.devnull, "-C", root, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**env, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"},
            check=False,
        )
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode(errors="replace")


def line(root: str, *words: str) -> str | None:
    """Return a one-line answer; ``None`` if there is none."""
    answer = ask(root, *words)
    text = answer.decode(errors="replace").strip() if answer is not None else ""
    return text or None


def head(root: str) -> str | None:
    """Return the current commit; ``None`` if there is none."""
    return line(root, "rev-parse", "--verify", "--quiet", "HEAD")


def subject(root: str, commit: str) -> str | None:
    """Return the first line of a commit's message, maybe empty; ``None`` without a commit.

    git cuts it off at ``_MAX_SUBJECT_COLUMNS``: a clone may bring one of any length.
    """
    form = f"--format=%<({_MAX_SUBJECT_COLUMNS},trunc)%s"
    answer = ask(root, "log", "-1", form, "--end-of-options", commit)
    return None if answer is None else answer.decode(errors="replace").strip()


def lost_commits(root: str, commits: list[str]) -> list[str]:
    """Return the commits that git does not have, by their ids; none if git cannot be asked."""
    known = [commit for commit in commits if _COMMIT_ID.fullmatch(commit)]
    names = "".join(f"{commit}\n" for commit in known).encode()
    rows = Repository(root).ask("cat-file", "--batch-check", stdin=names) if known else None
    answers = (rows or b"").decode(errors="replace").splitlines()
    return [commit for commit, row in zip(known, answers, strict=False) if row.endswith(" missing")]


def subjects(root: str, commits: list[str]) -> dict[str, str]:
    """Return the first line of the message of each of these commits that git has, by their ids."""
    known = "".join(f"{commit}\n" for commit in commits if _COMMIT_ID.fullmatch(commit))
    words = ("log", "--no-walk=unsorted", "--ignore-missing", "--stdin", _ID_AND_SUBJECT)
    return dict(
        _commit_lines(Repository(root).ask(*words, stdin=known.encode()) if known else None)
    )


def commits_between(root: str, base: str, tip: str, most: int) -> list[tuple[str, str]]:
    """Return the commits after ``base`` up to ``tip`` with their subjects, oldest first.

    They are the newest ``most``; none if git does not have one of the two.
    """
    words = ("log", f"--max-count={most}", _ID_AND_SUBJECT, "--end-of-options", f"{base}..{tip}")
    return _commit_lines(ask(root, *words) if base.isalnum() else None)[::-1]


def _commit_lines(output: bytes | None) -> list[tuple[str, str]]:
    lines = (output or b"").decode(errors="replace").split("\n")
    pairs = [line.partition(" ") for line in lines if line]
    return [(commit, subject.strip()) for commit, _, subject in pairs]


def has_github(root: str) -> bool:
    """Return whether a remote leads to a GitHub, and its program ``gh`` is installed."""
    if which("gh", root) is None:
        return False
    addresses = ask(root, "config", "--get-regexp", r"^remote\..*\.url$") or b""
    return _GITHUB.search(addresses) is not None


def remotes(root: str) -> list[str]:
    """Return the names of the remotes."""
    return (ask(root, "remote") or b"").decode(errors="replace").split()


def remote_address(root: str, remote: str) -> str:
    """Return the address that a remote is fetched from; empty if there is none."""
    return line(root, "ls-remote", "--get-url", "--", remote) or ""


def is_descendant(root: str, commit: str, ancestor: str) -> bool:
    """Return True if a commit is the ancestor itself, or comes after it."""
    words = ("merge-base", "--is-ancestor", ancestor, commit)
    return ancestor.isalnum() and ask(root, *words) is not None


def pushed_to(root: str, branch: str) -> str | None:
    """Return a remote branch that contains this branch; ``None`` if there is none."""
    return next(iter(copies_of(root, branch)), None)


def copies_of(root: str, branch: str) -> list[str]:
    """Return the remote branches of the same name that contain this branch."""
    tip = line(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    if tip is None:
        return []
    refs = ask(root, "for-each-ref", "--format=%(refname:short)", "--contains", tip, "refs/remotes")
    names = refs.decode(errors="replace").split("\n") if refs else []
    return [name for name in names if name.partition("/")[2] == branch]


def pull_request(root: str, branch: str) -> Fields:
    """Return number and address of the branch's pull request, as ``gh`` reports them.

    Return no field where ``gh`` is missing or cannot ask. Raise ``Refused`` if there is none.
    """
    program = which("gh", root)
    if program is None:
        return {}
    words = [program, "pr", "view", branch, "--json", "number,url,state"]
    try:
        asked = subprocess.run(  # noqa: S603 - a branch name is no option after `view`
            words, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if asked.returncode == 0:
        try:
            pull_request = json.loads(asked.stdout)
            return {"pr_number": pull_request["number"], "pr_url": pull_request["url"]}
        except (ValueError, LookupError, TypeError):
            return {}
    if b"no pull requests found" in asked.stderr:
        message = f"gate record: gh finds no pull request of {branch}"
        raise Refused("not_found", message, "holdfast pr")
    return {}


def lines_added(root: str, base: str | None, since: str) -> dict[str, int]:
    """Return path and added lines of each changed file: committed, staged or in the work tree.

    Count from the commit ``base``; if git does not have it, from the last commit before ``since``.
    """
    commit = base and line(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    base = commit or line(root, "rev-list", "-1", f"--before={since}", "HEAD") or EMPTY_TREE
    lines: dict[str, int] = {}
    changes = ask(root, "diff", *_NUMSTAT, base) or b""
    for row in changes.decode(errors="surrogateescape").split("\0"):
        added, _, fields = row.partition("\t")
        path = fields.partition("\t")[2]
        if path:
            lines[path] = int(added) if added.isdigit() else 0
    untracked = ask(root, "ls-files", "-z", "--others", "--exclude-standard") or b""
    left = _MAX_COUNTED_BYTES
    for path in untracked.decode(errors="surrogateescape").split("\0"):
        if path:
            lines[path], read = _count_lines(os.path.join(root, path), left)
            left -= read
    return lines


def _count_lines(path: str, most: int) -> tuple[int, int]:
    """Return the lines and the size of a file.

    Both are 0 if it is a link, cannot be read, or has more than ``most`` bytes.
    """
    try:
        with open(Disk().open_read(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                return 0, 0
            blocks = iter(lambda: file.read(_BLOCK_BYTES), b"")
            return sum(block.count(b"\n") for block in blocks), size
    except OSError:
        return 0, 0
