"""The engine room below the keeper: ledger, records and catalog, kept in step.

``load`` finds a workflow's state without replaying it: the record is the state, as long as it
shows the stream's last event. ``commit`` makes events durable and then visible. What is found in
place of a record that is *not* current is ``reconcile``'s matter.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.core import moment, workflow
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.state import is_news
from holdfast.disk import LARGEST
from holdfast.errors import Fault, Refused
from holdfast.indexes import Indexes
from holdfast.layers import catalog, records
from holdfast.layers.records import envelope
from holdfast.layers.records.fields import Invalid
from holdfast.layers.records.store import RecordStore, Showing
from holdfast.ledger.file import Ledger
from holdfast.register import Register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holdfast.core.shapes import Command, Draft, Event, Fields, Origin, Recipe, Workflow
    from holdfast.disk import Disk
    from holdfast.register import Position
    from holdfast.workspace import Workspace


class NeedsLock(Exception):
    """A reader found something to mend; it has to come back with the lock."""


class Engine:
    """One workspace, opened by one process."""

    def __init__(
        self,
        workspace: Workspace,
        disk: Disk,
        clock_ms: Callable[[], int],
        sleep: Callable[[float], None],
        by: Fields,
    ) -> None:
        self.workspace = workspace
        self.disk = disk
        self.by = by
        self.ledger = Ledger(workspace.home, disk, workspace.mirror)
        self.register = Register(workspace.home, disk, self.ledger)
        self.store = RecordStore(disk, self.ledger.identity, self.note)
        self.indexes = Indexes(workspace, disk, self.rows, self.note)
        self.locked = False
        self.was_cleaned = False
        """Whether somebody cleaned the work tree: records that are gone then mean nothing."""
        self.notes: list[str] = []
        self.has_news = False
        """Whether something was recorded that belongs into the project's memory."""
        self.now_ms = clock_ms
        self._sleep = sleep
        self._seen: dict[str, tuple[bytes, str, Workflow]] = {}

    # Time and ids come in here, and nowhere below

    def now(self) -> str:
        return moment.iso(self.now_ms())

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def pause(self, seconds: float) -> None:
        self._sleep(seconds)

    def needs_lock(self) -> None:
        if not self.locked:
            raise NeedsLock

    def origin(self, path: str, worktree: str) -> Origin:
        return {"at": self.now(), "path": path, "worktree": worktree, "recipe": self.recipe}

    def recipe(self, name: str) -> Recipe | None:
        from holdfast import recipes

        try:
            return recipes.load(name, self.workspace.root)
        except (recipes.NoRecipe, recipes.BadRecipe):
            return None

    # Reading

    def refresh(self) -> None:
        """Takes in what other processes did since the last look."""
        segment = self.ledger.inode
        self.workspace.check_home()
        try:
            self.ledger.refresh()
        except OSError as error:
            raise _faults().unreadable_ledger(error) from error
        if self.ledger.inode != segment or segment < 0:
            self.register.forget()  # Since there was no open one, others may have come and gone.

    def position(self, stream: str) -> Position | None:
        """Where the stream stands; ``None`` when there is no such stream."""
        return self.register.position(stream)

    def path(self, position: Position) -> str | None:
        """The record's absolute path; ``None`` when its worktree is gone."""
        root = self.workspace.root_of(position.worktree)
        return None if root is None else self.workspace.inside(root, position.record)

    def load(self, position: Position) -> Workflow:
        """The stream's state: its record if that is current, else what reconciling gives."""
        path = self.path(position)
        if path is not None and self._has_left(path, position.stream):
            from holdfast import reconcile

            return reconcile.left_behind(self, position, path)
        return self.look(position, path)

    def _has_left(self, path: str, stream: str) -> bool:
        return any(self.store.has_left(place) for place in records.places(path, stream))

    def look(self, position: Position, path: str | None, *, looks: int = 1) -> Workflow:
        """The state by what stands in the record's place alone; ``looks`` counts how often."""
        raw = self.store.read(path) if path is not None else None
        state = None if path is None or raw is None else self._shown(position, raw)
        if state is not None and not records.has_completed_copy(path or "", position.stream):
            return state
        from holdfast import reconcile

        if state is not None:
            return reconcile.completed_copy(self, position, state)
        return reconcile.reconcile(self, position, path, raw, looks=looks)

    def _shown(self, position: Position, raw: bytes) -> Workflow | None:
        """The state in a record's bytes, if they show the stream's last event."""
        seen = self._seen.get(position.stream)
        if seen is not None and seen[0] == raw and seen[1] == position.hash:
            return seen[2]
        if not envelope.shows(raw, position.hash):
            return None
        origin = self.origin(position.record, position.worktree)
        try:
            sealed = envelope.unseal(raw)
            if not sealed.intact or sealed.hash != position.hash:
                return None
            state = records.parse(records.format_of(position.record), sealed, None, origin)
        except (jsontext.BadJson, Invalid):
            return None
        self._seen[position.stream] = (raw, position.hash, state)
        return state

    def replay(self, stream: str, upto: int | None = None) -> tuple[Workflow, Event]:
        """The state from the ledger alone, and the event it ends with."""
        from holdfast.layers.records import sound

        events = self.ledger.since(stream, workflow.OPENING, upto)
        state, odd = sound.replayed(events)
        if not workflow.is_gapless(events):
            self.note(f"events of {stream} are missing in the ledger: holdfast repair")
        if state is None or state["id"] != stream:
            raise _faults().lost_events(stream)
        for event in odd:
            self.note(f"event {event['seq']} makes no sense and is left out: holdfast verify")
        return state, events[-1]

    def rows(self, naming: bytes = b"") -> list[Fields]:
        """A row for every workflow there ever was, those of the open segment from their state.

        ``naming``: only for those with these bytes in their row or in an event of that segment.
        """
        listed = self.register.rows(naming)
        streams = self.ledger.touched(naming)
        if naming:
            streams += [row["stream"] for row in listed if self.ledger.last(row["stream"])]
        fresh = self._touched_rows(streams)
        named = {row["stream"] for row in fresh}
        listed = [row for row in listed if row["stream"] not in named]
        return [*listed, *[row for row in fresh if not catalog.is_bare(row)]]

    def _touched_rows(self, streams: list[str]) -> list[Fields]:
        found = []
        for stream in dict.fromkeys(streams):
            last = self.ledger.last(stream)
            if last is not None and catalog.has_no_workflow(stream):
                found.append(catalog.bare_row(last))
                continue
            position = self.position(stream)
            state = None if position is None else self._usable(position)
            if state is not None and last is not None:
                found.append(catalog.row_of(state, last))
        return found

    def _usable(self, position: Position) -> Workflow | None:
        """The state; ``None``, and a note, when the ledger does not tell one."""
        try:
            return self.load(position)
        except Fault as fault:
            if fault.code != "lost_events":
                raise
            self.note(f"{fault.message}: {fault.hint}")
            return None

    # Writing, under the lock

    def decide(self, state: Workflow | None, kind: str, args: Fields) -> list[Draft]:
        """The events that a command makes; a refusal is raised."""
        command: Command = {"type": kind, "at": self.now(), "args": args}
        outcome = workflow.decide(state, command)
        if isinstance(outcome, Refusal):
            raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
        return outcome

    def commit(
        self,
        stream: str,
        before: Workflow | None,
        drafts: list[Draft],
        *,
        event_id: str | None = None,
        show: bool = True,
        is_asked: bool = False,
    ) -> tuple[Workflow, list[Event]]:
        """Makes events durable, then visible. Room for the record is made sure of first.

        ``is_asked``: it is what the caller asked for, so a record that is left behind is a fault;
        else it is a note, because what was asked for is still to come.
        """
        events, blob = self.ledger.prepare(
            drafts,
            stream=stream,
            version=self.register.version(stream),
            at=self.now(),
            by=self.by,
            event_id=event_id or os.urandom(12).hex(),
        )
        state = before
        for event in events:
            state = workflow.evolve(state, event)
        if state is None:
            raise AssertionError("a commit without events")
        showing = self._prepare_record(state, events[-1]) if show else None
        moved = self.indexes.doubted(before, state)
        try:
            self.ledger.append(events, blob)
        except (OSError, Fault) as error:
            # After an unknown outcome the spare tells whoever finds the event that it was ours.
            if showing is not None and getattr(error, "code", "") != "unknown_outcome":
                self.store.drop(showing.spare)
            raise
        try:
            left = self._put(state["id"], showing)
            there = self._leave_old_place(state, before) if show else None
            state = self._with_saved(self._with_saved(state, left), there)
        except (OSError, Fault) as error:
            behind = _faults().record_behind(events[-1]["seq"], error)
            if is_asked:
                raise behind from error
            self.note(behind.message)
        self.indexes.show(state, moved)
        self.has_news = self.has_news or any(is_news(event, state) for event in events)
        return state, events

    def _prepare_record(self, state: Workflow, last: Event) -> Showing | None:
        """The record that will show the state, written beside its place."""
        place = records.place(state)
        root = self.workspace.root_of(state["worktree"])
        if place is None or root is None:
            return None
        path = self.workspace.inside(root, place)
        identity = self.ledger.identity() or last["id"].partition(".")[0]
        data = records.render(state, identity, last["seq"], last["hash"])
        if len(data) > LARGEST:
            raise _faults().too_large(state["id"], len(data))
        try:
            spare = self.store.prepare(path, data, root if _is_formal(state) else None)
        except OSError as error:
            raise _faults().record_not_written(place, error) from error
        return Showing(path, spare, data, last["hash"], state)

    def _put(self, stream: str, showing: Showing | None) -> str | None:
        """Puts a prepared record in its place; gives the path of what was saved there meanwhile."""
        known = self._seen.pop(stream, None)
        if showing is None:
            return None
        expected = known[0] if known else None
        durable = _is_formal(showing.state)
        left = self.store.put(showing.spare, showing.path, expected, durable=durable)
        self._seen[stream] = (showing.data, showing.hash, showing.state)
        return left

    def _with_saved(self, state: Workflow, left: str | None) -> Workflow:
        if left is None:
            return state
        from holdfast import reconcile

        return reconcile.saved_meanwhile(self, state["id"], left)

    def _leave_old_place(self, state: Workflow, before: Workflow | None) -> str | None:
        """Takes the record away from where the state before stood, if it moved; gives the path of
        what was saved there meanwhile.
        """
        if before is None:
            return None
        old = records.place(before)
        root = self.workspace.root_of(before["worktree"])
        stays = old == records.place(state) and before["worktree"] == state["worktree"]
        if old is None or root is None or stays or records.is_archived(old):
            return None
        path = self.workspace.inside(root, old)
        left = self.store.reset(path) if records.is_reset(state) else self.store.remove(path)
        if state["recipe"]["format"] in ("formal", "loop"):
            self.disk.remove_folder(os.path.join(root, os.path.dirname(old)))
        return left

    def show_again(self, stream: str, expected: bytes | None) -> Workflow:
        """Writes the record anew from the ledger; ``expected`` is what may be replaced."""
        state, last = self.replay(stream)
        showing = self._prepare_record(state, last)
        self._seen.pop(stream, None)
        if expected is not None:
            self.expect(stream, expected)
        left = self._put(stream, showing)
        there = self._leave_old_place(state, {**state, "status": "in_progress"})
        return self._with_saved(self._with_saved(state, left), there)

    def expect(self, stream: str, raw: bytes) -> None:
        """These bytes stand in the record's place and are taken care of."""
        self._seen[stream] = (raw, "", {})  # type: ignore[typeddict-item]

    def mend(self) -> None:
        """Sees to what a killed writer left at the ledger's end, before anything follows it."""
        try:
            is_torn = self.ledger.mend()
        except OSError as error:
            raise _faults().torn_not_moved(error) from error
        if is_torn:
            self.note("a torn write at the end of the ledger was moved to quarantine")

    def settle_last(self, stream: str | None) -> None:
        """Sees that the last event's record shows it, after a kill; ``stream`` is loaded anyway."""
        last = self.ledger.last_stream
        position = self.position(last) if last is not None and last != stream else None
        if position is not None and not self._seems_shown(position):
            self._usable(position)

    def _seems_shown(self, position: Position) -> bool:
        """A quick look: whoever loads the record looks closely."""
        path = self.path(position)
        if path is None or self._has_left(path, position.stream):
            return False
        raw = self.store.read(path)
        return raw is not None and envelope.shows(raw, position.hash)

    def close_full_segment(self) -> None:
        """Ends a segment that is full; the catalog then says what it said."""
        if not self.ledger.is_full:
            return
        try:
            self._close_segment()
        except (OSError, Fault) as error:
            # What was asked for is recorded; the next command tries this again.
            self.register.forget()
            self.note(f"the ledger's full segment could not be closed ({_faults().why(error)})")

    def _close_segment(self) -> None:
        # Loading takes edits in, which are events too: a row from before one would stay wrong.
        head = -1
        while head != self.ledger.head_seq:
            head = self.ledger.head_seq
            rows = self._touched_rows(self.ledger.touched())
        self.register.close_segment(rows)

    def prepare_home(self) -> None:
        """Makes sure of the ledger's folder; its marker is made last."""
        if not os.path.exists(os.path.join(self.workspace.home, ".gitignore")):
            from holdfast import home

            self.was_cleaned = True
            home.make(self.workspace, self.disk, self.note)


def _faults() -> ModuleType:
    from holdfast import faults

    return faults


def _is_formal(state: Workflow) -> bool:
    """The format in which a record that is gone in the last phase means completion."""
    return state["recipe"]["format"] == "formal"
