"""The ledger: events that are only ever inserted, and the tables made from them.

Reads see the last commit, or the open transaction of this object. Writes belong to a transaction:
``begin``, then ``insert``, ``put_stream`` and ``put_record``, then ``commit``; ``release`` at the
end, also after an error. The caller defines a stream's columns and state.

An event is a dictionary, a row of the table ``events``, or a line of JSON. Its hash covers the line
without its last field, ``hash``; it includes the previous event's hash, ``prev``. ``holdfast
export`` prints these lines, so ``b2sum -l 128`` can check a hash.
"""

from __future__ import annotations

import os
from _json import encode_basestring as _quoted
from _operator import ne
from itertools import compress, islice
from time import time_ns

from holdfast import storage
from holdfast.core import json_text
from holdfast.core.json_text import digest, dumps
from holdfast.errors import INSTALL_NEWER, Fault, damaged_ledger
from holdfast.storage.database import ARCHIVES, PAGE_BYTES, Database
from holdfast.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from holdfast.core.types import Draft, Event, Fields
    from holdfast.storage.archives import Archives
    from holdfast.storage.event_filter import EventFilter
    from holdfast.system.disk import Disk

    Row = tuple[Any, ...]

_CHECKPOINT_EVERY_SEQ = 32
"""The number of events between two checkpoints. Each writes about seven pages to the journal."""
_CHECKPOINT_BYTES = 250 * PAGE_BYTES
EVENT_FORMAT = 1
EVENT_COLUMNS = "seq, id, at, stream, version, v, type, data, by, part, prev, hash"
_EVENT_KINDS = [
    (int, str, str, str, int, int, str, str, str, part, str, str) for part in (type(None), str)
]
_WRONG_TYPES = "fields are missing or not of their kind"
ACTIVE = storage.ACTIVE
ENDED = "status IN ('completed', 'abandoned', 'expired')"
COLUMNS = (
    "stream", "kind", "seq", "version", "hash", "recipe", "format", "subject", "title", "status",
    "phase", "phase_status", "phase_index", "phase_total", "tasks_done", "tasks_total", "branch",
    "floating", "worktree", "record", "session", "session_id", "session_pid", "ttl", "unread",
    "initiative", "milestone", "created_at", "updated_at",
)  # fmt: skip
_EACH = range(len(COLUMNS) + 1)
_LISTED = ", ".join([f"streams.{name}" for name in COLUMNS])
STREAMS = (
    f"SELECT {_LISTED}, streams.digest,"
    " states.stream, states.version, states.hash, states.state, states.digest"
    " FROM streams LEFT JOIN states USING (stream)"
)
_STORED = (*COLUMNS, "digest")
_VERSION = COLUMNS.index("version")
_HASH = COLUMNS.index("hash")
_STATE = len(_STORED)
"""The index in a row of ``STREAMS`` of the first column of ``states``."""
EVENTS_PER_STATE = 8
"""The number of events from one stored state to the next."""
_PUT_STREAM = (
    f"INSERT OR REPLACE INTO streams ({', '.join(_STORED)}) VALUES ({', '.join('?' * _STATE)})"
)
_PUT_STATE = (
    "INSERT INTO states (stream, version, hash, state, digest) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (stream) DO UPDATE SET version = excluded.version, hash = excluded.hash,"
    " state = excluded.state, digest = excluded.digest"
)
PUT_EVENT = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({', '.join('?' * 12)})"
_KEEP_EVENT = PUT_EVENT.replace("INSERT", "INSERT OR IGNORE", 1)
_NEWEST_EVENT = "SELECT seq, hash, v FROM events ORDER BY seq DESC LIMIT 1"
_EVENTS = f"SELECT {EVENT_COLUMNS} FROM events"
_LAST_VERSION = (
    "SELECT max(version) FROM (SELECT max(version) AS version FROM events WHERE stream = ?"
    " UNION ALL SELECT version FROM streams WHERE stream = ?)"
)
_RECORD = (
    "worktree", "path", "stream", "seq", "digest", "size", "mtime_ns", "inode", "device",
    "written_ns",
)  # fmt: skip
_GET_RECORD = f"SELECT {', '.join(_RECORD)} FROM records WHERE worktree = ? AND path = ?"
_OWED = ""
"""In place of a record's digest: its file is still to be written."""
_PUT_RECORD = (
    f"INSERT OR REPLACE INTO records ({', '.join(_RECORD)})"
    f" VALUES ({', '.join('?' * len(_RECORD))})"
)
_PUT_FACT = "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)"
_PUT_CHANGED_FACT = (
    "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name)"
    " DO UPDATE SET value = excluded.value WHERE value <> excluded.value"
)
_OF_REPLICAS = ("events", "fenced", "replaces")
"""The fields of a ``MERGED`` event that have shared events, or name them."""
_OF_SHARING = {"shared_events": 6, "replicas": 5, "folds": 4, "leases": 6}
"""The tables of ``sharing.sql``, and the number of their columns."""
_MAX_CACHED_STREAMS = 20
_MAX_CACHED_CHARACTERS = 1_000_000
"""About the size of all states that are kept, as JSON, unless one of them alone is larger."""
_COPIED_AT_ONCE = 20_000
_MAX_SEQ = 2**63 - 1


OWN_STREAM = "_ledger"
"""The ledger's own stream. The id of a workflow cannot begin with an underscore."""
HUB = "hub"
"""The fact that has the settings of the hub, as JSON. Without it, the ledger stays for itself."""
REPLICA = "replica"
"""The fact that has this replica's ``id``, and the ``place`` where that is valid."""
ASKED = "asked"
"""The fact that lists the active workflows with open questions, as JSON; empty if there is none."""
RENUMBERED = "renumbered "
"""The beginning of the name of the fact that has what tasks of a workflow were called, by numbers
that have become other tasks' since its session was briefed."""
HELD = "held streams"
"""The fact that lists, one on each line, the streams with events that need a newer Holdfast."""
SHARED = "shared"
"""The key in an event's ``by`` of the shared event that its command has become."""
MERGED = "events_merged"
"""The type of an event that takes in shared events of other replicas, and what they change."""
ARCHIVED = "events_archived"
"""The type of the event that names an archive, and the number and digest of its events."""


class BadEvent(ValueError):
    """A row or a line is not a valid event; the message explains why."""


class Stream:
    """One aggregate as of its last event: its row, and its state."""

    __slots__ = ("row", "state")

    def __init__(self, row: Fields, state: Any) -> None:
        self.row = row
        self.state = state


class Ledger:
    """The ledger of one repository, as one process uses it."""

    def __init__(
        self,
        folder: str,
        disk: Disk,
        wait_s: float,
        belongs_here: Callable[[], bool] = lambda: True,
        evolve_of: Callable[[str], Callable[[Any, Event], Any]] | None = None,
    ) -> None:
        """Open no file yet. ``belongs_here`` is called before a database is made.

        ``evolve_of`` returns the function that applies an event to the state of a stream. Without
        it, states cannot be read.
        """
        self.folder = folder
        self._evolve_of = evolve_of
        self.database = Database(folder, disk, wait_s, belongs_here)
        self._identity = ""
        self._identified: object = None
        """The files that have this identity; another process may have replaced them."""
        self._journal_bytes = 0
        """About how much the journal has grown since the last checkpoint."""
        self._seq_before = 0
        self.seq_acquired = 0
        """The last event when this process last took the lock."""
        """The last seq before the transaction."""
        self._head: tuple[int, str] | None = None
        """The last event, while the lock is held."""
        self._rows: dict[str, Row] = {}
        """Rows of streams as they were read under the lock, so that only changes are written."""
        self._stream_cache: dict[str, tuple[Row, Stream]] = {}
        """Streams that were checked or written, each with its row of ``STREAMS``.

        State is never changed in place, so it can be reused until its row changes.
        """
        self._cached_characters = 0
        self._texts = json_text.FieldTexts()
        self._boot: str | None = None
        self.archives_folder = os.path.join(folder, ARCHIVES)
        self._archives: Archives | None = None
        self.absent_events = 0
        """The number of events in archives that ``check_archives`` could not read."""

    # The whole

    def exists(self) -> bool:
        return os.path.exists(self.database.path)

    def head(self) -> tuple[int, str]:
        """Return seq and hash of the last event, ``(0, "")`` in an empty ledger."""
        if self._head is not None:
            return self._head
        row = self.database.row(_NEWEST_EVENT)
        if row is None:
            return 0, ""
        if not (isinstance(row[0], int) and isinstance(row[1], str)):
            raise damaged_ledger(self.database.path, "its last event has no seq or no hash")
        return row[0], row[1]

    @property
    def head_seq(self) -> int:
        return self.head()[0]

    def identity(self) -> str:
        """Return the ledger's name as records state it; empty if there is no ledger yet."""
        if not self._identity or self._identified != self.database.files:
            self._identity = self.fact("identity")
            self._identified = self.database.files
        return self._identity

    def fact(self, name: str) -> str:
        row = self.database.row("SELECT value FROM facts WHERE name = ?", (name,))
        return row[0] if row is not None else ""

    # Streams

    def stream_names(self) -> list[str]:
        """Return the streams that have events, in the order of their first."""
        query = "SELECT min(seq), stream FROM events GROUP BY stream ORDER BY min(seq)"
        rows = [*self.database.rows(query)]
        archives = self.archives()
        if archives is not None:
            for name in archives.readable_names():
                rows += archives.rows(name, query)
        return list(dict.fromkeys(row[1] for row in sorted(rows)))

    def stream(self, name: str) -> Stream | None:
        """Return the stream of this name with its state; ``None`` if it does not exist."""
        if name in self._rows:  # It was read under the lock.
            cached = self._stream_cache.get(name)
            if cached is not None and cached[0] is self._rows[name]:
                return cached[1]
        if not json_text.is_encodable(name):
            return None
        return next(self.states("streams.stream = ?", name), None)

    def active_of_session(self, session: str | None, pid: int | None) -> list[Stream]:
        """Return the active workflows that a session or a client's process holds."""
        streams = list(self.states(f"{ACTIVE} AND session_id = ?", session)) if session else []
        if pid is not None:
            names = {stream.row["stream"] for stream in streams}
            by_client = self.states(f"{ACTIVE} AND session_pid = ?", pid)
            streams += [stream for stream in by_client if stream.row["stream"] not in names]
        return streams

    def completed_by(self, session: str, most: int) -> Stream | None:
        """Return the workflow that a session completed last, among the ``most`` that ended last.

        Without that limit, a new session would look at every workflow that ever ended.
        """
        newest = "ORDER BY updated_at DESC, seq DESC"
        inner = f"SELECT stream FROM streams WHERE {ENDED} {newest} LIMIT ?"
        where = f"streams.stream IN ({inner}) AND status = 'completed' AND session_id = ?"
        return next(self.states(f"{where} {newest} LIMIT 1", most, session), None)

    def ended_before(self, at: str) -> list[Fields]:
        """Return the rows of ended workflows whose last event is here and older than ``at``."""
        last = "SELECT 1 FROM events WHERE events.seq = streams.seq AND events.at < ?"
        where = f"{ENDED} AND kind = 'workflow' AND updated_at < ? AND EXISTS ({last})"
        return self.rows(f"{where} ORDER BY updated_at, seq", at, at)

    def unread(self) -> list[str]:
        """Return the paths that active workflows require and that were not read yet."""
        query = f"SELECT unread FROM streams WHERE unread IS NOT NULL AND {ACTIVE}"
        try:
            lists = [json_text.loads(row[0]) for row in self.database.rows(query)]
            return [path[1:] for paths in lists for path in paths]
        except (json_text.BadJson, TypeError) as error:
            why = f"a list of required reading: {error}"
            raise damaged_ledger(self.database.path, why) from error

    def rows(self, where: str, *values: object) -> list[Fields]:
        """Return the rows of streams, without their states."""
        query = f"SELECT {_LISTED} FROM streams WHERE {where}"
        return [self._row_of(row) for row in self.database.rows(query, values)]

    def _row_of(self, values: Row) -> Fields:
        """Return a row of the table as the dictionary that other modules use."""
        row: Fields = dict(zip(COLUMNS, values, strict=False))
        row["id"] = row["stream"]
        row["floating"] = bool(row["floating"])
        if row["session"]:
            try:
                row["session"] = json_text.loads(row["session"])
            except (json_text.BadJson, TypeError) as error:
                why = f"the row of {values[0]} is not what was written"
                raise damaged_ledger(self.database.path, why) from error
        return row

    def count(self, where: str, *values: object) -> int:
        row = self.database.row(f"SELECT count(*) FROM streams WHERE {where}", values)
        return row[0] if row is not None else 0

    def count_up_to(self, most: int, where: str) -> int:
        """Return the number of streams, or ``most`` if there are more of them."""
        query = f"SELECT count(*) FROM (SELECT 1 FROM streams WHERE {where} LIMIT {most})"
        row = self.database.row(query)
        return row[0] if row is not None else 0

    def has_worktree(self, name: str) -> bool:
        """True if a workflow belongs, or belonged, to a worktree of this name."""
        return self.count("worktree = ?", name) > 0

    def states(self, where: str, *values: object) -> Iterator[Stream]:
        """Yield streams with their states."""
        for row in self.database.rows(f"{STREAMS} WHERE {where}", values):
            cached = self._stream_cache.get(row[0])
            if cached is not None and cached[0] == row:
                stream = cached[1]
            else:
                stream = self._remember(row, self._state_of(row))
            if self.database.lock.is_held:
                self._rows[row[0]] = row
            yield stream

    def _state_of(self, row: Row) -> Any:
        """Return the state of a row of ``STREAMS``; raise ``Fault`` if it is not as written."""
        name, version = row[0], row[_VERSION]
        if not is_whole(row):
            raise damaged_ledger(self.database.path, f"the state of {name} is not what was written")
        stored, state = stored_state(row)
        if stored == version:
            return state
        assert self._evolve_of is not None
        evolve = self._evolve_of(name)
        clause = "WHERE stream = ? AND version > ? AND version <= ? ORDER BY version"
        last = ""
        try:
            for event in self._events(clause, name, stored, version, is_checked=True):
                if (event["stream"], event["version"]) != (name, stored + 1):
                    break
                stored, last, state = stored + 1, event["hash"], evolve(state, event)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged_ledger(self.database.path, f"the events of {name}: {error}") from error
        if (stored, last) != (version, row[_HASH]):
            raise damaged_ledger(self.database.path, f"events of {name} are missing")
        return state

    def _remember(self, row: Row, state: Any) -> Stream:
        self._cached_characters += len(row[_STATE + 3])
        is_full = len(self._stream_cache) >= _MAX_CACHED_STREAMS
        if is_full or self._cached_characters > _MAX_CACHED_CHARACTERS:
            self._stream_cache.clear()
            self._cached_characters = len(row[_STATE + 3])
        stream = Stream(self._row_of(row), state)
        self._stream_cache[row[0]] = row, stream
        return stream

    # Events

    def events(
        self, stream: str | None = None, *, after: int = 0, upto: int = _MAX_SEQ
    ) -> Iterator[Event]:
        """Yield the events of one stream or of all, with ``after < seq <= upto``, in order.

        Raise ``Fault`` if some of them are in an archive that cannot be read: for a stream at its
        first event, for all after the last one.
        """
        if stream is None:
            clause = "WHERE seq > ? AND seq <= ? ORDER BY seq"
            return self._read(self._to_the_end(self._rows_of_all(clause, after, upto), after))
        # The index by version finds a stream's events, and their order by version is that by seq.
        clause = "WHERE stream = ? AND seq > ? AND seq <= ? ORDER BY version"
        rows = self._rows_of_all(clause, stream, after, upto)
        return self._read(rows if after else self._from_the_first(rows, stream))

    def newest(self, stream: str | None = None, limit: int = -1) -> Iterator[Event]:
        """Yield the events of one stream or of all, newest first.

        Those in an archive that cannot be read are left out.
        """
        if stream is None:
            rows = self._rows_of_all("ORDER BY seq DESC LIMIT ?", limit, newest=True)
            return self._read(rows if limit < 0 else islice(rows, limit))
        return self._newest_of(stream, limit)

    def chosen(
        self, only: EventFilter, stream: str | None = None, *, above: int = 0, newest: bool = False
    ) -> Iterator[Event]:
        """Yield the events that a filter has, of one stream or of all, in order or newest first.

        ``above`` is the seq, of a stream the version, that all of them are above.
        """
        conditions, values = only.conditions()
        number = "seq" if stream is None else "version"
        if stream is not None:
            conditions, values = ["stream = ?", *conditions], [stream, *values]
        where = " AND ".join([*conditions, f"{number} > ?"])
        clause = f"WHERE {where} ORDER BY {number}{' DESC' if newest else ''}"
        rows = self._rows_of_all(clause, *values, above, newest=newest)
        if stream is None and not newest:
            rows = self._to_the_end(rows, 0)
        return filter(only.has, self._read(rows))

    def _newest_of(self, stream: str, limit: int) -> Iterator[Event]:
        query = "WHERE stream = ? ORDER BY version DESC LIMIT ?"
        version = _MAX_SEQ
        for event in self._events(query, stream, limit):
            version, limit = event["version"], limit - 1
            yield event
        if version > 1 and limit and self.archives() is not None:
            query = "WHERE stream = ? AND version < ? ORDER BY version DESC LIMIT ?"
            rows = self._rows_of_all(query, stream, version, limit, newest=True)
            yield from self._read(rows if limit < 0 else islice(rows, limit))

    def last_seq(self, stream: str, *, besides: str) -> int:
        """Return the seq of a stream's last event of another type than ``besides``; 0 if none."""
        where = "stream = ? AND type <> ? ORDER BY version DESC"
        query = f"SELECT seq FROM events WHERE {where} LIMIT 1"
        row = self.database.row(query, (stream, besides))
        return row[0] if row is not None else 0

    def event_at(self, seq: int, hash: str) -> Event | None:
        """Return the event with this seq and hash; ``None`` when it is not in the chain."""
        rows = self._rows_or_archived("WHERE seq = ? AND hash = ?", seq, hash)
        return next(self._read(rows), None)

    def event_of_seq(self, seq: int) -> Event:
        """Return the event with this seq; raise ``Fault`` if it cannot be read."""
        event = next(self._read(self._rows_or_archived("WHERE seq = ?", seq)), None)
        if event is None:
            self._refuse_missing_archive()
            raise damaged_ledger(self.database.path, f"event {seq} is missing")
        return event

    def rows_with_shared_events(self) -> Iterator[Row]:
        """Yield the rows of the events that may have shared events, in order."""
        clause = "WHERE type = ? OR instr(by, ?) ORDER BY seq"
        return self._rows_of_all(clause, MERGED, f'"{SHARED}":')

    def event_in(self, row: Row) -> Event:
        """Return the event of a row; raise ``Fault`` if it is damaged."""
        return next(self._read(iter((row,))))

    def find_request(self, id: str) -> list[Event]:
        """Return the events that a request recorded.

        Raise ``Fault`` if there are none, and an archive that may have them cannot be read.
        """
        first = next(self._read(self._rows_or_archived("WHERE id = ?", id)), None)
        if first is None:
            self._refuse_missing_archive()
            return []
        others = self._rows_or_archived("WHERE id > ? AND id < ? ORDER BY seq", f"{id}.", f"{id}/")
        return [first, *self._read(others)]

    def hash_at(self, seq: int) -> str:
        """Return the hash of an event; empty if there is none."""
        row = next(self._rows_or_archived("WHERE seq = ?", seq), None)
        return row[11] if row is not None else ""

    # Archives

    def archives(self) -> Archives | None:
        """Return the archives of this ledger; ``None`` if nothing was archived."""
        if not os.path.isdir(self.archives_folder):
            return None
        identity = self.identity()
        if self._archives is None or self._archives.identity != identity:
            from holdfast.storage.archives import Archives

            self._archives = Archives(self.archives_folder, identity)
        return self._archives

    def archived(self) -> list[Fields]:
        """Return the data of the events that name archives, without those that are not needed.

        After an import, the ledger itself has what was archived elsewhere.
        """
        own = self._events("WHERE stream = ? ORDER BY version", OWN_STREAM)
        listed = [event["data"] for event in own if event["type"] == ARCHIVED]
        archives = self.archives() if listed else None
        names = () if archives is None else archives.names()
        return [data for data in listed if data["archive"] in names or self._lacks(data["first"])]

    def _lacks(self, seq: int) -> bool:
        """Return whether an event is neither here nor in an archive that can be read."""
        try:
            return not self.hash_at(seq)
        except Fault:
            return True

    def check_archives(self, *, is_whole: bool) -> list[Fields]:
        """Return ``archive``, ``why`` and ``events`` of each archive that is missing or damaged.

        Until the next call, it is left out of what is read. ``is_whole``: check every event of
        the archives, else only whether they can be opened.
        """
        listed = {str(data.get("archive")): data for data in self.archived()}
        archives = self.archives()
        self.absent_events = 0
        damaged = []
        if listed or archives is not None:
            from holdfast.storage.archives import check

            damaged = check(archives, listed, is_whole=is_whole)
            self.absent_events = sum(lost["events"] for lost in damaged)
        return damaged

    def _refuse_missing_archive(self) -> None:
        """Raise ``Fault`` if an archive is not in its folder."""
        archives = self.archives()
        names = () if archives is None else archives.readable_names()
        missing = [data["archive"] for data in self.archived() if data["archive"] not in names]
        if missing:
            from holdfast.storage.archives import unreadable

            raise unreadable(os.path.join(self.archives_folder, missing[0]), "it is missing")

    def archived_seqs(self) -> set[int]:
        """Return the seqs of all events in archives."""
        archives = self.archives()
        rows = () if archives is None else archives.add((), _EVENTS, ())
        return {row[0] for row in rows}

    def with_archived(self, rows: Iterator[Row], *others: str) -> Iterator[Row]:
        """Yield rows of events of this ledger with those of its archives, by seq.

        ``others`` are the paths of further archives.
        """
        archives = self.archives()
        if archives is None:
            if not others:
                return rows
            from holdfast.storage.archives import Archives

            archives = Archives(self.archives_folder, self.identity())
        return archives.add(rows, f"{_EVENTS} ORDER BY seq", (), *others)

    def has_all_of(self, archive: str) -> bool:
        """Return whether the ledger itself has every event of an archive."""
        archives = self.archives()
        assert archives is not None
        query = "SELECT seq, hash FROM events ORDER BY seq"
        own = self.database.rows(query)
        has = True
        for row in archives.rows(archive, query):
            has = has and row in own  # Both are in order.
        return has

    def copy_to(self, other: Ledger, archived: set[str]) -> None:
        """Copy everything but the events of archived streams into a new ledger.

        The states of these streams are stored as of their last event.
        """
        for number, row in enumerate(self.own_rows(), 1):
            if row[3] not in archived:
                other.insert_row(row)
            if number % _COPIED_AT_ONCE == 0:
                other.commit("copy")
                other.begin()
        for row in self.whole_rows():
            stored = row
            if row[0] in archived and row[_STATE + 1] != row[_VERSION]:
                state = (row[0], row[_VERSION], row[_HASH], dumps(self._state_of(row)))
                stored = (*row[:_STATE], *state, _digest_of(state))
            other.put_whole(stored)
        copied = {"records": len(_RECORD), "facts": 2, **_OF_SHARING}
        for table, columns in copied.items():
            insert = f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * columns)})"
            for row in self.database.rows(f"SELECT * FROM {table}"):
                other.database.execute(insert, row)
        other._head = self.head()  # The last event may be archived; the next one continues it.

    def partly_archived(self, rows: list[Row]) -> dict[str, Row]:
        """Return those rows of ``STREAMS`` whose first event cannot be read, by their streams."""
        if not self.absent_events:
            return {}
        first = {row[0]: next(self.raw_rows(row[0]), None) for row in rows}
        return {row[0]: row for row in rows if (first[row[0]] or (0,) * 5)[4] != 1}

    def _rows_of_all(self, clause: str, *values: object, newest: bool = False) -> Iterator[Row]:
        """Yield rows of the ledger and of its archives, in the order of seq."""
        rows = self.database.rows(f"{_EVENTS} {clause}", values)
        archives = self.archives()
        if archives is None:
            return rows
        return archives.add(rows, f"{_EVENTS} {clause}", values, newest=newest)

    def _rows_or_archived(self, clause: str, *values: object) -> Iterator[Row]:
        """Yield rows of the ledger; if there are none, those of its archives."""
        rows = list(self.database.rows(f"{_EVENTS} {clause}", values))
        archives = None if rows else self.archives()
        if archives is None:
            return iter(rows)
        return archives.add((), f"{_EVENTS} {clause}", values)

    def _from_the_first(self, rows: Iterator[Row], stream: str) -> Iterator[Row]:
        """Yield the rows of a stream; raise ``Fault`` if an archive with its first is missing."""
        first = next(rows, None)
        if (first is None and self.last_version(stream)) or (first and first[4] != 1):
            self._refuse_missing_archive()
        if first is not None:
            yield first
            yield from rows

    def _to_the_end(self, rows: Iterator[Row], after: int) -> Iterator[Row]:
        """Yield rows of all streams, and then raise ``Fault`` if an archive is missing."""
        yield from rows
        if not after:
            self._refuse_missing_archive()

    def damage(self) -> list[str]:
        """Return the faults that SQLite finds in the database itself."""
        try:
            lines = [str(row[0]) for row in self.database.rows("PRAGMA integrity_check(5)")]
            for table in ("records", "facts"):
                for _ in self.database.rows(f"SELECT * FROM {table}"):
                    pass  # Reading the rows finds text that is not valid.
            return [*([] if lines in ([], ["ok"]) else lines), *self.database.schema_damage()]
        except Fault as fault:
            if fault.code == "storage":
                raise
            return [fault.message]

    def stored_states(self) -> dict[str, tuple[int, Any]]:
        """Return the stored state of each stream whose row is whole, after its version."""
        return {row[0]: stored_state(row) for row in self.whole_rows()}

    def whole_rows(self) -> Iterator[Row]:
        """Yield the rows of ``STREAMS`` that are as they were written."""
        return filter(is_whole, self.database.rows(STREAMS))

    def row_names(self) -> Iterator[str]:
        """Yield the streams that have a row."""
        return (row[0] for row in self.database.rows("SELECT stream FROM streams"))

    def put_whole(self, row: Row) -> None:
        """Insert a row of ``STREAMS`` as it is, with its state."""
        self.database.execute(_PUT_STREAM, row[:_STATE])
        self.database.execute(_PUT_STATE, row[_STATE:])

    def has_whole_tables(self) -> bool:
        """True if every stream has a row and a state as they were written."""
        query = "SELECT (SELECT count(*) FROM streams), (SELECT count(*) FROM states)"
        counts = self.database.row(query)
        rows = list(map(is_whole, self.database.rows(STREAMS)))
        return all(rows) and counts in (None, (len(rows), len(rows)))

    def last_version(self, stream: str) -> int:
        """Return the number of a stream's last event, archived or not; 0 if it has none."""
        if not json_text.is_encodable(stream):
            return 0
        row = self.database.row(_LAST_VERSION, (stream, stream))
        return row[0] or 0 if row is not None else 0

    def raw_rows(self, stream: str | None = None) -> Iterator[Row]:
        """Yield the rows of events, of one stream or of all, as they are stored."""
        if stream is None:
            return self.raw_rows_after(0)
        return self._rows_of_all("WHERE stream = ? ORDER BY version", stream)

    def raw_rows_after(self, seq: int, upto: int = _MAX_SEQ) -> Iterator[Row]:
        return self._rows_of_all("WHERE seq > ? AND seq <= ? ORDER BY seq", seq, upto)

    def own_rows(self) -> Iterator[Row]:
        """Yield the rows of the events that are not archived, in order."""
        return self.database.rows(f"{_EVENTS} ORDER BY seq")

    def _events(self, clause: str, *values: object, is_checked: bool = False) -> Iterator[Event]:
        """Yield events that are not archived; see ``_read``."""
        return self._read(self.database.rows(f"{_EVENTS} {clause}", values), is_checked=is_checked)

    def _read(self, rows: Iterable[Row], *, is_checked: bool = False) -> Iterator[Event]:
        """Yield events; raise ``Fault`` for one that is damaged, by its hash if ``is_checked``."""
        for row in rows:
            try:
                if is_checked:
                    check_event(row)
                event = read_event(row)
            except BadEvent as bad:
                why = f"event {row[0]} is not what was written ({bad})"
                raise damaged_ledger(self.database.path, why) from bad
            yield event

    # Records

    def record(self, worktree: str, path: str) -> Fields | None:
        """Return the row of a record file as it was last written."""
        row = self.database.row(_GET_RECORD, (worktree, path))
        return None if row is None else dict(zip(_RECORD, row, strict=True))

    def completed_records(self, formats: str) -> Iterator[tuple[Fields, str]]:
        """Yield row and record path of ended workflows that still have a record, oldest first.

        ``formats`` is a list of names in SQL's notation.
        """
        rows = self.database.rows(
            f"SELECT {_LISTED}, records.path FROM streams JOIN records USING (stream) WHERE"
            f" {ENDED} AND status != 'expired' AND format IN ({formats}) ORDER BY updated_at"
        )
        for row in rows:
            yield self._row_of(row), row[-1]

    def active_records(self, worktree: str) -> set[str]:
        """Return the paths of the records of a worktree's active workflows."""
        query = f"SELECT record FROM streams WHERE {ACTIVE} AND worktree = ?"
        return {row[0] for row in self.database.rows(query, (worktree,))}

    def unplaced(self) -> list[tuple[str, str, str]]:
        """Return worktree, path and stream of the files that the last transaction wrote.

        A damaged list counts as empty: loading a stream settles its files as well.
        """
        try:
            rows = json_text.loads(self.fact("unplaced") or "[]")
            files = [(worktree, path, stream) for worktree, path, stream in rows]
        except (json_text.BadJson, Fault, TypeError, ValueError):
            return []
        return [file for file in files if all(isinstance(text, str) for text in file)]

    def is_in_place(self) -> bool:
        """Return True if the files of the last transaction are in place.

        A mark in the lock's file states this. It is not valid after a reboot, because a power cut
        may keep the mark and lose the files.
        """
        mark = self.database.lock.read_mark()
        file = mark.rpartition("\t")[2]
        path = file[file.find("/") :]
        try:
            is_same = mark == self._mark_of(path, os.lstat(path))
        except (OSError, ValueError):
            return False
        return is_same and self._boot != ""

    def mark_in_place(self, path: str, stat: os.stat_result) -> None:
        """Let the next transaction check only the file at ``path``."""
        self.database.lock.write_mark(self._mark_of(path, stat))

    def clear_mark(self) -> None:
        """Let the next transaction check all files of the last one again."""
        self.database.lock.write_mark("")

    def _mark_of(self, path: str, stat: os.stat_result) -> str:
        if self._boot is None:
            self._boot = kernel.boot_id()
        file = f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{path}"
        # A copied repository has the mark of the original, whose files are not its own.
        return f"{self.head()[1]} {self._boot} {self.folder}\t{file}"

    # A transaction

    def acquire(self) -> None:
        """Take the lock that writers queue at; make the ledger if it does not exist.

        Raise ``Fault`` if a newer Holdfast wrote the last event: its format is unknown, and no
        event may follow one that cannot be understood.
        """
        self.database.acquire()
        try:
            seq, last_hash, version = self.database.row(_NEWEST_EVENT) or (0, "", 0)
            is_newer = version > EVENT_FORMAT
        except BaseException:
            self.release()
            raise
        if is_newer:
            self.release()
            raise newer_event(version)
        self._head = seq, last_hash
        self.seq_acquired = seq

    def begin(self, identity: str = "") -> None:
        """Begin to write under the lock. A new ledger gets this identity, or a random one."""
        self.database.begin()
        self._head = self.head()
        self._seq_before = self._head[0]
        if not self.identity():
            self.put_fact("identity", identity or os.urandom(12).hex())

    def insert(
        self, drafts: list[Draft], *, stream: str, version: int, at: str, by: Fields, request: str,
        of_first: Fields | None = None,
    ) -> list[Event]:  # fmt: skip
        """Add events at the end; return them. ``of_first`` is added to ``by`` of the first one."""
        seq, prev = self.head()
        by_text = dumps(by)
        events: list[Event] = []
        for number, draft in enumerate(drafts, 1):
            kind, data = draft["type"], draft["data"]
            own_id = request if number == 1 else f"{request}.{number}"
            own_by = {**by, **of_first} if of_first and number == 1 else by
            own_by_text = by_text if own_by is by else dumps(own_by)
            body = (
                seq + number, own_id, at, stream, version + number, EVENT_FORMAT, kind,
                dumps(data), own_by_text, None, prev,
            )  # fmt: skip
            own_hash = digest(body_of(body).encode())
            self.insert_row((*body, own_hash))
            events.append(
                {
                    "seq": seq + number, "id": own_id, "at": at, "stream": stream,
                    "version": version + number, "v": EVENT_FORMAT, "type": kind, "data": data,
                    "by": own_by, "prev": prev, "hash": own_hash,
                }
            )  # fmt: skip
            prev = own_hash
        return events

    def continued(self, rows: list[Row]) -> list[Row]:
        """Return rows of another ledger, renumbered to continue this one."""
        seq, prev = self.head()
        versions: dict[str, int] = {}
        result = []
        for row in rows:
            stream = row[3]
            if stream not in versions:
                versions[stream] = self.last_version(stream)
            seq, versions[stream] = seq + 1, versions[stream] + 1
            data, by = _without_shared(row)
            body = (seq, *row[1:4], versions[stream], *row[5:7], data, by, None, prev)
            prev = digest(body_of(body).encode())
            result.append((*body, prev))
        return result

    def insert_row(self, row: Row) -> None:
        """Add an event that has its seq and hash already."""
        self.database.execute(PUT_EVENT, row)
        self._head = (row[0], row[11])
        self._journal_bytes += len(row[7])

    def keep_row(self, row: Row) -> None:
        """Add an event of a damaged ledger; leave out a second one with the same seq."""
        added = self.database.execute(_KEEP_EVENT, row).rowcount
        if added:
            self._head = (row[0], row[11])

    def put_stream(self, row: Fields, state: object, *, with_state: bool = False) -> None:
        """Replace a stream's row, and its stored state if that is due or ``with_state`` is true."""
        name, version = row["stream"], row["version"]
        values = tuple(map(row.get, COLUMNS))
        values = (*values, _digest_of(values))
        before = self._rows.get(name)
        if before is None:
            self.database.execute(_PUT_STREAM, values)
        else:
            # Unchanged columns are not written, so their indexes need no update.
            changed = list(compress(_EACH, map(ne, values, before)))
            columns = ", ".join([f"{_STORED[number]} = ?" for number in changed])
            update = f"UPDATE streams SET {columns} WHERE stream = ?"
            self.database.execute(update, (*[values[number] for number in changed], name))
        if with_state or before is None or version >= before[_STATE + 1] + EVENTS_PER_STATE:
            text = self._texts.dumps(state)
            stored: Row = (name, version, row["hash"], text)
            stored = (*stored, _digest_of(stored))
            self.database.execute(_PUT_STATE, stored)
            self._journal_bytes += len(text)
        else:
            stored = before[_STATE:]
        whole = self._rows[name] = (*values, *stored)
        self._remember(whole, state)

    def put_record(
        self,
        worktree: str,
        path: str,
        stream: str,
        seq: int,
        record_digest: str,
        stat: os.stat_result,
    ) -> None:
        """Record the file's status and digest for the event that it shows."""
        self.database.execute(
            _PUT_RECORD,
            (
                worktree, path, stream, seq, record_digest, stat.st_size, stat.st_mtime_ns,
                stat.st_ino, stat.st_dev, time_ns(),
            ),
        )  # fmt: skip

    def owe_record(self, worktree: str, path: str, stream: str, seq: int) -> None:
        """Record that the file for an event could not be written, so that it is none of these."""
        status = 0, 0, 0, 0, time_ns()
        self.database.execute(_PUT_RECORD, (worktree, path, stream, seq, _OWED, *status))

    def owes_record(self, worktree: str, path: str) -> bool:
        row = self.record(worktree, path)
        return row is not None and row["digest"] == _OWED

    def drop_record(self, worktree: str, path: str) -> None:
        statement = "DELETE FROM records WHERE worktree = ? AND path = ?"
        self.database.execute(statement, (worktree, path))

    def put_unplaced(self, files: list[tuple[str, str, str]]) -> None:
        """Store the list for ``unplaced``, if it changed."""
        self.database.execute(_PUT_CHANGED_FACT, ("unplaced", dumps(files)))

    def put_glance(self, stream: str, text: str) -> None:
        """Store what a status line shows of a workflow, if it changed; see ``formats.glance``."""
        self.database.execute(_PUT_CHANGED_FACT, (f"{storage.GLANCE}{stream}", text))

    def put_fact(self, name: str, value: str) -> None:
        self.database.execute(_PUT_FACT, (name, value))

    def drop_views(self) -> None:
        """Empty every table that is made from events."""
        self._rows.clear()
        for table in ("streams", "states", "records"):
            self.database.execute(f"DELETE FROM {table}")

    def sync(self) -> None:
        """Write a fact without a meaning, whose commit syncs all earlier commits, too.

        ``put_fact`` replaces a row even by an equal one, where an update would write nothing.
        """
        self.put_fact("synced", str(self.head()[0]))

    def commit(self, request: str) -> None:
        """Make the transaction durable; the lock stays."""
        self.database.commit(request)
        every = _CHECKPOINT_EVERY_SEQ
        is_due = self.head()[0] // every != self._seq_before // every
        if is_due or self._journal_bytes > _CHECKPOINT_BYTES:
            self._journal_bytes = 0
            self.database.checkpoint()

    def roll_back(self) -> None:
        self._head, self._identity = None, ""
        self._rows.clear()
        self.database.roll_back()

    def release(self) -> None:
        self._head = None
        self._rows.clear()
        self.database.release()


def is_whole(row: Row) -> bool:
    """True if a row of ``STREAMS`` and its state are as they were written."""
    digests = _digest_of(row[: _STATE - 1]), _digest_of(row[_STATE:-1])
    return (row[_STATE - 1], row[-1]) == digests and row[0] == row[_STATE]


def stored_state(row: Row) -> tuple[int, Any]:
    """Return the stored state of a whole row of ``STREAMS``, after its version."""
    return row[_STATE + 1], json_text.loads(row[_STATE + 3])


def _without_shared(row: Row) -> tuple[str, str]:
    """Return ``data`` and ``by`` of a row without shared events: they are another replica's."""
    data, by = row[7], row[8]
    if row[6] == MERGED:
        data = dumps({k: v for k, v in json_text.loads(data).items() if k not in _OF_REPLICAS})
    if f'"{SHARED}":' in by:
        by = dumps({k: v for k, v in json_text.loads(by).items() if k != SHARED})
    return data, by


def _digest_of(values: Row) -> str:
    return digest("\x1f".join(map(str, values)).encode(errors="replace"))


# Events as rows and as lines


def body_of(row: Row) -> str:
    """Return the text that an event's hash covers."""
    seq, own_id, at, stream, version, v, kind, data, by, part, prev = row[:11]
    parts = f',"part":{part}' if part is not None else ""
    return (
        f'{{"seq":{seq},"id":{_quoted(own_id)},"at":{_quoted(at)},"stream":{_quoted(stream)}'
        f',"version":{version},"v":{v},"type":{_quoted(kind)},"data":{data},"by":{by}{parts}'
        f',"prev":{_quoted(prev)}'
    )


def line_of(row: Row) -> str:
    """Return a row as a line of JSON."""
    return f'{body_of(row)},"hash":{dumps(row[11])}}}'


def row_of(line: bytes) -> Row:
    """Return the row of a line of JSON; raise as ``read_event`` and ``check_event`` do."""
    try:
        event = json_text.loads(
            line, strict=True, depth=json_text.MAX_EVENT_DEPTH, values=json_text.MAX_EVENT_VALUES
        )
    except json_text.BadJson as bad:
        raise BadEvent(bad.why) from None
    if not isinstance(event, dict):
        raise BadEvent("it is not an object")
    part = event.get("part")
    row = (
        *map(event.get, ("seq", "id", "at", "stream", "version", "v", "type")),
        dumps(event.get("data")), dumps(event.get("by")),
        None if part is None else dumps(part), event.get("prev"), event.get("hash"),
    )  # fmt: skip
    read_event(row)
    check_event(row)
    return row


def checked_event(row: Row) -> Event:
    """Return the event of a row that matches its hash; raise as the next two functions do."""
    check_event(row)
    return read_event(row)


def check_event(row: Row) -> None:
    """Raise ``BadEvent`` if a row does not match its hash. Its JSON is not parsed.

    Raise ``Fault`` if a newer Holdfast wrote it.
    """
    if tuple(map(type, row)) not in _EVENT_KINDS:
        raise BadEvent(_WRONG_TYPES)
    try:
        body = body_of(row).encode()
    except UnicodeEncodeError:
        raise BadEvent(json_text.HALF_A_PAIR) from None
    if digest(body) != row[11]:
        raise BadEvent("its hash does not match")
    if row[5] > EVENT_FORMAT:
        raise newer_event(row[5])


def read_event(row: Row) -> Event:
    """Return the event of a row. Its hash is not checked.

    Raise ``BadEvent`` if the row is not an event, ``Fault`` if a newer Holdfast wrote it.
    """
    if tuple(map(type, row)) not in _EVENT_KINDS:
        raise BadEvent(_WRONG_TYPES)
    seq, own_id, at, stream, version, v, kind, data, by, part, prev, own_hash = row
    try:
        event: Event = {
            "seq": seq, "id": own_id, "at": at, "stream": stream, "version": version, "v": v,
            "type": kind, "data": json_text.loads(data), "by": json_text.loads(by), "prev": prev,
            "hash": own_hash,
        }  # fmt: skip
        if part is not None:
            event["part"] = json_text.loads(part)
    except json_text.BadJson as bad:
        raise BadEvent(bad.why) from None
    if type(event["data"]) is not dict or type(event["by"]) is not dict:
        raise BadEvent(_WRONG_TYPES)
    if seq < 1 or version < 1:
        raise BadEvent("its seq or its version is less than 1")
    if v > EVENT_FORMAT:
        raise newer_event(v)
    return event


def newer_event(version: int) -> Fault:
    return Fault(
        "newer_ledger",
        f"the ledger has events of format {version}; this Holdfast knows up to {EVENT_FORMAT}",
        INSTALL_NEWER,
    )
