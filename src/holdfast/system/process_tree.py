"""The processes that a command started, and their end.

A command runs in a session of its own, so its process group has its number. Whoever left the group
is found through ``/proc``: by the chain of parents, and by the sessions and groups of those found.
Where there is no ``/proc``, only the group can be ended. The command itself is not waited for until
all is over: as long as it is a zombie, nobody else can get its number.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

_PROC = "/proc"
_DEAD = (b"Z", b"X")


class Family:
    """A command that leads its own session, and all processes that it started."""

    __slots__ = ("_command", "_strays")

    def __init__(self, command: subprocess.Popen[bytes]) -> None:
        self._command = command
        self._strays: dict[int, bytes] = {}

    def has_ended(self) -> bool:
        """Whether the command itself has; its number stays taken where the system can do that."""
        if self._command.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self._command.poll() is not None
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._command.pid, how) is not None
        except ChildProcessError:  # whoever started us ignores the end of children
            return True

    def find_strays(self) -> None:
        """Remembers the descendants that left the group, while their parents still tell of them."""
        leader = self._command.pid
        everyone = _everyone()
        found, before = {leader}, 0
        while len(found) > before:
            before = len(found)
            found |= {pid for pid, process in everyone.items() if found & process.belongs_to}
        for pid in found & everyone.keys():
            if everyone[pid].group != leader:
                self._strays[pid] = everyone[pid].since

    def is_gone(self) -> bool:
        """Whether nobody of the group and none of the strays is left."""
        everyone = _everyone()
        leader = self._command.pid
        if not everyone:
            return self.has_ended() and not _send(os.killpg, leader, 0)
        return not any(
            process.group == leader or self._strays.get(pid) == process.since
            for pid, process in everyone.items()
        )

    def terminate(self) -> None:
        """Asks the group and the strays to end."""
        _send(os.killpg, self._command.pid, signal.SIGTERM)
        self._send_to_strays(signal.SIGTERM)

    def kill(self, *, with_strays: bool = True) -> None:
        """Ends the group, and who left it."""
        try:
            if with_strays:
                self.find_strays()
        finally:
            _send(os.killpg, self._command.pid, signal.SIGKILL)
            self._send_to_strays(signal.SIGKILL)

    def _send_to_strays(self, number: int) -> None:
        everyone = _everyone() if self._strays else {}
        for pid, since in self._strays.items():
            # A number may be somebody else's by now.
            if pid in everyone and everyone[pid].since == since:
                _send(os.kill, pid, number)


class _Process:
    __slots__ = ("belongs_to", "group", "since")

    def __init__(self, stat: list[bytes]) -> None:
        parent, group, session = (int(word) for word in stat[1:4])
        self.belongs_to = {parent, group, session}
        self.group = group
        self.since = stat[19]


def _everyone() -> dict[int, _Process]:
    """All processes that live; none where the system does not tell."""
    try:
        names = [name for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return {}
    found = {}
    for name in names:
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                # The program's name comes first, in brackets, and may hold brackets and spaces.
                stat = file.read().rpartition(b")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if len(stat) > 19 and stat[0] not in _DEAD:
            found[int(name)] = _Process(stat)
    return found


def _send(how: Callable[[int, int], None], pid: int, number: int) -> bool:
    """Whether there was somebody to send it to."""
    try:
        how(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
