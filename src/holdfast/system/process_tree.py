"""Find and end the processes that a command started; find those that started this one.

A command leads a session of its own, so its process group has its pid. Detached processes, which
left the group, are found through ``/proc`` by their parents, sessions and groups, and by a name for
the run that all of them inherit in their environment. Without ``/proc`` only the group can be
ended. The command itself is waited for last: while it is a zombie, no other process can get its
pid.

Run as a script, this module is the guard of one command: it ends the command if the process that
runs it is killed (``command_guard``).
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

RUN_VARIABLE = "HOLDFAST_RUN"
"""The variable with the names of the runs that a process belongs to, the innermost last."""
_PROC = "/proc"
_DEAD = (b"Z", b"X")
_TERM_GRACE_S = 2.0
_SCAN_PAUSE_S = 0.02
_LAST_SCANS = 3
"""Scans in a row that must find nothing: a process may be starting another one meanwhile."""
_MAX_GUARD_S = 60.0
"""The time for which a guard tries to end processes that the kernel holds."""


class ProcessTree:
    """A command that leads its own session, and all processes that it started."""

    __slots__ = ("_command", "_detached", "_run")

    def __init__(self, command: subprocess.Popen[bytes], run: str = "") -> None:
        self._command = command
        self._run = run
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
        """Remember descendants that left the group."""
        leader = self._command.pid
        processes = _processes()
        roots = {leader, *_of_run(processes, self._run)}
        for pid in _descendants(roots, processes):
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


def _descendants(roots: set[int], processes: dict[int, _Process]) -> set[int]:
    """Return the live processes among ``roots``, and all that belong to one of them."""
    pids, before = roots, 0
    while len(pids) > before:
        before = len(pids)
        pids = pids | {pid for pid, process in processes.items() if pids & process.belongs_to}
    return pids & processes.keys()


def _of_run(processes: dict[int, _Process], run: str) -> Iterator[int]:
    """Yield the processes that inherited the name of a run, even if their parents have ended."""
    for pid in processes if run else ():
        if run in process_facts(pid)[1].get(RUN_VARIABLE, "").split():
            yield pid


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


# The guard: a process of its own, as it has to live on when the one that started it is killed


class _Guard:
    """The command of a guard: how to recognise and end its processes."""

    def __init__(self, run: str, output: str) -> None:
        self._run = run
        self._output = output
        """The pipe of the command's output, as ``/proc`` names it."""
        self._leader = 0
        self._since = b""

    def wait(self) -> None:
        """Return when the process that runs the command has ended: its end of a pipe is closed.

        Meanwhile it sends the pid of the command.
        """
        line = b""
        while chunk := os.read(0, 64):
            line += chunk
            if line.endswith(b"\n"):
                self._leader = int(line)
                self._since = _since(self._leader)

    def end_all(self) -> None:
        """Ask all processes of the command to end; kill those that do not."""
        import time

        begin = time.monotonic()
        empty_scans = 0
        asked: set[tuple[int, bytes]] = set()
        while empty_scans < _LAST_SCANS and time.monotonic() < begin + _MAX_GUARD_S:
            is_patient = time.monotonic() < begin + _TERM_GRACE_S
            members = self._find()
            empty_scans = 0 if members else empty_scans + 1
            for member in members - asked if is_patient else members:
                _send(os.kill, member[0], signal.SIGTERM if is_patient else signal.SIGKILL)
            asked |= members
            time.sleep(_SCAN_PAUSE_S)

    def end_group(self) -> None:
        """Do the same where only the group is known."""
        import time

        if self._leader and _send(os.killpg, self._leader, signal.SIGTERM):
            time.sleep(_TERM_GRACE_S)
            _send(os.killpg, self._leader, signal.SIGKILL)

    def _find(self) -> set[tuple[int, bytes]]:
        """Return pid and time of every process of the command."""
        processes = _processes()
        processes.pop(os.getpid(), None)
        roots = set(_of_run(processes, self._run))
        # A process that was forked and has not yet become the command has its output only.
        roots |= {pid for pid in processes if self._output in _open_files(pid)}
        leader = processes.get(self._leader)
        if self._leader and (leader is None or leader.since == self._since):
            roots.add(self._leader)
        return {(pid, processes[pid].since) for pid in _descendants(roots, processes)}


def _since(pid: int) -> bytes:
    """Return when a process was started, as ``/proc`` says it; empty if it is gone."""
    stat = _read_stat(str(pid))
    return stat[19] if len(stat) > 19 else b""


def _open_files(pid: int) -> Iterator[str]:
    """Yield the names of the files that a process has open."""
    folder = f"{_PROC}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # It has ended, or is another user's.
        return
    for name in names:
        try:
            yield os.readlink(f"{folder}/{name}")
        except OSError:
            continue


def _guard(run: str, output: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guard = _Guard(run, output)
    guard.wait()
    if _processes():
        guard.end_all()
    else:
        guard.end_group()


if __name__ == "__main__":
    import sys

    _guard(*sys.argv[1:])
