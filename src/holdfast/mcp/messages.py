"""Parse requests and check their arguments; render results, responses and errors. Pure.

Two eras of the protocol are spoken. Since 2026-07-28 every request names its version in ``_meta``,
and the server remembers nothing between requests. Before that, a client sends ``initialize`` once.
A request that names no version is of the older era.

Arguments are checked against the JSON schema of a tool, as far as our tools use its keywords. The
sentences are those of the reference Memory server, so that both servers answer a wrong call alike.
"""

from __future__ import annotations

from itertools import islice

from holdfast.answers import failure_fields, is_command_hint
from holdfast.core import json_text
from holdfast.core.next_step import next_fields
from holdfast.core.visible import clean, clean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Json

STATELESS = ("2026-07-28",)
HANDSHAKE = ("2025-06-18", "2025-11-25")
VERSIONS = (*HANDSHAKE, *STATELESS)

NOT_JSON = -32700
BAD_REQUEST = -32600
NO_METHOD = -32601
BAD_PARAMS = -32602
INTERNAL = -32603
NO_RESOURCE = -32002
UNKNOWN_VERSION = -32022

_META = "io.modelcontextprotocol/"
_VERSION_KEY = f"{_META}protocolVersion"
_SERVER_KEY = f"{_META}serverInfo"
SUBSCRIPTION_KEY = f"{_META}subscriptionId"
_TTL_MS = {
    "server/discover": 3_600_000,
    "tools/list": 3_600_000,
    "resources/list": 0,
    "resources/templates/list": 3_600_000,
    "resources/read": 0,
}
"""The time for which a client may cache the answers of a method."""
EDGE_BYTES = 512
"""The length of each end of a bad line in which its id is searched."""
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


class ProtocolError(Exception):
    """A message that is answered with an error; ``id`` is its id, if that could be read."""

    def __init__(self, code: int, message: str, data: Json = None, *, id: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.id = id


class Message:
    """A request, or a notification, which has no id."""

    __slots__ = ("has_id", "id", "meta", "method", "params", "version")

    def __init__(self, method: str, params: Fields, *, has_id: bool, id: Json = None) -> None:
        self.method = method
        self.params = params
        self.has_id = has_id
        self.id = id
        meta = params.get("_meta")
        self.meta: Fields = meta if isinstance(meta, dict) else {}
        self.version: Json = self.meta.get(_VERSION_KEY)

    @property
    def is_stateless(self) -> bool:
        return self.version in STATELESS

    def check_version(self) -> None:
        """Raise ``ProtocolError`` if the message names a version that is not spoken."""
        if self.version is None or self.version in VERSIONS:
            return
        if not isinstance(self.version, str):
            raise ProtocolError(BAD_PARAMS, f"params._meta: {_VERSION_KEY} must be a string")
        data = {"supported": list(VERSIONS), "requested": self.version[:80]}
        raise ProtocolError(UNKNOWN_VERSION, "Unsupported protocol version", data)

    def text(self, name: str) -> str:
        """Return a parameter; raise ``ProtocolError`` if it is not text."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise ProtocolError(BAD_PARAMS, f"{self.method}: params.{name} must be a string")
        return value


def parse(line: bytes) -> Message | None:
    """Return the message of a line; ``None`` for a response, because none is ever awaited."""
    try:
        fields = json_text.loads(line)
    except json_text.BadJson as bad:
        request_id = find_id(line[:EDGE_BYTES], line[-EDGE_BYTES:])
        raise ProtocolError(NOT_JSON, f"Parse error: {bad.why}", id=request_id) from None
    if not isinstance(fields, dict):
        raise ProtocolError(BAD_REQUEST, "Invalid request: a message is one JSON object")
    if "method" not in fields and ("result" in fields or "error" in fields):
        return None
    method, params, request_id = fields.get("method"), fields.get("params", {}), fields.get("id")
    if "id" in fields and (isinstance(request_id, bool) or not isinstance(request_id, (str, int))):
        raise ProtocolError(BAD_REQUEST, "Invalid request: id must be a string or a whole number")
    if not isinstance(method, str):
        raise ProtocolError(BAD_REQUEST, "Invalid request: method must be a string", id=request_id)
    if fields.get("jsonrpc") != "2.0":
        raise ProtocolError(BAD_REQUEST, 'Invalid request: jsonrpc must be "2.0"', id=request_id)
    if not isinstance(params, dict):
        raise ProtocolError(BAD_PARAMS, f"{method[:80]}: params must be an object", id=request_id)
    return Message(method, params, has_id="id" in fields, id=request_id)


def find_id(head: bytes, tail: bytes) -> Json:
    """Return the id of a line that was not parsed, if it is where clients put it: first or last.

    A text inside the message cannot match, because quotes in a text follow a backslash.
    """
    import re

    text = rb'"(?:[^"\\]|\\.)*"'
    field = rb'\s*"id"\s*:\s*(' + text + rb"|-?\d{1,20})\s*"
    before = rb'(?:\s*"(?:jsonrpc|method)"\s*:\s*' + text + rb"\s*,)*"
    after = rb'(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?'
    match = re.match(rb"\s*\{" + before + field + rb",", head) or re.search(
        rb"," + field + after + rb"\}\s*$", tail
    )
    try:
        return json_text.loads(match[1]) if match else None
    except json_text.BadJson:
        return None


def render(message: Fields) -> bytes:
    """Return the line of a message."""
    text = json_text.dumps(message) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return text.encode(errors="backslashreplace")


def response(request: Message, result: Fields, server: Fields) -> Fields:
    """Return the response in the era of the request; ``server`` has name and version."""
    if request.is_stateless:
        ttl_ms = _TTL_MS.get(request.method)
        caching = {} if ttl_ms is None else {"ttlMs": ttl_ms, "cacheScope": "private"}
        meta = {**result.get("_meta", {}), _SERVER_KEY: server}
        result = {"resultType": "complete", **caching, **result, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


def error_response(error: ProtocolError, request: Message | None) -> Fields:
    """Return the error in the era of the request, if one was parsed."""
    code = error.code
    request_id = error.id if request is None else request.id
    if code == NO_RESOURCE and request is not None and request.is_stateless:
        code = BAD_PARAMS  # The newer era has no code for a missing resource.
    fields: Fields = {"code": code, "message": error.message}
    if error.data is not None:
        fields["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": fields}


# Tools


def schema_errors(schema: Fields, value: Json) -> list[str]:
    """Return a sentence for everything that does not fit the schema, up to a limit."""
    return list(islice(_errors(schema, value, ""), _MAX_ERRORS))


def _errors(schema: Fields, value: Json, path: str) -> Iterator[str]:
    kind = schema.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    at = f" at {path}" if path else ""
    if kinds and not any(_is(value, kind) for kind in kinds):
        received = next(kind for kind in _KINDS if kind != "integer" and _is(value, kind))
        yield f"Invalid input: expected {' or '.join(kinds)}, received {received}{at}"
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
            names = ", ".join(f'"{name[:60]}"' for name in unknown[:5])
            yield f"Unrecognized key{'s' if len(unknown) > 1 else ''}: {names}{at}"
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _errors(schema["items"], item, f"{path}[{index}]")


def _is(value: Json, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def text_result(text: str, fields: Fields | None = None, *, ok: bool = True) -> Fields:
    """Return the result of a call: text for models, and fields for programs if there are any."""
    result: Fields = {"content": [{"type": "text", "text": text}]}
    if fields is not None:
        result["structuredContent"] = fields
    return result if ok else {**result, "isError": True}


def tool_result(fields: Fields) -> Fields:
    """Return the result of a tool of workflows; its text is the briefing, if there is one."""
    text = fields.get("briefing") or clean_json(json_text.line_of(fields))
    return text_result(text, fields, ok=fields["ok"])


def tool_failure(
    error: Exception,
    arguments: Fields,
    find_step: Callable[[Fields], NextStep | None] | None = None,
) -> Fields:
    """Return the result of a call that failed: what the command line would say.

    ``find_step`` returns the next step after this ``error``, if the call was about a workflow.
    """
    workflow = arguments.get("workflow")
    fields = failure_fields(error, workflow if isinstance(workflow, str) else None)
    text = f"{fields['code']}: {clean(fields['message'])}"
    answer: Fields = {"ok": False, "error": fields}
    step = find_step(fields) if find_step is not None else None
    if find_step is not None:
        answer["next"] = next_fields(step)
    hint = fields["hint"]
    if hint and not is_command_hint(hint):
        text += f"\n{clean(hint)}"
        hint = ""
    if step is not None or hint:
        text += f"\nnext: {clean(hint if step is None else step.text)}"
    return text_result(text, answer, ok=False)
