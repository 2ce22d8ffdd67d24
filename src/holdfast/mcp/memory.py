"""``holdfast mcp memory``: the tools and answers of the reference Memory server, on our own store.

The graph is opened at the first call, and again after trouble: if the database is locked, read-only
or damaged, the call fails with a sentence, and the next call tries again.
"""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError
from holdfast.mcp import graph_json
from holdfast.mcp.memory_tools import RESOURCE, TOOLS
from holdfast.mcp.messages import BAD_PARAMS, ProtocolError, RawJson
from holdfast.mcp.results import failure_fields, text_result
from holdfast.mcp.schemas import schema_errors
from holdfast.mcp.server import App

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.layers.graph.memory_graph import MemoryGraph
    from holdfast.layers.graph.store import GraphStore
    from holdfast.mcp.server import RequestContext

URI = RESOURCE["uri"]
_BY_NAME = {tool["name"]: tool for tool in TOOLS}
_NOT_VALID = "MCP error -32602: Input validation error: Invalid arguments for tool"


class MemoryApp(App):
    """One memory graph: of the file that the client names, else the person's default."""

    name = "memory-server"
    is_subscribable = True

    def __init__(self, file: str | None, folder: str, wait_s: float | None = None) -> None:
        self._file = file
        self._folder = folder
        self._wait_s = wait_s
        self._graph: MemoryGraph | None = None

    def tools(self) -> list[Fields]:
        return list(TOOLS)

    def call(self, name: str, arguments: Fields, context: RequestContext) -> Fields | None:
        tool = _BY_NAME.get(name)
        if tool is None:
            return _failed(f"MCP error -32602: Tool {name} not found")
        errors = schema_errors(tool["inputSchema"], arguments)
        if errors:
            return _failed(f"{_NOT_VALID} {name}: " + "\n".join(errors))
        try:
            text, content = _call(self._store(), name, arguments)
        except (HoldfastError, OSError) as error:
            fields = failure_fields(error)
            is_of_reference = fields["code"] == "not_found"
            hint = "" if is_of_reference else f"; {fields['hint']}"
            return _failed(fields["message"] + hint)
        if not tool["annotations"]["readOnlyHint"]:
            context.report_change(URI)
        return {**text_result(text), "structuredContent": content}

    def resources(self) -> list[Fields]:
        return [RESOURCE]

    def read(self, uri: str) -> list[Fields]:
        if uri != URI:
            raise ProtocolError(BAD_PARAMS, f"MCP error -32602: Resource {uri} not found")
        text = graph_json.render_graph(self._store().read_graph())
        return [{"uri": uri, "mimeType": RESOURCE["mimeType"], "text": text}]

    def _store(self) -> GraphStore:
        """Return the store; report what was noticed while it was opened on standard error."""
        if self._graph is None:
            from holdfast.layers.graph.memory_graph import MemoryGraph, path_of

            path = path_of(self._file, self._folder)
            self._graph = MemoryGraph(path, wait_s=self._wait_s)
        store = self._graph.store()
        for note in self._graph.notes:
            sys.stderr.write(f"holdfast mcp memory: {note}\n")
        self._graph.notes.clear()
        return store

    def close(self) -> None:
        if self._graph is not None:
            self._graph.close()


def _failed(text: str) -> Fields:
    return {**text_result(text), "isError": True}


def _call(store: GraphStore, tool: str, args: Fields) -> tuple[str, Fields | RawJson]:
    """Call a tool; return the text and the structured content of its result."""
    match tool:
        case "create_entities":
            entities = store.create_entities(args["entities"])
            return graph_json.render_entities(entities), {"entities": entities}
        case "create_relations":
            relations = store.create_relations(args["relations"])
            return graph_json.render_relations(relations), {"relations": relations}
        case "add_observations":
            results = store.add_observations(args["observations"])
            return graph_json.render_added(results), {"results": results}
        case "delete_entities":
            store.delete_entities(args["entityNames"])
        case "delete_observations":
            store.delete_observations(args["deletions"])
        case "delete_relations":
            store.delete_relations(args["relations"])
        case "read_graph":
            text, line = graph_json.render_rows(*store.read_rows())
            return text, RawJson(line)
        case "search_nodes":
            limit = None if args.get("limit") is None else max(args["limit"], 0)
            ranked = args.get("ranked", False)
            graph = store.search_nodes(args["query"], ranked=ranked, limit=limit)
            return graph_json.render_graph(graph), {**graph}
        case "open_nodes":
            graph = store.open_nodes(args["names"])
            return graph_json.render_graph(graph), {**graph}
    message = f"{tool.removeprefix('delete_').title()} deleted successfully"
    return message, {"success": True, "message": message}
