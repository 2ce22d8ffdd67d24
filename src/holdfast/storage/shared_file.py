"""Change a file that other programs write at the same time without losing their changes.

Other programs ignore Holdfast's lock. Therefore the file is exchanged, never overwritten: if the
content that comes back is not what was read before, the change is made again from it.
"""

from __future__ import annotations

import os
import time
from errno import EINVAL, EISDIR

from holdfast.errors import Fault, Refused
from holdfast.system.disk import FOLDER, ODD, free_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.system.disk import Disk

    Prepare = Callable[[bytes | None], bytes | None]
    """A function from a file's content to its new content; ``None`` means no file."""
    Pause = Callable[[float], None]

_MAX_TURNS = 8
_MAX_READS = 50
_MAX_EMPTY_READS = 20
_PAUSE_S = 0.02


def settle(
    disk: Disk, path: str, prepare: Prepare, pause: Pause = time.sleep, owner: str = ""
) -> None:
    """Replace a file by what ``prepare`` makes of it, even if other programs are writing it.

    ``owner`` keeps the temporary names of writers apart that do not share a lock. Raise ``Fault``
    (busy) if other programs keep writing, or ``OSError`` if the path is not a file.
    """
    expected = _read_when_closed(disk, path, pause)
    if expected in (FOLDER, ODD):
        is_folder = expected == FOLDER
        why = "it is a folder" if is_folder else "it is a pipe or a device"
        raise OSError(EISDIR if is_folder else EINVAL, why, path)
    after = prepare(expected)
    for turn in range(_MAX_TURNS):
        if after == expected:
            _drop_spares(disk, path, owner)
            return
        spare = _spare(path, turn, owner)
        replaced = _put(disk, path, after, spare, is_new=expected is None)
        if replaced is not None:
            replaced = _read_when_closed(disk, spare, pause)
        if replaced == expected:
            _drop_spares(disk, path, owner)
            disk.sync_folder(os.path.dirname(path))
            return
        # Another program saved the file since it was read: start again from its content.
        expected, after = after, prepare(replaced)
    raise _busy(path)


def update(
    disk: Disk,
    path: str,
    patch: Prepare,
    name: str,
    note: Callable[[str], None],
    pause: Pause = time.sleep,
) -> None:
    """Patch a file by ``settle``, unless it needs no patch; first clear up after a killed run.

    Content that a killed run left is dropped if the patch gives equal results for it and the file;
    else it is kept, with a note that calls the file ``name``. The last call of ``patch`` gets the
    content that is replaced.
    """

    def is_known(spare: bytes) -> bool:
        try:
            return patch(spare) == patch(disk.read(path))
        except Refused:
            return False

    for saved in clear_spares(disk, path, is_known):
        note(f"what a killed command left beside {name} is kept as {os.path.basename(saved)}")
    before = disk.read(path)
    is_file = before is not None and before not in (FOLDER, ODD)
    after = patch(before) if is_file else None
    if is_file and after == before:
        return

    settle(disk, path, lambda raw: after if is_file and raw == before else patch(raw), pause)


def _read_when_closed(disk: Disk, path: str, pause: Pause) -> bytes | None:
    """Wait until no process has the file open for writing, and return its content.

    Raise ``Fault`` (busy) if that takes too long.
    """
    data = disk.read(path)
    for attempt in range(_MAX_READS):
        # A program may empty the file in one step and write it in a later one. Therefore an empty
        # file is read several times before it counts as empty.
        is_settled = data != b"" or attempt >= _MAX_EMPTY_READS
        if is_settled and not disk.is_being_written(path) and data == disk.read(path):
            return data
        pause(_PAUSE_S)
        data = disk.read(path)
    raise _busy(path)


def _busy(path: str) -> Fault:
    why = f"{path} is being written all the time"
    return Fault("busy", why, "run the command again", path=path)


def _put(disk: Disk, path: str, data: bytes | None, spare: str, *, is_new: bool) -> bytes | None:
    """Replace the file, or remove it if ``data`` is ``None``; return the replaced content.

    The replaced content is also in ``spare``.
    """
    if data is None:
        try:
            disk.move(path, spare)
        except FileNotFoundError:
            return None
        return disk.read_own(spare)
    disk.make_folder(os.path.dirname(path))
    disk.create(spare, data, 0o666 if is_new else 0o600, durable=True)
    disk.copy_permissions(spare, path)
    return disk.replace(path, spare, is_new=is_new, durable=True)


def _spare(path: str, turn: int, owner: str) -> str:
    """Return a temporary name beside the file, one that git's exclude file covers."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.holdfast-{owner and f'{owner}-'}{turn}")


def _drop_spares(disk: Disk, path: str, owner: str) -> None:
    for turn in range(_MAX_TURNS):
        disk.remove(_spare(path, turn, owner))


def clear_spares(
    disk: Disk, path: str, is_known: Callable[[bytes], bool], owner: str = ""
) -> list[str]:
    """Remove the temporary files of a killed run; return the names of those that had to be kept.

    A temporary file has a text of Holdfast or the file's earlier content. If its content is not
    known, another program saved it just before the run died: it is kept under another name.
    """
    saved = []
    for turn in range(_MAX_TURNS):
        spare = _spare(path, turn, owner)
        data = disk.read_own(spare)
        if data is None:
            continue
        if not data or data == disk.read(path) or is_known(data):
            disk.remove(spare)
        else:
            saved.append(free_name(f"{path}.found-{turn}"))
            disk.move(spare, saved[-1])
    return saved
