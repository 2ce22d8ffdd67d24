"""Remove the records of expired workflows, and of skill workflows that ended long ago.

Each removal is an event, and nothing is lost: ``holdfast resume ID`` restores the workflow.
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
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_CLEANED = "cleaned_at"
_EVERY = "1h"
_MAX_AT_ONCE = 100
"""The number of records that automatic cleaning removes at a time, to keep the command fast."""


def list_due(store: Store) -> list[Fields]:
    """Return ``id``, ``why`` and ``record`` of each workflow that ``clean`` would remove now."""
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
    """Remove the records that are due, at most ``most`` of them; return their rows."""
    store = tx.store
    cleaned = []
    for row in list_due(store)[:most]:
        # Loading adopts an edit of the record, or else expires a workflow whose time has run out.
        state = tx.load(row["id"])
        if state is None or state["status"] in selection.ACTIVE:
            continue
        if state["status"] != "expired":
            tx.do(row["id"], "clean_record", {})
        cleaned.append(row)
    tx.put_fact(_CLEANED, store.now())
    tx.commit()
    _remove_spares(store)
    return cleaned


def _remove_spares(store: Store) -> None:
    """Remove the temporary files of killed writers beside the index."""
    folder = os.path.dirname(os.path.join(store.workspace.root, skill_index.NAME))
    if not os.path.isdir(folder) or not os.path.isdir("/proc/self"):
        return
    for name in os.listdir(folder):
        writer = name.removesuffix(SPARE).rpartition(".")[2]
        if name.endswith(SPARE) and writer.isdecimal() and not os.path.isdir(f"/proc/{writer}"):
            store.disk.remove(os.path.join(folder, name))


def clean_at_times(tx: Transaction) -> None:
    """Run ``clean`` at most once an hour. An error only adds a note to the command's answer."""
    store = tx.store
    try:
        last = store.ledger.fact(_CLEANED)
        if last and not times.is_past(store.now_ms(), last, _EVERY):
            return
        for row in clean(tx, _MAX_AT_ONCE):
            store.note(f"{row['id']} left the folder ({row['why']}): holdfast resume {row['id']}")
    except (OSError, HoldfastError) as error:
        store.note(f"cleaning up did not work ({error})")
