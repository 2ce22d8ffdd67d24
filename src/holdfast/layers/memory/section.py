"""Holdfast's section of a document that belongs to other people. Pure: bytes in, bytes out.

The section is between two marks, and no byte outside of it is changed. Inside it, lines of other
writers are kept, and lines of ours that an editor removed do not come back.
"""

from __future__ import annotations

from holdfast.core.other_layers import LINE_BEGINNINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.types import Fields

    Parts = list[tuple[str, list[str]]]
    """Headings, each with its sentences."""

ACTIVE, ENDED, PREFERRED = "Active workflows", "Ended workflows", "Preferences"
_HEADINGS = tuple(f"## {name}" for name in (ACTIVE, ENDED, PREFERRED))
_BEGIN = "<!-- holdfast:begin {} -->"
_END = "<!-- holdfast:end {} -->"
_BULLET = "- "
_LOADED_LINES = 200
"""The lines of the document that a client loads."""


class MemorySection:
    """A document split at our marks. ``lines`` is what is between them; ``None`` without marks.

    Bytes that are not UTF-8 are preserved. A second section of the same name, from a merge or a
    copy, is joined with the first.
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
        lines: list[bytes] = []
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
            lines += [row for row in inside if row not in seen]
            seen.update(inside)
            start = stop + has_end
            begin = self._next_begin(marks, start)
            after += rows[start:begin]
        self.lines = [decode(row) for row in lines]
        self._after = b"".join(after)

    def _next_begin(self, marks: list[bytes], start: int) -> int | None:
        try:
            return marks.index(self._begin, start)
        except ValueError:
            return None

    def with_lines(self, lines: Sequence[str]) -> bytes:
        """Return the document with these lines in the section; without lines, without a section."""
        if not lines:
            return self._before + self._after
        rows = [self._begin, *[encode(line) for line in lines], self._end]
        body = b"".join([row + self._newline for row in rows])
        if self.lines is None and self._before.count(b"\n") > _LOADED_LINES - len(rows):
            # Clients load the first lines only, and would not see a section at the end.
            return body + self._newline + self._before
        return self._before + self._gap() + body + self._after

    def _gap(self) -> bytes:
        """Return what separates a new section from the text above it."""
        # A section that comes and goes must not leave a line behind each time.
        has_blank_line = self._before.endswith(self._newline * 2)
        if self.lines is not None or not self._before or has_blank_line:
            return b""
        return self._newline if self._before.endswith((b"\n", b"\r")) else self._newline * 2


def _end_of_ours(rows: list[bytes], start: int) -> int:
    """Return where a section without an end mark ends: after the lines that can be ours."""
    while start < len(rows) and rows[start].startswith((b"- ", b"## ")):
        start += 1
    return start


def decode(row: bytes) -> str:
    return row.decode(errors="surrogateescape")


def encode(line: str) -> bytes:
    return line.encode(errors="surrogateescape")


def bullets(lines: Iterable[str]) -> list[str]:
    """Return the sentences of a section's lines."""
    return [line.removeprefix(_BULLET) for line in lines if line.startswith(_BULLET)]


def render(parts: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the lines of headings and their sentences, without empty headings."""
    lines: list[str] = []
    for heading, sentences in parts:
        if sentences:
            lines += [f"## {heading}", *[f"{_BULLET}{sentence}" for sentence in sentences]]
    return lines


# The next content


def merge(
    current: list[str] | None, parts: Parts, last: Fields, room: int
) -> tuple[list[str], list[str], Fields]:
    """Return our next lines, the lines of other writers, and what to remember for the next merge.

    ``last`` is what was remembered: the lines of ours that were ``written``, and the sentences
    that an editor removed and that stay out (``dropped``).
    """
    all_ours = {sentence for _, sentences in parts for sentence in sentences}
    present = bullets(current or [])
    missing = [sentence for sentence in bullets(last["written"]) if sentence not in present]
    removed = missing if current is not None else []
    dropped = [text for text in dict.fromkeys([*last["dropped"], *removed]) if text in all_ours]
    others = _lines_of_others(current or [], last["written"], parts)
    taken = set(dropped)
    kept: Parts = []
    for heading, sentences in parts:
        fresh = [text for text in dict.fromkeys(sentences) if text not in taken]
        taken.update(fresh)
        kept.append((heading, fresh))
    lines = render(_fit(kept, room - len(others)))
    return lines, others, {"written": lines, "dropped": dropped}


def _lines_of_others(current: list[str], written: list[str], parts: Parts) -> list[str]:
    """Return the lines that other writers put into the section, with the blank lines between."""
    others: list[str] = []
    for line in current:
        if line.strip():
            if not is_ours(line.strip(), written, parts):
                others.append(line)
        elif others and others[-1]:
            others.append("")
    return others if not others or others[-1] else others[:-1]


def is_ours(line: str, written: list[str], parts: Parts) -> bool:
    """Return True if a line is, or was, one that Holdfast writes."""
    if line in written or line in _HEADINGS or line in render(parts):
        return True
    return any(text.startswith(LINE_BEGINNINGS) for text in bullets([line]))


def _fit(parts: Parts, room: int) -> Parts:
    """Remove sentences until the rest fits: the last of the last part first."""
    while sum(len(sentences) + bool(sentences) for _, sentences in parts) > max(room, 0):
        next(sentences for _, sentences in reversed(parts) if sentences).pop()
    return parts
