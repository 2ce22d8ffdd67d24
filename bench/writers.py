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
BUDGET = 1_230
BARE = 2_200
"""What bare writers, who only lock, append, sync and write a record, did together on the machine
for which the budget was set. The ratio of the two is the budget of any other machine.
"""


class Run:
    """What writers did together: how many a second, and the longest that one call took."""

    def __init__(self, calls: list[float], seconds: float) -> None:
        self.rate = len(calls) / seconds
        self.worst_ms = max(calls) * 1_000


def measure_writers(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    place = shop.workspace().open(sizes.writers)
    bare = os.path.join(shop.folder, "bare-writers")
    kinds: dict[str, Callable[[int], Work]] = {
        "bare": lambda number: _bare_writer(bare, number),
        "each": lambda number: swinging(Keeper(place.folder), place.ids[number]),
        "one": lambda _number: _noting(Keeper(place.folder), place.ids[0]),
    }
    runs: dict[str, list[Run]] = {name: [] for name in kinds}
    for _ in range(sizes.writer_rounds):
        for name, writer in kinds.items():
            os.sync()
            runs[name].append(_together(sizes, writer))
    rows: list[Row | Missing] = []
    rows += _rows(f"{sizes.writers} processes, one workflow each", runs["each"], runs["bare"])
    who = f"{sizes.writers} processes, all on one workflow"
    return [*rows, *_rows(who, runs["one"], runs["bare"], has_budget=False)]


def _rows(
    who: str, ours: list[Run], bare: list[Run], *, has_budget: bool = True
) -> list[Row | Missing]:
    together, share = (BUDGET, BUDGET / BARE) if has_budget else (None, None)
    rate = median(run.rate for run in ours)
    worst = [run.worst_ms for run in ours]
    pairs = zip(ours, bare, strict=True)
    relative = median(mine.rate / other.rate for mine, other in pairs)
    bare_rate = median(run.rate for run in bare)
    bare_worst = median(run.worst_ms for run in bare)
    detail = f"bare writers under the same lock: {bare_rate:,.0f}/s"
    waits = f"the worst of all {max(worst):.0f} ms; bare writers {bare_worst:.0f} ms"
    return [
        Row(
            f"{who}: transitions together", rate, together, at_least=True, unit="/s", detail=detail
        ),
        Row(f"{who}: the same / bare writers", relative, share, at_least=True),
        Row(f"{who}: worst wait, median of the runs", median(worst), 100, unit="ms", detail=waits),
    ]


def _bare_writer(folder: str, number: int) -> Work:
    """The least that writers who share a ledger can do: its own record each."""
    bare = BareWrites(folder, 6_000, name=f"record-{number}")
    lock = os.path.join(folder, "lock")

    def write() -> None:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        bare.write()
        os.close(fd)

    return write


def _noting(keeper: Keeper, workflow: str) -> Work:
    """A change that any number of writers can make to one workflow in any order."""
    turns = iter(range(10**9))
    return lambda: keeper.set_context({"turn": next(turns), "pid": os.getpid()}, workflow=workflow)


def _together(sizes: Sizes, writer: Callable[[int], Work]) -> Run:
    """Starts the writers, lets them go at the same moment, and waits for all."""
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
    found = [answers.get() for _ in crowd]
    seconds = perf_counter() - begun
    for process in crowd:
        process.join()
    failed = [answer for answer in found if isinstance(answer, str)]
    if failed:
        raise RuntimeError(f"a writer failed: {failed[0]}")
    return Run([call for calls in found for call in calls], seconds)


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
