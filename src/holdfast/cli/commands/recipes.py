"""Commands on recipes: what there is to open a workflow from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.keeper import Keeper


def listed(keeper: Keeper, _args: Arguments) -> Answer:
    return {"kind": "recipes", "data": {"recipes": keeper.recipes()}}


def show(keeper: Keeper, args: Arguments) -> Answer:
    recipe, source = keeper.recipe(args["name"])
    return {"kind": "recipe", "data": {"recipe": recipe, "source": source}}
