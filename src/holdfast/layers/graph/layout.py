"""A graph as the reference server lays it out: ``JSON.stringify(graph, null, 2)``, but fast. Pure.

The interpreter's encoder indents in Python, value by value; a graph has two shapes only.
"""

from __future__ import annotations

from _json import encode_basestring as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.layers.graph.shapes import Added, Entity, Graph, Relation


NEXT = ",\n        "


def graph(found: Graph) -> str:
    entities = [_entity(*_quoted(one), "    ") for one in found["entities"]]
    return _graph(entities, [_relation(*_ends(one), "    ") for one in found["relations"]])


def whole(entities: list[Any], observations: list[Any], relations: list[Any]) -> tuple[str, str]:
    """A graph of these rows, laid out and on one line; a large one, so each text is quoted once."""
    told: dict[int, list[str]] = {row[0]: [] for row in entities}
    for entity, text in observations:
        told[entity].append(quoted(text))
    laid, flat = [], []
    for row, of_name, of_kind in entities:
        name, kind, texts = quoted(of_name), quoted(of_kind), told[row]
        below = f"[\n        {NEXT.join(texts)}\n      ]" if texts else "[]"
        laid.append(
            f'{{\n      "name": {name},\n      "entityType": {kind},\n'
            f'      "observations": {below}\n    }}'
        )
        flat.append(f'{{"name":{name},"entityType":{kind},"observations":[{",".join(texts)}]}}')
    ends = [(quoted(one), quoted(other), quoted(of)) for _, one, other, of in relations]
    between = [f'{{"from":{one},"to":{other},"relationType":{of}}}' for one, other, of in ends]
    text = _graph(laid, [_relation(*row, "    ") for row in ends])
    return text, f'{{"entities":[{",".join(flat)}],"relations":[{",".join(between)}]}}'


def _graph(entities: list[str], relations: list[str]) -> str:
    laid = f'"entities": {_list(entities, "  ")},\n  "relations": {_list(relations, "  ")}'
    return f"{{\n  {laid}\n}}"


def entities(found: list[Entity]) -> str:
    return _list([_entity(*_quoted(one), "  ") for one in found], "")


def relations(found: list[Relation]) -> str:
    return _list([_relation(*_ends(one), "  ") for one in found], "")


def results(found: list[Added]) -> str:
    return _list([_added(one) for one in found], "")


def _quoted(one: Entity) -> tuple[str, str, list[str]]:
    return quoted(one["name"]), quoted(one["entityType"]), list(map(quoted, one["observations"]))


def _ends(one: Relation) -> tuple[str, str, str]:
    return quoted(one["from"]), quoted(one["to"]), quoted(one["relationType"])


def _entity(name: str, kind: str, texts: list[str], indent: str) -> str:
    told = _list(texts, f"{indent}  ")
    return (
        f'{{\n{indent}  "name": {name},\n{indent}  "entityType": {kind},\n'
        f'{indent}  "observations": {told}\n{indent}}}'
    )


def _relation(source: str, target: str, kind: str, indent: str) -> str:
    return (
        f'{{\n{indent}  "from": {source},\n{indent}  "to": {target},\n'
        f'{indent}  "relationType": {kind}\n{indent}}}'
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
