"""A JSON text that is changed in place: what is added looks like the rest of the file.

Every change gives a new text, and everything outside of the change is the same characters as
before. What was added last and is taken out again leaves nothing behind.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.install.spans import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Json
    from holdfast.install.spans import Node

_UNIT = "  "
_COLON = ": "


class Document:
    """A text, where its values stand, and the habits of whoever wrote it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = parsed(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.unit = self._indent_of_first()
        self.colon = self._colon_of_first()
        self.comma = ", " if self.colon.endswith(" ") else ","

    def _indent_of_first(self) -> str:
        """What one level is indented by: as the first member is, where that has its own line."""
        if not self.root.parts:
            return _UNIT
        lead = self.text[self.root.start + 1 : self.root.parts[0].start]
        return lead.rpartition("\n")[2] if "\n" in lead else _UNIT

    def _colon_of_first(self) -> str:
        for part in self.root.parts[:1]:
            colon = self.text[part.key_end : part.node.start]
            return _COLON if "\n" in colon else colon
        return _COLON

    def line_of(self, node: Node) -> int:
        return self.text.count("\n", 0, node.start) + 1

    def with_part(self, way: list[Node], key: str | None, value: Json) -> str:
        """The text with one more part at the end of a container, the last on the way to it."""
        node = way[-1]
        outer, inner = self._indents(way)
        said = "" if key is None else json_text.dumps(key) + self.colon
        said += self.rendered(value, inner)
        if node.parts:
            at = node.parts[-1].end
            return self.text[:at] + self._between(node, inner) + said + self.text[at:]
        if inner is not None:
            said = f"{self.newline}{inner}{said}{self.newline}{outer}"
        return self.text[: node.start + 1] + said + self.text[node.end - 1 :]

    def without_part(self, node: Node, place: int) -> str:
        """The text without one part of a container, and without the comma that it needed."""
        parts = node.parts
        if len(parts) == 1:
            start, end = node.start + 1, node.end - 1
        elif place == len(parts) - 1:
            start, end = parts[place - 1].end, parts[place].end
        else:
            start, end = parts[place].start, parts[place + 1].start
        return self.text[:start] + self.text[end:]

    def with_value(self, node: Node, value: Json) -> str:
        """The text with another value in the place of one."""
        outer = None
        if "\n" in self.text[node.start : node.end]:
            last = self.text[: node.end - 1].rpartition("\n")[2]
            outer = last[: len(last) - len(last.lstrip())]
        return self.text[: node.start] + self.rendered(value, outer) + self.text[node.end :]

    def rendered(self, value: Json, outer: str | None) -> str:
        """A value that stands in a line of this indentation; on one line where there is none."""
        if not value or not isinstance(value, (dict, list)):
            return json_text.dumps(value)
        inner = None if outer is None else outer + self.unit
        if isinstance(value, dict):
            rows = [
                json_text.dumps(key) + self.colon + self.rendered(item, inner)
                for key, item in value.items()
            ]
            return self._enclosed("{", rows, "}", outer)
        return self._enclosed("[", [self.rendered(item, inner) for item in value], "]", outer)

    def _enclosed(self, opener: str, rows: list[str], closer: str, outer: str | None) -> str:
        if outer is None:
            return opener + self.comma.join(rows) + closer
        lead = self.newline + outer + self.unit
        return opener + lead + f",{lead}".join(rows) + self.newline + outer + closer

    def _indents(self, way: list[Node]) -> tuple[str | None, str | None]:
        """The indentation of the container's own line, and that of what stands in it."""
        outer: str | None = None
        inner: str | None = ""
        for node in way:
            outer, inner = inner, self._inner(node, inner)
        return outer, inner

    def _inner(self, node: Node, outer: str | None) -> str | None:
        if not node.parts:
            return None if outer is None else outer + self.unit
        lead = self._lead(node)
        return lead.rpartition("\n")[2].replace(",", "") if "\n" in lead else None

    def _lead(self, node: Node) -> str:
        """What stands before the last part: white space, and a comma where there are others."""
        begin = node.parts[-2].end if len(node.parts) > 1 else node.start + 1
        return self.text[begin : node.parts[-1].start]

    def _between(self, node: Node, inner: str | None) -> str:
        """What separates a new part from the last one: what separates that from the one before."""
        if len(node.parts) > 1:
            return self._lead(node)
        return self.comma if inner is None else f",{self.newline}{inner}"
