"""Serialize the writers of a workspace by a kernel lock with a fair queue and a bounded wait.

The kernel releases the lock when its process dies.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.system.disk import Disk


class Lock:
    """A lock on a file that exists only for the lock. One thread of one process holds it."""

    def __init__(self, path: str, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._fd = -1
        self._owner = 0

    @property
    def is_held(self) -> bool:
        return self._fd >= 0 and self._owner == os.getpid()

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
                self._fd = fd
                self._owner = os.getpid()
                _HELD.add(fd)
                return
            self._disk.unlock(fd)

    def release(self) -> None:
        if self.is_held:
            _HELD.discard(self._fd)
            self._disk.unlock(self._fd)
        self._fd = -1


_HELD: set[int] = set()
"""The descriptors of locks that this process holds.

A child process closes them, because a lock lasts until every process with its descriptor closes it.
"""


def _close_inherited() -> None:
    while _HELD:
        os.close(_HELD.pop())


os.register_at_fork(after_in_child=_close_inherited)


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
