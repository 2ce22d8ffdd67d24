"""A terminal that is drawn on as a whole: entered, redrawn where it changed, and left as it was.

The picture stands in the terminal's other screen, so that what was there comes back whichever way
this ends: a key, Ctrl-C, a signal, an error.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self, TextIO

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that knows these shows what stands between them at once."""
_QUIT = b"qQ\x04"
_ESCAPE = b"\x1b"
"""Alone it is a key; with more behind it another one, such as an arrow."""
_USUAL = (80, 24)
_ENDING = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGALRM,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGVTALRM, signal.SIGPROF,
)  # fmt: skip
"""What would end us at once if nobody listened, and is sent by somebody."""


class Ended(Exception):
    """A signal asked us to end; ``code`` is the exit code that says so."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class Terminal:
    """The terminal behind ``out``, for as long as the ``with`` lasts."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._fd = out.fileno()
        self._keys = 0 if os.isatty(0) else -1
        self._saved: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wake = (-1, -1)
        self._drawn: list[str] = []
        self._size = (0, 0)
        """For which size that was drawn."""
        self._is_to_stop = False
        self._is_over = False

    def __enter__(self) -> Self:
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGTSTP, signal.SIGWINCH):
            self._handlers[number] = signal.signal(number, self._signalled)
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over = True
        self._finish()
        for number, before in self._handlers.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(-1)
        for end in self._wake:
            os.close(end)

    def _begin(self) -> None:
        if self._keys >= 0:
            self._saved = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._size = (0, 0)
        self._write(_ENTER)

    def _finish(self) -> None:
        try:
            self._write(_LEAVE)
            if self._saved is not None:
                termios.tcsetattr(self._keys, termios.TCSANOW, self._saved)
        except OSError:
            # The terminal is gone, and nothing is left to be restored.
            return

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number in _ENDING and not self._is_over:
            self._is_over = True  # A second one must not get into the way of leaving.
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)
        self._is_to_stop = self._is_to_stop or number == signal.SIGTSTP

    def size(self) -> tuple[int, int]:
        """Columns and lines as they are now."""
        try:
            columns, lines = os.get_terminal_size(self._fd)
        except OSError:
            return _USUAL
        return (columns, lines) if columns and lines else _USUAL

    def draw(self, lines: list[str], size: tuple[int, int]) -> None:
        """Shows the lines, made for this size; what stands there already is not written again."""
        pieces = []
        if size != self._size:
            pieces.append("\x1b[2J")
            self._size, self._drawn = size, []
        for row, line in enumerate(lines, 1):
            if self._drawn[row - 1 : row] != [line]:
                # Cleared first: after it, the terminal may count its columns otherwise than we do.
                pieces.append(f"\x1b[{row};1H\x1b[0m\x1b[K{line}")
        if len(self._drawn) > len(lines):
            pieces.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._drawn = list(lines)
        if pieces:
            self._write(_BEGIN + "".join(pieces) + _END)

    def wait(self, seconds: float) -> bool:
        """Waits for a key, a signal or the time; says whether to go on."""
        watched = [self._wake[0], *([self._keys] if self._keys >= 0 else [])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._wake[0] in ready:
            self._drain()
        if self._is_to_stop:
            self._stop()
        if self._keys in ready:
            key = os.read(self._keys, 64)
            if not key:
                self._keys = -1
            return not _is_end(key)
        return True

    def _drain(self) -> None:
        try:
            while os.read(self._wake[0], 512):
                pass
        except BlockingIOError:
            return

    def _stop(self) -> None:
        """Ctrl-Z: the shell has its terminal until somebody says ``fg``."""
        self._is_to_stop = False
        self._finish()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._begin()

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _is_end(keys: bytes) -> bool:
    """Whether one of the keys that were pressed ends it."""
    if keys.startswith(_ESCAPE):
        return keys == _ESCAPE
    return any(key in _QUIT for key in keys)
