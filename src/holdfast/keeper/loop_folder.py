"""The folder of a loop: its record, its pages and its log, and how they move together.

A folder moves into the archive, out of it, or into another worktree, one file at a time. Nothing in
the target is overwritten. If the process is killed, the next ``archive`` or ``resume`` moves the
rest.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.system.disk import FOLDER, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.workspace.location import Workspace

HOME = ".claude/iterative"
ARCHIVE = f"{HOME}/archive"
RECORD = "state.json"
PROGRESS = "progress.md"
_SPARE = ".state.json.holdfast"


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

    Return the path of its record. The event follows: a process that is killed before it leaves some
    pages here and the loop where it was, and another ``resume`` moves the rest.
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
    try:
        names = sorted(os.listdir(source), key=lambda name: (name == last, name != first, name))
    except OSError:
        return
    if not with_record:
        names = [name for name in names if name != RECORD and not name.startswith(_SPARE)]
    if names:
        store.disk.make_folder(target)
        # People's files move into the target: its name has to be durable before, theirs before the
        # source is removed.
        store.files.sync_names(target, root)
    for name in names:
        _clear_way(store, os.path.join(source, name), os.path.join(target, name))
        store.disk.move_across(os.path.join(source, name), _free_path(target, name))
    if names:
        store.disk.sync_folder(target)
    store.disk.remove_folder(source)


def _clear_way(store: Store, page: str, path: str) -> None:
    """Rename what is in the way of a page; remove it if it is an equal copy."""
    if not os.path.lexists(path):
        return
    folder, name = os.path.split(path)
    renamed = _free_path(folder, name)
    store.disk.move(path, renamed)
    content = store.disk.read_own(renamed)
    if content not in (FOLDER, ODD) and content == store.disk.read_own(page):
        store.disk.remove(renamed)
    else:
        store.note(f"another {name} stood here, and is now {os.path.basename(renamed)}")


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
    """Return whether a folder has files. One spare is left by a writer killed before its commit."""
    if not os.path.lexists(folder):
        return False
    try:
        return not set(os.listdir(folder)) <= {_SPARE}
    except OSError:
        return True
