"""Maintain the index of a worktree's active skill workflows, which scripts read.

The index is a view. It lists exactly the active workflows after every command. ``last_activity`` is
exact while the file is small; for a larger file, ``status`` refreshes it. Each workflow has one
line, in the order of the ids, so one line can be added, removed or updated without the others.

A writer marks the file as doubtful before an event that adds or removes a workflow, and writes it
after the event. If that writer is killed in between, or cannot write, the next transaction rebuilds
the index from the ledger. An index that was removed by hand is rebuilt by the next event of a
workflow in it, or by ``status``.

Other programs may write the file, but nothing is adopted from it. When it is replaced, content that
the ledger does not have is kept beside it, and a note says so.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.record_formats import spec_of
from holdfast.core.workflow import is_active
from holdfast.errors import Fault, Refused, refuse_newer
from holdfast.storage.record_files import RecordFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from holdfast.core.types import Fields, Json, Workflow
    from holdfast.storage.ledger import Ledger
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

    class Source(Protocol):
        """The part of the store that an index uses."""

        ledger: Ledger

        def skill_rows(self, worktree: str) -> list[Fields]:
            """Return the ledger's rows of the workflows that a worktree's index lists."""

        def note(self, text: str) -> None:
            """Add a note to the answer."""

        def tracked(self) -> list[str]:
            """Return the files of Holdfast that git tracks in this worktree; none is written."""


NAME = ".claude/workflow-state/index.json"
VERSION = "1.0"
SMALL = 64 * 1024
"""The size in bytes, about 200 workflows, up to which every event updates ``last_activity``."""
_HEAD = b'{\n  "schema_version": "1.0",\n  "updated_at": "'
_ROWS = b'",\n  "active_workflows": ['
_TAIL = b'\n  ],\n  "_holdfast": {"doubtful": 0}\n}\n'
_EMPTY_TAIL = b'],\n  "_holdfast": {"doubtful": 0}\n}\n'
_DOUBT = -len(b"0}\n}\n")
_LAST = b'"last_activity": "'
_TIME = len("2026-11-15T20:31:06.123Z")
_HEAD_END = len(_HEAD) + _TIME
_QUOTE = ord('"')
_KEYS = {"schema_version", "updated_at", "active_workflows", "_holdfast"}
_LASTING = ("id", "skill", "feature", "started_at")


def row_of(source: Fields | Workflow) -> Fields:
    """Return the fields of a workflow's line, from its state or from its row in the ledger."""
    recipe = source["recipe"]
    return {
        "id": source["id"],
        "skill": recipe["name"] if isinstance(recipe, dict) else recipe,
        "feature": source["subject"],
        "started_at": source["created_at"],
        "last_activity": source["updated_at"],
    }


def rendered(rows: list[Fields], updated_at: str) -> bytes:
    """Return the content of an index file with these rows."""
    return _joined([_line(row) for row in sorted(rows, key=_id_of)], updated_at.encode())


def rows_in(raw: bytes) -> list[Fields] | None:
    """Return the rows of an index file; ``None`` if it does not have the form Holdfast writes."""
    lines = _lines(raw)
    try:
        rows = None if lines is None else [json_text.loads(line) for line in lines]
    except json_text.BadJson:
        return None
    has_surrogates = b"\\ud" in raw.lower() and not json_text.is_encodable(json_text.dumps(rows))
    return None if has_surrogates else rows


def is_listed(state: Workflow) -> bool:
    """Return True if the workflow belongs in the index of its worktree."""
    return spec_of(state).is_indexed and is_active(state)


class Index:
    """The index of one worktree. ``source`` knows the ledger's rows of its workflows."""

    def __init__(self, disk: Disk, root: str, worktree: str, source: Source) -> None:
        self._disk = disk
        self._root = root
        self._path = os.path.join(root, NAME)
        self._worktree = worktree
        self._source = source
        self._files = RecordFiles(disk, self._is_own, source.note)
        self._before: bytes | None = None

    def doubt(self) -> None:
        """Mark the file as doubtful before an event, until ``write`` is called."""

        def mark(raw: bytes) -> dict[int, bytes]:
            self._before = raw
            return {} if _lines(raw) is None else {len(raw) + _DOUBT: b"1"}

        self._disk.update(self._path, mark)

    def is_doubtful(self) -> bool:
        """Return True if a writer may have been killed between an event and the index update."""
        raw = self._disk.read_own(self._path)
        return raw is None or _is_doubtful(raw)

    def write(self, state: Workflow, *, has_left: bool) -> None:
        """Add a workflow or replace its line; remove it if it ``has_left`` this index."""
        lines = _lines(self._before or b"")
        if lines is None:
            self.rebuild()
            return
        others = [line for line in lines if not line.startswith(_key(state["id"]))]
        if not has_left:
            others.append(_line(row_of(state)))
        before = self._before or b""
        doubted = before[:_DOUBT] + b"1" + before[_DOUBT + 1 :]
        self._replace(_joined(sorted(others), state["updated_at"].encode()), doubted)

    def note_activity(self, state: Workflow) -> None:
        """Update ``last_activity`` of a workflow in the index, if the file is small."""

        def update(raw: bytes) -> dict[int, bytes] | None:
            if len(raw) > SMALL:
                return {}
            start = raw.find(_key(state["id"]))
            offset = raw.find(_LAST, start, raw.find(b"\n", start)) + len(_LAST)
            has_form = raw.startswith(_HEAD) and raw.endswith(_TAIL) and start > 0
            if not has_form or raw[_HEAD_END] != _QUOTE or raw[offset + _TIME] != _QUOTE:
                return None
            at = state["updated_at"].encode()
            return {len(_HEAD): at, offset: at}

        has_folder = os.path.isdir(os.path.join(os.path.dirname(self._path), "completed"))
        if not (has_folder and self._disk.update(self._path, update)):
            self.rebuild()

    def is_current(self) -> bool:
        """Return True if the file has exactly the ledger's rows. No file is needed for none."""
        rows = [row_of(row) for row in self._source.skill_rows(self._worktree)]
        raw = self._disk.read_own(self._path) or b""
        return not rows or rows_in(raw) == sorted(rows, key=_id_of)

    def rebuild(self) -> None:
        """Write the index from the ledger. Do nothing if there is no file and no workflow.

        Raise ``Fault`` if a newer Holdfast wrote the file.
        """
        before = self._disk.read_own(self._path) or b""
        if not before.startswith(_HEAD):
            refuse_newer(NAME, _version_in(before), 1)
        rows = [row_of(row) for row in self._source.skill_rows(self._worktree)]
        if rows:
            newest = max(row["last_activity"] for row in rows)
        elif os.path.lexists(self._path):
            newest = before[len(_HEAD) : _HEAD_END].decode(errors="replace")
        else:
            return
        self._replace(rendered(rows, newest), None)

    def _replace(self, data: bytes, expected: bytes | None) -> None:
        """Put a new index in place. Keep what the ledger does not have, unless it is expected."""
        self._make_folders()
        spare, _ = self._files.prepare(self._path, data, self._root)
        for saved in self._files.put(spare, self._path, expected):
            raw = self._files.read(saved) or b""
            kept = os.path.basename(self._files.set_aside(saved, raw, self._path))
            self._source.note(
                f"{NAME} is made from the ledger; what was written there is kept as {kept}"
            )

    def _is_own(self, raw: bytes) -> bool:
        """Return True if the content has nothing that is not in the ledger, in any layout."""
        try:
            document = json_text.loads(raw.strip(b"\0 \t\r\n") or b"{}")
        except json_text.BadJson:
            return False
        if not document:
            return True
        rows = document.get("active_workflows") if isinstance(document, dict) else None
        if not isinstance(rows, list) or not document.keys() <= _KEYS:
            return False
        return all(self._is_own_row(row, is_doubtful=_is_doubtful(raw)) for row in rows)

    def _is_own_row(self, row: Json, *, is_doubtful: bool) -> bool:
        """Return True if a row shows a workflow of the ledger; if it ``is_doubtful``, as it was."""
        name = row.get("id") if isinstance(row, dict) else None
        stream = self._source.ledger.stream(name) if isinstance(name, str) else None
        if stream is None or not isinstance(row, dict):
            return False
        own = row_of(stream.row)
        return row.keys() <= own.keys() and (
            is_doubtful or all(row.get(key, own[key]) == own[key] for key in _LASTING)
        )

    def _make_folders(self) -> None:
        """Make the index's folder and ``completed`` in it, which scripts use but do not make.

        The root is not made: a worktree that was moved or removed is not created again.
        """
        folder = os.path.dirname(self._path)
        for name in (os.path.dirname(folder), folder, os.path.join(folder, "completed")):
            self._disk.add_folder(name)


class Indexes:
    """The indexes of all worktrees. An index is a view, so an error only adds a note."""

    def __init__(
        self,
        workspace: Workspace,
        disk: Disk,
        source: Source,
    ) -> None:
        self._workspace = workspace
        self._disk = disk
        self._source = source
        self._is_busy = False
        """True during an update, because a rebuild loads records, which may cause another event."""

    def of(self, worktree: str) -> Index | None:
        """Return the worktree's index; ``None`` if the worktree is gone, or git tracks the file."""
        root = self._workspace.root_of(worktree)
        if root is None:
            return None
        self._workspace.inside(root, NAME)
        return self._at(root, worktree)

    def _at(self, root: str, worktree: str) -> Index | None:
        if worktree == self._workspace.name and NAME in self._source.tracked():
            return None
        return Index(self._disk, root, worktree, self._source)

    def doubted(self, before: Workflow | None, after: Workflow) -> list[Index]:
        """Mark the indexes that an event will change as doubtful, and return them.

        The index that the workflow enters comes first.
        """
        source = before["worktree"] if before is not None and is_listed(before) else None
        target = after["worktree"] if is_listed(after) else None
        if source == target:
            # Only ``last_activity`` changes, unless an edit changed more.
            is_same = before is not None and (
                before["subject"] == after["subject"]
                and before["created_at"] == after["created_at"]
            )
            if target is None or is_same:
                return []
            source = None
        try:
            indexes = [self.of(name) for name in (target, source) if name is not None]
            moved = [index for index in indexes if index is not None]
            for index in moved:
                index.doubt()
        except (OSError, Refused) as error:
            self._source.note(f"the index could not be written ({error})")
            return []
        return moved

    def show(self, state: Workflow, moved: list[Index], root: str | None = None) -> bool:
        """Update the indexes after an event of a workflow; return False if that failed.

        ``moved`` are those that were doubted before it. ``root`` is its worktree's, if known.
        """
        if self._is_busy or not (moved or is_listed(state)):
            return True
        self._is_busy = True
        try:
            if moved:
                has_left = not is_listed(state)
                for index in moved:
                    index.write(state, has_left=has_left)
                    has_left = True
            else:
                worktree = state["worktree"]
                own = self._at(root, worktree) if root else self.of(worktree)
                if own is not None:
                    own.note_activity(state)
        except (OSError, Fault, Refused) as error:
            self._source.note(f"the index could not be written ({error})")
            return False
        finally:
            self._is_busy = False
        return True

    def mend(self) -> None:
        """Rebuild this worktree's index if its writer was killed while changing it."""
        own = self.of(self._workspace.name)
        try:
            if own is not None and own.is_doubtful():
                own.rebuild()
        except (OSError, Fault, Refused) as error:
            self._source.note(f"the index could not be written ({error})")


def _is_doubtful(raw: bytes) -> bool:
    return raw[_DOUBT:] == b"1}\n}\n"


def _version_in(raw: bytes) -> object:
    """Return the version that a file states; ``None`` if it states none."""
    try:
        document = json_text.loads(raw)
    except json_text.BadJson:
        return None
    return document.get("schema_version") if isinstance(document, dict) else None


def _id_of(row: Fields) -> str:
    return str(row["id"])


def _key(workflow_id: str) -> bytes:
    """Return the beginning of a workflow's line."""
    return b'{"id": %s,' % json_text.dumps(workflow_id).encode()


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
