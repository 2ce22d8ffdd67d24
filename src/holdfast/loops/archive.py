"""Folders of loops that go into the archive, come back, or go along into another worktree; nothing
there is ever overwritten.

Whoever is killed in between is followed by somebody who moves the rest.
"""

from __future__ import annotations

import os

from holdfast import home
from holdfast.caller import Receipt
from holdfast.disk import FOLDER, ODD
from holdfast.errors import Fault, Refused
from holdfast.faults import why
from holdfast.layers import records
from holdfast.loops import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Workflow
    from holdfast.engine import Engine

_RECORD = "state.json"
_SPARE = ".state.json.holdfast"


def archive(engine: Engine, caller: Caller, state: Workflow, id: str | None) -> Receipt:
    """Ends the loop where it has not ended, and moves its folder."""
    if records.is_archived(state["record"]):
        if not settle(engine, state):
            raise Refused(
                "already",
                f"loop archive: {state['id']} is in the archive",
                f"holdfast resume {state['id']} brings it back",
            )
        return Receipt(state, [], caller.notes())
    files.write_pages(engine, state)
    # A workspace from before the archive was left out of git learns of it here.
    home.exclude(engine.workspace, engine.disk, engine.note)
    place = _free_place(_root(engine, state), state["id"], engine.now())
    record = f"{files.ARCHIVE}/{place}/state.json"
    drafts = engine.decide(state, "archive_loop", {"record": record})
    after, events = engine.commit(state["id"], state, drafts, event_id=id, is_asked=True)
    try:
        settle(engine, after)
    except (OSError, Fault) as error:
        # It is recorded: whoever asks again would be told of nothing else.
        engine.note(f"not all of its folder could be moved ({why(error)}): holdfast loop archive")
    engine.close_full_segment()
    return Receipt(after, [event["seq"] for event in events], caller.notes())


def settle(engine: Engine, state: Workflow) -> bool:
    """Moves what still stands in an archived loop's old folder; says whether something did.

    The ledger says first where the record stands, then the pages follow.
    """
    new = files.folder_of(engine, state)
    if new is None or not records.is_archived(state["record"]):
        return False
    old = _old_folder(engine, state)
    if os.path.lexists(os.path.join(new, files.PROGRESS)):
        engine.disk.remove_folder(old)
        return False
    if not os.path.isdir(old):
        return False
    # The writer of the record may have died before it stood here, or before the old one was gone.
    engine.store.remove(os.path.join(old, _RECORD))
    engine.show_again(state["id"], engine.store.read(os.path.join(new, _RECORD)))
    files.append_progress(engine, state, old)
    _move_all(engine, _root(engine, state), old, new, last=files.PROGRESS)
    return True


def bring_here(engine: Engine, state: Workflow) -> str:
    """Moves a loop's folder out of the archive, or out of another worktree, to where it will stand
    in this one, before the ledger says so; gives the record's path.

    Whoever is killed in between left some of the pages here and the loop where it was, which
    another ``resume`` puts right; in the same worktree, ``archive`` does too.
    """
    record = _old_record(state)
    there = files.folder_of(engine, state)
    here = os.path.dirname(engine.workspace.inside(engine.workspace.root, record))
    is_one = os.path.dirname(os.path.dirname(state["record"])) in (files.HOME, files.ARCHIVE)
    if there is not None and there != here and is_one:
        # The record of an active loop follows the event that says so.
        whole = records.is_archived(state["record"])
        _move_all(engine, engine.workspace.root, there, here, first=files.PROGRESS, whole=whole)
    return record


def put_away(engine: Engine, slug: str) -> None:
    """Moves what an earlier loop of this name left in this worktree into the archive.

    The brief, by which that is known, goes last: whoever is killed is followed by another one.
    """
    workspace = engine.workspace
    place = f"{files.ARCHIVE}/{_free_place(workspace.root, slug, engine.now())}"
    here, there = (
        os.path.dirname(workspace.inside(workspace.root, f"{folder}/{_RECORD}"))
        for folder in (f"{files.HOME}/{slug}", place)
    )
    _move_all(engine, workspace.root, here, there, last="brief.md")
    engine.note(f"pages of an earlier {slug} stood here, and are now in {place}")


def _old_record(state: Workflow) -> str:
    if not records.is_archived(state["record"]):
        return state["record"]
    otherwise = records.active_path("loop", state["id"], state["created_at"])
    return state.get("archived_from", otherwise)


def _root(engine: Engine, state: Workflow) -> str:
    return engine.workspace.root_of(state["worktree"]) or engine.workspace.root


def _old_folder(engine: Engine, state: Workflow) -> str:
    return os.path.dirname(engine.workspace.inside(_root(engine, state), _old_record(state)))


def _move_all(
    engine: Engine,
    root: str,
    source: str,
    target: str,
    *,
    first: str = "",
    last: str = "",
    whole: bool = True,
) -> None:
    """Moves everything, page by page; what stands there under one of the names gets another one.

    The log goes last into the archive and leaves it first: where it stands, all of it stands.
    Without being ``whole``, it goes without its record.
    """
    try:
        found = sorted(os.listdir(source), key=lambda name: (name == last, name != first, name))
    except OSError:
        return
    if not whole:
        found = [name for name in found if name != _RECORD and not name.startswith(_SPARE)]
    if found:
        engine.disk.make_folder(target)
        # What people wrote moves into it: it has to be there for certain, and so have they before
        # the other folder goes.
        engine.store.sync_names(target, root)
    for name in found:
        _make_way(engine, os.path.join(target, name), os.path.join(source, name))
        engine.disk.carry(os.path.join(source, name), _free_name(target, name))
    if found:
        engine.disk.sync_folder(target)
    engine.disk.remove_folder(source)


def _make_way(engine: Engine, place: str, page: str) -> None:
    """The loop's own page is the one that is read: another one in its place is called otherwise."""
    if not os.path.lexists(place):
        return
    folder, name = os.path.split(place)
    aside = _free_name(folder, name)
    engine.disk.move(place, aside)
    stood = engine.disk.read_own(aside)
    if stood not in (FOLDER, ODD) and stood == engine.disk.read_own(page):
        engine.disk.remove(aside)
    else:
        engine.note(f"another {name} stood here, and is now {os.path.basename(aside)}")


def _free_name(folder: str, name: str) -> str:
    stem, ending = os.path.splitext(name)
    number = 2
    while os.path.lexists(os.path.join(folder, name)):
        name, number = f"{stem}-{number}{ending}", number + 1
    return os.path.join(folder, name)


def _free_place(root: str, slug: str, now: str) -> str:
    """``slug-20260114``, or with a number where that is taken."""
    stem = f"{slug}-{now[:10].replace('-', '')}"
    name, number = stem, 2
    while _is_taken(os.path.join(root, files.ARCHIVE, name)):
        name, number = f"{stem}-{number}", number + 1
    return name


def _is_taken(folder: str) -> bool:
    """Whether something stands there; what a writer left who died before its commit is nothing."""
    if not os.path.lexists(folder):
        return False
    try:
        return not set(os.listdir(folder)) <= {_SPARE}
    except OSError:
        return True
