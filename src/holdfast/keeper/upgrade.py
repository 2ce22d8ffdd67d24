"""Take over an earlier ledger at the first command, if the new ledger is still empty.

It is a ledger of version 0.1, or one made before its folder became a git repository.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.evidence import git
from holdfast.keeper.transfer import take_in
from holdfast.storage import version_0_1
from holdfast.storage.database import NAME, Database
from holdfast.workspace.location import OLD_LEDGER, is_own_ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store

_WAIT_S = 10.0


def upgrade(session: Session) -> None:
    """Move or import an earlier ledger, once. After a failure, add a note and continue."""
    store = session.store
    try:
        if not _move_into_git(store):
            _take_in_0_1(session)
    except (HoldfastError, OSError) as error:
        store.note(f"the ledger in .claude/holdfast could not be taken over ({error})")


def _move_into_git(store: Store) -> bool:
    """Move a ledger from before ``git init`` into git's folder; return False if there is none.

    A ledger that is not on this person's list came with the folder and is not trusted.
    """
    workspace = store.workspace
    source = os.path.join(workspace.root, ".claude", "holdfast")
    path = os.path.join(source, NAME)
    if source == workspace.home or not os.path.exists(path) or not is_own_ledger(source):
        return False
    old = Database(source, store.disk, _WAIT_S, lambda: False)
    if not store.ledger.database.move_in(old):
        return False
    workspace.prepare(store.disk, store.note)
    workspace.list_ledger(store.disk)
    store.mark_unread()
    where = os.path.relpath(workspace.home, workspace.root)
    store.note(
        f"the ledger moved from .claude/holdfast to {where}, where git clean cannot reach it"
    )
    return True


def _take_in_0_1(session: Session) -> None:
    """Import a version 0.1 ledger, unless it came with the repository. Its files are kept."""
    store = session.store
    folder = version_0_1.find(store.workspace.old_homes)
    old = None if folder is None else version_0_1.OldLedger(folder, store.disk)
    if folder is None or old is None or not old.rows:
        return
    shown = os.path.relpath(folder, store.workspace.root)
    if store.workspace.git and git.ask(store.workspace.root, "ls-files", "--", folder):
        store.note(
            f"the ledger of version 0.1 in {shown} came with the repository and was not taken in; "
            f"if it is yours: holdfast import {shown}/{OLD_LEDGER}"
        )
        return
    with session.transaction() as tx:
        if store.ledger.head_seq:
            return  # Another process was first.
        store.workspace.keep_names(store.disk)
        tx.begin(old.identity)
        take_in(tx, old.rows, {}, None)
        store.note(
            f"the ledger of version 0.1 was taken in, {len(old.rows)} events; its files stay in "
            f"{shown}, and what was run then counts as a claim now"
        )
        if old.damaged:
            store.note(f"{old.damaged} of its lines are no events and were left out")
        tx.commit()
