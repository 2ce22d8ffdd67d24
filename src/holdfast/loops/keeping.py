"""Loops as the library offers them: units through the core, pages for people beside the record.

The ledger has everything. The pages belong to people too: they are patched, never made anew, and
what people wrote into them is taken in before anything else happens.
"""

from __future__ import annotations

from holdfast.caller import Receipt
from holdfast.core import choice, turns
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import units
from holdfast.core.workflow.state import find_task, is_active
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.loops import archive, edits, files, openings
from holdfast.loops.slugs import check_slug, unit_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.shapes import Fields, Task, Workflow
    from holdfast.keeper import Keeper

MODES = ("development", "knowledge")


class Loops:
    """The loops of a workspace. Methods raise ``Refused`` and ``Fault`` like the keeper's."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._engine = keeper._engine  # noqa: SLF001 - a room of the keeper's own
        self._caller = keeper._caller  # noqa: SLF001

    # Opening and planning

    def new(
        self,
        slug: str,
        mode: str = "development",
        *,
        task: str | None = None,
        domain: str | None = None,
        outcome: str | None = None,
        done_when: Sequence[str] = (),
        constraints: Sequence[str] = (),
        notes: str | None = None,
        inherit: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """Opens a loop with its pages, or goes on with the active one of this name."""
        check_slug(slug)
        if mode not in MODES:
            raise Refused(
                "invalid",
                f"loop new: there is no mode {mode[:40]!r}, only {' and '.join(MODES)}",
                f"holdfast loop new {slug} --mode {MODES[0]}",
            )
        told: Fields = {
            "domain": domain, "outcome": outcome, "done_when": list(done_when),
            "constraints": list(constraints), "notes": notes,
        }  # fmt: skip
        context = {key: value for key, value in told.items() if value}
        openings.check_context(slug, task or slug, context)
        with self._caller.locked():
            openings.make_room(self._engine, self._caller, slug, mode)
        receipt = self._keeper.start(
            f"loop-{mode}", slug, title=task or slug, context=context, id=id
        )
        try:
            with self._caller.locked():
                receipt.state = openings.inherited(self._engine, receipt, inherit=inherit)
                receipt.state, seen = edits.take_in(self._engine, receipt.state)
                files.write_pages(self._engine, receipt.state, seen=seen)
                return self._with_notes(receipt)
        except Fault as fault:
            receipt.notes.append(f"the loop is open; its pages follow: {fault.message}")
            return receipt

    def plan(
        self,
        slug: str | None,
        unit: str,
        *,
        criteria: str | None = None,
        files: Sequence[str] = (),
        max: int | None = None,
        depends: Sequence[str] | None = None,
        model: str | None = None,
        output: str | None = None,
        verify: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Plans a unit, ``T1: title``, or says anew what it is about."""
        workflow = self._named(slug)
        mode = self._glanced(self._keeper.show(workflow=workflow))["recipe"].get("mode")
        name, title = unit_of(unit, "R" if mode == "knowledge" else "T")
        args: Fields = {
            "task": name, "description": title or None, "criteria": criteria,
            "files": list(files) or None, "max_iterations": max,
            "depends": None if depends is None else list(depends),
            "model": model, "output": output, "verify": verify,
        }  # fmt: skip
        return self._do(workflow, "plan_unit", args, id)

    # Units

    def iterate(
        self,
        unit: str,
        *,
        did: str,
        remaining: str | None = None,
        blockers: str | None = None,
        commit: str | None = None,
        signal: str | None = None,
        blocked: str | None = None,
        slug: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Records an iteration; with the unit's signal it goes on to be confirmed.

        ``blocked`` says why it cannot go on at all: both are recorded, or nothing.
        """
        plain = signal.removeprefix("<signal>").removesuffix("</signal>") if signal else signal
        args = {
            "task": unit, "did": did, "remaining": remaining, "blockers": blockers,
            "commit": commit, "signal": plain, "blocked": blocked,
        }  # fmt: skip
        receipt = self._do(slug, "record_iteration", args, id)
        task = find_task(receipt.state, unit)
        if task is not None and task["status"] == "timeout":
            receipt.notes.append(f"{unit} has used {units.allowed(task)}: {units.CHOICES}")
        return receipt

    def confirm(
        self, unit: str, *, issues: str | None = None, slug: str | None = None,
        id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records the pass that confirms a unit: clean, or with what it found."""
        return self._do(slug, "confirm_unit", {"task": unit, "found": issues}, id)

    def verify(
        self, unit: str, *, failed: str | None = None, evidence: Fields | None = None,
        slug: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records a unit's verification: passed, or why not."""
        args = {"task": unit, "found": failed, "evidence": evidence}
        return self._do(slug, "verify_unit", args, id)

    def run_verification(
        self, unit: str, command: Sequence[str] = (), *, timeout: str | None = None,
        slug: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Runs what verifies a unit, its own command unless another is given, and records it."""
        from holdfast.loops import verification

        repeated = None if id is None else self._caller.reading(lambda: self._caller.once(id))
        if repeated is not None:
            return repeated
        state = self._glanced(self.show(slug))
        evidence, failed = verification.run(self._keeper, state, unit, list(command), timeout)
        return self.verify(unit, failed=failed, evidence=evidence, slug=state["id"], id=id)

    def block(
        self, unit: str, reason: str, *, slug: str | None = None, id: str | None = None
    ) -> Receipt:
        """Says that a unit cannot go on, and why; the next one is free."""
        return self._do(slug, "block_task", {"task": unit, "reason": reason}, id)

    def unblock(self, unit: str, *, slug: str | None = None, id: str | None = None) -> Receipt:
        """Lets a blocked unit go on."""
        return self._do(slug, "unblock_unit", {"task": unit}, id)

    def extend(
        self, unit: str, max: int, *, slug: str | None = None, id: str | None = None
    ) -> Receipt:
        """Allows a unit more iterations."""
        return self._do(slug, "extend_unit", {"task": unit, "max_iterations": max}, id)

    def guardrail(
        self, *, when: str, problem: str, solution: str, name: str | None = None,
        learned: str | None = None, slug: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Adds a lesson that every later iteration is told."""
        workflow = self._named(slug)
        first = problem.strip().splitlines() or ["lesson"]
        args = {
            "name": name or first[0][:60], "when": when, "problem": problem,
            "solution": solution, "learned": learned or self._learned_in(workflow),
        }  # fmt: skip
        return self._do(workflow, "add_guardrail", args, id)

    def _learned_in(self, workflow: str) -> str | None:
        state = self._glanced(self._keeper.show(workflow=workflow))
        task = find_task(state, state.get("current_task"))
        return f"{task['id']} iteration {task.get('iterations_used', 0)}" if task else None

    def phase(self, name: str, *, slug: str | None = None, id: str | None = None) -> Receipt:
        """Moves the loop's own phase by hand."""
        if name == "complete":
            raise Refused(
                "invalid",
                "loop phase: a loop is complete when it is in the archive",
                "holdfast loop archive",
            )
        args: Fields = {"phase": name, "fields": {}, "branch": self._keeper.workspace.branch()}
        return self._do(slug, "start_phase", args, id)

    # Looking

    def show(self, slug: str | None = None) -> Receipt:
        """The loop's state, after edits of its pages were taken in."""
        workflow = self._named(slug)
        try:
            with self._caller.locked():
                state, seen = self._current(workflow)
                if is_active(state):
                    files.write_pages(self._engine, state, seen=seen)
                else:
                    archive.settle(self._engine, state)
                return Receipt(state, [], self._caller.notes())
        except Fault as fault:
            if fault.code != "not_writable":
                raise
            return self._keeper.show(workflow=workflow)

    def all(self) -> tuple[list[Workflow], list[str]]:
        """The active loops, and what was noticed."""
        rows, notes = self._keeper.workflows()
        found = [self.show(row["id"]) for row in rows if row["format"] == "loop"]
        return [one.state for one in found], [*notes, *(n for one in found for n in one.notes)]

    def opening(self) -> tuple[str, str]:
        """What is said where no loop is active, and the command: a folder may be left of one."""
        found = files.unknown(self._engine)
        if not found:
            return "no loop is active here", "holdfast loop new SLUG"
        folder = f"{files.HOME}/{found[0]}"
        return (
            f"no loop is active here; {folder} has the log of one",
            f"holdfast loop rebuild {found[0]}",
        )

    def next(self, slug: str | None = None) -> tuple[Fields, list[str]]:
        """What to do now, for the unit that is moving or the first that is ready; and notes."""
        receipt = self.show(slug)
        if not is_active(receipt.state):
            raise Refused(
                "ended",
                f"loop next: {receipt.state['id']} has ended ({receipt.state['status']})",
                f"holdfast resume {receipt.state['id']}",
            )
        return turns.ahead(receipt.state, is_named=slug is not None), receipt.notes

    # Driving and ending

    def run(
        self,
        slug: str,
        command: Sequence[str],
        *,
        verify: str | None = None,
        timeout: str | None = None,
        tell: Callable[[Workflow, Task, str], None] = lambda *_: None,
    ) -> Fields:
        """Drives the loop with a worker until it is done, stuck, or nothing is ready."""
        from holdfast.loops.driver import Driver

        return Driver(self, self._keeper, slug, list(command), verify, timeout).drive(tell)

    def archive(self, slug: str | None = None, *, id: str | None = None) -> Receipt:
        """Moves the loop's folder into the archive; an unfinished one too, and says so."""
        workflow = self._named(slug)
        with self._caller.locked():
            repeated = self._caller.once(id)
            if repeated is not None:
                archive.settle(self._engine, repeated.state)
                return repeated
            self._engine.settle_last(workflow)
            state, _ = self._current(workflow)
            receipt = archive.archive(self._engine, self._caller, state, id)
        left = [str(t["id"]) for t in state["tasks"] if t["status"] != "completed"]
        if left:
            receipt.notes.append(f"it was not finished: {', '.join(left)}")
        return receipt

    def rebuild(self, slug: str | None = None) -> Receipt:
        """Makes the state anew from the pages and git; what does not agree is logged."""
        from holdfast.loops import recovery

        name = self._only_folder() if slug is None else slug
        check_slug(name)
        with self._caller.locked():
            return recovery.rebuild(self._engine, self._caller, name)

    # How

    def _do(self, slug: str | None, kind: str, args: Fields, id: str | None) -> Receipt:
        workflow = self._named(slug)
        with self._caller.locked():
            repeated = self._caller.once(id)
            if repeated is not None:
                return repeated
            self._engine.settle_last(workflow)
            state, seen = self._current(workflow)
            receipt = self._caller.record(state, kind, args, id)
            files.write_pages(self._engine, receipt.state, seen=seen)
            return self._with_notes(receipt)

    def _glanced(self, receipt: Receipt) -> Workflow:
        """The state of a look on the way to an answer, which tells what that look noticed too."""
        self._engine.notes += receipt.notes
        return receipt.state

    def _with_notes(self, receipt: Receipt) -> Receipt:
        """The receipt with what was noticed since; in the list that the lock's end adds to."""
        notes = self._caller.notes()
        notes[:0] = receipt.notes
        receipt.notes = notes
        return receipt

    def _current(self, workflow: str) -> tuple[Workflow, str | None]:
        """The state with what people changed on the pages; the page of units, if all was taken."""
        state = self._caller.current(self._caller.position(workflow))
        if state["recipe"]["format"] != "loop":
            raise Refused(
                "invalid",
                f"{state['id']} is no loop but a workflow of {state['recipe']['name']}",
                f"holdfast show {state['id']}",
            )
        return edits.take_in(self._engine, state) if is_active(state) else (state, None)

    def _named(self, slug: str | None) -> str:
        if slug is not None:
            self._engine.refresh()
            if self._engine.position(slug) is None:
                check_slug(slug)
            return slug
        listed, notes = self._keeper.workflows()
        self._engine.notes += notes
        rows = [row for row in listed if row["format"] == "loop" and row["status"] in choice.ACTIVE]
        if len(rows) == 1:
            return str(rows[0]["id"])
        if not rows:
            raise Refused("not_found", *self.opening())
        picked = self._caller.chosen(rows)
        if isinstance(picked, Refusal):
            names = choice.listed([str(row["id"]) for row in rows])
            hint = f"name one: -w {rows[0]['id']}"
            raise Refused("ambiguous", f"several loops are active: {names}", hint)
        return str(picked["id"])

    def must_name(self, state: Workflow) -> bool:
        """Whether a command about loops must name this one: another is the caller's, or none."""
        try:
            listed, _ = self._keeper.glance()
        except (OSError, HoldfastError):
            return True  # It is never wrong to name it, and what was asked for is done.
        rows = [row for row in listed if row["format"] == "loop" and row["status"] in choice.ACTIVE]
        picked = rows[0] if len(rows) == 1 else self._caller.chosen(rows)
        return isinstance(picked, Refusal) or picked["id"] != state["id"]

    def _only_folder(self) -> str:
        found = files.folders(self._engine.workspace.root)
        if len(found) == 1:
            return found[0]
        raise Refused(
            "ambiguous" if found else "not_found",
            f"loops with a folder here: {', '.join(found) or 'none'}",
            "holdfast loop rebuild SLUG",
        )
