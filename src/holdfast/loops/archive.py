"""Put a loop's folder into the archive.

The event that names the new path of the record comes first, then the pages follow. If the process
is killed in between, the next command on the loop moves the rest.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.errors import Fault, Refused
from holdfast.formats import signature
from holdfast.keeper.loop_folder import (
    HOME,
    PROGRESS,
    RECORD,
    active_record,
    folder_of,
    free_archive_folder,
    move_files,
)
from holdfast.loops import page_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction


def archive(tx: Transaction, stream: str, id: str | None = None) -> tuple[Workflow, list[int]]:
    """End a loaded loop and move its folder; return its state and the seqs.

    Raise ``Refused`` if the whole folder is in the archive already.
    """
    store = tx.store
    state: Workflow = tx.state(stream)
    if formats.is_archived(state["record"]):
        if not finish_move(tx, state):
            raise Refused(
                "already",
                f"loop archive: {state['id']} is in the archive",
                f"holdfast resume {state['id']} brings it back",
            )
        return state, []
    page_files.write_pages(store, state)
    # Adds the archive to git's exclude file, which an older workspace lacks.
    store.workspace.prepare(store.disk, store.note)
    folder = free_archive_folder(_root(store, state), state["id"], store.now())
    events = tx.do(stream, "archive_loop", {"record": f"{folder}/{RECORD}"}, id)
    tx.commit(is_asked=True)
    state = tx.state(stream)
    try:
        finish_move(tx, state)
    except (OSError, Fault) as error:
        # The event is committed: a failed move must not look like a failed command.
        tx.forget(stream)
        why = error.message if isinstance(error, Fault) else error.strerror or error
        store.note(f"not all of its folder could be moved ({why}): holdfast loop archive")
    return state, [event["seq"] for event in events]


def finish_move(tx: Transaction, state: Workflow) -> bool:
    """Move what is still in an archived loop's old folder; return whether something was."""
    store = tx.store
    new = folder_of(store.workspace, state)
    if new is None or not formats.is_archived(state["record"]):
        return False
    root = _root(store, state)
    old = os.path.dirname(store.workspace.inside(root, active_record(state)))
    if os.path.lexists(os.path.join(new, PROGRESS)):
        store.disk.remove_folder(old)
        return False
    if not os.path.isdir(old):
        return False
    # The writer may have been killed before it wrote the new record or removed the old one.
    store.files.remove(os.path.join(old, RECORD))
    raw = store.files.read(os.path.join(new, RECORD))
    written = store.ledger.record(state["worktree"], state["record"])
    if raw is None or written is None or not signature.is_record(raw, written["digest"]):
        tx.expect(state["id"], raw)
        tx.show(state["id"])
        tx.commit()
    page_files.LoopFolder(store, state, old).append_progress()
    move_files(store, root, old, new, last=PROGRESS)
    return True


def archive_old_pages(store: Store, slug: str) -> None:
    """Move the pages that an earlier loop of this name left in this worktree into the archive.

    The brief, which identifies them, moves last, so that a killed move is repeated.
    """
    workspace = store.workspace
    archived = free_archive_folder(workspace.root, slug, store.now())
    source, target = (
        os.path.dirname(workspace.inside(workspace.root, f"{folder}/{RECORD}"))
        for folder in (f"{HOME}/{slug}", archived)
    )
    move_files(store, workspace.root, source, target, last="brief.md")
    store.note(f"pages of an earlier {slug} stood here, and are now in {archived}")


def _root(store: Store, state: Workflow) -> str:
    return store.workspace.root_of(state["worktree"]) or store.workspace.root
