"""Another text in a file's place, whoever else writes it at the same time.

Other programs write these files too, and know nothing of our lock. So a file is exchanged, never
overwritten: what stood there at that instant is seen, and counts.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.disk import Disk
    from holdfast.install.journal import Entry

    Prepare = Callable[[bytes | None], bytes | None]
    """From what stands there to what shall stand there; ``None`` is no file."""
    Pause = Callable[[float], None]

_TURNS = 8
_LOOKS = 50
_PAUSE_S = 0.02


def settle(disk: Disk, path: str, prepare: Prepare, pause: Pause = time.sleep) -> None:
    """Puts what ``prepare`` makes of a file in its place, whoever else writes it meanwhile."""
    expected = _when_written(disk, path, pause)
    after = prepare(expected)
    for turn in range(_TURNS):
        if after == expected:
            _drop_spares(disk, path)
            return
        spare = _spare(path, turn)
        stood = _put(disk, path, after, spare, is_new=expected is None)
        if stood is not None:
            stood = _when_written(disk, spare, pause)
        if stood == expected:
            _drop_spares(disk, path)
            disk.sync_folder(os.path.dirname(path))
            return
        # Somebody saved it since it was read: theirs is the file to begin from.
        expected, after = after, prepare(stood)
    raise Fault("busy", f"{path} is being written all the time", "run the command again", path=path)


def _when_written(disk: Disk, path: str, pause: Pause) -> bytes | None:
    """What stands there, once nobody has it open for writing any more; waited for, not for ever."""
    found = disk.read(path)
    for _ in range(_LOOKS):
        # Whoever empties it to write it anew may have come and gone since it was read.
        if not disk.is_being_written(path) and found == disk.read(path):
            break
        pause(_PAUSE_S)
        found = disk.read(path)
    return found


def _put(disk: Disk, path: str, data: bytes | None, spare: str, *, is_new: bool) -> bytes | None:
    """Puts it there, and gives back what stood there; that is kept in the spare."""
    if data is None:
        try:
            disk.move(path, spare)
        except FileNotFoundError:
            return None
        return disk.read(spare)
    disk.make_folder(os.path.dirname(path))
    disk.create(spare, data, 0o666 if is_new else 0o600, durable=True)
    disk.match(spare, path)
    return disk.replace(path, spare, is_new=is_new, durable=True)


def _spare(path: str, turn: int) -> str:
    """A name beside the file; git's exclude file has its pattern."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.holdfast-{turn}")


def _drop_spares(disk: Disk, path: str) -> None:
    for turn in range(_TURNS):
        disk.remove(_spare(path, turn))


def clear_spares(disk: Disk, path: str, entry: Entry | None) -> list[str]:
    """Sees to what a killed run left beside the file; gives the names of what had to be kept.

    It holds a text of ours, or what stood there before. What nobody knows was saved by somebody in
    the instant before the run died: it stays, under a name of its own.
    """
    kept = []
    for turn in range(_TURNS):
        spare = _spare(path, turn)
        found = disk.read(spare)
        if not found or (entry is not None and entry.knows(found)) or found == disk.read(path):
            disk.remove(spare)
        else:
            kept.append(f"{path}.found-{turn}")
            disk.move(spare, kept[-1])
    return kept
