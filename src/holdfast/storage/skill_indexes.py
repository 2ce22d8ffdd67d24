"""The indexes of all worktrees, kept in step with what events make of their skill workflows."""

from __future__ import annotations

from holdfast.errors import Fault, Refused
from holdfast.storage import skill_index
from holdfast.storage.skill_index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace


class Indexes:
    """An index is a view: no fault of it undoes what is recorded, it is only said."""

    def __init__(
        self,
        workspace: Workspace,
        disk: Disk,
        rows: Callable[[str], list[Fields]],
        note: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._disk = disk
        self._rows = rows
        self._note = note
        self._is_busy = False
        """Building one loads records, and to take in an edit of one is an event too."""

    def of(self, worktree: str) -> Index | None:
        """The worktree's index; ``None`` when the worktree is gone."""
        root = self._workspace.root_of(worktree)
        if root is None:
            return None
        self._workspace.inside(root, skill_index.NAME)
        return Index(self._disk, root, lambda: self._rows(worktree))

    def doubted(self, before: Workflow | None, after: Workflow) -> list[Index]:
        """The indexes that an event takes a workflow out of and puts it into, marked as doubtful.

        The one that it enters comes last.
        """
        left = before["worktree"] if before is not None and skill_index.is_listed(before) else None
        entered = after["worktree"] if skill_index.is_listed(after) else None
        if left == entered:
            return []
        try:
            found = [self.of(name) for name in (left, entered) if name is not None]
            moved = [one for one in found if one is not None]
            for one in moved:
                one.doubt()
        except (OSError, Refused) as error:
            self._note(f"the index could not be written ({error})")
            return []
        return moved

    def show(self, state: Workflow, moved: list[Index]) -> None:
        """Brings the indexes to what the event made of the workflow."""
        if self._is_busy or not (moved or skill_index.is_listed(state)):
            return
        self._is_busy = True
        try:
            self._show(state, moved)
        except (OSError, Fault, Refused) as error:
            self._note(f"the index could not be written ({error})")
        finally:
            self._is_busy = False

    def mend(self) -> None:
        """Build this worktree's index anew if its writer was killed while changing it."""
        own = self.of(self._workspace.name)
        try:
            if own is not None and own.is_doubtful():
                own.rebuild()
        except (OSError, Fault, Refused) as error:
            self._note(f"the index could not be written ({error})")

    def _show(self, state: Workflow, moved: list[Index]) -> None:
        if not moved:
            own = self.of(state["worktree"])
            if own is not None:
                own.note_activity(state)
        elif skill_index.is_listed(state):
            *moved, entered = moved
            entered.put(state)
        for left in moved:
            left.take(state)
