"""Every kind of hub, for the contract: ``HUBS[kind](folder)`` gives one with two ways in.

A way in is a connection of its own, as another machine has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.hub.memory import MemoryHub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


HUBS: dict[str, Callable[[Path], Meeting]] = {"memory": _memory, "postgres": _postgres}
