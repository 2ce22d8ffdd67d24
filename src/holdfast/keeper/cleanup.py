"""Cleaning: what has expired, and records of skill workflows that ended long ago, leave the folder.

Each is an event, and nothing is lost by it: ``holdfast resume ID`` brings the workflow back.
"""

from __future__ import annotations

import os

from holdfast.core import selection
from holdfast.core import time as times
from holdfast.core.record_formats import formats_with
from holdfast.errors import HoldfastError
from holdfast.storage import skill_index
from holdfast.storage.ledger import ACTIVE
from holdfast.system.disk import SPARE
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_CLEANED = "cleaned_at"
EVERY = "1h"
_MAX_AT_ONCE = 100
"""How many are let go by the way, so that nobody waits for it."""


def due(store: Store) -> list[Fields]:
    """What would go now: ``id``, ``why`` and ``record`` of each."""
    kept = settings.load(store.workspace.root).completed_kept()
    now_ms = store.now_ms()
    rows = [
        {"id": row["id"], "why": f"inactive > {row['ttl']}", "record": row["record"]}
        for row in store.ledger.rows(f"{ACTIVE} AND ttl IS NOT NULL")
        if selection.has_run_out(row, now_ms)
    ]
    for row, path in store.ledger.completed_records(formats_with("completed")):
        if not times.is_past(now_ms, row["updated_at"], kept):
            break
        why = f"{row['status']} > {kept} ago"
        rows.append({"id": row["id"], "why": why, "record": path})
    return rows


def clean(tx: Transaction, most: int | None = None) -> list[Fields]:
    """Let it go, under the lock; at most so many."""
    store = tx.store
    gone = []
    for row in due(store)[:most]:
        # What expired goes by being loaded; an edit of the record since is taken in by it.
        state = tx.load(row["id"])
        if state is None or state["status"] in selection.ACTIVE:
            continue
        if state["status"] != "expired":
            tx.do(row["id"], "clean_record", {})
        gone.append(row)
    tx.put_fact(_CLEANED, store.now())
    tx.commit()
    _sweep(store, os.path.dirname(os.path.join(store.workspace.root, skill_index.NAME)))
    return gone


def _sweep(store: Store, folder: str) -> None:
    """Remove what killed writers left of views that they had not put in place."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        writer = name.removesuffix(SPARE).rpartition(".")[2]
        if name.endswith(SPARE) and writer.isdecimal() and not _is_running(int(writer)):
            store.disk.remove(os.path.join(folder, name))


def _is_running(process: int) -> bool:
    return os.path.isdir(f"/proc/{process}") or not os.path.isdir("/proc/self")


def clean_at_times(session: Session, tx: Transaction) -> None:
    """Run ``clean`` at most once an hour. Errors become notes: what was asked for is done."""
    store = session.store
    try:
        last = store.ledger.fact(_CLEANED)
        if last and not times.is_past(store.now_ms(), last, EVERY):
            return
        for row in clean(tx, _MAX_AT_ONCE):
            store.note(f"{row['id']} left the folder ({row['why']}): holdfast resume {row['id']}")
    except (OSError, HoldfastError) as error:
        store.note(f"cleaning up did not work ({error})")
