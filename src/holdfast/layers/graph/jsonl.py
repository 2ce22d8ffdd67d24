"""The JSONL format of the reference Memory server: one entity or relation per line.

Reading is lenient: a line that is not valid is reported, and the others count. Whatever a line has
that the graph cannot hold is returned, so that it can be kept when the file is written again.
"""

from __future__ import annotations

from holdfast.core import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields, Json
    from holdfast.layers.graph import Entity, Graph, Relation

_TEXTS = {
    "entity": ("name", "entityType"),
    "relation": ("from", "to", "relationType"),
}
"""The fields of each kind of line that are one text."""
_FIELDS = 4
"""The number of fields of a line, of either kind."""
_MAX_LISTED = 20
"""Bad lines that are listed one by one."""


class ParsedFile:
    """The content of a file."""

    def __init__(
        self, graph: Graph, bad: list[tuple[int, str]], not_held: list[tuple[int, bytes]]
    ) -> None:
        self.graph = graph
        self.bad = bad
        """The number and the fault of each line that is not valid."""
        self.not_held = not_held
        """The number and the text of each line of which the graph does not hold everything."""
        self.is_foreign = bool(bad) and not graph["entities"] and not graph["relations"]
        """True if this is not the file of a memory: it has lines, and none of them is valid."""


def parse(raw: bytes) -> ParsedFile:
    """Return what a file holds; no content is invalid as a whole."""
    nodes: dict[str, list[Any]] = {"entity": [], "relation": []}
    bad: list[tuple[int, str]] = []
    not_held: list[tuple[int, bytes]] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            values = _values(line)
            found = [_node(fields) for fields in values]
        except ValueError as error:
            bad.append((number, str(error)))
            not_held.append((number, line))
        else:
            for kind, node in found:
                nodes[kind].append(node)
            if any(len(fields) > _FIELDS for fields in values):
                not_held.append((number, line))
    graph: Graph = {"entities": nodes["entity"], "relations": nodes["relation"]}
    return ParsedFile(graph, bad, not_held)


def faults(path: str, parsed: ParsedFile) -> list[str]:
    """Return a sentence for each line that is not valid; of many, for the first ones."""
    notes = [
        f"{path}, line {number}: {why}; it was left out" for number, why in parsed.bad[:_MAX_LISTED]
    ]
    if len(parsed.bad) > _MAX_LISTED:
        more = len(parsed.bad) - _MAX_LISTED
        notes.append(f"{path}: {more} more lines are not valid and were left out")
    return notes


def _values(line: bytes) -> list[Any]:
    """Return the values of a line; raise ``ValueError`` with the fault.

    There are several if a program appended lines to a file whose last one had no newline.
    """
    try:
        return [json_text.loads(line)]
    except ValueError:
        if b"}{" not in line:
            raise
    return json_text.loads_several(line)


def _node(fields: Json) -> tuple[str, Fields]:
    """Return the kind of a line, and its fields; raise ``ValueError`` with the fault."""
    kind = str(fields.get("type")) if isinstance(fields, dict) else ""
    if kind not in _TEXTS:
        raise ValueError("it is neither an entity nor a relation")
    node: Fields = {name: _text(fields.get(name), name) for name in _TEXTS[kind]}
    if kind == "entity":
        texts = fields.get("observations", [])
        texts = texts if isinstance(texts, list) else [None]
        node["observations"] = [_text(text, "list of observations") for text in texts]
    return kind, node


def _text(value: Json, name: str) -> str:
    if not isinstance(value, str) or not json_text.is_encodable(value):
        raise ValueError(f"its {name} is not text")
    return value


def render(graph: Graph) -> bytes:
    """Return the lines of a graph, without a newline at the end."""
    lines = [*map(entity_line, graph["entities"]), *map(relation_line, graph["relations"])]
    return "\n".join(lines).encode()


def entity_line(entity: Entity) -> str:
    return json_text.dumps({"type": "entity", **entity})


def relation_line(relation: Relation) -> str:
    return json_text.dumps({"type": "relation", **relation})
