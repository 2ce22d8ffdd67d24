"""Empty files whose presence tells hooks and later commands something at the price of one stat.

``unread``, beside the ledger: an active workflow may require reading. ``.holdfast``, beside formal
records: Holdfast wrote records here. Where it is gone, a tool cleaned the work tree, and a missing
record does not mean that its workflow is completed.
"""

from __future__ import annotations

import os

from holdfast.core.record_formats import FORMATS, formats_with
from holdfast.core.workflow.state import is_active, unread
from holdfast.errors import Fault
from holdfast.keeper.record_writer import LoadedStream
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.keeper.store import Store

_FORMAL_MARK = next(spec.mark for spec in FORMATS.values() if spec.mark)
_FORMAL = f"{ACTIVE} AND worktree = ? AND format IN ({formats_with('mark')})"


def mark_unread(store: Store, streams: Iterable[LoadedStream]) -> None:
    """Make the mark before a state that requires reading is committed."""
    if any(map(_has_unread, streams)):
        store.mark_unread()


def unmark_unread(store: Store, streams: list[LoadedStream]) -> None:
    """Remove the mark when the last file was read. A mark too many only costs time."""
    if any(map(_has_unread, streams)) or not any(map(_had_unread, streams)):
        return
    try:
        if not store.ledger.count(f"unread IS NOT NULL AND {ACTIVE}"):
            store.disk.remove(store.workspace.unread_mark)
    except (OSError, Fault):
        return


def _has_unread(loaded: LoadedStream) -> bool:
    return loaded.is_workflow and is_active(loaded.state) and bool(unread(loaded.state))


def _had_unread(loaded: LoadedStream) -> bool:
    return loaded.is_workflow and loaded.before is not None and bool(unread(loaded.before))


def missing_formal_marks(store: Store, streams: dict[str, LoadedStream]) -> list[str]:
    """Return the marks that are gone, and add every formal record beside them to ``streams``."""
    worktrees = {
        loaded.state["worktree"] for loaded in streams.values() if loaded.ends_when_removed
    }
    missing = []
    for worktree in worktrees:
        root = store.workspace.root_of(worktree)
        if root is None or os.path.lexists(os.path.join(root, _FORMAL_MARK)):
            continue
        missing.append(os.path.join(root, _FORMAL_MARK))
        for held in list(store.ledger.states(_FORMAL, worktree)):
            path = store.path_of(worktree, held.state["record"])
            name = held.row["stream"]
            if name not in streams and path is not None and not os.path.lexists(path):
                streams[name] = LoadedStream(name, held.state, held.row)
                streams[name].is_shown = True
                store.note(f"{held.state['record']} was gone and is rebuilt")
    return missing


def make_formal_mark(store: Store, path: str) -> None:
    """Make the mark beside formal records. Without it a removed record is rebuilt."""
    try:
        store.disk.make_folder(os.path.dirname(path))
        store.disk.create(path, b"")
    except OSError:
        return
