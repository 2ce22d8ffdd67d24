"""Record files on the disk: replaced, moved aside, removed; never lost.

Called under the workspace's lock, so one spare name per record is enough. A spare that a killed
process left behind is either our own half-written file or what an editor had saved at that very
instant: it is kept beside the record unless it is plainly ours.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.digest import digest
from holdfast.layers.records import envelope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.disk import Disk


class RecordStore:
    """The files of one workspace's records. Paths are absolute."""

    def __init__(self, disk: Disk, ledger: Callable[[], str], note: Callable[[str], None]) -> None:
        self._disk = disk
        self._ledger = ledger
        self._note = note

    def read(self, path: str) -> bytes | None:
        """The record's bytes; ``None`` when there is no file. A folder in its place is a fault."""
        return self._disk.read(path)

    def prepare(self, path: str, data: bytes, durable_from: str | None = None) -> str:
        """Writes the record beside its place, so that room for it is certain; gives the spare.

        ``durable_from`` is the root, for a record whose absence means something: one of the two
        names, the spare or the record, then stands through a power cut.
        """
        spare = _spare(path)
        try:
            self._disk.create(spare, data, self._disk.mode_of(path))
        except FileNotFoundError:
            self._disk.make_folder(os.path.dirname(path))
            self._disk.create(spare, data)
        except FileExistsError:
            self._see_to(spare, path)
            self._disk.create(spare, data, self._disk.mode_of(path))
        if durable_from is not None and not os.path.lexists(path):
            self._sync_names(spare, durable_from)
        return spare

    def _sync_names(self, path: str, root: str) -> None:
        while path != root and len(path) > len(root):
            path = os.path.dirname(path)
            self._disk.sync_folder(path)

    def was_on_its_way(self, path: str, event_hash: str) -> bool:
        """Whether a writer died between recording this event and putting its record here."""
        left = self._disk.read(_spare(path))
        return left is not None and envelope.shows(left, event_hash) and self._is_ours(left)

    def put(
        self, spare: str, path: str, expected: bytes | None, *, durable: bool = False
    ) -> str | None:
        """Puts the spare in its place.

        When something else than ``expected`` stood there at that instant, it is kept beside the
        record, and its path is given back.
        """
        stood = self._disk.replace(path, spare, is_new=expected is None, durable=durable)
        if stood is None:
            return None
        if stood == expected or self._is_ours(stood):
            self._disk.remove(spare)
            return None
        return self.take(spare, stood, path)

    def drop(self, spare: str) -> None:
        """Takes away a spare that is not needed; if that fails, the next writer does it."""
        try:
            self._disk.remove(spare)
        except OSError:
            return

    def _see_to(self, spare: str, path: str) -> None:
        left = self._disk.read(spare)
        if left is None or not left.strip(b"\0") or self._is_ours(left):
            self._disk.remove(spare)
            return
        kept = os.path.basename(self.take(spare, left, path))
        self._note(
            f"what was saved as {os.path.basename(path)} when a writer died is kept as {kept}"
        )

    def _is_ours(self, raw: bytes) -> bool:
        """Whether the bytes are what Holdfast wrote, for this ledger."""
        try:
            sealed = envelope.unseal(raw)
        except jsontext.BadJson:
            return False
        return sealed.intact and sealed.ledger == self._ledger()

    def take(self, source: str, data: bytes, path: str | None = None) -> str:
        """Moves a file that somebody else wrote to a name of its own; gives its path."""
        target = self._free_name(path or source, "saved", data)
        self._disk.move(source, target)
        return target

    def set_aside(self, path: str, data: bytes) -> str:
        """Moves a record that cannot be taken out of the way, by rename; gives its new path."""
        target = self._free_name(path, "rejected", data)
        self._disk.move(path, target)
        return target

    def _free_name(self, path: str, word: str, data: bytes) -> str:
        stem = f"{path}.{word}-{digest(data)[:8]}"
        name, number = stem, 2
        while os.path.lexists(name):
            name, number = f"{stem}-{number}", number + 1
        return name

    def remove(self, path: str) -> str | None:
        """Takes a record away; one that somebody changed is kept, and its path given back."""
        spare = _spare(path)
        if os.path.lexists(spare):
            self._see_to(spare, path)
        try:
            self._disk.move(path, spare)
        except FileNotFoundError:
            return None
        found = self._disk.read(spare)
        if found is None or self._is_ours(found):
            self._disk.remove(spare)
            return None
        return self.take(spare, found, path)


def _spare(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.holdfast")
