"""Runs one command for its answer: bounded in time and memory, alone, and without a trace left.

The command gets no input and no terminal, so it cannot ask and cannot hang on a question. Its
output is read as it comes, and only its beginning and its end are kept. At the limit it is ended
with everything that it started.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import threading
import time

from holdfast.evidence.ansi import decoded, last_lines
from holdfast.system.process_tree import Family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Self

FIRST = 256 * 1024
LAST = 1024 * 1024
TAIL = 4000
TERM_GRACE_S = 2.0
"""How long a command may tidy up after it was asked to end."""
PIPE_GRACE_S = 0.5
"""How long the output is read on when the command ended, but a child of it holds the pipe."""
MOST_GIVEN = 60_000
_CHUNK = 64 * 1024
_LAST_WORDS = LAST // _CHUNK
"""How many chunks are read at the end at most: somebody unknown may go on writing for ever."""
_TICK_S = 0.05
_FIRST_TICK_S = 0.001
_NOT_EXECUTABLE = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR)


class Outcome:
    """How a command ended, and what it said."""

    __slots__ = (
        "cancelled",
        "duration_ms",
        "exit_code",
        "output",
        "signal",
        "started",
        "tail",
        "timed_out",
        "why",
    )

    def __init__(
        self,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        duration_ms: int = 0,
        timed_out: bool = False,
        cancelled: bool = False,
        output: str = "",
        started: bool = True,
        why: str = "",
    ) -> None:
        self.exit_code = exit_code
        """As a shell would tell it; ``None`` if it did not start, or was ended by us."""
        self.signal = signal
        """The signal that it died of by itself."""
        self.duration_ms = duration_ms
        self.timed_out = timed_out
        self.cancelled = cancelled
        self.tail = last_lines(output, TAIL)
        self.output = output
        self.started = started
        self.why = why
        """Why it could not be started."""


def run(
    command: list[str] | str,
    folder: str,
    *,
    limit_s: float,
    env: dict[str, str] | None = None,
    echo: Callable[[bytes], None] | None = None,
    given: bytes = b"",
    held: tuple[int, ...] = (),
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Runs words as they are, or a text with the shell; ``echo`` gets what it prints at once.

    ``given`` is what it reads on standard input, up to what a pipe holds. ``held`` are descriptors
    of locks that it holds as well: should we be killed, they tell that it still runs.
    ``is_cancelled`` is asked all the time; once it says so, the command is ended.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    begin = time.monotonic()
    signals = _Signals()
    try:
        process = _start(words, folder, env, given[:MOST_GIVEN], held)
        watch = _Watch(process, echo)
    except BaseException as error:
        signals.let_go()
        if isinstance(error, OSError | ValueError):
            return Outcome(started=False, why=_why_not(error, folder))
        raise
    with watch:
        signals.let_go()
        is_over = watch.read_until(
            lambda: is_cancelled() or watch.family.has_ended(), begin + limit_s
        )
        has_ended = is_over and watch.family.has_ended()
        duration_ms = int((time.monotonic() - begin) * 1000)
        if has_ended:
            watch.read_until(watch.is_at_end, time.monotonic() + PIPE_GRACE_S)
        watch.end_family(with_strays=not has_ended)
    code = process.returncode if has_ended else None
    died_of = -code if code is not None and code < 0 else None
    return Outcome(
        exit_code=code if died_of is None else 128 + died_of,
        signal=died_of,
        duration_ms=duration_ms,
        timed_out=not is_over,
        cancelled=is_over and not has_ended,
        output=watch.kept.text(),
    )


def _start(
    words: list[str],
    folder: str,
    env: dict[str, str] | None,
    given: bytes,
    held: tuple[int, ...],
) -> subprocess.Popen[bytes]:
    if not words:
        raise ValueError("there is nothing to run")
    reading, writing = os.pipe()
    try:
        # It fits into the pipe, so nobody has to wait for the command to read it.
        os.write(writing, given)
        os.close(writing)
        return subprocess.Popen(  # noqa: S603 - to run what the caller wants is the purpose
            words,
            bufsize=0,
            cwd=folder,
            env=env,
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=held,
        )
    finally:
        os.close(reading)


def _why_not(error: OSError | ValueError, folder: str) -> str:
    if isinstance(error, ValueError):
        return str(error)
    if not os.path.isdir(folder):
        return "its folder is gone"
    if isinstance(error, FileNotFoundError):
        return "not found"
    if error.errno in _NOT_EXECUTABLE:
        return "its folder cannot be entered" if error.filename == folder else "not executable"
    return (error.strerror or str(error)).lower()


class _Signals:
    """Signals that have to wait: between a start and its watch nobody would end the command."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler) and threading.current_thread() is threading.main_thread():
                signal.signal(number, self._wait)
                self._handlers[number] = handler

    def _wait(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)

    def let_go(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number in self._came:
            signal.raise_signal(number)


class _Watch:
    """One running command: its output is kept, and nothing of it is left afterwards."""

    def __init__(
        self, process: subprocess.Popen[bytes], echo: Callable[[bytes], None] | None
    ) -> None:
        assert process.stdout is not None
        self.family = Family(process)
        self.kept = _Kept()
        self._process = process
        self._pipe = process.stdout
        self._echo = echo
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """However it ended, also when the user interrupted it or nobody takes the echo."""
        try:
            if kind is not None:
                self._echo = None
                self._kill(with_strays=True)
            self._process.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:
            pass  # the kernel holds it; nobody can do more
        finally:
            self._pipe.close()

    def is_at_end(self) -> bool:
        return not self._is_open

    def read_until(self, is_over: Callable[[], bool], until: float) -> bool:
        """Reads what comes until it is over, or the time has come. Says which."""
        tick = _FIRST_TICK_S
        while not is_over():
            left = until - time.monotonic()
            if left <= 0:
                return False
            if not self._is_open:
                time.sleep(min(left, tick))
                tick = min(tick * 2, _TICK_S)
            elif self._has_more(min(left, _TICK_S)):
                self._read()
        return True

    def end_family(self, *, with_strays: bool) -> None:
        """Ends whoever is left of the group, or of all that it started; reads their last words."""
        if with_strays:
            self.family.find_strays()
        if not self.family.is_gone():
            self.family.terminate()
            if not self.read_until(self.family.is_gone, time.monotonic() + TERM_GRACE_S):
                self._kill(with_strays=with_strays)
        for _ in range(_LAST_WORDS):
            if self._is_open and self._has_more(0):
                self._read()

    def _kill(self, *, with_strays: bool) -> None:
        self.family.kill(with_strays=with_strays)
        self.read_until(self.family.is_gone, time.monotonic() + TERM_GRACE_S)

    def _has_more(self, wait_s: float) -> bool:
        return bool(self._poll.poll(wait_s * 1000))

    def _read(self) -> None:
        chunk = os.read(self._pipe.fileno(), _CHUNK)
        if not chunk:
            self._is_open = False
        self.kept.add(chunk)
        if chunk and self._echo is not None:
            self._echo(chunk)


class _Kept:
    """The beginning and the end of an output of any length."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._last = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        room = FIRST - len(self._first)
        self._first += chunk[:room]
        self._last += chunk[room:]
        if len(self._last) >= 2 * LAST:
            self._drop(len(self._last) - LAST)

    def _drop(self, count: int) -> None:
        del self._last[:count]
        self._dropped += count

    def text(self) -> str:
        if len(self._last) > LAST:
            self._drop(len(self._last) - LAST)
        if not self._dropped:
            return decoded(bytes(self._first + self._last))
        first, last = bytes(self._first), bytes(self._last)
        # Half a line would be read as a whole one.
        first = first[: first.rfind(b"\n") + 1] or first
        last = last[last.find(b"\n") + 1 :] or last
        left_out = FIRST + self._dropped + len(self._last) - len(first) - len(last)
        note = f"[{left_out} bytes of output left out]\n"
        gap = "" if first.endswith(b"\n") else "\n"
        return decoded(first) + gap + note + decoded(last)
