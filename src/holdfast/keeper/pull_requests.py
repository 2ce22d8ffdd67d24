"""The pull request of a workflow's branch: planned, shown, sent with ``gh``, and recorded.

Nothing is sent twice. Before every sending GitHub is asked for the open pull request of the branch:
one that is there is updated, also if it was created by hand, or by a process that was killed before
it could record it. The body has a section between two marks that belongs to Holdfast; what people
wrote around it stays. All of this happens without the lock, which is only taken to record.
"""

from __future__ import annotations

from holdfast.core.refusal import shell_word
from holdfast.core.workflow import is_active, is_floating
from holdfast.core.workflow.needs import (
    CHECK,
    PULL_REQUEST,
    RUN,
    WAIVED,
    evidence_of,
    is_passed,
)
from holdfast.errors import Refused
from holdfast.evidence import git
from holdfast.evidence.commits import SHORT, changed_files
from holdfast.evidence.github import MAX_BODY_CHARS, MAX_DESCRIPTION_CHARS, GitHub
from holdfast.keeper.evidence import look_here
from holdfast.keeper.report import FAILED, PASSED, PENDING, STALE
from holdfast.keeper.requests import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Receipt, Session

    Form = Callable[[Fields, int], tuple[str, str]]
    """Return title and section for a report; the section has at most so many characters."""

BEGIN, END = "<!-- holdfast:begin -->", "<!-- holdfast:end -->"
"""The marks around our section. Stored text cannot have them: its angle brackets are escaped."""
STATUS_CONTEXT = "holdfast"
_TRIED = "pr"
_LEAST_CHARS = 2_000
"""The room that our section needs beside what people wrote."""


class PullRequestPlan:
    """What would be sent: shown to a person, or printed by ``--dry-run``."""

    def __init__(self, state: Workflow, github: GitHub, branch: str) -> None:
        self.state = state
        self.github = github
        self.branch = branch
        self.base = github.main
        self.owner = self.repository = ""
        """Owner and name of the repository that has the branch; another one in a fork."""
        self.pushed_to = ""
        """The remote branch, such as ``origin/feat/login``."""
        self.title = ""
        self.body = ""
        self.is_draft = False
        self.found: Fields | None = None
        """The pull request that is there already, as GitHub describes it."""
        self.changes: Fields = {}
        """The fields of it that would change."""
        self.tip = ""
        """The commit whose status is set."""
        self.status: Fields = {}
        self.why_no_status = ""
        """Why no status is set; empty if one is."""

    @property
    def remote(self) -> str:
        return self.pushed_to.partition("/")[0]

    def fields(self) -> Fields:
        """Return the plan as the answers show it."""
        found = self.found or {}
        return {
            "number": found.get("number"),
            "url": found.get("html_url"),
            "repository": self.github.name,
            "title": self.title,
            "body": self.body,
            "base": self.base,
            "head": f"{self.owner}:{self.branch}",
            "remote": self.remote,
            "draft": bool(found.get("draft", self.is_draft)),
            "status": self.status.get("state"),
        }


class PullRequests:
    """Plan and send the pull request of a session's workflow. ``keeper.pull_requests()`` opens it.

    ``report`` returns the report of a workflow, and ``form`` makes title and section of it.
    """

    def __init__(self, session: Session, report: Callable[[str], Fields], form: Form) -> None:
        self._session = session
        self._workspace = session.workspace
        self._report = report
        self._form = form

    def plan(
        self, workflow: str | None = None, *, title: str | None = None, base: str | None = None,
        draft: bool = False,
    ) -> PullRequestPlan:  # fmt: skip
        """Return what would be sent; raise ``Refused`` if it cannot be. Change nothing."""
        state = look_here(self._session, workflow)
        branch = self._branch(state)
        copies = self._copies(branch)
        github = GitHub(self._workspace.root, _TRIED)
        plan = PullRequestPlan(state, github, branch)
        plan.base, plan.is_draft = base or github.main, draft
        if branch == plan.base:
            raise self._is_main(branch)
        plan.pushed_to, plan.owner, plan.repository = _source(github, copies)
        plan.found = self._find(plan, base)
        if plan.found is None and not is_active(state):
            message = f"{_TRIED}: {state['id']} has ended, and has no pull request"
            raise Refused("ended", message, f"holdfast resume {state['id']}")
        if plan.found is not None:
            plan.base = base or plan.found["base"]["ref"]
        self._compose(plan, title, base)
        return plan

    def send(self, plan: PullRequestPlan, *, id: str | None = None) -> tuple[Fields, Receipt]:
        """Create or update the pull request, record it, and set the status of its commit.

        Return what became of it, and the receipt of what was recorded.
        """
        found, became = plan.found, "unchanged"
        if found is None:
            found, became = self._create(plan)
        elif plan.changes:
            plan.github.update(found["number"], plan.changes)
            became = "updated"
        plan.found = found
        receipt = self._record(plan, id)
        why = plan.why_no_status or self._set_status(plan)
        if why:
            receipt.notes.append(f"no commit status was set: {why}")
            plan.status = {}
        return {**plan.fields(), "became": became}, receipt

    # What is asked before anything is sent

    def _branch(self, state: Workflow) -> str:
        """Return the branch that is checked out; raise ``Refused`` if it is not the workflow's."""
        if self._workspace.git is None:
            raise Refused("no_git", f"{_TRIED}: this folder is not in a git repository", "git init")
        branch = self._workspace.branch()
        if branch is None:
            message = f"{_TRIED}: a pull request needs a branch, and none is checked out"
            raise Refused("not_found", message, "git switch BRANCH")
        own = None if is_floating(state) else state["branch"]
        if own not in (None, branch) and own not in self._workspace.main_branches():
            message = f"{_TRIED}: {state['id']} is for branch {own}; this is {branch}"
            raise Refused("other_branch", message, f"git switch {shell_word(own)}", branch=own)
        if branch in self._workspace.main_branches():
            raise self._is_main(branch)
        return branch

    def _is_main(self, branch: str) -> Refused:
        message = (
            f"{_TRIED}: {branch} is the branch that pull requests go into, not one for this work"
        )
        return Refused("main_branch", message, "git switch -c BRANCH")

    def _copies(self, branch: str) -> list[str]:
        """Return the remote branches that have all of the branch; raise ``Refused`` without one."""
        copies = git.copies_of(self._workspace.root, branch)
        if copies:
            return copies
        names = git.remotes(self._workspace.root)
        if not names:
            message = f"{_TRIED}: this repository has no remote"
            raise Refused("no_remote", message, "git remote add origin URL")
        name = names[0] if len(names) == 1 else "REMOTE"
        raise Refused(
            "not_pushed",
            f"{_TRIED}: no remote has all of {branch}",
            f"git push -u {shell_word(name)} {shell_word(branch)}",
        )

    def _find(self, plan: PullRequestPlan, base: str | None) -> Fields | None:
        """Return the open pull request of the branch; ``None`` if one is to be created.

        Raise ``Refused`` if the workflow's own was merged or closed, and nothing is new since.
        """
        known = _recorded(plan.state)
        rows = plan.github.pull_requests(plan.owner, plan.branch)
        rows = [row for row in rows if base is None or row["base"]["ref"] == base] or rows
        own = [row for row in rows if row["number"] == known]
        if rows:
            return (own or rows)[0]
        before = plan.github.pull_request(known) if known is not None else None
        tip = git.line(self._workspace.root, "rev-parse", f"refs/heads/{plan.branch}")
        if before is None or before["state"] == "open":
            return before
        if before.get("head", {}).get("sha") != tip:
            return None
        if before.get("merged_at"):
            message = f"{_TRIED}: pull request {known} is merged"
            raise Refused("already", message, f"holdfast show {plan.state['id']}")
        message = f"{_TRIED}: pull request {known} was closed without being merged"
        raise Refused("already", message, f"gh pr reopen {known}")

    def _compose(self, plan: PullRequestPlan, title: str | None, base: str | None) -> None:
        """Fill in title, body and status; only what differs from the one that is there changes."""
        found = plan.found or {}
        others = _others(found.get("body") or "")
        room = MAX_BODY_CHARS - len("".join(others))
        if room < _LEAST_CHARS:
            raise Refused(
                "too_large",
                f"{_TRIED}: the text of pull request {found['number']} leaves no room for ours",
                f"gh pr edit {found['number']}",
            )
        report = self._report(plan.state["id"])
        own_title, section = self._form(report, room)
        plan.title = title or found.get("title") or own_title
        plan.body = others[0] + section + others[1]
        plan.tip = git.line(self._workspace.root, "rev-parse", f"refs/heads/{plan.branch}") or ""
        wanted = {"title": plan.title, "body": plan.body, **({"base": base} if base else {})}
        present = {**found, "base": found.get("base", {}).get("ref")}
        plan.changes = {key: value for key, value in wanted.items() if present.get(key) != value}
        if changed_files(self._workspace):
            plan.why_no_status = f"the work tree has changes that are not in {plan.tip[:SHORT]}"
        else:
            plan.status = _status_of(report)

    # Sending

    def _create(self, plan: PullRequestPlan) -> tuple[Fields, str]:
        owner, _, name = plan.github.name.partition("/")
        is_fork = (plan.owner, plan.repository) != (owner, name)
        sent: Fields = {
            "title": plan.title,
            "body": plan.body,
            "head": f"{plan.owner}:{plan.branch}" if is_fork else plan.branch,
            "base": plan.base,
            "draft": plan.is_draft,
        }
        if is_fork and plan.owner == owner:
            sent["head_repo"] = plan.repository
        created = plan.github.create(sent)
        if created is not None:
            return created, "created"
        rows = plan.github.pull_requests(plan.owner, plan.branch)
        if not rows:
            message = f"{_TRIED}: GitHub says that {plan.branch} has a pull request, and shows none"
            raise Refused("gh", message, "gh pr status")
        # Somebody else was faster; our section goes into theirs.
        plan.found = rows[0]
        self._compose(plan, None, None)
        if plan.changes:
            plan.github.update(rows[0]["number"], plan.changes)
        return rows[0], "updated"

    def _record(self, plan: PullRequestPlan, id: str | None) -> Receipt:
        """Record number and address where the workflow does not have them yet."""
        found, state = plan.found or {}, self._session.look(plan.state["id"])
        seen: Fields = {"pr_number": found["number"], "pr_url": found["html_url"]}
        digest_of_request = fingerprint("pull_request", seen)
        repeated = self._session.peek_repeat(id, digest_of_request)
        if repeated is not None:
            return repeated

        def do(kind: str, args: Fields) -> Receipt:
            return self._session.do(
                kind, args, workflow=state["id"], id=id, request_digest=digest_of_request
            )

        gate = state["gates"].get(PULL_REQUEST)
        if not is_active(state):
            return self._session.answer(state, [])
        if gate is None or evidence_of(state, PULL_REQUEST) != CHECK:
            if all(state["context"].get(key) == value for key, value in seen.items()):
                return self._session.answer(state, [])
            return do("set_context", {"values": seen})
        seen["pushed_to"] = plan.pushed_to
        is_known = all(gate.get(key) == value for key, value in seen.items())
        if is_known and is_passed(state, PULL_REQUEST):
            return self._session.answer(state, [])
        facts = self._session.facts.of_change(state)
        facts["commands"] = self._session.facts.gate_commands()
        args: Fields = {"gate": PULL_REQUEST, "also": [], "passed": True, "fields": {}}
        args |= {"facts": facts, "evidence": CHECK, "looked_up": seen}
        return do("record_gate", args)

    def _set_status(self, plan: PullRequestPlan) -> str:
        """Set the status of the branch's last commit; return why it could not be set."""
        fields = {**plan.status, "target_url": (plan.found or {})["html_url"]}
        return plan.github.set_status(plan.tip, fields)


def _source(github: GitHub, copies: list[str]) -> tuple[str, str, str]:
    """Return the remote branch to take, with owner and name of its repository.

    One in the repository of the pull request is better than one in a fork.
    """
    found = [(copy, *github.head_of(copy.partition("/")[0])) for copy in copies]
    return min(found, key=lambda source: f"{source[1]}/{source[2]}" != github.name)


def _recorded(state: Workflow) -> int | None:
    """Return the number of the workflow's pull request, if one is recorded."""
    for source in (state["gates"].get(PULL_REQUEST, {}), state["context"]):
        number = source.get("pr_number")
        if isinstance(number, int) and number > 0:
            return number
    return None


def _others(body: str) -> tuple[str, str]:
    """Return what people wrote before and after our section."""
    before, begun, rest = body.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if begun and ended:
        return before, after
    return (f"{body}\n\n" if body.strip() else ""), ""


def _status_of(report: Fields) -> Fields:
    """Return the commit status of a report: its gates in numbers, and their digest."""
    gates = [gate for gate in report["gates"] if gate["name"] != PULL_REQUEST]
    kinds = {
        "run": [g for g in gates if g["result"] == PASSED and g["rests_on"] == RUN],
        "looked up": [g for g in gates if g["result"] == PASSED and g["rests_on"] == CHECK],
        "claimed": [
            g for g in gates if g["result"] == PASSED and g["rests_on"] not in (RUN, CHECK)
        ],
        "waived": [g for g in gates if g["result"] == WAIVED],
        "failed": [g for g in gates if g["result"] == FAILED],
        "open": [g for g in gates if g["result"] in (STALE, PENDING)],
    }
    counts = [f"{len(rows)} {kind}" for kind, rows in kinds.items() if rows]
    is_pending = bool(other_pending(report))
    state = "failure" if kinds["failed"] else "pending" if is_pending else "success"
    words = f"gates {report['digest']}: {', '.join(counts) or 'none'}"
    return {
        "state": state,
        "context": STATUS_CONTEXT,
        "description": words[:MAX_DESCRIPTION_CHARS],
    }


def other_pending(report: Fields) -> Fields:
    """Return what is pending, without the pull request itself, its phase and its gate."""
    own = report["pull_request"] or {}
    names = {"gates": PULL_REQUEST, "phases": own.get("phase")}
    pending = {
        kind: [name for name in items if name != names.get(kind)]
        for kind, items in report["left"].items()
    }
    return {kind: items for kind, items in pending.items() if items}
