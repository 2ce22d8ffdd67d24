"""The two ends of a server: lines in, lines out, and nothing else on standard output.

Whoever prints, here or in a program that is started, reaches standard error; whoever reads standard
input finds it empty. A line that is too long is passed over, and said to be.
"""

from __future__ import annotations

import os
import select
from _signal import (  # type: ignore[import-not-found]
    SIGHUP,
    SIGINT,
    SIGTERM,
    set_wakeup_fd,
)
from _thread import allocate_lock

from holdfast.mcp.messages import EDGE, line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from holdfast.core.types import Fields

MAX_LINE = 16 * 1024 * 1024
"""Its values may take thirty times as much memory."""
ENDING = frozenset({SIGINT, SIGTERM, SIGHUP})
"""The signals by which a client ends its server."""
_CHUNK = 1 << 16
_LARGEST_CHUNK = 1 << 22


class TooLong:
    """In place of a line of more than ``MAX_LINE`` bytes, of which only both ends were kept."""

    __slots__ = ("head", "length", "tail")

    def __init__(self, length: int, head: bytes, tail: bytes) -> None:
        self.length = length
        self.head = head
        self.tail = tail


class _Line:
    """One line as it comes in; once it is too long, only its ends."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[bytes] = []
        self._ends: tuple[bytes, bytes] | None = None

    def add(self, part: bytes) -> None:
        self.length += len(part)
        if self._ends is not None:
            head, tail = self._ends
            self._ends = head, (tail + part[-EDGE:])[-EDGE:]
            return
        self._parts.append(part)
        if self.length > MAX_LINE:
            whole = b"".join(self._parts)
            self._ends = whole[:EDGE], whole[-EDGE:]
            self._parts.clear()

    def whole(self) -> bytes | TooLong:
        return b"".join(self._parts) if self._ends is None else TooLong(self.length, *self._ends)


class Pipe:
    """Standard input and output, taken away from everybody else in this process."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        for fd in (self._in, self._out):
            # Some clients have pipes that do not wait, and share them with us.
            os.set_blocking(fd, True)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        # A signal can come just before we begin to wait, or reach another thread: then only this
        # pipe, into which the interpreter writes at each, tells that we are asked to end.
        self._asked, self._asking = os.pipe()
        os.set_blocking(self._asking, False)
        set_wakeup_fd(self._asking, warn_on_full_buffer=False)
        self._poll = select.poll()
        for fd in (self._in, self._asked):
            self._poll.register(fd, select.POLLIN)
        self._lock = allocate_lock()
        self._gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        set_wakeup_fd(-1)
        for fd in (self._in, self._out, self._asked, self._asking):
            os.close(fd)

    def lines(self) -> Iterator[bytes | TooLong]:
        """Each line without its end; until the other side closes, or we are asked to end."""
        line = _Line()
        size = _CHUNK
        while not self._gone and (chunk := self._read(size)):
            # A long line comes in large pieces, an ordinary one needs no large buffer.
            size = min(size * 2, _LARGEST_CHUNK) if len(chunk) == size else _CHUNK
            *ended, rest = chunk.split(b"\n")
            for end in ended:
                line.add(end)
                yield line.whole()
                line = _Line()
            line.add(rest)
        if line.length:
            yield line.whole()

    def _read(self, size: int) -> bytes:
        try:
            while True:
                ready = [fd for fd, _ in self._poll.poll()]
                # Other signals are of the lock that a call waited for.
                if self._asked in ready and not ENDING.isdisjoint(os.read(self._asked, 64)):
                    return b""
                if self._in in ready:
                    return os.read(self._in, size)
        except OSError:  # a client that was cut off is one that has closed
            return b""

    def send(self, message: Fields) -> None:
        """Writes one message, whole, whichever thread sends; a client that is gone is no error."""
        raw = line_of(message)
        with self._lock:
            self._write(memoryview(raw))

    def _write(self, left: memoryview) -> None:
        try:
            while left and not self._gone:
                left = left[os.write(self._out, left) :]
        except OSError:
            self._gone = True
