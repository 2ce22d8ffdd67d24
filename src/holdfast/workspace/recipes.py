"""What workflows are opened from: the shipped recipes (``recipes/*.toml``), and a workspace's own.

A recipe is read when a workflow is opened and copied whole into the opening event, so nothing here
is on the way of any other command. A file of the workspace is a stranger's text: it is checked key
by key, and what is wrong is named by its exact key.
"""

from __future__ import annotations

import os

from holdfast.core.time import duration_s
from holdfast.errors import Fault, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json, Recipe

    Check = Callable[[Json, str], Json]

FOLDER = os.path.join(".claude", "workflows")
FORMATS = ("verb", "formal", "skill", "loop")
MODES = ("development", "knowledge")
MAX_PHASES = 200
MAX_ITEMS = 200
MAX_NAME = 100
MAX_TEXT = 10_000
MAX_COMMAND = 1_000
MAX_DEPTH = 20
MAX_FILE_BYTES = 262_144
_SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "recipes")
_SUFFIX = ".toml"
_EXACT_INTEGERS = 2**53


class BadRecipe(Refused):
    """A recipe that cannot be used: ``key`` is where, ``why`` is what is wrong there."""

    def __init__(self, key: str, why: str, recipe: str = "", path: str = "") -> None:
        where = f"recipe {recipe}: " if recipe else ""
        hint = f"edit {path or 'the recipe'}, then run the command again"
        super().__init__("bad_recipe", f"{where}{key}: {why}", hint, key=key, why=why)
        self.key = key
        self.why = why


class NoRecipe(Refused):
    """No recipe goes by this name; ``known`` are the names there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        message = f"there is no recipe {_shown(name)}"
        hint = f"holdfast start RECIPE, with one of: {', '.join(known)}"
        super().__init__("no_recipe", message, hint, name=name, known=known)
        self.name = name
        self.known = known


def names(folder: str | None = None) -> list[str]:
    """The recipes there are, the shipped ones and those of the workspace at ``folder``."""
    return sorted(paths(folder))


def load(name: str, folder: str | None = None) -> Recipe:
    """The recipe of this name; the workspace's own wins over the shipped one."""
    return load_file(name, path_of(name, folder), folder)


def path_of(name: str, folder: str | None) -> str:
    """The file of the recipe of this name."""
    found = paths(folder)
    if name not in found:
        raise NoRecipe(name, sorted(found))
    return found[name]


def load_file(name: str, path: str, folder: str | None) -> Recipe:
    """The recipe of this name in this file, one of ``paths``."""
    try:
        return check(_parsed(path, folder), name)
    except BadRecipe as bad:
        raise BadRecipe(bad.key, bad.why, name, path) from None


def check(raw: Fields, name: str) -> Recipe:
    """``raw`` as a recipe called ``name``, or ``BadRecipe`` with the first key that is wrong."""
    if why := unsafe_name(name):
        raise BadRecipe("name", why)
    _only(raw, ("name", "format", "phases", *_OPTIONAL), "")
    if raw.get("name", name) != name:
        raise BadRecipe("name", f"must be {name}, as the file is called, or be left out")
    for key in ("format", "phases"):
        if key not in raw:
            raise BadRecipe(key, "is missing")
    checked: Json = {
        "name": name,
        "format": _one_of(FORMATS)(raw["format"], "format"),
        "phases": _phases(raw["phases"]),
        **{key: rule(raw[key], key) for key, rule in _OPTIONAL.items() if key in raw},
    }
    recipe: Recipe = checked
    _check_whole(recipe)
    return recipe


def unsafe_name(name: str) -> str | None:
    """Why a recipe cannot be called so: its name becomes part of file names and ids."""
    if not name or len(name) > MAX_NAME:
        return f"must have 1 to {MAX_NAME} characters"
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        return "may hold letters, digits, - and _ only"
    if not name[0].isalnum():
        return "must begin with a letter or a digit"
    return None


def paths(folder: str | None) -> dict[str, str]:
    """Name to path. A file whose name is not safe cannot be asked for."""
    found = {**_files(_SHIPPED), **(_files(os.path.join(folder, FOLDER)) if folder else {})}
    return {stem: path for stem, path in found.items() if unsafe_name(stem) is None}


def unnamed(folder: str) -> dict[str, str]:
    """Name to path of the workspace's files that cannot be asked for."""
    found = _files(os.path.join(folder, FOLDER))
    return {stem: path for stem, path in found.items() if unsafe_name(stem) is not None}


def is_shipped(path: str) -> bool:
    return os.path.dirname(path) == _SHIPPED


def _files(place: str) -> dict[str, str]:
    split = [os.path.splitext(entry) for entry in _entries(place)]
    return {stem: os.path.join(place, stem + suffix) for stem, suffix in split if suffix == _SUFFIX}


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _unreadable(path: str, error: OSError) -> Fault:
    why = f"{path} cannot be read ({error.strerror})"
    return Fault("not_read", why, "make it readable, then run the command again")


def _parsed(path: str, folder: str | None) -> Fields:
    import tomllib

    if folder is not None and not is_shipped(path):
        _must_lie_inside(path, folder)
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise BadRecipe("file", f"is not TOML: {error}") from None
    except (RecursionError, ValueError):
        raise BadRecipe("file", "holds a value that is nested too deeply or too large") from None


def _must_lie_inside(path: str, folder: str) -> None:
    """A link in a stranger's repository must not show what lies elsewhere."""
    root = os.path.realpath(folder)
    if os.path.commonpath((root, os.path.realpath(path))) != root:
        raise BadRecipe("file", "is a link that leads out of the workspace")


def _text(path: str) -> str:
    # Opening a pipe would wait for ever.
    if not os.path.isfile(path):
        raise BadRecipe("file", "is not an ordinary file")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) > MAX_FILE_BYTES:
        raise BadRecipe("file", f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRecipe("file", f"is not UTF-8 at byte {error.start}") from None


def _check_whole(recipe: Recipe) -> None:
    """What one key says must fit what another says."""
    phase_names: list[str] = []
    for position, phase in enumerate(recipe["phases"]):
        if phase["name"] in phase_names:
            earlier = phase_names.index(phase["name"])
            raise BadRecipe(f"phases[{position}].name", f"is the name of phases[{earlier}] too")
        phase_names.append(phase["name"])
    for position, phase in enumerate(recipe["phases"]):
        for index, following in enumerate(phase.get("next", [])):
            _must_be_phase(following, phase_names, f"phases[{position}].next[{index}]")
            if following == phase["name"]:
                raise BadRecipe(f"phases[{position}].next[{index}]", "leads back to its own phase")
    if "cycles_at" in recipe:
        _must_be_phase(recipe["cycles_at"], phase_names, "cycles_at")
    if recipe["format"] == "loop" and "mode" not in recipe:
        raise BadRecipe("mode", f"is missing: a loop has one of {', '.join(MODES)}")
    if recipe["format"] != "loop" and "mode" in recipe:
        raise BadRecipe("mode", "belongs to the loop format alone")
    if recipe["format"] != "skill" and "subject_key" in recipe:
        raise BadRecipe("subject_key", "belongs to the skill format alone")


def _must_be_phase(name: str, phase_names: list[str], key: str) -> None:
    if name not in phase_names:
        raise BadRecipe(key, f"names no phase: {_shown(name)}")


def _phases(value: Json) -> list[Fields]:
    if not isinstance(value, list) or not value:
        raise BadRecipe("phases", "must be one or more [[phases]] tables")
    if len(value) > MAX_PHASES:
        raise BadRecipe("phases", f"are {len(value)}, at most {MAX_PHASES} are possible")
    return [_phase(item, f"phases[{position}]") for position, item in enumerate(value)]


def _phase(value: Json, key: str) -> Fields:
    _table(value, key)
    _only(value, tuple(_PHASE), f"{key}.")
    if "name" not in value:
        raise BadRecipe(f"{key}.name", "is missing")
    return {
        part: rule(value[part], f"{key}.{part}") for part, rule in _PHASE.items() if part in value
    }


def _only(raw: Fields, known: tuple[str, ...], prefix: str) -> None:
    for key in raw:
        if key not in known:
            raise BadRecipe(f"{prefix}{_shown(key)}", f"is unknown; known are {', '.join(known)}")


def _shown(text: str) -> str:
    """Text of unknown origin as a message may hold it."""
    short = text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"
    return short if short.isprintable() and short.strip() == short != "" else repr(short)


def _name(value: Json, key: str) -> str:
    """A name that people read and type: a phase, a step, a gate."""
    if not isinstance(value, str):
        raise BadRecipe(key, "must be text")
    if not value.strip() or len(value) > MAX_NAME:
        raise BadRecipe(key, f"must have 1 to {MAX_NAME} characters")
    if value != value.strip() or not value.isprintable():
        raise BadRecipe(key, "has spaces around it, or a character that cannot be printed")
    if value.startswith("-"):
        raise BadRecipe(key, "begins with -, as an option would")
    return value


def _line(longest: int) -> Check:
    """Text in which nothing is invisible: a person approves a command by reading it."""

    def rule(value: Json, key: str) -> Json:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise BadRecipe(key, "must be one line of text")
        if len(value) > longest:
            raise BadRecipe(key, f"has {len(value)} characters, at most {longest} are possible")
        return value

    return rule


def _names(value: Json, key: str) -> list[str]:
    if not isinstance(value, list):
        raise BadRecipe(key, "must be a list of names")
    if len(value) > MAX_ITEMS:
        raise BadRecipe(key, f"has {len(value)} entries, at most {MAX_ITEMS} are possible")
    found: list[str] = []
    for index, item in enumerate(value):
        if _name(item, f"{key}[{index}]") in found:
            raise BadRecipe(f"{key}[{index}]", f"is there twice: {item}")
        found.append(item)
    return found


def _flag(value: Json, key: str) -> bool:
    if not isinstance(value, bool):
        raise BadRecipe(key, "must be true or false")
    return value


def _duration(value: Json, key: str) -> str:
    if not isinstance(value, str) or not duration_s(value):
        raise BadRecipe(key, "must be a duration such as 30s, 90m, 24h or 7d")
    return value


def _one_of(choices: tuple[str, ...]) -> Check:
    def rule(value: Json, key: str) -> Json:
        if value not in choices:
            raise BadRecipe(key, f"must be one of {', '.join(choices)}")
        return value

    return rule


def _table(value: Json, key: str) -> Fields:
    if not isinstance(value, dict):
        raise BadRecipe(key, "must be a table")
    if len(value) > MAX_ITEMS:
        raise BadRecipe(key, f"has {len(value)} keys, at most {MAX_ITEMS} are possible")
    return value


def _gates(value: Json, key: str) -> dict[str, Fields]:
    gates: dict[str, Fields] = {}
    for name, fields in _table(value, key).items():
        gate = f"{key}.{_name(name, f'{key}.{_shown(name)}')}"
        gates[name] = {"status": "pending", **_fields(fields, gate)}
        if gates[name]["status"] != "pending":
            raise BadRecipe(f"{gate}.status", 'must be "pending": nothing has been shown yet')
        for part, rule in _GATE.items():
            if part in gates[name]:
                rule(gates[name][part], f"{gate}.{part}")
    return gates


def _fields(value: Json, key: str) -> Fields:
    return {name: _value(item, _below(key, name), 2) for name, item in _table(value, key).items()}


def _value(value: Json, key: str, depth: int) -> Json:
    """A copy of what goes into an event; only what JSON can hold can."""
    if depth > MAX_DEPTH:
        raise BadRecipe(key, f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {name: _value(item, _below(key, name), depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item, f"{key}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _stored_text(value, key)
    if isinstance(value, int | float):
        return _number(value, key)
    raise BadRecipe(key, "must be text, a number, true, false, a list or a table (quote a date)")


def _below(key: str, name: Json) -> str:
    return f"{key}.{_shown(_stored_text(name, key))}"


def _stored_text(value: Json, key: str) -> str:
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise BadRecipe(key, "must be valid text")
    if len(value) > MAX_TEXT:
        raise BadRecipe(key, f"has {len(value)} characters, at most {MAX_TEXT} are possible")
    return value


def _number(value: Json, key: str) -> float:
    """The number as the ledger will read it back: ``2.0`` is ``2`` there."""
    if isinstance(value, float) and not value.is_integer() and value - value == 0:
        return value
    if not -_EXACT_INTEGERS <= value <= _EXACT_INTEGERS:
        raise BadRecipe(key, "is a number too large to be kept exactly")
    return value if isinstance(value, int) else int(value)


_PHASE: dict[str, Check] = {
    "name": _name,
    "steps": _names,
    "next": _names,
    "approval": _flag,
    "sets_branch": _flag,
    "shows_tests": _flag,
}
_GATE: dict[str, Check] = {"command": _line(MAX_COMMAND), "timeout": _duration}
_OPTIONAL: dict[str, Check] = {
    "title": _line(MAX_NAME),
    "ttl": _duration,
    "gates": _gates,
    "task_phases": _names,
    "cycles_at": _name,
    "subject_key": _name,
    "context": _fields,
    "mode": _one_of(MODES),
}


# The list of recipes

SHIPPED = "shipped"


def list_rows(root: str) -> list[Fields]:
    """Return a row for each recipe, and for each file that cannot be used with what is wrong."""
    found = {**paths(root), **unnamed(root)}
    return [_row(name, found[name], root) for name in sorted(found)]


def load_with_source(name: str, root: str) -> tuple[Recipe, str]:
    """Return a recipe and where it comes from; raise ``NoRecipe`` or ``BadRecipe``."""
    path = path_of(name, root)
    return load_file(name, path, root), _source(path, root)


def _row(name: str, path: str, root: str) -> Fields:
    row: Fields = {"name": _readable(name), "format": None, "title": None, "phases": []}
    row["source"] = _source(path, root)
    try:
        recipe = load_file(name, path, root)
    except BadRecipe as bad:
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
    """Return ``shipped``, or the file's path from the workspace's root."""
    return SHIPPED if is_shipped(path) else _readable(os.path.relpath(path, root))


def _readable(name: str) -> str:
    """Return a file's name, which may be any bytes, as text that can be shown and sent."""
    return os.fsencode(name).decode(errors="replace")
