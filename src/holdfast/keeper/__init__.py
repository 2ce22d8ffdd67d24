"""The keeper: the library's face. What the command line can do, a method here can.

Each method makes one command and hands it to its ``Caller``, or looks at what is there.
"""

from __future__ import annotations

import time

from holdfast.core.workflow import folder_mode
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.keeper.beside import Beside
from holdfast.keeper.evidence import Evidence, plain
from holdfast.keeper.repeats import fingerprint
from holdfast.keeper.session import Receipt, Session
from holdfast.keeper.store import Store
from holdfast.system.disk import Disk
from holdfast.workspace import location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.types import Event, Fields, Workflow

__all__ = ["Keeper", "Receipt"]

LOCK_WAIT_S = 10.0
FOLLOW_EVERY_S = 0.2
MAX_SESSION = 200
MAX_LISTED = 200
"""How many active workflows a listing has, unless all are asked for."""


class Keeper(Evidence, Beside):
    """A workspace, opened by one caller. Methods raise ``Refused`` and ``Fault``."""

    def __init__(
        self,
        path: str = ".",
        *,
        session: str | None = None,
        pid: int | None = None,
        by: str = "library",
        clock_ms: Callable[[], int] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        disk: Disk | None = None,
        wait_s: float | None = None,
        share: Keeper | None = None,
    ) -> None:
        """Open the workspace that ``path`` is in.

        ``share`` is an earlier keeper of the same thread, whose open ledger is used again if it is
        the same repository's.
        """
        self.workspace = location.find(path)
        self.workspace.check_home()
        self.session = _checked_session(session)
        who: Fields = {"surface": by}
        if self.session:
            who["session"] = self.session
        wait = LOCK_WAIT_S if wait_s is None else wait_s
        ledger = None
        if share is not None and share.workspace.home == self.workspace.home:
            ledger = share.store.ledger
        self.store = Store(
            self.workspace, disk or Disk(), clock_ms or _system_clock_ms, sleep, who, wait, ledger
        )
        self._session = Session(self.store, self.session, pid)
        if self.workspace.has_old_ledger():
            from holdfast.keeper.upgrade import upgrade

            upgrade(self._session)

    # Opening and ending

    def start(
        self,
        recipe: str,
        subject: str | None = None,
        *,
        title: str | None = None,
        tasks: Sequence[str] = (),
        phases: Sequence[str] = (),
        reading: Sequence[str] = (),
        reminders: Sequence[str] = (),
        context: Fields | None = None,
        branch: str | None = None,
        ttl: str | None = None,
        replace: bool = False,
        initiative: str | None = None,
        milestone: str | None = None,
        workflow: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Opens a workflow, or resumes the active one of the same recipe and subject."""
        from holdfast.keeper import start

        if workflow is not None:
            raise Refused("invalid", "start makes its own id", "holdfast resume ID")
        request = start.Request(
            recipe, subject, title, list(tasks), list(phases), list(reading), list(reminders),
            plain(context or {}), branch, ttl, initiative, milestone,
        )  # fmt: skip
        wanted = start.prepare(self._session, request)
        asked = fingerprint("start", {"recipe": recipe, "subject": subject})
        with self._session.transaction() as tx:
            repeated = self._session.repeat(tx, id, asked=asked)
            if repeated is not None:
                return repeated
            return start.carry_out(self._session, tx, wanted, replace=replace, id=id)

    def resume(self, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Binds a workflow to this session and worktree, and brings back one that had ended."""
        from holdfast.keeper import cleanup

        asked = fingerprint("resume", {"workflow": workflow})
        with self._session.transaction() as tx:
            repeated = self._session.repeat(tx, id, asked=asked)
            if repeated is not None:
                return repeated
            stream = self._to_resume(tx, workflow)
            state: Workflow = tx.state(stream)
            if workflow is None and not is_active(state):
                hint = f"holdfast resume {state['id']}"
                raise Refused("ended", f"resume: {state['id']} has expired", hint)
            args: Fields = {"worktree": self.workspace.name, **self._session.binding(tx, state)}
            moves = state["worktree"] != self.workspace.name
            if state["recipe"]["format"] == "loop" and (moves or not is_active(state)):
                from holdfast.loops.archive import bring_here

                args["record"] = bring_here(tx, state)
            if moves:
                args["branch"] = self.workspace.branch()
                self.store.note(f"{state['id']} moved here, to branch {args['branch']}")
            if moves or not is_active(state):
                from holdfast.keeper import start

                start.check_slot(self._session, tx, state["recipe"]["format"], state["id"])
            receipt = self._session.record(tx, stream, "resume_workflow", args, id)
            receipt.resumed = True
            cleanup.clean_at_times(self._session, tx)
        return self._beside_tree(receipt)

    def complete(
        self,
        outcome: str | None = None,
        *,
        force: bool = False,
        reason: str | None = None,
        workflow: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Ends a workflow; refused while something is pending, unless forced with a reason."""
        args: Fields = {"outcome": outcome, "force": force, "reason": reason}
        repeated = self._repeated(id, fingerprint("complete_workflow", args))
        if repeated is not None:
            return repeated
        state = self._session.look(workflow)
        args["tree"] = self._tree_of(state)
        following = folder_mode.following(state)
        if following is not None:
            from holdfast.keeper import start

            args["next_title"] = start.title_of(self.workspace.root, following)
        receipt = self.do("complete_workflow", args, workflow=state["id"], id=id)
        receipt.signal = folder_mode.signal(state)
        return receipt

    def abandon(
        self, reason: str | None = None, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Ends a workflow that will not be finished; ``resume`` brings it back."""
        return self.do("abandon_workflow", {"reason": reason}, workflow=workflow, id=id)

    # Phases, steps, tasks, notes

    def advance(
        self, *, force: bool = False, reason: str | None = None,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Completes the current phase and starts the next; violations are passed by force alone."""
        return self._phase("advance", None, None, workflow, id, force=force, reason=reason)

    def start_phase(
        self, name: str, fields: Fields | None = None, *, force: bool = False,
        reason: str | None = None, workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Enters a phase, or says more about the one in progress."""
        return self._phase("start_phase", name, fields, workflow, id, force=force, reason=reason)

    def complete_phase(
        self, name: str, fields: Fields | None = None, *, force: bool = False,
        reason: str | None = None, workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Completes the current phase by its name and starts the next."""
        return self._phase("complete_phase", name, fields, workflow, id, force=force, reason=reason)

    def block_phase(
        self, name: str, fields: Fields | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Says that the current phase cannot go on; ``fields`` may hold a ``reason``."""
        return self._phase("block_phase", name, fields, workflow, id)

    def unblock_phase(
        self, name: str, fields: Fields | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Says that the blocked phase goes on."""
        return self._phase("unblock_phase", name, fields, workflow, id)

    def approve_phase(
        self, name: str, fields: Fields | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Records a person's approval of a phase."""
        return self._phase("approve_phase", name, fields, workflow, id)

    def _phase(
        self, kind: str, name: str | None, fields: Fields | None,
        workflow: str | None, id: str | None, **forced: object,
    ) -> Receipt:  # fmt: skip
        args: Fields = {"branch": self.workspace.branch(), "fields": plain(fields or {}), **forced}
        if name is not None:
            args["phase"] = name
        return self.do(kind, args, workflow=workflow, id=id)

    def start_step(
        self, name: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Enters a step of the current phase."""
        return self.do("start_step", {"step": name}, workflow=workflow, id=id)

    def add_task(self, text: str, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Adds a task at the end."""
        return self.do("add_task", {"description": text}, workflow=workflow, id=id)

    def start_task(
        self, task: int | str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Starts a task, or a blocked one again."""
        return self.do("start_task", {"task": task}, workflow=workflow, id=id)

    def complete_task(
        self, task: int | str, commit: str | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Completes a task, with the commit that holds it; of a branch or HEAD, its commit now."""
        args: Fields = {"task": task, "commit": self.workspace.commit_named(commit)}
        receipt = self.do("complete_task", args, workflow=workflow, id=id)
        if commit and self.workspace.git and not location.is_commit(args["commit"]):
            receipt.notes.append(f"{commit[:40]!r} is not the id of a commit; it was kept as it is")
        return receipt

    def start_task_phase(
        self, task: int | str, phase: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Enters a phase of a task (red, green, refactor); the earlier ones are completed."""
        return self.do("start_task_phase", {"task": task, "phase": phase}, workflow=workflow, id=id)

    def block_task(
        self, task: int | str, reason: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Says that a task cannot go on, and why."""
        return self.do("block_task", {"task": task, "reason": reason}, workflow=workflow, id=id)

    def remind(self, text: str, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Adds a reminder that every briefing repeats."""
        return self.do("add_reminder", {"text": text}, workflow=workflow, id=id)

    def require_reading(
        self, path: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Adds a file, as ``@path``, that must be read first after a compaction."""
        from holdfast.keeper import start

        start.check_reading(self.store, [path])
        return self.do("require_reading", {"path": path}, workflow=workflow, id=id)

    def set_context(
        self, fields: Fields, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Sets context variables."""
        return self.do("set_context", {"values": plain(fields)}, workflow=workflow, id=id)

    # Reading

    def briefing(self, *, workflow: str | None = None, state: Workflow | None = None) -> str:
        """What a session that goes on with the workflow must know; of a receipt's state as well."""
        from holdfast.core.briefing import briefing

        if state is None:
            state = self.show(workflow=workflow).state
        branch = self.workspace.branch()
        pushed = self._pushed(state, branch)
        inside = [path for path in state["required_reading"] if self.workspace.contains(path[1:])]
        outside = len(state["required_reading"]) - len(inside)
        told: Workflow = {**state, "required_reading": inside}
        is_named = self.must_name(state)
        return briefing(told, self.store.now(), branch, pushed, outside, is_named=is_named)

    def workflows(self, *, every: bool = False) -> tuple[list[Fields], list[str]]:
        """A row for each active workflow, newest activity first, and what was noticed."""
        from holdfast.keeper import overview

        rows = overview.active(self.store, None if every else MAX_LISTED)
        return rows, self.store.take_notes()

    def log(self, *, workflow: str | None = None, limit: int | None = None) -> list[Event]:
        """Events in order: of one workflow, or of the whole workspace; the newest ``limit``."""
        return list(self.events(workflow=workflow, limit=limit))

    def events(self, *, workflow: str | None = None, limit: int | None = None) -> Iterator[Event]:
        """The same one by one, however many there are."""
        ledger = self.store.ledger
        if workflow is not None and ledger.stream(workflow) is None:
            self._session.look(workflow)
        if limit is None:
            return ledger.events(workflow)
        return iter(list(ledger.newest(workflow, limit))[::-1])

    def follow(self, *, workflow: str | None = None, after: int = 0) -> Iterator[Event]:
        """Events after a seq, and then those to come, for ever."""
        while True:
            for event in self.store.ledger.events(workflow, after=after):
                after = event["seq"]
                yield event
            self.store.pause(FOLLOW_EVERY_S)


def _checked_session(session: str | None) -> str | None:
    """A session's id; an empty one is nobody's."""
    if session and (len(session) > MAX_SESSION or not session.isprintable()):
        raise Refused(
            "invalid",
            f"the session id {session[:40]!r} is not printable text of up to {MAX_SESSION} letters",
            "give the client's own session id",
        )
    return session or None


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000
