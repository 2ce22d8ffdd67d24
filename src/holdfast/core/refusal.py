"""An expected no, as a value: the core returns it, surfaces print it."""

from __future__ import annotations


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
