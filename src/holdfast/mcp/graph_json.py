"""Render a graph as the reference server does: ``JSON.stringify(graph, null, 2)``, but fast. Pure.

Python's own encoder is slow when it indents, and a graph has only two kinds of objects.
"""

from __future__ import annotations

from _json import encode_basestring as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.layers.graph import Added, Entity, Graph, Relation

_TOP = ""
_IN_LIST = "  "
_IN_GRAPH = "    "
"""Indents of the objects in each."""


def render_rows(
    entities: list[Any], observations: list[Any], relations: list[Any]
) -> tuple[str, str]:
    """Return the graph of these rows, indented and on one line. Each text is quoted once."""
    texts: dict[int, list[str]] = {row[0]: [] for row in entities}
    for entity, text in observations:
        texts[entity].append(quote(text))
    nodes = [(quote(name), quote(kind), texts[row]) for row, name, kind in entities]
    edges = [(quote(source), quote(target), quote(kind)) for _, source, target, kind in relations]
    flat_nodes = ",".join(
        f'{{"name":{name},"entityType":{kind},"observations":[{",".join(lines)}]}}'
        for name, kind, lines in nodes
    )
    flat_edges = ",".join(
        f'{{"from":{source},"to":{target},"relationType":{kind}}}' for source, target, kind in edges
    )
    flat = f'{{"entities":[{flat_nodes}],"relations":[{flat_edges}]}}'
    return _graph([_node(*node, _IN_GRAPH) for node in nodes], edges), flat


def render_graph(graph: Graph) -> str:
    nodes = [_node(*_quote_entity(entity), _IN_GRAPH) for entity in graph["entities"]]
    return _graph(nodes, [_quote_relation(relation) for relation in graph["relations"]])


def render_entities(entities: list[Entity]) -> str:
    return _list([_node(*_quote_entity(entity), _IN_LIST) for entity in entities], _TOP)


def render_relations(relations: list[Relation]) -> str:
    return _list([_edge(*_quote_relation(relation), _IN_LIST) for relation in relations], _TOP)


def render_added(results: list[Added]) -> str:
    items = []
    for added in results:
        texts = _list([quote(text) for text in added["addedObservations"]], "    ")
        name = quote(added["entityName"])
        items.append(f'{{\n    "entityName": {name},\n    "addedObservations": {texts}\n  }}')
    return _list(items, _TOP)


def _graph(nodes: list[str], edges: list[tuple[str, str, str]]) -> str:
    relations = _list([_edge(*edge, _IN_GRAPH) for edge in edges], "  ")
    return f'{{\n  "entities": {_list(nodes, "  ")},\n  "relations": {relations}\n}}'


def _node(name: str, kind: str, texts: list[str], indent: str) -> str:
    return (
        f'{{\n{indent}  "name": {name},\n{indent}  "entityType": {kind},\n'
        f'{indent}  "observations": {_list(texts, f"{indent}  ")}\n{indent}}}'
    )


def _edge(source: str, target: str, kind: str, indent: str) -> str:
    return (
        f'{{\n{indent}  "from": {source},\n{indent}  "to": {target},\n'
        f'{indent}  "relationType": {kind}\n{indent}}}'
    )


def _list(items: list[str], indent: str) -> str:
    if not items:
        return "[]"
    newline = f"\n{indent}  "
    return f"[{newline}{f',{newline}'.join(items)}\n{indent}]"


def _quote_entity(entity: Entity) -> tuple[str, str, list[str]]:
    texts = [quote(text) for text in entity["observations"]]
    return quote(entity["name"]), quote(entity["entityType"]), texts


def _quote_relation(relation: Relation) -> tuple[str, str, str]:
    return quote(relation["from"]), quote(relation["to"]), quote(relation["relationType"])
