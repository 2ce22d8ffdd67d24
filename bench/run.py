"""Measure Holdfast against its budgets: ``make bench``, or ``make bench ARGS=--quick``.

Every row is a ratio to a baseline that runs in turn with it. The table goes to the terminal, and
with the machine it was measured on to ``bench/results/``; a whole run makes ``docs/costs.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from time import perf_counter

import charts
import results
from commands import measure_commands, measure_jq, measure_lookups, measure_memory
from fixtures import ROOT, Workshop
from graph import measure_graph
from growth import measure_history, measure_many
from hookruns import measure_hooks
from hub_postgres import measure_postgres
from hubs import measure_hubs
from pages import measure_pages
from servers import measure_server
from sizes import FULL, QUICK, TINY
from transitions import measure_transitions
from trees import measure_trees
from writers import measure_writers
from year import measure_year

TYPE_CHECKING = False
if TYPE_CHECKING:
    from results import Missing, Row
    from sizes import Sizes


def main() -> int:
    asked = _arguments()
    sizes = TINY if asked.tiny else QUICK if asked.quick else FULL
    begun = perf_counter()
    home = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=asked.scratch) as folder:
        # What the bench itself opens and ends is no business of whoever runs it.
        os.environ |= {"HOLDFAST_MEMORY": "off", "XDG_STATE_HOME": folder}
        about = {"machine": results.machine(folder), "sizes": sizes.name}
        shop = Workshop(folder, at_hand=asked.at_hand or asked.tiny)
        about["with"] = {"installed": shop.made_by}
        rows = _measured(shop, sizes, asked.only)
        os.chdir(home)
    print()
    results.show(rows)
    over = [row for row in rows if row.verdict == "OVER"]
    print(f"\n{len(rows)} rows, {len(over)} over, in {perf_counter() - begun:.0f} s")
    is_whole = sizes is FULL and asked.only is None
    docs = os.path.join(ROOT, "docs")
    results.write(asked.out, rows, about)
    results.write_page(docs if is_whole else asked.out, rows, about)
    if is_whole:
        charts.draw(rows, docs)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Holdfast against its budgets.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes")
    parser.add_argument("--tiny", action="store_true", help="only to see that the bench works")
    parser.add_argument("--only", choices=GROUPS, action="append", help="some of the groups")
    parser.add_argument(
        "--at-hand", action="store_true", help="no fresh installation: this interpreter and source"
    )
    parser.add_argument("--scratch", help="the folder to measure in; the temporary one otherwise")
    parser.add_argument(
        "--out", default=os.path.join(ROOT, "bench", "results"), help="where the results go"
    )
    return parser.parse_args()


def _measured(shop: Workshop, sizes: Sizes, only: list[str] | None) -> list[Row | Missing]:
    rows: list[Row | Missing] = []
    for name, group in GROUPS.items():
        if only is None or name in only:
            begun = perf_counter()
            print(f"{name} …", end="", flush=True)
            rows += group(shop, sizes)
            print(f" {perf_counter() - begun:.0f} s")
    return rows


def _long_histories(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure one workspace twice: as long as jq's record, then as long as it gets."""
    tasks = sizes.jq_rounds + 5
    short = shop.workspace().open(1, tasks).fill(sizes.events[0])
    long = shop.workspace().open(1, tasks).fill(sizes.jq_history)
    rows = measure_jq(shop, sizes, long)
    return [*rows, *measure_history(shop, sizes, short, long.fill(sizes.events[-1]))]


GROUPS = {
    "commands": measure_commands,
    "lookups": measure_lookups,
    "hooks": measure_hooks,
    "memory": measure_memory,
    "transitions": measure_transitions,
    "writers": measure_writers,
    "history": _long_histories,
    "many": measure_many,
    "year": measure_year,
    "pages": measure_pages,
    "trees": measure_trees,
    "server": measure_server,
    "graph": measure_graph,
    "postgres": measure_postgres,
    "hubs": measure_hubs,
}

if __name__ == "__main__":
    sys.exit(main())
