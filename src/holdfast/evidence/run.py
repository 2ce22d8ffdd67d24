"""Run one command with bounds on time and memory, and leave no process behind.

The command has no terminal, so it cannot wait for an answer. Its output is read as it comes; only
the beginning and the end are kept, as plain text without secrets: no colours, cursor movements or
invisible text.
Every quantifier is possessive, so that no text makes these expressions backtrack. At the time
limit, the command and everything it started are ended; also if this process is killed meanwhile.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import subprocess
import threading
import time

from holdfast.core.refusal import shell_line
from holdfast.evidence import masking
from holdfast.system.command_guard import CommandGuard
from holdfast.system.process_tree import ProcessTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Self

MAX_HEAD_BYTES = 256 * 1024
MAX_END_BYTES = 1024 * 1024
MAX_TAIL_CHARS = 4000
TERM_GRACE_S = 2.0
"""The time that a command has to end after SIGTERM."""
PIPE_GRACE_S = 0.5
"""The time that output is read after the command ended, while a child holds the pipe."""
MAX_STDIN_BYTES = 60_000
"""As much as fits into a pipe."""
_CHUNK_BYTES = 64 * 1024
_MAX_FINAL_CHUNKS = MAX_END_BYTES // _CHUNK_BYTES
"""The number of chunks that are read at the end: a process may keep writing forever."""
_MAX_SECRET_BYTES = 4096
_TICK_S = 0.05
_FIRST_TICK_S = 0.001
_LINE_ENDS = re.compile(r"\r\n?+")
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x9c|\x1b\\)?+"
    r"|\x1b[ -/]*+[0-~]"
)
"""Colours and cursor movements; titles and links; character sets and other escapes."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]++"
)
"""Control characters, direction marks, and text that a model reads but a person does not see."""
_NOT_EXECUTABLE = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR)


class RunOutcome:
    """The end of a command, and its output."""

    def __init__(
        self,
        command: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        duration_ms: int = 0,
        timed_out: bool = False,
        cancelled: bool = False,
        output: str = "",
        why: str = "",
    ) -> None:
        self.command = command
        """The command as one line, without secrets, as it is recorded."""
        self.exit_code = exit_code
        """As in a shell; ``None`` if the command did not start, or was ended by us."""
        self.signal = signal
        """The signal that killed the command, if it was not ours."""
        self.duration_ms = duration_ms
        self.timed_out = timed_out
        self.cancelled = cancelled
        self.tail = last_lines(output, MAX_TAIL_CHARS)
        self.output = output
        self.started = not why
        self.why = why
        """Why the command could not be started."""


def run(
    command: list[str] | str,
    folder: str,
    *,
    limit_s: float,
    mask: Callable[[str], str] = masking.mask,
    env: dict[str, str] | None = None,
    echo: Callable[[bytes], None] | None = None,
    stdin: bytes = b"",
    lock_fds: tuple[int, ...] = (),
    is_cancelled: Callable[[], bool] = lambda: False,
) -> RunOutcome:
    """Run a list of words, or a line with the shell; return how it ended.

    ``mask`` removes the secrets from the output and the command line that are returned
    (``evidence.masking``). ``echo`` gets the output as it comes, with them. ``stdin`` is cut to
    what fits into a pipe. ``lock_fds`` are locks that the command inherits: if this process is
    killed, they stay taken until the command has ended. ``is_cancelled`` is polled; when it returns
    True, the command is ended.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    line = mask(command if isinstance(command, str) else shell_line(command))
    begin = time.monotonic()
    signals = _DelayedSignals()
    guard: CommandGuard | None = None
    try:
        guard = CommandGuard()
        environment = guard.environment(dict(os.environ) if env is None else env)
        process = _start(words, folder, environment, stdin[:MAX_STDIN_BYTES], guard, lock_fds)
        watch = _Watch(process, guard, echo)
    except BaseException as error:
        if guard is not None:
            guard.dismiss()
        signals.deliver()
        if isinstance(error, OSError | ValueError):
            return RunOutcome(line, why=_start_error(error, folder))
        raise
    with watch:
        signals.deliver()
        is_over = watch.read_until(
            lambda: is_cancelled() or watch.tree.has_ended(), begin + limit_s
        )
        has_ended = is_over and watch.tree.has_ended()
        duration_ms = int((time.monotonic() - begin) * 1000)
        if has_ended:
            watch.read_until(watch.is_at_end, time.monotonic() + PIPE_GRACE_S)
        watch.end_tree(with_detached=not has_ended)
    code = process.returncode if has_ended else None
    killed_by = -code if code is not None and code < 0 else None
    return RunOutcome(
        line,
        exit_code=code if killed_by is None else 128 + killed_by,
        signal=killed_by,
        duration_ms=duration_ms,
        timed_out=not is_over,
        cancelled=is_over and not has_ended,
        output=mask(watch.output.text()),
    )


def _start(
    words: list[str],
    folder: str,
    env: dict[str, str],
    stdin: bytes,
    guard: CommandGuard,
    lock_fds: tuple[int, ...],
) -> subprocess.Popen[bytes]:
    if not words:
        raise ValueError("there is nothing to run")
    reading, writing = os.pipe()
    try:
        # The pipe holds all of it, so this does not wait for the command to read.
        os.write(writing, stdin)
        os.close(writing)
        process = subprocess.Popen(  # noqa: S603 - to run what the caller wants is the purpose
            words,
            bufsize=0,
            cwd=folder,
            env=env,
            stdin=reading,
            stdout=guard.command_output_fd,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=lock_fds,
        )
    finally:
        os.close(reading)
    guard.watch(process.pid)
    return process


def _start_error(error: OSError | ValueError, folder: str) -> str:
    if isinstance(error, ValueError):
        return str(error)
    if not os.path.isdir(folder):
        return "its folder is gone"
    if isinstance(error, FileNotFoundError):
        return "not found"
    if error.errno in _NOT_EXECUTABLE:
        return "its folder cannot be entered" if error.filename == folder else "not executable"
    return (error.strerror or str(error)).lower()


class _DelayedSignals:
    """Hold signals back until a started command is watched: before, nothing would end it."""

    def __init__(self) -> None:
        self._pending: list[int] = []
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler) and threading.current_thread() is threading.main_thread():
                signal.signal(number, self._hold)
                self._handlers[number] = handler

    def _hold(self, number: int, _frame: FrameType | None) -> None:
        self._pending.append(number)

    def deliver(self) -> None:
        """Restore the handlers, and raise the signals that came meanwhile."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number in self._pending:
            signal.raise_signal(number)


class _Watch:
    """A running command: keep its output, and end all of its processes."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        guard: CommandGuard,
        echo: Callable[[bytes], None] | None,
    ) -> None:
        self.tree = ProcessTree(process, guard.run)
        self.output = _Output()
        self._process = process
        self._guard = guard
        self._pipe = guard.output_fd
        self._echo = echo
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """End the command if the caller was interrupted or ``echo`` failed, and wait for it."""
        try:
            if kind is not None:
                self._echo = None
                self._kill(with_detached=True)
            self._process.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:
            pass  # The kernel holds it.
        finally:
            self._guard.dismiss()

    def is_at_end(self) -> bool:
        return not self._is_open

    def read_until(self, is_over: Callable[[], bool], until: float) -> bool:
        """Read output until ``is_over`` returns True; return False if the time is up before."""
        tick = _FIRST_TICK_S
        while not is_over():
            rest_s = until - time.monotonic()
            if rest_s <= 0:
                return False
            if not self._is_open:
                time.sleep(min(rest_s, tick))
                tick = min(tick * 2, _TICK_S)
            elif self._has_more(min(rest_s, _TICK_S)):
                self._read()
        return True

    def end_tree(self, *, with_detached: bool) -> None:
        """End the process group, with detached processes if asked; read the rest of the output."""
        if with_detached:
            self.tree.find_detached()
        if not self.tree.is_gone():
            self.tree.terminate()
            if not self.read_until(self.tree.is_gone, time.monotonic() + TERM_GRACE_S):
                self._kill(with_detached=with_detached)
        for _ in range(_MAX_FINAL_CHUNKS):
            if self._is_open and self._has_more(0):
                self._read()

    def _kill(self, *, with_detached: bool) -> None:
        self.tree.kill(with_detached=with_detached)
        self.read_until(self.tree.is_gone, time.monotonic() + TERM_GRACE_S)

    def _has_more(self, wait_s: float) -> bool:
        return bool(self._poll.poll(wait_s * 1000))

    def _read(self) -> None:
        chunk = os.read(self._pipe, _CHUNK_BYTES)
        if not chunk:
            self._is_open = False
        self.output.add(chunk)
        if chunk and self._echo is not None:
            self._echo(chunk)


class _Output:
    """The beginning and the end of an output of any length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._end = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        room = MAX_HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) >= 2 * MAX_END_BYTES:
            self._drop(len(self._end) - MAX_END_BYTES)

    def _drop(self, count: int) -> None:
        del self._end[:count]
        self._dropped += count

    def text(self) -> str:
        """Return the output as plain text, with a note in place of what was dropped."""
        if len(self._end) > MAX_END_BYTES:
            self._drop(len(self._end) - MAX_END_BYTES)
        output = bytes(self._head + self._end)
        if self._dropped:
            # Cut at line ends: half a line could be taken for a whole one. Of a line without an
            # end, cut off as much as may be a part of a secret.
            head = output[: self._head.rfind(b"\n") + 1] or bytes(self._head[:-_MAX_SECRET_BYTES])
            end = bytes(self._end[self._end.find(b"\n") + 1 :])
            if len(end) == len(self._end):
                end = end[_MAX_SECRET_BYTES:]
            omitted = len(output) + self._dropped - len(head) - len(end)
            gap = b"" if head.endswith(b"\n") else b"\n"
            output = head + gap + b"[%d bytes of output left out]\n" % omitted + end
        return plain(output.decode(errors="replace"))


def plain(text: str) -> str:
    """Return the visible text, with lines and tabs."""
    text = _LINE_ENDS.sub("\n", text)
    return _INVISIBLE.sub("", _ESCAPES.sub("", text))


def last_lines(text: str, max_chars: int) -> str:
    """Return the last whole lines; the end of the last line if it is longer than that."""
    end = text[-max_chars:]
    if len(text) <= max_chars or text[-max_chars - 1] == "\n":
        return end
    return end.partition("\n")[2] or end
