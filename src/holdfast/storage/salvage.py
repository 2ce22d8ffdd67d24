"""Read what a damaged ledger still has, and put a sound one in its place.

The damaged files are kept beside the new ledger under another name. Replacing takes several steps,
so the new file first gets the name ``ledger.db.recovered``: from then on, the next writer finishes
the replacement (``database.finish_recovery``).
"""

from __future__ import annotations

import os

from holdfast.storage import event_codec
from holdfast.storage.database import BESIDE, RECOVERED, Error, connect_damaged, finish_recovery
from holdfast.storage.ledger import COLUMNS, STREAMS, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from sqlite3 import Connection
    from typing import Any

    from holdfast.system.disk import Disk

_EVENTS = f"SELECT {event_codec.COLUMNS} FROM events WHERE seq > ? ORDER BY seq"
_EVENT = f"SELECT {event_codec.COLUMNS} FROM events WHERE seq = ?"
_HASH = COLUMNS.index("hash")
_MOST_BEHIND = 100_000
"""How many events behind a damaged page are tried: a forged seq may be far ahead."""
_LAST = (
    "SELECT max(seq) FROM events",
    "SELECT seq FROM events ORDER BY seq DESC LIMIT 1",
    "SELECT max(seq) FROM streams",
    "SELECT max(seq) FROM records",
)


class Damaged:
    """A ledger that cannot be trusted, of which a copy is read for what it still has."""

    def __init__(self, path: str, folder: str, disk: Disk) -> None:
        self._copy = os.path.join(folder, "copy.db")
        self._disk = disk
        disk.make_folder(folder, 0o700)
        self._remove_copy()
        for end in ("", "-wal"):
            data = disk.read_own(path + end)
            if data is not None:
                disk.create(self._copy + end, data, 0o600)
        self._connection = connect_damaged(self._copy)

    def events(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of events that can be read, in order; they may still be forged."""
        last, seq = self._last(), 0
        while True:
            for row in _tolerant(self._connection, _EVENTS, (seq,)):
                if isinstance(row[0], int) and row[0] > seq:
                    seq = row[0]
                    yield row
            # The scan ended at a damaged page, or at the end: try what is behind it one by one.
            for behind in range(seq + 1, min(last, seq + _MOST_BEHIND) + 1):
                rows = list(_tolerant(self._connection, _EVENT, (behind,)))
                yield from rows
                if rows:
                    seq = behind
                    break
            else:
                return

    def _last(self) -> int:
        """Return the last seq, as far as any table tells."""
        rows = [next(_tolerant(self._connection, query, ()), (0,)) for query in _LAST]
        return max((row[0] for row in rows if isinstance(row[0], int)), default=0)

    def states(self) -> dict[str, tuple[str, str]]:
        """Return hash and state, as JSON, of each stream whose row and state are whole."""
        rows = _tolerant(self._connection, STREAMS, ())
        return {row[0]: (row[_HASH], row[-2]) for row in rows if is_whole(row)}

    def fact(self, name: str) -> str:
        query = "SELECT value FROM facts WHERE name = ?"
        row = next(_tolerant(self._connection, query, (name,)), ("",))
        return row[0] if isinstance(row[0], str) and row[0].isascii() else ""

    def close(self) -> None:
        self._connection.close()
        self._remove_copy()

    def _remove_copy(self) -> None:
        for end in ("", *BESIDE):
            self._disk.remove(self._copy + end)


def _tolerant(
    connection: Connection, query: str, values: tuple[object, ...]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows up to the first one that cannot be read."""
    try:
        yield from connection.execute(query, values)
    except Error:
        return


def put_in_place(fresh: str, path: str, disk: Disk, stamp: str) -> str:
    """Replace the ledger at ``path`` by the closed database ``fresh``, under the ledger's lock.

    Return the name under which the damaged files are kept.
    """
    kept = f"{path}.damaged-{stamp}"
    for end in ("", *BESIDE):
        if os.path.lexists(path + end):
            disk.remove(kept + end)
            disk.link(path + end, kept + end)
    disk.sync_folder(os.path.dirname(path))
    disk.move(fresh, path + RECOVERED)
    disk.sync_folder(os.path.dirname(path))
    finish_recovery(path, disk)
    return kept
