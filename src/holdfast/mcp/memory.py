"""``holdfast mcp memory``: the reference Memory server's tools and answers, on a store that keeps.

The graph is opened at the first call, and again after trouble: a database that is locked, read-only
or damaged makes a call fail with a sentence, and the next call looks again.
"""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError
from holdfast.mcp.memory_tools import RESOURCE, TOOLS
from holdfast.mcp.messages import BAD_PARAMS, Ready, Wrong
from holdfast.mcp.schemas import misfits
from holdfast.mcp.server import App

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.layers.graph.memory import MemoryGraph
    from holdfast.layers.graph.store import GraphStore
    from holdfast.mcp.server import Talk

URI = RESOURCE["uri"]
_BY_NAME = {tool["name"]: tool for tool in TOOLS}
_NOT_VALID = "MCP error -32602: Input validation error: Invalid arguments for tool"


class Memory(App):
    """One graph: of the file that the person names, else of the one that is everybody's."""

    name = "memory-server"
    is_subscribable = True

    def __init__(self, named: str | None, folder: str, wait_s: float | None = None) -> None:
        self._named = named
        self._folder = folder
        self._wait_s = wait_s
        self._graph: MemoryGraph | None = None

    def tools(self) -> list[Fields]:
        return list(TOOLS)

    def call(self, name: str, arguments: Fields, talk: Talk) -> Fields | None:
        tool = _BY_NAME.get(name)
        if tool is None:
            return _failed(f"MCP error -32602: Tool {name} not found")
        wrong = misfits(tool["inputSchema"], arguments)
        if wrong:
            return _failed(f"{_NOT_VALID} {name}: " + "\n".join(wrong))
        try:
            text, fields = _CALLS[name](self._store(), arguments)
        except HoldfastError as error:
            is_theirs = error.code == "not_found"
            return _failed(error.message if is_theirs else f"{error.message}; {error.hint}")
        except OSError as error:
            return _failed(_told(error))
        if not tool["annotations"]["readOnlyHint"]:
            talk.changed(URI)
        return {"content": [{"type": "text", "text": text}], "structuredContent": fields}

    def resources(self) -> list[Fields]:
        return [RESOURCE]

    def read(self, uri: str) -> list[Fields]:
        if uri != URI:
            raise Wrong(BAD_PARAMS, f"MCP error -32602: Resource {uri} not found")
        from holdfast.layers.graph import layout

        text = layout.graph(self._store().read_graph())
        return [{"uri": uri, "mimeType": RESOURCE["mimeType"], "text": text}]

    def _store(self) -> GraphStore:
        if self._graph is None:
            from holdfast.layers.graph.memory import MemoryGraph, path_of

            self._graph = MemoryGraph(path_of(self._named, self._folder), wait_s=self._wait_s)
        store = self._graph.store()
        for note in self._graph.notes:
            sys.stderr.write(f"holdfast mcp memory: {note}\n")
        self._graph.notes.clear()
        return store

    def close(self) -> None:
        if self._graph is not None:
            self._graph.close()


def _failed(text: str) -> Fields:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _told(error: OSError) -> str:
    from holdfast.answers.failure import failure_fields

    told = failure_fields(error)
    return f"{told['message']}; {told['hint']}"


# The tools: each gives the text and the structure of its answer


def _create_entities(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    from holdfast.layers.graph import layout

    made = store.create_entities(given["entities"])
    return layout.entities(made), {"entities": made}


def _create_relations(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    from holdfast.layers.graph import layout

    made = store.create_relations(given["relations"])
    return layout.relations(made), {"relations": made}


def _add_observations(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    from holdfast.layers.graph import layout

    made = store.add_observations(given["observations"])
    return layout.results(made), {"results": made}


def _delete_entities(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    store.delete_entities(given["entityNames"])
    return _done("Entities")


def _delete_observations(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    store.delete_observations(given["deletions"])
    return _done("Observations")


def _delete_relations(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    store.delete_relations(given["relations"])
    return _done("Relations")


def _done(what: str) -> tuple[str, Fields]:
    message = f"{what} deleted successfully"
    return message, {"success": True, "message": message}


def _read_graph(store: GraphStore, _given: Fields) -> tuple[str, Ready]:
    from holdfast.layers.graph import layout

    text, line = layout.whole(*store.read_rows())
    return text, Ready(line)


def _search_nodes(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    limit = given.get("limit")
    most = None if limit is None else max(limit, 0)
    ranked = given.get("ranked", False)
    return _graph(store.search_nodes(given["query"], ranked=ranked, limit=most))


def _open_nodes(store: GraphStore, given: Fields) -> tuple[str, Fields]:
    return _graph(store.open_nodes(given["names"]))


def _graph(found: Any) -> tuple[str, Fields]:
    from holdfast.layers.graph import layout

    return layout.graph(found), found


_CALLS: dict[str, Callable[[GraphStore, Fields], tuple[str, Fields | Ready]]] = {
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
