"""Folders of loops that go into the archive, come back, or go along into another worktree; nothing
there is ever overwritten.

Whoever is killed in between is followed by somebody who moves the rest.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.errors import Fault, Refused
from holdfast.formats import signature
from holdfast.loops import page_files
from holdfast.system.disk import FOLDER, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_RECORD = "state.json"
_SPARE = ".state.json.holdfast"


def archive(tx: Transaction, stream: str, id: str | None = None) -> tuple[Workflow, list[int]]:
    """End a loaded loop that has not ended, and move its folder; return its state and the seqs.

    Raise ``Refused`` if all of it is in the archive already.
    """
    store = tx.store
    state: Workflow = tx.state(stream)
    if formats.is_archived(state["record"]):
        if not settle(tx, state):
            raise Refused(
                "already",
                f"loop archive: {state['id']} is in the archive",
                f"holdfast resume {state['id']} brings it back",
            )
        return state, []
    page_files.write_pages(store, state)
    # A workspace from before the archive was left out of git learns of it here.
    store.workspace.prepare(store.disk, store.note)
    name = _free_place(_root(store, state), state["id"], store.now())
    events = tx.do(stream, "archive_loop", {"record": f"{page_files.ARCHIVE}/{name}/{_RECORD}"}, id)
    tx.commit(is_asked=True)
    state = tx.state(stream)
    try:
        settle(tx, state)
    except (OSError, Fault) as error:
        # It is recorded: whoever asks again would hear of nothing else.
        tx.forget(stream)
        why = error.message if isinstance(error, Fault) else error.strerror or error
        store.note(f"not all of its folder could be moved ({why}): holdfast loop archive")
    return state, [event["seq"] for event in events]


def settle(tx: Transaction, state: Workflow) -> bool:
    """Move what still stands in an archived loop's old folder; say whether something did.

    The ledger says first where the record stands, then the pages follow.
    """
    store = tx.store
    new = page_files.folder_of(store.workspace, state)
    if new is None or not formats.is_archived(state["record"]):
        return False
    old = _old_folder(store, state)
    if os.path.lexists(os.path.join(new, page_files.PROGRESS)):
        store.disk.remove_folder(old)
        return False
    if not os.path.isdir(old):
        return False
    # The writer of the record may have died before it stood here, or before the old one was gone.
    store.files.remove(os.path.join(old, _RECORD))
    _show_again(tx, state, os.path.join(new, _RECORD))
    page_files.Folder(store, state, old).append_progress()
    _move_all(store, _root(store, state), old, new, last=page_files.PROGRESS)
    return True


def _show_again(tx: Transaction, state: Workflow, path: str) -> None:
    """Write a loaded loop's record, unless it stands in its place."""
    raw = tx.store.files.read(path)
    known = tx.store.ledger.record(state["worktree"], state["record"])
    if raw is None or known is None or not signature.is_record(raw, known["digest"]):
        tx.expect(state["id"], raw)
        tx.show(state["id"])
        tx.commit()


def bring_here(tx: Transaction, state: Workflow) -> str:
    """Move a loop's folder out of the archive, or out of another worktree, to where it will stand
    in this one, before the ledger says so; return the record's path.

    Whoever is killed in between left some of the pages here and the loop where it was, which
    another ``resume`` puts right; in the same worktree, ``archive`` does too.
    """
    store = tx.store
    record = _old_record(state)
    source = page_files.folder_of(store.workspace, state)
    target = os.path.dirname(store.workspace.inside(store.workspace.root, record))
    is_own = os.path.dirname(os.path.dirname(state["record"])) in (
        page_files.HOME,
        page_files.ARCHIVE,
    )
    if source is not None and source != target and is_own:
        # The record of an active loop follows the event that says so.
        whole = formats.is_archived(state["record"])
        _move_all(
            store, store.workspace.root, source, target, first=page_files.PROGRESS, whole=whole
        )
    return record


def put_away(store: Store, slug: str) -> None:
    """Move what an earlier loop of this name left in this worktree into the archive.

    The brief, by which that is known, goes last: whoever is killed is followed by another one.
    """
    workspace = store.workspace
    archived = f"{page_files.ARCHIVE}/{_free_place(workspace.root, slug, store.now())}"
    source, target = (
        os.path.dirname(workspace.inside(workspace.root, f"{folder}/{_RECORD}"))
        for folder in (f"{page_files.HOME}/{slug}", archived)
    )
    _move_all(store, workspace.root, source, target, last="brief.md")
    store.note(f"pages of an earlier {slug} stood here, and are now in {archived}")


def _old_record(state: Workflow) -> str:
    if not formats.is_archived(state["record"]):
        return state["record"]
    otherwise = formats.active_path("loop", state["id"], state["created_at"])
    return state.get("archived_from", otherwise)


def _root(store: Store, state: Workflow) -> str:
    return store.workspace.root_of(state["worktree"]) or store.workspace.root


def _old_folder(store: Store, state: Workflow) -> str:
    return os.path.dirname(store.workspace.inside(_root(store, state), _old_record(state)))


def _move_all(
    store: Store,
    root: str,
    source: str,
    target: str,
    *,
    first: str = "",
    last: str = "",
    whole: bool = True,
) -> None:
    """Move everything, page by page; what stands there under one of the names gets another one.

    The log goes last into the archive and leaves it first: where it stands, all of it stands.
    Without being ``whole``, it goes without its record.
    """
    try:
        names = sorted(os.listdir(source), key=lambda name: (name == last, name != first, name))
    except OSError:
        return
    if not whole:
        names = [name for name in names if name != _RECORD and not name.startswith(_SPARE)]
    if names:
        store.disk.make_folder(target)
        # What people wrote moves into it: it has to be there for certain, and so have they before
        # the other folder goes.
        store.files.sync_names(target, root)
    for name in names:
        _make_way(store, os.path.join(target, name), os.path.join(source, name))
        store.disk.carry(os.path.join(source, name), _free_name(target, name))
    if names:
        store.disk.sync_folder(target)
    store.disk.remove_folder(source)


def _make_way(store: Store, path: str, page: str) -> None:
    """Rename what stands in the path of a loop's own page, which is the one that is read."""
    if not os.path.lexists(path):
        return
    folder, name = os.path.split(path)
    aside = _free_name(folder, name)
    store.disk.move(path, aside)
    other = store.disk.read_own(aside)
    if other not in (FOLDER, ODD) and other == store.disk.read_own(page):
        store.disk.remove(aside)
    else:
        store.note(f"another {name} stood here, and is now {os.path.basename(aside)}")


def _free_name(folder: str, name: str) -> str:
    stem, ending = os.path.splitext(name)
    number = 2
    while os.path.lexists(os.path.join(folder, name)):
        name, number = f"{stem}-{number}{ending}", number + 1
    return os.path.join(folder, name)


def _free_place(root: str, slug: str, now: str) -> str:
    """Return ``slug-20260114``, or with a number where that is taken."""
    stem = f"{slug}-{now[:10].replace('-', '')}"
    name, number = stem, 2
    while _is_taken(os.path.join(root, page_files.ARCHIVE, name)):
        name, number = f"{stem}-{number}", number + 1
    return name


def _is_taken(folder: str) -> bool:
    """True if something stands there; what a writer left who died before its commit is nothing."""
    if not os.path.lexists(folder):
        return False
    try:
        return not set(os.listdir(folder)) <= {_SPARE}
    except OSError:
        return True
