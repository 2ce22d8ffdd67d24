"""Hard links of every segment in git's own folder: cleaning the work tree is not the end.

Best effort and free: a link costs no space, and whatever fails here is never in the way.
"""

from __future__ import annotations

import os

from holdfast.digest import digest
from holdfast.ledger.segment import OPEN_NAME, range_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.disk import Disk


class Mirror:
    """The links of one ledger's segments; ``path`` is ``None`` where there is no git."""

    def __init__(self, folder: str, disk: Disk, path: str | None) -> None:
        self.path = path
        self._folder = folder
        self._disk = disk

    def has(self, name: str, inode: int) -> bool:
        """Whether the mirror's file of this name is that very file. A repository that was copied
        has a copy there, and what is appended later would not be in it.
        """
        if self.path is None:
            return True
        try:
            return os.lstat(os.path.join(self.path, name)).st_ino == inode
        except OSError:
            return False

    def link(self, name: str) -> None:
        """Makes the mirror's file of this name the same file as the ledger's."""
        if self.path is None:
            return
        try:
            self._disk.make_folder(self.path, 0o700)
            source, target = os.path.join(self._folder, name), os.path.join(self.path, name)
            self._make_room(source, target)
            self._disk.link(source, target)
        except OSError:
            return

    def _make_room(self, source: str, target: str) -> None:
        """What stands there goes, unless it has something that the ledger lacks: that is kept."""
        there = self._disk.read(target)
        if there is None or (self._disk.read(source) or b"").startswith(there):
            self._disk.remove(target)
        else:
            self._disk.move(target, f"{target}.{digest(there)[:8]}")

    def drop(self, name: str) -> None:
        """Forgets a name whose file is the ledger's no longer."""
        if self.path is not None:
            try:
                self._disk.remove(os.path.join(self.path, name))
            except OSError:
                return

    def restore(self, present: set[int]) -> bool:
        """Brings back segments whose names are gone; says whether the open one was among them.

        ``present`` are the inodes that the ledger still has: a segment that was just closed is the
        same file as the mirror's open one, and must not come back under that name.
        """
        if self.path is None or not os.path.isdir(self.path):
            return False
        brought = False
        for name in sorted(os.listdir(self.path), reverse=True):
            source = os.path.join(self.path, name)
            inode = os.stat(source).st_ino
            if (name == OPEN_NAME or range_of(name)[0]) and inode not in present:
                brought = self._bring(source, name) or brought
                present.add(inode)
        return brought

    def _bring(self, source: str, name: str) -> bool:
        try:
            self._disk.make_folder(self._folder, 0o700)
            self._disk.link(source, os.path.join(self._folder, name))
        except OSError:
            return False
        return name == OPEN_NAME
