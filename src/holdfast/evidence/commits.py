"""Commits that a workflow names or makes: each must exist, and git knows its subject."""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, shell_word
from holdfast.core.workflow.needs import is_fresh, is_new_commit, why_stale
from holdfast.core.workflow.steps import commit_target, is_tested
from holdfast.core.workflow.tasks import refuse_untested
from holdfast.errors import Refused
from holdfast.evidence import git, tree
from holdfast.workspace.location import OWN_PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Task, Workflow
    from holdfast.workspace.location import Workspace

SHORT = 7
"""The number of characters of a commit's id that people read."""
_MAX_MESSAGE_LINES = 20
_STATUS = ("--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty")


def resolve(workspace: Workspace, name: str, tried: str) -> str:
    """Return the full id of a commit: ``HEAD``, a branch, a tag or an id.

    Outside git the name is returned as it is. Raise ``Refused`` if git has no such commit.
    """
    if workspace.git is None:
        return name
    if refusal := bad_text("commit", name):
        raise refusal.error()
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    commit = git.line(workspace.root, *words)
    if commit is None:
        message = f"{tried}: git has no commit {name[:80]!r}"
        raise Refused("no_commit", message, "git log --oneline -5")
    return commit


def made_for_task(workspace: Workspace, task: Task) -> tuple[str | None, str | None]:
    """Return the commit that was made since a task began, and a note.

    It is taken if it is the only one and the work tree is clean.
    """
    base, head = task.get("base"), workspace.commit()
    is_dirty = bool(changed_files(workspace))
    if base is None or head is None or head == base:
        note = "the work tree has changes that are in no commit" if is_dirty else None
        return None, note
    number = git.line(workspace.root, "rev-list", "--count", f"{base}..{head}")
    if number != "1":
        return None, f"{number or 'several'} commits were made since it began, so none was taken"
    short = head[:SHORT]
    if is_dirty:
        return None, f"the work tree has changes that are not in {short}, so it was not taken"
    subject = git.subject(workspace.root, head) or ""
    return head, f"took the commit that was made since it began: {short} {subject}".rstrip()


def changed_files(workspace: Workspace) -> list[str]:
    """Return the files that differ from the last commit, without those of Holdfast.

    git is not started in submodules, whose own settings could name a program as a filter.
    """
    rows = git.ask(workspace.root, "status", *_STATUS) or b""
    paths = [row[3:] for row in rows.decode(errors="replace").split("\0") if row]
    return [path for path in paths if not path.startswith(OWN_PREFIXES)]


def staged_files(workspace: Workspace) -> list[str]:
    """Return the files that the next commit would change."""
    rows = git.ask(workspace.root, "diff", "--cached", "--name-only", "-z") or b""
    return [row for row in rows.decode(errors="replace").split("\0") if row]


def switch(workspace: Workspace, branch: str) -> None:
    """Switch to a branch, and create it if there is none; raise ``Refused`` if git refuses."""
    if workspace.git is None:
        message = "advance: this folder is not in a git repository, so it has no branches"
        raise Refused("no_git", message, "holdfast advance")
    if refusal := bad_text("branch", branch):
        raise refusal.error()
    ref = f"refs/heads/{branch}"
    exists = git.line(workspace.root, "rev-parse", "--verify", "--quiet", ref) is not None
    words = ["switch", *([] if exists else ["-c"]), branch]
    _act(workspace, f"advance: git cannot switch to {branch[:80]!r}", words)


def commit_for(workspace: Workspace, state: Workflow, message: str) -> tuple[str, str | None]:
    """Commit what is staged for the task or phase at hand; return the commit's id, and a note.

    If nothing is staged, a commit that was made for it already is taken. Raise ``Refused`` if there
    is none, or if the tests did not pass on these files.
    """
    if workspace.git is None:
        raise Refused("no_git", "commit: this folder is not in a git repository", "git init")
    if refusal := bad_text("message", message):
        raise refusal.error()
    target = commit_target(state)
    if isinstance(target, Refusal):
        raise target.error()
    if not isinstance(target, str) and (missing := refuse_untested(state, target, "commit")):
        raise missing.error()
    if is_tested(state, target):
        digest = tree.digest_of(tree.read(workspace))
        if not is_fresh(state["tests"], digest):
            why = why_stale({"tree": digest})
            raise Refused("stale", f"commit: {why} the tests passed", "holdfast refactor")
    if staged_files(workspace):
        _act(workspace, "commit: git refuses", ["commit", "-m", message])
        head = git.head(workspace.root)
        if head is None:
            raise Refused("no_commit", "commit: git made no commit", "git status")
        return head, None
    if isinstance(target, str):
        head = workspace.commit()
        is_made = is_new_commit(state, head) and not changed_files(workspace)
        taken = head if is_made else None
    else:
        taken = made_for_task(workspace, target)[0]
    if taken is None:
        raise _nothing_staged(workspace, target)
    return taken, f"nothing is staged; took the commit that was made already, {taken[:SHORT]}"


def _nothing_staged(workspace: Workspace, target: Task | str) -> Refused:
    """Return the refusal to commit nothing: stage what changed, or go on without a commit."""
    if changed_files(workspace):
        return Refused("nothing_staged", "commit: nothing is staged", "git add PATH")
    way = f"phase skip {shell_word(target)} --reason TEXT"
    if not isinstance(target, str):
        way = f"task done {shell_word(target['id'])}"
    message = "commit: nothing is staged, and no file differs from the last commit"
    return Refused("nothing_staged", message, f"holdfast {way}")


def _act(workspace: Workspace, refusal: str, words: list[str]) -> None:
    """Let git change the repository as the user would, with their hooks and settings."""
    code, output = git.act(workspace.root, words)
    if code != 0:
        # A hook of git may print anything, and the caller may keep the answer.
        from holdfast.evidence.masking import mask

        last = "\n".join(mask(output).strip().split("\n")[-_MAX_MESSAGE_LINES:])
        raise Refused("git", f"{refusal}: {last}", "git status")
