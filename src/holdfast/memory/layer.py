"""The layer itself: what the ledger has to say, brought into the project's ``MEMORY.md``.

It is level-triggered: the section is made from the state of the workspace, whatever was missed
before, and written only when something is said that was not there. What was written last is
remembered beside the ledger, so that a line which somebody took out stays out.
"""

from __future__ import annotations

import os
from errno import EFBIG

from holdfast import exchange, jsontext, settings
from holdfast.core import choice, learning, sentences
from holdfast.core.workflow.lifecycle import pending
from holdfast.digest import digest
from holdfast.errors import HoldfastError
from holdfast.memory import merge, place, section
from holdfast.small import Small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields

UNAVAILABLE = "Auto-memory unavailable — learnings will not persist"
FILE = "memory.json"
LOCK = "memory.lock"
WAIT_S = 5.0
_ENDED = 20
"""So many of the newest ends of workflows are looked at."""
_LARGEST = 4_000_000
_MARKS = 2


class Memory:
    """The memory of one workspace."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._engine = caller.engine

    @property
    def path(self) -> str | None:
        """Where it is; ``None`` where it is switched off."""
        return place.find(self._engine.workspace)

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
        raw = self._engine.disk.read(path) if path else None
        lines = section.Section(raw or b"", self._key).lines or []
        return [section.encoded(line).decode(errors="replace") for line in lines]

    def sentences(self) -> list[str]:
        """The same without headings and marks."""
        return section.bullets(self.lines())

    def write(self) -> bool:
        """Brings the section up to date; says whether something changed.

        Trouble with the file is a note, never a fault: the state itself is safe.
        """
        disk = self._engine.disk
        try:
            path = self.path
            if path is None:
                return False
            lock = disk.lock(os.path.join(self._engine.workspace.home, LOCK), WAIT_S)
            before, self._caller.is_spreading = self._caller.is_spreading, True
            try:
                return self._write(os.path.realpath(path))
            finally:
                self._caller.is_spreading = before
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "strerror", None) or getattr(error, "message", None) or error
            self._engine.note(f"{UNAVAILABLE} ({why})")
            return False

    def _write(self, path: str) -> bool:
        disk = self._engine.disk
        remembered = self._remembered(path)
        room = settings.load(self._engine.workspace.root).memory_lines() - _MARKS
        made: list[Fields] = []
        changed: list[bool] = []

        def prepare(raw: bytes | None) -> bytes | None:
            # Looked at anew each time: whoever wrote in between may know more.
            if raw is not None and len(raw) > _LARGEST:
                raise OSError(EFBIG, f"it has more than {_LARGEST:,} bytes")
            wanted = self._caller.reading(lambda: list(self._wanted()))
            found = section.Section(raw or b"", self._key)
            lines, theirs, told = merge.merged(found.lines, wanted, remembered, room)
            after: bytes | None = found.with_lines([*lines, *theirs])
            after = None if raw is None and not after else after
            made.append({"path": path, **told})
            changed.append(after != raw)
            return after

        disk.make_folder(os.path.dirname(path))
        self._clear_spares(path, remembered["written"])
        exchange.settle(disk, path, prepare, self._engine.pause, self._key)
        if made[-1] != remembered:
            disk.replace_view(self._state_path, jsontext.pretty(made[-1]).encode() + b"\n")
        return any(changed)

    def _clear_spares(self, path: str, written: list[str]) -> None:
        """Sees to what a writer that was killed left beside the file."""

        def is_known(left: bytes) -> bool:
            wanted = self._caller.reading(lambda: list(self._wanted()))
            ours = section.Section(b"", self._key).with_lines(section.laid_out(wanted))
            standing = self._engine.disk.read(path) or b""
            known = {b"", *standing.splitlines(), *ours.splitlines()}
            *whole, last = left.splitlines()
            return any(row.startswith(last) for row in known) and all(
                row in known or merge.is_ours(section.decoded(row), written, []) for row in whole
            )

        for kept in exchange.clear_spares(self._engine.disk, path, is_known, self._key):
            self._engine.note(f"what was saved as {path} when a writer died is kept as {kept}")

    @property
    def _key(self) -> str:
        """The section's name: several workspaces may share one file."""
        top = os.path.dirname(os.path.dirname(self._engine.workspace.home))
        name = "".join([c if c.isalnum() else "-" for c in os.path.basename(top)]) or "workspace"
        return f"{name[:40]}-{digest(os.path.realpath(top).encode())[:8]}"

    @property
    def _state_path(self) -> str:
        return os.path.join(self._engine.workspace.home, FILE)

    def _remembered(self, path: str) -> Fields:
        """What was written last; nothing when that was another file, or is not known."""
        try:
            found = jsontext.loads(self._engine.disk.read_own(self._state_path) or b"{}")
        except jsontext.BadJson:
            found = {}
        if not isinstance(found, dict) or found.get("path") != path:
            return {"path": path, "written": [], "dropped": []}
        return {"path": path, **{name: _texts(found.get(name)) for name in ("written", "dropped")}}

    def _wanted(self) -> Iterator[tuple[str, list[str]]]:
        """Headings and sentences; what comes last leaves first when there is too little room."""
        state = Small(self._caller, "learning").look()
        learned: dict[str, list[str]] = {}
        for entry in state["learnings"]:
            heading = sentences.one_line(entry.get("section", learning.SECTION))
            learned.setdefault(heading, []).insert(0, sentences.learned(entry))
        yield from learned.items()
        delegations, interviews = (
            Small(self._caller, kind).look() for kind in ("delegation", "interview")
        )
        yield merge.PREFERRED, sentences.preferences(delegations, interviews)
        rows = sorted(self._caller.rows(), key=lambda row: str(row["updated_at"]), reverse=True)
        active = [row for row in rows if row["status"] in choice.ACTIVE and row["format"] == "verb"]
        yield merge.ACTIVE, [line for row in active if (line := self._active(row))]
        ended = [row for row in rows if row["status"] in ("completed", "expired")]
        yield merge.ENDED, [self._ended(row) for row in ended[:_ENDED]]

    def _active(self, row: Fields) -> str | None:
        position = self._engine.position(row["id"])
        state = None if position is None else self._engine.load(position)
        if state is None:
            return None
        return sentences.position(row["recipe"], row["title"], sentences.begun(state))

    def _ended(self, row: Fields) -> str:
        if row["status"] == "expired":
            return sentences.expiry(row["recipe"], row["title"], row["phase"])
        return sentences.completion(row["recipe"], row["title"], self._ending(row))

    def _ending(self, row: Fields) -> Fields:
        """How a workflow ended: most say so in their last event, which spares reading the rest."""
        last = next(self._engine.ledger.scan(row["id"], row["seq"] - 1), None)
        if last is not None and last["type"] == "workflow_completed":
            return last["data"]
        state = self._engine.replay(row["id"])[0]
        return {**state, "skipped": pending(state)}


def _texts(found: object) -> list[str]:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
