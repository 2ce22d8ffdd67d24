"""What the pages of a loop said when they were last written, kept in a file beside the ledger.

By it an edit can be told from a page that a killed process left behind.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Workflow
    from holdfast.keeper.store import Store

_FOLDER = "pages"
_MAX_KNOWN = 8
"""So many texts of the page of units are known again: more than any number of kills in a row."""


class Remembered:
    """The memory of one loop's pages."""

    def __init__(self, store: Store, state: Workflow) -> None:
        self._disk = store.disk
        self._created_at = state["created_at"]
        self._path = os.path.join(store.workspace.home, _FOLDER, f"{state['id']}.json")

    def read(self) -> Fields:
        """Return the page of ``units``, the digest of ``context``, how far the ``log`` is known,
        and the digests of those texts of the page of units of which all is ``known``.

        Return nothing where nobody remembers, or of an earlier loop of this name.
        """
        try:
            memory = json_text.loads(self._disk.read(self._path) or b"{}", strict=True)
        except json_text.BadJson:
            return {}
        is_this_run = isinstance(memory, dict) and memory.get("created_at") == self._created_at
        return memory if is_this_run else {}

    def knows(self, text: str) -> bool:
        """True if all of a page of units is in the ledger, though it may say what was true before.

        A writer that died, or a power cut, leaves such a page: it is no edit.
        """
        return digest(text.encode()) in known_pages(self.read())

    def learn(self, text: str) -> None:
        """Remember that all of this page of units is in the ledger."""
        memory = self.read()
        marks = known_pages(memory)
        mark = digest(text.encode())
        if mark not in marks:
            blank: Fields = {"created_at": self._created_at, "units": ""}
            self.keep({**blank, **memory, "known": [*marks, mark][-_MAX_KNOWN:]})

    def keep(self, memory: Fields) -> None:
        """Replace what is remembered."""
        self._disk.make_folder(os.path.dirname(self._path), 0o700)
        self._disk.replace_view(self._path, json_text.line_of(memory).encode())


def known_pages(memory: Fields) -> list[Json]:
    """Return the digests of the pages of units of which all is in the ledger."""
    marks = memory.get("known")
    return marks if isinstance(marks, list) else []
