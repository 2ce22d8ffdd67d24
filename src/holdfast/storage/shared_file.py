"""Another text in a file's place, whoever else writes it at the same time.

Other programs write these files too, and know nothing of our lock. So a file is exchanged, never
overwritten: what stood there at that instant is seen, and counts.
"""

from __future__ import annotations

import os
import time
from errno import EINVAL, EISDIR

from holdfast.errors import Fault
from holdfast.system.disk import FOLDER, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.system.disk import Disk

    Prepare = Callable[[bytes | None], bytes | None]
    """From what stands there to what shall stand there; ``None`` is no file."""
    Pause = Callable[[float], None]

_TURNS = 8
_LOOKS = 50
_EMPTY_LOOKS = 20
_PAUSE_S = 0.02


def settle(
    disk: Disk, path: str, prepare: Prepare, pause: Pause = time.sleep, owner: str = ""
) -> None:
    """Puts what ``prepare`` makes of a file in its place, whoever else writes it meanwhile.

    ``owner`` tells the spares of those apart who write the same file and share no lock.
    """
    expected = _when_written(disk, path, pause)
    if expected in (FOLDER, ODD):
        is_folder = expected == FOLDER
        why = "it is a folder" if is_folder else "it is a pipe or a device"
        raise OSError(EISDIR if is_folder else EINVAL, why, path)
    after = prepare(expected)
    for turn in range(_TURNS):
        if after == expected:
            _drop_spares(disk, path, owner)
            return
        spare = _spare(path, turn, owner)
        stood = _put(disk, path, after, spare, is_new=expected is None)
        if stood is not None:
            stood = _when_written(disk, spare, pause)
        if stood == expected:
            _drop_spares(disk, path, owner)
            disk.sync_folder(os.path.dirname(path))
            return
        # Somebody saved it since it was read: theirs is the file to begin from.
        expected, after = after, prepare(stood)
    raise _busy(path)


def _when_written(disk: Disk, path: str, pause: Pause) -> bytes | None:
    """What stands there, once nobody has it open for writing any more; waited for, not for ever."""
    found = disk.read(path)
    for look in range(_LOOKS):
        # Whoever empties it to write it anew may have come and gone since it was read; so an empty
        # file is looked at for a while before it counts as one.
        is_settled = found != b"" or look >= _EMPTY_LOOKS
        if is_settled and not disk.is_being_written(path) and found == disk.read(path):
            return found
        pause(_PAUSE_S)
        found = disk.read(path)
    raise _busy(path)


def _busy(path: str) -> Fault:
    why = f"{path} is being written all the time"
    return Fault("busy", why, "run the command again", path=path)


def _put(disk: Disk, path: str, data: bytes | None, spare: str, *, is_new: bool) -> bytes | None:
    """Puts it there, and gives back what stood there; that is kept in the spare."""
    if data is None:
        try:
            disk.move(path, spare)
        except FileNotFoundError:
            return None
        return disk.read_own(spare)
    disk.make_folder(os.path.dirname(path))
    disk.create(spare, data, 0o666 if is_new else 0o600, durable=True)
    disk.match(spare, path)
    return disk.replace(path, spare, is_new=is_new, durable=True)


def _spare(path: str, turn: int, owner: str) -> str:
    """A name beside the file; git's exclude file has its pattern."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.holdfast-{owner and f'{owner}-'}{turn}")


def _drop_spares(disk: Disk, path: str, owner: str) -> None:
    for turn in range(_TURNS):
        disk.remove(_spare(path, turn, owner))


def clear_spares(
    disk: Disk, path: str, is_known: Callable[[bytes], bool], owner: str = ""
) -> list[str]:
    """Sees to what a killed run left beside the file; gives the names of what had to be kept.

    It holds a text of ours, or what stood there before. What nobody knows was saved by somebody in
    the instant before the run died: it stays, under a name of its own.
    """
    kept = []
    for turn in range(_TURNS):
        spare = _spare(path, turn, owner)
        found = disk.read_own(spare)
        if found is None:
            continue
        if not found or found == disk.read(path) or is_known(found):
            disk.remove(spare)
        else:
            kept.append(_free(f"{path}.found-{turn}"))
            disk.move(spare, kept[-1])
    return kept


def _free(name: str) -> str:
    """The name, or one like it that nothing has yet."""
    free, number = name, 2
    while os.path.lexists(free):
        free, number = f"{name}-{number}", number + 1
    return free
