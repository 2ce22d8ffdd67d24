"""Fit text to a terminal, and make the lines and tables that several commands share.

Stored text reaches the screen through ``core.visible`` alone, which also counts its columns.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.core import json_text, visible
from holdfast.core.time import age, iso
from holdfast.core.visible import clean, code_of, count_char_cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal, TextIO

    from holdfast.cli.parser import Arguments
    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields

    Tone = Literal["good", "active", "bad", "warn", "dim", "strong"]

_TONES = {"good": "32", "active": "36", "bad": "31", "warn": "33", "dim": "2", "strong": "1"}
_MARKS: dict[str, tuple[str, str, Tone]] = {
    "completed": ("✓", "[x]", "good"),
    "in_progress": ("▶", "[>]", "active"),
    "pending": ("○", "[ ]", "dim"),
    "blocked": ("✗", "[!]", "bad"),
    "skipped": ("-", "[-]", "warn"),
}
_MIN_COLUMNS, _USUAL_COLUMNS = 20, 80
_BAR_COLUMNS = 20
_MIN_DRAWN, _PROGRESS_COLUMNS = 10_000, 24
_MAX_WORD_COLUMNS = 60
_GAP = "  "

count_cells, shorten = visible.count_cells, visible.shorten


class Screen:
    """A stream and what it can show. ``width`` is ``None`` where lines may have any length."""

    __slots__ = ("arrow", "colour", "dot", "encoding", "fancy", "no_mark", "now", "width")

    def __init__(
        self,
        *,
        colour: bool = False,
        fancy: bool = True,
        width: int | None = None,
        now: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self.colour = colour
        self.fancy = fancy
        self.width = width
        self.now = now
        self.encoding = encoding
        self.dot = " · " if fancy else ", "
        self.arrow = "→" if fancy else "->"
        self.no_mark = " " if fancy else "   "
        """Spaces as wide as a mark."""

    @classmethod
    def of(cls, out: TextIO) -> Screen:
        encoding = out.encoding or "ascii"
        is_terminal = out.isatty()
        try:
            fancy = bool("✓▶○✗·…".encode(encoding))
        except (UnicodeEncodeError, LookupError):
            fancy = False
        # See no-color.org and force-color.org.
        colour = is_terminal and os.environ.get("TERM") != "dumb"
        if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
            colour = True
        return cls(
            colour=colour and not os.environ.get("NO_COLOR"),
            fancy=fancy,
            width=_terminal_width(out) if is_terminal else None,
            encoding=None if encoding.lower().startswith("utf") else encoding,
        )

    def paint(self, text: str, tone: Tone) -> str:
        """Return clean text in a colour."""
        return f"\x1b[{_TONES[tone]}m{text}\x1b[0m" if self.colour and text else text

    def dim(self, *facts: str) -> str:
        """Return the facts that are not empty, cleaned and dimmed, with dots between them."""
        return self.paint(clean(self.dot.join([fact for fact in facts if fact])), "dim")

    def row(self, status: str, text: str, *facts: str) -> str:
        """Return a line with the mark of a status, clean text, and facts behind it."""
        return f"{self.mark(status)} {clean(text)}  {self.dim(*facts)}".rstrip()

    def mark(self, status: str, tone: Tone | None = None) -> str:
        """Return the mark of a status, in its own colour or this one."""
        glyph, spelled, own_tone = _MARKS.get(status, _MARKS["in_progress"])
        return self.paint(glyph if self.fancy else spelled, tone or own_tone)

    def note(self, text: str) -> str:
        return self.paint(f"  note: {clean(text)}", "warn")

    def highlight(self, line: str) -> str:
        """Return a painted line with its dim and uncoloured parts in the colour of a warning."""
        if not self.colour:
            return line
        dim, warn = f"\x1b[{_TONES['dim']}m", f"\x1b[{_TONES['warn']}m"
        return warn + line.replace(dim, warn).replace("\x1b[0m", f"\x1b[0m{warn}") + "\x1b[0m"

    def age(self, timestamp: str) -> str:
        if self.now is None:
            self.now = iso(time.time_ns() // 1_000_000)
        return age(self.now, timestamp)

    def fitted(self, line: str, taken: int = 0) -> str:
        """Return clean, unpainted text cut to the columns that are free behind ``taken`` ones."""
        return line if self.width is None else shorten(line, max(10, self.width - taken))

    def encoded(self, line: str) -> str:
        """Return the line with what the stream's encoding lacks shown by its code."""
        if self.encoding is None or line.isascii():
            return line
        spelled = line if self.fancy else line.replace("…", "~")
        return "".join([c if _has(self.encoding, c) else code_of(c) for c in spelled])


class ProgressBar:
    """A bar on a terminal. What takes no time gets none."""

    def __init__(self) -> None:
        self._is_drawn = False

    @classmethod
    def on_terminal(cls, args: Arguments) -> ProgressBar | None:
        """Return a bar if a person watches."""
        return cls() if sys.stderr.isatty() and not args["json"] else None

    def draw(self, what: str, done: int, total: int) -> None:
        """Draw the bar over the last one."""
        if total < _MIN_DRAWN:
            return
        filled = _PROGRESS_COLUMNS * done // total
        bar = "#" * filled + "-" * (_PROGRESS_COLUMNS - filled)
        text = f"\r[{bar}] {done:,} of {total:,} {what}\033[K"
        print(text, end="", file=sys.stderr, flush=True)
        self._is_drawn = True

    def clear(self) -> None:
        """Remove the bar, if there is one."""
        if self._is_drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def next_lines(screen: Screen, step: NextStep | None) -> Iterator[str]:
    """Yield the next command, and what it is about."""
    if step is None:
        return
    command = clean(step.text)
    about = screen.fitted(clean(step.remark), len(command) + len("  next:    "))
    yield f"  next: {command}" + (screen.paint(f"   {about}", "dim") if about else "")


def list_lines(screen: Screen, title: str, items: list[str]) -> Iterator[str]:
    """Yield the items below their title; nothing if there are none."""
    if items:
        yield screen.paint(title, "strong")
    for item in items:
        yield f"  {clean(item)}"


def counted(number: int, name: str) -> str:
    """Return ``2 events``, or ``1 event``."""
    return f"{number} {name.removesuffix('s') if number == 1 else name}"


def format_pairs(fields: Fields) -> list[str]:
    """Return ``key=value`` for each field."""
    texts = {k: v if isinstance(v, str) else json_text.dumps(v) for k, v in fields.items()}
    return [f"{key}={text}" for key, text in texts.items()]


def draw_bar(screen: Screen, share: float, width: int = _BAR_COLUMNS) -> str:
    """Return a bar of which this share, from 0 to 1, is filled."""
    full = round(max(0.0, min(1.0, share)) * width)
    on, off = ("█", "░") if screen.fancy else ("#", "-")
    return screen.paint(on * full, "good") + screen.paint(off * (width - full), "dim")


def fit_columns(
    screen: Screen, table: list[dict[str, str]], optional: Iterable[str], widest: dict[str, int],
    last_min: int,
) -> tuple[list[str], dict[str, int]]:  # fmt: skip
    """Return the columns that a terminal has room for, and their widths; the last takes the rest.

    Columns of ``optional`` are dropped, in order, until the last one has ``last_min`` columns.
    ``widest`` limits single columns.
    """
    columns = list(table[0])
    last = columns[-1]
    widths = {name: max([count_cells(row[name]) for row in table]) for name in columns}
    if screen.width is None:
        return columns, widths
    widths = {name: max(count_cells(name), width) for name, width in widths.items()}
    for name, width in widest.items():
        widths[name] = min(widths[name], width)
    space = screen.width - count_cells(screen.no_mark) - 1
    space -= sum([widths[name] + len(_GAP) for name in columns[:-1]])
    for name in optional:
        if space >= min(last_min, widths[last]):
            break
        columns.remove(name)
        space += widths[name] + len(_GAP)
    widths[last] = min(widths[last], space)
    return columns, widths


def table_lines(
    screen: Screen, table: list[dict[str, str]], columns: list[str], widths: dict[str, int],
    marks: list[str],
) -> Iterator[str]:  # fmt: skip
    """Yield a line for each row, behind its mark; on a terminal the heading first."""
    if screen.width is not None:
        heading = _GAP.join(
            [pad(shorten(column, widths[column]), widths[column]) for column in columns]
        )
        yield screen.paint(f"{screen.no_mark} {heading}".rstrip(), "dim")
    for mark, row in zip(marks, table, strict=True):
        parts = [pad(shorten(row[name], widths[name]), widths[name]) for name in columns]
        parts[0] = screen.paint(parts[0], "strong")
        yield f"{mark} {_GAP.join(parts)}".rstrip()


def count_painted_cells(line: str) -> int:
    """Return how many columns a line takes that has colours in it."""
    plain, *painted = line.split("\x1b[")
    return count_cells(plain) + sum([count_cells(part.partition("m")[2]) for part in painted])


def pad(line: str, width: int) -> str:
    return line + " " * (width - count_cells(line))


def quote_word(word: str) -> str:
    """Return a word of the user as messages show it, clean and not too long."""
    return f"'{clean(shorten(word, _MAX_WORD_COLUMNS))}'"


def clip(line: str, width: int) -> str:
    """Return a painted line, cut with an ellipsis if it is wider."""
    if count_painted_cells(line) <= width:
        return line
    return _fold(line, width - 1, "")[0] + "…" + ("\x1b[0m" if "\x1b" in line else "")


def wrap(text: str, width: int) -> Iterator[str]:
    """Break a clean line, painted or not, at its spaces; indent the later pieces.

    A word that is wider than the line stays whole, so that a path or an address can be copied: the
    terminal folds it. Wide characters, which are written without spaces, are folded here.
    """
    bare = text.lstrip(" ")
    line = " " * (len(text) - len(bare))
    indent, has_word = line + "    ", False
    for word in bare.split(" "):
        longer = f"{line} {word}" if has_word else line + word
        if count_painted_cells(longer) > width:
            is_wide = any(count_char_cells(char) > 1 for char in word)
            if is_wide and count_painted_cells(word) > width - len(indent):
                *full, longer = _fold(longer, width, indent)
                yield from full
            elif has_word:
                yield line.rstrip(" ")
                longer = indent + word
        line, has_word = longer, True
    yield line


def _fold(line: str, width: int, indent: str) -> list[str]:
    """Cut the line after ``width`` columns, wherever that is; colours take none."""
    pieces, taken, start = [""], 0, 0
    while start < len(line):
        end = line.index("m", start) + 1 if line[start] == "\x1b" else start + 1
        columns = 0 if end > start + 1 else count_char_cells(line[start])
        if taken + columns > width:
            pieces.append(indent)
            taken = len(indent)
        pieces[-1] += line[start:end]
        taken += columns
        start = end
    return pieces


def _has(encoding: str, char: str) -> bool:
    """Return whether an encoding has a character."""
    try:
        return bool(char.encode(encoding))
    except (UnicodeEncodeError, LookupError):
        return False


def _terminal_width(out: TextIO) -> int:
    text = os.environ.get("COLUMNS", "")
    columns = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not columns:
        try:
            columns = os.get_terminal_size(out.fileno()).columns
        except OSError:
            columns = 0
    return max(_MIN_COLUMNS, columns or _USUAL_COLUMNS)
