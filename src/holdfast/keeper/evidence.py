"""Evidence of one session: gates, tests, violations and touched files, and whole steps.

A command of a gate or of tests runs without the lock, as long as it takes, and its result is
recorded after it. What was recorded in between is not lost: the result is decided on the state at
that time.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, shell_word
from holdfast.core.selection import other_branch, whereabouts
from holdfast.core.workflow import own_branch
from holdfast.core.workflow.evidence import ran_by, shows_nothing
from holdfast.core.workflow.needs import CHECK, CLAIM, RUN, evidence_of, with_stale_gates
from holdfast.core.workflow.steps import enter_step, phases_before
from holdfast.errors import Refused
from holdfast.evidence import commits, gates, git
from holdfast.evidence.masking import masked_claim
from holdfast.keeper.requests import fingerprint, plain
from holdfast.storage.shared_events import SharedEvents
from holdfast.workspace import trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from holdfast.core.types import Fields, Workflow
    from holdfast.evidence.gates import GateCommand
    from holdfast.keeper.requests import Target
    from holdfast.keeper.session import Receipt, Session

    Echo = Callable[[bytes], None] | None
    IsCancelled = Callable[[], bool]


_MAX_SEARCHED = 1_000
"""The number of a workflow's newest events among which a run on this machine is looked for."""


def _never() -> bool:
    return False


def look_here(session: Session, workflow: str | None) -> Workflow:
    """Return the workflow; raise ``Refused`` (elsewhere) if its files are in another worktree.

    What runs here says nothing about the files there.
    """
    state = session.look(workflow)
    if state["worktree"] != session.workspace.name:
        root = session.workspace.root_of(state["worktree"])
        message = f"{state['id']} is active {whereabouts(state['worktree'], root)}"
        hint = f"go on there, or bring it here: holdfast resume {state['id']}"
        raise Refused("elsewhere", message, hint)
    return state


class Evidence:
    """Run, look up or claim evidence for a session. ``keeper.evidence()`` opens it.

    ``echo`` gets the output of a command as it comes; ``is_cancelled`` is asked while it runs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workspace = session.workspace

    def _repeated(self, target: Target, request_digest: str) -> Receipt | None:
        """Return the answer to an earlier request with this id; ``None`` if there is none."""
        return self._session.peek_repeat(target.get("id"), request_digest)

    def _look_here(self, target: Target) -> Workflow:
        return look_here(self._session, target.get("workflow"))

    def _check_whose(self, state: Workflow, tried: str, command: GateCommand) -> None:
        """Raise ``Refused`` (untrusted) if nobody named a command, and only others have run it.

        What another machine runs in a shared workflow is the word of whoever can write to the hub.
        """
        store = self._session.store
        if not command.is_repeated or not SharedEvents(store.ledger).has(state["id"]):
            return
        recent = store.ledger.newest(state["id"], _MAX_SEARCHED)
        if any(command.text in ran_by(event) for event in recent):
            return
        if trust.is_approved(self._workspace, command.text):
            return
        raise Refused(
            "untrusted",
            f"{tried}: {command.text!r} was run on another machine, and never on this one",
            "let a person read it and approve it: holdfast trust",
            command=command.text, or_else=f"holdfast {tried} -- {command.text}",
        )  # fmt: skip

    # Gates and violations

    def run_gate(
        self, gate: str, words: Sequence[str] = (), *, timeout: str | None = None,
        reason: str | None = None, echo: Echo = None, is_cancelled: IsCancelled = _never,
        **target: Unpack[Target],
    ) -> Receipt:  # fmt: skip
        """Run a gate's command and record its result, even if it was cancelled.

        Another command than the one that failed last needs a ``reason``.
        """
        request_digest = fingerprint(
            "run_gate", {"gate": gate, "words": list(words), "reason": reason}
        )
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state = self._look_here(target)
        command = gates.gate_command(self._workspace, state, gate, list(words), timeout, reason)
        self._check_whose(state, f"gate run {shell_word(gate)}", command)
        fields, tree, note = gates.run_gate(self._workspace, command, echo, is_cancelled)
        fields |= {"reason": reason} if reason else {}
        facts = {**self._session.facts.of_git(state), "tree": tree}
        passed = fields["exit_code"] == 0 and "no_test" not in fields
        args: Fields = {"gate": gate, "passed": passed, "evidence": RUN}
        args |= {"fields": fields, "facts": facts}
        receipt = self._record("record_gate", args, state, target, request_digest)
        receipt.state = with_stale_gates(receipt.state, facts)
        notes = (note, gates.undeclared_note(self._workspace, state, gate))
        receipt.notes += [text for text in notes if text is not None]
        return receipt

    def record_gate(
        self,
        gate: str,
        fields: Fields | None = None,
        *,
        passed: bool,
        also: Sequence[str] = (),
        **target: Unpack[Target],
    ) -> Receipt:
        """Record a claim about a gate, or what Holdfast can look up about it.

        ``also`` are other gates of which the same is claimed.
        """
        args: Fields = {"gate": gate, "also": list(also), "passed": passed}
        request_digest = fingerprint("record_gate", {**args, "fields": fields or {}})
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state, facts = self._look_here(target), self._session.facts
        stated = masked_claim(plain(fields or {}), self._workspace.root)
        args |= {"fields": stated, "facts": facts.of_change(state)}
        args["facts"]["commands"] = facts.gate_commands()
        if passed and evidence_of(state, gate) == CHECK:
            args |= {"evidence": CHECK, "looked_up": gates.check(self._workspace, state, gate)}
        receipt = self._record("record_gate", args, state, target, request_digest)
        for name in (gate, *also):
            note = gates.undeclared_note(self._workspace, receipt.state, name)
            receipt.notes += [] if note is None else [note]
        return receipt

    def waive_gate(self, gate: str, reason: str, **target: Unpack[Target]) -> Receipt:
        """Record a person's decision that a gate need not be passed."""
        return self._session.do("waive_gate", {"gate": gate, "reason": reason}, **target)

    def add_violation(
        self, code: str, severity: str, details: str, **target: Unpack[Target]
    ) -> Receipt:
        """Record a violation that a review reported. A severe one blocks the hand-over."""
        args = {"code": code, "severity": severity.upper(), "details": details}
        return self._session.do("add_violation", args, **target)

    def clear_violation(self, code: str, **target: Unpack[Target]) -> Receipt:
        """Record that a violation is fixed."""
        return self._session.do("clear_violation", {"code": code}, **target)

    # Tests, and the steps that run them

    def run_tests(
        self, words: Sequence[str] = (), *, timeout: str | None = None, echo: Echo = None,
        **target: Unpack[Target],
    ) -> Receipt:  # fmt: skip
        """Run a test command, the last one by default, and record the tests it reports."""
        request_digest = fingerprint("run_tests", {"words": list(words)})
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state = self._look_here(target)
        command = gates.tests_command(self._workspace, state, list(words), timeout, "tests run")
        self._check_whose(state, "tests run", command)
        return self._run_tests(command, state, echo, _never, target, request_digest)

    def take_step(
        self, step: str, words: Sequence[str] = (), *, timeout: str | None = None,
        echo: Echo = None, is_cancelled: IsCancelled = _never, force: bool = False,
        reason: str | None = None, **target: Unpack[Target],
    ) -> Receipt:  # fmt: skip
        """Do red, green or refactor whole: move to it, run the tests, and record the result."""
        request_digest = fingerprint(
            "take_step", {"step": step, "words": list(words), "force": force, "reason": reason}
        )
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state = self._look_here(target)
        args: Fields = {"step": step, "force": force, "reason": reason}
        args["facts"] = self._session.facts.of_leaving(state, phases_before(state, step))
        args["head"] = self._workspace.commit()
        if isinstance(refusal := enter_step(state, args), Refusal):
            raise refusal.error()
        command = gates.tests_command(self._workspace, state, list(words), timeout, step)
        self._check_whose(state, step, command)
        moved = self._session.do("enter_step", args, workflow=state["id"])
        receipt = self._run_tests(command, moved.state, echo, is_cancelled, target, request_digest)
        receipt.notes[:0] = moved.notes
        return receipt

    def _run_tests(
        self, command: GateCommand, state: Workflow, echo: Echo, is_cancelled: IsCancelled,
        target: Target, request_digest: str,
    ) -> Receipt:  # fmt: skip
        """Run a test command, and record its result; it may be evidence for a gate, too."""
        gate = gates.test_gate(self._workspace, state, command)
        tests, result = gates.run_tests(self._workspace, command, echo, is_cancelled)
        args: Fields = {"tests": tests, "gate": gate, "result": result}
        receipt = self._record("record_tests", args, state, target, request_digest)
        receipt.output = result["output_tail"]
        if shows_nothing(receipt.state):
            receipt.notes.append("every test passes, which shows nothing yet: write one that fails")
        return receipt

    def record_tests(
        self,
        ran: str,
        *,
        failing: Sequence[str] = (),
        passing: Sequence[str] = (),
        error: str | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Record a test run that Holdfast did not start, as a claim."""
        tests: Fields = {
            "test_command": ran,
            "last_result": "failed" if failing or error is not None else "passed",
            "failing_tests": list(failing),
            "passing_tests": list(passing),
            "evidence": CLAIM,
        }
        if error is not None:
            tests["last_error"] = error
        stated = masked_claim(plain(tests), self._workspace.root)
        return self._session.do("record_tests", {"tests": stated, "stated": stated}, **target)

    def commit(self, message: str, **target: Unpack[Target]) -> Receipt:
        """Commit what is staged, and complete the task or the phase that it belongs to.

        Raise ``Refused`` if nothing is staged, if files changed since the tests passed, or, unless
        the workflow is named, on another branch than the one that was made for it.
        """
        request_digest = fingerprint("commit", {"message": message})
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state = self._look_here(target)
        branch = self._workspace.branch()
        if target.get("workflow") is None and own_branch(state) not in (None, branch):
            raise other_branch(state, branch, [state["id"]]).error()
        commit, note = commits.commit_for(self._workspace, state, message)
        subject = git.subject(self._workspace.root, commit)
        facts: Fields = {**self._workspace.facts(), "head": commit, "subject": subject}
        args: Fields = {"commit": commit, "facts": facts}
        receipt = self._record("record_commit", args, state, target, request_digest)
        receipt.notes += [] if note is None else [note]
        return receipt

    # Touched files

    def add_file(
        self,
        path: str,
        phase: str | None = None,
        lines: int | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Record a file that was changed, in the current phase unless another is named."""
        request_digest = fingerprint("add_file", {"path": path, "phase": phase, "lines": lines})
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state = self._session.look(target.get("workflow"))
        phase = gates.current_phase(state) if phase is None else phase
        entry = gates.file_entry(self._workspace, path, phase, lines)
        return self._record("record_files", {"files": [entry]}, state, target, request_digest)

    def sync_files(self, **target: Unpack[Target]) -> Receipt:
        """Record the files that changed since the workflow began, as git reports them."""
        request_digest = fingerprint("sync_files", {})
        repeated = self._repeated(target, request_digest)
        if repeated is not None:
            return repeated
        state = self._look_here(target)
        files = gates.touched_files(self._workspace, state)
        return self._record("record_files", {"files": files}, state, target, request_digest)

    def _record(
        self, kind: str, args: Fields, state: Workflow, target: Target, request_digest: str
    ) -> Receipt:
        """Record what was seen of a workflow, under the id of the caller's request."""
        return self._session.do(
            kind, args, workflow=state["id"], id=target.get("id"), request_digest=request_digest
        )
