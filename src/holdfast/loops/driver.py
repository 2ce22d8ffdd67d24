"""``loop run``: drive a loop with a worker process, turn by turn.

A turn is recorded when it is over: after a kill, the next run takes the same turn again, and none
is lost or counted twice. The driver and its worker hold a lock of the loop, so that no other run
begins while a worker that outlived its driver is still at work.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.next_step import next_words, stuck_units, turn_of
from holdfast.core.refusal import word
from holdfast.core.workflow.state import find_task, is_active
from holdfast.core.workflow.tasks import limit_of
from holdfast.errors import Fault, Refused
from holdfast.evidence import git
from holdfast.evidence.run import run as run_command
from holdfast.keeper.loop_folder import folder_of
from holdfast.loops import page_files, pages, prompts, verification

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.evidence.run import Outcome
    from holdfast.keeper.session import Receipt
    from holdfast.keeper.store import Store
    from holdfast.loops.loops import Loops

    Tell = Callable[[Workflow, Task, str], None]


class Driver:
    """One run of a loop with one worker. Raises ``Refused`` for an empty command."""

    def __init__(
        self,
        loops: Loops,
        store: Store,
        slug: str,
        command: list[str],
        verify: str | None,
        limit: str | None,
    ) -> None:
        if not command or not command[0].strip():
            hint = f"holdfast loop run {slug} -- COMMAND"
            raise Refused("invalid", "loop run: the worker's command is empty", hint)
        self._seconds = verification.seconds_of(limit)
        self._loops = loops
        self._disk = store.disk
        self._workspace = store.workspace
        self._wait_s = store.wait_s
        self._slug = slug
        self._command = command
        self._verify = verify
        self._root = ""
        self._folder = os.path.join(store.workspace.home, "driven")
        self._held = -1
        self._notes: list[str] = []

    def drive(self, tell: Tell) -> Fields:
        """Take turns until every unit is done, one is stuck, or none is ready.

        Return what ``loop run`` reports.
        """
        state = self._settle()
        self._check(state)
        self._root = page_files.worktree_root(self._workspace, state, "loop run")
        self._held = self._hold()
        try:
            return self._drive(tell)
        finally:
            self._disk.close(self._held)

    def _drive(self, tell: Tell) -> Fields:
        state = self._settle()
        known, count = stuck_units(state), 0
        while True:
            task, turn = turn_of(state)
            is_stuck = bool(stuck_units(state).keys() - known.keys())
            if task is None or is_stuck or not is_active(state):
                return self._ended(state, count)
            tell(state, task, turn)
            try:
                _TURNS[turn](self, state, task)
                count += turn != "timeout"
            except Refused as refused:
                if refused.code != "wrong_order":
                    raise
                # Another process changed the unit while the worker ran: its change counts.
                self._say([f"not recorded: {refused.message}"])
            state = self._settle()

    def _check(self, state: Workflow) -> None:
        """Raise ``Refused`` if something would stop the run later."""
        if not is_active(state):
            raise Refused(
                "ended",
                f"loop run: {state['id']} has ended ({state['status']})",
                f"holdfast resume {state['id']}",
            )
        folder = folder_of(self._workspace, state)
        text = page_files.read_page(self._disk, folder, page_files.CONTEXT) if folder else ""
        count = pages.count_words(text)
        if count >= pages.MAX_CONTEXT_WORDS:
            hint = f"shorten it, then: holdfast loop run {state['id']} -- COMMAND"
            raise Refused("invalid", f"loop run: {page_files.too_many_words(count)}", hint)
        if self._verify is None:
            for task in state["tasks"]:
                if task["status"] != "completed":
                    verification.own_command(self._workspace, state, task)

    def _hold(self) -> int:
        """Take the lock of the loop, which workers inherit; raise a ``Fault`` if it is busy."""
        self._disk.make_folder(self._folder, 0o700)
        path = os.path.join(self._folder, f"{self._slug}.lock")
        try:
            # The worker of a killed run may need a moment to end.
            return self._disk.lock(path, self._wait_s)
        except Fault as fault:
            if fault.code != "busy":
                raise
            raise Fault(
                "busy",
                f"loop run: {self._slug} is driven by another process, or a worker of a run that "
                "was killed is still at it, or what a worker started and left running",
                "wait for it or end it, then run the same command again",
            ) from fault

    # Turns

    def _iterate(self, state: Workflow, task: Task) -> None:
        before = self._begun_at(state, task)
        outcome = self._work(prompts.prompt(state, task, "iterate"))
        work = prompts.parse_work(task, outcome.output, outcome.exit_code)
        after = git.head(self._root)
        if after is not None and after != before:
            work["commit"] = after[:12]
        self._record(self._loops.iterate(str(task["id"]), slug=self._slug, **work))

    def _begun_at(self, state: Workflow, task: Task) -> str | None:
        """Return the commit at which this turn was first begun, or ``None`` without git.

        After a kill the same turn is taken again; it includes what the killed worker committed.
        """
        head = git.head(self._root)
        turn = [state["created_at"], state["worktree"], task["id"], task.get("iterations_used", 0)]
        path = os.path.join(self._folder, f"{self._slug}.json")
        try:
            kept = json_text.loads(self._disk.read_own(path) or b"{}", strict=True)
        except json_text.BadJson:
            kept = {}
        match kept:
            case {"turn": same, "head": str(begun)} if (
                same == turn and head is not None and git.is_descendant(self._root, head, begun)
            ):
                return begun
        line = json_text.line_of({"turn": turn, "head": head})
        self._disk.replace_view(path, line.encode())
        return head

    def _time_out(self, _state: Workflow, task: Task) -> None:
        """Record the iteration after the last allowed one; no worker is run for it."""
        did = f"stopped at the maximum of {limit_of(task)} iterations"
        remaining = str(task.get("remaining") or "the criteria are not met yet")
        receipt = self._loops.iterate(
            str(task["id"]), did=did, remaining=remaining, slug=self._slug
        )
        self._record(receipt)

    def _confirm(self, state: Workflow, task: Task) -> None:
        outcome = self._work(prompts.prompt(state, task, "confirm"))
        issues = prompts.parse_verdict(task, outcome.output, outcome.exit_code)
        self._record(self._loops.confirm(str(task["id"]), issues=issues, slug=self._slug))

    def _check_unit(self, state: Workflow, task: Task) -> None:
        command = self._verification(state, task)
        evidence: Fields | None = None
        if command is None:
            outcome = self._work(prompts.prompt(state, task, "verify"))
            failed = prompts.parse_verdict(task, outcome.output, outcome.exit_code)
        else:
            evidence, failed = verification.evidence_of(command, self._run(command, b""))
        receipt = self._loops.verify(
            str(task["id"]), failed=failed, evidence=evidence, slug=self._slug
        )
        self._record(receipt)

    def _verification(self, state: Workflow, task: Task) -> str | None:
        """Return the unit's own command if it is approved, else the one from the command line."""
        try:
            own = verification.own_command(self._workspace, state, task)
        except Refused:
            if self._verify is None:
                raise
            own = None
        return own or self._verify

    def _work(self, text: str) -> Outcome:
        outcome = self._run(self._command, text.encode())
        if not outcome.started:
            raise Refused(
                "not_started",
                f"loop run: {self._command[0][:80]} could not be started: {outcome.why}",
                "check the command after --",
            )
        return outcome

    def _run(self, command: list[str] | str, given: bytes) -> Outcome:
        return run_command(
            command, self._root, limit_s=self._seconds, stdin=given, lock_fds=(self._held,)
        )

    # Reporting

    def _settle(self) -> Workflow:
        """Take in the edits of the pages, which the next prompt and the worker use."""
        receipt = self._loops.settle(self._slug)
        self._record(receipt)
        state: Workflow = receipt.state
        return state

    def _record(self, receipt: Receipt) -> None:
        self._say(receipt.notes)

    def _say(self, notes: list[str]) -> None:
        self._notes += [note for note in notes if note not in self._notes]

    def _ended(self, state: Workflow, count: int) -> Fields:
        done = [str(t["id"]) for t in state["tasks"] if t["status"] == "completed"]
        left = [str(t["id"]) for t in state["tasks"] if t["status"] != "completed"]
        return {
            "loop": state["id"],
            "turns": count,
            "done": done,
            "left": left,
            "stuck": stuck_units(state),
            "finished": bool(done) and not left,
            "next": self._next(state),
            "notes": self._notes,
        }

    def _next(self, state: Workflow) -> str:
        """Return the next command, with the name of the loop."""
        words = next_words(state)[1]
        return " ".join(["holdfast", *map(word, words), "-w", word(state["id"])])


_TURNS = {
    "iterate": Driver._iterate,  # noqa: SLF001
    "timeout": Driver._time_out,  # noqa: SLF001
    "confirm": Driver._confirm,  # noqa: SLF001
    "verify": Driver._check_unit,  # noqa: SLF001
}


def bar(state: Workflow, task: Task, turn: str, width: int = 24) -> str:
    """Return the progress in one line: ``[######------] 3/6 units, T4 iterate 2/5``."""
    done = sum(t["status"] == "completed" for t in state["tasks"])
    total = len(state["tasks"])
    filled = width * done // total if total else 0
    current = find_task(state, task["id"]) or task
    number = current.get("iterations_used", 0) + (turn == "iterate")
    picture = "#" * filled + "-" * (width - filled)
    return f"[{picture}] {done}/{total} units, {task['id']} {turn} {number}/{limit_of(current)}"
