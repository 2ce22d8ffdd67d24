"""The paths of an initiative's files, and reading them. Every path is inside the workspace."""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused
from holdfast.initiatives.pages import BadPage, MilestonePage, new_page
from holdfast.initiatives.status_yaml import NAME, BadStatus, Status
from holdfast.keeper.initiative_link import names_in, natural_key, path_inside, unreadable
from holdfast.system.disk import FOLDER, ODD
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Initiative
    from holdfast.keeper.store import Store

README = "README.md"
_MAX_PAGES = 100
_MAX_FILE_BYTES = 2_000_000


class InitiativePaths:
    """The files of the initiatives of one worktree. Places are paths from its root."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._workspace = store.workspace
        configured = settings.load(store.workspace.root)
        self._top = configured.milestones()
        self._status_file = configured.workflow_status()

    def folder(self, key: str, initiative: Initiative | None = None) -> str:
        """Return the place of the folder with the milestone pages."""
        own = None if initiative is None else initiative.get("folder")
        return f"{self._top}/{own or key}"

    def status_file(self, key: str, initiative: Initiative | None = None) -> str:
        """Return the place of ``WORKFLOW-STATUS.yaml``: as configured, else at the root if there
        is one, else in the folder of the initiative.
        """
        if self._status_file is not None:
            return self._status_file
        if os.path.lexists(os.path.join(self._workspace.root, NAME)):
            return NAME
        return f"{self.folder(key, initiative)}/{NAME}"

    def path(self, place: str) -> str:
        """Return the absolute path; raise ``Refused`` if a link leads it out of the workspace."""
        return path_inside(self._workspace, place)

    # Reading

    def read(self, place: str) -> bytes | None:
        """Return the bytes of a file, ``None`` if there is none.

        Raise ``Refused`` for a folder or a pipe, a ``Fault`` for a file that cannot be read.
        """
        try:
            raw = self._store.disk.read(self.path(place), _MAX_FILE_BYTES)
        except OSError as error:
            raise unreadable(place, error) from error
        if raw in (FOLDER, ODD):
            hint = f"move {place} away, then run it again"
            raise Refused("in_the_way", f"{place} is no file", hint)
        return raw

    def read_status(self, place: str) -> Status | None:
        """Return ``WORKFLOW-STATUS.yaml``, ``None`` without one; raise ``Refused`` if broken."""
        raw = self.read(place)
        return None if raw is None else self.parse_status(place, raw)

    @staticmethod
    def parse_status(place: str, raw: bytes) -> Status:
        """Parse ``WORKFLOW-STATUS.yaml``; raise ``Refused`` with the line if it is broken."""
        try:
            return Status(raw)
        except BadStatus as bad:
            raise bad_file(place, bad) from None

    @staticmethod
    def parse_page(place: str, raw: bytes, known: Collection[str]) -> MilestonePage:
        """Parse a page; its name, or its folder's, may name the milestone of its tasks."""
        folder, name = os.path.split(place)
        try:
            return MilestonePage(raw, os.path.basename(folder) if name == README else name, known)
        except BadPage as bad:
            raise bad_file(place, bad) from None

    def read_pages(
        self,
        key: str,
        initiative: Initiative | None = None,
        known: Collection[str] = (),
        *,
        is_strict: bool = True,
    ) -> list[tuple[str, MilestonePage]]:
        """Return the pages of an initiative: its README, then the others in and below the folder.

        Raise ``Refused`` if one is broken; unless ``is_strict``, note it and leave it out.
        """
        if initiative is not None:
            known = [milestone["id"] for milestone in initiative["milestones"]]
        pages = []
        for place in self._pages(self.folder(key, initiative)):
            try:
                pages.append((place, self.parse_page(place, self.read(place) or b"", known)))
            except HoldfastError as error:
                if is_strict:
                    raise
                self._store.note(f"{error.message}: {error.hint}")
        return pages

    def unedited_page(self, key: str, initiative: Initiative) -> str | None:
        """Return the place of the only page, if it is as Holdfast would write it now.

        Such a page says what the record says, and needs no parser.
        """
        places = self._pages(self.folder(key, initiative))
        is_unedited = len(places) == 1 and self.read(places[0]) == new_page(initiative)
        return places[0] if is_unedited else None

    def _pages(self, folder: str) -> list[str]:
        names = names_in(self._workspace, folder)
        root = os.path.join(self._workspace.root, folder)
        folders = [name for name in names if os.path.isdir(os.path.join(root, name))]
        places = [name for name in names if name.endswith(".md") and name not in [*folders, README]]
        below = [f"{name}/{README}" for name in folders]
        places += [name for name in below if os.path.isfile(os.path.join(root, name))]
        first = [README] if README in names else []
        pages = [f"{folder}/{name}" for name in [*first, *sorted(places, key=natural_key)]]
        if len(pages) > _MAX_PAGES:
            why = f"{folder} has {len(pages)} pages; {_MAX_PAGES} are the most"
            raise Refused("too_many", f"initiative: {why}", "move what is no milestone elsewhere")
        return pages


def bad_file(place: str, bad: BadStatus | BadPage) -> Refused:
    """Return the refusal for a broken file, with its line."""
    return Refused(
        "bad_file",
        f"{place}: line {bad.line}: {bad.why}; nothing was changed",
        f"mend line {bad.line} of {place}, then run the same command again",
        path=place,
        line=bad.line,
        why=bad.why,
    )
