"""How costs grow, as a picture: ``docs/cost.png``, drawn after a whole run.

Three panels: a transition against the length of its history, against the number of active
workflows, and a search in the graph against the number of entities, ours and the reference's.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from results import Missing, Row

NAME = "cost.png"
OURS, THEIRS, INK, GRID = "#1f6feb", "#d1242f", "#24292f", "#d8dee4"
_ENTITIES = re.compile(r"graph of ([\d,]+) entities, search")


def draw(rows: list[Row | Missing], folder: str) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print("no chart: matplotlib is not installed")
        return
    mpl.use("Agg")
    mpl.rcParams.update({"font.size": 9, "text.color": INK, "axes.edgecolor": GRID})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained", facecolor="white")
    history, workflows, entities = figure.subplots(1, 3)
    _draw_growth(history, _curve(rows, "events"), "a transition, by events in the ledger")
    _draw_growth(workflows, _curve(rows, "active workflows"), "a transition, by workflows")
    _draw_searches(entities, rows)
    figure.savefig(os.path.join(folder, NAME), dpi=144, metadata={"Software": None})


def _curve(rows: list[Row | Missing], of: str) -> dict[int, float]:
    """Return the medians by size, of the row in whose name this word is counted."""
    for row in rows:
        is_curve = row.what.startswith("transition ") and row.what.endswith("in process")
        if is_curve and f" {of} " in row.what:
            medians = getattr(row, "medians_ms", {})
            return {int(size.replace(",", "")): ms for size, ms in medians.items()}
    return {}


def _draw_growth(panel, curve: dict[int, float], title: str) -> None:
    base = next(iter(curve.values()), 1.0)
    values = [ms / base for ms in curve.values()]
    panel.plot(list(curve), values, marker="o", color=OURS)
    panel.set_ylim(0, max(2.0, *values, 0) * 1.1)
    panel.set_ylabel("times the smallest")
    _dress(panel, title)


def _draw_searches(panel, rows: list[Row | Missing]) -> None:
    searches: dict[int, dict[str, float]] = {}
    for row in rows:
        named = _ENTITIES.match(row.what)
        if named and getattr(row, "medians_ms", None):
            searches[int(named.group(1).replace(",", ""))] = row.medians_ms
    for name, colour, label in (
        ("reference", THEIRS, "server-memory"),
        ("ours", OURS, "Holdfast"),
    ):
        panel.plot(
            list(searches),
            [medians[name] for medians in searches.values()],
            marker="o",
            color=colour,
            label=label,
        )
    panel.set_yscale("log")
    panel.set_ylabel("ms")
    panel.legend(frameon=False)
    _dress(panel, "a search in the graph, by entities")


def _dress(panel, title: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_xscale("log")
    panel.grid(visible=True, color=GRID, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
