"""A graph as the reference server lays it out: ``JSON.stringify(graph, null, 2)``, but fast. Pure.

The interpreter's encoder indents in Python, value by value; a graph has two shapes only.
"""

from __future__ import annotations

from _json import encode_basestring as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.graph.shapes import Added, Entity, Graph, Relation


def graph(found: Graph) -> str:
    entities = _list([_entity(one, "    ") for one in found["entities"]], "  ")
    relations = _list([_relation(one, "    ") for one in found["relations"]], "  ")
    return f'{{\n  "entities": {entities},\n  "relations": {relations}\n}}'


def entities(found: list[Entity]) -> str:
    return _list([_entity(one, "  ") for one in found], "")


def relations(found: list[Relation]) -> str:
    return _list([_relation(one, "  ") for one in found], "")


def results(found: list[Added]) -> str:
    return _list([_added(one) for one in found], "")


def _entity(one: Entity, indent: str) -> str:
    told = _list([quoted(text) for text in one["observations"]], f"{indent}  ")
    return (
        f'{{\n{indent}  "name": {quoted(one["name"])},\n{indent}  "entityType": '
        f'{quoted(one["entityType"])},\n{indent}  "observations": {told}\n{indent}}}'
    )


def _relation(one: Relation, indent: str) -> str:
    return (
        f'{{\n{indent}  "from": {quoted(one["from"])},\n{indent}  "to": {quoted(one["to"])},\n'
        f'{indent}  "relationType": {quoted(one["relationType"])}\n{indent}}}'
    )


def _added(one: Added) -> str:
    told = _list([quoted(text) for text in one["addedObservations"]], "    ")
    return (
        f'{{\n    "entityName": {quoted(one["entityName"])},\n    "addedObservations": {told}\n  }}'
    )


def _list(items: list[str], indent: str) -> str:
    if not items:
        return "[]"
    space = f"\n{indent}  "
    return f"[{space}{f',{space}'.join(items)}\n{indent}]"
