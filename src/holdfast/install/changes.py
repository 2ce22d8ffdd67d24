"""Change client files, with a journal of what each was before, so that ``uninstall`` restores it.

A project's journal is beside the ledger, a user's in their own folder. An entry is written before
its file is, and dropped after its file was restored: a run that is killed leaves a whole file, old
or new, and never a change without an entry. An entry counts only while the file has bytes that
Holdfast wrote.
"""

from __future__ import annotations

import difflib
import io
import os
from contextlib import contextmanager

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.errors import Fault, Refused, refuse_newer
from holdfast.install.agents import USER
from holdfast.install.client_files import is_ours_alone
from holdfast.install.sandbox import sandbox_file
from holdfast.storage.shared_file import clear_spares, read_complete, settle
from holdfast.workspace.location import INSTALLED, person_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.types import Fields, Json
    from holdfast.install.client_files import ClientFile, JournalEntry
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

VERSION = 1
LOCK_WAIT_S = 10.0
_MAX_WRITTEN = 4
_MAX_LOCK_TRIES = 10
_NO_FILE = "/dev/null"
_NO_NEWLINE = "\\ No newline at end of file\n"


class FileChange:
    """The change of one file, made or planned: created, changed, unchanged, restored, removed."""

    __slots__ = ("after", "before", "file", "how")

    def __init__(
        self, file: ClientFile, before: bytes | None, after: bytes | None, how: str = ""
    ) -> None:
        self.file = file
        self.before = before
        self.after = after
        is_new = before is None
        self.how = how or ("unchanged" if after == before else "created" if is_new else "changed")

    def as_fields(self) -> Fields:
        diff = unified_diff(self.before, self.after, self.file.name)
        return {"path": self.file.name, "change": self.how, "diff": diff}


def unified_diff(before: bytes | None, after: bytes | None, name: str) -> str:
    """Return the difference between two contents of a file; ``None`` is no file."""
    names = (_NO_FILE if before is None else name, _NO_FILE if after is None else name)
    texts = [(raw or b"").decode(errors="replace") for raw in (before, after)]
    # Split at line feeds only, as other tools count lines.
    old, new = [list(io.StringIO(text, newline="\n")) for text in texts]
    rows = difflib.unified_diff(old, new, *names)
    return "".join([row if row.endswith("\n") else f"{row}\n{_NO_NEWLINE}" for row in rows])


class Changes:
    """The changes of one run to the files of one scope, with its journal."""

    def __init__(self, disk: Disk, workspace: Workspace, scope: str, notes: list[str]) -> None:
        self._disk = disk
        self._workspace = workspace
        self._is_user = scope == USER
        self.notes = notes
        self._journal = Journal(disk, person_path() if self._is_user else workspace.home)

    def plan_add(self, file: ClientFile) -> FileChange:
        """Return what adding our entries would change; raise ``Refused`` if it is not possible."""
        before = read_complete(self._disk, file.target())
        return FileChange(file, before, file.with_ours(before, self._journal.entries.get(file.key)))

    def add(self, files: Sequence[ClientFile]) -> list[FileChange]:
        """Add our entries to the files."""
        with self._locked([os.path.dirname(file.target()) for file in files]):
            return [self._add(file) for file in files]

    def _add(self, file: ClientFile) -> FileChange:
        change = FileChange(file, None, None)

        def prepare(raw: bytes | None) -> bytes:
            nonlocal change
            entry = self._journal.entries.get(file.key)
            after = file.with_ours(raw, entry)
            change = FileChange(file, raw, after)
            if after != raw:
                original = file.without_ours(raw, entry)
                text = None if original is None else original.decode()
                earlier = entry["written"] if entry and is_ours_alone(raw, entry) else []
                written = [*earlier, digest(after)][-_MAX_WRITTEN:]
                self._journal.entries[file.key] = {
                    "original": text,
                    "written": written,
                    "before": digest(raw or b""),
                }
                self._journal.write()
            return after

        self._clear_spares(file)
        settle(self._disk, file.target(), prepare, self.notes.append)
        return change

    def plan_remove(self, file: ClientFile) -> FileChange | None:
        """Return what removing our entries would change; ``None`` if the file has none."""
        entry = self._journal.entries.get(file.key)
        if not os.path.isfile(file.path):
            return None
        if file.is_outside():
            if entry is not None:
                file.target()  # Raise Refused: the user has to remove what is ours by hand.
            return None
        before = read_complete(self._disk, file.path)
        after = file.without_ours(before, entry)
        if after == before or before is None:
            return None
        file.target()
        if after is None:
            return FileChange(file, before, after, "removed")
        how = "restored" if is_ours_alone(before, entry) else "changed"
        return FileChange(file, before, after, how)

    def is_edited(self, file: ClientFile) -> bool:
        """Return True if somebody has changed a file since ``init`` wrote it."""
        entry = self._journal.entries.get(file.key)
        if entry is None or not os.path.isfile(file.path) or file.is_outside():
            return False
        return not is_ours_alone(read_complete(self._disk, file.path), entry)

    def remove(self, files: Sequence[ClientFile], planned: list[FileChange]) -> list[FileChange]:
        """Remove our entries, and drop the journal's entries of files that have none left."""
        has_entries = any(file.key in self._journal.entries for file in files)
        if not planned and not has_entries and not self._journal.is_in_use():
            return []
        folders = [os.path.dirname(file.path) for file in files]
        with self._locked([folder for folder in folders if os.path.isdir(folder)]):
            changes = [self._remove(file) for file in files]
        return [change for change in changes if change is not None]

    def _remove(self, file: ClientFile) -> FileChange | None:
        entry = self._journal.entries.get(file.key)
        if entry is not None:
            self._clear_spares(file)
        change = self.plan_remove(file)
        if change is not None:

            def prepare(raw: bytes | None) -> bytes | None:
                change.before, change.after = raw, file.without_ours(raw, entry)
                return change.after

            settle(self._disk, file.target(), prepare, self.notes.append)
        if entry is not None:
            self._remove_folders([os.path.dirname(file.path)])
            del self._journal.entries[file.key]
            self._journal.write()
        return change

    def _clear_spares(self, file: ClientFile) -> None:
        """Remove what a killed run left beside a file; keep what another program saved."""
        try:
            target = file.target()
        except Refused:
            return  # The file cannot be written now, so no run left anything beside it.
        entry = self._journal.entries.get(file.key)
        own_digests: list[str] = []
        if entry is not None:
            original = (entry["original"] or "").encode()
            own_digests = [*entry["written"], entry["before"], digest(original)]
        paths = clear_spares(self._disk, target, lambda raw: digest(raw) in own_digests)
        self.notes += [f"a file that was saved during an earlier run is kept as {k}" for k in paths]

    @contextmanager
    def _locked(self, folders: list[str]) -> Iterator[None]:
        """Hold the journal's lock, and record the folders that are made meanwhile."""
        journal = self._journal
        if not self._is_user:
            self._workspace.check_links(self._workspace.home)
        nearby = [journal.folder, *folders]
        missing = _missing_folders(nearby)
        fd = journal.lock()
        try:
            journal.load()
            journal.folders += [folder for folder in missing if folder not in journal.folders]
            if not self._is_user:
                self._workspace.prepare(self._disk, self.notes.append)
            yield
        finally:
            journal.keeps_folder = self._is_mounted()
            journal.unlock(fd)
            self._remove_folders(nearby)

    def _is_mounted(self) -> bool:
        """Return True if Codex's sandbox mounts the journal's folder."""
        try:
            file = None if self._is_user else sandbox_file(self._workspace)
        except Refused:
            return False
        return file is not None and file.has_folder()

    def _remove_folders(self, nearby: list[str]) -> None:
        """Remove folders that ``init`` made and that are empty."""
        journal = self._journal
        for folder in reversed(journal.folders):
            if folder == journal.folder and journal.keeps_folder:
                continue
            # A project's journal may come from a stranger: remove only folders around our files.
            if any(f"{path}{os.sep}".startswith(f"{folder}{os.sep}") for path in nearby):
                self._disk.remove_folder(folder)


def _missing_folders(folders: list[str]) -> list[str]:
    """Return the folders that have to be made for these, outer ones first."""
    missing = set()
    for folder in folders:
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            missing.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - climb to the root
    return sorted(missing, key=len)


# The journal


class Journal:
    """All entries of a project, or of a user. Change it only while holding its lock."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self._path = os.path.join(folder, INSTALLED)
        self._lock_path = self._path + ".lock"
        self.entries: dict[str, JournalEntry] = {}
        """By the key of a file."""
        self.folders: list[str] = []
        """Folders that ``init`` made, outer ones first."""
        self.keeps_folder = False
        """True if the journal's folder must stay even when it is empty."""
        self.load()

    def load(self) -> None:
        """Read the journal. A file that is not one counts as empty: then nothing is restored.

        Raise ``Fault`` if a newer Holdfast wrote it.
        """
        try:
            fields = json_text.loads(self._disk.read_own(self._path) or b"{}", strict=True)
        except json_text.BadJson:
            fields = {}
        fields = fields if isinstance(fields, dict) else {}
        refuse_newer(self._path, fields.get("version"), VERSION)
        files, folders = fields.get("files"), fields.get("folders")
        items = files.items() if isinstance(files, dict) else ()
        self.entries = {key: file for key, file in items if _is_entry(file)}
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

    def write(self) -> None:
        """Write the entries, durably; remove the file if there are none."""
        if not self.entries:
            self._disk.remove(self._path)
            return
        fields = {"version": VERSION, "folders": self.folders, "files": self.entries}
        raw = (json_text.pretty(fields) + "\n").encode()
        self._disk.replace_view(self._path, raw, durable=True)
        self._disk.sync_folder(self.folder)


def _is_entry(fields: Json) -> bool:
    if not isinstance(fields, dict) or not isinstance(fields.get("original", 0), str | None):
        return False
    return isinstance(fields.get("before"), str) and isinstance(fields.get("written"), list)
