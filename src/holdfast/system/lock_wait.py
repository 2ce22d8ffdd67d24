"""Waiting for a lock that another process holds: bounded, in the kernel, without asking again."""

from __future__ import annotations

import fcntl
import os

from holdfast.errors import Fault


def wait(fd: int, path: str, wait_s: float) -> None:
    """Takes the lock within this time, or says who holds it."""
    import threading

    if wait_s <= 0:
        taken = False  # A timer of zero seconds would never ring.
    elif threading.current_thread() is threading.main_thread():
        taken = _flock_with_timer(fd, wait_s)
    else:
        taken = _flock_in_thread(fd, wait_s)
    if not taken:
        raise Fault(
            "busy",
            f"the workspace is locked by {_holder(fd)} for more than {wait_s:g} s",
            "wait for that process or end it, then run the same command again",
            path=path,
        )


def _flock_with_timer(fd: int, wait_s: float) -> bool:
    """Sleeps in the kernel until the lock is ours or the timer rings."""
    import signal

    def give_up(_signal: int, _frame: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, wait_s)
        fcntl.flock(fd, fcntl.LOCK_EX)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeoutError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return True


def _flock_in_thread(fd: int, wait_s: float) -> bool:
    """The same where no signal reaches: another thread sleeps, on a descriptor of its own."""
    import threading

    waiting = os.dup(fd)
    taken = threading.Event()

    def wait() -> None:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        taken.set()
        os.close(waiting)

    threading.Thread(target=wait, daemon=True).start()
    return taken.wait(wait_s)


def _holder(fd: int) -> str:
    """The process that holds the lock, as the kernel tells it."""
    inode = f":{os.fstat(fd).st_ino} "
    try:
        with open("/proc/locks") as locks:
            rows = [row.split() for row in locks if inode in row and "->" not in row]
    except OSError:
        rows = []
    return f"process {rows[0][4]}" if rows else "another process"
