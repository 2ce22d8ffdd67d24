"""Remove and restore records of ended workflows; move the folders of loops.

The records of expired workflows, and of skill workflows that ended long ago, are removed. Each
removal is an event, and ``holdfast resume ID`` restores the workflow.

The folder of a loop has its record, its pages and its log. It moves into the archive, out of it, or
into another worktree, one file at a time. Nothing in the target is overwritten. If the process is
killed, the next ``archive`` or ``resume`` moves the rest.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import unknown_workflows
from holdfast.core import selection
from holdfast.core import time as times
from holdfast.core.record_formats import formats_with
from holdfast.core.workflow import is_active
from holdfast.errors import HoldfastError
from holdfast.storage.ledger import ACTIVE
from holdfast.system.disk import FOLDER, ODD
from holdfast.workspace import settings
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.workspace.location import Workspace

HOME = ".claude/iterative"
ARCHIVE = f"{HOME}/archive"
RECORD = "state.json"
PROGRESS = "progress.md"
_SPARE = ".state.json.holdfast"
_CLEANED = "cleaned_at"
_EVERY = "1h"
_MAX_AT_ONCE = 100
"""The number of records that automatic cleaning removes at a time, to keep the command fast."""


def list_active_here(store: Store) -> list[Fields]:
    """Return ``id``, ``why`` and ``record`` of each active workflow of this worktree."""
    rows = store.ledger.rows(f"{ACTIVE} AND worktree = ? ORDER BY seq", store.workspace.name)
    states = [*rows, *(s for s in unknown_workflows.peek_all(store) if is_active(s))]
    return [{"id": s["id"], "why": s["title"], "record": s["record"]} for s in states]


def abandon_all(tx: Transaction, reason: str | None) -> list[Fields]:
    """Abandon every active workflow of this worktree; return their rows."""
    unknown_workflows.adopt_all(tx)
    abandoned = []
    for row in list_active_here(tx.store):
        state = tx.load(row["id"])
        if state is not None and is_active(state):
            tx.check_lease(row["id"])
            tx.do(row["id"], "abandon_workflow", {"reason": reason})
            tx.commit()
            abandoned.append(row)
    return abandoned


def list_ended_here(store: Store) -> list[Fields]:
    """Return the rows of the ended workflows whose records are in this worktree's folders."""
    return [
        {"id": row["id"], "why": row["status"], "record": path}
        for row, path in store.ledger.completed_records(formats_with("completed"))
        if row["worktree"] == store.workspace.name
    ]


def clean_all(tx: Transaction) -> list[Fields]:
    """Abandon every active workflow of this worktree, and remove the records of ended ones.

    Return a row for each.
    """
    rows = abandon_all(tx, "holdfast clean --all")
    ended = list_ended_here(tx.store)
    for row in ended:
        if tx.load(row["id"]) is not None:
            tx.do(row["id"], "clean_record", {})
    tx.commit()
    known = [row["id"] for row in rows]
    return [*rows, *(row for row in ended if row["id"] not in known)]


def list_due(store: Store) -> list[Fields]:
    """Return ``id``, ``why`` and ``record`` of each workflow that ``clean`` would remove now."""
    period = settings.load(store.workspace.root).completed_kept
    now_ms = store.now_ms()
    rows = [
        {"id": row["id"], "why": f"inactive > {row['ttl']}", "record": row["record"]}
        for row in store.ledger.rows(f"{ACTIVE} AND ttl IS NOT NULL")
        if store.has_run_out(row)
    ]
    for row, path in store.ledger.completed_records(formats_with("completed")):
        if not times.is_past(now_ms, row["updated_at"], period):
            break
        why = f"{row['status']} > {period} ago"
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
    return cleaned


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


# The folder of a loop


def folder_of(workspace: Workspace, state: Workflow) -> str | None:
    """Return the absolute path of a loop's folder; ``None`` if its worktree is gone."""
    root = workspace.root_of(state["worktree"])
    return None if root is None else os.path.dirname(workspace.inside(root, state["record"]))


def active_record(state: Workflow) -> str:
    """Return the path of a loop's record while it is not archived."""
    if not formats.is_archived(state["record"]):
        return state["record"]
    default = formats.active_path("loop", state["id"], state["created_at"])
    return state.get("archived_from", default)


def bring_here(tx: Transaction, state: Workflow) -> str:
    """Move a loop's folder from the archive or another worktree to its place in this worktree.

    Return the path of its record. The event is recorded afterwards. If the process is killed before
    that, some pages are here and the loop is where it was; another ``resume`` moves the rest.
    """
    store = tx.store
    record = active_record(state)
    source = folder_of(store.workspace, state)
    target = os.path.dirname(store.workspace.inside(store.workspace.root, record))
    is_own = os.path.dirname(os.path.dirname(state["record"])) in (HOME, ARCHIVE)
    if source is not None and source != target and is_own:
        # The record of an active loop is written after the event.
        with_record = formats.is_archived(state["record"])
        root = store.workspace.root
        move_files(store, root, source, target, first=PROGRESS, with_record=with_record)
    return record


def move_files(
    store: Store, root: str, source: str, target: str, *, first: str = "", last: str = "",
    with_record: bool = True,
) -> None:  # fmt: skip
    """Move every file of a folder. A file in the way of a page is renamed first.

    The log enters the archive last and leaves it first: a folder with a log is complete. ``root``
    is that of the target's worktree.
    """
    disk = store.disk
    try:
        names = sorted(names_in(source), key=lambda name: (name == last, name != first, name))
    except OSError:
        return
    if not with_record:
        names = [name for name in names if name != RECORD and not name.startswith(_SPARE)]
    if names:
        disk.make_folder(target)
        # People's files move into the target: its name has to be durable before, theirs before the
        # source is removed.
        store.files.sync_names(target, root)
    for name in names:
        page, path = os.path.join(source, name), os.path.join(target, name)
        if os.path.lexists(path):
            renamed = _free_path(target, name)
            disk.move(path, renamed)
            content = disk.read_own(renamed)
            if content not in (FOLDER, ODD) and content == disk.read_own(page):
                disk.remove(renamed)
            else:
                store.note(f"another {name} stood here, and is now {os.path.basename(renamed)}")
        disk.move_across(page, _free_path(target, name))
    if names:
        disk.sync_folder(target)
    disk.remove_folder(source)


def _free_path(folder: str, name: str) -> str:
    stem, ending = os.path.splitext(name)
    number = 2
    while os.path.lexists(os.path.join(folder, name)):
        name, number = f"{stem}-{number}{ending}", number + 1
    return os.path.join(folder, name)


def free_archive_folder(root: str, slug: str, now: str) -> str:
    """Return a free path in the archive: ``SLUG-20260114``, else with a number appended."""
    stem = f"{ARCHIVE}/{slug}-{now[:10].replace('-', '')}"
    path, number = stem, 2
    while _is_taken(os.path.join(root, path)):
        path, number = f"{stem}-{number}", number + 1
    return path


def _is_taken(folder: str) -> bool:
    """Return whether a folder has files besides the spare of a killed writer."""
    if not os.path.lexists(folder):
        return False
    try:
        return not set(names_in(folder)) <= {_SPARE}
    except OSError:
        return True
