"""The line on which a JSON text goes beyond what Holdfast takes; loaded only to say so.

The C scanner tells what it met, not where. So the text is walked once more, token by token.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]

from holdfast.core import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_COLON = re.compile(r"[ \t\r\n]*:")
_TOKEN = re.compile(r'[]{}[]|"|-?Infinity|NaN|-?\d[\d.eE+-]*')


def line_of(text: str, why: str) -> int:
    """The first line on which the text has this fault."""
    try:
        at = next((start for start, found in _faults(text) if found == why), 0)
    except ValueError:
        at = 0
    return text.count("\n", 0, at) + 1


def _faults(text: str) -> Iterator[tuple[int, str]]:
    """Where, and what; in the words of ``json_text``."""
    keys: list[set[str]] = []
    position = 0
    while token := _TOKEN.search(text, position):
        start, position = token.span()
        word, is_key = token.group(), False
        if word in "}]":
            del keys[-1:]
            continue
        if word == '"':
            told, position = scanstring(text, position)
            is_key = bool(keys and _COLON.match(text, position))
            if not json_text.is_encodable(told):
                yield start, json_text.HALF_A_PAIR
            if is_key and told in keys[-1]:
                yield start, json_text.twice(told)
            if is_key:
                keys[-1].add(told)
        elif word not in "{[":
            yield from ((start, why) for why in _wrong_number(word))
        if len(keys) >= json_text.MAX_DEPTH and not is_key:
            yield start, json_text.TOO_DEEP
        if word in "{[":
            keys.append(set())


def _wrong_number(word: str) -> list[str]:
    try:
        json_text.number(word)
    except json_text.BadJson as bad:
        return [bad.why]
    return []
