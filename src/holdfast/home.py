"""The ledger's folder: made by the first command in a workspace, and after a cleaning of it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.disk import Disk
    from holdfast.engine import Engine
    from holdfast.workspace import Workspace


def make(workspace: Workspace, disk: Disk, note: Callable[[str], None]) -> None:
    """Makes the folder durable, and keeps it and the records out of git."""
    home = workspace.home
    workspace.check_home()
    disk.make_folder(home, 0o700)
    for above in (os.path.dirname(home), os.path.dirname(os.path.dirname(home))):
        disk.sync_folder(above)
    exclude(workspace, disk, note)
    # The marker comes last: whoever finds it finds everything above done.
    try:
        disk.create(os.path.join(home, ".gitignore"), b"*\n", 0o600)
    except FileExistsError:
        return


def bring_back(engine: Engine) -> None:
    """Rebuilds all active records after the work tree was cleaned, the ledger's folder too."""
    for row in engine.rows() if engine.ledger.head_seq else ():
        position = engine.position(row["id"])
        if position is not None and row["status"] in ("in_progress", "blocked"):
            engine.load(position)
    engine.was_cleaned = False


def exclude(workspace: Workspace, disk: Disk, note: Callable[[str], None]) -> None:
    """Keeps what is Holdfast's own out of git, by the one file for it that nobody shares."""
    if workspace.common is None:
        return
    path = os.path.join(workspace.common, "info", "exclude")
    if os.path.realpath(path) != os.path.join(
        os.path.realpath(workspace.common), "info", "exclude"
    ):
        note("git's exclude file is a link, and was not extended")
        return
    try:
        current = (disk.read(path) or b"").decode(errors="surrogateescape")
        missing = workspace.ignore_lines(current)
        if missing:
            disk.make_folder(os.path.dirname(path))
            disk.extend(path, missing.encode())
    except OSError as error:
        note(f"git's exclude file could not be extended ({error.strerror})")
