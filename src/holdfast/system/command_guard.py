"""End a command if the process that runs it is killed.

A process can do nothing after SIGKILL, so another one does it: a guard, which waits at a pipe whose
other end only this process has. The kernel closes that end when this process dies, however it dies.
The guard is started before the command and finds it by what the command inherits, so there is no
moment at which a kill leaves the command running. Closing the pipe would look like a death, so the
guard is killed first when the command has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys

from holdfast.system import process_tree
from holdfast.system.process_tree import RUN_VARIABLE


class CommandGuard:
    """The guard of one command, and the pipe for the command's output."""

    def __init__(self) -> None:
        self.run = os.urandom(8).hex()
        """The name of the run."""
        self._fds: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.output_fd, self.command_output_fd = self._pipe()
            guards_end, self._own_end = self._pipe()
            self._process = self._start(guards_end)
            self._close(guards_end)
        except BaseException:
            self.dismiss()
            raise

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._fds += ends
        return ends

    def _close(self, fd: int) -> None:
        self._fds.remove(fd)
        os.close(fd)

    def _start(self, guards_end: int) -> subprocess.Popen[bytes] | None:
        """Start the guard; return ``None`` if that is not possible.

        Without a guard, only a kill of this process leaves the command running.
        """
        output = f"pipe:[{os.fstat(self.output_fd).st_ino}]"
        words = [sys.executable, "-I", "-S", process_tree.__file__, self.run, output]
        env = {key: value for key, value in os.environ.items() if key != RUN_VARIABLE}
        try:
            return subprocess.Popen(  # noqa: S603 - our own module, by our interpreter
                words,
                cwd="/",
                env=env,
                stdin=guards_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return None

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return an environment whose processes belong to this run, and to the runs around it."""
        return {**env, RUN_VARIABLE: f"{env.get(RUN_VARIABLE, '')} {self.run}".strip()}

    def watch(self, pid: int) -> None:
        """Tell the guard that the command was started, and its pid."""
        self._close(self.command_output_fd)
        try:
            os.write(self._own_end, b"%d\n" % pid)
        except BrokenPipeError:
            return  # Another process ended the guard.

    def dismiss(self) -> None:
        """End the guard, because the command has ended, and close the pipes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        while self._fds:
            os.close(self._fds.pop())
