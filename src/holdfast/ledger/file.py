"""The ledger as files: ``ledger.ndjson``, open for appending, and the closed segments before it.

A commit is one ``write`` of one or more lines and one sync. What stands after the last whole
commit was never acknowledged: readers leave it out, and the next writer moves it to
``quarantine/`` before it appends. A closed segment's name says which events are its own
(``ledger-FIRST-LAST.ndjson``); a line beyond LAST failed to become durable and is void.
"""

from __future__ import annotations

import os

from holdfast.ledger import lines, segment
from holdfast.ledger.closed import Closed, Quarantine
from holdfast.ledger.mirror import Mirror
from holdfast.ledger.segment import OPEN_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.shapes import Draft, Event, Fields
    from holdfast.disk import Disk
    from holdfast.errors import Fault
    from holdfast.ledger.segment import Place

SEGMENT_BYTES = 256 * 1024


class Ledger:
    """One workspace's events. ``refresh`` before reading; append only under the lock."""

    def __init__(self, folder: str, disk: Disk, mirror: str | None = None) -> None:
        self.folder = folder
        self.closed = Closed(folder, disk)
        self._mirror = Mirror(folder, disk, mirror)
        self._quarantine = Quarantine(folder, disk)
        self._disk = disk
        self._path = os.path.join(folder, OPEN_NAME)
        self._tail = bytearray()
        self._loose = b""
        self._ends: list[int] = []
        """Where line ends of the open segment are damaged; in ``_tail`` they are mended."""
        self.inode = 0
        self._size = 0
        self._identity: str | None = None
        self.head_seq = 0
        self.head_hash = ""
        self._last: Event | None = None
        self._decoded = segment.Decoder()

    # Reading

    def refresh(self) -> None:
        """Takes in what other processes appended since the last look."""
        try:
            seen = os.lstat(self._path)
            if seen.st_ino == self.inode and seen.st_size == self._size:
                return
            fd = self._disk.open_read(self._path)
        except FileNotFoundError:
            own = {os.stat(path).st_ino for path, _, _ in self.closed.segments()}
            if self._mirror.restore(own):
                self.refresh()
                return
            self._forget(inode=-1)
            self._settle()
            return
        try:
            found = os.fstat(fd)
            if found.st_ino != self.inode or found.st_size < self._size or self._loose:
                self._forget(inode=found.st_ino)
            known = len(self._tail)
            while piece := os.pread(fd, 1 << 20, self._size):
                self._tail += piece
                self._size += len(piece)
        finally:
            os.close(fd)
        try:
            self._mend_ends(known)
            self._settle()
        except BaseException:
            # What was read cannot be gone on from, and whoever asks again is told so again.
            self._forget(inode=0)
            raise

    def _mend_ends(self, known: int) -> None:
        """Puts damaged line ends right in what was read after the first ``known`` bytes."""
        start = self._tail.rfind(b"\n", 0, known) + 1
        mended, ends = segment.unglued(self._tail[start:])
        if ends:
            self._tail[start:] = mended
            self._ends += [start + end for end in ends]

    def _forget(self, inode: int) -> None:
        self._tail = bytearray()
        self._ends = []
        self._loose = b""
        self._last = None
        self.inode = inode
        self._size = 0

    def _settle(self) -> None:
        """Sets the head, and leaves out what follows the last whole commit."""
        end = self._tail.rfind(b"\n") + 1
        bad = 0
        last: Event | None = None
        position = end
        while position and last is None:
            start = self._tail.rfind(b"\n", 0, position - 1) + 1
            line = self._tail[start : position - 1]
            event = segment.event_of(line)
            position = start
            if event is None:
                bad += bool(line)
            elif segment.is_unfinished(event) and not bad:
                end = start
            else:
                last = event
        self._loose = bytes(self._tail[end:])
        del self._tail[end:]
        self._last = last
        if last is None:
            self.head_seq, self.head_hash = self.closed.end()
        else:
            self.head_seq, self.head_hash = last["seq"], last["hash"]
        self.head_seq += bad

    def identity(self) -> str:
        """The ledger's own name: the id of its first event. Empty while there is none."""
        if not self._identity:
            first = self.closed.first_event() or next(self.scan(), None)
            self._identity = first["id"] if first else ""
        return self._identity

    @property
    def last_stream(self) -> str | None:
        """The stream of the open segment's last event."""
        return self._last["stream"] if self._last else None

    def last(self, stream: str) -> Event | None:
        """The stream's newest event, if the open segment has one."""
        if self.last_stream == stream:
            return self._last
        return next(self.newest(stream), None)

    def newest(self, stream: str, telling: bytes = b"", since: int = 0) -> Iterator[Event]:
        """The stream's events in the open segment, newest first.

        ``telling`` leaves out events whose line does not have these bytes, ``since`` those that
        were there when the segment had this size.
        """
        mark = segment.needle(stream)
        position = self.size
        while (position := self._tail.rfind(telling or mark, since, position)) >= 0:
            start = self._tail.rfind(b"\n", 0, position) + 1
            line = self._tail[start : self._tail.find(b"\n", position)]
            position = start
            event = self._decoded(bytes(line)) if mark in line else None
            if event is not None and event["stream"] == stream:
                yield event

    def at(self, seq: int, event_hash: str) -> Event | None:
        """The event with this number and hash; ``None`` when there is none."""
        mark = f'"hash":"{event_hash}"'.encode(errors="replace")
        event = segment.with_mark(self._tail, mark) or next(self.scan(after=seq - 1), None)
        is_it = event is not None and (event["seq"], event["hash"]) == (seq, event_hash)
        return event if is_it else None

    def touched(self, naming: bytes = b"") -> list[str]:
        """The streams that have events in the open segment, in a line with these bytes."""
        named = (line for line in bytes(self._tail).split(b"\n") if naming in line)
        found = map(segment.stream_of, named)
        return list(dict.fromkeys(stream for stream in found if stream))

    def scan(self, stream: str | None = None, after: int = 0) -> Iterator[Event]:
        """Events in order, of one stream or of all; a bad line is left out."""
        for _, found in self.walk(stream, after):
            if isinstance(found, dict):
                yield found

    def walk(
        self, stream: str | None = None, after: int = 0
    ) -> Iterator[tuple[Place, Event | lines.BadLine]]:
        """Every line in order, with its place: an event, or why it is none."""
        seen = 0
        for path, _, last in self.closed.segments():
            seen = last
            if last > after:
                data, ends = self.closed.read(path)
                name = os.path.basename(path)
                yield from segment.damaged_ends(name, data, ends)
                yield from segment.placed(name, data, stream, after, last)
        yield from segment.damaged_ends(OPEN_NAME, self._tail, self._ends)
        yield from segment.placed(OPEN_NAME, self._tail, stream, max(after, seen), None)

    def since(
        self, stream: str, types: tuple[str, ...], upto: int | None = None, after: int = 0
    ) -> list[Event]:
        """The stream's events up to a seq; none is missing after the newest one of these types.

        Read backwards, a segment at a time: streams are short, and ledgers are long. What is not
        ``after`` a seq is left out.
        """
        closed = self.closed.segments()
        limit = self.head_seq if upto is None else upto
        newest = segment.placed("", self._tail, stream, closed[-1][2] if closed else 0, limit)
        found = [event for _, event in newest if isinstance(event, dict)]
        while closed and closed[-1][2] > after and not any(e["type"] in types for e in found):
            earlier = self.closed.events(closed.pop(), stream)
            found = [*(event for event in earlier if event["seq"] <= limit), *found]
        return [event for event in found if event["seq"] > after]

    def find(self, event_id: str) -> list[Event]:
        """The commit whose first event has this id, newest segments first."""
        needle = f'"id":"{event_id}"'.encode()
        closed = reversed(self.closed.segments())
        sources = [(None, None), *((path, last) for path, _, last in closed)]
        for path, last in sources:
            data = self._tail if path is None else self.closed.read(path)[0]
            if data.find(needle) < 0:
                continue
            events = [e for e in segment.decoded(data) if isinstance(e, dict)]
            for number, event in enumerate(events):
                if event["id"] == event_id and (last is None or event["seq"] <= last):
                    return events[number : number + event.get("part", [1, 1])[1]]
        return []

    @property
    def size(self) -> int:
        """The length of the open segment."""
        return len(self._tail)

    @property
    def is_full(self) -> bool:
        return self.size >= SEGMENT_BYTES

    @property
    def loose(self) -> bytes:
        """What follows the last whole commit: torn, or still being written."""
        return self._loose

    # Writing, under the lock

    def prepare(
        self, drafts: list[Draft], *, stream: str, version: int, at: str, by: Fields, event_id: str
    ) -> tuple[list[Event], bytes]:
        """The events as they will stand in the ledger, and their lines. Nothing is written."""
        events: list[Event] = []
        blob = b""
        prev = self.head_hash
        for number, draft in enumerate(drafts, 1):
            event: Fields = {
                "seq": self.head_seq + number,
                "id": event_id if number == 1 else f"{event_id}.{number}",
                "at": at,
                "stream": stream,
                "version": version + number,
                "v": lines.SCHEMA,
                "type": draft["type"],
                "data": draft["data"],
                "by": by,
            }
            if len(drafts) > 1:
                event["part"] = [number, len(drafts)]
            event["prev"] = prev
            line, prev = lines.encode(event)
            event["hash"] = prev
            blob += line
            events.append(event)  # type: ignore[arg-type]
        return events, blob

    def append(self, events: list[Event], blob: bytes) -> None:
        """Commits prepared events together. When it returns they cannot be lost."""
        self._commit(blob, events[0]["id"])
        self._tail += blob
        self._last = events[-1]
        self.head_seq, self.head_hash = self._last["seq"], self._last["hash"]

    def _commit(self, blob: bytes, event_id: str) -> None:
        fd, is_new = self._disk.open_append(self._path)
        is_empty = is_new or not self._tail
        try:
            if is_new:
                self._forget(inode=os.fstat(fd).st_ino)
            try:
                if is_empty:
                    # So a file that has lines has a durable name, whoever wrote them.
                    self._disk.sync_folder(self.folder)
                self._disk.write(fd, blob)
            except OSError as error:
                raise self._taken_back(fd, error, event_id) from error
            try:
                self._disk.sync(fd)
            except OSError as error:
                raise self._not_durable(error, event_id) from error
        finally:
            self._disk.close(fd)
        self._size += len(blob)
        if is_empty or not self._mirror.has(OPEN_NAME, self.inode):
            self._mirror.link(OPEN_NAME)

    def make_sure(self) -> None:
        """Syncs the open segment: its last writer may not have lived to do it."""
        if self._tail:
            fd, _ = self._disk.open_append(self._path)
            try:
                self._disk.sync(fd)
            finally:
                self._disk.close(fd)

    def _taken_back(self, fd: int, error: OSError, event_id: str) -> Fault:
        """A write that failed half way leaves nothing, if the disk lets us."""
        from holdfast import faults

        try:
            self._disk.cut(fd, self._size)
        except OSError:
            self._forget(inode=0)
            return faults.outcome_unknown(error, self._path, event_id)
        return faults.not_appended(error, self._path)

    def _mend(self, fd: int) -> bool:
        """Moves a torn tail to quarantine; a whole commit that only lost its newline stays."""
        whole = self._whole_loose()
        keep = len(self._tail) + len(whole)
        if whole != self._loose:
            self._quarantine.keep(f"after-{self.head_seq}", self._loose)
        self._disk.cut(fd, keep)
        if whole:
            self._disk.write(fd, b"\n")
            self._tail += whole + b"\n"
        self._disk.sync(fd)
        self._size = len(self._tail)
        is_torn = whole != self._loose
        self._loose = b""
        self._settle()
        return is_torn

    def _whole_loose(self) -> bytes:
        for candidate in (self._loose, self._loose[:-1]):
            if segment.is_whole_commit(candidate, self.head_seq + 1):
                return candidate
        return b""

    def mend(self) -> bool:
        """Sees to a torn tail before anything is appended; says whether something was torn off."""
        if not self._loose:
            return False
        fd, _ = self._disk.open_append(self._path)
        try:
            return self._mend(fd)
        finally:
            self._disk.close(fd)

    def rewrite_without_bad_lines(self, name: str) -> str:
        """Keeps a damaged segment whole in quarantine, and leaves only its events in place."""
        path = os.path.join(self.folder, name)
        data = self._disk.read(path) or b""
        kept = self._quarantine.keep(name, data)
        mended, _ = segment.whole(data)
        good = [line for line in mended.split(b"\n") if segment.event_of(line) is not None]
        self._disk.replace_view(path, b"".join(line + b"\n" for line in good), durable=True)
        self._disk.sync_folder(self.folder)
        self._mirror.link(name)
        return os.path.basename(kept)

    def _not_durable(self, error: OSError, event_id: str) -> Fault:
        """The sync failed: the lines may or may not survive, so the segment ends before them."""
        from holdfast import faults

        try:
            self._end_segment()
            self._disk.sync_folder(self.folder)
        except OSError:
            return faults.outcome_unknown(error, self._path, event_id)
        return faults.not_appended(error, self._path)

    def close_segment(self) -> None:
        """Ends the open segment; the next append begins a new one."""
        self._end_segment()
        self._disk.sync_folder(self.folder)

    def _end_segment(self) -> None:
        first = max((last for _, _, last in self.closed.segments()), default=0) + 1
        if self._tail:
            name = f"ledger-{first:010}-{self.head_seq:010}.ndjson"
            self._disk.move(self._path, os.path.join(self.folder, name))
            self._mirror.link(name)
            self._mirror.drop(OPEN_NAME)
        else:
            void = os.path.join(self._quarantine.folder(), f"unsynced-{first}-{os.getpid()}")
            self._disk.move(self._path, void)
        self._forget(inode=-1)
