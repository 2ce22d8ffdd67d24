"""Set aside a ledger that came with its folder, and take back one that a person calls theirs.

A ledger that was unpacked from an archive, or copied from another machine, is nobody's history:
whoever made it could have written any gate run, approval or session into it. It is kept under
another name, unread, and the records beside it are adopted like any record from elsewhere.
"""

from __future__ import annotations

import os

from holdfast.errors import Refused
from holdfast.storage.database import moved
from holdfast.system.disk import free_name
from holdfast.workspace.location import is_own_ledger, names_in, sign_ledger
from holdfast.workspace.trust import is_trusted_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.store import Store
    from holdfast.workspace.location import Workspace

_ASIDE = "-from-elsewhere"
_REPLACED = "-replaced"
TAKE_BACK = "holdfast trust --ledger"


def set_aside(store: Store) -> None:
    """Rename the folder of a ledger that was not made here.

    In a folder that the person trusts as a whole, believe the ledger instead. Raise ``Refused`` if
    the ledger belongs to another user or cannot be renamed.
    """
    workspace = store.workspace
    if is_trusted_folder(workspace):
        _sign(store)
        return
    name = os.path.relpath(workspace.home, workspace.root)
    target = free_name(f"{workspace.home}{_ASIDE}")
    try:
        owner = os.lstat(workspace.home).st_uid
        if owner != os.geteuid():
            raise _not_believed(name, f"it belongs to another user (uid {owner})", workspace)
        store.disk.move(workspace.home, target)
        if is_own_ledger(target, workspace.root):
            # The repository was being moved while its ledger was looked at.
            store.disk.move(target, workspace.home)
            return
    except FileNotFoundError as error:
        raise moved(workspace.home) from error
    except OSError as error:
        why = f"it cannot be set aside ({error.strerror})"
        raise _not_believed(name, why, workspace) from error
    store.note(
        f"the ledger in {name} was not made here, so it is not believed: it is kept as "
        f"{os.path.relpath(target, workspace.root)}, and records are taken in as claims; if it is "
        f"yours, in a terminal: {TAKE_BACK}"
    )


def find_aside(workspace: Workspace) -> str | None:
    """Return the folder of the ledger that was set aside last; ``None`` if there is none."""
    folder, name = os.path.split(f"{workspace.home}{_ASIDE}")
    names = names_in(folder) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, other) for other in names if other.startswith(name)]
    return max(paths, key=lambda path: (os.lstat(path).st_ctime_ns, path), default=None)


def take_back(store: Store) -> str:
    """Put a ledger that was set aside in place, as this person's own; return where it was.

    A ledger that was made meanwhile is kept beside it. Raise ``Refused`` if there is none.
    """
    workspace = store.workspace
    aside = find_aside(workspace)
    if aside is None:
        name = os.path.relpath(workspace.home, workspace.root)
        raise Refused("not_found", f"trust: no ledger of {name} was set aside", "holdfast status")
    if os.path.lexists(workspace.home):
        store.disk.move(workspace.home, free_name(f"{workspace.home}{_REPLACED}"))
    store.disk.move(aside, workspace.home)
    _sign(store)
    return os.path.relpath(aside, workspace.root)


def _sign(store: Store) -> None:
    sign_ledger(store.workspace.home, store.disk)
    store.workspace.list_ledger(store.disk)


def _not_believed(name: str, why: str, workspace: Workspace) -> Refused:
    return Refused(
        "foreign_ledger",
        f"the ledger in {name} was not made here, so it is not believed, and {why}",
        f"move it away: mv {workspace.home} {workspace.home}{_ASIDE}; or name the folder under "
        "[trust] folders in your own settings",
        path=workspace.home,
    )
