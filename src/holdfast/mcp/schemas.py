"""Check the arguments of a call against the JSON schema of its tool. Pure.

Only the keywords that our tools use are supported. The sentences are those of the reference Memory
server, so that both servers answer a wrong call alike.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields, Json

_MISSING = object()
_MAX_ERRORS = 100
_KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
}


def schema_errors(schema: Fields, value: Json) -> list[str]:
    """Return a sentence for everything that does not fit the schema, up to a limit."""
    from itertools import islice

    return list(islice(_errors(schema, value, ""), _MAX_ERRORS))


def _errors(schema: Fields, value: Json, path: str) -> Iterator[str]:
    kind = schema.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"Invalid input: expected {' or '.join(kinds)}, received {_kind(value)}{_at(path)}"
    elif "enum" in schema and value not in schema["enum"]:
        options = "|".join(f'"{option}"' for option in schema["enum"])
        yield f"Invalid option: expected one of {options}{_at(path)}"
    elif isinstance(value, dict):
        yield from _object_errors(schema, value, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _errors(schema["items"], item, f"{path}[{index}]")


def _object_errors(schema: Fields, value: Fields, path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name, inner in properties.items():
        if name in value or name in schema.get("required", ()):
            at = f"{path}.{name}" if path else name
            yield from _errors(inner, value.get(name, _MISSING), at)
    if schema.get("additionalProperties") is False:
        unknown = [name for name in value if name not in properties]
        if unknown:
            listed = ", ".join(f'"{name[:60]}"' for name in unknown[:5])
            yield f"Unrecognized key{'s' if len(unknown) > 1 else ''}: {listed}{_at(path)}"


def _is(value: Json, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _kind(value: Json) -> str:
    if value is _MISSING:
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _at(path: str) -> str:
    return f" at {path}" if path else ""
