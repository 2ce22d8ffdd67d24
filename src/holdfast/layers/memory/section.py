"""Our section of a document that belongs to others: pure, bytes in and bytes out.

It stands between two marks, and not a byte outside of it is touched. Inside, lines that somebody
else wrote are kept, and lines of ours that somebody took out do not come back.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BEGIN = "<!-- holdfast:begin {} -->"
_END = "<!-- holdfast:end {} -->"
_BULLET = "- "
_LOADED = 200
"""So many lines of it are loaded."""


class Section:
    """A document split at our marks. ``lines`` is what stands between them; ``None``: no marks.

    Bytes that are no text stay what they are. A second section of the same name, from a merge or a
    copy, is one with the first.
    """

    def __init__(self, raw: bytes, key: str) -> None:
        self._begin, self._end = _BEGIN.format(key).encode(), _END.format(key).encode()
        self._newline = b"\r\n" if raw.count(b"\r\n") * 2 > raw.count(b"\n") else b"\n"
        self.lines: list[str] | None = None
        self._before, self._after = raw, b""
        rows = raw.splitlines(keepends=True)
        marks = [row.strip() for row in rows]
        last_end = max([n for n, mark in enumerate(marks) if mark == self._end], default=-1)
        begin = self._next_begin(marks, 0)
        if begin is None:
            return
        self._before = b"".join(rows[:begin])
        found: list[bytes] = []
        seen: set[bytes] = set()
        after: list[bytes] = []
        # One pass: a document may have as many of our marks as it has lines.
        while begin is not None:
            start = begin + 1
            has_end = start <= last_end
            stop = marks.index(self._end, start) if has_end else _end_of_ours(rows, start)
            inside = [
                rows[n].rstrip(b"\r\n") for n in range(start, stop) if marks[n] != self._begin
            ]
            found += [row for row in inside if row not in seen]
            seen.update(inside)
            start = stop + has_end
            begin = self._next_begin(marks, start)
            after += rows[start:begin]
        self.lines = [decoded(row) for row in found]
        self._after = b"".join(after)

    def _next_begin(self, marks: list[bytes], start: int) -> int | None:
        try:
            return marks.index(self._begin, start)
        except ValueError:
            return None

    def with_lines(self, lines: Sequence[str]) -> bytes:
        """The document with these lines in the section; without any there is no section."""
        if not lines:
            return self._before + self._after if self.lines is not None else self._before
        rows = [self._begin, *[encoded(line) for line in lines], self._end]
        body = b"".join([row + self._newline for row in rows])
        if self.lines is None and self._before.count(b"\n") > _LOADED - len(rows):
            # Clients load the first lines alone: at the end of a long file nobody would see it.
            return body + self._newline + self._before
        return self._before + self._gap() + body + self._after

    def _gap(self) -> bytes:
        """What separates a new section from the text above it."""
        # One that comes and goes would leave a line behind each time.
        stands_apart = self._before.endswith(self._newline * 2)
        if self.lines is not None or not self._before or stands_apart:
            return b""
        return self._newline if self._before.endswith((b"\n", b"\r")) else self._newline * 2


def _end_of_ours(rows: list[bytes], start: int) -> int:
    """Without its end, the section ends where lines end that can be ours."""
    while start < len(rows) and rows[start].startswith((b"- ", b"## ")):
        start += 1
    return start


def decoded(row: bytes) -> str:
    return row.decode(errors="surrogateescape")


def encoded(line: str) -> bytes:
    return line.encode(errors="surrogateescape")


def bullets(lines: Iterable[str]) -> list[str]:
    """The sentences of a section's lines."""
    return [line.removeprefix(_BULLET) for line in lines if line.startswith(_BULLET)]


def laid_out(parts: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Headings, each with its sentences as a list; a heading without any is left out."""
    lines: list[str] = []
    for heading, sentences in parts:
        if sentences:
            lines += [f"## {heading}", *[f"{_BULLET}{sentence}" for sentence in sentences]]
    return lines
