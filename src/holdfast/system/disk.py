"""Write, sync, rename and lock files: every durable change goes through a ``Disk``.

A test can therefore record the operations and replay every state that a power cut could cause. A
``Lock`` serializes the writers of a workspace.

Files that are made are for their owner alone (0600, folders 0700), whatever the umask says. What
root makes in another user's folder belongs to that user, who would be locked out otherwise.
"""

from __future__ import annotations

import os
from errno import (
    EEXIST,
    EFBIG,
    EINVAL,
    ELOOP,
    EMLINK,
    ENOSYS,
    ENOTSUP,
    ENXIO,
    EOPNOTSUPP,
    EPERM,
    EXDEV,
)
from stat import S_IMODE, S_ISDIR, S_ISREG

from holdfast.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = 64 * 1024
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

_OWN_FILE = 0o600
_OWN_FOLDER = 0o700
SPARE = ".tmp"
"""The suffix of a view's temporary file. The writer's process id precedes it."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The largest size of a record, in bytes. Of a larger file, about one byte more is read."""
MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest size, in bytes, of a file that is read as a whole into memory."""
_MAX_MARK_BYTES = 4096
_MAX_CAPTURED = 8
_NO_LINKS = (EPERM, ENOSYS, ENOTSUP, EOPNOTSUPP, EINVAL, EMLINK)
"""The errors of file systems that have no hard links."""
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

    def read_end(self, path: str, most: int) -> bytes:
        """Return the last ``most`` bytes of an ordinary file; raise ``OSError`` if it is none."""
        fd = os.open(path, _TO_READ)
        try:
            stat = os.fstat(fd)
            if not S_ISREG(stat.st_mode):
                raise _not_ordinary(path)
            return os.pread(fd, most, max(0, stat.st_size - most))
        finally:
            os.close(fd)

    def open_read(self, path: str) -> int:
        """Open an ordinary file; raise ``OSError`` if it is a link or anything else."""
        fd = os.open(path, _TO_READ | os.O_NOFOLLOW)
        if S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise _not_ordinary(path)

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

    def make_folder(self, path: str, mode: int = _OWN_FOLDER) -> None:
        """Make a folder and all folders above it that do not exist yet."""
        try:
            self.add_folder(path, mode)
        except FileNotFoundError:
            above = os.path.dirname(path)
            if above == path:
                raise
            self.make_folder(above, mode)
            self.add_folder(path, mode)

    def add_folder(self, path: str, mode: int = _OWN_FOLDER) -> None:
        """Make a folder inside an existing one, unless it exists already."""
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return
        _settle_new(path, path, mode)

    def extend(
        self, path: str, data: bytes, *, is_own: bool = False, mode: int = _OWN_FILE
    ) -> None:
        """Append to a file; create it with this mode if it does not exist.

        Raise ``OSError`` for anything but a file, and with ``is_own`` for a link to one.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        if is_own:
            flags |= os.O_NOFOLLOW
        is_new = not os.path.exists(path)
        fd = os.open(path, flags | os.O_CREAT, mode)
        try:
            if not S_ISREG(os.fstat(fd).st_mode):
                raise _not_ordinary(path)
            if is_new:
                _settle_new(fd, path, mode)
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
        self, path: str, data: bytes, mode: int = _OWN_FILE, *, durable: bool = False
    ) -> os.stat_result:
        """Create a file and return its status; raise ``FileExistsError`` if the name is taken."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, mode)
        try:
            self.write(fd, data)
            stat = _settle_new(fd, path, mode)
            if durable:
                self.sync(fd)
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
        self, path: str, spare: str, *, is_new: bool = False, durable: bool = False
    ) -> list[str]:
        """Put the file ``spare`` at ``path``; return the names that hold what it replaced.

        What an editor saved at ``path`` just before is not lost: it is under one of these names,
        the oldest first. Usually there is one, ``spare`` itself, because the two files are
        exchanged in one step, so that a reader always sees a complete file.

        Where the file system cannot exchange, the file at ``path`` is first renamed, which keeps
        whatever was saved there, and ``spare`` then takes the free name. If another program was
        faster, its file is renamed, too. ``is_new`` is a hint that the file does not exist; the
        result is correct if the hint is wrong.
        """
        if not is_new:
            try:
                if self.exchange(spare, path):
                    return [spare]
            except FileNotFoundError:
                is_new = True
        return self._replace_in_steps(path, spare, is_new=is_new, durable=durable)

    def _replace_in_steps(self, path: str, spare: str, *, is_new: bool, durable: bool) -> list[str]:
        """Replace a file that does not exist, or on a file system that cannot exchange files."""
        replaced: list[str] = []
        for name in old_names(spare):
            if not is_new and not os.path.lexists(name):
                try:
                    self.move(path, name)
                    replaced.append(name)
                except FileNotFoundError:
                    pass
            try:
                self.move_to_free(spare, path, durable=durable)
            except FileExistsError:
                if is_new:
                    return self.replace(path, spare, durable=durable)
            except OSError:
                if replaced and not os.path.lexists(path):
                    self.move(replaced[-1], path)
                raise
            else:
                return replaced
        raise FileExistsError(EEXIST, "other programs keep writing it", path)

    def replace_view(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Replace a file that only Holdfast writes. Its earlier content is not kept.

        If ``durable``, a power cut after it leaves the new content under this name.
        """
        spare = f"{path}.{os.getpid()}{SPARE}"
        self.remove(spare)
        try:
            self.create(spare, data, durable=durable)
            self.move(spare, path)
            if durable:
                self.sync_folder(os.path.dirname(path))
        except OSError:
            self.remove(spare)
            raise

    def update(self, path: str, edit: Callable[[bytes], dict[int, bytes] | None]) -> bool:
        """Overwrite the bytes at the offsets that ``edit`` returns for a file's content.

        Return False if there is no such file, if another program changes it meanwhile, or if
        ``edit`` returns ``None``. Raise ``OSError`` if it is too large to be read.
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
                raise _too_large(path)
            raw = os.read(fd, _PIECE)
            if len(raw) == _PIECE:
                raw += _read_rest(fd, path, None)
            pieces = edit(raw)
            if pieces:
                if _has_changed(fd, stat):
                    return False
                edited, end = bytearray(raw), 0
                for offset, data in pieces.items():
                    edited[offset : offset + len(data)] = data
                    end = max(end, offset + len(data))
                start = min(pieces)
                os.pwrite(fd, edited[start:end], start)
        finally:
            os.close(fd)
        return pieces is not None

    def exchange(self, path: str, other: str) -> bool:
        """Swap two files in one step. Return False if the file system cannot."""
        return kernel.exchange(path, other)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def move(self, source: str, target: str) -> None:
        os.rename(source, target)

    def move_to_free(self, source: str, target: str, *, durable: bool = False) -> None:
        """Rename a file to a name that no file has; raise ``FileExistsError`` if it is taken.

        If ``durable``, a power cut leaves the file under one of the two names, and under the new
        one afterwards. Without hard links and without such a rename, the name is only looked at: a
        file that another program saves there between the look and the rename is lost.
        """
        if not self._link_or_move(source, target):
            if os.path.lexists(target):
                raise FileExistsError(EEXIST, os.strerror(EEXIST), target)
            self.move(source, target)
        if durable:
            self.sync_folder(os.path.dirname(target))
        self.remove(source)

    def _link_or_move(self, source: str, target: str) -> bool:
        """Give a file a second name, or rename it. Return False if only ``rename`` is possible."""
        try:
            self.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return kernel.move_to_free(source, target)
        return True

    def can_keep_saves(self, folder: str) -> tuple[bool, bool, bool]:
        """Try what ``replace`` needs to keep what an editor saves at that moment.

        Return whether two files can be exchanged, whether a file can take a name only if it is
        free, and whether the kernel tells that a file is being written.
        """
        first, second = (os.path.join(folder, f".holdfast-{os.getpid()}-{end}") for end in "ab")
        try:
            self.create(first, b"", 0o600)
            self.create(second, b"", 0o600)
            can_exchange = self.exchange(first, second)
            fd = self.open_read(second)
            has_leases = kernel.lease_refused(fd) is not None
            self.close(fd)
            self.remove(second)
            return can_exchange, self._link_or_move(first, second), has_leases
        finally:
            self.remove(first)
            self.remove(second)

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

    def remove_tree(self, path: str) -> None:
        """Remove a folder with all that is in it. A link is removed itself, never followed."""
        import shutil

        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            self.remove(path)

    def lock(self, path: str, wait_s: float) -> int:
        """Take an exclusive kernel lock and return its descriptor.

        The lock ends when the descriptor is closed or the process dies. Raise ``Fault`` (busy)
        when ``wait_s`` seconds have passed.
        """
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(path, flags, _OWN_FILE)
            try:
                _settle_new(fd, path, _OWN_FILE)
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


def _settle_new(file: int | str, path: str, mode: int) -> os.stat_result:
    """Give a new file its permissions, despite the umask, and its owner; return its status.

    ``file`` is its descriptor, or the path of a folder. What root makes gets its folder's owner.
    """
    stat = os.stat(file)
    if S_IMODE(stat.st_mode) != mode and stat.st_uid == os.geteuid():
        os.chmod(file, mode)
        stat = os.stat(file)
    if not stat.st_uid:
        above = os.stat(os.path.dirname(path))
        if above.st_uid:
            os.chown(file, above.st_uid, above.st_gid)
            stat = os.stat(file)
    return stat


def old_names(spare: str) -> list[str]:
    """Return the names of what ``Disk.replace`` replaces on a file system that cannot exchange."""
    return [f"{spare}.old", *[f"{spare}.old-{number}" for number in range(2, _MAX_CAPTURED + 1)]]


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
            raise _too_large(path)
        if or_busy and kernel.has_writer(fd):
            # Ask before reading: a writer that ends between the two would be missed.
            return BUSY
        data = os.read(fd, _PIECE)
        if len(data) == _PIECE:
            data += _read_rest(fd, path, most)
        return data
    finally:
        os.close(fd)


def _has_changed(fd: int, before: os.stat_result) -> bool:
    now = os.fstat(fd)
    return (now.st_size, now.st_mtime_ns, now.st_nlink) != (
        before.st_size, before.st_mtime_ns, before.st_nlink,
    )  # fmt: skip


def _read_rest(fd: int, path: str, most: int | None) -> bytes:
    """Return the rest of a file, cut off after ``most`` bytes or a little more.

    Without ``most``, raise ``OSError`` if it has grown too large since it was opened.
    """
    pieces = []
    size, data = 0, b" "
    while data and size < (MAX_FILE_BYTES if most is None else most):
        data = os.read(fd, 1 << 20)
        pieces.append(data)
        size += len(data)
    if data and most is None:
        raise _too_large(path)
    return b"".join(pieces)


def _not_ordinary(path: str) -> OSError:
    return OSError(EINVAL, "it is not an ordinary file", path)


def _too_large(path: str) -> OSError:
    return OSError(EFBIG, f"it has more than {MAX_FILE_BYTES:,} bytes", path)


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
