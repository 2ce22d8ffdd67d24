"""Write, sync, rename and lock files: every durable change goes through a ``Disk``.

A test can therefore record the operations and replay every state that a power cut could cause. A
``Lock`` serializes the writers of a workspace.
"""

from __future__ import annotations

import os
from errno import EFBIG, EINVAL, ELOOP, ENXIO, EXDEV
from stat import S_ISDIR, S_ISREG

from holdfast.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = 64 * 1024
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

SPARE = ".tmp"
"""The suffix of a view's temporary file. The writer's process id precedes it."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The largest size of a record, in bytes. Of a larger file, about one byte more is read."""
MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest size, in bytes, of a file that is read as a whole into memory."""
_MAX_MARK_BYTES = 4096
FOLDER = b"\x00a folder"
ODD = b"\x00a pipe or a device"
BUSY = b"\x00being written"
"""Values that reading returns for a folder, for a pipe, a device or a socket, and for a file that
another process is writing. They are not valid content, so callers move such an entry aside as a
whole.
"""


class Disk:
    """The file operations that Holdfast needs. Paths are absolute."""

    def read(self, path: str, most: int | None = None) -> bytes | None:
        """Return the whole file, or about its first ``most`` bytes; ``None`` if it does not exist.

        Return ``FOLDER`` for a folder and ``ODD`` for a pipe or a device, without waiting for it.
        """
        return _read_from(path, _TO_READ, most)

    def read_own(
        self, path: str, most: int | None = None, *, or_busy: bool = False
    ) -> bytes | None:
        """Read one of Holdfast's own files as ``read`` does, but return ``ODD`` for a link.

        With ``or_busy``, return ``BUSY`` for a file that another process has open for writing.
        """
        return _read_from(path, _TO_READ | os.O_NOFOLLOW, most, or_busy=or_busy)

    def open_read(self, path: str) -> int:
        """Open an ordinary file; raise ``OSError`` if it is a link or anything else."""
        fd = os.open(path, _TO_READ | os.O_NOFOLLOW)
        if S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(EINVAL, "it is not an ordinary file", path)

    def is_being_written(self, path: str) -> bool:
        """Return True if the kernel reports that a process has the file open for writing."""
        try:
            fd = os.open(path, _TO_READ | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            return kernel.has_writer(fd)
        finally:
            os.close(fd)

    def make_folder(self, path: str, mode: int = 0o777) -> None:
        """Make a folder and all folders above it that do not exist yet."""
        os.makedirs(path, mode, exist_ok=True)

    def add_folder(self, path: str, mode: int = 0o777) -> None:
        """Make a folder inside an existing one, unless it exists already."""
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def extend(self, path: str, data: bytes, *, is_own: bool = False) -> None:
        """Append to a file; create it if it does not exist.

        With ``is_own``, refuse a link and a pipe, and create a file that only its owner can read.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        if is_own:
            fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        else:
            fd = os.open(path, flags, 0o666)
        try:
            self.write(fd, data)
        finally:
            os.close(fd)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of the data; raise ``OSError`` if only a part can be written."""
        while data:
            data = data[os.write(fd, data) :]

    def sync(self, fd: int) -> None:
        kernel.sync_content(fd)

    def sync_folder(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            kernel.sync_names(fd)
        finally:
            os.close(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def create(
        self, path: str, data: bytes, mode: int = 0o666, *, durable: bool = False
    ) -> os.stat_result:
        """Create a file and return its status; raise ``FileExistsError`` if the name is taken."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, mode)
        try:
            self.write(fd, data)
            if durable:
                self.sync(fd)
            stat = os.fstat(fd)
        except BaseException:
            os.close(fd)
            self.remove(path)
            raise
        os.close(fd)
        return stat

    def copy_permissions(self, path: str, model: str) -> None:
        """Copy permissions, and the owner if permitted, from ``model`` to a file.

        Do nothing if ``model`` does not exist.
        """
        try:
            stat = os.stat(model)
        except FileNotFoundError:
            return
        own = os.stat(path)
        if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid):
            try:
                os.chown(path, stat.st_uid, stat.st_gid)
            except PermissionError:
                pass
        os.chmod(path, stat.st_mode & 0o7777)

    def replace(
        self,
        path: str,
        spare: str,
        *,
        is_new: bool = False,
        durable: bool = False,
        or_busy: bool = False,
    ) -> bytes | None:
        """Replace a file by ``spare``; return the content that was replaced, ``None`` for no file.

        The two are exchanged in one step, so a reader always sees a complete file, and what an
        editor saved just before is not lost: it is in ``spare``. ``is_new`` is a hint that the file
        does not exist; the result is correct if the hint is wrong. ``or_busy`` is as in
        ``read_own``.
        """
        if not is_new:
            try:
                self.exchange(spare, path)
            except FileNotFoundError:
                pass
            else:
                return self.read_own(spare, MAX_RECORD_BYTES + 1, or_busy=or_busy)
        try:
            self.link(spare, path)
        except FileExistsError:
            return self.replace(path, spare, durable=durable, or_busy=or_busy)
        if durable:
            self.sync_folder(os.path.dirname(path))
        self.remove(spare)
        return None

    def replace_view(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Replace a file that only Holdfast writes. Its earlier content is not kept.

        If ``durable``, a power cut after it leaves the new content under this name.
        """
        spare = f"{path}.{os.getpid()}{SPARE}"
        self.remove(spare)
        try:
            self.create(spare, data, 0o600, durable=durable)
            self.move(spare, path)
            if durable:
                self.sync_folder(os.path.dirname(path))
        except OSError:
            self.remove(spare)
            raise

    def update(self, path: str, edit: Callable[[bytes], dict[int, bytes] | None]) -> bool:
        """Overwrite the bytes at the offsets that ``edit`` returns for a file's content.

        Return False if there is no such file, or ``edit`` returns ``None``. Raise ``OSError`` if it
        is too large to be read.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            stat = os.fstat(fd)
            if not S_ISREG(stat.st_mode):
                return False
            if stat.st_size > MAX_FILE_BYTES:
                raise OSError(EFBIG, f"it has more than {MAX_FILE_BYTES:,} bytes", path)
            raw = os.read(fd, _PIECE)
            if len(raw) == _PIECE:
                raw += _read_rest(fd, None)
            pieces = edit(raw)
            if pieces:
                edited = bytearray(raw)
                for offset, data in pieces.items():
                    edited[offset : offset + len(data)] = data
                start = min(pieces)
                os.pwrite(fd, edited[start:], start)
        finally:
            os.close(fd)
        return pieces is not None

    def exchange(self, path: str, other: str) -> None:
        """Swap two files, in one step if the file system can, else by way of a third name."""
        if kernel.exchange(path, other):
            return
        aside = old_of(path)
        self.remove(aside)
        self.link(other, aside)
        self.move(path, other)
        self.move(aside, path)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def move(self, source: str, target: str) -> None:
        os.rename(source, target)

    def move_across(self, source: str, target: str) -> None:
        """Move a file, a link or a folder to a free name, which may be on another file system.

        A copy gets its final name once it is complete and synced, so a killed process never leaves
        an incomplete file under that name.
        """
        try:
            self.move(source, target)
        except OSError as error:
            if error.errno != EXDEV:
                raise
            _copy_and_remove(source, target)

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_folder(self, path: str) -> None:
        """Remove a folder if it is empty."""
        try:
            os.rmdir(path)
        except OSError:
            pass

    def lock(self, path: str, wait_s: float) -> int:
        """Take an exclusive kernel lock and return its descriptor.

        The lock ends when the descriptor is closed or the process dies. Raise ``Fault`` (busy)
        when ``wait_s`` seconds have passed.
        """
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                kernel.lock(fd, path, wait_s)
            except BaseException:
                os.close(fd)
                raise
            if os.fstat(fd).st_nlink:
                return fd
            # Another process removed the file during the wait, so this lock protects nothing.
            os.close(fd)

    def unlock(self, fd: int) -> None:
        """Release a lock, even if a child process that is just starting has the descriptor."""
        kernel.unlock(fd)
        os.close(fd)


class Lock:
    """A lock on a file that exists only for the lock. One thread of one process holds it.

    Writers wait for it in the kernel's fair queue, and the kernel releases it when its process
    dies. The file also holds a short mark that the holder leaves for the next one.
    """

    def __init__(self, path: str, disk: Disk) -> None:
        self.is_held = False
        self._path = path
        self._disk = disk
        self._fd = -1

    @property
    def is_current(self) -> bool:
        """Return True if the file that is locked still has the lock's path."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except FileNotFoundError:
            return False

    def acquire(self, wait_s: float) -> None:
        """Wait for the lock; raise ``Fault`` (busy) when ``wait_s`` seconds have passed.

        Another process may move or remove the folder during the wait. A lock on a file that no
        longer has the lock's path protects nothing, so it is taken again.
        """
        assert not self.is_held, "the lock is held already"
        self._fd = self._disk.lock(self._path, wait_s)
        while not self.is_current:
            self._disk.unlock(self._fd)
            self._fd = self._disk.lock(self._path, wait_s)
        self.is_held = True
        _HELD.add(self)

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            _HELD.discard(self)
            self._disk.unlock(self._fd)

    def read_mark(self) -> str:
        """Return the line that an earlier holder left in the lock's file; empty for none."""
        try:
            line, end, _ = os.pread(self._fd, _MAX_MARK_BYTES, 0).partition(b"\n")
        except OSError:
            return ""
        return line.decode(errors="replace") if end else ""

    def write_mark(self, mark: str) -> None:
        """Leave a line for the next holder, if that is possible."""
        try:
            os.pwrite(self._fd, f"{mark}\n".encode(errors="replace"), 0)
        except OSError:
            return

    def close_inherited(self) -> None:
        os.close(self._fd)
        self.is_held = False


_HELD: set[Lock] = set()
"""The locks that this process holds.

A child process closes them, because a lock lasts until every process with its descriptor closes it.
"""


def _close_inherited() -> None:
    while _HELD:
        _HELD.pop().close_inherited()


os.register_at_fork(after_in_child=_close_inherited)


def old_of(spare: str) -> str:
    """Return the third name that ``Disk.exchange`` uses on a file system that cannot exchange."""
    return f"{spare}.old"


def free_name(path: str) -> str:
    """Return the path, with a number appended if a file has it already."""
    free, number = path, 2
    while os.path.lexists(free):
        free, number = f"{path}-{number}", number + 1
    return free


def _read_from(path: str, flags: int, most: int | None, *, or_busy: bool = False) -> bytes | None:
    try:
        fd = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == ENXIO or (error.errno == ELOOP and flags & os.O_NOFOLLOW):
            return ODD  # a socket, or a link that must not be followed
        raise
    try:
        stat = os.fstat(fd)
        if not S_ISREG(stat.st_mode):
            return FOLDER if S_ISDIR(stat.st_mode) else ODD
        if most is None and stat.st_size > MAX_FILE_BYTES:
            raise OSError(EFBIG, f"it has more than {MAX_FILE_BYTES:,} bytes", path)
        data = os.read(fd, _PIECE)
        if len(data) == _PIECE:
            data += _read_rest(fd, most)
        return BUSY if or_busy and kernel.has_writer(fd) else data
    finally:
        os.close(fd)


def _read_rest(fd: int, most: int | None) -> bytes:
    """Return the rest of a file, cut off after ``most`` bytes or a little more."""
    pieces = []
    size, data = 0, b" "
    while data and (most is None or size < most):
        data = os.read(fd, 1 << 20)
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


def _copy_and_remove(source: str, target: str) -> None:
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
