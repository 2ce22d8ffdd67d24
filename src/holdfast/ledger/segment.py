"""Segments: which file holds which events, and reading one line by line."""

from __future__ import annotations

from holdfast.ledger import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.shapes import Event

OPEN_NAME = "ledger.ndjson"
_MOST_KNOWN = 64
_BEGIN = b'{"seq":'
_GLUES = tuple(b'"}' + bytes([0x0A ^ 1 << bit]) + _BEGIN for bit in range(8))
"""What stands between two events when a bit of the line end between them has flipped."""


class Place:
    """Where a line stands: the file's name and the line's number in it."""

    __slots__ = ("line", "name")

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line

    def __str__(self) -> str:
        return f"{self.name}:{self.line}"


def needle(stream: str) -> bytes:
    """What every line of a stream has, and hardly any other line."""
    return f'"stream":"{stream}","version":'.encode(errors="replace")


def stream_of(line: bytes) -> str:
    """The stream that a line names, without decoding the rest of it."""
    _, _, after = line.partition(b'"stream":"')
    return after.partition(b'"')[0].decode(errors="replace")


def event_of(line: bytes | bytearray) -> Event | None:
    """The event of a line; ``None`` when it is not a whole one."""
    try:
        return lines.decode(bytes(line))
    except lines.BadLine:
        return None


class Decoder:
    """``event_of``, which decodes a line that is asked for again and again only once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Event | None] = {}

    def __call__(self, line: bytes) -> Event | None:
        if line not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[line] = event_of(line)
        return self._known[line]


def with_mark(data: bytearray, mark: bytes) -> Event | None:
    """The event of the last line that has these bytes."""
    place = data.rfind(mark)
    start = data.rfind(b"\n", 0, place) + 1
    return event_of(data[start : data.find(b"\n", place)]) if place >= 0 else None


def is_unfinished(event: Event) -> bool:
    """Whether more events of the same commit should follow."""
    number, total = event.get("part", [1, 1])
    return number < total


def is_whole_commit(data: bytes, first: int) -> bool:
    """Whether the lines are all events of one commit, and the first has this seq."""
    events = [event_of(line) for line in data.split(b"\n")]
    wanted = [(first + number, [number + 1, len(events)]) for number in range(len(events))]
    return wanted == [event and (event["seq"], event.get("part", [1, 1])) for event in events]


def unglued(data: bytes | bytearray) -> tuple[bytes, list[int]]:
    """The bytes with line ends where a flipped bit took them away, and their positions."""
    whole = bytes(data)
    if whole.count(_BEGIN) == whole.count(b"\n" + _BEGIN) + whole.startswith(_BEGIN):
        return whole, []
    ends: list[int] = []
    for glue in _GLUES:
        position = -1
        while (position := whole.find(glue, position + 1)) >= 0:
            ends.append(position + 2)
        whole = whole.replace(glue, b'"}\n' + _BEGIN)
    return whole, ends


def whole(data: bytes) -> tuple[bytes, list[int]]:
    """A closed segment with all of its line ends, and the positions of those that were damaged."""
    last = len(data) - 1
    if event_of(data[data.rfind(b"\n") + 1 : last]) is None:
        return unglued(data)
    mended, ends = unglued(data[:last] + b"\n")
    return mended, [*ends, last]


def decoded(data: bytes | bytearray) -> Iterator[Event | lines.BadLine]:
    for _, found in placed("", data, None, 0, None):
        yield found


def placed(
    name: str, data: bytes | bytearray, stream: str | None, after: int, last: int | None
) -> Iterator[tuple[Place, Event | lines.BadLine]]:
    mark = None if stream is None else needle(stream)
    if mark is not None and mark not in data:
        return
    for number, line in enumerate(bytes(data).split(b"\n"), 1):
        if not line or (mark is not None and mark not in line):
            continue
        try:
            event = lines.decode(line)
        except lines.BadLine as bad:
            yield Place(name, number), bad
            continue
        is_wanted = stream is None or event["stream"] == stream
        if is_wanted and event["seq"] > after and (last is None or event["seq"] <= last):
            yield Place(name, number), event
        if event["seq"] == last:
            # What follows never became durable.
            return


def damaged_ends(
    name: str, data: bytes | bytearray, ends: list[int]
) -> Iterator[tuple[Place, lines.BadLine]]:
    for end in sorted(ends):
        yield Place(name, data.count(b"\n", 0, end) + 1), lines.BadLine("its line end is damaged")


def range_of(name: str) -> tuple[int, int]:
    """First and last seq by a closed segment's name; zeros when it is not one."""
    parts = name.removesuffix(".ndjson").split("-")
    if name.endswith(".ndjson") and len(parts) == 3 and parts[0] == "ledger":
        first, last = parts[1:]
        if first.isdigit() and last.isdigit():
            return int(first), int(last)
    return 0, 0
