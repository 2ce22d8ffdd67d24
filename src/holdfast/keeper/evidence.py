"""The part of the keeper that shows and clears: gates, tests, files, trust, cleaning.

A part of its own, so that nobody who only moves a workflow on pays for what these need.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.caller import Receipt
from holdfast.core import choice
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import evidence
from holdfast.core.workflow.state import is_active
from holdfast.errors import HoldfastError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.audit.history import Report
    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields, Recipe, Workflow
    from holdfast.engine import Engine
    from holdfast.register import Position
    from holdfast.sight import Sight
    from holdfast.trust import Wish
    from holdfast.workspace import Workspace


class Evidence:
    """What the keeper can do about evidence. ``Keeper`` gives it the caller and the engine."""

    workspace: Workspace
    _engine: Engine
    _caller: Caller

    def do(
        self, kind: str, args: Fields, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Carries out one command of the core on one workflow."""
        return self._caller.do(kind, args, workflow=workflow, id=id)

    def _repeated(self, id: str | None) -> Receipt | None:
        """The answer to a request that was carried out before, so that nothing is run again."""
        return None if id is None else self._caller.reading(lambda: self._caller.once(id))

    def show(self, *, workflow: str | None = None) -> Receipt:
        """A workflow's state, and which of its gates are stale."""
        return self._beside_tree(
            self._caller.reading(
                lambda: Receipt(
                    self._caller.current(self._caller.position(workflow)), [], self._caller.notes()
                )
            )
        )

    def context(self) -> tuple[Fields, list[str]]:
        """All that is known here, and which layers know it, as they were found; and notes."""
        from holdfast import readback

        self._engine.refresh()
        found = readback.found(self._caller)
        readback.heal(self._caller)
        return found, self._caller.notes()

    def _to_resume(self, workflow: str | None) -> Position:
        """Where the workflow stands; a refusal tells what else there is to go on with."""
        try:
            if workflow is None and not self._engine.ledger.head_seq:
                from holdfast import readback

                readback.look_further(self._caller)
            return self._caller.position(workflow)
        except Refused as refused:
            if refused.details.get("candidates") != []:
                raise
            from holdfast.initiatives.belonging import instead

            raise instead(self._caller, refused) from None

    def must_name(self, state: Workflow) -> bool:
        """Whether a command of this caller must name the workflow that it just took up or opened.

        A session has bound it, and nobody looks at any other workflow.
        """
        if self._caller.session:
            return False
        try:
            given = self.glance()[1]
        except (OSError, HoldfastError):
            return True  # It is never wrong to name it, and what was asked for is done.
        return given is None or given["id"] != state["id"]

    # What hooks ask

    def mine(self) -> Workflow | Refusal:
        """This session's workflow as its record shows it, or why there is none."""

        def look() -> Workflow | Refusal:
            picked = self._caller.picked()
            if isinstance(picked, Refusal):
                return picked
            position = self._engine.position(picked["id"])
            state = None if position is None else self._caller.current(position)
            if state is None or not is_active(state):
                why = f"{picked['id']} has ended or expired"
                hint = f"holdfast resume {picked['id']}"
                return Refusal("ended", why, hint, candidates=[picked["id"]])
            return state

        return self._caller.reading(look)

    def held(self) -> list[str]:
        """The active workflows that this session holds; none for a session that is nobody's."""

        def look() -> list[str]:
            return [
                row["id"]
                for row in self._caller.rows()
                if row["status"] in choice.ACTIVE
                and row["session"]
                and row["session"]["id"] == self._caller.session
            ]

        return self._caller.reading(look)

    def take_in_notes(self) -> list[str]:
        """Takes in the workflows that an agent's own notes tell of; gives those that changed."""
        from holdfast import detection, noticed

        if not detection.detect(self.workspace.root):
            return []
        with self._caller.locked():
            self._engine.settle_last(None)
            return noticed.take_in(self._caller)

    def enforced(self) -> list[str]:
        """What the settings want enforced: ``reading``, ``stop``."""
        from holdfast import settings

        return settings.load(self.workspace.root).enforced()

    def awaits_briefing(self, workflow: str, session: str, lost_at: str = "") -> bool:
        """Whether this session has not had the briefing since the last compaction.

        ``lost_at`` is when its context lost the briefing by a compaction that nobody announced.
        """
        self._engine.refresh()
        for event in self._engine.ledger.newest(workflow):
            if event["type"] == "context_compacted":
                return True
            delivered = event["type"] == "briefing_delivered"
            if delivered and event["data"].get("session") == session:
                return bool(event["at"] < lost_at)
        return True

    def examine(self) -> list[Fields]:
        """Tries everything that Holdfast needs here; a row each, with what mends it."""
        from holdfast import doctor

        return doctor.examine(self)  # type: ignore[arg-type]

    def _pushed(self, state: Workflow, branch: str | None) -> str | None:
        """The remote branch that has the work, where only the pull request is missing."""
        from holdfast.core.ahead import PULL_REQUEST
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
        from holdfast import proving

        repeated = self._repeated(id)
        if repeated is not None:
            return repeated
        state = self.show(workflow=workflow).state
        order = proving.gate_order(self.workspace, state, gate, list(words), timeout)
        fields, note = proving.run_gate(self.workspace, order, echo, is_cancelled)
        passed = fields["exit_code"] == 0
        args = {"gate": gate, "passed": passed, "evidence": "run", "fields": fields}
        receipt = self._beside_tree(self.do("record_gate", args, workflow=state["id"], id=id))
        notes = (note, proving.undeclared(self.workspace, state, gate))
        receipt.notes += [said for said in notes if said is not None]
        return receipt

    def record_gate(
        self, gate: str, fields: Fields | None = None, *, passed: bool,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records what somebody says about a gate: a claim, and shown as one."""
        from holdfast import proving

        args = {"gate": gate, "passed": passed, "fields": plain(fields or {})}
        receipt = self.do("record_gate", args, workflow=workflow, id=id)
        note = proving.undeclared(self.workspace, receipt.state, gate)
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
        from holdfast import proving

        repeated = self._repeated(id)
        if repeated is not None:
            return repeated
        state = self.show(workflow=workflow).state
        order = proving.Order(list(words), timeout)
        tests = proving.run_tests(self.workspace, order, echo)
        return self.do("record_tests", {"tests": tests}, workflow=state["id"], id=id)

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
        from holdfast import proving

        if phase is None:
            phase = proving.current_phase(self.show(workflow=workflow).state)
        entry = proving.file_entry(self.workspace, path, phase, lines)
        return self.do("record_files", {"files": [entry]}, workflow=workflow, id=id)

    def sync_files(self, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Records the files that git says were touched since the workflow began."""
        from holdfast import proving

        state = self.show(workflow=workflow).state
        files = proving.touched(self.workspace, state)
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

    def verify(self) -> Report:
        """Checks the ledger and every view against it. Changes nothing."""
        from holdfast import audit

        self._engine.refresh()
        return audit.verify(self._engine)

    def repair(self) -> Report:
        """Moves what is damaged to quarantine and rebuilds every view. Deletes nothing."""
        from holdfast import audit, home

        with self._caller.locked():
            home.exclude(self.workspace, self._engine.disk, self._engine.note)
            return audit.repair(self._engine)

    def wishes(self) -> tuple[list[Wish], list[str]]:
        """The commands that the repository wants to run, and what could not be read of them."""
        from holdfast import trust

        def running() -> list[Workflow]:
            rows = [row for row in self._caller.rows() if row["status"] in choice.ACTIVE]
            found = [self._engine.position(row["id"]) for row in rows]
            return [self._engine.load(position) for position in found if position is not None]

        return trust.wishes(self.workspace, self._caller.reading(running))

    def approve(self, commands: Sequence[str]) -> None:
        """Remembers, in the person's own folder, that these commands may run here."""
        from holdfast import trust

        if commands:
            trust.approve(self.workspace, list(commands), self._engine.now())

    def revoke_trust(self) -> int:
        """Forgets every approval for this workspace; says how many there were."""
        from holdfast import trust

        return trust.revoke(self.workspace)

    def sync(
        self, *, everything: bool = False, foreground: bool = True
    ) -> tuple[list[Fields], list[str]]:
        """Brings every layer beside the records up to date: a row each, and what was noticed.

        ``foreground``: whether a person or their agent asks, not an agent in the background.
        """
        from holdfast import syncing

        rows = syncing.sync(self._caller, everything=everything, foreground=foreground)
        return rows, self._caller.notes()

    def clean(self, *, dry_run: bool = False) -> tuple[list[Fields], list[str]]:
        """Lets go what has expired and what ended long ago: ``id``, ``why`` and ``record`` each."""
        from holdfast import cleaning

        if dry_run:
            return self._caller.reading(lambda: cleaning.due(self._caller)), self._caller.notes()
        with self._caller.locked():
            self._engine.settle_last(None)
            return cleaning.clean(self._caller), self._caller.notes()

    def glance(self, *, workflow: str | None = None) -> tuple[list[Fields], Workflow | None]:
        """Rows of all workflows and the state of the one that is meant; changes nothing at all."""
        from holdfast.sight import glance

        return glance(self._caller, workflow)

    def sight(self) -> Sight:
        """All that is active here, and what a command would be about; changes nothing at all."""
        from holdfast.sight import sight

        return sight(self._caller)

    def watched(self, found: Sight, *, workflow: str | None = None, limit: int = 20) -> Fields:
        """What else ``watch`` shows of a sight: ``layers``, and the newest ``events``."""
        from holdfast import sight

        events = sight.last_events(self._caller, found, workflow, limit)
        return {"layers": sight.layers(self._caller, found), "events": events}

    def recipes(self) -> list[Fields]:
        """A row for each recipe that a workflow can be opened from; ``bad`` says why one cannot."""
        from holdfast.recipes import shelf

        return shelf.rows(self.workspace.root)

    def recipe(self, name: str) -> tuple[Recipe, str]:
        """One recipe whole, and where it comes from; a broken one is refused."""
        from holdfast.recipes import shelf

        return shelf.one(name, self.workspace.root)


def plain(fields: Fields) -> Fields:
    """Free fields as JSON holds them."""
    try:
        found: Fields = jsontext.loads(jsontext.dumps(fields), strict=True)
    except (ValueError, TypeError) as error:
        raise Refused(
            "invalid", f"the fields are not JSON: {error}", "give text, numbers, true, false, null"
        ) from error
    return found
