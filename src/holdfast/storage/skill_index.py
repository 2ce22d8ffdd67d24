"""The index of a worktree's active skill workflows, for scripts that look before they open.

A view: which workflows are in it is exact after every command. ``last_activity`` is kept exact as
long as the file is small; beyond that ``status`` refreshes it. One line holds one workflow, in the
order of their ids, so that one can be put in, taken out or touched without the others.

Before an event changes who is in it, the file is marked as doubtful, and written anew after: so
whoever finds the mark knows that a writer died in between, and builds it from the ledger.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.record_formats import spec_of
from holdfast.core.workflow.state import is_active
from holdfast.errors import Fault, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

NAME = ".claude/workflow-state/index.json"
VERSION = "1.0"
SMALL = 64 * 1024
"""About 200 workflows: up to here every event is shown in ``last_activity``."""
_HEAD = b'{\n  "schema_version": "1.0",\n  "updated_at": "'
_ROWS = b'",\n  "active_workflows": ['
_TAIL = b'\n  ],\n  "_holdfast": {"doubtful": 0}\n}\n'
_EMPTY_TAIL = b'],\n  "_holdfast": {"doubtful": 0}\n}\n'
_DOUBT = -len(b"0}\n}\n")
_LAST = b'"last_activity": "'
_TIME = len("2026-11-15T20:31:06.123Z")


def row_of(found: Fields | Workflow) -> Fields:
    """A workflow's line, from its state or from its row in the catalog."""
    recipe = found["recipe"]
    return {
        "id": found["id"],
        "skill": recipe["name"] if isinstance(recipe, dict) else recipe,
        "feature": found["subject"],
        "started_at": found["created_at"],
        "last_activity": found["updated_at"],
    }


def listed(rows: list[Fields]) -> list[Fields]:
    """The lines for those rows of the catalog that are active."""
    return [row_of(row) for row in rows if row["status"] in ("in_progress", "blocked")]


def _sorted(rows: list[Fields]) -> list[Fields]:
    return sorted(rows, key=lambda row: str(row["id"]))


def rendered(rows: list[Fields], updated_at: str) -> bytes:
    """The file with these lines."""
    lines = [_line(row) for row in _sorted(rows)]
    return _joined(lines, updated_at.encode())


def rows_in(raw: bytes) -> list[Fields] | None:
    """What the file says; ``None`` when it is not as Holdfast wrote it."""
    lines = _lines(raw)
    try:
        return None if lines is None else [json_text.loads(line) for line in lines]
    except json_text.BadJson:
        return None


def _line(row: Fields) -> bytes:
    return json_text.line_of(row).encode()


def _joined(lines: list[bytes], updated_at: bytes) -> bytes:
    if not lines:
        return _HEAD + updated_at + _ROWS + _EMPTY_TAIL
    return _HEAD + updated_at + _ROWS + b"\n    " + b",\n    ".join(lines) + _TAIL


def _lines(raw: bytes) -> list[bytes] | None:
    start = raw.find(_ROWS)
    if not raw.startswith(_HEAD) or start < 0:
        return None
    body = raw[start + len(_ROWS) :]
    if body == _EMPTY_TAIL:
        return []
    if not body.endswith(_TAIL) or not body.startswith(b"\n    "):
        return None
    return body[len(b"\n    ") : -len(_TAIL)].split(b",\n    ")


class Index:
    """The index of one worktree. ``rows`` gives the catalog's rows of its skill workflows."""

    def __init__(self, disk: Disk, root: str, rows: Callable[[], list[Fields]]) -> None:
        self._disk = disk
        self._path = os.path.join(root, NAME)
        self._rows = rows
        self._before: bytes | None = None

    def read(self) -> bytes | None:
        return self._disk.read_own(self._path)

    def doubt(self) -> None:
        """Says, before an event, that the file will not be right until ``put`` or ``take``."""
        self._before = self.read()
        if self._before is not None and _lines(self._before) is not None:
            self._disk.overwrite(self._path, {len(self._before) + _DOUBT: b"1"})

    def is_doubtful(self) -> bool:
        """True if a writer may have been killed between an event and the index that shows it."""
        raw = self.read()
        return raw is None or raw[_DOUBT:] == b"1}\n}\n"

    def put(self, state: Workflow) -> None:
        """Shows a workflow that has become active, or what it is about now."""
        self._write(state, [_line(row_of(state))])

    def take(self, state: Workflow) -> None:
        """Takes out a workflow that is no longer active here."""
        self._write(state, [])

    def _write(self, state: Workflow, fresh: list[bytes]) -> None:
        lines = _lines(self._before or b"")
        if lines is None:
            self.rebuild()
            return
        own = _key(state["id"])
        kept = [line for line in lines if not line.startswith(own)]
        data = _joined(sorted([*kept, *fresh]), state["updated_at"].encode())
        self._make_folders()
        self._disk.replace_view(self._path, data)

    def note_activity(self, state: Workflow) -> None:
        """Shows that something happened in a workflow that is in the index."""
        if not os.path.isdir(os.path.join(os.path.dirname(self._path), "completed")):
            self._make_folders()
        raw = self.read() or b""
        if len(raw) > SMALL:
            return
        start = raw.find(_key(state["id"]))
        place = raw.find(_LAST, start, raw.find(b"\n", start)) + len(_LAST)
        times = (
            raw[len(_HEAD) + _TIME : len(_HEAD) + _TIME + 1],
            raw[place + _TIME : place + _TIME + 1],
        )
        if _lines(raw) is None or start < 0 or times != (b'"', b'"'):
            self.rebuild()
            return
        at = state["updated_at"].encode()
        self._disk.overwrite(self._path, {len(_HEAD): at, place: at})

    def is_current(self, rows: list[Fields]) -> bool:
        """Whether the file says exactly what these rows do; its ``updated_at`` aside."""
        return rows_in(self.read() or b"") == _sorted(listed(rows))

    def rebuild(self) -> None:
        """Write it from what the ledger says; nothing where there never was one."""
        rows = self._rows()
        if rows or os.path.lexists(self._path):
            newest = max((row["updated_at"] for row in rows), default=_updated_at(self.read()))
            self._make_folders()
            self._disk.replace_view(self._path, rendered(listed(rows), newest))

    def _make_folders(self) -> None:
        """With the one that scripts move what they completed into: they don't make it.

        The root is not made: a worktree that was moved or removed stays away.
        """
        folder = os.path.dirname(self._path)
        for name in (os.path.dirname(folder), folder, os.path.join(folder, "completed")):
            self._disk.add_folder(name)


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
        self._workspace.inside(root, NAME)
        return Index(self._disk, root, lambda: self._rows(worktree))

    def doubted(self, before: Workflow | None, after: Workflow) -> list[Index]:
        """The indexes that an event takes a workflow out of and puts it into, marked as doubtful.

        The one that it enters comes last.
        """
        left = before["worktree"] if before is not None and is_listed(before) else None
        entered = after["worktree"] if is_listed(after) else None
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
        if self._is_busy or not (moved or is_listed(state)):
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
        elif is_listed(state):
            *moved, entered = moved
            entered.put(state)
        for left in moved:
            left.take(state)


def _updated_at(raw: bytes | None) -> str:
    """Return the time that a file says it is of."""
    start = len(_HEAD)
    return (raw or b"")[start : start + _TIME].decode(errors="replace")


def is_listed(state: Workflow | None) -> bool:
    """Whether the workflow belongs into the index of its worktree."""
    return state is not None and spec_of(state).is_indexed and is_active(state)


def _key(workflow_id: str) -> bytes:
    return _line({"id": workflow_id})[:-1] + b","
