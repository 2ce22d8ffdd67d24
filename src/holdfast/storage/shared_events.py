"""The shared events in a ledger, its own and those of other replicas.

A shared event is stored in the local event that it caused, under ``shared`` in ``by``, or in the
``events`` of the local event that took it in. The tables here (``sharing.sql``) say where each of
them is, and are made again from the events by ``rebuild``.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from holdfast.core import json_text
from holdfast.core.json_text import digest, dumps
from holdfast.core.sharing import Fold
from holdfast.errors import damaged_ledger
from holdfast.storage.ledger import MERGED, SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.types import Event, Fields, SharedEvent
    from holdfast.storage.ledger import Ledger

PUBLISHED = "stream_shared"
"""The type of the local event that begins to share a stream."""
_PUT = (
    "INSERT OR REPLACE INTO shared_events (replica, n, lamport, stream, seq, fenced)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_PUT_REPLICA = (
    "INSERT INTO replicas (replica, name, n, lamport, at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (replica) DO UPDATE SET name = excluded.name, n = max(n, excluded.n),"
    " lamport = max(lamport, excluded.lamport), at = excluded.at"
)
_PUT_FOLD = "INSERT OR REPLACE INTO folds (stream, fold, conflicts, digest) VALUES (?, ?, ?, ?)"
_TABLES = ("shared_events", "replicas", "folds")
_READ_AT_ONCE = 500


class SharedEvents:
    """The shared events of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._database = ledger.database

    # Reading

    def known(self) -> dict[str, int]:
        """Return the highest ``n`` of each replica."""
        return dict(self._database.rows("SELECT replica, n FROM replicas"))

    def replicas(self) -> list[Fields]:
        """Return ``replica``, ``name``, ``n`` and ``at`` of each replica, the latest first."""
        names = ("replica", "name", "n", "at")
        rows = self._database.rows("SELECT replica, name, n, at FROM replicas ORDER BY at DESC")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def clock(self) -> tuple[int, dict[str, int]]:
        """Return the highest ``lamport``, and the highest ``n`` of each replica."""
        rows = list(self._database.rows("SELECT replica, n, lamport FROM replicas"))
        return max((row[2] for row in rows), default=0), {row[0]: row[1] for row in rows}

    def has(self, stream: str) -> bool:
        """Return whether a stream is shared."""
        query = "SELECT 1 FROM shared_events WHERE stream = ? LIMIT 1"
        return self._database.row(query, (stream,)) is not None

    def count(self) -> int:
        row = self._database.row("SELECT count(*) FROM shared_events")
        return row[0] if row is not None else 0

    def of_stream(self, stream: str, after: int = 0) -> list[SharedEvent]:
        """Return the shared events of a stream, in the order in which they are folded.

        ``after``: only those with a higher ``lamport``.
        """
        rows = self._database.rows(
            "SELECT seq, replica, n, fenced FROM shared_events WHERE stream = ? AND lamport > ?"
            " ORDER BY seq",
            (stream, after),
        )
        events = self._read(rows)
        events.sort(key=itemgetter("lamport", "replica", "n"))
        return events

    def of_replica(self, replica: str, after: int, most: int = _READ_AT_ONCE) -> list[SharedEvent]:
        """Return the events of a replica after its ``n``, in order, at most so many."""
        rows = self._database.rows(
            "SELECT seq, replica, n, fenced FROM shared_events WHERE replica = ? AND n > ?"
            " ORDER BY n LIMIT ?",
            (replica, after, most),
        )
        events = self._read(sorted(rows))
        events.sort(key=itemgetter("n"))
        return events

    def event(self, replica: str, n: int) -> SharedEvent | None:
        """Return one shared event; ``None`` if it is not here."""
        found = self.of_replica(replica, n - 1, 1)
        return found[0] if found and found[0]["n"] == n else None

    def last_machine(self, stream: str, own: str) -> str | None:
        """Return the name of the replica with a stream's last event, unless that is ``own``."""
        query = (
            "SELECT replica, name FROM replicas WHERE replica = (SELECT replica FROM shared_events"
            " WHERE stream = ? ORDER BY lamport DESC, replica DESC, n DESC LIMIT 1)"
        )
        row = self._database.row(query, (stream,))
        return None if row is None or row[0] == own else row[1]

    def _read(self, rows: Iterable[tuple[int, str, int, int]]) -> list[SharedEvent]:
        """Return the shared events of these rows, which are in the order of ``seq``."""
        events = []
        for seq, wanted in groupby(rows, key=itemgetter(0)):
            holder = self._ledger.event_of_seq(seq)
            inside = {(event["replica"], event["n"]): event for event in inside_of(holder)}
            for _, replica, n, fenced in wanted:
                event = inside.get((replica, n))
                if event is None:
                    why = f"event {seq} does not have the shared event {replica} {n}"
                    raise damaged_ledger(self._database.path, why)
                events.append({**event, "fenced": True} if fenced else event)
        return events

    # Writing, in the open transaction

    def add(self, events: Iterable[SharedEvent], seq: int) -> None:
        """Enter shared events that a local event has."""
        for event in events:
            replica, n, cause = event["replica"], event["n"], event["cause"]
            fenced = int(bool(event.get("fenced")))
            place = (replica, n, event["lamport"], event["stream"], seq, fenced)
            self._database.execute(_PUT, place)
            name = str(cause["by"].get("name") or replica)
            numbers = (replica, name, n, event["lamport"], cause["at"])
            self._database.execute(_PUT_REPLICA, numbers)

    def fence(self, numbers: Iterable[tuple[str, int]]) -> None:
        """Mark events as made under a lease that had been lost."""
        for replica, n in numbers:
            statement = "UPDATE shared_events SET fenced = 1 WHERE replica = ? AND n = ?"
            self._database.execute(statement, (replica, n))

    def set_clock(self, replica: str, lamport: int) -> None:
        """Let events that are made from now on come after ``lamport`` of a replica."""
        statement = "UPDATE replicas SET lamport = max(lamport, ?) WHERE replica = ?"
        self._database.execute(statement, (lamport, replica))

    def drop(self, numbers: Iterable[tuple[str, int]]) -> None:
        """Drop events that have got another replica and number."""
        for replica, n in numbers:
            statement = "DELETE FROM shared_events WHERE replica = ? AND n = ?"
            self._database.execute(statement, (replica, n))
            statement = "UPDATE replicas SET n = ? WHERE replica = ? AND n >= ?"
            self._database.execute(statement, (n - 1, replica, n))

    def rebuild(self) -> None:
        """Make the tables again from all events of the ledger; the folds are made when needed."""
        for table in _TABLES:
            self._database.execute(f"DELETE FROM {table}")
        for row in self._ledger.rows_with_shared_events():
            event = self._ledger.event_in(row)
            self.drop(event["data"].get("replaces", ()))
            self.add(inside_of(event), event["seq"])
            self.fence(event["data"].get("fenced", ()))

    # Folds

    def fold(self, stream: str) -> Fold:
        """Return the last fold of a stream; an empty one if there is none, or it is damaged."""
        query = "SELECT stream, fold, conflicts, digest FROM folds WHERE stream = ?"
        row = self._database.row(query, (stream,))
        if row is None or row[3] != _digest_of(*row[:3]):
            return Fold()
        return Fold(json_text.loads(row[1]))

    def put_fold(self, stream: str, fold: Fold) -> None:
        row = stream, dumps(fold.fields()), len(fold.conflicts)
        self._database.execute(_PUT_FOLD, (*row, _digest_of(*row)))

    def count_conflicts(self) -> int:
        """Return the number of conflicts that are not settled."""
        row = self._database.row("SELECT sum(conflicts) FROM folds WHERE conflicts > 0")
        return (row and row[0]) or 0

    def with_conflicts(self) -> list[str]:
        """Return the streams that have conflicts which are not settled."""
        query = "SELECT stream FROM folds WHERE conflicts > 0 ORDER BY stream"
        return [row[0] for row in self._database.rows(query)]


def inside_of(event: Event) -> Iterator[SharedEvent]:
    """Yield the shared events that a local event has."""
    if SHARED in event["by"]:
        yield event["by"][SHARED]
    if event["type"] == MERGED:
        yield from event["data"].get("events", ())


def _digest_of(stream: str, fold: str, conflicts: int) -> str:
    return digest(f"{stream}\x1f{fold}\x1f{conflicts}".encode(errors="replace"))
