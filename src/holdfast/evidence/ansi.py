"""Turn the output of a command into plain text: no colours, cursor movements or invisible text.

Every quantifier is possessive, so that no text makes these expressions backtrack.
"""

from __future__ import annotations

import re

_LINE_ENDS = re.compile(r"\r\n?+")
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x9c|\x1b\\)?+"
    r"|\x1b[ -/]*+[0-~]"
)
"""Colours and cursor movements; titles and links; character sets and other escapes."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]++"
)
"""Control characters, direction marks, and text that a model reads but a person does not see."""


def plain(text: str) -> str:
    """Return the visible text, with lines and tabs."""
    text = _LINE_ENDS.sub("\n", text)
    return _INVISIBLE.sub("", _ESCAPES.sub("", text))


def decode_plain(raw: bytes) -> str:
    """Return the visible text of an output in UTF-8."""
    return plain(raw.decode("utf-8", "replace"))


def last_lines(text: str, max_chars: int) -> str:
    """Return the last whole lines; the end of the last line if it is longer than that."""
    end = text[-max_chars:]
    if len(text) <= max_chars or text[-max_chars - 1] == "\n":
        return end
    return end.partition("\n")[2] or end
