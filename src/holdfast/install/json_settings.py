"""Edit a client's JSON file: load it, change the value, write it back in the layout of the file.

Keys keep their order. Indentation, line ends and escapes are detected and kept; other white space
is laid out anew. ``uninstall`` restores the original bytes from the journal.
"""

from __future__ import annotations

import copy
import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Json

_DEFAULT_INDENT = "  "
_FIRST_KEY = re.compile(r'\s*\{\s*\n([ \t]*)"')


class Misfit(Exception):
    """Settings of another shape than the client's: the path to the value, and what is wrong."""

    def __init__(self, path: list[str | int], why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def edit(text: str, change: Callable[[Json], None]) -> str:
    """Return the text after ``change`` edited its value; the same text if the value is equal."""
    value = json.loads(text)
    before = copy.deepcopy(value)
    change(value)
    return text if value == before else render(value, text)


def render(value: Json, layout: str) -> str:
    """Return the value as JSON with the indentation, line ends and escapes of another text."""
    body = layout.strip()
    indent: str | None = _DEFAULT_INDENT
    separators = (",", ": ")
    if (first := _FIRST_KEY.match(layout)) is not None:
        indent = first[1]
    elif "\n" not in body and body != "{}":
        indent = None
        separators = (", ", ": ") if '": ' in body else (",", ":")
    has_escapes = body.isascii() and "\\u" in body
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=has_escapes)
    text += "\n" if layout.endswith("\n") else ""
    return text.replace("\n", "\r\n") if "\r\n" in layout else text
