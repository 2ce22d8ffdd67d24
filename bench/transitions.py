"""A transition inside one process: what it costs beside its own writes."""

from __future__ import annotations

import os
from importlib.metadata import version

from fixtures import swinging
from measure import interleaved, middle, ratio, several
from results import Missing, Row

from holdfast.storage.ledger import Ledger
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fixtures import Workshop
    from sizes import Sizes

_LINE = b"x" * 299 + b"\n"
_STATE_BYTES = 3_600
_STREAM = "dev-00000000"
_WAIT_S = 10.0


def measure_transitions(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure a durable transition against its bare writes, and the append against LangGraph."""
    work = shop.workspace().open(1).fill(60)
    state = work.setup.show(workflow=work.ids[0]).state
    record = os.path.getsize(os.path.join(work.folder, state["record"]))
    bare = BareWrites(os.path.join(shop.folder, "bare"), record)
    samples = {
        "transition": several(sizes.block, swinging(work.keeper(), work.ids[0])),
        "bare writes": several(sizes.block, bare.write),
        "append": several(sizes.block, appending(os.path.join(shop.folder, "append"))),
        "append with state": several(
            sizes.block, appending(os.path.join(shop.folder, "stated"), _STATE_BYTES)
        ),
    }
    put = langgraph_put(os.path.join(shop.folder, "langgraph.db"))
    if put is not None:
        samples["put"] = several(sizes.block, put)
    os.sync()
    interleaved(3, samples)
    times = interleaved(sizes.transition_rounds, samples)
    medians = middle(times)
    what = "durable transition / append + fdatasync + record without sync"
    value = ratio(times, "transition", "bare writes")
    detail = f"a record of {record:,} bytes with {len(state['history'])} history entries"
    rows: list[Row | Missing] = [Row(what, value, 1.8, aim=1.4, detail=detail, medians_ms=medians)]
    put_name = "LangGraph's SqliteSaver.put of 3.6 KB"
    appends = {
        "append": (f"ledger append alone / {put_name}", 1),
        "append with state": (f"ledger append with a state of 3.6 KB / {put_name}", None),
    }
    if put is None:
        why = "langgraph-checkpoint-sqlite is not installed"
        return [*rows, *(Missing(what, why) for what, _ in appends.values())]
    detail = f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}, synced alike"
    rows += [
        Row(what, ratio(times, name, "put"), limit, detail=detail, medians_ms=medians)
        for name, (what, limit) in appends.items()
    ]
    return rows


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


def appending(folder: str, state_bytes: int = 0) -> Callable[[], None]:
    """Return a call that commits one event, with its stream's state if that has bytes."""
    ledger = Ledger(folder, Disk(), _WAIT_S)
    draft = {"type": "task_completed", "data": {"task": 7, "commit": "0f3c2d1"}}
    state = [{"id": number, "text": "x" * 80} for number in range(state_bytes // 100)]

    def append() -> None:
        request = os.urandom(12).hex()
        ledger.acquire()
        try:
            ledger.begin()
            (event,) = ledger.insert(
                [draft],
                stream=_STREAM,
                version=ledger.head_seq,
                at="2026-03-09T17:00:00.000Z",
                by={"surface": "bench"},
                request=request,
            )
            if state:
                ledger.put_stream(
                    {
                        "stream": _STREAM, "kind": "workflow", "seq": event["seq"],
                        "version": event["version"], "hash": event["hash"],
                    },
                    state,
                )  # fmt: skip
            ledger.commit(request)
        finally:
            ledger.release()

    return append


def langgraph_put(path: str) -> Callable[[], None] | None:
    """Return a checkpoint's put by LangGraph, as durable as ours: WAL with full syncs."""
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
