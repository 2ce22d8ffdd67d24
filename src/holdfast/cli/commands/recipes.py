"""Commands on recipes: list them, show one."""

from __future__ import annotations

from holdfast.answers.text import clean
from holdfast.cli.answer import Answer
from holdfast.cli.grammar import argument, command
from holdfast.cli.screen import listing, pairs
from holdfast.cli.tables import columns_that_fit, no_mark, table_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields, Recipe, RecipePhase
    from holdfast.keeper import Keeper

_OPTIONAL_COLUMNS = ("title", "source", "format")
"""What a narrow terminal does without, in this order."""
_PHASES_MIN = 36
_FACTS = {"ttl": "ttl", "mode": "mode", "cycles_at": "cycles at", "subject_key": "subject key"}


@command(
    "recipes",
    "list the recipes there are, the shipped ones and this workspace's own",
    examples=("holdfast recipes", "holdfast recipes --json"),
)
def list_recipes(keeper: Keeper, _args: Arguments) -> Answer:
    rows = keeper.recipes()
    return Answer(lambda: {"recipes": rows}, lambda screen: recipe_table(screen, rows))


def recipe_table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield a line for each recipe; a broken one shows its error in place of its phases."""
    table = [_row(screen, row) for row in rows]
    widest = {} if screen.width is None else {"name": screen.width // 2}
    columns, widths = columns_that_fit(screen, table, _OPTIONAL_COLUMNS, widest, _PHASES_MIN)
    marks = [screen.mark("blocked") if "bad" in row else no_mark(screen) for row in rows]
    yield from table_lines(screen, table, columns, widths, marks)


def _row(screen: Screen, row: Fields) -> dict[str, str]:
    bad = row.get("bad")
    phases = f"{bad['key']}: {bad['why']}" if bad else screen.dot().join(row["phases"])
    return {
        **{name: clean(row[name] or "-") for name in ("name", "format", "title", "source")},
        "phases": clean(phases),
    }


@command(
    "recipes show",
    "show one recipe: phases, gates, task phases, context",
    argument("NAME", "the recipe", values="recipe"),
    examples=("holdfast recipes show dev",),
)
def show(keeper: Keeper, args: Arguments) -> Answer:
    recipe, source = keeper.recipe(args["name"])
    return Answer(
        lambda: {"recipe": recipe, "source": source},
        lambda screen: recipe_lines(screen, recipe, source),
    )


def recipe_lines(screen: Screen, recipe: Recipe, source: str) -> Iterator[str]:
    """Yield everything that the recipe says."""
    title = f"  {clean(recipe['title'])}" if "title" in recipe else ""
    yield screen.paint(clean(recipe["name"]), "strong") + title
    fields: Fields = {**recipe}
    facts = [f"format {recipe['format']}"]
    facts += [f"{label} {fields[key]}" for key, label in _FACTS.items() if key in fields]
    yield screen.paint(f"  {clean(screen.dot().join([*facts, source]))}", "dim")
    yield screen.paint("Phases", "strong")
    for phase in recipe["phases"]:
        about = screen.paint(clean(screen.dot().join(_phase_facts(phase))), "dim")
        yield f"  {clean(phase['name'])}  {about}".rstrip()
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
    shown = ("name", "steps", "approval", "next")
    return [*facts, *pairs({key: value for key, value in phase.items() if key not in shown})]


def _gate(screen: Screen, name: str, fields: Fields) -> str:
    facts = pairs({key: value for key, value in fields.items() if key != "status"})
    return f"{name}  {screen.dot().join(facts)}".rstrip()
