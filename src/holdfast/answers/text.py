"""Escape stored text before it is printed.

State is written by models and by strangers' repositories. An escape sequence in it could rewrite
the screen, a bidirectional override could show a command as another one. Nothing that came from
storage is printed without ``clean`` or ``clean_json``.
"""

from __future__ import annotations

_SPACES_AND_JOINERS = "\u00a0\u2009\u200c\u200d\u202f\u3000"
"""Not printable to Python, but harmless, and needed by emoji and by several scripts."""
_NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: object) -> str:
    """Return the text on one line, with everything that could steer a terminal escaped."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join([char if _is_harmless(char) else _escape(char) for char in line])


def clean_json(text: str, *, ascii_only: bool = False) -> str:
    """Return the same JSON value, with what could steer a terminal escaped as JSON does it.

    JSON itself escapes only what lies below a space; outside of strings all is ASCII.
    """
    if text.isascii() if ascii_only else text.isprintable():
        return text
    return "".join(
        [
            char if char < "\x7f" or (not ascii_only and _is_harmless(char)) else _json_escape(char)
            for char in text
        ]
    )


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char in _SPACES_AND_JOINERS


def _escape(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return _NAMED_ESCAPES.get(char) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_escape(char: str) -> str:
    number = ord(char)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
