"""Finding events: ``log`` with filters in a long history, ``search`` with and without an index."""

from __future__ import annotations

import os

from measure import interleaved, middle, process, ratio
from results import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop, Workspace
    from measure import Sample
    from results import Missing
    from sizes import Sizes

_FILTERS = {
    "`log --limit 20 --type 'task_*'`": (["--type", "task_*"], 2),
    "`log --limit 20 --grep` a text that no event has": (["--grep", "nobody wrote this"], 3),
}
"""The second one looks at the newest 50,000 events, which a short history does not have."""
SEARCHED = 100_000
"""The longest history that is searched."""
_WORDS = ["search", "part", "number"]
_FIRST, _LATER = 20, 2
_ONE_PASS = """
import sqlite3, sys
ledger = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for row in ledger.execute("SELECT * FROM events ORDER BY seq"):
    pass
"""


def measure_filters(
    shop: Workshop, sizes: Sizes, short: Workspace, long: Workspace, grown: str
) -> list[Row | Missing]:
    """Measure ``log`` with a limit and a filter, in a short history and in a long one."""
    rows: list[Row | Missing] = []
    for name, (words, limit) in _FILTERS.items():
        samples = {
            size: _plain(shop, work, "log", "--limit", "20", *words)
            for size, work in (("small", short), ("large", long))
        }
        interleaved(2, samples)
        times = interleaved(sizes.history_rounds, samples)
        what = f"{name} {grown}"
        rows.append(Row(what, ratio(times, "large", "small"), limit, medians_ms=middle(times)))
    return rows


def measure_search(
    shop: Workshop, sizes: Sizes, few: Workspace, many: Workspace, number: int
) -> list[Row | Missing]:
    """Measure a search that makes the index, and later ones that use it."""
    python = [shop.python, "-I", "-c", _ONE_PASS, many.ledger_file()]
    first = {
        "one pass": lambda: process(python, many.folder, shop.env),
        "first": _first(shop, many),
    }
    times = interleaved(sizes.pass_rounds, first)
    medians = middle(times)
    detail = ", ".join(f"{name} {ms / 1_000:.2f} s" for name, ms in medians.items())
    what = f"the first `search` of {number:,} events / one pass over their rows"
    rows: list[Row | Missing] = [
        Row(what, ratio(times, "first", "one pass"), _FIRST, detail=detail, medians_ms=medians)
    ]
    later = {"small": _plain(shop, few, *_WORDS), "large": _plain(shop, many, *_WORDS)}
    interleaved(2, later)
    times = interleaved(sizes.history_rounds, later)
    what = f"a later `search` of {number:,} events / of {sizes.events[0]:,}"
    return [*rows, Row(what, ratio(times, "large", "small"), _LATER, medians_ms=middle(times))]


def _plain(shop: Workshop, work: Workspace, *words: str) -> Sample:
    return lambda: process([*shop.best, *words], work.folder, shop.env)


def _first(shop: Workshop, work: Workspace) -> Sample:
    """Return a sample of a search without an index, which it has to make."""
    index = os.path.join(os.path.dirname(work.ledger_file()), "search.db")
    search = _plain(shop, work, *_WORDS)

    def sample() -> float:
        if os.path.exists(index):
            os.remove(index)
        return search()

    return sample
