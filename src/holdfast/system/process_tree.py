"""Find and end the processes that a command started; find those that started this one.

A command leads a session of its own, so its process group has its pid. Detached processes, which
left the group, are found through ``/proc`` by their parents, sessions and groups. Without ``/proc``
only the group can be ended. The command itself is waited for last: while it is a zombie, no other
process can get its pid.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

_PROC = "/proc"
_DEAD = (b"Z", b"X")


class ProcessTree:
    """A command that leads its own session, and all processes that it started."""

    __slots__ = ("_command", "_detached")

    def __init__(self, command: subprocess.Popen[bytes]) -> None:
        self._command = command
        self._detached: dict[int, bytes] = {}

    def has_ended(self) -> bool:
        """Return True if the command has ended; keep its pid taken where the system allows it."""
        if self._command.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self._command.poll() is not None
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._command.pid, how) is not None
        except ChildProcessError:  # our parent made us ignore SIGCHLD
            return True

    def find_detached(self) -> None:
        """Remember descendants that left the group, while their parents are still alive."""
        leader = self._command.pid
        processes = _processes()
        pids, before = {leader}, 0
        while len(pids) > before:
            before = len(pids)
            pids |= {pid for pid, process in processes.items() if pids & process.belongs_to}
        for pid in pids & processes.keys():
            if processes[pid].group != leader:
                self._detached[pid] = processes[pid].since

    def is_gone(self) -> bool:
        """Return True if no process of the group and no detached one is alive."""
        processes = _processes()
        leader = self._command.pid
        if not processes:
            return self.has_ended() and not _send(os.killpg, leader, 0)
        return not any(
            process.group == leader or self._detached.get(pid) == process.since
            for pid, process in processes.items()
        )

    def terminate(self) -> None:
        """Ask the group and the detached processes to end."""
        _send(os.killpg, self._command.pid, signal.SIGTERM)
        self._signal_detached(signal.SIGTERM)

    def kill(self, *, with_detached: bool = True) -> None:
        """Kill the group and the detached processes."""
        try:
            if with_detached:
                self.find_detached()
        finally:
            _send(os.killpg, self._command.pid, signal.SIGKILL)
            self._signal_detached(signal.SIGKILL)

    def _signal_detached(self, number: int) -> None:
        processes = _processes() if self._detached else {}
        for pid, since in self._detached.items():
            # Another process may have the pid by now.
            if pid in processes and processes[pid].since == since:
                _send(os.kill, pid, number)


class _Process:
    __slots__ = ("belongs_to", "group", "since")

    def __init__(self, stat: list[bytes]) -> None:
        parent, group, session = (int(word) for word in stat[1:4])
        self.belongs_to = {parent, group, session}
        self.group = group
        self.since = stat[19]


def _processes() -> dict[int, _Process]:
    """Return all live processes; none without ``/proc``."""
    try:
        names = [name for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return {}
    processes = {}
    for name in names:
        stat = _read_stat(name)
        if len(stat) > 19 and stat[0] not in _DEAD:
            processes[int(name)] = _Process(stat)
    return processes


def _read_stat(pid: str) -> list[bytes]:
    """Return the fields of a process after its name; none if it has ended."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            # The program's name comes first, in brackets, and may hold brackets and spaces.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def process_facts(pid: int) -> tuple[str, dict[str, str]]:
    """Return a process's name and environment; both empty if it has ended or is another user's."""
    try:
        with open(f"{_PROC}/{pid}/comm", "rb") as file:
            name = os.fsdecode(file.read().rstrip(b"\n"))
        with open(f"{_PROC}/{pid}/environ", "rb") as file:
            fields = os.fsdecode(file.read()).split("\0")
    except OSError:
        return "", {}
    return name, dict(field.split("=", 1) for field in fields if "=" in field)


def ancestors() -> Iterator[int]:
    """Yield the pids of the processes above this one, the parent first; none without ``/proc``."""
    stat = _read_stat("self")
    while len(stat) > 1 and int(stat[1]) > 0:
        pid = int(stat[1])
        yield pid
        stat = _read_stat(str(pid))


def _send(how: Callable[[int, int], None], pid: int, number: int) -> bool:
    """Send a signal; return False if there is no such process."""
    try:
        how(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
