"""The form of a shared event, as a hub stores it, and what is wrong with one that came from there.

A hub may be damaged, or others may write to it. So every event that comes from one is checked here,
before the rest of Holdfast sees it (``exchange.take_in``): an event that gets through has all its
fields, of the right types, and numbers that SQLite can store.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.json_text import BadJson, dumps
from holdfast.core.time import epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import SharedEvent

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The largest event that a hub takes, or that is taken in from one."""
MAX_ID_CHARACTERS = 40
MAX_REPLICAS = 5_000
"""The number of replicas that one hub can have."""
_MAX_NAME_CHARACTERS = 1_000
_MAX_NUMBER = 2**53
_DIGITS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")
_NUMBERS = ("n", "lamport", "rules")
_FLAGS = ("fenced", "renamed")
_CAUSE_TEXTS = ("id", "at", "type")


def line_of(event: SharedEvent) -> bytes:
    """Return an event as one line of JSON."""
    return f"{dumps(event)}\n".encode()


def parse(line: bytes) -> SharedEvent:
    """Return the event of a line; raise ``BadJson`` if it is none."""
    event = _parse_exact(line)
    if event is None:
        event = json_text.loads(
            line, strict=True, depth=json_text.MAX_EVENT_DEPTH, values=json_text.MAX_EVENT_VALUES
        )
    why = flaw_of(event)
    if why is not None:
        raise BadJson(why)
    parsed: SharedEvent = event
    return parsed


def _parse_exact(line: bytes) -> Any:
    """Return the value of a line that is exactly as ``line_of`` writes it; ``None`` for others.

    Such a line needs no strict check, which takes three times as long.
    """
    if line.count(b"[") + line.count(b"{") > json_text.MAX_EVENT_DEPTH:
        return None
    try:
        value = json_text.loads(line)
        return value if dumps(value).encode() == line.rstrip(b"\n") else None
    except ValueError:
        return None


def is_replica(name: object) -> bool:
    """Return whether this can be the id of a replica."""
    return isinstance(name, str) and 0 < len(name) <= MAX_ID_CHARACTERS and _DIGITS.issuperset(name)


def flaw_of(event: Any) -> str | None:
    """Return what is wrong with an event that came from a hub; ``None`` if it is well formed."""
    if not isinstance(event, dict):
        return "it is no object"
    if not is_replica(event.get("replica")):
        return "replica is no id"
    for name in _NUMBERS:
        if not _is_number(event.get(name), 1):
            return f"{name} is no number from 1"
    if not _is_number(event.get("epoch", 0), 0):
        return "epoch is no number"
    for name in _FLAGS:
        if not isinstance(event.get(name, False), bool):
            return f"{name} is neither true nor false"
    seen = event.get("seen")
    if not isinstance(seen, dict) or len(seen) > MAX_REPLICAS:
        return "seen is no object, or too large"
    if not all(is_replica(name) and _is_number(n, 0) for name, n in seen.items()):
        return "seen has something else than replicas and numbers"
    if not _is_name(event.get("stream")):
        return "stream is no name"
    return _flaw_of_cause(event.get("cause"))


def _flaw_of_cause(cause: Any) -> str | None:
    if not isinstance(cause, dict):
        return "cause is no object"
    for name in _CAUSE_TEXTS:
        if not _is_name(cause.get(name)):
            return f"cause.{name} is no text"
    if epoch_ms(cause["at"]) is None:
        return "cause.at is no time"
    by = cause.get("by")
    if not isinstance(cause.get("args"), dict) or not isinstance(by, dict):
        return "cause.args or cause.by is no object"
    if not all(isinstance(by.get(name, ""), str) for name in ("name", "surface")):
        return "cause.by has something else than texts"
    return None


def _is_number(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= _MAX_NUMBER


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME_CHARACTERS
