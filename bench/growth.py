"""What grows with a ledger, and what must not: long histories, and many workflows."""

from __future__ import annotations

import os
from collections import deque
from statistics import mean

from fixtures import swinging, turns_of
from hookruns import SESSION, hook_sample
from measure import interleaved, memory_kb, middle, process, ratio, several, timed
from results import Row
from searching import SEARCHED, measure_filters, measure_search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop, Workspace
    from measure import Sample
    from results import Missing
    from sizes import Sizes

_TWICE = 2
_FLAT = 1.5
_ONE_PASS = """
import sqlite3, sys
ledger = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for row in ledger.execute("SELECT * FROM events ORDER BY seq"):
    pass
"""


def measure_history(
    shop: Workshop, sizes: Sizes, short: Workspace, long: Workspace
) -> list[Row | Missing]:
    """Measure transitions, and readings of the ledger, with few events and with many."""
    few, *between, many = sizes.events
    filled = {number: shop.workspace().open(1).fill(number) for number in between}
    works = {few: short, **filled, many: long}
    grown = f"at {many:,} events / at {few:,}"
    rows: list[Row | Missing] = [
        _curve(f"transition {grown}, in process", sizes, works, 1.2),
        _as_processes(f"transition {grown}, as a process", shop, sizes, (short, long), 1.2),
    ]
    latest = {
        name: lambda work=work: process([*shop.best, "log", "--limit", "20"], work.folder, shop.env)
        for name, work in (("small", short), ("large", long))
    }
    rows.append(_compared(f"`log --limit 20` {grown}", sizes.history_rounds, latest, _TWICE))
    rows += measure_filters(shop, sizes, short, long, grown)
    searched = max((number for number in works if number <= SEARCHED), default=few)
    rows += measure_search(shop, sizes, short, works[searched], searched)
    compared = works[sizes.compared_events]
    return [*rows, *_whole_passes(shop, sizes, compared, long)]


def _whole_passes(
    shop: Workshop, sizes: Sizes, compared: Workspace, long: Workspace
) -> list[Row | Missing]:
    """Measure what reads every event: its time against one pass, its memory against less."""
    verify = [*shop.best, "verify", "--all"]
    one_pass = [shop.python, "-I", "-c", _ONE_PASS, long.ledger_file()]
    samples = {
        "one pass": lambda: process(one_pass, long.folder, shop.env),
        "verify": lambda: process(verify, long.folder, shop.env),
    }
    interleaved(1, {"one pass": samples["one pass"]})
    times = interleaved(sizes.pass_rounds, samples)
    many, few = sizes.events[-1], sizes.compared_events
    medians = middle(times)
    detail = ", ".join(f"{name} {ms / 1_000:.1f} s" for name, ms in medians.items())
    what = f"`verify --all` at {many:,} events / one pass over their rows"
    rows: list[Row | Missing] = [
        Row(what, ratio(times, "verify", "one pass"), 10, detail=detail, medians_ms=medians)
    ]
    for name, argv in (
        ("verify --all", verify),
        ("log", [*shop.best, "log"]),
        ("log --json", [*shop.best, "log", "--json"]),
    ):
        small, large = (
            memory_kb(argv, work.folder, shop.env, shop.python) for work in (compared, long)
        )
        what = f"memory of `{name}` at {many:,} events / at {few:,}"
        detail = f"{large / 1024:.1f} MB, {small / 1024:.1f} MB"
        rows.append(Row(what, large / small, _FLAT, detail=detail))
    return rows


def measure_many(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure the same with few workflows and with many; as many ended as are active."""
    works = {number: shop.workspace().open(number).end(number) for number in sizes.workflows}
    few, many = min(works), max(works)
    both = works[few], works[many]
    for work in both:
        work.bind(SESSION)
    grown = f"with {many:,} active workflows and {many:,} ended / with {few} and {few}"
    rows: list[Row | Missing] = [_curve(f"transition {grown}, in process", sizes, works, 1.5)]
    aims = {"with -w": ["-w", both[0].ids[0]], "that finds its own": ["--session", SESSION]}
    for name, aim in aims.items():
        what = f"transition {grown}, as a process {name}"
        rows.append(_as_processes(what, shop, sizes, both, _TWICE, aim))
    hook = shop.hook
    kinds = {
        "`status`": lambda work: _plain(shop, work, "status"),
        "bare `holdfast`": lambda work: _plain(shop, work),
        "`context`": lambda work: _plain(shop, work, "context"),
        "`log --limit 20`": lambda work: _plain(shop, work, "log", "--limit", "20"),
        "hook SessionStart": lambda work: hook_sample(shop, hook, "SessionStart", work.folder),
        "a change with `--id` and its retry": lambda work: _retried(shop, work),
    }
    budgeted = {name: _TWICE for name in kinds if name not in ("bare `holdfast`", "`context`")}
    for name, make in kinds.items():
        samples = {"small": make(both[0]), "large": make(both[1])}
        row = _compared(f"{name} {grown}", sizes.history_rounds, samples, budgeted.get(name))
        rows.append(row)
    return [*rows, *_opened_and_ended(shop, sizes, both, grown)]


def _plain(shop: Workshop, work: Workspace, *words: str) -> Sample:
    return lambda: process([*shop.best, *words], work.folder, shop.env)


def _retried(shop: Workshop, work: Workspace) -> Sample:
    """Return a sample of a request with an id, made twice: the second finds the first."""
    turns = turns_of(work.setup, work.ids[0])
    numbers = iter(range(10**9))

    def sample() -> float:
        words = [*next(turns), "-w", work.ids[0], "--id", f"bench-{os.getpid()}-{next(numbers)}"]
        return sum(process([*shop.best, *words], work.folder, shop.env) for _ in range(2))

    return sample


def _opened_and_ended(
    shop: Workshop, sizes: Sizes, both: tuple[Workspace, Workspace], grown: str
) -> list[Row | Missing]:
    """Measure ``start`` and ``complete``: each sample ends what an earlier one opened."""
    numbers = iter(range(10**9))

    def samples_of(work: Workspace) -> tuple[Sample, Sample]:
        opened: deque[str] = deque()

        def start() -> float:
            session = f"opened-{next(numbers)}"
            opened.append(session)
            words = ["start", "dev", f"features/{session}.md", "--task", "one"]
            return process([*shop.best, *words, "--session", session], work.folder, shop.env)

        def complete() -> float:
            words = ["complete", "--force", "--reason", "measured", "--session", opened.popleft()]
            return process([*shop.best, *words], work.folder, shop.env)

        # Who begins changes with each round, and there has to be something to complete.
        start()
        return start, complete

    start_small, complete_small = samples_of(both[0])
    start_large, complete_large = samples_of(both[1])
    samples = {
        "start small": start_small, "start large": start_large,
        "complete small": complete_small, "complete large": complete_large,
    }  # fmt: skip
    os.sync()
    times = interleaved(sizes.history_rounds, samples)
    return [
        Row(
            f"`{name}` {grown}", ratio(times, f"{name} large", f"{name} small"), _TWICE,
            medians_ms=middle(times),
        )
        for name in ("start", "complete")
    ]  # fmt: skip


def _curve(what: str, sizes: Sizes, works: dict[int, Workspace], limit: float) -> Row:
    """Compare the largest with the smallest; the medians of all are the curve of a chart."""
    took: dict[str, list[float]] = {f"{number:,}": [] for number in works}

    def sample(name: str, work: Workspace) -> Sample:
        swing = swinging(work.keeper(), work.ids[0])
        return several(sizes.block, lambda: took[name].append(timed(swing)))

    os.sync()
    samples = {name: sample(name, work) for name, work in zip(took, works.values(), strict=True)}
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
    limit: float,
    aim: list[str] | None = None,
) -> Row:
    def sample(work: Workspace) -> Sample:
        turns = turns_of(work.setup, work.ids[0])
        return lambda: process([*shop.best, *next(turns), *(aim or [])], work.folder, shop.env)

    samples = {"small": sample(both[0]), "large": sample(both[1])}
    return _compared(what, sizes.history_rounds, samples, limit)


def _compared(what: str, rounds: int, samples: dict[str, Sample], limit: float | None) -> Row:
    os.sync()
    interleaved(2, samples)
    times = interleaved(rounds, samples)
    return Row(what, ratio(times, "large", "small"), limit, medians_ms=middle(times))
