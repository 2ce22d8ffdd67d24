"""Folders of loops that go into the archive and come back; nothing there is ever overwritten.

The ledger says first where the record stands, then the pages follow. Whoever is killed in between
is followed by somebody who moves the rest.
"""

from __future__ import annotations

import os

from holdfast import home
from holdfast.caller import Receipt
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
    """Moves what still stands in an archived loop's old folder; says whether something did."""
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


def bring_back(engine: Engine, state: Workflow) -> str:
    """Moves an archived folder to where it was, before the ledger says so; gives the record's path.

    Whoever is killed in between left an archived loop whose folder is not in the archive, which
    both ``archive`` and another ``resume`` put right.
    """
    new = files.folder_of(engine, state)
    if new is not None:
        old = _old_folder(engine, state)
        _move_all(engine, _root(engine, state), new, old, first=files.PROGRESS)
    return _old_record(state)


def _old_record(state: Workflow) -> str:
    otherwise = records.active_path("loop", state["id"], state["created_at"])
    return state.get("archived_from", otherwise)


def _root(engine: Engine, state: Workflow) -> str:
    return engine.workspace.root_of(state["worktree"]) or engine.workspace.root


def _old_folder(engine: Engine, state: Workflow) -> str:
    return os.path.dirname(engine.workspace.inside(_root(engine, state), _old_record(state)))


def _move_all(
    engine: Engine, root: str, source: str, target: str, *, first: str = "", last: str = ""
) -> None:
    """Moves everything, page by page; what has a name that is taken gets another one.

    The log goes last into the archive and leaves it first: where it stands, all of it stands.
    """
    try:
        found = sorted(os.listdir(source), key=lambda name: (name == last, name != first, name))
    except OSError:
        return
    if found:
        engine.disk.make_folder(target)
        # What people wrote moves into it: it has to be there for certain, and so have they before
        # the other folder goes.
        engine.store.sync_names(target, root)
    for name in found:
        engine.disk.move(os.path.join(source, name), _free_name(target, name))
    if found:
        engine.disk.sync_folder(target)
    engine.disk.remove_folder(source)


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
