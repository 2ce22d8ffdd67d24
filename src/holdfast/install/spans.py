"""Where the values of a JSON text stand, so that a change can touch its own characters alone.

The text was checked by ``json_text`` before: what is read here is JSON.
"""

from __future__ import annotations

import re

from holdfast.core import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}]+')
_CLOSERS = {"{": "}", "[": "]"}


class Part:
    """A member of an object, or an entry of a list, which has no key."""

    __slots__ = ("key", "key_end", "node", "start")

    def __init__(self, key: str | None, start: int, key_end: int, node: Node) -> None:
        self.key = key
        self.start = start
        self.key_end = key_end
        self.node = node

    @property
    def end(self) -> int:
        return self.node.end


class Node:
    """A value: its first character, the one after its last, and what is in it."""

    __slots__ = ("end", "parts", "start", "value")

    def __init__(self, start: int, end: int, value: Any, parts: list[Part]) -> None:
        self.start = start
        self.end = end
        self.value = value
        self.parts = parts

    def index_of(self, key: str) -> int | None:
        """Which part of an object goes by this key."""
        return next((i for i, part in enumerate(self.parts) if part.key == key), None)


def parsed(text: str) -> Node:
    return _value(text, _past_space(text, 0))


def _value(text: str, at: int) -> Node:
    if text[at] in _CLOSERS:
        return _container(text, at)
    end = _end_of_scalar(text, at)
    return Node(at, end, json_text.loads(text[at:end]), [])


def _container(text: str, at: int) -> Node:
    closer = _CLOSERS[text[at]]
    parts: list[Part] = []
    here = _past_space(text, at + 1)
    while text[here] != closer:
        part = _part(text, here, has_key=closer == "}")
        parts.append(part)
        here = _past_space(text, part.end)
        if text[here] == ",":
            here = _past_space(text, here + 1)
    value = (
        {part.key: part.node.value for part in parts}
        if closer == "}"
        else [part.node.value for part in parts]
    )
    return Node(at, here + 1, value, parts)


def _part(text: str, at: int, *, has_key: bool) -> Part:
    if not has_key:
        return Part(None, at, at, _value(text, at))
    key_end = _end_of_scalar(text, at)
    past_colon = _past_space(text, key_end) + 1
    node = _value(text, _past_space(text, past_colon))
    return Part(json_text.loads(text[at:key_end]), at, key_end, node)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _end_of_scalar(text: str, at: int) -> int:
    found = _SCALAR.match(text, at)
    return found.end() if found else at
