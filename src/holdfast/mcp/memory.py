"""``holdfast mcp memory``: the tools and answers of the reference Memory server, on our own store.

The nine tools are those of ``@modelcontextprotocol/server-memory`` 2026.8.31, word for word; only
``search_nodes`` has two more arguments, both optional. Texts are what ``JSON.stringify(value, null,
2)`` gives there.

The graph is opened at the first call, and again after trouble: if the database is locked, read-only
or damaged, the call fails with a sentence, and the next call tries again. A database that exists is
opened at the start, because a killed server may have left its JSONL file behind.
"""

from __future__ import annotations

import os
import sys
from _json import encode_basestring as quote
from contextlib import suppress

from holdfast.answers import failure_fields
from holdfast.core.visible import clean
from holdfast.errors import HoldfastError
from holdfast.layers.graph.memory_graph import MemoryGraph, path_of
from holdfast.mcp.messages import BAD_PARAMS, ProtocolError, schema_errors, text_result
from holdfast.mcp.server import App

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.layers.graph import Graph
    from holdfast.layers.graph.store import GraphStore
    from holdfast.mcp.server import RequestContext

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


def _object(properties: Fields, **optional: Fields) -> Fields:
    schema: Fields = {"type": "object", "properties": {**properties, **optional}}
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
    **optional: Fields,
) -> Fields:
    return {
        "name": name,
        "title": name.replace("_", " ").title(),
        "description": about,
        "inputSchema": {**_DRAFT, **_object(inputs, **optional)},
        "annotations": {
            "readOnlyHint": reads,
            "destructiveHint": destroys,
            "idempotentHint": reads or destroys,
            "openWorldHint": False,
        },
        "execution": {"taskSupport": "forbidden"},
        "outputSchema": {**_DRAFT, **_closed(output)},
    }


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
        ranked={
            "type": "boolean",
            "description": (
                "Find all words of the query anywhere, the likeliest first (default: false)"
            ),
        },
        limit={"type": "integer", "description": "At most so many entities (default: all)"},
    ),
    _tool(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        {"names": _array(_text(), "An array of entity names to retrieve")},
        _GRAPH,
        reads=True,
    ),
)
_BY_NAME = {tool["name"]: tool for tool in TOOLS}
_REOPEN_AFTER = ("graph_damaged", "newer_graph", "storage")
"""Codes of faults after which another file may be put in place of the database."""
_NOT_VALID = "MCP error -32602: Input validation error: Invalid arguments for tool"


class MemoryApp(App):
    """One memory graph: of the file that the client names, else the person's default."""

    name = "memory-server"
    is_subscribable = True
    tools = TOOLS

    def __init__(
        self,
        file: str | None,
        folder: str,
        wait_s: float | None = None,
        *,
        keep_file: bool = False,
    ) -> None:
        self._graph = MemoryGraph(path_of(file, folder), keep_file=keep_file, wait_s=wait_s)
        self._is_begun = False

    def call(self, name: str, arguments: Fields, context: RequestContext) -> Fields | None:
        tool = _BY_NAME.get(name)
        if tool is None:
            return text_result(f"MCP error -32602: Tool {name} not found", ok=False)
        errors = schema_errors(tool["inputSchema"], arguments)
        if errors:
            return text_result(f"{_NOT_VALID} {name}: " + "\n".join(errors), ok=False)
        try:
            result = text_result(*_call(self._store(), name, arguments))
        except (HoldfastError, OSError) as error:
            fields = failure_fields(error)
            is_of_reference = fields["code"] == "not_found"
            if fields["code"] in _REOPEN_AFTER:
                self._graph.reopen()
            hint = "" if is_of_reference else f"; {fields['hint']}"
            return text_result(fields["message"] + hint, ok=False)
        if not tool["annotations"]["readOnlyHint"]:
            self._graph.note_change()
            self._print_notes()
            context.report_change(RESOURCE["uri"])
        return result

    def resources(self) -> list[Fields]:
        return [RESOURCE]

    def read(self, uri: str) -> list[Fields]:
        if uri != RESOURCE["uri"]:
            raise ProtocolError(BAD_PARAMS, f"MCP error -32602: Resource {uri} not found")
        text = _render_graph(self._store().read_graph())
        return [{"uri": uri, "mimeType": RESOURCE["mimeType"], "text": text}]

    def do_due_work(self) -> float | None:
        if not self._is_begun:
            # A killed server may have left a file that lacks its last changes.
            self._is_begun = True
            if os.path.exists(self._graph.database):
                with suppress(HoldfastError, OSError):
                    self._store()
        wait_s = self._graph.do_due_work()
        self._print_notes()
        return wait_s

    def _store(self) -> GraphStore:
        try:
            return self._graph.store()
        finally:
            self._print_notes()

    def _print_notes(self) -> None:
        """Report what was noticed on standard error."""
        for note in self._graph.notes:
            sys.stderr.write(f"holdfast mcp memory: {clean(note)}\n")
        self._graph.notes.clear()

    def close(self) -> None:
        self._graph.close()
        self._print_notes()


def _call(store: GraphStore, tool: str, args: Fields) -> tuple[str, Fields]:
    """Call a tool; return the text and the structured content of its result."""
    match tool:
        case "create_entities":
            entities = store.create_entities(args["entities"])
            return _render(entities), {"entities": entities}
        case "create_relations":
            relations = store.create_relations(args["relations"])
            return _render(relations), {"relations": relations}
        case "add_observations":
            results = store.add_observations(args["observations"])
            return _render(results), {"results": results}
        case "read_graph":
            graph = store.read_graph()
            return _render_graph(graph), {**graph}
        case "search_nodes":
            limit = None if args.get("limit") is None else max(args["limit"], 0)
            ranked = args.get("ranked", False)
            graph = store.search_nodes(args["query"], ranked=ranked, limit=limit)
            return _render_graph(graph), {**graph}
        case "open_nodes":
            graph = store.open_nodes(args["names"])
            return _render_graph(graph), {**graph}
        case "delete_entities":
            store.delete_entities(args["entityNames"])
        case "delete_observations":
            store.delete_observations(args["deletions"])
        case "delete_relations":
            store.delete_relations(args["relations"])
    message = f"{tool.removeprefix('delete_').title()} deleted successfully"
    return message, {"success": True, "message": message}


def _render(objects: object) -> str:
    import json  # not for servers that are only read

    return json.dumps(objects, indent=2, ensure_ascii=False)


def _render_graph(graph: Graph) -> str:
    """Return a graph as indented JSON, as ``_render`` would, but fast: it may be large."""
    entities = [
        f'{{\n      "name": {quote(entity["name"])},\n'
        f'      "entityType": {quote(entity["entityType"])},\n'
        f'      "observations": {_list(list(map(quote, entity["observations"])), "      ")}\n    }}'
        for entity in graph["entities"]
    ]
    relations = [
        f'{{\n      "from": {quote(relation["from"])},\n'
        f'      "to": {quote(relation["to"])},\n'
        f'      "relationType": {quote(relation["relationType"])}\n    }}'
        for relation in graph["relations"]
    ]
    return (
        f'{{\n  "entities": {_list(entities, "  ")},\n  "relations": {_list(relations, "  ")}\n}}'
    )


def _list(items: list[str], indent: str) -> str:
    newline = f"\n{indent}  "
    return f"[{newline}{f',{newline}'.join(items)}\n{indent}]" if items else "[]"
