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
    few, *between, many = sizes.events
    what = f"transition at {many:,} events / at {few:,}"
    places = {few: short, **{number: shop.workspace().open(1).fill(number) for number in between}}
    return [
        _grown(f"{what}, in process", sizes, {**places, many: long}, 1.1),
        _as_processes(f"{what}, as a process", shop, sizes, (short, long), [], 1.1),
    ]


def measure_many(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """The same transition with few active workflows and with many."""
    places = {number: shop.workspace().open(number) for number in sizes.workflows}
    both = places[min(places)], places[max(places)]
    for place in both:
        place.bind("mine")
    what = f"transition at {max(places):,} active workflows / at {min(places)}"
    aimed = ["-w", both[0].ids[0]]
    return [
        _grown(f"{what}, in process", sizes, places, 1.5),
        _as_processes(f"{what}, as a process with -w", shop, sizes, both, aimed, 1.5),
        _as_processes(
            f"{what}, as a process that finds its own", shop, sizes, both,
            ["--session", "mine"], None,
        ),
    ]  # fmt: skip


def _grown(what: str, sizes: Sizes, places: dict[int, Workspace], limit: float) -> Row:
    """The largest against the smallest; the medians of all of them are the curve of a chart."""
    took: dict[str, list[float]] = {f"{number:,}": [] for number in places}

    def sample(name: str, place: Workspace) -> Sample:
        swing = swinging(place.keeper(), place.ids[0])
        return several(sizes.block, lambda: took[name].append(timed(swing)))

    os.sync()
    samples = {name: sample(name, place) for name, place in zip(took, places.values(), strict=True)}
    interleaved(3, samples)
    times = interleaved(sizes.transition_rounds, samples)
    small, *_, large = samples
    means = mean(took[large]) / mean(took[small])
    detail = f"mean {means:.2f} x, worst {max(took[large]) * 1_000:.0f} ms"
    return Row(what, ratio(times, large, small), limit, detail=detail, medians_ms=middle(times))


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
