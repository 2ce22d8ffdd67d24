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
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.layers.graph.memory_graph import MemoryGraph
    from holdfast.layers.graph.store import GraphStore
    from holdfast.layers.graph.types import Graph
    from holdfast.mcp.server import RequestContext

    Answer = tuple[str, Fields | RawJson]
    """The text and the structured content of a tool's result."""

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
            text, content = _CALLS[name](self._store(), arguments)
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


# Tools


def _create_entities(store: GraphStore, args: Fields) -> Answer:
    created = store.create_entities(args["entities"])
    return graph_json.render_entities(created), {"entities": created}


def _create_relations(store: GraphStore, args: Fields) -> Answer:
    created = store.create_relations(args["relations"])
    return graph_json.render_relations(created), {"relations": created}


def _add_observations(store: GraphStore, args: Fields) -> Answer:
    added = store.add_observations(args["observations"])
    return graph_json.render_added(added), {"results": added}


def _delete_entities(store: GraphStore, args: Fields) -> Answer:
    store.delete_entities(args["entityNames"])
    return _deleted("Entities")


def _delete_observations(store: GraphStore, args: Fields) -> Answer:
    store.delete_observations(args["deletions"])
    return _deleted("Observations")


def _delete_relations(store: GraphStore, args: Fields) -> Answer:
    store.delete_relations(args["relations"])
    return _deleted("Relations")


def _deleted(what: str) -> Answer:
    message = f"{what} deleted successfully"
    return message, {"success": True, "message": message}


def _read_graph(store: GraphStore, _args: Fields) -> Answer:
    text, line = graph_json.render_rows(*store.read_rows())
    return text, RawJson(line)


def _search_nodes(store: GraphStore, args: Fields) -> Answer:
    limit = None if args.get("limit") is None else max(args["limit"], 0)
    ranked = args.get("ranked", False)
    return _graph(store.search_nodes(args["query"], ranked=ranked, limit=limit))


def _open_nodes(store: GraphStore, args: Fields) -> Answer:
    return _graph(store.open_nodes(args["names"]))


def _graph(graph: Graph) -> Answer:
    return graph_json.render_graph(graph), {**graph}


_CALLS: dict[str, Callable[[GraphStore, Fields], Answer]] = {
    "create_entities": _create_entities,
    "create_relations": _create_relations,
    "add_observations": _add_observations,
    "delete_entities": _delete_entities,
    "delete_observations": _delete_observations,
    "delete_relations": _delete_relations,
    "read_graph": _read_graph,
    "search_nodes": _search_nodes,
    "open_nodes": _open_nodes,
}
