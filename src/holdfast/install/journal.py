"""The journal of ``init``: what each client file was before, so that ``uninstall`` can restore it.

A project's journal is beside the ledger, a user's in their own folder. An entry is written before
its file: a run that is killed in between leaves an entry for a change that did not happen, never a
change without an entry. An entry counts only while the file has bytes that Holdfast wrote.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.errors import Fault, newer_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Json
    from holdfast.system.disk import Disk

FILE = "installed.json"
VERSION = 1
LOCK_WAIT_S = 10.0
_MAX_WRITTEN = 4
_MAX_LOCK_TRIES = 10


class Entry:
    """One file: its text before ``init`` (``None``: no file), and what was written since."""

    __slots__ = ("before", "original", "written")

    def __init__(self, original: str | None, written: list[str], before: str) -> None:
        self.original = original
        self.written = written
        """Digests of texts that are the original with our entries and nothing else."""
        self.before = before
        """The digest of the file's content at the last write."""

    def is_ours_alone(self, raw: bytes) -> bool:
        """Return True if only Holdfast has changed the file."""
        return digest(raw) in self.written

    def knows(self, raw: bytes) -> bool:
        """Return True if these bytes are ours, the original, or what the last write replaced."""
        original = [] if self.original is None else [digest(self.original.encode())]
        return digest(raw) in (*self.written, self.before, *original)


def next_entry(
    entry: Entry | None, original: str | None, before: bytes | None, after: bytes
) -> Entry:
    """Return the entry to write before ``after`` replaces ``before``."""
    continues = entry is not None and before is not None and entry.is_ours_alone(before)
    written = [*(entry.written if entry and continues else []), digest(after)]
    return Entry(original, written[-_MAX_WRITTEN:], digest(before or b""))


class Journal:
    """All entries of a project, or of a user. Change it only under its lock."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self._path = os.path.join(folder, FILE)
        self._lock_path = self._path + ".lock"
        self.entries: dict[str, Entry] = {}
        self.folders: list[str] = []
        """Folders that ``init`` made, outer ones first."""
        self.keeps_folder = False
        """True if the journal's folder must stay even when it is empty."""
        self.load()

    def load(self) -> None:
        """Read the journal. One that cannot be parsed has no entries, so nothing is restored."""
        try:
            fields = json_text.loads(self._disk.read_own(self._path) or b"{}", strict=True)
        except json_text.BadJson:
            fields = {}
        fields = fields if isinstance(fields, dict) else {}
        version = fields.get("version")
        if isinstance(version, int) and version > VERSION:
            raise newer_file(self._path, version)
        files, folders = fields.get("files"), fields.get("folders")
        entries = {key: _parse(file) for key, file in _items(files)}
        self.entries = {key: entry for key, entry in entries.items() if entry is not None}
        paths = folders if isinstance(folders, list) else []
        self.folders = [path for path in paths if isinstance(path, str) and os.path.isabs(path)]

    def lock(self) -> int:
        """Make the folder and return a lock in it; raise ``Fault`` if another run removes it."""
        for _ in range(_MAX_LOCK_TRIES):
            self._disk.make_folder(self.folder, 0o700)
            try:
                return self._disk.lock(self._lock_path, LOCK_WAIT_S)
            except FileNotFoundError:
                continue
        raise Fault("busy", f"{self.folder} comes and goes", "run the command again")

    def is_in_use(self) -> bool:
        """Return True if a run holds the lock, or was killed while it held it."""
        return os.path.lexists(self._lock_path)

    def unlock(self, fd: int) -> None:
        """Release the lock, and remove the folder if it is not needed any more."""
        # A run that waits sees that the name is gone, and takes the lock on a new file.
        self._disk.remove(self._lock_path)
        if not self.entries and not self.keeps_folder:
            self._disk.remove_folder(self.folder)
        self._disk.close(fd)

    def keep(self, key: str, entry: Entry) -> None:
        self.entries[key] = entry
        self._write()

    def drop(self, key: str) -> None:
        if self.entries.pop(key, None) is not None:
            self._write()

    def _write(self) -> None:
        if not self.entries:
            self._disk.remove(self._path)
            return
        files = {
            key: {"original": entry.original, "written": entry.written, "before": entry.before}
            for key, entry in self.entries.items()
        }
        fields = {"version": VERSION, "folders": self.folders, "files": files}
        raw = (json_text.pretty(fields) + "\n").encode()
        self._disk.replace_view(self._path, raw, durable=True)
        self._disk.sync_folder(self.folder)


def _items(value: Json) -> list[tuple[str, Json]]:
    return list(value.items()) if isinstance(value, dict) else []


def _parse(fields: Json) -> Entry | None:
    """Return an entry; ``None`` if the fields are not those of one."""
    if not isinstance(fields, dict):
        return None
    original, written, before = (fields.get(name) for name in ("original", "written", "before"))
    if not (original is None or isinstance(original, str)):
        return None
    if not isinstance(before, str) or not isinstance(written, list):
        return None
    return Entry(original, [text for text in written if isinstance(text, str)], before)
