"""``holdfast memory``: the graph of ``holdfast mcp memory``, for people and for other programs."""

from __future__ import annotations

import os

from holdfast.cli.commands.logs import page
from holdfast.errors import Refused
from holdfast.layers.graph.memory_graph import MemoryGraph, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments


def search(args: Arguments) -> Answer:
    with _opened(args) as graph:
        store = graph.store()
        found = store.search_nodes(args["query"], ranked=True, limit=args["limit"])
        fields = {"path": graph.path, "query": args["query"], **found}
        return page("memory", fields, graph.notes)


def export(args: Arguments) -> Answer:
    with _opened(args) as graph:
        told = graph.export(args["path"])
        answer = page("noted", told, graph.notes)
    counted = f"{told['entities']} entities and {told['relations']} relations"
    kept = f"; what stood there is {told['kept']}" if told["kept"] else ""
    answer["data"]["said"] = f"{counted} written to {told['path']}{kept}"
    return answer


def _opened(args: Arguments) -> MemoryGraph:
    """The graph that is meant; looking at one must not make one."""
    from holdfast.cli.main import wait_s

    graph = MemoryGraph(path_of(args["memory_file"], os.getcwd()), wait_s=wait_s())
    if not os.path.exists(graph.path) and not os.path.exists(graph.database):
        raise Refused(
            "no_memory",
            f"memory: there is neither {graph.path} nor a database beside it",
            "name the file: --file PATH, or MEMORY_FILE_PATH",
            path=graph.path,
        )
    return graph
