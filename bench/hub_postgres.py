"""The hub in PostgreSQL: an append beside a bare INSERT, and how fast everything is pulled."""

from __future__ import annotations

import os
import sys
from statistics import median
from time import perf_counter

import psycopg
from fixtures import ROOT
from measure import timed
from results import Missing, Row

from holdfast.hub.postgres import Postgres

sys.path.append(os.path.join(ROOT, "tests"))
from support.postgres import Server, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fixtures import Workshop
    from sizes import Sizes

    from holdfast.core.types import SharedEvent

_APPEND = "an append to the hub in PostgreSQL / a bare INSERT of the same row"
_INSERT = (
    "INSERT INTO events (replica, n, stream, id, fenced, event) VALUES (%s, %s, %s, %s, %s, %s)"
)
_LIMIT = 1.5
_APPENDS = 20
"""How many appends there are for each round of the sizes."""
_WARM = 10
_BATCH = 500
_MOST = 100_000
_OURS, _BARE = "a" * 12, "b" * 12


def measure_postgres(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure on a server of its own, on the disk that the bench works on, with every sync."""
    os.chmod(shop.folder, 0o711)
    try:
        server = Server(shop.folder, fsync="on")
    except Unavailable as why:
        return [Missing(_APPEND, str(why))]
    try:
        hubs = []
        for schema in ("ours", "bare"):
            with psycopg.connect(server.dsn()) as connection:
                connection.execute(f"CREATE SCHEMA {schema}")
            hubs.append(Postgres(server.dsn(schema)))
            hubs[-1].push([_an_event("c" * 12, 1)])
        rows = [_append_row(hubs[0], hubs[1], sizes), *_pull_rows(hubs[0], sizes)]
        for hub in hubs:
            hub.close()
        return rows
    finally:
        server.close()


def _append_row(ours: Postgres, bare: Postgres, sizes: Sizes) -> Row:
    """Compare appends in turn; the bare connection is set up like ours."""
    connection: Any = bare._connection  # noqa: SLF001 - the baseline is on the same settings
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    rounds = sizes.transition_rounds * _APPENDS
    for n in range(1, rounds + _WARM + 1):
        event, other = _an_event(_OURS, n), _an_event(_BARE, n)
        row = _BARE, n, "login", other["cause"]["id"], False, _text(other)
        times["ours"].append(timed(lambda event=event: ours.push([event])))
        times["bare"].append(timed(lambda row=row: connection.execute(_INSERT, row)))
    middle = {name: median(values[_WARM:]) for name, values in times.items()}
    return Row(
        _APPEND,
        middle["ours"] / middle["bare"],
        _LIMIT,
        detail=f"{rounds:,} of each, synced",
        medians_ms={name: value * 1_000 for name, value in middle.items()},
    )


def _pull_rows(hub: Postgres, sizes: Sizes) -> list[Row]:
    """Measure pushing and pulling a history, in seconds for 100,000 events."""
    count = min(_MOST, sizes.events[-1])
    batch = min(_BATCH, count)
    begun = perf_counter()
    for first in range(1, count + 1, batch):
        hub.push([_an_event("d" * 12, n) for n in range(first, first + batch)])
    pushed_s = perf_counter() - begun
    begun, pulled = perf_counter(), hub.pull("")
    total = len(pulled.events)
    while not pulled.is_all:
        pulled = hub.pull(pulled.cursor)
        total += len(pulled.events)
    pulled_s = perf_counter() - begun
    idle_ms = median(timed(lambda: hub.pull(pulled.cursor)) for _ in range(50)) * 1_000
    what = "events of a hub in PostgreSQL, for 100,000 of them"
    return [
        Row(f"pushing {what}", pushed_s * _MOST / count, unit="s", detail=f"{count:,} events"),
        Row(f"pulling {what}", pulled_s * _MOST / total, unit="s", detail=f"{total:,} events"),
        Row("a pull from PostgreSQL with nothing new", idle_ms, unit="ms"),
    ]


def _an_event(replica: str, n: int) -> SharedEvent:
    event: Any = {
        "replica": replica, "n": n, "lamport": n, "seen": {replica: n - 1}, "rules": 1,
        "stream": "login",
        "cause": {
            "id": os.urandom(12).hex(), "at": "2026-01-01T00:00:00.000Z", "type": "complete_task",
            "args": {"task": 3, "commit": "4f5e6d7", "note": "x" * 150},
            "by": {"name": "laptop", "surface": "cli"},
        },
    }  # fmt: skip
    return event


def _text(event: SharedEvent) -> str:
    from holdfast.core.json_text import dumps

    return dumps(event)
