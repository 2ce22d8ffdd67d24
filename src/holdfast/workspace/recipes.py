"""Load and check the recipes that workflows start from: the shipped ones and the workspace's own.

Starting a workflow copies the whole recipe into its first event, so no later command reads recipes.
A recipe of the workspace is untrusted: it is checked key by key, and an error names the exact key.
"""

from __future__ import annotations

import os

from holdfast.core.record_formats import FORMATS
from holdfast.core.workflow.needs import CHECK, CHECKS, EVIDENCE, NEEDS
from holdfast.errors import Fault, Refused
from holdfast.workspace.location import names_in
from holdfast.workspace.settings import (
    MAX_COMMAND,
    MAX_NAME,
    BadValue,
    check_duration,
    check_table,
    parse_toml,
    printable,
    read_file,
    unreadable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, Json, Recipe
    from holdfast.workspace.settings import Check, Rules

FOLDER = os.path.join(".claude", "workflows")
SHIPPED = "shipped"
"""The source of a recipe that comes with Holdfast."""
MODES = ("development", "knowledge")
MAX_PHASES = 200
MAX_ITEMS = 200
MAX_TEXT = 10_000
MAX_DEPTH = 20
_SHIPPED_FOLDER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "recipes"
)
_EXACT_INTEGERS = 2**53
_MAX_RECIPES = 500
"""The number of files of one folder that count."""


class BadRecipe(Refused):
    """A recipe cannot be used: the value of ``key`` is wrong, and ``why`` explains it."""

    def __init__(self, key: str, why: str, recipe: str = "", path: str = "") -> None:
        where = f"recipe {recipe}: " if recipe else ""
        hint = f"edit {path or 'the recipe'}, then run the command again"
        super().__init__("bad_recipe", f"{where}{key}: {why}", hint, key=key, why=why)
        self.key = key
        self.why = why


class NoRecipe(Refused):
    """No recipe has this name. ``known`` lists the names of all recipes."""

    def __init__(self, name: str, known: list[str]) -> None:
        message = f"there is no recipe {printable(name)}; there are {', '.join(known)}"
        super().__init__("no_recipe", message, "holdfast recipes", name=name, known=known)
        self.name = name
        self.known = known


def names(folder: str | None = None) -> list[str]:
    """Return the names of the shipped recipes and of those in the workspace at ``folder``."""
    return sorted(name for name in _files_by_name(folder) if unsafe_name(name) is None)


def load(name: str, folder: str | None = None) -> Recipe:
    """Return the recipe with this name. The workspace's own overrides a shipped one.

    Raise ``NoRecipe`` if it does not exist, or ``BadRecipe`` if it cannot be used.
    """
    return load_with_source(name, folder)[0]


def load_with_source(name: str, folder: str | None) -> tuple[Recipe, str]:
    """Return what ``load`` returns, and its source: ``shipped``, or the path from the root."""
    files = _files_by_name(folder)
    if name not in files or unsafe_name(name) is not None:
        raise NoRecipe(name, names(folder))
    return load_file(name, files[name], folder), _source(files[name], folder)


def load_file(name: str, path: str, folder: str | None) -> Recipe:
    """Return the recipe in a file; raise ``BadRecipe`` if it cannot be used."""
    if not os.path.isfile(path):
        raise BadRecipe("file", "is not an ordinary file", name, path)
    within = None if _is_shipped(path) else folder
    try:
        return check(parse_toml(read_file(path, path, within)), name)
    except BadValue as bad:
        raise BadRecipe(bad.key, bad.why, name, path) from None


def check(raw: Fields, name: str) -> Recipe:
    """Return ``raw`` as a recipe called ``name``; raise ``BadValue`` with the first wrong key."""
    if why := unsafe_name(name):
        raise BadValue("name", why)
    if raw.get("name", name) != name:
        raise BadValue("name", f"must be {name}, as the file is called, or be left out")
    checked: Json = check_table({"name": name, **raw}, "", _RECIPE, ("format", "phases"))
    recipe: Recipe = checked
    _check_whole(recipe)
    for phase in recipe["phases"]:
        if phase.pop("approval", False) and "approval" not in phase.get("needs", []):
            phase["needs"] = [*phase.get("needs", []), "approval"]
    return recipe


def unsafe_name(name: str) -> str | None:
    """Return why a recipe cannot have this name, or ``None``. The name is used in paths and ids."""
    if not name or len(name) > MAX_NAME:
        return f"must have 1 to {MAX_NAME} characters"
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        return "may hold letters, digits, - and _ only"
    if not name[0].isalnum():
        return "must begin with a letter or a digit"
    return None


def list_rows(root: str) -> list[Fields]:
    """Return a row for each recipe file. The row of an unusable file has the reason."""
    rows = []
    for name, path in sorted(_files_by_name(root).items()):
        row: Fields = {"name": _readable(name), "format": None, "title": None, "phases": []}
        row["source"] = _source(path, root)
        try:
            recipe = load_file(name, path, root)
        except BadRecipe as bad:
            row["bad"] = {"key": bad.key, "why": bad.why}
        except Fault as fault:
            row["bad"] = {"key": "file", "why": fault.message}
        else:
            phases = [phase["name"] for phase in recipe["phases"]]
            row |= {"format": recipe["format"], "title": recipe.get("title"), "phases": phases}
        rows.append(row)
    return rows


def _files_by_name(root: str | None) -> dict[str, str]:
    """Return the paths of all TOML files by stem; raise ``Fault`` if a folder cannot be read."""
    files = {}
    for folder in [_SHIPPED_FOLDER, *([os.path.join(root, FOLDER)] if root else [])]:
        try:
            names = names_in(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unreadable(folder, error) from error
        stems = [name.removesuffix(".toml") for name in names if name.endswith(".toml")]
        for stem in stems[:_MAX_RECIPES]:
            files[stem] = os.path.join(folder, f"{stem}.toml")
    return files


def _is_shipped(path: str) -> bool:
    return os.path.dirname(path) == _SHIPPED_FOLDER


def _source(path: str, root: str | None) -> str:
    """Return ``shipped``, or the file's path from the workspace's root."""
    return SHIPPED if _is_shipped(path) else _readable(os.path.relpath(path, root))


def _readable(name: str) -> str:
    """Return a file's name, which may contain any bytes, as valid text."""
    return os.fsencode(name).decode(errors="replace")


# Checking


def _check_whole(recipe: Recipe) -> None:
    """Raise ``BadValue`` if two keys contradict each other."""
    phase_names = [phase["name"] for phase in recipe["phases"]]
    for position, phase in enumerate(recipe["phases"]):
        earlier = phase_names.index(phase["name"])
        if earlier < position:
            raise BadValue(f"phases[{position}].name", f"is the name of phases[{earlier}] too")
    followed = [
        (f"phases[{position}].next[{index}]", following, phase["name"])
        for position, phase in enumerate(recipe["phases"])
        for index, following in enumerate(phase.get("next", []))
    ]
    if "cycles_at" in recipe:
        followed.append(("cycles_at", recipe["cycles_at"], ""))
    for key, name, own in followed:
        if name not in phase_names:
            raise BadValue(key, f"names no phase: {printable(name)}")
        if name == own:
            raise BadValue(key, "leads back to its own phase")
    for inner in recipe.get("task_needs", {}):
        if inner not in recipe.get("task_phases", []):
            raise BadValue(f"task_needs.{printable(inner)}", "names none of task_phases")
    if recipe["format"] == "loop" and "mode" not in recipe:
        raise BadValue("mode", f"is missing: a loop has one of {', '.join(MODES)}")
    for key, owner in (("mode", "loop"), ("subject_key", "skill")):
        if key in recipe and recipe["format"] != owner:
            raise BadValue(key, f"belongs to the {owner} format alone")


def _phases(value: Json, key: str) -> list[Fields]:
    if not isinstance(value, list) or not value:
        raise BadValue(key, "must be one or more [[phases]] tables")
    if len(value) > MAX_PHASES:
        raise BadValue(key, f"are {len(value)}, at most {MAX_PHASES} are possible")
    return [
        check_table(item, f"{key}[{position}]", _PHASE, ("name",))
        for position, item in enumerate(value)
    ]


def _name(value: Json, key: str) -> str:
    """Return the name of a phase, a step or a gate; raise ``BadValue`` if it cannot be typed."""
    if not isinstance(value, str):
        raise BadValue(key, "must be text")
    if not value.strip() or len(value) > MAX_NAME:
        raise BadValue(key, f"must have 1 to {MAX_NAME} characters")
    if value != value.strip() or not value.isprintable():
        raise BadValue(key, "has spaces around it, or a character that cannot be printed")
    if value.startswith("-"):
        raise BadValue(key, "begins with -, as an option would")
    return value


def _line(longest: int) -> Check:
    """Return a check for one line of text without invisible characters.

    A person approves a command by reading it, so nothing in it may be hidden.
    """

    def rule(value: Json, key: str) -> Json:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise BadValue(key, "must be one line of text")
        if len(value) > longest:
            raise BadValue(key, f"has {len(value)} characters, at most {longest} are possible")
        return value

    return rule


def _names(value: Json, key: str) -> list[str]:
    if not isinstance(value, list):
        raise BadValue(key, "must be a list of names")
    if len(value) > MAX_ITEMS:
        raise BadValue(key, f"has {len(value)} entries, at most {MAX_ITEMS} are possible")
    names: list[str] = []
    for index, item in enumerate(value):
        if _name(item, f"{key}[{index}]") in names:
            raise BadValue(f"{key}[{index}]", f"is there twice: {item}")
        names.append(item)
    return names


def _flag(value: Json, key: str) -> bool:
    if not isinstance(value, bool):
        raise BadValue(key, "must be true or false")
    return value


def _one_of(choices: Sequence[str]) -> Check:
    def check_choice(value: Json, key: str) -> Json:
        if value not in choices:
            raise BadValue(key, f"must be one of {', '.join(choices)}")
        return value

    return check_choice


def _table(value: Json, key: str) -> Fields:
    if not isinstance(value, dict):
        raise BadValue(key, "must be a table")
    if len(value) > MAX_ITEMS:
        raise BadValue(key, f"has {len(value)} keys, at most {MAX_ITEMS} are possible")
    return value


def _gates(value: Json, key: str) -> dict[str, Fields]:
    gates: dict[str, Fields] = {}
    for name, fields in _table(value, key).items():
        gate = f"{key}.{_name(name, f'{key}.{printable(name)}')}"
        gates[name] = {"status": "pending", **_fields(fields, gate)}
        if gates[name]["status"] != "pending":
            raise BadValue(f"{gate}.status", 'must be "pending": nothing has been shown yet')
        for part, rule in _GATE.items():
            if part in gates[name]:
                rule(gates[name][part], f"{gate}.{part}")
        if gates[name].get("evidence") == CHECK and name not in CHECKS:
            raise BadValue(f"{gate}.evidence", f"can be a check of {', '.join(CHECKS)} alone")
    return gates


def _some_of(choices: Sequence[str]) -> Check:
    """Return a check for a list of these words."""

    def check_choices(value: Json, key: str) -> list[str]:
        for index, item in enumerate(_names(value, key)):
            _one_of(choices)(item, f"{key}[{index}]")
        return list(value)

    return check_choices


def _task_needs(value: Json, key: str) -> dict[str, list[str]]:
    check = _some_of(("tests", "failure"))
    return {
        name: check(needs, f"{key}.{printable(name)}") for name, needs in _table(value, key).items()
    }


def _fields(value: Json, key: str) -> Fields:
    copied: Fields = _copy(_table(value, key), key, 1)
    return copied


def _copy(value: Json, key: str, depth: int) -> Json:
    """Return a copy of a value for an event, with ``2.0`` as ``2``, as the ledger reads it back.

    Raise ``BadValue`` if JSON would not keep it exactly.
    """
    if depth > MAX_DEPTH:
        raise BadValue(key, f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {
            _text(name, key): _copy(item, f"{key}.{printable(_text(name, key))}", depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_copy(item, f"{key}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _text(value, key)
    if not isinstance(value, int | float):
        raise BadValue(key, "must be text, a number, true, false, a list or a table (quote a date)")
    if isinstance(value, float) and not value.is_integer() and value - value == 0:
        return value
    if not -_EXACT_INTEGERS <= value <= _EXACT_INTEGERS:
        raise BadValue(key, "is a number too large to be kept exactly")
    return value if isinstance(value, int) else int(value)


def _text(value: Json, key: str) -> str:
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise BadValue(key, "must be valid text")
    if len(value) > MAX_TEXT:
        raise BadValue(key, f"has {len(value)} characters, at most {MAX_TEXT} are possible")
    return value


_PHASE: Rules = {
    "name": _name,
    "steps": _names,
    "next": _names,
    "needs": _some_of(NEEDS),
    "approval": _flag,
    "sets_branch": _flag,
    "shows_tests": _flag,
}
_GATE: dict[str, Check] = {
    "command": _line(MAX_COMMAND),
    "timeout": check_duration,
    "evidence": _one_of(EVIDENCE),
}
_RECIPE: Rules = {
    "name": _name,
    "format": _one_of(tuple(FORMATS)),
    "phases": _phases,
    "title": _line(MAX_NAME),
    "ttl": check_duration,
    "gates": _gates,
    "task_phases": _names,
    "task_needs": _task_needs,
    "cycles_at": _name,
    "subject_key": _name,
    "context": _fields,
    "mode": _one_of(MODES),
}
