"""One caller's way into a workspace, on which every change goes, and every look.

    lock -> load -> decide -> append (fsync) -> evolve -> show -> unlock

Readers take no lock unless they find something to mend.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.core import choice, moment
from holdfast.core.refusal import Refusal
from holdfast.engine import NeedsLock
from holdfast.errors import Fault, Refused
from holdfast.layers import records
from holdfast.layers.catalog import has_no_workflow
from holdfast.workspace import person_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.shapes import Event, Fields, Session, Workflow
    from holdfast.engine import Engine
    from holdfast.register import Position

    T = TypeVar("T")

PENDING = "pending"
"""A person's own folder with a mark for each workspace that could not be written."""
_STARTED = 19
"""Which field of ``/proc/PID/stat`` it is, counted from its name."""
SESSION_LIVES = "1h"
"""How long a session whose process is unknown counts as live after its last word."""


class Receipt:
    """What the keeper answers: the state, the events that were recorded, and what was noticed."""

    __slots__ = ("notes", "record", "resumed", "seqs", "signal", "state")

    def __init__(
        self, state: Workflow, seqs: list[int], notes: list[str], *, resumed: bool = False
    ) -> None:
        self.state = state
        self.record = records.place(state)
        """Where its record stands now; ``None`` when it has none any more."""
        self.seqs = seqs
        self.notes = notes
        self.resumed = resumed
        self.signal: str | None = None
        """What a script that waits for the end of a workflow, or of a feature, looks for."""


class Caller:
    """One caller's way into one workspace."""

    def __init__(self, engine: Engine, session: str | None, pid: int | None, wait_s: float) -> None:
        self.engine = engine
        self.session = session
        self.pid = pid
        self.wait_s = wait_s
        self._told: list[str] | None = None
        """The notes of the answer that is being made."""
        self.is_spreading = False
        """Whether the memory is being written: what that takes in needs no second writer."""
        self._is_bringing_home = False
        self._pending = os.path.join(person_folder(), PENDING)

    def do(
        self, kind: str, args: Fields, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Carries out one command on one workflow: the way every change goes."""
        try:
            return self._do(kind, args, workflow, id)
        except Fault as fault:
            if fault.code != "not_writable" or self._is_bringing_home:
                raise
            from holdfast import primary

            server = primary.server_of(self)
            if server is None:
                raise
            return primary.carry_out(self, server, kind, args, workflow, id)

    def _do(self, kind: str, args: Fields, workflow: str | None, id: str | None) -> Receipt:
        with self.locked():
            repeated = self.once(id)
            if repeated is not None:
                return repeated
            position = self.position(workflow)
            self.engine.settle_last(position.stream)
            state = self.current(position)
            return self.record(state, kind, args, id)

    def record(self, state: Workflow, kind: str, args: Fields, id: str | None) -> Receipt:
        drafts = self.engine.decide(state, kind, args)
        if not drafts:
            self.engine.ledger.make_sure()
            return Receipt(state, [], self.notes())
        after, events = self.engine.commit(state["id"], state, drafts, event_id=id, is_asked=True)
        self.engine.close_full_segment()
        return Receipt(after, [event["seq"] for event in events], self.notes())

    def resume(self, state: Workflow, args: Fields, id: str | None) -> Receipt:
        """Resumes a workflow; the look at all others may have taken an edit of this one in."""
        position = self.engine.position(state["id"])
        if position is not None:
            state = self.engine.load(position)
        return self.record(state, "resume_workflow", args, id)

    def current(self, position: Position) -> Workflow:
        """The state, after its time to live was looked at."""
        state = self.engine.load(position)
        if self.is_expired(state):
            self.engine.needs_lock()
            from holdfast import expiry

            state = expiry.expire(self.engine, state)
        return state

    def is_expired(self, row: Fields | Workflow) -> bool:
        return choice.has_run_out(row, self.engine.now_ms())

    def recorded(self, event_id: str, stream: str | None = None) -> list[Event]:
        """What a command recorded that was carried out before, under the same id.

        ``stream``: the small aggregate that it is about; a workflow otherwise.
        """
        if not event_id.replace("-", "").isalnum() or not event_id.isascii() or len(event_id) > 64:
            raise Refused(
                "invalid",
                f"{event_id[:80]!r} is not an id",
                "use up to 64 letters, digits and hyphens",
            )
        events = self.engine.ledger.find(event_id)
        if events and not _is_about(events[0], stream):
            message = f"the id {event_id} is that of another command: {events[0]['type']}"
            raise Refused("invalid", message, "give every command an id of its own")
        if events:
            self.engine.ledger.make_sure()
            self.engine.note(f"{event_id} was recorded before; nothing was recorded again")
        return events

    def _repeated(self, event_id: str) -> Receipt | None:
        """The answer to a command that was carried out before, under the same id."""
        events = self.recorded(event_id)
        if not events:
            return None
        position = self.engine.position(events[0]["stream"])
        if position is None:
            return None
        state = self.engine.load(position)
        self.engine.indexes.settle(state)
        return Receipt(state, [event["seq"] for event in events], self.notes())

    def once(self, event_id: str | None) -> Receipt | None:
        return None if event_id is None else self._repeated(event_id)

    def locked(self) -> _Locked:
        if os.path.isdir(self._pending) and not self._is_bringing_home:
            from holdfast import primary

            self._is_bringing_home = True
            try:
                primary.bring_home(self)
            finally:
                self._is_bringing_home = False
        return _Locked(self, self.wait_s)

    def notes(self) -> list[str]:
        """What was noticed; what is noticed from now on until the lock is free is added to it."""
        notes, self.engine.notes = self.engine.notes, []
        self._told = notes
        return notes

    def spread(self) -> None:
        """Takes news to the layers that nobody waits for with the lock."""
        told, self._told = self._told, None
        if not self.engine.has_news or self.is_spreading:
            return
        from holdfast.memory.layer import Memory

        self.is_spreading = True
        try:
            Memory(self).write()
        finally:
            self.engine.has_news = self.is_spreading = False
        if told is not None:
            told += self.notes()

    def reading(self, look: Callable[[], T]) -> T:
        """Looks without the lock; with it when there is something to mend."""
        try:
            self.engine.refresh()
            return look()
        except NeedsLock:
            with self.locked():
                return look()
        except OSError as error:
            raise _storage(error) from error

    # Which workflow

    def position(self, workflow: str | None) -> Position:
        found = self.engine.position(workflow) if workflow else self._mine()
        if found is None and workflow:
            self.discover()
            found = self.engine.position(workflow)
        if found is None:
            known = [row["id"] for row in self.rows() if row["status"] in choice.ACTIVE]
            raise Refused(
                "not_found",
                f"there is no workflow {str(workflow)[:80]!r}"
                + (f"; active are {', '.join(known[:10])}" if known else ""),
                "holdfast status",
            )
        return found

    def chosen(self, rows: list[Fields]) -> Fields | Refusal:
        """The row of these that is the asker's, or why none is."""
        return choice.choose(rows, self._asker(), self._live(rows))

    def picked(self) -> Fields | Refusal:
        """The asker's row; its own is found without a look at any other workflow."""
        name = f'"id":{jsontext.dumps(self.session)}'.encode() if self.session else b""
        own = choice.own(self.engine.rows(name), self.session) if name else None
        found = own or self.chosen(self.rows())
        if isinstance(found, Refusal) and (self.discover() or self.restored()):
            found = self.chosen(self.rows())
        return found

    def _mine(self) -> Position | None:
        picked = self.picked()
        if isinstance(picked, Refusal):
            raise Refused(picked.code, picked.message, picked.hint, **picked.details)
        return self.engine.position(picked["id"])

    def restored(self) -> bool:
        """Whether a layer still knew a workflow, where the ledger and all records are gone."""
        if self.engine.ledger.head_seq:
            return False
        from holdfast import readback

        return readback.restore(self) is not None

    def _asker(self) -> choice.Asker:
        here = self.engine.workspace
        return choice.Asker(self.session, self.pid, self._born(), here.name, here.branch())

    def _born(self) -> int | None:
        return None if self.pid is None else _born(self.pid)

    def _live(self, rows: list[Fields]) -> set[str]:
        now_ms = self.engine.now_ms()
        live = set()
        running: dict[tuple[int, int | None], bool] = {}
        for row in rows:
            held = row["session"]
            if not held or row["status"] not in choice.ACTIVE:
                continue
            if "pid" in held:
                process = (held["pid"], held.get("born"))
                if process not in running:
                    running[process] = _is_running(*process)
                is_live = running[process]
            else:
                is_live = not moment.is_past(now_ms, row["updated_at"], SESSION_LIVES)
            if is_live:
                live.add(held["id"])
        return live

    def rows(self) -> list[Fields]:
        return self.engine.rows()

    def discover(self) -> bool:
        """Takes in records that Holdfast does not know yet; says whether there were any."""
        from holdfast import discovery

        return discovery.discover(self.engine)

    def binding(self, state: Workflow) -> Fields:
        """What binds a workflow to this session; again, when another one was bound since."""
        if not self.session:
            return {}
        asker, rows = self._asker(), self.rows()
        others = [row for row in rows if row["id"] != state["id"] and asker.holds(row)]
        held = state["session"]
        if held and not asker.holds({"session": held}) and held["id"] in self._live(rows):
            self.engine.note(f"the live session {held['id'][:40]} held it; it is yours now")
        return {"session": self.bound(), "rebind": bool(others)}

    def bound(self) -> Session | None:
        if not self.session:
            return None
        following = self.engine.ledger.head_seq + 1
        bound: Session = {"id": self.session, "at": self.engine.now(), "seq": following}
        if self.pid is not None:
            bound["pid"] = self.pid
        born = self._born()
        if born is not None:
            bound["born"] = born
        return bound


class _Locked:
    """The workspace's lock, held: what is read under it cannot change but by us."""

    def __init__(self, caller: Caller, wait_s: float) -> None:
        self._caller = caller
        self._engine = caller.engine
        self._wait_s = wait_s
        self._fd = -1

    def __enter__(self) -> None:
        folder = self._engine.workspace.home
        try:
            self._engine.prepare_home()
            self._fd = self._engine.disk.lock(os.path.join(folder, "lock"), self._wait_s)
        except OSError as error:
            above = os.path.dirname(folder)
            is_file = os.path.lexists(above) and not os.path.isdir(above)
            mend = f"move {above} away, it is no folder" if is_file else "make the folder writable"
            raise Fault(
                "not_writable",
                f"Cannot write state files in {folder} ({error.strerror}) — "
                "workflow state will not persist",
                f"{mend}, then run the same command again",
            ) from error
        try:
            self._engine.refresh()
            self._engine.mend()
            self._engine.locked = True
            if self._engine.was_cleaned:
                from holdfast import home

                home.bring_back(self._engine)
        except BaseException as error:
            self._engine.locked = False
            self._engine.disk.close(self._fd)
            if isinstance(error, OSError):
                raise _storage(error) from error
            raise

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._engine.locked = False
        self._engine.disk.close(self._fd)
        if isinstance(error, OSError):
            raise _storage(error) from error
        self._caller.spread()


def _is_about(event: Event, stream: str | None) -> bool:
    return not has_no_workflow(event["stream"]) if stream is None else event["stream"] == stream


def _storage(error: OSError) -> Fault:
    """A call that failed before anything of the command was recorded."""
    where = f" ({error.filename})" if error.filename else ""
    return Fault(
        "storage",
        f"the system refused: {error.strerror or error}{where}",
        "make room or mend the disk, then run the same command again",
    )


def _is_running(pid: int, born: int | None) -> bool:
    """Whether that process runs; ``born`` tells it from one that got its number later."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass
    except (ProcessLookupError, OverflowError):
        return False
    return choice.may_be_same(_born(pid), born)


def _born(pid: int) -> int | None:
    """When a process was started, as its kernel counts; ``None`` where nothing tells it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            told = file.read()
    except OSError:
        return None
    # Its name, in brackets, may hold anything.
    return int(told.rpartition(b")")[2].split()[_STARTED])
