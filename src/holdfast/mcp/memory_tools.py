"""The nine tools of ``@modelcontextprotocol/server-memory`` 2026.8.31, word for word.

Only ``search_nodes`` has two more arguments, both optional.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

RESOURCE: Fields = {
    "uri": "memory://knowledge-graph",
    "name": "knowledge-graph",
    "title": "Knowledge Graph",
    "description": "The full knowledge graph with all entities and relations",
    "mimeType": "application/json",
}
_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}


def _text(about: str = "") -> Fields:
    return {"type": "string", "description": about} if about else {"type": "string"}


def _array(items: Fields, about: str = "") -> Fields:
    schema = {"type": "array", "items": items}
    return {**schema, "description": about} if about else schema


def _object(properties: Fields) -> Fields:
    schema: Fields = {"type": "object", "properties": properties}
    return {**schema, "required": list(properties)} if properties else schema


def _closed(schema: Fields) -> Fields:
    """Return the schema of an answer: its objects have no other properties."""
    if schema["type"] == "object":
        properties = {name: _closed(value) for name, value in schema["properties"].items()}
        return {**schema, "properties": properties, "additionalProperties": False}
    return {**schema, "items": _closed(schema["items"])} if schema["type"] == "array" else schema


_ENTITY = _object(
    {
        "name": _text("The name of the entity"),
        "entityType": _text("The type of the entity"),
        "observations": _array(
            _text(), "An array of observation contents associated with the entity"
        ),
    }
)
_RELATION = _object(
    {
        "from": _text("The name of the entity where the relation starts"),
        "to": _text("The name of the entity where the relation ends"),
        "relationType": _text("The type of the relation"),
    }
)
_ADDITION = _object(
    {
        "entityName": _text("The name of the entity to add the observations to"),
        "contents": _array(_text(), "An array of observation contents to add"),
    }
)
_DELETION = _object(
    {
        "entityName": _text("The name of the entity containing the observations"),
        "observations": _array(_text(), "An array of observations to delete"),
    }
)
_ADDED = _object({"entityName": _text(), "addedObservations": _array(_text())})
_GRAPH = _object({"entities": _array(_ENTITY), "relations": _array(_RELATION)})
_DONE = _object({"success": {"type": "boolean"}, "message": _text()})


def _tool(
    name: str,
    about: str,
    inputs: Fields,
    output: Fields,
    *,
    reads: bool = False,
    destroys: bool = False,
) -> Fields:
    return {
        "name": name,
        "title": name.replace("_", " ").title(),
        "description": about,
        "inputSchema": {**_DRAFT, **_object(inputs)},
        "annotations": {
            "readOnlyHint": reads,
            "destructiveHint": destroys,
            "idempotentHint": reads or destroys,
            "openWorldHint": False,
        },
        "execution": {"taskSupport": "forbidden"},
        "outputSchema": {**_DRAFT, **_closed(output)},
    }


def _with_own_arguments(tool: Fields) -> Fields:
    ranked = {
        "type": "boolean",
        "description": "Find all words of the query anywhere, the likeliest first (default: false)",
    }
    limit = {"type": "integer", "description": "At most so many entities (default: all)"}
    properties = {**tool["inputSchema"]["properties"], "ranked": ranked, "limit": limit}
    return {**tool, "inputSchema": {**tool["inputSchema"], "properties": properties}}


TOOLS: tuple[Fields, ...] = (
    _tool(
        "create_entities",
        "Create multiple new entities in the knowledge graph",
        {"entities": _array(_ENTITY)},
        _object({"entities": _array(_ENTITY)}),
    ),
    _tool(
        "create_relations",
        "Create multiple new relations between entities in the knowledge graph. Relations should "
        "be in active voice",
        {"relations": _array(_RELATION)},
        _object({"relations": _array(_RELATION)}),
    ),
    _tool(
        "add_observations",
        "Add new observations to existing entities in the knowledge graph",
        {"observations": _array(_ADDITION)},
        _object({"results": _array(_ADDED)}),
    ),
    _tool(
        "delete_entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        {"entityNames": _array(_text(), "An array of entity names to delete")},
        _DONE,
        destroys=True,
    ),
    _tool(
        "delete_observations",
        "Delete specific observations from entities in the knowledge graph",
        {"deletions": _array(_DELETION)},
        _DONE,
        destroys=True,
    ),
    _tool(
        "delete_relations",
        "Delete multiple relations from the knowledge graph",
        {"relations": _array(_RELATION, "An array of relations to delete")},
        _DONE,
        destroys=True,
    ),
    _tool("read_graph", "Read the entire knowledge graph", {}, _GRAPH, reads=True),
    _with_own_arguments(
        _tool(
            "search_nodes",
            "Search for nodes in the knowledge graph based on a query",
            {
                "query": _text(
                    "The search query to match against entity names, types, and observation content"
                )
            },
            _GRAPH,
            reads=True,
        )
    ),
    _tool(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        {"names": _array(_text(), "An array of entity names to retrieve")},
        _GRAPH,
        reads=True,
    ),
)
