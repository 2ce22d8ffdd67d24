"""A real terminal for tests: a process behind a pty, and the screen that a person would see."""

import os
import pty
import re
import select
import signal
import termios
import time

import pytest

from holdfast.workspace.environment import client_above

DEADLINE_S = 30
MOVES = re.compile(
    r"\x1b\[(\d*);?(\d*)H|\x1b\[([0-9;]*)([KJm])|\x1b\[\?(\d+)([hl])|(\r)|(\n)|([^\x1b])"
)


class Window:
    """The screen of a terminal after some output."""

    def __init__(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.rows = [""] * lines
        self.row = 0
        self.modes = {}

    def take(self, text):
        position = 0
        while position < len(text):
            match = MOVES.match(text, position)
            assert match, repr(text[position : position + 40])
            self._move(match)
            position = match.end()

    def _move(self, match):
        row, _, number, letter, mode, switch, back, down, char = match.groups()
        if mode:
            self.modes[mode] = switch == "h"
        elif letter == "J" and number == "2":
            self.rows = [""] * self.lines
        elif letter == "J":
            self.rows[self.row :] = [""] * (self.lines - self.row)
        elif row:
            self.row = int(row) - 1
            # Every write is a whole line, so the next one replaces this row.
            self.rows[self.row] = ""
        elif down:
            self.row = min(self.row + 1, self.lines - 1)
        elif char and not back:
            self.rows[self.row] += char


def skip_below_client():
    """Skip a test that needs a person, if a coding client has started the tests."""
    client = client_above()
    if client is not None:
        pytest.skip(f"NOT SHOWN: {client} started the tests, so no process here is a person's")


class Pseudoterminal:
    """A process in a terminal of this size."""

    def __init__(self, command, cwd, environment, columns=80, lines=24):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            try:
                os.chdir(cwd)
                os.execve(command[0], command, environment)
            finally:
                os._exit(127)
        self.text = ""
        self.code = None
        self.resize(columns, lines)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def resize(self, columns, lines):
        self.size = (columns, lines)
        termios.tcsetwinsize(self.fd, (lines, columns))

    def press(self, keys):
        os.write(self.fd, keys)

    def attributes(self):
        return termios.tcgetattr(self.fd)

    def wait_for(self, text, since=0):
        """Read until the output has the text after ``since``; return the position behind it."""
        until = time.monotonic() + DEADLINE_S
        while (position := self.text.find(text, since)) < 0:
            if not self._read(until):
                raise AssertionError(f"no {text!r} in {self.text[since:]!r}")
        return position + len(text)

    def ended(self):
        """Read to the end; return the exit code, or minus the signal."""
        until = time.monotonic() + DEADLINE_S
        while self._read(until):
            pass
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def _read(self, until):
        ready, _, _ = select.select([self.fd], [], [], max(0, until - time.monotonic()))
        assert ready, f"nothing more came after {self.text[-300:]!r}"
        try:
            piece = os.read(self.fd, 65536)
        except OSError:
            # The other end is closed.
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)

    def window(self):
        seen = Window(*self.size)
        seen.take(self.text[self.text.rfind("\x1b[2J") :])
        return seen
