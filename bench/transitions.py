"""Transitions inside one process: what they cost beside their own writes, and as things grow."""

from __future__ import annotations

import os
from importlib.metadata import version
from statistics import mean

from fixtures import swinging, turns_of
from measure import interleaved, middle, process, ratio, several, timed
from results import Missing, Row

from holdfast.disk import Disk
from holdfast.ledger.file import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fixtures import Workshop, Workspace
    from measure import Sample
    from sizes import Sizes

_LINE = b"x" * 299 + b"\n"
_STATE_BYTES = 3_600


def measure_transitions(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """A durable transition against its bare writes, and the append alone against LangGraph."""
    place = shop.workspace().open(1).fill(60)
    state = place.setup.show(workflow=place.ids[0]).state
    record = os.path.getsize(os.path.join(place.folder, state["record"]))
    bare = BareWrites(os.path.join(shop.folder, "bare"), record)
    samples = {
        "transition": several(sizes.block, swinging(place.keeper(), place.ids[0])),
        "bare writes": several(sizes.block, bare.write),
        "append": several(sizes.block, appending(os.path.join(shop.folder, "append"))),
    }
    put = langgraph_put(os.path.join(shop.folder, "langgraph.db"))
    if put is not None:
        samples["put"] = several(sizes.block, put)
    os.sync()
    interleaved(3, samples)
    times = interleaved(sizes.transition_rounds, samples)
    found = middle(times)
    what = "durable transition / append + fdatasync + record without sync"
    value = ratio(times, "transition", "bare writes")
    detail = f"a record of {record:,} bytes with {len(state['history'])} history entries"
    rows: list[Row | Missing] = [Row(what, value, 1.6, detail=detail, medians_ms=found)]
    what = "ledger append alone / LangGraph's SqliteSaver.put of 3.6 KB"
    if put is None:
        return [*rows, Missing(what, "langgraph-checkpoint-sqlite is not installed")]
    detail = f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}, synced alike"
    value = ratio(times, "append", "put")
    return [*rows, Row(what, value, 1, detail=detail, medians_ms=found)]


class BareWrites:
    """The least that a durable event with a visible record can be: what we compare with."""

    def __init__(self, folder: str, record_bytes: int, name: str = "record") -> None:
        os.makedirs(folder, exist_ok=True)
        self._ledger = os.path.join(folder, "ledger")
        self._record = os.path.join(folder, name)
        self._data = b"x" * record_bytes

    def write(self) -> None:
        fd = os.open(self._ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, _LINE)
        os.fdatasync(fd)
        os.close(fd)
        spare = f"{self._record}.tmp"
        fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, self._data)
        os.close(fd)
        os.rename(spare, self._record)


def appending(folder: str) -> Callable[[], None]:
    """One event prepared and committed by the ledger, without a record."""
    os.makedirs(folder)
    ledger = Ledger(folder, Disk())
    ledger.refresh()
    draft = {"type": "task_completed", "data": {"task": 7, "commit": "0f3c2d1"}}

    def append() -> None:
        events, lines = ledger.prepare(
            [draft],
            stream="dev-00000000",
            version=ledger.head_seq,
            at="2026-03-09T17:00:00.000Z",
            by={"surface": "bench"},
            event_id=os.urandom(12).hex(),
        )
        ledger.append(events, lines)

    return append


def langgraph_put(path: str) -> Callable[[], None] | None:
    """A checkpoint put by LangGraph, as durable as ours: WAL with full syncs."""
    try:
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError:
        return None
    import sqlite3

    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    full = connection.execute("pragma synchronous").fetchone()[0]
    assert full == 2, "its commits are not durable, so they cannot be compared"
    tasks = [{"id": number, "text": "x" * 80} for number in range(_STATE_BYTES // 100)]
    config = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    numbers = iter(range(10**9))

    def put() -> None:
        number = next(numbers)
        values = {"id": f"{number:032}", "channel_values": {"state": tasks}}
        metadata = {"source": "loop", "step": number}
        saver.put(config, {**empty_checkpoint(), **values}, metadata, {})

    return put


def measure_history(
    shop: Workshop, sizes: Sizes, short: Workspace, long: Workspace
) -> list[Row | Missing]:
    """The same transition with few events in the ledger and with many."""
    what = f"transition at {sizes.many_events:,} events / at {sizes.few_events:,}"
    return [
        _grown(f"{what}, in process", sizes, short, long, 1.1),
        _as_processes(f"{what}, as a process", shop, sizes, (short, long), [], 1.1),
    ]


def measure_many(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """The same transition with few active workflows and with many."""
    few = shop.workspace().open(sizes.few_workflows)
    many = shop.workspace().open(sizes.many_workflows)
    for place in (few, many):
        place.bind("mine")
    what = f"transition at {sizes.many_workflows:,} active workflows / at {sizes.few_workflows}"
    both = (few, many)
    aimed = ["-w", few.ids[0]]
    return [
        _grown(f"{what}, in process", sizes, few, many, 1.5),
        _as_processes(f"{what}, as a process with -w", shop, sizes, both, aimed, 1.5),
        _as_processes(
            f"{what}, as a process that finds its own", shop, sizes, both,
            ["--session", "mine"], None,
        ),
    ]  # fmt: skip


def _grown(what: str, sizes: Sizes, small: Workspace, large: Workspace, limit: float) -> Row:
    worst: dict[str, list[float]] = {"small": [], "large": []}

    def sample(name: str, place: Workspace) -> Sample:
        swing = swinging(place.keeper(), place.ids[0])
        return several(sizes.block, lambda: worst[name].append(timed(swing)))

    os.sync()
    samples = {"small": sample("small", small), "large": sample("large", large)}
    interleaved(3, samples)
    times = interleaved(sizes.transition_rounds, samples)
    means = mean(worst["large"]) / mean(worst["small"])
    detail = f"mean {means:.2f} x, worst {max(worst['large']) * 1_000:.0f} ms"
    return Row(what, ratio(times, "large", "small"), limit, detail=detail, medians_ms=middle(times))


def _as_processes(
    what: str,
    shop: Workshop,
    sizes: Sizes,
    both: tuple[Workspace, Workspace],
    aim: list[str],
    limit: float | None,
) -> Row:
    def sample(place: Workspace) -> Sample:
        turns = turns_of(place.setup, place.ids[0])
        return lambda: process([*shop.best, *next(turns), *aim], place.folder, shop.env)

    samples = {"small": sample(both[0]), "large": sample(both[1])}
    os.sync()
    interleaved(2, samples)
    times = interleaved(sizes.history_rounds, samples)
    return Row(what, ratio(times, "large", "small"), limit, medians_ms=middle(times))
