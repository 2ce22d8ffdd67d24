"""Read a few rows of the ledger in the least time, for a status line.

``database`` opens the ledger for all others, and knows what to do about each trouble. Here nothing
is done about any: no lock is taken, and nothing is written, copied or brought up to date. Rows are
not compared with their digests.
"""

from __future__ import annotations

import os
import sys
from _functools import _lru_cache_wrapper  # type: ignore[import-not-found]
from stat import S_ISREG

from holdfast.core import json_text
from holdfast.storage import ACTIVE, GLANCE, LOST, POOL
from holdfast.workspace.location import LEDGER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection
    from typing import Any

    from holdfast.core.types import Fields


class _Functools:
    """In place of ``functools``: the one function that ``_sqlite3`` takes from it, as it is there.

    Importing ``functools`` takes as long as all modules of ours together.
    """

    @staticmethod
    def lru_cache(size: int) -> Callable[[Any], Any]:
        return lambda function: _lru_cache_wrapper(function, size, False, tuple)


_is_loaded = "functools" in sys.modules
if not _is_loaded:
    sys.modules["functools"] = _Functools  # type: ignore[assignment]
try:
    import _sqlite3
finally:
    if not _is_loaded:
        del sys.modules["functools"]

_WAIT_S = 0.1
_BESIDE = ("-wal", "-shm", "-journal")
_COLUMNS = (
    "stream", "title", "status", "phase", "phase_status", "phase_index", "phase_total",
    "tasks_done", "tasks_total", "branch", "floating", "worktree", "session", "ttl", "updated_at",
    "glance", "lost",
)  # fmt: skip
_SELECT = (
    f"SELECT {', '.join(_COLUMNS[:-2])},"
    f" (SELECT value FROM facts WHERE name = '{GLANCE}' || stream),"
    f" (SELECT value FROM facts WHERE name = '{LOST}' || ?) FROM streams WHERE {ACTIVE} AND"
)


class QuickLook:
    """The ledger in a folder, for a session, whose name is empty if there is none.

    Raise ``OSError`` if there is no ledger; trouble with it is an error of SQLite, or ``BadJson``.
    """

    def __init__(self, folder: str, session: str) -> None:
        self._session = session
        path = os.path.join(folder, LEDGER)
        for end in ("", *_BESIDE):
            _check(path + end, is_needed=not end)
        self._connection: Connection = _sqlite3.connect(
            f"file:{_uri(path)}?mode=ro", uri=True, isolation_level=None, timeout=_WAIT_S
        )

    def own(self) -> Fields | None:
        """Return the row of the workflow that the session took up last; ``None`` if it has none.

        It is also ``None`` if the session lost a lease: then more has to be looked at.
        """
        rows = self.rows("session_id = ?", self._session) if self._session else []
        if not rows or rows[0]["lost"]:
            return None
        return max(rows, key=lambda row: int((row["session"] or {}).get("seq", 0)))

    def rows(self, where: str, *values: object) -> list[Fields]:
        """Return the rows of active workflows, each with its ``glance``; ``where`` may end in more.

        ``lost`` is the workflow that the session lost to another one, if there is one.
        """
        found = self._connection.execute(f"{_SELECT} {where}", (self._session, *values))
        rows = []
        for values_found in found:
            row: Fields = dict(zip(_COLUMNS, values_found, strict=True))
            row["id"] = row["stream"]
            for name in ("session", "glance"):
                row[name] = json_text.loads(row[name]) if row[name] else None
            rows.append(row)
        return rows

    def lost(self) -> str:
        """Return the workflow that the session lost to another one; empty if there is none."""
        return self._fact(f"{LOST}{self._session}") if self._session else ""

    def leases(self, now_ms: int) -> dict[str, tuple[str, bool]]:
        """Return the holder of each stream that was taken from the pool; whether its lease runs."""
        if not self._fact(POOL):
            return {}
        query = "SELECT stream, holder, until_ms FROM leases WHERE holder <> ''"
        return {row[0]: (row[1], row[2] > now_ms) for row in self._connection.execute(query)}

    def _fact(self, name: str) -> str:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row is not None else ""


def _check(path: str, *, is_needed: bool) -> None:
    """Raise ``OSError`` if the path is not an ordinary file, which SQLite might wait for."""
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        if is_needed:
            raise
        return
    if not S_ISREG(stat.st_mode) or (is_needed and not stat.st_size):
        raise OSError(f"{path} is not an ordinary file")


def _uri(path: str) -> str:
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02X}")
    return path
