"""File operations that differ between operating systems: exchange, lease, sync and lock.

All other file operations are portable and live in ``disk.py``. To support another system, implement
these functions for it.
"""

from __future__ import annotations

import fcntl
import os
from _signal import (  # type: ignore[import-not-found]
    ITIMER_REAL,
    SIGALRM,
    SIGURG,
    setitimer,
    signal,
)
from errno import EAGAIN, EINVAL, ENOSYS, ENOTSUP, ENOTTY, EOPNOTSUPP
from stat import S_IWUSR

from holdfast.errors import busy

_AT_FDCWD = -100
_RENAME_NO_REPLACE = 1
_RENAME_EXCHANGE = 2
_NOT_SUPPORTED = (ENOSYS, EINVAL, EOPNOTSUPP)
_STARTED = 19
"""The index of a process's start time in ``/proc/PID/stat``, counted from its name."""
_renameat2 = 0
"""The address of the C function, looked up when the first two files are exchanged."""


# Exchange


def exchange(path: str, other: str) -> bool:
    """Swap two files in one step. Return False if the file system cannot.

    Raise ``OSError`` for any other failure.
    """
    return _rename(path, other, _RENAME_EXCHANGE)


def move_to_free(path: str, target: str) -> bool:
    """Rename a file to a name that no file has. Return False if the file system cannot check that.

    Raise ``FileExistsError`` if the name is taken, or ``OSError`` for any other failure.
    """
    return _rename(path, target, _RENAME_NO_REPLACE)


def _rename(path: str, other: str, flag: int) -> bool:
    """Call ``renameat2``. Return False if the system or the file system does not support the flag.

    ``_ctypes`` is enough to make the system call. After a failure the call is repeated with
    ``ctypes``, which takes two milliseconds to import, to get the error number.
    """
    global _renameat2  # noqa: PLW0603
    arguments = _AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(other), flag
    try:
        import _ctypes

        if not _renameat2:
            program = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]
            _renameat2 = _ctypes.dlsym(program, "renameat2")
        if _ctypes.call_function(_renameat2, arguments) == 0:
            return True
    except (ImportError, AttributeError, OSError):
        pass
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(*arguments) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), other)


# Lease


def has_writer(fd: int) -> bool:
    """Return True if a process has the file open for writing.

    The kernel does not grant a read lease on such a file. Where it grants none at all, the open
    files of all processes that this user may examine are searched.
    """
    is_busy = lease_refused(fd)
    return _is_open_elsewhere(fd) if is_busy is None else is_busy


def lease_refused(fd: int) -> bool | None:
    """Return whether a writer prevents a read lease; ``None`` if leases are not available.

    The lease ends when the file is closed.
    """
    try:
        # The kernel announces a writer that opens the file during the lease by a signal. SIGURG is
        # ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        # Network file systems have no leases, and nobody gets one on another user's file.
        return True if error.errno == EAGAIN else None
    except AttributeError:  # a system without leases
        return None
    return False


def _is_open_elsewhere(fd: int) -> bool:
    """Search ``/proc`` for a process that has the file open for writing, this one included."""
    try:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        processes = _process_ids()
    except OSError:
        return False
    stat = os.fstat(fd)
    return any(_has_open(f"/proc/{process}/fd", name, stat) for process in processes)


def _process_ids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdecimal()]


def _has_open(folder: str, name: str, stat: os.stat_result) -> bool:
    """Return True if the process with this folder of descriptors has the file open for writing."""
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return False  # It is another user's process, or has ended.
    for descriptor in descriptors:
        link = f"{folder}/{descriptor}"
        try:
            # Look at the name first: a file on a server that does not answer must not be touched.
            is_it = os.readlink(link).endswith(name) and os.path.samestat(os.stat(link), stat)
            # The permissions of the link are those of the open file.
            if is_it and os.lstat(link).st_mode & S_IWUSR:
                return True
        except OSError:
            continue  # It was closed at this moment.
    return False


# Sync


def _fullfsync(fd: int) -> None:
    """Sync to the disk itself on macOS, where ``fsync`` only reaches the drive's cache."""
    try:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined, unused-ignore]
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP, ENOTTY, EOPNOTSUPP):
            raise
        os.fsync(fd)  # The file system does not support F_FULLFSYNC.


sync_names = _fullfsync if hasattr(fcntl, "F_FULLFSYNC") else os.fsync
"""Make the names in a folder durable."""
sync_content = getattr(os, "fdatasync", sync_names)
"""Make the content of a file durable."""


# Lock


def lock(fd: int, path: str, wait_s: float) -> None:
    """Take an exclusive lock on a file, in the kernel's fair queue.

    Raise ``Fault`` (busy), which names the lock's holder, after ``wait_s`` seconds.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        return
    # A timer of zero seconds would never fire.
    if wait_s <= 0 or not _lock_with_timer(fd, wait_s):
        raise busy("the workspace", path, holder=_holder(fd), wait=f"more than {wait_s:g} s")


def unlock(fd: int) -> None:
    """Release a lock, even if a child process that is just starting has the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def _lock_with_timer(fd: int, wait_s: float) -> bool:
    """Wait in the kernel until the lock is acquired or the timer fires; return True if acquired."""

    def give_up(_signal: int, _frame: object) -> None:
        raise TimeoutError

    try:
        previous = signal(SIGALRM, give_up)
    except ValueError:  # Only the main thread can set a signal's handler.
        return _lock_in_thread(fd, wait_s)
    try:
        setitimer(ITIMER_REAL, wait_s)
        fcntl.flock(fd, fcntl.LOCK_EX)
        setitimer(ITIMER_REAL, 0)
    except TimeoutError:
        return False
    finally:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, previous)
    return True


def _lock_in_thread(fd: int, wait_s: float) -> bool:
    """Let another thread wait for the lock; return True if it was acquired in time."""
    import threading

    waiting = os.dup(fd)
    is_locked = threading.Event()

    def sleep() -> None:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        is_locked.set()
        os.close(waiting)

    threading.Thread(target=sleep, daemon=True).start()
    return is_locked.wait(wait_s)


def _holder(fd: int) -> str:
    """Return the process that holds the lock, as the kernel lists it."""
    inode = f":{os.fstat(fd).st_ino} "
    try:
        with open("/proc/locks") as locks:
            rows = [row.split() for row in locks if inode in row and "->" not in row]
    except OSError:
        rows = []
    return f"process {rows[0][4]}" if rows else "another process"


# Processes


def is_running(pid: int, born: int | None) -> bool:
    """True if the process runs. ``born`` excludes a later process that got the same pid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass
    except (ProcessLookupError, OverflowError):
        return False
    start = birth(pid)
    return start is None or born is None or start == born


def birth(pid: int) -> int | None:
    """Return a process's start time in the kernel's units; ``None`` if it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The process's name, in brackets, may contain any character.
    return int(text.rpartition(b")")[2].split()[_STARTED])


# Boot


def boot_id() -> str:
    """Return a name for the time since the kernel started; empty where the system has none."""
    return _read("/proc/sys/kernel/random/boot_id")


def machine_id() -> str:
    """Return a name for the installed system; empty where it has none."""
    return _read("/etc/machine-id")


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
