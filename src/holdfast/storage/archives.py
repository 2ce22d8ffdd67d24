"""Archives: files with the events of ended workflows, which left the ledger.

An archive has the table ``events`` of a ledger, with the rows as they were and their hashes. It is
written whole under another name, put in place, and never changed. The ledger keeps the row and the
last state of every stream, so an archive is opened only for old events.
"""

from __future__ import annotations

import os
from heapq import merge
from operator import itemgetter

from holdfast.core.json_text import digest
from holdfast.errors import INSTALL_NEWER, Fault, damaged_ledger, not_written
from holdfast.storage.database import SCHEMA_VERSION, Error, connect_archive, make_archive
from holdfast.storage.ledger import EVENT_COLUMNS, PUT_EVENT, BadEvent, check_event
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from sqlite3 import Connection
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.storage.ledger import Ledger
    from holdfast.system.disk import Disk

    Row = tuple[Any, ...]

ENDING = ".db"
_SEQ, _STREAM, _HASH = 0, 3, 11


class Archives:
    """The archives in one folder, opened when they are needed."""

    def __init__(self, folder: str, identity: str) -> None:
        """``identity`` is that of the ledger: archives of another ledger are not read."""
        self.folder = folder
        self.identity = identity
        self._open: dict[str, Connection] = {}
        self.skipped: set[str] = set()
        """The archives that are damaged, and left out until they are checked again."""

    def names(self) -> list[str]:
        """Return the names of the archives that are there, in order."""
        try:
            names = names_in(self.folder)
        except OSError:
            return []
        return [name for name in names if name.endswith(ENDING)]

    def readable_names(self) -> list[str]:
        """Return the names of the archives that were not found damaged."""
        return [name for name in self.names() if name not in self.skipped]

    def rows(self, name: str, query: str, values: tuple[object, ...] = ()) -> Iterator[Row]:
        """Yield the rows of a query of one archive; raise ``Fault`` if it cannot be read."""
        try:
            yield from self._connection(name).execute(query, values)
        except (OSError, *Error) as error:
            raise unreadable(os.path.join(self.folder, name), str(error)) from error

    def _rows_if_readable(self, name: str, query: str, values: tuple[object, ...]) -> Iterator[Row]:
        try:
            yield from self.rows(name, query, values)
        except Fault:
            return

    def _connection(self, name: str) -> Connection:
        connection = self._open.get(name)
        if connection is None:
            path = os.path.join(self.folder, name)
            connection = connect_archive(path)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                fault = unreadable(path, f"a newer Holdfast wrote it (schema {version})")
                fault.hint = INSTALL_NEWER
                raise fault
            row = connection.execute("SELECT value FROM facts WHERE name = 'identity'").fetchone()
            if row is None or row[0] != self.identity:
                raise unreadable(path, "it belongs to another ledger")
            self._open[name] = connection
        return connection

    def add(
        self, rows: Iterable[Row], query: str, values: tuple[object, ...], *paths: str,
        newest: bool = False,
    ) -> Iterator[Row]:  # fmt: skip
        """Yield rows of the ledger and those of a query of each archive, by seq, each once.

        An event is in both places if a process was killed while it archived. ``paths`` name
        archives that are not in place yet. With ``newest``, the newest come first, and an
        archive that cannot be read is left out.
        """
        names = [*self.readable_names(), *paths]
        read = self._rows_if_readable if newest else self.rows
        others = [read(name, query, values) for name in names]
        last: tuple[object, object] | None = None
        for row in merge(rows, *others, key=itemgetter(_SEQ), reverse=newest):
            if (row[_SEQ], row[_HASH]) != last:
                yield row
            last = row[_SEQ], row[_HASH]


def check(archives: Archives | None, listed: dict[str, Fields], *, is_whole: bool) -> list[Fields]:
    """Return ``archive``, ``why`` and ``events`` of each archive that is missing or damaged.

    ``listed`` has what the ledger says about its archives, by their names.
    """
    names = [] if archives is None else archives.names()
    damaged = [
        {"archive": name, "why": "it is missing", "events": data["events"]}
        for name, data in listed.items()
        if name not in names
    ]
    if archives is None:
        return damaged
    archives.skipped = set()
    for name in names:
        why = _damage_of(archives, name, listed.get(name), is_whole=is_whole)
        if why:
            archives.skipped.add(name)
            events = listed.get(name, {}).get("events", 0)
            damaged.append({"archive": name, "why": why, "events": events})
    return damaged


def _damage_of(archives: Archives, name: str, listed: Fields | None, *, is_whole: bool) -> str:
    """Return why an archive cannot be used; empty if it can."""
    try:
        if not is_whole:
            next(archives.rows(name, f"SELECT {EVENT_COLUMNS} FROM events LIMIT 1"), None)
            return ""
        tally = Tally()
        for row in archives.rows(name, f"SELECT {EVENT_COLUMNS} FROM events ORDER BY seq"):
            check_event(row)
            tally.add(row)
        (verdict,) = next(archives.rows(name, "PRAGMA integrity_check(1)"))
    except BadEvent as bad:
        return f"it is damaged (event {row[0]}: {bad})"
    except Fault as fault:
        return fault.message
    if verdict != "ok" or (listed and listed.get("digest") != tally.digest):
        return "it is damaged" if verdict != "ok" else "events that were archived are missing in it"
    return ""


def write(path: str, ledger: Ledger, streams: set[str], disk: Disk) -> Tally:
    """Write an archive with the events of some streams; return what it has.

    Raise ``Fault`` if an event is damaged, or the disk is full.
    """
    tally = Tally()
    try:
        connection = make_archive(path, disk)
        try:
            connection.execute(
                "INSERT INTO facts (name, value) VALUES ('identity', ?)", (ledger.identity(),)
            )
            for row in ledger.own_rows():
                if row[_STREAM] in streams:
                    check_event(row)
                    connection.execute(PUT_EVENT, row)
                    tally.add(row)
            connection.execute("COMMIT")
        finally:
            connection.close()
    except BadEvent as bad:
        raise damaged_ledger(ledger.database.path, f"event {row[_SEQ]}: {bad}") from bad
    except (OSError, *Error) as error:
        raise not_written(path, str(error), "make room or fix the disk") from error
    return tally


class Tally:
    """The number of events, their first and last seq, and a digest of their hashes."""

    def __init__(self) -> None:
        self.events = 0
        self.first = 0
        self.last = 0
        self.digest = ""

    def add(self, row: Row) -> None:
        self.first = self.first or row[_SEQ]
        self.events, self.last = self.events + 1, row[_SEQ]
        self.digest = digest(f"{self.digest}{row[_HASH]}".encode())


def unreadable(path: str, why: str) -> Fault:
    return Fault(
        "archive_unreadable",
        f"the archive {path} cannot be read: {why}",
        "put a copy of the archive back in its place; until then only this history is missing",
        path=path,
    )
