"""What stood in a settings file before Holdfast came, so that it can stand there again.

Beside the ledger for a project's files, in the person's own folder for theirs. It is written before
the file is: whoever dies in between leaves a note of something that did not happen, and no change
without a note. What the note tells is used only where the file still has what we wrote.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.digest import digest
from holdfast.errors import Fault, newer_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.system.disk import Disk

FILE = "installed.json"
VERSION = 1
WAIT_S = 10.0
_REMEMBERED = 4
_TRIES = 10


class Entry:
    """One file: its text before (``None``: there was no file), and what has been written since."""

    __slots__ = ("before", "original", "written")

    def __init__(self, original: str | None, written: list[str], before: str) -> None:
        self.original = original
        self.written = written
        """Digests of texts that are the original with our hooks in it, and nothing else."""
        self.before = before
        """The digest of what stood there when we last wrote."""

    def is_ours_alone(self, raw: bytes) -> bool:
        """Whether nobody has changed the file since."""
        return digest(raw) in self.written

    def knows(self, raw: bytes) -> bool:
        """Whether these bytes can be had again, or are on the disk elsewhere."""
        own = [] if self.original is None else [digest(self.original.encode())]
        return digest(raw) in (*self.written, self.before, *own)


def following(
    earlier: Entry | None, original: str | None, before: bytes | None, after: bytes
) -> Entry:
    """What is to be noted when ``after`` takes the place of ``before``."""
    goes_on = earlier is not None and before is not None and earlier.is_ours_alone(before)
    written = [*(earlier.written if earlier and goes_on else []), digest(after)]
    return Entry(original, written[-_REMEMBERED:], digest(before or b""))


class Journal:
    """All entries of a workspace, or of a person. Changed under its lock alone."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self._path = os.path.join(folder, FILE)
        self.entries: dict[str, Entry] = {}
        self.folders: list[str] = []
        """Those that were made for a settings file or for the journal, the outer ones first."""
        self.keeps_folder = False
        """True if the folder has to stay although nothing is in it."""
        self.load()

    def load(self) -> None:
        """What cannot be read restores nothing: our hooks are then taken out one by one."""
        try:
            held = json_text.loads(self._disk.read_own(self._path) or b"{}", strict=True)
        except json_text.BadJson:
            held = {}
        version = held.get("version") if isinstance(held, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise newer_file(self._path, version)
        files = held.get("files") if isinstance(held, dict) else None
        folders = held.get("folders") if isinstance(held, dict) else None
        found = files.items() if isinstance(files, dict) else ()
        entries = {key: _entry(fields) for key, fields in found}
        self.entries = {key: entry for key, entry in entries.items() if entry is not None}
        self.folders = [f for f in folders if _is_path(f)] if isinstance(folders, list) else []

    def lock(self) -> int:
        """Others wait; the folder is made for it, and may just have been taken away again."""
        for _ in range(_TRIES):
            self._disk.make_folder(self.folder, 0o700)
            try:
                return self._disk.lock(self._lock_path, WAIT_S)
            except FileNotFoundError:
                continue
        raise Fault("busy", f"{self.folder} comes and goes", "run the command again")

    def is_at_work(self) -> bool:
        """Whether somebody has the lock, or had it and was killed."""
        return os.path.lexists(self._lock_path)

    def unlock(self, fd: int) -> None:
        # Whoever waits for it sees that the name is gone, and takes the lock on a new one.
        self._disk.remove(self._lock_path)
        if not self.entries and not self.keeps_folder:
            self._disk.remove_folder(self.folder)
        self._disk.close(fd)

    @property
    def _lock_path(self) -> str:
        return f"{self._path}.lock"

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
        files = {key: _fields(entry) for key, entry in self.entries.items()}
        held = {"version": VERSION, "folders": self.folders, "files": files}
        self._disk.replace_view(self._path, (json_text.pretty(held) + "\n").encode(), durable=True)
        self._disk.sync_folder(self.folder)


def _fields(entry: Entry) -> Fields:
    return {"original": entry.original, "written": entry.written, "before": entry.before}


def _entry(fields: object) -> Entry | None:
    if not isinstance(fields, dict):
        return None
    original, written, before = (fields.get(name) for name in ("original", "written", "before"))
    if not (original is None or isinstance(original, str)):
        return None
    if not isinstance(before, str) or not isinstance(written, list):
        return None
    return Entry(original, [one for one in written if isinstance(one, str)], before)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and os.path.isabs(value)
