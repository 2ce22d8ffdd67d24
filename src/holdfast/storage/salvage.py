"""Read what a damaged ledger still has, and put a sound one in its place.

SQLite reads rows from the root of a table down, so one damaged page hides every row below it. An
event proves itself by its hash, so ``events_in`` needs neither the tree nor a page's header: it
looks on every page of the database and of its journal for the bytes of a row
(https://sqlite.org/fileformat2.html), and keeps the rows whose hash is right.

The damaged files are kept beside the new ledger under another name. Replacing takes several steps,
so the new file first gets the name ``ledger.db.recovered``: from then on, the next writer finishes
the replacement (``database.finish_recovery``).
"""

from __future__ import annotations

import os
import re
from itertools import islice

from holdfast.storage.database import (
    BESIDE,
    PAGE_BYTES,
    Error,
    connect_damaged,
    finish_recovery,
)
from holdfast.storage.ledger import (
    COLUMNS,
    EVENT_COLUMNS,
    STREAMS,
    BadEvent,
    check_event,
    is_whole,
    stored_state,
)
from holdfast.workspace.location import RECOVERED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from holdfast.system.disk import Disk

    Row = tuple[Any, ...]
    Page = tuple[int, bytes]  # Its number and its bytes.
    Images = dict[int, list[bytes]]  # Contents of a page, by its number, the newest first.

_EVENTS = f"SELECT {EVENT_COLUMNS} FROM events WHERE seq > 0 ORDER BY seq"
_SEQ = COLUMNS.index("seq")

_PAGE_SIZES = [1 << power for power in range(9, 17)]
_JOURNAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MAX_VARINT_BYTES = 8  # A ninth is needed from 2**56 on.
_MAX_IMAGES = 3
_MAX_BYTES = 1 << 34
"""The largest ledger that is repaired. A repair takes as much memory as the ledger has bytes."""
"""The number of images of a page that are tried as the continuation of a row."""
_INTEGER_BYTES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""Bytes of a column by its serial type. 0 is NULL; 8 and 9 are the integers 0 and 1."""
_EMPTY_TEXT = 13
"""The serial type of an empty text. Each byte of a text adds 2 to it."""
_INTEGER = rb"[\x01-\x06\x08\x09]"
_TEXT = rb"(?:[\x0d-\x7f]|[\x81-\xff][\x80-\xff]{0,3}[\x00-\x7f])"
_RECORD_HEADER = re.compile(
    # Its own length; seq, which is NULL because the row's number is the seq; then id, at,
    # stream; version, v; type, data, by; part; prev, hash.
    rb"(?=([\x0d-\x30]\x00%(text)b{3}%(integer)b{2}%(text)b{3}(?:\x00|%(text)b)%(text)b{2}))"
    % {b"text": _TEXT, b"integer": _INTEGER}
)


class Damaged:
    """A copy of a damaged ledger, from which the sound rows are read."""

    def __init__(self, path: str, folder: str, disk: Disk) -> None:
        self._copy = os.path.join(folder, "copy.db")
        self._disk = disk
        disk.make_folder(folder, 0o700)
        self._remove_copy()
        self._files = {end: disk.read_own(path + end, _MAX_BYTES) for end in ("", "-wal")}
        for end, data in self._files.items():
            if data is not None:
                disk.create(self._copy + end, data, 0o600)
        self._connection = connect_damaged(self._copy)
        self._streams = [row for row in self._read(STREAMS) if is_whole(row)]

    def events(self) -> Iterator[Row]:
        """Yield the events in order: those that SQLite reads, and those that only pages hold.

        A damaged row is included only if no page holds the sound one.
        """
        read = {row[0]: row for row in self._read(_EVENTS)}
        sound = {seq: row for seq, row in read.items() if _is_sound(row)}
        pages, journal = (self._files[end] or b"" for end in ("", "-wal"))
        sound = fill_gaps(sound, events_in(pages, journal))
        for seq in sorted(read.keys() | sound.keys()):
            yield sound.get(seq) or read[seq]

    def last_seq(self) -> int:
        """Return the last seq that a whole row of a stream names."""
        return max((row[_SEQ] for row in self._streams), default=0)

    def states(self) -> dict[str, tuple[int, Any]]:
        """Return the stored state of each stream whose row is whole, after its version."""
        return {row[0]: stored_state(row) for row in self._streams}

    def whole_rows(self) -> list[Row]:
        """Return the rows of streams, with their states, that are as they were written."""
        return self._streams

    def fact(self, name: str) -> str:
        row = next(self._read("SELECT value FROM facts WHERE name = ?", name), ("",))
        return row[0] if isinstance(row[0], str) and row[0].isascii() else ""

    def close(self) -> None:
        self._connection.close()
        self._remove_copy()

    def _remove_copy(self) -> None:
        for end in ("", *BESIDE):
            self._disk.remove(self._copy + end)

    def _read(self, query: str, *values: object) -> Iterator[Row]:
        """Yield rows up to the first one that cannot be read."""
        try:
            yield from self._connection.execute(query, values)
        except Error:
            return


def _is_sound(row: Row) -> bool:
    try:
        check_event(row)
    except BadEvent:
        return False
    return True


def fill_gaps(sound: dict[int, Row], others: Iterable[Row]) -> dict[int, Row]:
    """Return the sound events by seq, and those of ``others`` that agree with them.

    If two of the others have the same seq, the first wins. An event that continues a refused one is
    refused as well: it belongs to a transaction that was rolled back.
    """
    by_seq: dict[int, dict[str, Row]] = {}
    for row in others:
        if row[0] > 0 and row[0] not in sound:
            by_seq.setdefault(row[0], {}).setdefault(row[11], row)
    filled = dict(sound)
    refused = set()
    for seq in sorted(by_seq):
        before, after = filled.get(seq - 1), sound.get(seq + 1)
        for own, row in by_seq[seq].items():
            is_next = row[10] == before[11] if before else row[10] not in refused
            if is_next and seq not in filled and (after is None or after[10] == own):
                filled[seq] = row
            else:
                refused.add(own)
    return filled


def journal_goes_on(path: str, disk: Disk, head: tuple[int, str], *, is_shown: bool) -> bool:
    """Return True if the journal has events after ``head``, the last one that SQLite reads.

    SQLite ignores a journal from its first damaged frame on, and does not report that as damage.
    Its uncommitted events count only if a record shows later events (``is_shown``), which proves
    that those were committed.
    """
    committed, others = _journal_pages(disk.read_own(f"{path}-wal", _MAX_BYTES) or b"")
    pages = [*committed, *others] if is_shown else committed
    later = (row for row in _rows_on(pages) if row[0] > head[0])
    last = (head[0], *(None,) * 10, head[1])
    return len(fill_gaps({head[0]: last}, later)) > 1


def events_in(pages: bytes, journal: bytes = b"") -> Iterator[Row]:
    """Yield each row of ``events`` whose hash is right, from the bytes of a database.

    Rows of the newest pages come first: those that the journal committed, then those of the
    database, then what else is in the journal. An event on several pages is yielded several times.
    """
    size = _page_bytes(pages[16:18])
    stored = [
        (1 + at // size, pages[at : at + size].ljust(size, b"\0"))
        for at in range(0, len(pages), size)
    ]
    committed, others = _journal_pages(journal)
    yield from _rows_on([*committed, *stored, *others])


def _page_bytes(field: bytes) -> int:
    """Return the page size in a field of a header, or the usual size if the field is not valid."""
    size = int.from_bytes(field, "big")
    size = 65536 if size == 1 else size
    return size if size in _PAGE_SIZES else PAGE_BYTES


def _journal_pages(journal: bytes) -> tuple[list[Page], list[Page]]:
    """Return the pages in a journal, the newest first: those of commits, and all others.

    The others are of a transaction that did not end, or left from before the journal was begun
    again. Checksums are not compared: a damaged frame makes those of all later frames wrong.
    """
    size = _page_bytes(journal[10:12])
    salts = (journal[16:24], journal[40:48])  # Those of the header and of the first frame.
    committed: list[Page] = []
    unfinished: list[Page] = []
    older: list[Page] = []
    for at in range(_JOURNAL_HEADER_BYTES, len(journal), _FRAME_HEADER_BYTES + size):
        header = journal[at : at + _FRAME_HEADER_BYTES]
        image = journal[at + _FRAME_HEADER_BYTES : at + _FRAME_HEADER_BYTES + size]
        page = (int.from_bytes(header[:4], "big"), image.ljust(size, b"\0"))
        if header[8:16] not in salts:
            older.append(page)
            continue
        unfinished.append(page)
        if any(header[4:8]):  # The last frame of a commit has the size of the database here.
            committed += unfinished
            unfinished = []
    return committed[::-1], [*older, *unfinished][::-1]


def _rows_on(pages: list[Page]) -> Iterator[Row]:
    """Yield the sound rows on pages, the newest first; a long row continues on others of them."""
    images: Images = {}
    for number, image in pages:
        images.setdefault(number, []).append(image)
    for _, page in pages:
        for match in _RECORD_HEADER.finditer(page):
            header_bytes, *types = _varints(match[1])
            if header_bytes != len(match[1]):
                continue
            sizes = [_INTEGER_BYTES.get(kind, (kind - _EMPTY_TEXT) // 2) for kind in types]
            record_bytes = header_bytes + sum(sizes)
            for seq in _row_numbers(page, match.start(), record_bytes):
                records = _records(page, match.start(), record_bytes, images)
                rows = ((seq, *_columns(types, sizes, record[header_bytes:])) for record in records)
                yield from islice(filter(_is_sound, rows), 1)


def _varints(raw: bytes) -> Iterator[int]:
    """Yield integers of seven bits per byte; the eighth bit is set in all but the last byte."""
    number = 0
    for byte in raw:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            yield number
            number = 0


def _row_numbers(page: bytes, at: int, record_bytes: int) -> Iterator[int]:
    """Yield the possible numbers of a row, which follow its length and precede its record."""
    for start in range(max(0, at - 2 * _MAX_VARINT_BYTES), at - 1):
        numbers = list(_varints(page[start:at]))
        if len(numbers) == 2 and numbers[0] == record_bytes:
            yield numbers[1]


def _records(page: bytes, at: int, length: int, images: Images) -> Iterator[bytes]:
    """Yield the possible records at a byte of a page: a page may have several images."""
    local, most = length, len(page) - 35
    if length > most:
        least = (len(page) - 12) * 32 // 255 - 23
        local = least + (length - least) % (len(page) - 4)
        local = local if local <= most else least
    for age in range(1 if local == length else _MAX_IMAGES):
        record = [page[at : at + local]]
        number = int.from_bytes(page[at + local : at + local + 4], "big")
        missing, seen = length - local, set()
        while missing > 0 and number in images and number not in seen:
            seen.add(number)
            image = images[number][min(age, len(images[number]) - 1)]
            record.append(image[4 : 4 + missing])
            missing -= len(record[-1])
            number = int.from_bytes(image[:4], "big")
        yield b"".join(record)


def _columns(types: list[int], sizes: list[int], body: bytes) -> Iterator[int | str | None]:
    """Yield the columns after seq."""
    at = 0
    for kind, size in zip(types[1:], sizes[1:], strict=True):
        raw = body[at : at + size]
        at += size
        if kind >= _EMPTY_TEXT:
            yield raw.decode(errors="surrogateescape")
        elif kind in (8, 9):
            yield kind - 8
        else:
            yield int.from_bytes(raw, "big", signed=True) if kind else None


def put_in_place(fresh: str, path: str, disk: Disk, stamp: str) -> str:
    """Replace the ledger at ``path`` by the closed database ``fresh``, under the ledger's lock.

    Return the name under which the damaged files are kept.
    """
    backup = f"{path}.damaged-{stamp}"
    for end in ("", *BESIDE):
        if os.path.lexists(path + end):
            disk.remove(backup + end)
            disk.link(path + end, backup + end)
    disk.sync_folder(os.path.dirname(path))
    disk.move(fresh, path + RECOVERED)
    disk.sync_folder(os.path.dirname(path))
    finish_recovery(path, disk)
    return backup
