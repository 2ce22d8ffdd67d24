"""Change client files together with the journal that can restore them.

The journal is written before a file is, and an entry is dropped after its file was restored. So a
run that is killed leaves a whole file, old or new, and the next run can work with either.
"""

from __future__ import annotations

import difflib
import os

from holdfast.errors import Refused
from holdfast.install.agents import AGENTS, USER
from holdfast.install.client_files import sandbox_file
from holdfast.install.journal import Journal, next_entry
from holdfast.storage.shared_file import clear_spares, settle
from holdfast.workspace.location import person_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import Fields
    from holdfast.install.client_files import ClientFile
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

_NO_FILE = "/dev/null"
_NO_NEWLINE = "\\ No newline at end of file\n"


class Change:
    """What a run did to one file, or would do: created, changed, unchanged, restored, removed."""

    __slots__ = ("after", "before", "file", "how")

    def __init__(
        self, file: ClientFile, before: bytes | None, after: bytes | None, how: str
    ) -> None:
        self.file = file
        self.before = before
        self.after = after
        self.how = how

    def as_fields(self) -> Fields:
        diff = unified_diff(self.before, self.after, self.file.name)
        return {"path": self.file.name, "change": self.how, "diff": diff}


def unified_diff(before: bytes | None, after: bytes | None, name: str) -> str:
    """Return the difference between two contents of a file; ``None`` is no file."""
    names = (_NO_FILE if before is None else name, _NO_FILE if after is None else name)
    rows = difflib.unified_diff(_lines(before), _lines(after), *names)
    return "".join([row if row.endswith("\n") else f"{row}\n{_NO_NEWLINE}" for row in rows])


def _lines(raw: bytes | None) -> list[str]:
    """Split at line feeds only, as other tools count lines."""
    *lines, last = (raw or b"").decode(errors="replace").split("\n")
    return [*[f"{line}\n" for line in lines], *([last] if last else [])]


class Changes:
    """The changes of one run to the files of one scope, with its journal."""

    def __init__(self, disk: Disk, workspace: Workspace, scope: str, notes: list[str]) -> None:
        self._disk = disk
        self._workspace = workspace
        self._is_user = scope == USER
        self.notes = notes
        self._journal = Journal(disk, person_folder() if self._is_user else workspace.home)

    def plan_add(self, file: ClientFile) -> Change:
        """Return what adding our entries would change; raise ``Refused`` if it is not possible."""
        before = self._disk.read(file.target())
        return _addition(file, before, file.with_ours(before, self._journal.entries.get(file.key)))

    def add(self, files: Sequence[ClientFile]) -> list[Change]:
        """Add our entries to the files."""
        changes: list[Change] = []

        def write() -> None:
            changes.extend([self._add(file) for file in files])

        self._locked(write, [os.path.dirname(file.target()) for file in files])
        return changes

    def _add(self, file: ClientFile) -> Change:
        versions: list[tuple[bytes | None, bytes]] = []

        def prepare(raw: bytes | None) -> bytes:
            entry = self._journal.entries.get(file.key)
            after = file.with_ours(raw, entry)
            versions.append((raw, after))
            if after != raw:
                original = file.without_ours(raw, entry)
                text = None if original is None else original.decode()
                self._journal.keep(file.key, next_entry(entry, text, raw, after))
            return after

        target = file.target()
        self._clear_spares(file)
        settle(self._disk, target, prepare)
        return _addition(file, *versions[-1])

    def plan_remove(self, file: ClientFile) -> Change | None:
        """Return what removing our entries would change; ``None`` if the file has none."""
        if not os.path.isfile(file.path):
            return None
        if file.is_outside():
            if file.key in self._journal.entries:
                file.target()  # Raise Refused: the user has to remove what is ours by hand.
            return None
        before = self._disk.read(file.path)
        entry = self._journal.entries.get(file.key)
        after = file.without_ours(before, entry)
        if after == before or before is None:
            return None
        file.target()
        if after is None:
            return Change(file, before, after, "removed")
        is_restored = entry is not None and entry.is_ours_alone(before)
        return Change(file, before, after, "restored" if is_restored else "changed")

    def remove(self, files: Sequence[ClientFile], planned: list[Change]) -> list[Change]:
        """Remove our entries, and drop the journal's entries of files that have none left."""
        has_entries = any(file.key in self._journal.entries for file in files)
        if not planned and not has_entries and not self._journal.is_in_use():
            return []
        changes: list[Change] = []

        def write() -> None:
            for file in files:
                has_entry = file.key in self._journal.entries
                if has_entry:
                    self._clear_spares(file)
                if (change := self.plan_remove(file)) is not None:
                    self._remove(file, change)
                    changes.append(change)
                if has_entry:
                    self._remove_folders([os.path.dirname(file.path)])
                    self._journal.drop(file.key)

        folders = [os.path.dirname(file.path) for file in files]
        self._locked(write, [folder for folder in folders if os.path.isdir(folder)])
        return changes

    def _remove(self, file: ClientFile, change: Change) -> None:
        def prepare(raw: bytes | None) -> bytes | None:
            change.before = raw
            change.after = file.without_ours(raw, self._journal.entries.get(file.key))
            return change.after

        settle(self._disk, file.target(), prepare)

    def _clear_spares(self, file: ClientFile) -> None:
        """Remove what a killed run left beside a file; keep what another program saved."""
        try:
            target = file.target()
        except Refused:
            return  # The file cannot be written now, so no run left anything beside it.
        entry = self._journal.entries.get(file.key)
        kept = clear_spares(self._disk, target, lambda raw: entry is not None and entry.knows(raw))
        self.notes += [f"a file that was saved during an earlier run is kept as {k}" for k in kept]

    def _locked(self, write: Callable[[], None], folders: list[str]) -> None:
        """Call ``write`` under the journal's lock, and record the folders that it makes."""
        journal = self._journal
        if not self._is_user:
            self._workspace.check_home()
        nearby = [journal.folder, *folders]
        missing = _missing_folders(nearby)
        fd = journal.lock()
        try:
            journal.load()
            journal.folders += [folder for folder in missing if folder not in journal.folders]
            if not self._is_user:
                self._workspace.prepare(self._disk, self.notes.append)
            write()
        finally:
            journal.keeps_folder = self._is_mounted()
            journal.unlock(fd)
            self._remove_folders(nearby)

    def _is_mounted(self) -> bool:
        """Return True if Codex's sandbox mounts the journal's folder."""
        try:
            file = None if self._is_user else sandbox_file(AGENTS["codex"], self._workspace)
        except Refused:
            return False
        return file is not None and file.has_folder(self._disk)

    def _remove_folders(self, nearby: list[str]) -> None:
        """Remove folders that ``init`` made and that are empty."""
        journal = self._journal
        for folder in reversed(journal.folders):
            if folder == journal.folder and journal.keeps_folder:
                continue
            # A project's journal may come from a stranger: remove only folders around our files.
            if any(f"{path}{os.sep}".startswith(f"{folder}{os.sep}") for path in nearby):
                self._disk.remove_folder(folder)


def _addition(file: ClientFile, before: bytes | None, after: bytes) -> Change:
    how = "unchanged" if after == before else "created" if before is None else "changed"
    return Change(file, before, after, how)


def _missing_folders(folders: list[str]) -> list[str]:
    """Return the folders that have to be made for these, outer ones first."""
    missing = set()
    for folder in folders:
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            missing.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - climb to the root
    return sorted(missing, key=len)
