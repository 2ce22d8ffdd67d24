"""The writer that the recorded session kills: the library on a disk that stops half way.

``python tools/half_disk.py WORKFLOW TASK COMMIT`` begins ``task done`` in the current folder,
writes half of the new record beside the old one, prints how many bytes that was and how many it
should have been, and then waits, with the lock and an open transaction, for the signal that ends
it.
"""

from __future__ import annotations

import os
import sys

from holdfast.keeper import Keeper
from holdfast.system.disk import Disk

_RECORD_BEGINS = b"{"


class _HalfDisk(Disk):
    """A disk that stops in the middle of writing a record."""

    def write(self, fd: int, data: bytes) -> None:
        if not data.startswith(_RECORD_BEGINS):
            super().write(fd, data)
            return
        half = os.write(fd, data[: len(data) // 2])
        os.write(1, f"{half} {len(data)}\n".encode())
        # If its parent is gone, it ends by itself and releases the lock.
        os.read(0, 1)
        os._exit(1)


def main(workflow: str, task: str, commit: str) -> None:
    Keeper(by="demo", disk=_HalfDisk()).complete_task(task, commit=commit, workflow=workflow)


if __name__ == "__main__":
    main(*sys.argv[1:4])
