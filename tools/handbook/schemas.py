"""JSON Schemas of what Holdfast writes, from what its code declares: ``docs/schemas/*.json``.

Undeclared fields are allowed everywhere, as they are in Holdfast: people keep fields of their own
in records, and every version may add some.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import json
import types
import typing
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from handbook.pages import DOCS
from holdfast.core import types as core_types
from holdfast.keeper.event_log import event_types

if typing.TYPE_CHECKING:
    from types import ModuleType

Schema = dict[str, Any]

FOLDER = DOCS / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
HASH: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def words(values: Any) -> Schema:
    return {"type": "string", "enum": list(values)}


def fields(properties: Schema, *optional: str) -> Schema:
    """Return the schema of an object; all properties are required but the ``optional`` ones."""
    needed = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": needed}


def document(title: str, about: str, schema: Schema) -> Schema:
    return {"$schema": DRAFT, "title": title, "description": about, **schema}


def of(kind: Any, names: Any = None) -> Schema:
    """Return the schema of a type. ``names`` maps fields of a TypedDict to a format's names."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is Literal:
        return words(arguments)
    if origin in (Union, types.UnionType):
        return {"anyOf": [of(argument) for argument in arguments]}
    if origin is list:
        return array(of(arguments[0]))
    if origin is dict:
        inner = of(arguments[1])
        return {**OBJECT, "additionalProperties": inner} if inner else OBJECT
    if typing.is_typeddict(kind):
        return _of_typed_dict(kind, names or {})
    raise TypeError(f"{kind!r} has no schema")


def _of_typed_dict(kind: Any, names: dict[str, str]) -> Schema:
    descriptions = _field_docs(inspect.getmodule(kind), kind.__name__)
    properties: Schema = {}
    needed = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        key = names.get(name, name)
        if get_origin(hint) is NotRequired:
            hint = get_args(hint)[0]  # noqa: PLW2901 - the same hint without its mark
        else:
            needed.append(key)
        properties[key] = TIME if name.endswith("ed_at") and hint is str else of(hint)
        if name in descriptions:
            properties[key] = {"description": descriptions[name], **properties[key]}
    return {"type": "object", "properties": properties, "required": needed}


@functools.cache
def _field_docs(module: ModuleType, name: str) -> dict[str, str]:
    """Return the docstrings of a class's fields, by field."""
    tree = ast.parse(inspect.getsource(module))
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    descriptions: dict[str, str] = {}
    for field, below in itertools.pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=named)), ast.Expr(value=ast.Constant(value=text)):
                descriptions[named] = " ".join(str(text).replace("``", "").split())
    return descriptions


def ledger_line() -> Schema:

    line = of(core_types.Event)
    properties = line["properties"]
    properties["seq"] = properties["version"] = {"type": "integer", "minimum": 1}
    properties["at"] = TIME
    properties["prev"] = {"type": "string", "pattern": "^([0-9a-f]{32})?$"}
    properties["hash"] = HASH
    properties["type"] = {"type": "string", "pattern": "^[a-z_]+$",
                          "examples": event_types()}  # fmt: skip
    properties["part"] = {**properties["part"], "minItems": 2, "maxItems": 2}
    properties["by"] = fields(
        {"surface": TEXT, "session": nullable(TEXT), "asked": TEXT, "trace": TEXT},
        "session", "asked", "trace",
    )  # fmt: skip
    return document("A line of the ledger", "One event. See format.md.", line)


def recipe() -> Schema:
    """Return the schema of a recipe's file, which has the recipe's name as its own."""
    schema = of(core_types.Recipe)
    schema["required"].remove("name")
    del schema["properties"]["differs"]  # Only ``start`` sets it.
    return document("A recipe", "A file in .claude/workflows, as TOML. See recipes.md.", schema)


def all_schemas() -> dict[str, Schema]:
    """Return every schema, by the name of its file."""
    from handbook import answers, records

    return {
        "ledger-line.json": ledger_line(),
        "recipe.json": recipe(),
        **{f"record-{name}.json": schema for name, schema in records.all_records().items()},
        "answers.json": answers.schema(),
    }


def _written() -> dict[str, str]:
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in all_schemas().items()
    }


def write() -> list[str]:
    """Write changed schemas and remove obsolete ones; return the names of both."""
    changed = stale()
    FOLDER.mkdir(exist_ok=True)
    written = _written()
    for name in changed:
        if name in written:
            (FOLDER / name).write_text(written[name], "utf-8")
        else:
            (FOLDER / name).unlink()
    return changed


def stale() -> list[str]:
    """Return the names of schema files that do not match the code."""
    written = _written()
    files = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    return sorted(n for n in {*written, *files} if written.get(n) != files.get(n))
