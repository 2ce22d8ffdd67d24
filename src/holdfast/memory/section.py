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


class Section:
    """A document split at our marks. ``lines`` is what stands between them; ``None``: no marks."""

    def __init__(self, raw: bytes, key: str) -> None:
        self._begin, self._end = _BEGIN.format(key).encode(), _END.format(key).encode()
        self._newline = b"\r\n" if raw.count(b"\r\n") * 2 > raw.count(b"\n") else b"\n"
        rows = raw.splitlines(keepends=True)
        bare = [row.strip() for row in rows]
        self.lines: list[str] | None = None
        self._before, self._after = raw, b""
        if self._begin not in bare:
            return
        start = bare.index(self._begin)
        # Without its end, the section ends where lines end that can be ours.
        ends = [number for number in range(start + 1, len(rows)) if bare[number] == self._end]
        other = [number for number in range(start + 1, len(rows)) if not _may_be_ours(bare[number])]
        stop = ends[0] if ends else (other[0] if other else len(rows))
        after = stop + 1 if ends else stop
        self.lines = [row.decode(errors="replace") for row in bare[start + 1 : stop]]
        self._before, self._after = b"".join(rows[:start]), b"".join(rows[after:])

    def with_lines(self, lines: Sequence[str]) -> bytes:
        """The document with these lines in the section; without any there is no section."""
        if not lines:
            return self._before + self._after if self.lines is not None else self._before
        rows = [self._begin, *[line.encode() for line in lines], self._end]
        body = b"".join([row + self._newline for row in rows])
        return self._before + self._gap() + body + self._after

    def _gap(self) -> bytes:
        """What separates a new section from the text above it."""
        if self.lines is not None or not self._before:
            return b""
        return self._newline if self._before.endswith((b"\n", b"\r")) else self._newline * 2


def _may_be_ours(row: bytes) -> bool:
    return not row or row.startswith((b"- ", b"## "))


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
