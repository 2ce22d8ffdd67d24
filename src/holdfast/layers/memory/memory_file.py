"""The layer itself: what the ledger has to say, brought into the project's ``MEMORY.md``.

It is level-triggered: the section is made from the state of the workspace, whatever was missed
before, and written only when something is said that was not there. What was written last is
remembered beside the ledger, so that a line which somebody took out stays out.
"""

from __future__ import annotations

import os
from errno import EFBIG

from holdfast.core import json_text, logs, memory_lines
from holdfast.core.digest import digest
from holdfast.core.workflow.lifecycle import pending
from holdfast.core.workflow.state import is_active
from holdfast.errors import HoldfastError
from holdfast.layers.memory import location, merge, section
from holdfast.storage import shared_file
from holdfast.storage.ledger import ACTIVE, ENDED
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.storage.ledger import Stream

UNAVAILABLE = "Auto-memory unavailable — learnings will not persist"
FILE = "memory.json"
LOCK = "memory.lock"
WAIT_S = 5.0
_MAX_ENDED = 20
_NEWEST_ENDED = f"{ENDED} AND status != 'abandoned' ORDER BY updated_at DESC, seq DESC LIMIT ?"
_LARGEST = 4_000_000
_MARKS = 2


class Memory:
    """The memory of one workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store

    @property
    def path(self) -> str | None:
        """Where it is; ``None`` where it is switched off."""
        return location.find(self._store.workspace)

    def is_available(self) -> bool:
        """Whether it can be read and written, or made."""
        path = wanted = self.path
        if path is None:
            return False
        while not os.path.lexists(path) and os.path.dirname(path) != path:
            path = os.path.dirname(path)
        is_right = os.path.isfile(path) if path == wanted else os.path.isdir(path)
        return is_right and os.access(path, os.W_OK)

    def lines(self) -> list[str]:
        """The lines of our section as they stand; none when there is no section."""
        path = self.path
        raw = self._store.disk.read(path) if path else None
        lines = section.Section(raw or b"", self._key).lines or []
        return [section.encoded(line).decode(errors="replace") for line in lines]

    def sentences(self) -> list[str]:
        """The same without headings and marks."""
        return section.bullets(self.lines())

    def write(self) -> bool:
        """Brings the section up to date; says whether something changed.

        Trouble with the file is a note, never a fault: the state itself is safe.
        """
        disk = self._store.disk
        try:
            path = self.path
            if path is None:
                return False
            lock = disk.lock(os.path.join(self._store.workspace.home, LOCK), WAIT_S)
            try:
                return self._write(os.path.realpath(path))
            finally:
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "strerror", None) or getattr(error, "message", None) or error
            self._store.note(f"{UNAVAILABLE} ({why})")
            return False

    def _write(self, path: str) -> bool:
        disk = self._store.disk
        remembered = self._remembered(path)
        room = settings.load(self._store.workspace.root).memory_lines() - _MARKS
        made: list[Fields] = []
        changed: list[bool] = []

        def prepare(raw: bytes | None) -> bytes | None:
            # Looked at anew each time: whoever wrote in between may know more.
            if raw is not None and len(raw) > _LARGEST:
                raise OSError(EFBIG, f"it has more than {_LARGEST:,} bytes")
            wanted = list(self._wanted())
            found = section.Section(raw or b"", self._key)
            lines, theirs, told = merge.merged(found.lines, wanted, remembered, room)
            after: bytes | None = found.with_lines([*lines, *theirs])
            after = None if raw is None and not after else after
            made.append({"path": path, **told})
            changed.append(after != raw)
            return after

        disk.make_folder(os.path.dirname(path))
        self._clear_spares(path, remembered["written"])
        shared_file.settle(disk, path, prepare, self._store.pause, self._key)
        if made[-1] != remembered:
            disk.replace_view(self._state_path, json_text.pretty(made[-1]).encode() + b"\n")
        return any(changed)

    def _clear_spares(self, path: str, written: list[str]) -> None:
        """Sees to what a writer that was killed left beside the file."""

        def is_known(left: bytes) -> bool:
            wanted = list(self._wanted())
            ours = section.Section(b"", self._key).with_lines(section.laid_out(wanted))
            standing = self._store.disk.read(path) or b""
            known = {b"", *standing.splitlines(), *ours.splitlines()}
            *whole, last = left.splitlines()
            return any(row.startswith(last) for row in known) and all(
                row in known or merge.is_ours(section.decoded(row), written, []) for row in whole
            )

        for kept in shared_file.clear_spares(self._store.disk, path, is_known, self._key):
            self._store.note(f"what was saved as {path} when a writer died is kept as {kept}")

    @property
    def _key(self) -> str:
        """The section's name: several workspaces may share one file."""
        top = self._store.workspace.project
        name = "".join([c if c.isalnum() else "-" for c in os.path.basename(top)]) or "workspace"
        return f"{name[:40]}-{digest(os.path.realpath(top).encode())[:8]}"

    @property
    def _state_path(self) -> str:
        return os.path.join(self._store.workspace.home, FILE)

    def _remembered(self, path: str) -> Fields:
        """What was written last; nothing when that was another file, or is not known."""
        try:
            found = json_text.loads(self._store.disk.read_own(self._state_path) or b"{}")
        except json_text.BadJson:
            found = {}
        if not isinstance(found, dict) or found.get("path") != path:
            return {"path": path, "written": [], "dropped": []}
        return {"path": path, **{name: _texts(found.get(name)) for name in ("written", "dropped")}}

    def _wanted(self) -> Iterator[tuple[str, list[str]]]:
        """Headings and sentences; what comes last leaves first when there is too little room."""
        state = self._session.log_state("learning")
        learned: dict[str, list[str]] = {}
        for entry in state["learnings"]:
            heading = memory_lines.one_line(entry.get("section", logs.DEFAULT_SECTION))
            learned.setdefault(heading, []).insert(0, memory_lines.learned(entry))
        yield from learned.items()
        delegations = self._session.log_state("delegation")
        interviews = self._session.log_state("interview")
        yield merge.PREFERRED, memory_lines.preferences(delegations, interviews)
        ledger = self._store.ledger
        active = list(ledger.states(f"{ACTIVE} AND format = 'verb' ORDER BY updated_at DESC"))
        lines = [self._active(self._store.peek_at(one).state) for one in active]
        yield merge.ACTIVE, [line for line in lines if line]
        ended = ledger.states(_NEWEST_ENDED, _MAX_ENDED)
        yield merge.ENDED, [self._ended(one) for one in ended]

    def _active(self, state: Workflow) -> str | None:
        if not is_active(state):
            return None
        return memory_lines.position(
            state["recipe"]["name"], state["title"], memory_lines.begun(state)
        )

    def _ended(self, ended: Stream) -> str:
        row, state = ended.row, ended.state
        if row["status"] == "expired":
            return memory_lines.expiry(row["recipe"], row["title"], row["phase"])
        # Its last event says how it was completed, unless something was noted after that.
        last = next(self._store.ledger.newest(row["id"], 1))
        is_completion = last["type"] == "workflow_completed"
        ending = last["data"] if is_completion else {**state, "skipped": pending(state)}
        return memory_lines.completion(row["recipe"], row["title"], ending)


def _texts(found: object) -> list[str]:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
