"""The one place that opens for writing, syncs, renames and locks.

Everything durable goes through a ``Disk``, so that a test can record what was written, synced and
renamed, and replay every order in which a power cut could have left it.
"""

from __future__ import annotations

import os
from errno import EFBIG, EINVAL, ELOOP, ENXIO, EXDEV
from stat import S_ISDIR, S_ISREG

from holdfast.system import kernel

_PIECE = 64 * 1024
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

SPARE = ".tmp"
"""How the name of a view ends that is being written; before it stands who writes it."""
LARGEST = 16 * 1024 * 1024
"""What a record may have, in bytes; more than one byte beyond is not even read."""
WHOLE = 64 * 1024 * 1024
"""What any file may have that is read whole; more would take all the memory there is."""
FOLDER = b"\x00a folder"
ODD = b"\x00a pipe or a device"
"""These stand for the content of what is not a file: nothing that can be taken in, so it is moved
aside whole."""


class Disk:
    """Files as Holdfast needs them. Paths are absolute."""

    def read(self, path: str, most: int | None = None) -> bytes | None:
        """The whole file, or its first bytes; ``None`` when there is none.

        A pipe is not waited for: ``ODD`` stands for it, and ``FOLDER`` for a folder.
        """
        return _read_from(path, _TO_READ, most)

    def read_own(self, path: str, most: int | None = None) -> bytes | None:
        """The same for a file of Holdfast's own, which is never a link: that is odd as well."""
        return _read_from(path, _TO_READ | os.O_NOFOLLOW, most)

    def open_read(self, path: str) -> int:
        """A descriptor of an ordinary file, and of nothing else; a link is not followed."""
        fd = os.open(path, _TO_READ | os.O_NOFOLLOW)
        if S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(EINVAL, "it is not an ordinary file", path)

    def is_being_written(self, path: str) -> bool:
        """True if a process has the file open for writing, as far as the kernel tells."""
        try:
            fd = os.open(path, _TO_READ | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            return kernel.has_writer(fd)
        finally:
            os.close(fd)

    def make_folder(self, path: str, mode: int = 0o777) -> None:
        """The folder and those above it; what is there stays as it is."""
        if not os.path.isdir(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                os.mkdir(path, mode)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise

    def add_folder(self, path: str, mode: int = 0o777) -> None:
        """Make a folder in one that is there; what is there stays as it is."""
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def open_append(self, path: str) -> tuple[int, bool]:
        """A descriptor that appends, and whether the file is new."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags), False
        except FileNotFoundError:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True

    def extend(self, path: str, data: bytes) -> None:
        """Adds to the end of a file that is not Holdfast's own."""
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self.write(fd, data)
        finally:
            self.close(fd)

    def write(self, fd: int, data: bytes) -> None:
        """All of it; a short write that cannot be continued is an ``OSError``."""
        while data:
            data = data[os.write(fd, data) :]

    def cut(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        kernel.sync_content(fd)

    def sync_folder(self, path: str) -> None:
        """Makes names in a folder durable: creations, renames, removals."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            kernel.sync_names(fd)
        finally:
            os.close(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def create(self, path: str, data: bytes, mode: int = 0o666, *, durable: bool = False) -> None:
        """A new file; ``FileExistsError`` when something stands there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, mode)
        try:
            self.write(fd, data)
            if durable:
                self.sync(fd)
        except BaseException:
            self.close(fd)
            self.remove(path)
            raise
        self.close(fd)

    def mode_of(self, path: str) -> int:
        """The permissions of a file; those of a new one when there is none."""
        try:
            return os.stat(path).st_mode & 0o777
        except OSError:
            return 0o666

    def match(self, path: str, model: str) -> None:
        """Gives a file the permissions of another that is there, and its owner where it may."""
        try:
            wanted = os.stat(model)
        except FileNotFoundError:
            return
        own = os.stat(path)
        if (own.st_uid, own.st_gid) != (wanted.st_uid, wanted.st_gid):
            try:
                os.chown(path, wanted.st_uid, wanted.st_gid)
            except PermissionError:
                pass
        os.chmod(path, wanted.st_mode & 0o7777)

    def replace(
        self, path: str, spare: str, *, is_new: bool = False, durable: bool = False
    ) -> bytes | None:
        """Puts ``spare`` in the file's place, and gives back what stood there at that instant.

        The two are exchanged in one step: a reader never finds the file missing or half written,
        and what an editor saved a moment ago stands in ``spare``, not gone. ``is_new`` says what
        to expect; what is found counts.
        """
        if not is_new:
            try:
                self.exchange(spare, path)
            except FileNotFoundError:
                pass
            else:
                return self.read_own(spare, LARGEST + 1)
        try:
            self.link(spare, path)
        except FileExistsError:
            return self.replace(path, spare, durable=durable)
        if durable:
            self.sync_folder(os.path.dirname(path))
        self.remove(spare)
        return None

    def replace_view(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Puts a file there that only Holdfast writes; what stood there is not needed."""
        spare = f"{path}.{os.getpid()}{SPARE}"
        self.remove(spare)
        try:
            self.create(spare, data, 0o600, durable=durable)
            self.move(spare, path)
        except OSError:
            self.remove(spare)
            raise

    def overwrite(self, path: str, pieces: dict[int, bytes]) -> None:
        """Puts bytes over those at these places of a file; its length stays."""
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            for place, data in pieces.items():
                os.pwrite(fd, data, place)
        finally:
            self.close(fd)

    def exchange(self, one: str, other: str) -> None:
        """Swap two files in one step, where the file system can."""
        if not kernel.exchange(one, other):
            self._exchange_by_link(one, other)

    def _exchange_by_link(self, one: str, other: str) -> None:
        """For file systems that cannot exchange: a second name keeps the old content."""
        aside = old_of(one)
        self.remove(aside)
        self.link(other, aside)
        self.move(one, other)
        self.move(aside, one)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def move(self, source: str, target: str) -> None:
        os.rename(source, target)

    def carry(self, source: str, target: str) -> None:
        """Moves a file or a folder to a name that is free, on another file system too."""
        try:
            self.move(source, target)
        except OSError as error:
            if error.errno != EXDEV:
                raise
            _move_across(source, target)

    def remove(self, path: str) -> None:
        """The file is gone afterwards, also when it was not there."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_folder(self, path: str) -> None:
        """An empty folder goes; one with something in it stays."""
        try:
            os.rmdir(path)
        except OSError:
            pass

    def lock(self, path: str, wait_s: float) -> int:
        """An exclusive kernel lock, as a descriptor: closing it, or dying, gives it back."""
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                kernel.lock(fd, path, wait_s)
            except BaseException:
                os.close(fd)
                raise
            if os.fstat(fd).st_nlink:
                return fd
            # Somebody removed the file while we waited: the lock is on a name that is gone.
            os.close(fd)

    def unlock(self, fd: int) -> None:
        """Give a lock back, also if a child that is just being started still has its descriptor."""
        kernel.unlock(fd)
        os.close(fd)


def _has_name(path: str) -> bool:
    return os.access(path, os.F_OK, follow_symlinks=False)


# Whether something has this name, a link too. Most names that are asked for are not there, and so
# it takes half of the time; a system that cannot do it says that its own root is not there.
is_there = _has_name if _has_name("/") else os.path.lexists


def old_of(spare: str) -> str:
    """The name that keeps the old content while a spare takes its place without an exchange."""
    return f"{spare}.old"


def _read_from(path: str, flags: int, most: int | None) -> bytes | None:
    try:
        fd = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == ENXIO or (error.errno == ELOOP and flags & os.O_NOFOLLOW):
            return ODD  # a socket; a link where none is followed
        raise
    try:
        found = os.fstat(fd)
        if not S_ISREG(found.st_mode):
            return FOLDER if S_ISDIR(found.st_mode) else ODD
        if most is None and found.st_size > WHOLE:
            raise OSError(EFBIG, f"it has more than {WHOLE:,} bytes", path)
        return _read_all(fd, most)
    finally:
        os.close(fd)


def _read_all(fd: int, most: int | None) -> bytes:
    """All of a file; of one that is larger than ``most``, so much or a little more."""
    data = os.read(fd, _PIECE)
    if len(data) < _PIECE:
        return data
    pieces = [data]
    size = len(data)
    while data and (most is None or size < most):
        data = os.read(fd, 1 << 20)
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


def _move_across(source: str, target: str) -> None:
    """Move a file, a link or a folder to a free name on another file system.

    The copy gets its name when it is whole and synced, so a killed process leaves nothing half
    done under a name that is read.
    """
    import shutil

    def remove(path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    folder, name = os.path.split(target)
    spare = os.path.join(folder, f".{name}.holdfast-moving")
    remove(spare)
    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, spare, symlinks=True)
    else:
        shutil.copy2(source, spare, follow_symlinks=False)
    os.sync()
    os.rename(spare, target)
    remove(source)
