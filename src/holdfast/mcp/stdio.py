"""Read lines from standard input and write lines to standard output, for one server.

Nothing else can use them: what a library or a child process prints goes to standard error, and
what it reads from standard input is empty. A line that is too long is skipped and reported.
"""

from __future__ import annotations

import os
import select
from _signal import (  # type: ignore[import-not-found]
    SIGHUP,
    SIGINT,
    SIGTERM,
    set_wakeup_fd,
    signal,
)
from _thread import allocate_lock

from holdfast.mcp.messages import EDGE_BYTES, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from holdfast.core.types import Fields

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Its parsed values may need thirty times as much memory."""
END_SIGNALS = frozenset({SIGINT, SIGTERM, SIGHUP})
"""The signals with which a client ends its server."""
_MIN_CHUNK_BYTES = 1 << 16
_MAX_CHUNK_BYTES = 1 << 22


class TooLong:
    """In place of a line of more than ``MAX_LINE_BYTES``, of which only both ends are kept."""

    __slots__ = ("head", "length", "tail")

    def __init__(self, line: bytearray) -> None:
        self.length = len(line)
        self.head = bytes(line[:EDGE_BYTES])
        self.tail = bytes(line[-EDGE_BYTES:])

    def add(self, part: bytes) -> None:
        self.length += len(part)
        self.tail = (self.tail + part[-EDGE_BYTES:])[-EDGE_BYTES:]


class Pipe:
    """Standard input and output, for this server alone."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        for fd in (self._in, self._out):
            # Some clients share non-blocking pipes with the server.
            os.set_blocking(fd, True)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        # A signal can arrive just before the poll, or in another thread. The interpreter writes its
        # number into this pipe, which ends the poll in both cases.
        self._signals, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        self._poll = select.poll()
        for fd in (self._in, self._signals):
            self._poll.register(fd, select.POLLIN)
        self._lock = allocate_lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        set_wakeup_fd(-1)
        for fd in (self._in, self._out, self._signals, self._wakeup):
            os.close(fd)

    def lines(
        self, before_wait: Callable[[], float | None] = lambda: None
    ) -> Iterator[bytes | TooLong]:
        """Yield lines without their ends, until the client closes or a signal ends the server.

        ``before_wait`` is called before each wait; it returns the longest wait, in seconds.
        """
        line: bytearray | TooLong = bytearray()
        size = _MIN_CHUNK_BYTES
        while not self._is_closed and (chunk := self._read(size, before_wait)):
            # Read a long line in large chunks; an ordinary one needs no large buffer.
            size = min(size * 2, _MAX_CHUNK_BYTES) if len(chunk) == size else _MIN_CHUNK_BYTES
            *pieces, tail = chunk.split(b"\n")
            for piece in pieces:
                line = _extend(line, piece)
                yield line if isinstance(line, TooLong) else bytes(line)
                line = bytearray()
            line = _extend(line, tail)
        if line:
            yield line if isinstance(line, TooLong) else bytes(line)

    def _read(self, size: int, before_wait: Callable[[], float | None]) -> bytes:
        """Return the next chunk; empty if the client is gone or a signal ends the server."""
        try:
            while True:
                wait_s = before_wait()
                wait_ms = None if wait_s is None else wait_s * 1000 + 1
                ready = [fd for fd, _ in self._poll.poll(wait_ms)]
                # Ignore other signals: waiting for a lock uses SIGALRM.
                if self._signals in ready and not END_SIGNALS.isdisjoint(
                    os.read(self._signals, 64)
                ):
                    return b""
                if self._in in ready:
                    return os.read(self._in, size)
        except OSError:
            return b""

    def send(self, message: Fields) -> None:
        """Write one whole message, from any thread. Do nothing if the client is gone."""
        unsent = memoryview(render(message))
        with self._lock:
            try:
                while unsent and not self._is_closed:
                    unsent = unsent[os.write(self._out, unsent) :]
            except OSError:
                self._is_closed = True


def _extend(line: bytearray | TooLong, part: bytes) -> bytearray | TooLong:
    """Return a line with another part of it; only its ends, once it is too long."""
    if isinstance(line, TooLong):
        line.add(part)
        return line
    line += part
    return line if len(line) <= MAX_LINE_BYTES else TooLong(line)


def raise_on_end_signals() -> None:
    """Raise ``KeyboardInterrupt`` at the first signal, so that runs are ended and recorded."""

    def end(_signal: int, _frame: object) -> None:
        # A second signal must not interrupt what the first one began.
        for number in END_SIGNALS:
            signal(number, lambda _signal, _frame: None)
        raise KeyboardInterrupt

    for number in END_SIGNALS:
        signal(number, end)
