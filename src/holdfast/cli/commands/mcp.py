"""``holdfast mcp``, servers for agents, and ``holdfast memory``, the graph that one of them has."""

from __future__ import annotations

import os

from holdfast.answers.text import clean
from holdfast.cli.answer import Silence, make_done_page, make_page
from holdfast.cli.main import open_keeper, wait_s
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.answer import Answer
    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.layers.graph.memory_graph import MemoryGraph

GROUPS["memory"] = "search the graph of `holdfast mcp memory`, or write it as JSONL"

_MAX_ROWS = 10
_MEMORY_FILE = Parameter(
    "--file PATH",
    "the memory's JSONL file (default: MEMORY_FILE_PATH, else the person's own)",
    into="memory_file",
    names="file",
)


@command(
    "mcp: serve the workflows to an agent over MCP, on standard input and output",
    "holdfast mcp",
    workspace=False,
)
def workflows(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.server import project_folder, serve
    from holdfast.mcp.workflows import WorkflowApp

    def open_shared(share: Keeper | None) -> Keeper:
        return open_keeper(args, project_folder(), by="mcp", client=os.getppid(), share=share)

    serve(WorkflowApp(open_shared))
    return Silence()


@command(
    "mcp memory: serve a memory graph over MCP, in place of the reference Memory server",
    _MEMORY_FILE,
    "holdfast mcp memory",
    "holdfast mcp memory --file notes/memory.jsonl",
    workspace=False,
)
def memory(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.memory import MemoryApp
    from holdfast.mcp.server import project_folder, serve

    serve(MemoryApp(args["memory_file"], project_folder(), wait_s()))
    return Silence()


def _check_client(args: Arguments) -> None:
    """Raise ``Usage`` if a person started the server on a terminal."""
    if os.isatty(0):
        message = f"{args['command']}: a client speaks on standard input; this is a terminal"
        raise Usage(message, f"claude mcp add holdfast -- holdfast {args['command']}")


@command(
    "memory search: find entities of a memory graph by their words, the likeliest first",
    Parameter("QUERY", "words; all of them are in what is found"),
    _MEMORY_FILE,
    Parameter("--limit N", "only the first N", kind="count"),
    "holdfast memory search 'login page' --limit 5",
    workspace=False,
)
def search(args: Arguments) -> Answer:
    with _open_graph(args) as graph:
        nodes = graph.store().search_nodes(args["query"], ranked=True, limit=args["limit"])
        fields = {"path": graph.path, "query": args["query"], **nodes}
        return make_page(fields, lambda screen: _search_lines(screen, fields), graph.notes)


def _search_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    relations: dict[str, list[str]] = {}
    for relation in fields["relations"]:
        text = f"{relation['relationType']} {relation['to']}"
        relations.setdefault(relation["from"], []).append(text)
    for entity in fields["entities"]:
        kind = screen.paint(clean(entity["entityType"]), "dim")
        yield f"{screen.paint(clean(entity['name']), 'strong')}  {kind}"
        for text in entity["observations"][:_MAX_ROWS]:
            yield f"  {clean(text)}"
        hidden = len(entity["observations"]) - _MAX_ROWS
        if hidden > 0:
            yield screen.paint(f"  and {hidden} more: --json", "dim")
        for text in relations.get(entity["name"], [])[:_MAX_ROWS]:
            yield screen.paint(f"  {screen.arrow} {clean(text)}", "dim")
    if not fields["entities"]:
        yield f"Nothing in {clean(fields['path'])} has all of these words."


@command(
    "memory export: write a memory graph as JSONL, as the reference Memory server reads it",
    Parameter("[PATH]", "where to (default: the file it came from)", names="file"),
    _MEMORY_FILE,
    "holdfast memory export",
    "holdfast memory export /tmp/memory.jsonl",
    workspace=False,
)
def export(args: Arguments) -> Answer:
    with _open_graph(args) as graph:
        fields = graph.export(args["path"])
        notes = graph.notes
    counts = f"{fields['entities']} entities and {fields['relations']} relations"
    kept = f"; what stood there is {fields['kept']}" if fields["kept"] else ""
    return make_done_page(f"{counts} written to {fields['path']}{kept}", fields, notes)


def _open_graph(args: Arguments) -> MemoryGraph:
    """Open the graph that is meant; raise ``Refused`` rather than make one."""
    from holdfast.layers.graph.memory_graph import MemoryGraph, path_of

    graph = MemoryGraph(path_of(args["memory_file"], os.getcwd()), wait_s=wait_s())
    if not os.path.exists(graph.path) and not os.path.exists(graph.database):
        raise Refused(
            "no_memory",
            f"memory: there is neither {graph.path} nor a database beside it",
            "name the file: --file PATH, or MEMORY_FILE_PATH",
            path=graph.path,
        )
    return graph
