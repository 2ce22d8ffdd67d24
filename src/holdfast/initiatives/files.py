"""Bring ``WORKFLOW-STATUS.yaml`` and the milestone pages to what the record of initiatives says.

They are level-triggered: what is written is the state of now, whatever was missed before. The files
belong to people too, so they are patched, under a lock of their own and never under the ledger's.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused
from holdfast.initiatives import pages, sources, status_yaml
from holdfast.initiatives.comparison import MEND
from holdfast.initiatives.paths import bad_file
from holdfast.storage import shared_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.source_of_truth import Source
    from holdfast.core.types import Initiative
    from holdfast.initiatives.paths import Places
    from holdfast.keeper.store import Store

    Here = tuple[str, Initiative]
    """The current initiative, and its key."""
    Patch = Callable[[bytes | None], bytes | None]
    """From what stands in a file to what shall stand there; ``None`` is no file."""

LOCK = "initiatives.lock"
WAIT_S = 5.0


class Files:
    """The files of the current initiative in one worktree."""

    def __init__(self, store: Store, places: Places, read: Callable[[], Here | None]) -> None:
        self._store = store
        self._places = places
        self._read = read
        """Reads the current initiative, under the lock."""
        self.compared: bytes | None = None
        """``WORKFLOW-STATUS.yaml`` as it was when it was last compared with the record."""

    def write(self) -> list[Source]:
        """Patch all files. Return what somebody saved in this very moment, and what is lost so."""
        lost: list[Source] = []

        def write(key: str, one: Initiative) -> None:
            lost.extend(self._write_status(key, one))
            self._tick(key, one)

        self._one_at_a_time(write)
        return lost

    def tick(self) -> None:
        """Tick the boxes of the pages, and patch nothing else."""
        self._one_at_a_time(self._tick)

    def _one_at_a_time(self, write: Callable[[str, Initiative], None]) -> None:
        disk, home = self._store.disk, self._store.workspace.home
        try:
            lock = disk.lock(os.path.join(home, LOCK), WAIT_S)
            try:
                here = self._read()
                if here is not None:
                    write(*here)
            finally:
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            self._store.note(f"not all files could be written ({why}): {MEND}")

    # WORKFLOW-STATUS.yaml

    def _write_status(self, key: str, one: Initiative) -> list[Source]:
        place = self._places.status(key, one)
        values, progress = sources.values_of(one)
        values["updated"] = one["updated_at"]
        own = sources.of_record(one)
        lost: list[Source] = []

        def patch(raw: bytes | None) -> bytes | None:
            if raw is None or not raw.strip():
                return status_yaml.fresh(values, progress)
            try:
                return status_yaml.Status(raw).with_values(values, progress)
            except status_yaml.BadStatus as bad:
                raise bad_file(place, bad) from None

        def patch_and_compare(raw: bytes | None) -> bytes | None:
            after = patch(raw)
            if raw is not None and raw != self.compared and raw.strip():
                saved = status_yaml.Status(raw).source(status_yaml.NAME, place)
                lost.extend([saved] if saved.differs(own) else [])
            return after

        self._clear(place, patch)
        self._settle(place, patch_and_compare)
        return lost[-1:]

    # Pages

    def _tick(self, key: str, one: Initiative) -> None:
        known = [each["id"] for each in one["milestones"]]
        for place, page in self._places.read_pages(key, one, known, is_strict=False):
            ticking = self._ticking(place, one, known)
            self._clear(place, ticking)
            before = page.text.encode("utf-8", "surrogateescape")
            if page.ticked(one, is_ours=_is_ours(one, place)) != before:
                self._settle(place, ticking)
        readme = f"{self._places.folder(key, one)}/README.md"
        if one.get("files") and not os.path.lexists(self._places.path(readme)):

            def begin(raw: bytes | None) -> bytes:
                return pages.fresh(one) if raw is None else raw

            self._clear(readme, begin)
            self._settle(readme, begin)

    def _ticking(self, place: str, one: Initiative, known: list[str]) -> Patch:
        def patch(raw: bytes | None) -> bytes | None:
            if raw is None:
                return None
            page = self._places.page(place, raw, known)
            return page.ticked(one, is_ours=_is_ours(one, place))

        return patch

    # Any file

    def _settle(self, place: str, patch: Patch) -> None:
        disk, path = self._store.disk, self._places.path(place)
        disk.make_folder(os.path.dirname(path))
        shared_file.settle(disk, path, patch, self._store.pause)

    def _clear(self, place: str, patch: Patch) -> None:
        """See to what a killed command left beside a file: the same with other values is ours."""
        disk, path = self._store.disk, self._places.path(place)

        def is_known(left: bytes) -> bool:
            there = disk.read(path)
            try:
                return patch(left) == patch(there)
            except Refused:
                return False

        for kept in shared_file.clear_spares(disk, path, is_known):
            name = os.path.basename(kept)
            self._store.note(f"what a killed command left beside {place} is kept as {name}")


def _is_ours(one: Initiative, place: str) -> bool:
    """True for the page that Holdfast itself began."""
    return bool(one.get("files")) and place.endswith("/README.md")
