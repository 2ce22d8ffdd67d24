"""Replace, set aside and remove record files without losing what an editor saves at that moment.

Callers hold the workspace's lock, so one spare name per record is enough. If an editor saves the
record while it is being replaced, its content moves to the spare name, and then to a "saved" name
until it is adopted. After a kill it stays there, and the next transaction adopts it.
"""

from __future__ import annotations

import os
from os.path import lexists

from holdfast.core.json_text import digest
from holdfast.system.disk import MAX_RECORD_BYTES, free_name, old_names
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.system.disk import Disk


MAX_TRIES = 200
"""The number of attempts to write a file while another tool, such as git clean, removes it."""
_MAX_REMEMBERED = 20
_MAX_REMEMBERED_BYTES = 1_000_000
"""About the size of all records that are remembered, unless one of them alone is larger."""
_EMPTY = b"{}"
"""The content of a record file without a record."""


class RecordFiles:
    """The files of one workspace's records. Paths are absolute."""

    def __init__(
        self, disk: Disk, is_own: Callable[[bytes], bool], note: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._is_own = is_own
        """Returns whether bytes are an unedited record of this workspace's ledger."""
        self._note = note
        self._written: dict[str, tuple[str, bytes]] = {}
        """The last content that this process wrote to each path, and the hash of its event."""
        self._remembered_bytes = 0

    def read(self, path: str) -> bytes | None:
        """Return the record's bytes, cut off if too large; ``None`` if there is no file."""
        return self._disk.read_own(path, MAX_RECORD_BYTES + 1)

    def remember(self, path: str, event_hash: str, data: bytes) -> None:
        """Remember the record of an event, so that it need not be compared by its digest."""
        self._remembered_bytes += len(data)
        is_full = len(self._written) >= _MAX_REMEMBERED
        if is_full or self._remembered_bytes > _MAX_REMEMBERED_BYTES:
            self._written.clear()
            self._remembered_bytes = len(data)
        self._written[path] = event_hash, data

    def forget(self) -> None:
        """Forget what was remembered: nobody will ask again."""
        self._written.clear()
        self._remembered_bytes = 0

    def wrote(self, path: str, event_hash: str, data: bytes) -> bool:
        """Return True if this process wrote these bytes as the record of that event."""
        return self._written.get(path) == (event_hash, data)

    def prepare(
        self, path: str, data: bytes, root: str = os.path.sep, *, is_named: bool = False
    ) -> tuple[str, os.stat_result]:
        """Write the record to its spare name, so that there is certainly room.

        Return that name and the file's status. ``root`` is the worktree's folder. ``is_named`` is
        for a record whose absence has a meaning: the spare or the record then exists after a power
        cut.
        """
        spare = _spare(path)
        try:
            mode = os.stat(path).st_mode & 0o777
        except OSError:
            mode = 0o600
        try:
            stat = self._disk.create(spare, data, mode)
        except FileNotFoundError:
            stat = self._create_with_folder(spare, data, root)
        except FileExistsError:
            self._clear_spare(spare, path, data)
            stat = self._disk.create(spare, data, mode)
        if is_named and not lexists(path):
            self.sync_names(spare, root)
        return spare, stat

    def _create_with_folder(self, path: str, data: bytes, root: str) -> os.stat_result:
        """Create a file and its folder, which another tool may be removing at the same time.

        Raise ``FileNotFoundError`` if the root does not exist: a worktree that was moved or removed
        is not created again.
        """
        for _ in range(MAX_TRIES):
            missing = []
            folder = os.path.dirname(path)
            while folder != root and not os.path.isdir(folder):
                missing.append(folder)
                folder = os.path.dirname(folder)
            try:
                for name in reversed(missing):
                    self._disk.add_folder(name)
                return self._disk.create(path, data)
            except FileNotFoundError:
                continue
        return self._disk.create(path, data)

    def sync_names(self, path: str, root: str) -> None:
        """Make the names of all folders between the root and the path durable, and the path's."""
        while path != root and len(path) > len(root):
            path = os.path.dirname(path)
            self._disk.sync_folder(path)

    def was_interrupted(self, path: str, event_hash: str) -> bool:
        """Return True if a writer died between recording this event and writing its record."""
        raw = self.read(_spare(path))
        return raw is not None and event_hash.encode() in raw and self._is_own(raw)

    def was_set_aside(self, path: str) -> bool:
        """Return True if a file was set aside here, which explains why the record is missing."""
        folder, name = os.path.split(path)
        try:
            return any(other.startswith(f"{name}.rejected-") for other in names_in(folder))
        except OSError:
            return False

    def put(
        self, spare: str, path: str, expected: bytes | None, *, durable: bool = False
    ) -> list[str]:
        """Replace the record by the spare.

        If replaced content was not ``expected``, keep it to be adopted and return its paths.
        """
        replaced = self._disk.replace(path, spare, is_new=expected is None, durable=durable)
        return self._discard(replaced, path, expected) if replaced else replaced

    def _discard(self, names: list[str], path: str, expected: bytes | None = None) -> list[str]:
        """Remove files whose content is known; keep the others, and return their new paths."""
        saved = []
        for name in names:
            content = self._disk.read_own(name, MAX_RECORD_BYTES + 1, or_busy=True)
            if content is None:
                continue
            if content == expected or content.strip() == _EMPTY or self._is_own(content):
                self._disk.remove(name)
            else:
                saved.append(self._keep(name, path))
        return saved

    def drop(self, spare: str) -> None:
        """Remove a spare that is not needed. If that fails, the next writer removes it."""
        try:
            self._disk.remove(spare)
        except OSError:
            return

    def has_unmerged_save(self, path: str) -> bool:
        """Return True if a save has not been adopted yet.

        Its adopter was killed, or the editor was still writing it.
        """
        return any(map(lexists, _saved(path))) or any(map(self._has_save, _spares(path)))

    def _has_save(self, spare: str) -> bool:
        """Return True if the spare contains what an editor saved, or may still be saving."""
        if not lexists(spare):
            return False
        if self._disk.is_being_written(spare):
            return True
        raw = self.read(spare)
        is_empty = raw is None or raw.strip(b"\0\n") in (b"", _EMPTY)
        return not is_empty and not self._is_own(raw or b"")

    def unmerged_saves(self, path: str) -> list[str]:
        """Return the paths of the saves that have not been adopted yet."""
        for spare in _spares(path):
            if self._has_save(spare):
                self._keep(spare, path)
        return [name for name in _saved(path) if lexists(name)]

    def _keep(self, source: str, path: str) -> str:
        """Move what an editor saved to a "saved" name, to be adopted; return its new path."""
        for target in _saved(path):
            if not lexists(target):
                self._disk.move(source, target)
                return target
        return self._put_aside(source, path)

    def _clear_spare(self, spare: str, path: str, data: bytes) -> None:
        """Free the spare name. Set its content aside unless it is ``data`` or the record's own."""
        is_known = self.read(spare) in (data, self.read(path))
        if self._has_save(spare) and (not is_known or self._disk.is_being_written(spare)):
            self._put_aside(spare, path)
        else:
            self._disk.remove(spare)

    def _put_aside(self, source: str, path: str) -> str:
        target = self.set_aside(source, self.read(source) or b"", path)
        self._note(
            f"what was saved as {os.path.basename(path)} during a write is kept as "
            f"{os.path.basename(target)}"
        )
        return target

    def set_aside(self, source: str, data: bytes, path: str) -> str:
        """Rename a file that cannot be adopted; return its new path."""
        target = free_name(f"{path}.rejected-{digest(data)[:8]}")
        self._disk.move(source, target)
        return target

    def reset(self, path: str) -> list[str]:
        """Replace a record by an empty object. Keep an edited record as ``remove`` does."""
        return self.put(self.prepare(path, _EMPTY + b"\n")[0], path, None)

    def remove(self, path: str) -> list[str]:
        """Remove a record. If an editor changed it, keep it to be adopted and return its path."""
        spare = _spare(path)
        if lexists(spare):
            self._clear_spare(spare, path, _EMPTY)
        try:
            self._disk.move(path, spare)
        except FileNotFoundError:
            return []
        return self._discard([spare], path)


def _spare(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.holdfast"


def _spares(path: str) -> list[str]:
    """Return the names that a killed writer may have left files under, the older content first."""
    spare = _spare(path)
    return [*old_names(spare), spare]


def _saved(path: str) -> list[str]:
    """Return the "saved" names. Several are in use if editors write their files slowly."""
    spare = _spare(path)
    return [f"{spare}-saved-{number}" for number in (1, 2, 3)]
