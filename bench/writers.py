"""Many processes on one workspace: how much they get done together, and how long one may wait."""

from __future__ import annotations

import fcntl
import os
from multiprocessing import get_context
from statistics import median
from time import perf_counter

from fixtures import swinging
from results import Missing, Row
from transitions import BareWrites

from holdfast import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fixtures import Workshop
    from sizes import Sizes

    Work = Callable[[], None]

_FORK = get_context("fork")
SHARE = 0.5
"""How many transitions there must be for each bare write, at least."""
WAIT = 3
"""How many times as long as a bare writer the one that waits longest may wait."""


class Run:
    """What writers did together: how many a second, and the longest that one call took."""

    def __init__(self, calls: list[float], seconds: float) -> None:
        self.rate = len(calls) / seconds
        self.worst_ms = max(calls) * 1_000


def measure_writers(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    work = shop.workspace().open(sizes.writers)
    bare = os.path.join(shop.folder, "bare-writers")
    kinds: dict[str, Callable[[int], Work]] = {
        "bare": lambda number: _bare_writer(bare, number),
        "each": lambda number: swinging(Keeper(work.folder), work.ids[number]),
        "one": lambda _number: _noting(Keeper(work.folder), work.ids[0]),
    }
    runs: dict[str, list[Run]] = {name: [] for name in kinds}
    for _ in range(sizes.writer_rounds):
        for name, writer in kinds.items():
            os.sync()
            runs[name].append(_together(sizes, writer))
    each = f"{sizes.writers} processes, one workflow each"
    one = f"{sizes.writers} processes, all on one workflow"
    return [
        *_rows(each, runs["each"], runs["bare"]),
        *_rows(one, runs["one"], runs["bare"], has_budget=False),
    ]


def _rows(
    who: str, ours: list[Run], bare: list[Run], *, has_budget: bool = True
) -> list[Row | Missing]:
    """Compare the runs of the same round."""
    pairs = list(zip(ours, bare, strict=True))
    rate, bare_rate = (median(run.rate for run in runs) for runs in (ours, bare))
    worst, bare_worst = (median(run.worst_ms for run in runs) for runs in (ours, bare))
    return [
        Row(
            f"{who}: transitions / bare writes behind the same lock",
            median(mine.rate / other.rate for mine, other in pairs),
            SHARE if has_budget else None,
            at_least=True,
            detail=f"{rate:,.0f}/s, bare {bare_rate:,.0f}/s",
        ),
        Row(
            f"{who}: worst wait / a bare writer's",
            median(mine.worst_ms / other.worst_ms for mine, other in pairs),
            WAIT if has_budget else None,
            detail=f"{worst:.0f} ms, bare {bare_worst:.0f} ms;"
            f" in all runs {max(run.worst_ms for run in ours):.0f} ms",
        ),
    ]


def _bare_writer(folder: str, number: int) -> Work:
    """Return the least that writers who share a ledger can do: its own record each."""
    bare = BareWrites(folder, 6_000, name=f"record-{number}")
    lock = os.path.join(folder, "lock")

    def write() -> None:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        bare.write()
        os.close(fd)

    return write


def _noting(keeper: Keeper, workflow: str) -> Work:
    """Return a change that any number of writers can make to one workflow in any order."""
    turns = iter(range(10**9))
    return lambda: keeper.set_context({"turn": next(turns), "pid": os.getpid()}, workflow=workflow)


def _together(sizes: Sizes, writer: Callable[[int], Work]) -> Run:
    """Start the writers, let them go at the same moment, and wait for all."""
    gate = _FORK.Barrier(sizes.writers + 1)
    answers = _FORK.SimpleQueue()
    crowd = [
        _FORK.Process(target=_work, args=(writer, number, sizes.per_writer, gate, answers))
        for number in range(sizes.writers)
    ]
    for process in crowd:
        process.start()
    gate.wait()
    begun = perf_counter()
    collected = [answers.get() for _ in crowd]
    seconds = perf_counter() - begun
    for process in crowd:
        process.join()
    failed = [answer for answer in collected if isinstance(answer, str)]
    if failed:
        raise RuntimeError(f"a writer failed: {failed[0]}")
    return Run([call for calls in collected for call in calls], seconds)


def _work(writer, number: int, times: int, gate, answers) -> None:
    calls = []
    try:
        work = writer(number)
        gate.wait()
        for _ in range(times):
            begun = perf_counter()
            work()
            calls.append(perf_counter() - begun)
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits has to know
        gate.abort()
        answers.put(repr(error))
    else:
        answers.put(calls)
