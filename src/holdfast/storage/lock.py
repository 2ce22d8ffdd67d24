"""The kernel lock that writers queue at: fair, bounded, and given back by whoever dies."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.disk import Disk


class Lock:
    """A lock on a file of its own, taken by one thread of one process."""

    def __init__(self, path: str, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._fd = -1

    @property
    def is_held(self) -> bool:
        return self._fd >= 0

    def acquire(self, wait_s: float) -> None:
        """Wait for the lock; raise ``Fault`` (busy) when ``wait_s`` seconds have passed.

        Whoever moved or removed the folder meanwhile took the lock's file along. A lock on a file
        that the path no longer names protects nothing, so it is taken again.
        """
        assert self._fd < 0, "the lock is held already"
        while True:
            fd = self._disk.lock(self._path, wait_s)
            if _is_at(fd, self._path):
                self._fd = fd
                return
            self._disk.close(fd)

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._disk.close(fd)


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
