"""Read a ledger of version 0.1: lines of JSON in ``ledger.ndjson`` and in closed segments.

Such a ledger is in ``.claude/holdfast``, with links to its files in git's folder. Nothing here
changes its files.
"""

from __future__ import annotations

import os

from holdfast.storage import event_codec
from holdfast.workspace.location import OLD_LEDGER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.system.disk import Disk

_PART = 9


class OldLedger:
    """The events of a ledger of version 0.1."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self.folder = folder
        self.rows: list[tuple[Any, ...]] = []
        """Its events as rows, in order."""
        self.damaged = 0
        """The number of lines that are not valid events."""
        for path in _segments(folder):
            self._read(disk.read_own(path) or b"")
        self._drop_unfinished()

    @property
    def identity(self) -> str:
        """The ledger's identity, which its records contain."""
        return str(self.rows[0][1]) if self.rows else ""

    def _read(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if not line:
                continue
            try:
                row = event_codec.row_of(line)
            except event_codec.BadEvent:
                self.damaged += 1
                continue
            if not self.rows or row[0] > self.rows[-1][0]:
                self.rows.append(row)

    def _drop_unfinished(self) -> None:
        """Drop the last commit if its writer was killed before it was complete."""
        part = self.rows[-1][_PART] if self.rows else None
        if part is not None:
            number, total = event_codec.part_of(part)
            if number < total:
                del self.rows[-number:]


def find(folders: tuple[str, ...]) -> str | None:
    """Return the first of these folders that has a ledger of version 0.1."""
    return next((folder for folder in folders if any(_segments(folder))), None)


def _segments(folder: str) -> Iterator[str]:
    """Yield the paths of its files, in the order of their events."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    closed = sorted((_first_seq(name), name) for name in names if _first_seq(name))
    for _, name in closed:
        yield os.path.join(folder, name)
    if OLD_LEDGER in names:
        yield os.path.join(folder, OLD_LEDGER)


def _first_seq(name: str) -> int:
    """Return the seq of a closed segment's first event, from its name; 0 for other files."""
    parts = name.removesuffix(".ndjson").split("-")
    is_segment = len(parts) == 3 and parts[0] == "ledger" and name.endswith(".ndjson")
    return int(parts[1]) if is_segment and parts[1].isdigit() and parts[2].isdigit() else 0
