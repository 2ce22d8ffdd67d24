"""The register: where each stream stands, by the catalog and the open segment together.

The catalog speaks for the closed segments; what the file lacks, or has wrong, the ledger gives.
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


class Register:
    """What is known of all streams. ``forget`` when another process closed a segment."""

    def __init__(self, home: str, disk: Disk, ledger: Ledger) -> None:
        self.path = os.path.join(home, catalog.NAME)
        self._disk = disk
        self._ledger = ledger
        self._catalog: catalog.Catalog | None = None
        self._places: dict[str, tuple[int, str, str]] = {}
        """How long the open segment was, and what record and worktree it told until there."""

    def forget(self) -> None:
        self._catalog = None
        self._places = {}

    def version(self, stream: str) -> int:
        """How many events the stream has."""
        last = self._ledger.last(stream) or self.row(stream)
        return last["version"] if last else 0

    def position(self, stream: str) -> Position | None:
        """Where the stream stands; ``None`` when there is no such stream."""
        last = self._ledger.last(stream)
        if last is None:
            row = self.row(stream)
            is_known = row is not None and not catalog.is_bare(row)
            return Position(row, row["record"], row["worktree"]) if row and is_known else None
        record, worktree = self._place(stream)
        return Position(last, record, worktree) if record else None

    def _place(self, stream: str) -> tuple[str, str]:
        """Record and worktree of a stream that the open segment has; empty when nothing tells."""
        size, record, worktree = self._places.get(stream, (0, "", MAIN))
        told: Fields = {}
        for event in self._ledger.newest(stream, _TELLS_PLACE, size):
            told = {**_place_in(event["data"]), **told}
            if "record" in told and "worktree" in told:
                break
        else:
            before = {} if size else self.row(stream) or {}
            told = {"record": record, "worktree": worktree, **before, **told}
        self._places[stream] = (self._ledger.size, told["record"], told["worktree"])
        return told["record"], told["worktree"]

    def row(self, stream: str) -> Fields | None:
        return self._asked(lambda found: found.row(stream))

    def rows(self, naming: bytes = b"") -> list[Fields]:
        """The rows of all workflows that have these bytes; other streams have none to list."""
        return self._asked(lambda found: [r for r in found.rows(naming) if not catalog.is_bare(r)])

    def built(self) -> bytes:
        """The catalog as nothing but the ledger gives it."""
        return catalog.built(self._ledger.identity(), self._ledger.closed.each)

    def close_segment(self, rows: list[Fields]) -> None:
        """Writes the catalog with these rows of the open segment, and ends that segment."""
        ledger = self._ledger
        data = self._current().updated(ledger.head_seq, ledger.identity(), rows)
        self._disk.replace_view(self.path, data, durable=True)
        ledger.close_segment()
        self.forget()
        self._catalog = catalog.Catalog(data)

    def rebuild(self) -> None:
        """Writes the catalog anew from the ledger alone."""
        if self._ledger.closed.segments():
            data = self.built()
            self._disk.replace_view(self.path, data, durable=True)
            self._catalog = catalog.Catalog(data)

    def _asked(self, ask: Callable[[catalog.Catalog], T]) -> T:
        """What the catalog says; a damaged one is made anew first."""
        try:
            return ask(self._current())
        except catalog.Damaged:
            self._catalog = catalog.Catalog(self.built())
            return ask(self._catalog)

    def _current(self) -> catalog.Catalog:
        if self._catalog is None:
            found = catalog.Catalog(self._disk.read_own(self.path) or b"")
            closed = self._ledger.closed.segments()
            if not closed:
                found = catalog.Catalog(b"")
            elif not found.is_whole or found.seq < closed[-1][2]:
                found = catalog.Catalog(self.built())
            self._catalog = found
        return self._catalog


def _place_in(data: Fields) -> Fields:
    """What an event says about record and worktree."""
    state = data.get("state", data)
    names = ("record", "worktree") if isinstance(state, dict) else ()
    return {name: state[name] for name in names if isinstance(state.get(name), str)}
