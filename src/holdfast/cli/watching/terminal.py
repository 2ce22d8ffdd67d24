"""The terminal that is drawn on: its alternate screen, its size, its signals and its keys.

A frame is drawn whole, so what was there comes back at the end, whichever way that comes.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import tty

from holdfast.cli.watching.keys import Keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, TextIO

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
_LEAVE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that supports these marks shows the output between them at once."""
_CLEAR = "\x1b[2J"
_USUAL_SIZE = (80, 24)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READ_BYTES = 1024
_REST_S = 0.05
"""How long the rest of an escape sequence may take."""


class Terminal:
    """The terminal behind ``out``, for as long as the ``with`` lasts."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._input = 0 if os.isatty(0) else -1
        self._keys = Keys()
        self._saved: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wake = (-1, -1)
        """A pipe into which every signal writes, so that it ends the wait for a key."""
        self._frame = ""
        """The text that is drawn; empty if the window may show something else."""
        self._is_to_stop = False
        self._is_ending = False
        self.ended_by: int = signal.SIGINT
        """The signal after which ``KeyboardInterrupt`` is raised."""

    def __enter__(self) -> None:
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGTSTP, signal.SIGWINCH):
            self._handlers[number] = signal.signal(number, self._handle_signal)
        try:
            self._enter_screen()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_error: object) -> None:
        self._is_ending = True
        self._leave_screen()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        for end in self._wake:
            os.close(end)

    def _enter_screen(self) -> None:
        if self._input >= 0:
            self._saved = termios.tcgetattr(self._input)
            tty.setcbreak(self._input, termios.TCSANOW)
        self._frame = ""
        self._write(_ENTER)

    def _leave_screen(self) -> None:
        try:
            self._write(_LEAVE)
            if self._saved is not None:
                termios.tcsetattr(self._input, termios.TCSANOW, self._saved)
        except OSError:
            # The terminal is gone, so there is nothing to restore.
            return

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in _ENDING and not self._is_ending:
            self._is_ending = True  # a second signal must not interrupt the leaving
            self.ended_by = number
            raise KeyboardInterrupt
        self._is_to_stop = self._is_to_stop or number == signal.SIGTSTP

    def size(self) -> tuple[int, int]:
        """Return columns and lines as they are now."""
        try:
            columns, lines = os.get_terminal_size(self._out.fileno())
        except OSError:
            return _USUAL_SIZE
        return (columns, lines) if columns and lines else _USUAL_SIZE

    def draw(self, lines: list[str]) -> None:
        """Draw the whole frame, one line for each of the window, unless it is shown already."""
        # A line is cleared first: after it, the terminal may count columns otherwise than we do.
        rows = [f"\x1b[{row};1H\x1b[0m\x1b[K{line}" for row, line in enumerate(lines, 1)]
        frame = "".join(rows)
        if frame != self._frame:
            clear = "" if self._frame else _CLEAR
            self._write(f"{_BEGIN}{clear}{frame}{_END}")
            self._frame = frame

    def wait(self, seconds: float) -> list[str]:
        """Wait for keys, a signal or the time; return the keys."""
        watched = [self._wake[0], *([self._input] if self._input >= 0 else [])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._wake[0] in ready:
            os.read(self._wake[0], 512)
            self._frame = ""
        if self._is_to_stop:
            # Ctrl-Z: the shell has its terminal until ``fg``.
            self._is_to_stop = False
            self._leave_screen()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._enter_screen()
        return self._read_keys() if self._input in ready else []

    def _read_keys(self) -> list[str]:
        keys = self._keys.feed(self._read())
        while self._keys.is_partial and self._input >= 0:
            if not select.select([self._input], [], [], _REST_S)[0]:
                return keys + self._keys.flush()
            keys += self._keys.feed(self._read())
        return keys

    def _read(self) -> bytes:
        """Return the bytes that have come; none if the terminal's input is at its end."""
        data = os.read(self._input, _READ_BYTES)
        if not data:
            self._input = -1
        return data

    def forget_keys(self) -> None:
        """Drop what was typed before a question was shown: it is no answer to it."""
        if self._input >= 0:
            termios.tcflush(self._input, termios.TCIFLUSH)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
