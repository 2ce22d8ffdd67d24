"""A word as a shell takes it: the commands in hints and briefings are pasted by people and agents,
and some of their words are names that somebody else chose.
"""

from __future__ import annotations

_PLAIN = "@%+=:,./-_"


def word(text: object) -> str:
    """The text as one word of a command line."""
    plain = str(text)
    if plain and all(char.isalnum() or char in _PLAIN for char in plain):
        return plain
    return "'" + plain.replace("'", "'\\''") + "'"
