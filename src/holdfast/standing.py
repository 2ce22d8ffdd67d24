"""Where each stream stands: the catalog tells it for the closed segments, the open one does after.

So no question about a stream reads more of the ledger than its open segment.
"""

from __future__ import annotations

import os

from holdfast.layers import catalog
from holdfast.workspace import MAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.shapes import Event, Fields
    from holdfast.disk import Disk
    from holdfast.layers.catalog import Catalog
    from holdfast.ledger.file import Ledger

    T = TypeVar("T")

_TELLS_PLACE = b'"record":"'
"""What stands in the line of every event that gives a record its place."""


class Position:
    """Where a stream stands in the ledger, and where its record stands in a worktree."""

    __slots__ = ("hash", "record", "seq", "stream", "version", "worktree")

    def __init__(self, found: Event | Fields, record: str, worktree: str) -> None:
        self.stream: str = found["stream"]
        self.seq: int = found["seq"]
        self.version: int = found["version"]
        self.hash: str = found["hash"]
        self.record = record
        self.worktree = worktree


class Standing:
    """The catalog and the open segment, asked as one. ``forget`` when another segment is open."""

    def __init__(self, ledger: Ledger, disk: Disk, home: str) -> None:
        self._ledger = ledger
        self._disk = disk
        self._path = os.path.join(home, catalog.NAME)
        self._catalog: Catalog | None = None
        self._places: dict[str, tuple[int, str, str]] = {}
        """Record and worktree by stream, as the open segment had it when it was so long."""

    def forget(self) -> None:
        self._catalog = None
        self._places = {}

    def version(self, stream: str) -> int:
        """How many events the stream has."""
        last = self._ledger.last(stream) or self._row(stream)
        return last["version"] if last else 0

    def position(self, stream: str) -> Position | None:
        """Where the stream stands; ``None`` when there is no such stream."""
        last = self._ledger.last(stream)
        row = None
        if last is None or stream not in self._places:
            row = self._row(stream) if last is None else None
        ...

    def rows(self) -> list[Fields]:
        """The rows of the catalog."""
        return self._asked(lambda found: found.rows())
