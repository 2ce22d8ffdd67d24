"""The recipes there are, in a list: one that is broken stands in it with what is wrong."""

from __future__ import annotations

import os

from holdfast.errors import Fault
from holdfast.workspace import recipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Recipe

SHIPPED = "shipped"


def rows(root: str) -> list[Fields]:
    """A row for each recipe that can be asked for, and for each file that cannot be used."""
    found = {**recipes.paths(root), **recipes.unnamed(root)}
    return [_row(name, found[name], root) for name in sorted(found)]


def one(name: str, root: str) -> tuple[Recipe, str]:
    """The recipe of this name, and where it comes from."""
    path = recipes.path_of(name, root)
    return recipes.load_file(name, path, root), _source(path, root)


def _row(name: str, path: str, root: str) -> Fields:
    row: Fields = {"name": _text(name), "format": None, "title": None, "phases": []}
    row["source"] = _source(path, root)
    try:
        recipe = recipes.load_file(name, path, root)
    except recipes.BadRecipe as bad:
        return {**row, "bad": {"key": bad.key, "why": bad.why}}
    except Fault as fault:
        return {**row, "bad": {"key": "file", "why": fault.message}}
    phases = [phase["name"] for phase in recipe["phases"]]
    return {
        **row,
        "format": recipe["format"],
        "title": recipe.get("title"),
        "phases": phases,
    }


def _source(path: str, root: str) -> str:
    """``shipped``, or the file's path from the workspace's root."""
    return SHIPPED if recipes.is_shipped(path) else _text(os.path.relpath(path, root))


def _text(name: str) -> str:
    """A file's name may be any bytes; what is shown and sent is text."""
    return os.fsencode(name).decode(errors="replace")
