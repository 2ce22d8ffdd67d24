"""An expected no, as a value: the core returns it, surfaces print it; and the words of its hint."""

from __future__ import annotations

_PLAIN = "@%+=:,./-_"


class Refusal:
    """What was attempted and why not (``message``), and the next command to run (``hint``)."""

    __slots__ = ("code", "details", "hint", "message")

    def __init__(self, code: str, message: str, hint: str = "", **details: object) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details

    def __repr__(self) -> str:
        return f"Refusal({self.code!r}, {self.message!r}, {self.hint!r})"


def word(text: object) -> str:
    """The text as one word of a command, as a shell takes it: people and agents paste hints, and
    some of the names in them were chosen by somebody else.
    """
    plain = str(text)
    if plain and all(char.isalnum() or char in _PLAIN for char in plain):
        return plain
    return "'" + plain.replace("'", "'\\''") + "'"
