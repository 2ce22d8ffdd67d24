"""Refusals: an expected no as a value. The core returns it, the surfaces print it.

Also the checks of text that people and agents hand in, and the quoting of words in a hint.
"""

from __future__ import annotations

from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields

MAX_CHARACTERS = 4_000
_PLAIN = "@%+=:,./-_"


class Refusal:
    """An expected no: what was attempted and why not (``message``), the next command (``hint``)."""

    __slots__ = ("code", "details", "hint", "message")

    def __init__(self, code: str, message: str, hint: str = "", **details: object) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details

    def error(self) -> Refused:
        """Return the exception that the library raises for it."""
        return Refused(self.code, self.message, self.hint, **self.details)

    def __repr__(self) -> str:
        return f"Refusal({self.code!r}, {self.message!r}, {self.hint!r})"


def bad_text(what: str, text: object) -> Refusal | None:
    """Return a refusal if a text cannot be kept."""
    if not isinstance(text, str):
        return Refusal("invalid", f"the {what} is not text", "give it as text")
    if not text.strip():
        return Refusal("invalid", f"the {what} is empty", f"say what the {what} is")
    if len(text) > MAX_CHARACTERS:
        why = f"the {what} has {len(text)} characters; the limit is {MAX_CHARACTERS}"
        hint = "shorten it, or put it into a file and name that: holdfast read @PATH"
        return Refusal("invalid", why, hint)
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        why = f"the {what} has a NUL or an undecodable byte"
        return Refusal("invalid", why, "give it as UTF-8 text")
    return None


def bad_values(fields: Fields) -> Refusal | None:
    """Return a refusal if a key or a value of free fields cannot be kept."""
    for key, value in fields.items():
        refusal = bad_text("key", key)
        if refusal is None and isinstance(value, str) and value:
            refusal = bad_text(f"value of {key}", value)
        if refusal is not None:
            return refusal
    return None


def first_bad_text(**texts: str | list[str]) -> Refusal | None:
    """Return the first refusal among several texts, each named by its keyword."""
    for what, value in texts.items():
        for text in [value] if isinstance(value, str) else value:
            refusal = bad_text(what, text)
            if refusal is not None:
                return refusal
    return None


def bad_reading(path: str) -> Refusal | None:
    """Return a refusal if a path of required reading is not ``@`` and a name."""
    if path.startswith("@") and path[1:].strip():
        return None
    if path.startswith("@"):
        return Refusal("invalid", f"required reading {path!r} names no file", "name it as @PATH")
    why = f"required reading {path!r} does not start with @"
    return Refusal("invalid", why, f"holdfast read {shell_word('@' + path.lstrip('@'))}")


def shell_word(text: object) -> str:
    """Return a text as one word of a shell command.

    People and agents paste hints, and the names in them may have been chosen by a stranger.
    """
    plain = str(text)
    if plain and all(char.isalnum() or char in _PLAIN for char in plain):
        return plain
    return "'" + plain.replace("'", "'\\''") + "'"


def shell_line(words: Iterable[object]) -> str:
    """Return a command as one line for a shell."""
    return " ".join(map(shell_word, words))
