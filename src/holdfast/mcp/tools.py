"""Check the arguments of a tool against its JSON schema, and render its results. Pure.

Only the keywords that our tools use are supported. The sentences are those of the reference Memory
server, so that both servers answer a wrong call alike.
"""

from __future__ import annotations

from itertools import islice

from holdfast.answers import failure_fields
from holdfast.core import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields, Json
    from holdfast.mcp.messages import RawJson

_MISSING = object()
_MAX_ERRORS = 100
_KINDS: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
    "null": type(None),
    "undefined": object,
}
"""In the order in which the kind of a value is looked for: every boolean is an integer too."""


def schema_errors(schema: Fields, value: Json) -> list[str]:
    """Return a sentence for everything that does not fit the schema, up to a limit."""
    return list(islice(_errors(schema, value, ""), _MAX_ERRORS))


def _errors(schema: Fields, value: Json, path: str) -> Iterator[str]:
    kind = schema.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    at = f" at {path}" if path else ""
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"Invalid input: expected {' or '.join(kinds)}, received {_kind(value)}{at}"
    elif "enum" in schema and value not in schema["enum"]:
        options = "|".join(f'"{option}"' for option in schema["enum"])
        yield f"Invalid option: expected one of {options}{at}"
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, inner in properties.items():
            if name in value or name in schema.get("required", ()):
                below = f"{path}.{name}" if path else name
                yield from _errors(inner, value.get(name, _MISSING), below)
        is_closed = schema.get("additionalProperties") is False
        unknown = [name for name in value if name not in properties] if is_closed else []
        if unknown:
            listed = ", ".join(f'"{name[:60]}"' for name in unknown[:5])
            yield f"Unrecognized key{'s' if len(unknown) > 1 else ''}: {listed}{at}"
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _errors(schema["items"], item, f"{path}[{index}]")


def _is(value: Json, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _kind(value: Json) -> str:
    kinds = (kind for kind in _KINDS if kind != "integer")
    return next(kind for kind in kinds if _is(value, kind))


def text_result(text: str, fields: Fields | RawJson | None = None, *, ok: bool = True) -> Fields:
    """Return the result of a call: text for models, and fields for programs if there are any."""
    result: Fields = {"content": [{"type": "text", "text": text}]}
    if fields is not None:
        result["structuredContent"] = fields
    return result if ok else {**result, "isError": True}


def tool_result(fields: Fields) -> Fields:
    """Return the result of a tool of workflows; its text is the briefing, if there is one."""
    return text_result(fields.get("briefing") or json_text.line_of(fields), fields, ok=fields["ok"])


def tool_failure(error: Exception, arguments: Fields) -> Fields:
    """Return the result of a call that failed: what the command line would say."""
    workflow = arguments.get("workflow")
    fields = failure_fields(error, workflow if isinstance(workflow, str) else None)
    text = f"{fields['code']}: {fields['message']}"
    if fields["hint"]:
        text += f"\nnext: {fields['hint']}"
    return text_result(text, {"ok": False, "error": fields}, ok=False)
