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
        rows = raw.splitlines(keepends=True)
        self.lines: list[str] | None = None
        self._before, self._after = raw, b""
        start = self._next_begin(rows)
        if start is None:
            return
        self._before = b"".join(rows[:start])
        found, rest = self._taken(rows[start + 1 :])
        while (start := self._next_begin(rest)) is not None:
            again, after = self._taken(rest[start + 1 :])
            found += [row for row in again if row not in found]
            rest = [*rest[:start], *after]
        self.lines = [decoded(row) for row in found]
        self._after = b"".join(rest)

    def _next_begin(self, rows: list[bytes]) -> int | None:
        return next((n for n, row in enumerate(rows) if row.strip() == self._begin), None)

    def _taken(self, rows: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The lines of a section that begins above these rows, and the rows below it."""
        ends = [n for n, row in enumerate(rows) if row.strip() == self._end]
        # Without its end, the section ends where lines end that can be ours.
        other = [n for n, row in enumerate(rows) if not row.startswith((b"- ", b"## "))]
        stop = next(iter([*ends, *other]), len(rows))
        inside = [row.rstrip(b"\r\n") for row in rows[:stop]]
        lines = [row for row in inside if row.strip() != self._begin]
        return lines, rows[stop + 1 if ends else stop :]

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
        if self.lines is not None or not self._before:
            return b""
        return self._newline if self._before.endswith((b"\n", b"\r")) else self._newline * 2


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
