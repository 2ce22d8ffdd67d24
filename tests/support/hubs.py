"""Every kind of hub, for the contract: ``HUBS[kind](folder)`` gives one with two ways in.

A way in is a connection of its own, as another machine has it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.hub.git import GitRemote
from holdfast.workspace import location
from support.git_template import make_repository, run_git
from support.memory_hub import MemoryHub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.types import SharedEvent
    from holdfast.hub.contract import Hub


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Meeting:
    """A hub, as two machines see it, and a way to let its clock run."""

    def __init__(self, first: Hub, second: Hub, pass_s: Callable[[float], None]) -> None:
        self.first = first
        self.second = second
        self.pass_s = pass_s


def an_event(replica: str, n: int, stream: str = "login", **more: object) -> SharedEvent:
    cause = {
        "id": f"{replica}-{n}", "at": "2026-01-01T00:00:00.000Z", "type": "add_reminder",
        "args": {"text": f"{replica} {n} ü \u2028 \\ ' \" %s"},
        "by": {"name": "laptop", "surface": "cli"},
    }  # fmt: skip
    event: SharedEvent = {
        "replica": replica, "n": n, "lamport": n, "seen": {replica: n - 1}, "rules": 1,
        "stream": stream, "cause": cause, **more,
    }  # type: ignore[typeddict-item]  # fmt: skip
    return event


def some(replica: str, first: int, last: int) -> list[SharedEvent]:
    return [an_event(replica, n) for n in range(first, last + 1)]


def everything(hub: Hub) -> dict[tuple[str, int], SharedEvent]:
    return {(event["replica"], event["n"]): event for event in hub.pull("").events}


def _memory(_folder: Path) -> Meeting:
    clock = Clock()
    hub = MemoryHub(clock)

    def pass_s(seconds: float) -> None:
        clock.now += seconds

    return Meeting(hub, hub, pass_s)


def _postgres(_folder: Path) -> Meeting:
    import psycopg

    from holdfast.hub.postgres import Postgres
    from support.postgres import shared_server

    dsn = shared_server().new_schema()

    def pass_s(seconds: float) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE leases SET until = until - %s * interval '1 s'", [seconds])

    return Meeting(Postgres(dsn), Postgres(dsn), pass_s)


def _git(folder: Path) -> Meeting:
    """A bare folder, and two repositories that have it as ``origin``."""
    run_git(folder, "init", "-q", "--bare", "remote.git")
    return machines_on(folder, "../remote.git")


def _bundle(folder: Path) -> Meeting:
    """A file on a stick, and two repositories that read and write it."""
    return machines_on(folder, os.fspath(folder / "stick.bundle"))


def machines_on(folder: Path, where: str) -> Meeting:
    """Return the ways to a git hub of two machines, the replicas ``a`` and ``b``."""
    clock = Clock()

    def machine(name: str) -> GitRemote:
        root = folder / name
        make_repository(root)
        if where.startswith(".."):
            run_git(root, "remote", "add", "origin", where)
        origin = "origin" if where.startswith("..") else where
        return GitRemote(location.find(os.fspath(root)), origin, name, clock_s=clock)

    def pass_s(seconds: float) -> None:
        clock.now += seconds

    return Meeting(machine("a"), machine("b"), pass_s)


HUBS: dict[str, Callable[[Path], Meeting]] = {
    "memory": _memory,
    "git": _git,
    "bundle": _bundle,
    "postgres": _postgres,
}
