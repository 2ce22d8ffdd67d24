"""This person's repositories: the workspaces of the ledgers on their list.

Whatever looks at several repositories finds them here. One that was removed is left out. One that
was moved is on the list again after its next change.
"""

from __future__ import annotations

import os
from collections import Counter

from holdfast.errors import Fault, Refused
from holdfast.system.disk import Disk
from holdfast.workspace.location import find, main_root, person_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.workspace.location import Workspace

MAX_REPOSITORIES = 500
"""The number of repositories that are returned, the newest on the list."""
_MAX_LIST_BYTES = 4 * 1024 * 1024


def repositories() -> list[Workspace]:
    """Return the workspaces on this person's list that have a ledger of their own, by path."""
    known: dict[str, Workspace] = {}
    for home in dict.fromkeys(_listed_homes()):
        workspace = _workspace_of(home)
        if workspace is not None:
            known.setdefault(workspace.home, workspace)
        if len(known) == MAX_REPOSITORIES:
            break
    return sorted(known.values(), key=lambda workspace: workspace.project)


def short_names(folders: Iterable[str]) -> dict[str, str]:
    """Return the last part of each path, with as many before it as tell it from the others."""
    names: dict[str, str] = {}
    unnamed, count = set(folders), 1
    while unnamed:
        cut = {folder: os.sep.join(_parts(folder)[-count:]) or folder for folder in unnamed}
        used = Counter(cut.values())
        names |= {
            folder: name
            for folder, name in cut.items()
            if used[name] == 1 or count >= len(_parts(folder))
        }
        unnamed -= names.keys()
        count += 1
    return names


def _parts(path: str) -> list[str]:
    return [part for part in path.split(os.sep) if part]


def _listed_homes() -> Iterator[str]:
    """Yield the folders of the ledgers on the list, the newest first."""
    state = person_path("XDG_STATE_HOME", os.path.join(".local", "state"))
    try:
        raw = Disk().read_end(os.path.join(state, "ledgers"), _MAX_LIST_BYTES)
    except OSError:
        return
    for line in reversed(raw.decode(errors="surrogateescape").split("\n")):
        home = line.partition(" ")[2]
        if os.path.isabs(home) and os.path.isdir(home):
            yield home


def _workspace_of(home: str) -> Workspace | None:
    """Return the workspace whose ledger is in this folder; ``None`` if there is none any more."""
    common = os.path.dirname(home)
    main, _ = main_root(common)
    for folder in (main, os.path.dirname(common), common):
        try:
            workspace = find(folder or "")
        except (Refused, Fault, OSError):
            continue
        is_same = os.path.realpath(workspace.home) == home
        if is_same and workspace.has_ledger() and not workspace.has_foreign_ledger():
            return workspace
    return None
