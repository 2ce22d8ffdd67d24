"""What stands beside the open segment: the closed ones, whose names say which events are theirs,
and the quarantine, where damaged bytes are kept for people.
"""

from __future__ import annotations

import os
from errno import ELOOP

from holdfast.digest import digest
from holdfast.ledger import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.shapes import Event
    from holdfast.disk import Disk

    Segment = tuple[str, int, int]
    """Path, first and last seq."""


class Closed:
    """The segments before the open one, oldest first."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def segments(self) -> list[Segment]:
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            first, last = segment.range_of(name)
            if first:
                found.append((os.path.join(self._folder, name), first, last))
        return found

    def read(self, path: str) -> tuple[bytes, list[int]]:
        """A segment's bytes, and where their line ends were damaged."""
        return segment.whole(self._disk.read_own(path) or b"")

    def events(self, of: Segment, stream: str | None = None) -> list[Event]:
        """The events of one segment, of one stream or of all; bad lines are left out."""
        path, _, last = of
        found = segment.placed("", self.read(path)[0], stream, 0, last)
        return [event for _, event in found if isinstance(event, dict)]

    def each(self) -> Iterator[tuple[int, list[Event]]]:
        """The segments one by one: the last seq, and the events."""
        for of in self.segments():
            yield of[2], self.events(of)

    def first_event(self) -> Event | None:
        """The event in the very first line; ``None`` when that is damaged, or there is none."""
        oldest = self.segments()[:1]
        head = self._disk.read_head(oldest[0][0]) if oldest else b""
        return segment.event_of(head[: head.find(b"\n")])

    def end(self) -> tuple[int, str]:
        """Seq and hash of the last event."""
        for path, _, last in reversed(self.segments()):
            for line in reversed(self.read(path)[0].split(b"\n")):
                event = segment.event_of(line)
                if event is not None and event["seq"] <= last:
                    return last, event["hash"]
        return 0, ""


class Quarantine:
    """The folder ``quarantine`` beside a ledger."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self._path = os.path.join(folder, "quarantine")
        self._disk = disk

    def folder(self) -> str:
        """The folder, made if need be; a link in its place could lead anywhere."""
        self._disk.make_folder(self._path, 0o700)
        if os.path.islink(self._path):
            raise OSError(ELOOP, "quarantine is a symbolic link", self._path)
        return self._path

    def keep(self, name: str, data: bytes) -> str:
        """Keeps a copy of the bytes; gives its path."""
        path = os.path.join(self.folder(), f"{name}-{digest(data)[:8]}")
        try:
            self._disk.create(path, data, 0o600, durable=True)
        except FileExistsError:
            pass
        return path
