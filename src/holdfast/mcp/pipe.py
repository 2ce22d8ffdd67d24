"""The two ends of a server: lines in, lines out, and nothing else on standard output.

Whoever prints, here or in a program that is started, reaches standard error; whoever reads standard
input finds it empty. A line that is too long is passed over, and said to be.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from holdfast import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from holdfast.core.shapes import Fields

MAX_LINE = 64 * 1024 * 1024
_CHUNK = 1 << 16
_LARGEST_CHUNK = 1 << 22


class TooLong:
    """In place of a line of more than ``MAX_LINE`` bytes, of which nothing was kept."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


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
        self._lock = allocate_lock()
        self._gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for fd in (self._in, self._out):
            os.close(fd)

    def lines(self) -> Iterator[bytes | TooLong]:
        """Each line without its end; until the other side closes, or takes nothing any more."""
        parts: list[bytes] = []
        length, size = 0, _CHUNK
        while not self._gone and (chunk := self._read(size)):
            # A long line comes in large pieces, an ordinary one needs no large buffer.
            size = min(size * 2, _LARGEST_CHUNK) if len(chunk) == size else _CHUNK
            *ended, rest = chunk.split(b"\n")
            for end in ended:
                parts.append(end)
                length += len(end)
                yield b"".join(parts) if length <= MAX_LINE else TooLong(length)
                parts, length = [], 0
            length += len(rest)
            parts.append(rest)
            if length > MAX_LINE:
                parts.clear()
        if length:
            yield b"".join(parts) if length <= MAX_LINE else TooLong(length)

    def _read(self, size: int) -> bytes:
        try:
            return os.read(self._in, size)
        except OSError:  # a client that was cut off is one that has closed
            return b""

    def send(self, message: Fields) -> None:
        """Writes one message, whole, whichever thread sends; a client that is gone is no error."""
        text = jsontext.dumps(message)
        try:
            raw = text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raw = text.encode(errors="backslashreplace")
        with self._lock:
            self._write(memoryview(raw + b"\n"))

    def _write(self, left: memoryview) -> None:
        try:
            while left and not self._gone:
                left = left[os.write(self._out, left) :]
        except OSError:
            self._gone = True
