"""Collect a page of a workspace's workflows for a board. Nothing here takes a lock or writes.

Only as many rows as a page shows are read, each by an index, so a page costs the same whatever the
ledger has beside it. States are not read here: whoever shows a board keeps them, and asks again
for those whose ``stamp`` is another one.
"""

from __future__ import annotations

import os

from holdfast.core.json_text import is_encodable
from holdfast.errors import HoldfastError
from holdfast.storage.ledger import ACTIVE, ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store

MAX_COUNTED = 1_000
"""The number up to which active workflows are counted."""
_NEWEST_FIRST = "ORDER BY updated_at DESC, seq DESC"


def page(session: Session, most: int, before: tuple[str, int] | None, most_ended: int) -> Fields:
    """Return at most ``most`` active workflows, the newest first, and the sessions that are live.

    ``before`` is the ``next`` of the page before this one. The first page also has the workflows
    that ended last.
    """
    store = session.store
    ledger = store.ledger
    with ledger.database.reading():
        where, values = ACTIVE, ()  # type: tuple[str, tuple[object, ...]]
        if before is not None and is_encodable(before[0]):
            where, values = f"{ACTIVE} AND (updated_at, seq) < (?, ?)", before
        rows = ledger.rows(f"{where} {_NEWEST_FIRST} LIMIT {most + 1}", *values)
        ended = [] if before else ledger.rows(f"{ENDED} {_NEWEST_FIRST} LIMIT {most_ended}")
        shown = rows[:most]
        last = shown[-1] if len(rows) > most else None
        return {
            "seq": ledger.head_seq,
            "rows": [{**row, **_record_of(store, row)} for row in shown],
            "ended": ended,
            "next": None if last is None else [last["updated_at"], last["seq"]],
            "active": ledger.count_up_to(MAX_COUNTED, ACTIVE),
            "live": session.live(shown),
        }


def _record_of(store: Store, row: Fields) -> Fields:
    """Return the path of a workflow's record, and what the file system says of it now.

    ``stamp`` changes whenever the state does, or the record is edited. The path is ``None`` if the
    record is not on this machine.
    """
    path, file = None, None
    try:
        path = store.path_of(row["worktree"], row["record"])
        stat = None if path is None else os.lstat(path)
        file = None if stat is None else (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except (OSError, HoldfastError):
        file = None
    stamp = [row["version"], row["hash"], file, store.has_run_out(row)]
    return {"stamp": stamp, "path": path, "file": file}
