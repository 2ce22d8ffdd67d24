"""The line of a JSON text on which a path's value stands; for the messages about a bad edit."""

from __future__ import annotations

from json.decoder import scanstring  # type: ignore[attr-defined]

_WHITESPACE = " \t\r\n"


def line_of(text: str, path: list[str | int]) -> int:
    """The line of the value at ``path``, or of the innermost one above it that is there."""
    try:
        position = _seek(text, _skip(text, 0), path)
    except (IndexError, ValueError, RecursionError):
        position = 0
    return text.count("\n", 0, position) + 1


def _seek(text: str, start: int, path: list[str | int]) -> int:
    if not path or text[start] not in "{[":
        return start
    wanted = path[0]
    for key, value in _entries(text, start):
        if key == wanted:
            return _seek(text, value, path[1:])
    return start


def _entries(text: str, start: int) -> list[tuple[str | int, int]]:
    """Key, or number, and position of each value in the object or list at ``start``."""
    found: list[tuple[str | int, int]] = []
    is_object = text[start] == "{"
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        key: str | int = len(found)
        if is_object:
            key, after = scanstring(text, position + 1)
            position = _skip(text, _skip(text, after) + 1)
        found.append((key, position))
        position = _skip(text, _end(text, position))
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def _end(text: str, start: int) -> int:
    """The position after the value at ``start``."""
    if text[start] == '"':
        return int(scanstring(text, start + 1)[1])
    if text[start] in "{[":
        return _closed(text, start)
    position = start
    while position < len(text) and text[position] not in ",}]" + _WHITESPACE:
        position += 1
    return position


def _closed(text: str, start: int) -> int:
    """The position after the object or list at ``start``: one pass, however deep it is nested."""
    depth, position = 0, start
    while True:
        if text[position] == '"':
            position = int(scanstring(text, position + 1)[1])
            continue
        depth += (text[position] in "{[") - (text[position] in "}]")
        position += 1
        if not depth:
            return position


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _WHITESPACE:
        position += 1
    return position
