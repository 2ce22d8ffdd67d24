"""Where the files of initiatives are, and that they are inside the workspace."""

from __future__ import annotations

import os

from holdfast.core.json_text import is_encodable
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.initiatives.pages import BadPage, Page, fresh
from holdfast.initiatives.status_yaml import NAME, BadStatus, Status
from holdfast.system.disk import FOLDER, ODD
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Initiative
    from holdfast.keeper.store import Store

README = "README.md"
_MAX_PAGES = 100


class Places:
    """The files of the initiatives of one worktree. Paths begin at its root."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._workspace = store.workspace
        wanted = settings.load(store.workspace.root)
        self._top = wanted.milestones()
        self._status = wanted.workflow_status()

    def folder(self, key: str, one: Initiative | None = None) -> str:
        own = None if one is None else one.get("folder")
        return f"{self._top}/{own or key}"

    def status(self, key: str, one: Initiative | None = None) -> str:
        """Return the path of ``WORKFLOW-STATUS.yaml``: as in the settings, else one at the root."""
        if self._status is not None:
            return self._status
        if os.path.lexists(self._from_root(NAME)):
            return NAME
        return f"{self.folder(key, one)}/{NAME}"

    def path(self, place: str) -> str:
        """Return the absolute path; refuse one that a link leads out of the workspace."""
        if not self._workspace.contains(place):
            raise Refused(
                "outside",
                f"{place} leads out of the workspace {self._workspace.root}",
                "remove the symbolic link, or move the folder into the workspace",
            )
        return os.path.realpath(self._from_root(place))

    def _from_root(self, place: str) -> str:
        return os.path.join(self._workspace.root, place)

    def read(self, place: str) -> bytes | None:
        """Return the bytes of a file; refuse a folder or a pipe in its place."""
        try:
            raw = self._store.disk.read(self.path(place), 2_000_000)
        except OSError as error:
            raise _unreadable(place, error) from error
        if raw in (FOLDER, ODD):
            raise Refused(
                "in_the_way", f"{place} is no file", f"move {place} away, then run it again"
            )
        return raw

    def read_status(self, place: str) -> Status | None:
        """Return ``WORKFLOW-STATUS.yaml``, ``None`` where there is none; refuse a broken one."""
        raw = self.read(place)
        return None if raw is None else parse_status(place, raw)

    def read_pages(
        self,
        key: str,
        one: Initiative | None = None,
        known: Collection[str] = (),
        *,
        is_strict: bool = True,
    ) -> list[tuple[str, Page]]:
        """Return the pages of an initiative: its README, then the others beside and below it.

        ``is_strict``: one that cannot be used is refused, not only noted.
        """
        pages = []
        for place in self._pages(self.folder(key, one)):
            try:
                pages.append((place, self.page(place, self.read(place) or b"", known)))
            except HoldfastError as error:
                if is_strict:
                    raise
                self._store.note(f"{error.message}: {error.hint}")
        return pages

    def own_page(self, key: str, one: Initiative) -> str | None:
        """Return the only page of an initiative, if it is as Holdfast would write it now.

        Such a page says what the record says, and needs no parser.
        """
        places = self._pages(self.folder(key, one))
        is_own = len(places) == 1 and self.read(places[0]) == fresh(one)
        return places[0] if is_own else None

    @staticmethod
    def page(place: str, raw: bytes, known: Collection[str]) -> Page:
        """Parse a page; its name may tell which milestone its tasks belong to."""
        folder, name = os.path.split(place)
        try:
            return Page(raw, os.path.basename(folder) if name == README else name, known)
        except BadPage as bad:
            raise bad_file(place, bad) from None

    def _pages(self, folder: str) -> list[str]:
        names = self._names(folder)
        folders = [name for name in names if os.path.isdir(self._from_root(f"{folder}/{name}"))]
        files = [name for name in names if name not in folders and name != README]
        pages = [f"{folder}/{name}" for name in files if name.endswith(".md")]
        below = [f"{folder}/{name}/{README}" for name in folders]
        inner = [page for page in below if os.path.isfile(self._from_root(page))]
        first = [f"{folder}/{README}"] if README in names else []
        every = [*first, *sorted([*pages, *inner], key=_natural)]
        if len(every) > _MAX_PAGES:
            why = f"{folder} has {len(every)} pages; {_MAX_PAGES} are the most"
            raise Refused("too_many", f"initiative: {why}", "move what is no milestone elsewhere")
        return every

    def folders(self) -> list[str]:
        """Return the names of all folders that may be an initiative's."""
        return [name for name in self._names(self._top) if self._may_be_one(name)]

    def _may_be_one(self, name: str) -> bool:
        place = f"{self._top}/{name}"
        if not is_encodable(name) or not os.path.isdir(self._from_root(place)):
            return False
        # One that leads out of the workspace is named too: whoever wants it learns why not.
        return not self._workspace.contains(place) or bool(self._names(place))

    def _names(self, folder: str) -> list[str]:
        if not os.path.isdir(self._from_root(folder)):
            return []
        try:
            listed = os.listdir(self.path(folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(folder, error) from error
        return sorted([name for name in listed if not name.startswith(".")], key=_natural)


def parse_status(place: str, raw: bytes) -> Status:
    """Parse ``WORKFLOW-STATUS.yaml``; refuse a broken one with its line."""
    try:
        return Status(raw)
    except BadStatus as bad:
        raise bad_file(place, bad) from None


def _unreadable(place: str, error: OSError) -> Fault:
    why = f"{place} cannot be read ({error.strerror})"
    return Fault("unreadable", why, f"see to {place}, then run the same command again")


def bad_file(place: str, bad: BadStatus | BadPage) -> Refused:
    return Refused(
        "bad_file",
        f"{place}: line {bad.line}: {bad.why}; nothing was changed",
        f"mend line {bad.line} of {place}, then run the same command again",
        path=place,
        line=bad.line,
        why=bad.why,
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which M2 comes before M10."""
    parts: list[tuple[int, str]] = []
    number = ""
    for letter in f"{name}\0":
        if letter.isdecimal():
            number += letter
            continue
        if number:
            parts.append((int(number), ""))
            number = ""
        parts.append((-1, letter))
    return parts
