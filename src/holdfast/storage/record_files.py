"""Record files on the disk: replaced, moved aside, removed; never lost.

Called under the workspace's lock, so one spare name per record is enough. What an editor saved at
the very instant of a write stands under that name first, then under another of its own until it is
taken in. A process that is killed leaves it there: whoever loads the record next finds it.
"""

from __future__ import annotations

import os

from holdfast.core.digest import digest
from holdfast.system.disk import LARGEST, is_there, old_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.system.disk import Disk


MAX_TRIES = 200
"""How often a file is written anew that a tool that cleans the work tree takes away."""
_EMPTY = b"{}"
"""A place for a record in which there is none."""


class RecordFiles:
    """The files of one workspace's records. Paths are absolute."""

    def __init__(
        self, disk: Disk, is_own: Callable[[bytes], bool], note: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._is_own = is_own
        """Returns whether bytes are an unedited record of this workspace's ledger."""
        self._note = note
        self._around: dict[str, tuple[list[str], tuple[str, str]]] = {}
        """The names beside a record that are looked for whenever it is loaded."""

    def read(self, path: str) -> bytes | None:
        """The record's bytes, of a huge file its first; ``None`` when there is nothing."""
        return self._disk.read_own(path, LARGEST + 1)

    def prepare(
        self,
        path: str,
        data: bytes,
        root: str | None = None,
        *,
        is_named: bool = False,
        durable: bool = False,
    ) -> str:
        """Write the record beside its place, so that room for it is certain; return the spare.

        ``root`` is the worktree's. ``is_named`` is for a record whose absence means something: one
        of the two names, the spare or the record, then stands through a power cut. ``durable`` is
        for what nobody could make anew: its bytes then stand, too.
        """
        spare = _spare(path)
        try:
            self._disk.create(spare, data, self._disk.mode_of(path), durable=durable)
        except FileNotFoundError:
            self._create_with_folder(spare, data, root or os.path.sep, durable=durable)
        except FileExistsError:
            self._see_to(spare, path, data)
            self._disk.create(spare, data, self._disk.mode_of(path), durable=durable)
        if is_named and root is not None and not is_there(path):
            self.sync_names(spare, root)
        return spare

    def _create_with_folder(self, path: str, data: bytes, root: str, *, durable: bool) -> None:
        """Create a file and its folder, which a tool that cleans may take away meanwhile.

        Raise ``FileNotFoundError`` if the root is gone: a worktree that was moved or removed is not
        made a second time.
        """
        for attempt in range(MAX_TRIES):
            missing = []
            folder = os.path.dirname(path)
            while folder != root and not os.path.isdir(folder):
                missing.append(folder)
                folder = os.path.dirname(folder)
            try:
                for name in reversed(missing):
                    self._disk.add_folder(name)
                self._disk.create(path, data, durable=durable)
            except FileNotFoundError:
                if attempt == MAX_TRIES - 1:
                    raise
            else:
                return

    def sync_names(self, path: str, root: str) -> None:
        """Makes durable that the path is there, from the root on."""
        while path != root and len(path) > len(root):
            path = os.path.dirname(path)
            self._disk.sync_folder(path)

    def was_on_its_way(self, path: str, event_hash: str) -> bool:
        """Whether a writer died between recording this event and putting its record here."""
        left = self.read(_spare(path))
        return left is not None and event_hash.encode() in left and self._is_own(left)

    def was_set_aside(self, path: str) -> bool:
        """Whether something was moved out of the record's way: then nobody need have removed it."""
        folder, name = os.path.split(path)
        try:
            return any(other.startswith(f"{name}.rejected-") for other in os.listdir(folder))
        except OSError:
            return False

    def put(
        self, spare: str, path: str, expected: bytes | None, *, durable: bool = False
    ) -> str | None:
        """Puts the spare in its place.

        When something else than ``expected`` stood there at that instant, it is kept to be taken
        in, and its path is given back.
        """
        stood = self._disk.replace(path, spare, is_new=expected is None, durable=durable)
        if stood is None:
            return None
        if stood == expected or stood.strip() == _EMPTY or self._is_own(stood):
            return self._let_go(spare, path)
        return self._keep(spare, path)

    def _let_go(self, spare: str, path: str) -> str | None:
        """Removes what is not needed, unless somebody has it open and goes on writing."""
        if self._disk.is_being_written(spare):
            return self._keep(spare, path)
        self._disk.remove(spare)
        return None

    def drop(self, spare: str) -> None:
        """Takes away a spare that is not needed; if that fails, the next writer does it."""
        try:
            self._disk.remove(spare)
        except OSError:
            return

    def has_left(self, path: str) -> bool:
        """Whether something that was saved here is still to be taken in: a writer died, or
        whoever saved it was not done.
        """
        if path not in self._around:
            self._around[path] = (_saved(path), _spares(path))
        saved, spares = self._around[path]
        return any(map(is_there, saved)) or any(map(self._is_left, spares))

    def _is_left(self, spare: str) -> bool:
        if not is_there(spare):
            return False
        if self._disk.is_being_written(spare):
            return True
        left = self.read(spare)
        is_nothing = left is None or left.strip(b"\0\n") in (b"", _EMPTY)
        return not is_nothing and not self._is_own(left or b"")

    def take_left(self, path: str) -> list[str]:
        """The paths of what was saved here and is still to be taken in."""
        for spare in _spares(path):
            if self._is_left(spare):
                self._keep(spare, path)
        return [name for name in _saved(path) if is_there(name)]

    def _keep(self, source: str, path: str) -> str:
        """Moves what somebody saved to where it waits to be taken in; gives its path."""
        for target in _saved(path):
            if not is_there(target):
                self._disk.move(source, target)
                return target
        return self._put_aside(source, path)

    def _see_to(self, spare: str, path: str, data: bytes) -> None:
        """Clears a spare away; what it holds is kept, unless it stands there or is about to."""
        is_known = self.read(spare) in (data, self.read(path))
        if self._is_left(spare) and (not is_known or self._disk.is_being_written(spare)):
            self._put_aside(spare, path)
        else:
            self._disk.remove(spare)

    def _put_aside(self, source: str, path: str) -> str:
        kept = self.set_aside(source, self.read(source) or b"", path)
        self._note(
            f"what was saved as {os.path.basename(path)} when a writer died is kept as "
            f"{os.path.basename(kept)}"
        )
        return kept

    def set_aside(self, source: str, data: bytes, path: str) -> str:
        """Moves what cannot be taken in out of the record's way, by rename; gives its new path."""
        stem = f"{path}.rejected-{digest(data)[:8]}"
        target, number = stem, 2
        while is_there(target):
            target, number = f"{stem}-{number}", number + 1
        self._disk.move(source, target)
        return target

    def reset(self, path: str) -> str | None:
        """Leaves an empty object in a record's place; otherwise as ``remove``."""
        return self.put(self.prepare(path, _EMPTY + b"\n"), path, None)

    def remove(self, path: str) -> str | None:
        """Takes a record away; one that somebody changed is kept to be taken in, and its path
        given back.
        """
        spare = _spare(path)
        if is_there(spare):
            self._see_to(spare, path, _EMPTY)
        try:
            self._disk.move(path, spare)
        except FileNotFoundError:
            return None
        found = self.read(spare)
        if found is None or self._is_own(found):
            return self._let_go(spare, path)
        return self._keep(spare, path)


def _spare(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.holdfast"


def _spares(path: str) -> tuple[str, str]:
    """The names under which a killed writer may have left something, the older content first."""
    spare = _spare(path)
    return old_of(spare), spare


def _saved(path: str) -> list[str]:
    """Where what somebody saved waits to be taken in; several may, if they are written slowly."""
    spare = _spare(path)
    return [f"{spare}-saved-{number}" for number in (1, 2, 3)]
