"""Change a file that other programs write at the same time without losing their changes.

Other programs ignore Holdfast's lock. Therefore the file is replaced, never overwritten, and what
was replaced is read once no program has it open for writing any more. If that is not what was read
before, another program saved the file meanwhile: the change is made again from its content. A save
that cannot be merged with another one is kept beside the file, and a note gives its name.
"""

from __future__ import annotations

import os
import time
from errno import EINVAL, EISDIR

from holdfast.errors import Fault, HoldfastError, Refused, system_refused
from holdfast.system.disk import FOLDER, ODD, free_name
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.system.disk import Disk

    Prepare = Callable[[bytes | None], bytes | None]
    """A function from a file's content to its new content; ``None`` means no file."""
    Merge = Callable[[bytes, bytes, bytes], bytes | None]
    """A function from a content and two changes of it to both; ``None`` if they overlap."""
    Note = Callable[[str], None]
    Pause = Callable[[float], None]

_MAX_TURNS = 20
_MAX_PAUSES = 60
_MAX_EMPTY_READS = 20
_PAUSE_S = 0.02


def settle(
    disk: Disk,
    path: str,
    prepare: Prepare,
    note: Note,
    pause: Pause = time.sleep,
    owner: str = "",
    merge: Merge | None = None,
    *,
    prepares_all: bool = False,
) -> None:
    """Replace a file by what ``prepare`` makes of it, even if other programs are writing it.

    ``owner`` keeps apart the temporary names of writers that share no lock. ``merge`` joins
    two saves of other programs during one call; without it, the first of them is kept beside the
    file. With ``merge``, lines that others append meanwhile are appended again, unless
    ``prepares_all`` says that ``prepare`` has to see them. Raise ``Fault`` (busy) if other programs
    keep writing, or ``OSError`` if the path is not a file; the file then is as the other programs
    saved it.
    """
    kept: list[str] = []
    try:
        _settle(disk, path, prepare, kept, pause, owner, merge, prepares_all=prepares_all)
    except HoldfastError as error:
        error.message = "; ".join([error.message, *kept])
        raise
    except OSError as error:
        if kept:
            fault = system_refused(error)
            raise Fault(fault.code, "; ".join([fault.message, *kept]), fault.hint) from error
        raise
    finally:
        for text in kept:
            note(text)


def _settle(
    disk: Disk,
    path: str,
    prepare: Prepare,
    kept: list[str],
    pause: Pause,
    owner: str,
    merge: Merge | None,
    *,
    prepares_all: bool,
) -> None:
    """Do what ``settle`` does; add to ``kept`` what to note about saves that were kept."""
    patience = Patience(path, pause)
    expected = _read_when_closed(disk, path, patience)
    if expected in (FOLDER, ODD):
        is_folder = expected == FOLDER
        why = "it is a folder" if is_folder else "it is a pipe or a device"
        raise OSError(EISDIR if is_folder else EINVAL, why, path)
    after = prepare(expected)
    replaced: list[str] = []
    for turn in range(_MAX_TURNS):
        if after == expected:
            _drop(disk, replaced)
            return
        try:
            names = _put(disk, path, after, _free_spare(path, owner), is_durable=turn == 0)
        except OSError:
            _put_back(disk, path, replaced, expected if turn == 1 else None, kept)
            raise
        _drop(disk, replaced)
        replaced = names
        try:
            saved = _read_saves(disk, replaced, expected, patience)
            appends = merge is not None and not prepares_all
            lines = _added_lines(expected, after, saved) if appends else b""
            if lines:
                # Append them again: programs that append all the time would never be overtaken.
                disk.extend(path, lines)
                current = _read_when_closed(disk, path, patience)
                if lines in (current or b""):
                    saved = []
            if not saved:
                if turn or lines:
                    _sync(disk, path)
                _drop(disk, replaced)
                disk.sync_folder(os.path.dirname(path))
                return
            # Other programs saved the file since it was read: start again from their content.
            merged = _join(disk, path, expected, [after, *saved] if turn else saved, merge, kept)
            expected, after = after, prepare(merged)
        except (HoldfastError, OSError):
            _put_back(disk, path, replaced, None if turn else after, kept)
            raise
    _put_back(disk, path, replaced, None, kept)
    raise _busy(path)


def _join(
    disk: Disk,
    path: str,
    base: bytes | None,
    saves: list[bytes | None],
    merge: Merge | None,
    kept: list[str],
) -> bytes | None:
    """Return all changes of ``base``. Keep a copy of each that cannot be merged with the next."""
    merged = saves[0]
    for content in saves[1:]:
        both = _merged(merge, base, merged, content)
        if both is None:
            _keep_copy(disk, path, merged, kept)
        merged = content if both is None else both
    return merged


def _merged(
    merge: Merge | None, base: bytes | None, mine: bytes | None, theirs: bytes | None
) -> bytes | None:
    """Return both changes; ``None`` if they cannot be merged."""
    if mine == base:
        return theirs
    if merge is None or base is None or mine is None or theirs is None:
        return None
    return merge(base, mine, theirs)


def update(
    disk: Disk,
    path: str,
    patch: Prepare,
    name: str,
    note: Note,
    pause: Pause = time.sleep,
    merge: Merge | None = None,
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

    def prepare(raw: bytes | None) -> bytes | None:
        return after if is_file and raw == before else patch(raw)

    settle(disk, path, prepare, note, pause, merge=merge)


class Patience:
    """The time that one call may wait for other programs."""

    def __init__(self, path: str, pause: Pause) -> None:
        self._path = path
        self._pause = pause
        self._left = _MAX_PAUSES

    def wait(self) -> None:
        """Pause for a moment; raise ``Fault`` (busy) if that was done too often."""
        if not self._left:
            raise _busy(self._path)
        self._left -= 1
        self._pause(_PAUSE_S)


def read_complete(disk: Disk, path: str, pause: Pause = time.sleep) -> bytes | None:
    """Wait a second at most while another program is writing a file; return its content."""
    for _ in range(_MAX_PAUSES):
        if not disk.is_being_written(path):
            break
        pause(_PAUSE_S)
    return disk.read(path)


def _read_when_closed(disk: Disk, path: str, patience: Patience) -> bytes | None:
    """Wait until no process has the file open for writing, and return its content.

    Raise ``Fault`` (busy) if that takes too long.
    """
    attempt = 0
    while True:
        # Ask first: then what is read is complete.
        is_settled = not disk.is_being_written(path)
        data = disk.read(path)
        # A program may empty the file in one step and write it in a later one. Therefore an empty
        # file is read several times before it counts as empty.
        if is_settled and (data != b"" or attempt >= _MAX_EMPTY_READS):
            return data
        attempt += 1
        patience.wait()


def _added_lines(expected: bytes | None, after: bytes | None, saved: list[bytes | None]) -> bytes:
    """Return the lines that were appended to the expected content; empty for any other change."""
    if len(saved) != 1 or not expected or not after or not saved[0]:
        return b""
    ends_line = expected.endswith(b"\n") and after.endswith(b"\n") and saved[0].endswith(b"\n")
    return saved[0][len(expected) :] if ends_line and saved[0].startswith(expected) else b""


def _busy(path: str) -> Fault:
    why = f"{path} is being written all the time"
    return Fault("busy", why, "run the command again", path=path)


def _put(disk: Disk, path: str, data: bytes | None, spare: str, *, is_durable: bool) -> list[str]:
    """Replace the file, or remove it if ``data`` is ``None``.

    Return the names that hold what was replaced, the oldest first.
    """
    if data is None:
        try:
            disk.move(path, spare)
        except FileNotFoundError:
            return []
        return [spare]
    disk.make_folder(os.path.dirname(path))
    is_new = not os.path.lexists(path)
    disk.create(spare, data, durable=is_durable)
    disk.copy_permissions(spare, path)
    return disk.replace(path, spare, is_new=is_new, durable=is_durable)


def _read_saves(
    disk: Disk, names: list[str], expected: bytes | None, patience: Patience
) -> list[bytes | None]:
    """Return the replaced contents, once they are complete, that are not as expected."""
    contents = [_read_when_closed(disk, name, patience) for name in names]
    return [content for content in contents if content != expected]


def _put_back(
    disk: Disk, path: str, replaced: list[str], own: bytes | None, kept: list[str]
) -> None:
    """Put the last replaced file back, because it cannot be changed or is still being written.

    A program that has it open goes on writing into it, under its own name. What it replaces is
    kept, unless it is ``own``, the text that Holdfast put there.
    """
    if not replaced:
        return
    for name in [*replaced[:-1], *disk.replace(path, replaced[-1])]:
        if disk.read_own(name) == own and not disk.is_being_written(name):
            disk.remove(name)
        else:
            target = free_name(f"{path}.found-0")
            disk.move(name, target)
            kept.append(_kept(path, target))


def _keep_copy(disk: Disk, path: str, content: bytes | None, kept: list[str]) -> None:
    """Keep a content that another program saved, and that cannot be merged with a later save."""
    target = free_name(f"{path}.found-0")
    disk.create(target, content or b"", 0o600, durable=True)
    kept.append(_kept(path, target))


def _kept(path: str, target: str) -> str:
    name, kept = os.path.basename(path), os.path.basename(target)
    return f"{name} was saved twice while Holdfast wrote it; one save is kept beside it as {kept}"


def _sync(disk: Disk, path: str) -> None:
    """Make a file durable that was written without waiting for the disk."""
    try:
        fd = disk.open_read(path)
    except OSError:
        return  # Another program replaced it.
    try:
        disk.sync(fd)
    finally:
        disk.close(fd)


def _drop(disk: Disk, names: list[str]) -> None:
    for name in names:
        disk.remove(name)


# Temporary names


def _spare_prefix(path: str, owner: str) -> str:
    """Return the beginning of the temporary names, which git's exclude file covers."""
    return f".{os.path.basename(path)}.holdfast-{owner and f'{owner}-'}"


def _free_spare(path: str, owner: str) -> str:
    stem, number = os.path.join(os.path.dirname(path), _spare_prefix(path, owner)), 0
    while os.path.lexists(f"{stem}{number}"):
        number += 1
    return f"{stem}{number}"


def _spares(path: str, owner: str) -> list[str]:
    """Return the temporary files that exist; of several, the last has the newest content."""
    folder, prefix = os.path.dirname(path), _spare_prefix(path, owner)
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return []
    own = [name for name in names if name.startswith(prefix)]
    return [
        os.path.join(folder, name) for name in sorted(own) if name[len(prefix) :][:1].isdecimal()
    ]


def clear_spares(
    disk: Disk, path: str, is_known: Callable[[bytes], bool], owner: str = ""
) -> list[str]:
    """Remove the temporary files of a killed run; return the names of those that had to be kept.

    A temporary file has a text of Holdfast's, or what the file contained before. If its content is
    not known, another program saved it just before the run died: it is kept under another name. If
    the run died while the file had no name of its own, it gets its name back.
    """
    saved = []
    for spare in reversed(_spares(path, owner)):
        if ".old" in os.path.basename(spare)[-6:] and not os.path.lexists(path):
            disk.move_to_free(spare, path)
            continue
        if disk.is_being_written(spare):
            continue  # Its writer is waited for: the next run looks at it again.
        data = disk.read_own(spare)
        if not data or data == disk.read(path) or is_known(data):
            disk.remove(spare)
        else:
            saved.append(free_name(f"{path}.found-0"))
            disk.move(spare, saved[-1])
    return saved[::-1]
