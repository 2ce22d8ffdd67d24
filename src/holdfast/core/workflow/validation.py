"""Text that people and agents hand in: what is taken, and the answer to what is not."""

from __future__ import annotations

from holdfast.core.refusal import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

MAX_CHARACTERS = 4_000


def bad_text(what: str, text: object) -> Refusal | None:
    """A refusal when the text cannot be kept as it is."""
    if not isinstance(text, str):
        return Refusal("invalid", f"the {what} is not text", "give it as text")
    if not text.strip():
        return Refusal("invalid", f"the {what} is empty", f"say what the {what} is")
    if len(text) > MAX_CHARACTERS:
        return Refusal(
            "invalid",
            f"the {what} has {len(text)} characters; {MAX_CHARACTERS} are the most",
            "shorten it, or put it into a file and name that: holdfast read @PATH",
        )
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return Refusal(
            "invalid", f"the {what} has a NUL or an undecodable byte", "give it as UTF-8 text"
        )
    return None


def bad_values(fields: Fields) -> Refusal | None:
    """A refusal when a key or a value of free fields cannot be kept."""
    for key, value in fields.items():
        refusal = bad_text("key", key)
        if refusal is None and isinstance(value, str) and value:
            refusal = bad_text(f"value of {key}", value)
        if refusal is not None:
            return refusal
    return None


def first_bad_text(**texts: str | list[str]) -> Refusal | None:
    """The first refusal among several texts, each named by its keyword."""
    for what, found in texts.items():
        for text in [found] if isinstance(found, str) else found:
            refusal = bad_text(what, text)
            if refusal is not None:
                return refusal
    return None
