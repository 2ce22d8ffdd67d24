"""Serialize the writers of a workspace by a kernel lock with a fair queue and a bounded wait.

The kernel releases the lock when its process dies. The lock's file also holds a short mark that the
holder leaves for the next one.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.system.disk import Disk

_MAX_MARK_BYTES = 4096


class Lock:
    """A lock on a file that exists only for the lock. One thread of one process holds it."""

    def __init__(self, path: str, disk: Disk) -> None:
        self.is_held = False
        self._path = path
        self._disk = disk
        self._fd = -1

    @property
    def is_current(self) -> bool:
        """Return True if the lock is held and its file still has the lock's path."""
        return self.is_held and _is_at(self._fd, self._path)

    def acquire(self, wait_s: float) -> None:
        """Wait for the lock; raise ``Fault`` (busy) when ``wait_s`` seconds have passed.

        Another process may move or remove the folder during the wait. A lock on a file that no
        longer has the lock's path protects nothing, so it is taken again.
        """
        assert not self.is_held, "the lock is held already"
        while True:
            fd = self._disk.lock(self._path, wait_s)
            if _is_at(fd, self._path):
                break
            self._disk.unlock(fd)
        self._fd = fd
        self.is_held = True
        _HELD.add(self)

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            _HELD.discard(self)
            self._disk.unlock(self._fd)

    def read_mark(self) -> str:
        """Return the line that an earlier holder left in the lock's file; empty for none."""
        try:
            line, end, _ = os.pread(self._fd, _MAX_MARK_BYTES, 0).partition(b"\n")
        except OSError:
            return ""
        return line.decode(errors="replace") if end else ""

    def write_mark(self, mark: str) -> None:
        """Leave a line for the next holder, if that is possible."""
        try:
            os.pwrite(self._fd, f"{mark}\n".encode(errors="replace"), 0)
        except OSError:
            return

    def close_inherited(self) -> None:
        os.close(self._fd)
        self.is_held = False


_HELD: set[Lock] = set()
"""The locks that this process holds.

A child process closes them, because a lock lasts until every process with its descriptor closes it.
"""


def _close_inherited() -> None:
    while _HELD:
        _HELD.pop().close_inherited()


os.register_at_fork(after_in_child=_close_inherited)


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
