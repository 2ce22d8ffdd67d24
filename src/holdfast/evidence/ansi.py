"""A stranger's output as plain text: no colours, no cursor movements, nothing that nobody sees.

Every quantifier is possessive: no text makes these expressions go back, however it was made.
"""

from __future__ import annotations

import re

_LINE_ENDS = re.compile(r"\r\n?+")
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x9c|\x1b\\)?+"
    r"|\x1b[ -/]*+[0-~]"
)
"""Colours and cursor movements; titles and links; character sets, and the rest."""
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]++"
)
"""Control characters, direction marks, and what a model reads but a person does not see."""


def plain(text: str) -> str:
    """The text with its lines and tabs, and otherwise only what can be seen."""
    text = _LINE_ENDS.sub("\n", text)
    return _UNSEEN.sub("", _ESCAPES.sub("", text))


def decoded(raw: bytes) -> str:
    return plain(raw.decode("utf-8", "replace"))


def last_lines(text: str, most: int) -> str:
    """The end of the text: whole lines, unless the last one alone is longer than that."""
    end = text[-most:]
    if len(text) <= most or text[-most - 1] == "\n":
        return end
    whole = end.partition("\n")[2]
    return whole or end
