"""``holdfast memory``: the graph of ``holdfast mcp memory``, for people and for other programs."""

from __future__ import annotations

import os

from holdfast.answers.text import clean
from holdfast.cli.answer import done_page, page
from holdfast.cli.grammar import GROUPS, MEMORY_FILE, argument, command, option
from holdfast.cli.main import wait_s
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.answer import Answer
    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields
    from holdfast.layers.graph.memory_graph import MemoryGraph

GROUPS["memory"] = "search the graph of `holdfast mcp memory`, or write it as JSONL"

_MAX_SHOWN = 10


@command(
    "memory search",
    "find entities of a memory graph by their words, the likeliest first",
    argument("QUERY", "words; all of them are in what is found"),
    MEMORY_FILE,
    option("--limit", "N", "only the first N", kind="count"),
    examples=("holdfast memory search 'login page' --limit 5",),
    workspace=False,
)
def search(args: Arguments) -> Answer:
    with _open_graph(args) as graph:
        nodes = graph.store().search_nodes(args["query"], ranked=True, limit=args["limit"])
        fields = {"path": graph.path, "query": args["query"], **nodes}
        return page(fields, lambda screen: _search_lines(screen, fields), graph.notes)


def _search_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    relations: dict[str, list[str]] = {}
    for relation in fields["relations"]:
        text = f"{relation['relationType']} {relation['to']}"
        relations.setdefault(relation["from"], []).append(text)
    for entity in fields["entities"]:
        kind = screen.paint(clean(entity["entityType"]), "dim")
        yield f"{screen.paint(clean(entity['name']), 'strong')}  {kind}"
        for text in entity["observations"][:_MAX_SHOWN]:
            yield f"  {clean(text)}"
        hidden = len(entity["observations"]) - _MAX_SHOWN
        if hidden > 0:
            yield screen.paint(f"  and {hidden} more: --json", "dim")
        arrow = "→" if screen.fancy else "->"
        for text in relations.get(entity["name"], [])[:_MAX_SHOWN]:
            yield screen.paint(f"  {arrow} {clean(text)}", "dim")
    if not fields["entities"]:
        yield f"Nothing in {clean(fields['path'])} has all of these words."


@command(
    "memory export",
    "write a memory graph as JSONL, as the reference Memory server reads it",
    argument("PATH", "where to (default: the file it came from)", count="maybe", values="file"),
    MEMORY_FILE,
    examples=("holdfast memory export", "holdfast memory export /tmp/memory.jsonl"),
    workspace=False,
)
def export(args: Arguments) -> Answer:
    with _open_graph(args) as graph:
        fields = graph.export(args["path"])
        notes = graph.notes
    counts = f"{fields['entities']} entities and {fields['relations']} relations"
    kept = f"; what stood there is {fields['kept']}" if fields["kept"] else ""
    return done_page(f"{counts} written to {fields['path']}{kept}", fields, notes)


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
