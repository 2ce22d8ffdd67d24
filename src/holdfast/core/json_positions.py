"""Line numbers in a JSON text, for error messages. Imported only when there is an error.

The C scanner reports what is wrong, not where. So the text is walked again, token by token.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]

from holdfast.core import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = list[str | int]

_COLON = re.compile(r"[ \t\r\n]*:")
_TOKEN = re.compile(r'[]{}[,]|"|-?Infinity|NaN|-?\d[\d.eE+-]*|true|false|null')


def line_of_path(text: str, path: Path) -> int:
    """Return the line of the value at ``path``, or of its innermost ancestor that exists."""
    position, depth = 0, -1
    try:
        for start, _, value_path, is_key in _walk(text):
            is_closer = depth < len(value_path) and value_path == path[: len(value_path)]
            if is_closer and not is_key:
                position, depth = start, len(value_path)
                if depth == len(path):
                    break
    except ValueError:
        position = 0
    return text.count("\n", 0, position) + 1


def line_of_fault(text: str, why: str) -> int:
    """Return the first line with this fault, which is worded as in ``json_text``."""
    try:
        position = next((start for start, fault in _faults(text) if fault == why), 0)
    except ValueError:
        position = 0
    return text.count("\n", 0, position) + 1


def _faults(text: str) -> Iterator[tuple[int, str]]:
    keys: list[set[str]] = []
    for start, word, path, is_key in _walk(text):
        del keys[len(path) :]
        while len(keys) < len(path):
            keys.append(set())
        if word == '"':
            string = scanstring(text, start + 1)[0]
            if not json_text.is_encodable(string):
                yield start, json_text.HALF_A_PAIR
            if is_key and string in keys[-1]:
                yield start, json_text.twice(string)
            if is_key:
                keys[-1].add(string)
        elif word[-1].isdigit() or word.endswith(("NaN", "Infinity")):
            try:
                json_text.number(word)
            except json_text.BadJson as bad:
                yield start, bad.why
        if len(path) >= json_text.MAX_DEPTH and not is_key:
            yield start, json_text.TOO_DEEP


def _walk(text: str) -> Iterator[tuple[int, str, Path, bool]]:
    """Yield the position of every key and value, its first token, its path, and if it is a key.

    The path is the same list every time, and changes while the text is walked.
    """
    path: Path = []
    position = 0
    while match := _TOKEN.search(text, position):
        start, position = match.span()
        word, is_key = match.group(), False
        if word in "]}":
            del path[-1:]
        elif word == ",":
            if path and isinstance(path[-1], int):
                path[-1] += 1
        else:
            if word == '"':
                string, position = scanstring(text, position)
                if path and isinstance(path[-1], str) and _COLON.match(text, position):
                    path[-1], is_key = string, True
            yield start, word, path, is_key
            if word in "{[":
                path.append("" if word == "{" else 0)
