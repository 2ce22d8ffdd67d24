"""The part of the keeper that shows and clears: gates, tests, files, trust, cleaning.

A part of its own, so that nobody who only moves a workflow on pays for what these need.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import evidence
from holdfast.core.workflow.state import is_active
from holdfast.errors import HoldfastError, Refused
from holdfast.keeper.repeats import fingerprint
from holdfast.keeper.session import Receipt
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.types import Fields, Recipe, Workflow
    from holdfast.keeper.audit.chain import Report
    from holdfast.keeper.overview import Overview
    from holdfast.keeper.session import Change, Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.keeper.transfer import Imported
    from holdfast.workspace.location import Workspace
    from holdfast.workspace.trust import Wish


class Evidence:
    """What the keeper can do about evidence. ``Keeper`` gives it the caller and the engine."""

    workspace: Workspace
    store: Store
    _session: Session

    def do(
        self, kind: str, args: Fields, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Carries out one command of the core on one workflow."""
        return self._session.do(kind, args, workflow=workflow, id=id)

    def _repeated(self, id: str | None, asked: str) -> Receipt | None:
        """Return the answer to a request that was carried out before: nothing is run again."""
        return self._session.peek_repeat(id, asked)

    def transaction(self, workflow: str | None = None, *, id: str | None = None) -> Change:
        """Change one workflow by several commands that happen together or not at all.

        ``with keeper.transaction() as tx: tx.decide("complete_task", task=1); tx.commit()``
        """
        return self._session.change(workflow, id=id)

    def show(self, *, workflow: str | None = None) -> Receipt:
        """A workflow's state, and which of its gates are stale. Changes nothing."""
        state = self._session.look(workflow)
        return self._beside_tree(Receipt(state, [], self.store.take_notes()))

    def settle(self, *, workflow: str | None = None) -> Receipt:
        """Takes in what was done to a workflow's record by hand, and changes nothing else."""
        with self._session.transaction() as tx:
            stream = self._session.select(tx, workflow)
            return Receipt(tx.state(stream), [], self._session.notes())

    def context(self) -> tuple[Fields, list[str]]:
        """All that is known here, and which layers know it, as they were found; and notes."""
        from holdfast.adopt import recovery

        return recovery.found(self._session), self.store.take_notes()

    def _to_resume(self, tx: Transaction, workflow: str | None) -> str:
        """The workflow to resume, loaded; a refusal tells what else there is to go on with."""
        try:
            if workflow is None and not self.store.ledger.head_seq:
                from holdfast.adopt import recovery

                recovery.look_further(self._session, tx)
            return self._session.select(tx, workflow)
        except Refused as refused:
            if refused.details.get("candidates") != []:
                raise
            from holdfast.initiatives.workflow_link import instead

            raise instead(self._session, refused) from None

    def must_name(self, state: Workflow) -> bool:
        """Whether a command of this caller must name the workflow that it just took up or opened.

        A session has bound it, and nobody looks at any other workflow.
        """
        if self._session.id:
            return False
        try:
            picked = self._session.picked()
        except (OSError, HoldfastError):
            return True  # It is never wrong to name it, and what was asked for is done.
        return isinstance(picked, Refusal) or picked["id"] != state["id"]

    # What hooks ask

    def mine(self) -> Workflow | Refusal:
        """This session's workflow as it stands, or why there is none. Changes nothing."""
        state = self._session.peek()
        if isinstance(state, Refusal) or is_active(state):
            return state
        why = f"{state['id']} has ended or expired"
        return Refusal("ended", why, f"holdfast resume {state['id']}", candidates=[state["id"]])

    def held(self) -> list[str]:
        """The active workflows that this session holds; none for a session that is nobody's."""
        held = self.store.ledger.active_of_session(self._session.id, None)
        return [one.row["id"] for one in held]

    def take_in_notes(self) -> list[str]:
        """Takes in the workflows that an agent's own notes tell of; gives those that changed."""
        from holdfast.adopt import agent_notes, note_parser

        if not note_parser.detect(self.workspace.root):
            return []
        with self._session.transaction() as tx:
            return agent_notes.take_in(self._session, tx)

    def enforced(self) -> list[str]:
        """What the settings want enforced: ``reading``, ``stop``."""
        from holdfast.workspace import settings

        return settings.load(self.workspace.root).enforced()

    def awaits_briefing(self, workflow: str, session: str, lost_at: str = "") -> bool:
        """Whether this session has not had the briefing since the last compaction.

        ``lost_at`` is when its context lost the briefing by a compaction that nobody announced.
        """
        for event in self.store.ledger.newest(workflow):
            if event["type"] == "context_compacted":
                return True
            delivered = event["type"] == "briefing_delivered"
            if delivered and event["data"].get("session") == session:
                return bool(event["at"] < lost_at)
        return True

    def examine(self) -> list[Fields]:
        """Tries everything that Holdfast needs here; a row each, with what mends it."""
        from holdfast.install import doctor

        return doctor.examine(self)  # type: ignore[arg-type]

    def _pushed(self, state: Workflow, branch: str | None) -> str | None:
        """The remote branch that has the work, where only the pull request is missing."""
        from holdfast.core.next_step import PULL_REQUEST
        from holdfast.core.workflow.state import next_phases, pending_gates

        here = branch is not None and state["phase"] is not None and state["branch"] == branch
        if not here or PULL_REQUEST not in pending_gates(state):
            return None
        if next_phases(state, str(state["phase"])):
            return None
        from holdfast.evidence import git

        return git.pushed_to(self.workspace.root, str(branch))

    # Evidence

    def run_gate(
        self, gate: str, words: Sequence[str] = (), *, timeout: str | None = None,
        echo: Callable[[bytes], None] | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Runs a gate's command and records what came of it, also that it was cancelled."""
        from holdfast.evidence import gates

        asked = fingerprint("run_gate", {"gate": gate, "words": list(words)})
        repeated = self._repeated(id, asked)
        if repeated is not None:
            return repeated
        state = self._session.look(workflow)
        order = gates.gate_order(self.workspace, state, gate, list(words), timeout)
        fields, after, note = gates.run_gate(self.workspace, order, echo, is_cancelled)
        passed = fields["exit_code"] == 0
        args = {"gate": gate, "passed": passed, "evidence": "run", "fields": fields}
        receipt = self._session.do("record_gate", args, workflow=state["id"], id=id, asked=asked)
        receipt.state = evidence.with_stale_gates(receipt.state, after)
        notes = (note, gates.undeclared(self.workspace, state, gate))
        receipt.notes += [said for said in notes if said is not None]
        return receipt

    def record_gate(
        self, gate: str, fields: Fields | None = None, *, passed: bool,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records what somebody says about a gate: a claim, and shown as one."""
        from holdfast.evidence import gates

        args = {"gate": gate, "passed": passed, "fields": plain(fields or {})}
        receipt = self.do("record_gate", args, workflow=workflow, id=id)
        note = gates.undeclared(self.workspace, receipt.state, gate)
        receipt.notes += [] if note is None else [note]
        return receipt

    def add_violation(
        self, code: str, severity: str, details: str, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records what a review found; a grave one stands before the handing over of the work."""
        args = {"code": code, "severity": severity.upper(), "details": details}
        return self.do("add_violation", args, workflow=workflow, id=id)

    def clear_violation(
        self, code: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Says that it is mended."""
        return self.do("clear_violation", {"code": code}, workflow=workflow, id=id)

    def run_tests(
        self, words: Sequence[str], *, timeout: str | None = None,
        echo: Callable[[bytes], None] | None = None,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Runs a test command and records which tests failed and passed, where it tells."""
        from holdfast.evidence import gates

        asked = fingerprint("run_tests", {"words": list(words)})
        repeated = self._repeated(id, asked)
        if repeated is not None:
            return repeated
        state = self.show(workflow=workflow).state
        order = gates.Order(list(words), timeout)
        tests = gates.run_tests(self.workspace, order, echo)
        args = {"tests": tests}
        return self._session.do("record_tests", args, workflow=state["id"], id=id, asked=asked)

    def record_tests(
        self, ran: str, *, failing: Sequence[str] = (), passing: Sequence[str] = (),
        error: str | None = None, workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records a test run that somebody else made."""
        tests: Fields = {
            "test_command": ran,
            "last_result": "failed" if failing or error is not None else "passed",
            "failing_tests": list(failing),
            "passing_tests": list(passing),
            "evidence": "claim",
        }
        if error is not None:
            tests["last_error"] = error
        return self.do("record_tests", {"tests": plain(tests)}, workflow=workflow, id=id)

    def add_file(
        self, path: str, phase: str | None = None, lines: int | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records a file that was touched; in the current phase unless another one is named."""
        from holdfast.evidence import gates

        if phase is None:
            phase = gates.current_phase(self.show(workflow=workflow).state)
        entry = gates.file_entry(self.workspace, path, phase, lines)
        return self.do("record_files", {"files": [entry]}, workflow=workflow, id=id)

    def sync_files(self, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Records the files that git says were touched since the workflow began."""
        from holdfast.evidence import gates

        state = self.show(workflow=workflow).state
        files = gates.touched(self.workspace, state)
        return self.do("record_files", {"files": files}, workflow=state["id"], id=id)

    def _tree_of(self, state: Workflow) -> str | None:
        """The working tree's digest, where a gate rests on one."""
        if not is_active(state) or not evidence.was_run(state):
            return None
        from holdfast.evidence import tree

        return tree.digest_of(tree.read(self.workspace))

    def _beside_tree(self, receipt: Receipt) -> Receipt:
        """The receipt, with the gates that the working tree has left behind shown as stale."""
        state = receipt.state
        receipt.state = evidence.with_stale_gates(state, self._tree_of(state))
        return receipt

    def verify(self, *, everything: bool = False) -> Report:
        """Check the ledger, and every view against it. Change nothing.

        Of a long ledger only the newest events are checked, unless ``everything`` is true.
        """
        from holdfast.keeper.audit.verify import verify

        return verify(self.store, everything=everything)

    def repair(self) -> Report:
        """Rebuild every view, and recover what a damaged ledger still has. Delete nothing."""
        from holdfast.keeper.audit.repair import repair

        return repair(self._session)

    def export(self, *, workflow: str | None = None) -> Iterator[str]:
        """Yield the ledger, or one workflow of it, as lines of JSON; raise ``Refused``."""
        from holdfast.keeper import transfer

        if workflow is not None and self.store.ledger.stream(workflow) is None:
            raise self._session.not_found(workflow)
        return transfer.export_lines(self.store, workflow)

    def import_file(self, path: str) -> Imported:
        """Take in an export, ``-`` for standard input; raise ``Refused`` and take in nothing."""
        from holdfast.keeper import transfer

        return transfer.import_file(self._session, path)

    def wishes(self) -> tuple[list[Wish], list[str]]:
        """The commands that the repository wants to run, and what could not be read of them."""
        from holdfast.workspace import trust

        running = [one.state for one in self.store.ledger.states(ACTIVE)]
        return trust.wishes(self.workspace, running)

    def approve(self, commands: Sequence[str]) -> None:
        """Remembers, in the person's own folder, that these commands may run here."""
        from holdfast.workspace import trust

        if commands:
            trust.approve(self.workspace, list(commands), self.store.now())

    def revoke_trust(self) -> int:
        """Forgets every approval for this workspace; says how many there were."""
        from holdfast.workspace import trust

        return trust.revoke(self.workspace)

    def sync(
        self, *, everything: bool = False, foreground: bool = True
    ) -> tuple[list[Fields], list[str]]:
        """Brings every layer beside the records up to date: a row each, and what was noticed.

        ``foreground``: whether a person or their agent asks, not an agent in the background.
        """
        from holdfast.layers import sync

        rows = sync.sync(self._session, everything=everything, foreground=foreground)
        return rows, self.store.take_notes()

    def clean(self, *, dry_run: bool = False) -> tuple[list[Fields], list[str]]:
        """Lets go what has expired and what ended long ago: ``id``, ``why`` and ``record`` each."""
        from holdfast.keeper import cleanup

        if dry_run:
            return cleanup.due(self.store), self.store.take_notes()
        with self._session.transaction() as tx:
            return cleanup.clean(tx), self.store.take_notes()

    def overview(self) -> Overview:
        """All that is active here, and what a command would be about. Changes nothing."""
        from holdfast.keeper.overview import overview

        return overview(self._session)

    def known(self, *, most: int, format: str | None = None) -> list[Fields]:
        """Return a row for each workflow that can be named, active ones first. Changes nothing."""
        from holdfast.keeper import overview

        return overview.known(self.store, most, format)

    def watched(self, seen: Overview, *, workflow: str | None = None, limit: int = 20) -> Fields:
        """What else ``watch`` shows of an overview: ``layers``, and the newest ``events``."""
        from holdfast.keeper import overview

        events = list(self.store.ledger.newest(workflow, limit))[::-1]
        return {"layers": overview.layers(self._session, seen), "events": events}

    def peek(self, *, workflow: str | None = None) -> Workflow | Refusal:
        """The state of the workflow that is meant, or why there is none. Changes nothing."""
        return self._session.peek(workflow)

    def recipes(self) -> list[Fields]:
        """A row for each recipe that a workflow can be opened from; ``bad`` says why one cannot."""
        from holdfast.workspace import recipe_shelf

        return recipe_shelf.rows(self.workspace.root)

    def recipe(self, name: str) -> tuple[Recipe, str]:
        """One recipe whole, and where it comes from; a broken one is refused."""
        from holdfast.workspace import recipe_shelf

        return recipe_shelf.one(name, self.workspace.root)


def plain(fields: Fields) -> Fields:
    """Free fields as JSON holds them."""
    try:
        found: Fields = json_text.loads(json_text.dumps(fields), strict=True)
    except (ValueError, TypeError) as error:
        raise Refused(
            "invalid", f"the fields are not JSON: {error}", "give text, numbers, true, false, null"
        ) from error
    return found
