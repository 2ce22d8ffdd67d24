"""The keeper: the one loop through which every change goes, and the library's face.

    lock -> read -> decide -> append (fsync) -> evolve -> show -> unlock

Readers take no lock unless they find something to mend. What the command line can do, a method
here can.
"""

from __future__ import annotations

import os
import time

from holdfast import workspace as workspaces
from holdfast.core import choice, moment
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.state import is_active
from holdfast.disk import Disk
from holdfast.engine import Engine, NeedsLock
from holdfast.errors import Fault, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.audit import Report
    from holdfast.core.shapes import Event, Fields, Session, Workflow
    from holdfast.engine import Position

LOCK_WAIT_S = 10.0
SESSION_LIVES = "1h"
"""How long a session whose process is unknown counts as live after its last word."""
FOLLOW_EVERY_S = 0.2
MANY = 200
"""Up to so many active workflows a listing opens every record; beyond, only those in motion."""


class Receipt:
    """What the keeper answers: the state, the events that were recorded, and what was noticed."""

    __slots__ = ("notes", "resumed", "seqs", "state")

    def __init__(
        self, state: Workflow, seqs: list[int], notes: list[str], *, resumed: bool = False
    ) -> None:
        self.state = state
        self.seqs = seqs
        self.notes = notes
        self.resumed = resumed


class Keeper:
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
        wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self.workspace = workspaces.find(path)
        self.session = session or None
        self.pid = pid
        self._wait_s = wait_s
        self._sleep = sleep
        self._disk = disk or Disk()
        who: Fields = {"surface": by}
        if self.session:
            who["session"] = self.session
        self._engine = Engine(
            self.workspace, self._disk, clock_ms or _system_clock_ms, sleep, who
        )

    # The loop

    def do(
        self, kind: str, args: Fields, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Carries out one command on one workflow: the way every change goes."""
        with self._locked():
            if id is not None:
                repeated = self._repeated(id)
                if repeated is not None:
                    return repeated
            position = self._position(workflow)
            self._engine.settle_last(position.stream)
            state = self._current(position)
            return self._record(state, kind, args, id)

    def _record(self, state: Workflow, kind: str, args: Fields, id: str | None) -> Receipt:
        drafts = self._engine.decide(state, kind, args)
        if not drafts:
            return Receipt(state, [], self._notes())
        after, events = self._engine.commit(state["id"], state, drafts, event_id=id)
        self._engine.close_full_segment()
        return Receipt(after, [event["seq"] for event in events], self._notes())

    def _current(self, position: Position) -> Workflow:
        """The state, after its time to live was looked at."""
        state = self._engine.load(position)
        if self._is_expired(state):
            self._engine.needs_lock()
            state = self._expire(state)
        return state

    def _is_expired(self, row: Fields | Workflow) -> bool:
        return (
            row["status"] in choice.ACTIVE
            and row["ttl"] is not None
            and moment.is_past(self._engine.now(), row["updated_at"], row["ttl"])
        )

    def _expire(self, state: Workflow) -> Workflow:
        drafts = self._engine.decide(state, "expire_workflow", {})
        self._engine.note(
            f"{state['id']} has expired (inactive > {state['ttl']}); "
            f"holdfast resume {state['id']} brings it back"
        )
        return self._engine.commit(state["id"], state, drafts)[0]

    def _repeated(self, event_id: str) -> Receipt | None:
        """The answer to a command that was carried out before, under the same id."""
        events = self._engine.ledger.find(event_id)
        if not events:
            return None
        position = self._engine.position(events[0]["stream"])
        if position is None:
            return None
        state = self._engine.load(position)
        self._engine.note(f"{event_id} was recorded before; nothing was recorded again")
        return Receipt(state, [event["seq"] for event in events], self._notes())

    def _locked(self) -> _Locked:
        return _Locked(self._engine, self._disk, self._wait_s)

    def _notes(self) -> list[str]:
        notes, self._engine.notes = self._engine.notes, []
        return notes

    def _reading(self, look: Callable[[], Receipt]) -> Receipt:
        """Looks without the lock; with it when there is something to mend."""
        self._engine.refresh()
        try:
            return look()
        except NeedsLock:
            with self._locked():
                return look()

    # Which workflow

    def _position(self, workflow: str | None) -> Position:
        found = self._engine.position(workflow) if workflow else self._mine()
        if found is None and workflow:
            self._discover()
            found = self._engine.position(workflow)
        if found is None:
            known = [row["id"] for row in self._rows() if row["status"] in choice.ACTIVE]
            raise Refused(
                "not_found",
                f"there is no workflow {str(workflow)[:80]!r}"
                + (f"; active are {', '.join(known[:10])}" if known else ""),
                "holdfast status",
            )
        return found

    def _mine(self) -> Position | None:
        rows = self._rows()
        picked = choice.choose(rows, self._asker(), self._live(rows))
        if isinstance(picked, Refusal) and self._discover():
            rows = self._rows()
            picked = choice.choose(rows, self._asker(), self._live(rows))
        if isinstance(picked, Refusal):
            raise Refused(picked.code, picked.message, picked.hint, **picked.details)
        return self._engine.position(picked["id"])

    def _asker(self) -> choice.Asker:
        return choice.Asker(
            self.session, self.pid, self.workspace.name, self.workspace.branch()
        )

    def _live(self, rows: list[Fields]) -> set[str]:
        now = self._engine.now()
        live = set()
        for row in rows:
            held = row["session"]
            if held and "pid" in held:
                is_live = os.path.exists(f"/proc/{held['pid']}")
            else:
                is_live = bool(held) and not moment.is_past(now, row["updated_at"], SESSION_LIVES)
            if is_live:
                live.add(held["id"])
        return live

    def _rows(self) -> list[Fields]:
        return self._engine.rows()

    def _discover(self) -> bool:
        """Takes in records that Holdfast does not know yet; says whether there were any."""
        from holdfast import discovery

        return discovery.discover(self._engine)

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
        workflow: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Opens a workflow, or resumes the active one of the same recipe and subject."""
        from holdfast import opening

        if workflow is not None:
            raise Refused("invalid", "start makes its own id", "holdfast resume ID")
        request = opening.Request(
            recipe, subject, title, list(tasks), list(phases), list(reading), list(reminders),
            context or {}, branch, ttl,
        )  # fmt: skip
        wanted = opening.prepare(self._engine, request, self._bound())
        with self._locked():
            if id is not None:
                repeated = self._repeated(id)
                if repeated is not None:
                    return repeated
            self._engine.settle_last(None)
            existing = opening.place(self._engine, wanted)
            if existing is not None:
                return self._resume_existing(existing)
            drafts = self._engine.decide(wanted.before, "start_workflow", wanted.args)
            state, events = self._engine.commit(
                wanted.id, wanted.before, drafts, event_id=id
            )
            self._engine.close_full_segment()
            return Receipt(state, [event["seq"] for event in events], self._notes())

    def _resume_existing(self, state: Workflow) -> Receipt:
        args = {"session": self._bound()} if self.session else {}
        receipt = self._record(state, "resume_workflow", args, None)
        receipt.resumed = True
        return receipt

    def _bound(self) -> Session | None:
        if not self.session:
            return None
        bound: Session = {"id": self.session, "at": self._engine.now()}
        if self.pid is not None:
            bound["pid"] = self.pid
        return bound

    def resume(self, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Binds a workflow to this session and worktree, and brings back one that had ended."""
        with self._locked():
            if id is not None:
                repeated = self._repeated(id)
                if repeated is not None:
                    return repeated
            position = self._position(workflow)
            self._engine.settle_last(position.stream)
            state = self._engine.load(position)
            args: Fields = {"worktree": self.workspace.name}
            if self.session:
                args["session"] = self._bound()
            if not is_active(state):
                self._check_slot(state)
            receipt = self._record(state, "resume_workflow", args, id)
            receipt.resumed = True
            return receipt

    def _check_slot(self, state: Workflow) -> None:
        from holdfast import opening

        opening.check_slot(self._engine, state["recipe"]["format"], state["id"])

    def complete(
        self,
        outcome: str | None = None,
        force: bool = False,
        reason: str | None = None,
        *,
        workflow: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Ends a workflow; refused while something is pending, unless forced with a reason."""
        args = {"outcome": outcome, "force": force, "reason": reason}
        return self.do("complete_workflow", args, workflow=workflow, id=id)

    def abandon(
        self, reason: str | None = None, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Ends a workflow that will not be finished; ``resume`` brings it back."""
        return self.do("abandon_workflow", {"reason": reason}, workflow=workflow, id=id)

    # Phases, steps, tasks, notes

    def advance(self, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Completes the current phase and starts the next."""
        return self._phase("advance", None, None, workflow, id)

    def start_phase(
        self, name: str, fields: Fields | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Enters a phase, or says more about the one in progress."""
        return self._phase("start_phase", name, fields, workflow, id)

    def complete_phase(
        self, name: str, fields: Fields | None = None, *,
        workflow: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Completes the current phase by its name and starts the next."""
        return self._phase("complete_phase", name, fields, workflow, id)

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
        workflow: str | None, id: str | None,
    ) -> Receipt:  # fmt: skip
        args: Fields = {"branch": self.workspace.branch(), "fields": fields or {}}
        if name is not None:
            args["phase"] = name
        return self.do(kind, args, workflow=workflow, id=id)

    def start_step(
        self, name: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Enters a step of the current phase."""
        return self.do("start_step", {"step": name}, workflow=workflow, id=id)

    def add_task(
        self, text: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
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
        """Completes a task, with the commit that holds it."""
        return self.do("complete_task", {"task": task, "commit": commit}, workflow=workflow, id=id)

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
        from holdfast import opening

        opening.check_reading(self._engine, [path])
        return self.do("require_reading", {"path": path}, workflow=workflow, id=id)

    def set_context(
        self, fields: Fields, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Sets context variables."""
        return self.do("set_context", {"values": fields}, workflow=workflow, id=id)

    # Reading

    def show(self, *, workflow: str | None = None) -> Receipt:
        """A workflow's state."""
        return self._reading(
            lambda: Receipt(self._current(self._position(workflow)), [], self._notes())
        )

    def briefing(self, *, workflow: str | None = None) -> str:
        """What a session that goes on with the workflow must know."""
        from holdfast.core.briefing import briefing

        state = self.show(workflow=workflow).state
        return briefing(state, self._engine.now(), self.workspace.branch())

    def workflows(self) -> tuple[list[Fields], list[str]]:
        """A row for each active workflow, newest activity first, and what was noticed."""
        self._engine.refresh()
        try:
            rows = self._look_around()
        except NeedsLock:
            with self._locked():
                rows = self._look_around()
        return rows, self._notes()

    def _look_around(self) -> list[Fields]:
        self._discover()
        rows = [row for row in self._rows() if row["status"] in choice.ACTIVE]
        if len(rows) <= MANY:
            rows = self._opened(rows)
        else:
            for row in rows:
                if self._is_expired(row):
                    self._opened([row])
            rows = [row for row in self._rows() if row["status"] in choice.ACTIVE]
        return sorted(rows, key=lambda row: row["updated_at"], reverse=True)

    def _opened(self, rows: list[Fields]) -> list[Fields]:
        """The rows after every record was looked at: an edit is noticed here."""
        from holdfast.layers.catalog import row_of

        fresh = []
        for row in rows:
            position = self._engine.position(row["id"])
            if position is None:
                continue
            state = self._current(position)
            if is_active(state):
                fresh.append(row_of(state, row))  # type: ignore[arg-type]
        return fresh

    def log(self, *, workflow: str | None = None, limit: int | None = None) -> list[Event]:
        """Events in order: of one workflow, or of the whole workspace; the newest ``limit``."""
        self._engine.refresh()
        ledger = self._engine.ledger
        if workflow is not None:
            position = self._position_or_lock(workflow)
            events = list(ledger.scan(position.stream))
            return events[-limit:] if limit else events
        return list(ledger.scan(after=max(0, ledger.head_seq - limit) if limit else 0))

    def _position_or_lock(self, workflow: str) -> Position:
        try:
            return self._position(workflow)
        except NeedsLock:
            with self._locked():
                return self._position(workflow)

    def follow(self, *, workflow: str | None = None, after: int = 0) -> Iterator[Event]:
        """Events after a seq, and then those to come, for ever."""
        seen = after
        while True:
            for event in self._engine.ledger.scan(workflow, after=seen):
                yield event
            seen = max(seen, self._engine.ledger.head_seq)
            self._sleep(FOLLOW_EVERY_S)
            self._engine.refresh()

    def verify(self) -> Report:
        """Checks the ledger and every view against it. Changes nothing."""
        from holdfast import audit

        self._engine.refresh()
        return audit.verify(self._engine)

    def repair(self) -> Report:
        """Moves what is damaged to quarantine and rebuilds every view. Deletes nothing."""
        from holdfast import audit

        with self._locked():
            return audit.repair(self._engine)


class _Locked:
    """The workspace's lock, held: what is read under it cannot change but by us."""

    def __init__(self, engine: Engine, disk: Disk, wait_s: float) -> None:
        self._engine = engine
        self._disk = disk
        self._wait_s = wait_s
        self._fd = -1

    def __enter__(self) -> None:
        home = self._engine.workspace.home
        try:
            self._engine.prepare_home()
            self._fd = self._disk.lock(os.path.join(home, "lock"), self._wait_s)
        except OSError as error:
            raise Fault(
                "not_writable",
                f"Cannot write state files in {home} ({error.strerror}) — "
                "workflow state will not persist",
                "make the folder writable, then run the same command again",
            ) from error
        try:
            self._engine.refresh()
        except BaseException:
            self._disk.close(self._fd)
            raise
        self._engine.locked = True

    def __exit__(self, *_exception: object) -> None:
        self._engine.locked = False
        self._disk.close(self._fd)


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000
