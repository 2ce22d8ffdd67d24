"""What is said on the wire: requests and notifications in, answers and errors out. Pure.

Two eras are spoken. Since 2026-07-28 every request says in its ``_meta`` which version it is in,
and nothing is remembered between two; before that a client says ``initialize`` once. A request
that names no version is of the older era.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder

from holdfast.core import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json

STATELESS = ("2026-07-28",)
HANDSHAKE = ("2025-06-18", "2025-11-25")
VERSIONS = (*HANDSHAKE, *STATELESS)

NOT_JSON = -32700
BAD_REQUEST = -32600
NO_METHOD = -32601
BAD_PARAMS = -32602
NO_RESOURCE = -32002
UNKNOWN_VERSION = -32022

_META = "io.modelcontextprotocol/"
_VERSION_KEY = f"{_META}protocolVersion"
_SERVER_KEY = f"{_META}serverInfo"
SUBSCRIPTION_KEY = f"{_META}subscriptionId"
_CACHED = (
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
"""Whose answers say how long they hold."""
_CHANGING = ("resources/list", "resources/read")
DEFINITIONS_HOLD_MS = 3_600_000
EDGE = 512
"""So many bytes of either end of a bad line are looked at for its id."""


class Wrong(Exception):
    """A message that cannot be answered with a result."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Message:
    """A request; a notification has no ``id``."""

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

    def check(self) -> None:
        """A version that is named has to be one of those we speak."""
        if self.version is None or self.version in VERSIONS:
            return
        if not isinstance(self.version, str):
            raise Wrong(BAD_PARAMS, f"params._meta: {_VERSION_KEY} must be a string")
        told = {"supported": list(VERSIONS), "requested": self.version[:80]}
        raise Wrong(UNKNOWN_VERSION, "Unsupported protocol version", told)

    def text(self, name: str) -> str:
        """A parameter that has to be text."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise Wrong(BAD_PARAMS, f"{self.method}: params.{name} must be a string")
        return value


def parsed(line: bytes) -> Message | None:
    """The message of a line; nothing for an answer, which nobody asked for."""
    try:
        told = json_text.loads(line)
    except json_text.BadJson as bad:
        number = id_of(line[:EDGE], line[-EDGE:])
        raise Identified(number, NOT_JSON, f"Parse error: {bad.why}") from None
    if not isinstance(told, dict):
        raise Wrong(BAD_REQUEST, "Invalid request: a message is one JSON object")
    if "method" not in told and ("result" in told or "error" in told):
        return None
    method, params = told.get("method"), told.get("params", {})
    number = told.get("id")
    if "id" in told and (isinstance(number, bool) or not isinstance(number, (str, int))):
        raise Wrong(BAD_REQUEST, "Invalid request: id must be a string or a whole number")
    if not isinstance(method, str) or told.get("jsonrpc") != "2.0":
        what = "method must be a string" if not isinstance(method, str) else 'jsonrpc must be "2.0"'
        raise Identified(number, BAD_REQUEST, f"Invalid request: {what}")
    if not isinstance(params, dict):
        raise Identified(number, BAD_PARAMS, f"{method[:80]}: params must be an object")
    return Message(method, params, has_id="id" in told, id=number)


def id_of(head: bytes, tail: bytes) -> Json:
    """The id of a request that was not read, if it stands where clients put it: first or last.

    A text cannot pass for it: quotes inside a text have a backslash before them.
    """
    import re

    text = rb'"(?:[^"\\]|\\.)*"'
    named = rb'\s*"id"\s*:\s*(' + text + rb"|-?\d{1,20})\s*"
    before = rb'(?:\s*"(?:jsonrpc|method)"\s*:\s*' + text + rb"\s*,)*"
    after = rb'(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?'
    found = re.match(rb"\s*\{" + before + named + rb",", head) or re.search(
        rb"," + named + after + rb"\}\s*$", tail
    )
    try:
        return json_text.loads(found[1]) if found else None
    except json_text.BadJson:
        return None


class Identified(Wrong):
    """The same, of a message whose id could be read."""

    def __init__(self, id: Json, code: int, message: str) -> None:
        super().__init__(code, message)
        self.id = id


class Ready(str):
    """JSON already: it stands in a message as it is."""

    __slots__ = ()


def _json_of(text: str) -> str:
    return text if isinstance(text, Ready) else encode_basestring(text)


_encode = make_encoder(None, json_text.refuse, _json_of, None, ":", ",", False, False, False)


def line_of(message: Fields) -> bytes:
    """A message as it is sent."""
    text = "".join((*_encode(message, 0), "\n"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return text.encode(errors="backslashreplace")


def answer(request: Message, result: Fields, server: Fields) -> Fields:
    """The answer in the era of the request; ``server`` is its name and version."""
    if request.is_stateless:
        held: Fields = {}
        if request.method in _CACHED:
            holds_ms = 0 if request.method in _CHANGING else DEFINITIONS_HOLD_MS
            held = {"ttlMs": holds_ms, "cacheScope": "private"}
        meta = {**result.get("_meta", {}), _SERVER_KEY: server}
        result = {"resultType": "complete", **held, **result, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


def refusal(request: Message, wrong: Wrong) -> Fields:
    """The error in the era of the request: the newer one has no code for what is not there."""
    if request.is_stateless and wrong.code == NO_RESOURCE:
        wrong.code = BAD_PARAMS
    return error(request.id, wrong)


def error(id: Json, wrong: Wrong) -> Fields:
    told: Fields = {"code": wrong.code, "message": wrong.message}
    if wrong.data is not None:
        told["data"] = wrong.data
    return {"jsonrpc": "2.0", "id": id, "error": told}


def notification(method: str, params: Fields) -> Fields:
    return {"jsonrpc": "2.0", "method": method, "params": params}
