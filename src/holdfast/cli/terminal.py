"""A terminal on which whole frames are drawn; it is left as it was, however that ends.

The frame is drawn on the terminal's alternate screen, so what was there comes back after a key,
Ctrl-C, a signal that asks to end, or an error.
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
_CLEAR = "\x1b[2J"
_QUIT_KEYS = b"qQ\x04"
_ESCAPE = b"\x1b"
_USUAL_SIZE = (80, 24)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(Exception):
    """A signal asked us to end; ``code`` is the exit code that says so."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class Terminal:
    """The terminal behind ``out``, for as long as the ``with`` lasts."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._keys = 0 if os.isatty(0) else -1
        self._saved: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wake = (-1, -1)
        """A pipe into which every signal writes, so that it ends the wait for a key."""
        self._frame = ""
        """The text that is drawn; empty if the window may show something else."""
        self._is_to_stop = False
        self._is_ending = False

    def __enter__(self) -> Self:
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
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_ending = True
        self._leave_screen()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        for end in self._wake:
            os.close(end)

    def _enter_screen(self) -> None:
        if self._keys >= 0:
            self._saved = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._frame = ""
        self._write(_ENTER)

    def _leave_screen(self) -> None:
        try:
            self._write(_LEAVE)
            if self._saved is not None:
                termios.tcsetattr(self._keys, termios.TCSANOW, self._saved)
        except OSError:
            # The terminal is gone, so there is nothing to restore.
            return

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in _ENDING and not self._is_ending:
            self._is_ending = True  # a second signal must not interrupt the leaving
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)
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

    def wait(self, seconds: float) -> bool:
        """Wait for a key, a signal or the time; return whether to go on."""
        watched = [self._wake[0], *([self._keys] if self._keys >= 0 else [])]
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
        if self._keys not in ready:
            return True
        keys = os.read(self._keys, 64)
        if not keys:
            self._keys = -1
        if keys.startswith(_ESCAPE):
            return keys != _ESCAPE  # with more behind it, it is another key, such as an arrow
        return not any(key in _QUIT_KEYS for key in keys)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
