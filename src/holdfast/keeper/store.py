"""One workspace, opened by one process: ledger, record files, clock and notes.

Reads happen here: ``peek`` reads the ledger and compares the record with it, without a lock and
without writing. Every change is a ``Transaction``.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import findings
from holdfast.adopt.findings import Location, Subject
from holdfast.core import selection
from holdfast.core import time as times
from holdfast.core.record_formats import formats_with
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import is_active
from holdfast.errors import Fault, damaged_ledger
from holdfast.formats import aggregate_of, is_own, is_workflow
from holdfast.storage.ledger import ACTIVE, Ledger
from holdfast.storage.record_files import RecordFiles
from holdfast.storage.skill_index import Indexes
from holdfast.workspace.location import person_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.adopt.findings import Finding
    from holdfast.core.types import Fields, Origin, Recipe
    from holdfast.keeper.offline_queue import Kept
    from holdfast.keeper.transaction import Transaction
    from holdfast.storage.ledger import Stream
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace


PENDING = "pending"
"""A person's own folder with a file for each workspace that could not be written."""
_TRACKED = "tracked "
"""The beginning of the name of the fact that has a worktree's index, and our files in it."""
_IS_INDEXED = f"format IN ({formats_with('is_indexed')})"


class Peek:
    """A look at a stream: its state as the next transaction will make it, and the finding."""

    __slots__ = ("finding", "row", "state")

    def __init__(self, row: Fields, state: Any, finding: Finding | None) -> None:
        self.row = row
        self.state = state
        self.finding = finding


class Store:
    """One workspace, opened by one process."""

    def __init__(
        self,
        workspace: Workspace,
        disk: Disk,
        clock_ms: Callable[[], int],
        sleep: Callable[[float], None],
        by: Fields,
        wait_s: float,
        ledger: Ledger | None = None,
    ) -> None:
        self.workspace = workspace
        self.disk = disk
        self.by = by
        self.now_ms = clock_ms
        self.pause = sleep
        self.wait_s = wait_s
        self.ledger = ledger or Ledger(
            workspace.home, disk, wait_s, workspace.is_current, formats.evolve_of
        )
        self.files = RecordFiles(disk, self._is_own, self.note)
        self.indexes = Indexes(workspace, disk, self)
        self.notes: list[str] = []
        """Notes since the last answer."""
        self.forecasts: list[str] = []
        """Notes of looks, on findings that are not recorded yet."""
        self.has_news = False
        """True after an event that the project's memory shows."""
        self.has_changes = False
        """True after any event."""
        self.open_transaction: Transaction | None = None
        self.facts_to_keep: dict[str, str] = {}
        """Facts that a look found out, which the next commit stores."""
        self._kept: Kept | None = None
        self._is_kept_known = False
        self._tracked: tuple[str, list[str]] | None = None
        """The index of git that was read last, and the files of ours that it tracks."""

    def _is_own(self, raw: bytes) -> bool:
        """Return whether the bytes are an unedited record of this ledger."""
        return is_own(raw, self.ledger.identity())

    @property
    def kept(self) -> Kept | None:
        """What a Memory server keeps while nothing can be written here; mostly ``None``."""
        if not self._is_kept_known:
            self._is_kept_known = True
            if os.path.isdir(os.path.join(person_path(), PENDING)):
                from holdfast.keeper import offline_queue

                self._kept = offline_queue.load(self)
        return self._kept

    @kept.setter
    def kept(self, kept: Kept | None) -> None:
        self._kept, self._is_kept_known = kept, True

    def now(self) -> str:
        return times.iso(self.now_ms())

    def stamp(self) -> str:
        """Return the time as part of a file's name."""
        return "".join(letter for letter in self.now() if letter.isalnum())

    def note(self, text: str) -> None:
        if text and text not in self.notes:
            self.notes.append(text)

    def foretell(self, text: str) -> None:
        """Add a note on a finding that a read did not record."""
        if text and text not in self.forecasts:
            self.forecasts.append(text)

    def take_notes(self) -> list[str]:
        """Return the notes since the last answer, and forget them."""
        notes = [*self.notes, *self.forecasts]
        self.notes, self.forecasts = [], []
        return notes

    def origin(self, path: str, worktree: str) -> Origin:
        return {"at": self.now(), "path": path, "worktree": worktree, "recipe": self.recipe}

    def recipe(self, name: str) -> Recipe | None:
        from holdfast.workspace import recipes

        try:
            return recipes.load(name, self.workspace.root)
        except (recipes.NoRecipe, recipes.BadRecipe):
            return None

    # Reading

    def peek(self, stream: str) -> Peek | None:
        """Return a stream's state and the finding about its record; ``None`` if it is unknown."""
        stored = self.stream(stream)
        return None if stored is None else self.peek_at(stored)

    def stream(self, name: str) -> Stream | None:
        """Return a stream of the ledger; raise ``Fault`` if it has events but no row."""
        stored = self.ledger.stream(name)
        if stored is None and self.ledger.last_version(name):
            state, _ = aggregate_of(name).replay(lambda: self.ledger.events(name))
            if state is not None:
                raise damaged_ledger(self.ledger.database.path, f"the row of {name} is missing")
        return stored

    def has_run_out(self, row: Fields) -> bool:
        """Return whether the workflow of a row is active and idle for longer than it may be."""
        if not selection.has_run_out(row, self.now_ms()):
            return False
        stored = self.ledger.stream(row["id"])
        return stored is not None and selection.has_run_out(stored.state, self.now_ms())

    def peek_at(self, stored: Stream) -> Peek:
        """Compare a stream's record with its state. Take no lock, and write nothing."""
        subject = self.subject_of(stored)
        finding = findings.examine(self, subject)
        state = stored.state
        if finding is not None:
            self.foretell(finding.forecast)
            state = self.preview(subject, finding)
        return Peek(stored.row, self._with_kept(stored.row["stream"], state), finding)

    def _with_kept(self, stream: str, state: Any) -> Any:
        return state if self.kept is None else self.kept.after(self, stream, state)

    def state_of(self, stream: str) -> Any:
        """Return the state of a stream as ``peek`` does; a log without events is blank."""
        peek = self.peek(stream)
        if peek is not None:
            return peek.state
        aggregate = aggregate_of(stream)
        if is_workflow(stream):
            return None
        subject = self.blank_subject(stream)
        finding = findings.examine(self, subject)
        if finding is None:
            return self._with_kept(stream, aggregate.blank())
        self.foretell(finding.forecast)
        return self._with_kept(stream, self.preview(subject, finding))

    def subject_of(self, stored: Stream) -> Subject:
        row = stored.row
        return self.subject(row["stream"], stored.state, row["seq"], row["hash"])

    def subject(self, stream: str, state: Any, seq: int, hash: str) -> Subject:
        """Return a stream as of an event, with its record's location."""
        aggregate = aggregate_of(stream)
        if is_workflow(stream):
            address = state["worktree"], state["record"]
        else:
            address = aggregate.record_address(state, self.workspace.name) or ("", "")
        return Subject(aggregate, stream, state, seq, hash, self.locate(*address))

    def blank_subject(self, stream: str) -> Subject:
        """Return a log before its first event."""
        return self.subject(stream, aggregate_of(stream).blank(), 0, "")

    def locate(self, worktree: str, record: str) -> Location:
        """Return where a record is; raise ``Refused`` if that is outside of its worktree.

        A record that git tracks has no path: it is neither read nor written.
        """
        root = self.workspace.root_of(worktree)
        path = None if root is None else self.workspace.inside(root, record)
        if worktree == self.workspace.name and record in self.tracked():
            path = None
        return Location((worktree, record), root, path)

    def tracked(self) -> list[str]:
        """Return the files of Holdfast in this worktree that git tracks.

        Git's index is read again only if it has changed since the last transaction.
        """
        workspace = self.workspace
        stamp = workspace.index_stamp()
        if not stamp or workspace.git is None:
            return []
        if self._tracked is None or self._tracked[0] != stamp:
            name = f"{_TRACKED}{workspace.name}"
            known, *paths = self.ledger.fact(name).split("\n")
            if known != stamp:
                from holdfast.workspace.git_index import tracked_files

                paths = tracked_files(workspace.git, workspace.common or workspace.git)
                self.facts_to_keep = {name: "\n".join([stamp, *paths])}
            self._tracked = stamp, paths
        return self._tracked[1]

    def path_of(self, worktree: str, record: str) -> str | None:
        """Return a record's absolute path; ``None`` when its worktree is gone."""
        return self.locate(worktree, record).path

    def preview(self, subject: Subject, finding: Finding) -> Any:
        """Return the state after the commands of a finding, up to the first refused one."""
        state = subject.state
        at = self.now()
        commands = list(finding.commands)
        if finding.kind == findings.REPLACED:
            commands = [("abandon_workflow", finding.commands[0][1])]
        if finding.completes and is_active(state):
            commands.append(findings.completion(state, finding.completes))
        for kind, args in commands:
            decided = subject.aggregate.decide(state, {"type": kind, "at": at, "args": args})
            if isinstance(decided, Refusal):
                return state
            for draft in decided:
                event: Any = {**draft, "at": at, "stream": subject.stream}
                state = subject.aggregate.evolve(state, event)
        return state

    def state_at(self, stream: str, seq: int) -> Any:
        """Return the state after an earlier event."""
        state, _ = aggregate_of(stream).replay(lambda: self.ledger.events(stream, upto=seq))
        if state is None and is_workflow(stream):
            raise lost_events(stream)
        return aggregate_of(stream).blank() if state is None else state

    def mark_unread(self) -> None:
        """Make the mark file that tells hooks, with a single stat, that reading may be required.

        It is made before a state that requires reading is committed. A needless mark only costs
        time.
        """
        mark = self.workspace.unread_mark
        if not os.path.lexists(mark):
            self.disk.create(mark, b"", 0o600)

    def unmark_unread(self) -> None:
        """Remove the mark if no active workflow requires reading any more."""
        try:
            if not self.ledger.count(f"unread IS NOT NULL AND {ACTIVE}"):
                self.disk.remove(self.workspace.unread_mark)
        except (OSError, Fault):
            return

    def skill_rows(self, worktree: str) -> list[Fields]:
        """Return the rows of the active workflows that a worktree's index lists."""
        return self.ledger.rows(f"{ACTIVE} AND worktree = ? AND {_IS_INDEXED}", worktree)


def lost_events(stream: str) -> Fault:
    return Fault("lost_events", f"the ledger has no readable events of {stream}", "holdfast verify")
