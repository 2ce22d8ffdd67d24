"""The pictures of recipes: all of them in a table, and one whole."""

from __future__ import annotations

from holdfast.cli.panels import columns_that_fit, listing, no_mark, pairs, table_lines
from holdfast.cli.terminal_text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields, Recipe, RecipePhase

_GO_FIRST = ("title", "source", "format")
"""What a narrow terminal does without, in this order."""
_PHASES_MIN = 36
_GAP = "  "
_FACTS = {"ttl": "ttl", "mode": "mode", "cycles_at": "cycles at", "subject_key": "subject key"}


def recipe_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """One line a recipe; a broken one has what is wrong in place of its phases."""
    table = [_row(screen, row) for row in rows]
    most = {} if screen.width is None else {"name": screen.width // 2}
    columns, widths = columns_that_fit(screen, table, _GO_FIRST, most, _PHASES_MIN)
    marks = [screen.mark("blocked") if "bad" in row else no_mark(screen) for row in rows]
    yield from table_lines(screen, table, columns, widths, marks)


def _row(screen: Screen, row: Fields) -> dict[str, str]:
    bad = row.get("bad")
    phases = f"{bad['key']}: {bad['why']}" if bad else screen.dot().join(row["phases"])
    return {
        **{name: clean(row[name] or "-") for name in ("name", "format", "title", "source")},
        "phases": clean(phases),
    }


def recipe_panel(screen: Screen, recipe: Recipe, source: str) -> Iterator[str]:
    """Everything that the recipe says."""
    title = f"{_GAP}{clean(recipe['title'])}" if "title" in recipe else ""
    yield screen.paint(clean(recipe["name"]), "strong") + title
    fields: Fields = {**recipe}
    facts = [f"format {recipe['format']}"]
    facts += [f"{said} {fields[key]}" for key, said in _FACTS.items() if key in fields]
    yield screen.paint(f"  {clean(screen.dot().join([*facts, source]))}", "dim")
    yield screen.paint("Phases", "strong")
    for phase in recipe["phases"]:
        said = screen.paint(clean(screen.dot().join(_phase_facts(phase))), "dim")
        yield f"  {clean(phase['name'])}  {said}".rstrip()
    gates = recipe.get("gates", {})
    yield from listing(screen, "Gates", [_gate(screen, name, gates[name]) for name in gates])
    yield from listing(screen, "Phases of a task", recipe.get("task_phases", []))
    yield from listing(screen, "Context", pairs(recipe.get("context", {})))


def _phase_facts(phase: RecipePhase) -> list[str]:
    facts = []
    if "steps" in phase:
        facts.append(f"steps {', '.join(phase['steps'])}")
    if phase.get("approval"):
        facts.append("a person approves it")
    if "next" in phase:
        facts.append(f"then {' or '.join(phase['next'])}" if phase["next"] else "the last")
    told = ("name", "steps", "approval", "next")
    return [*facts, *pairs({key: value for key, value in phase.items() if key not in told})]


def _gate(screen: Screen, name: str, fields: Fields) -> str:
    said = pairs({key: value for key, value in fields.items() if key != "status"})
    return f"{name}  {screen.dot().join(said)}".rstrip()
