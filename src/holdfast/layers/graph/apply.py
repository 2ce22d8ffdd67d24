"""Operations carried out on a Memory server, with as few calls as possible.

``plan`` is pure: it compares what the server has with what it should have, so that repeating it
after a kill or a lost answer does nothing twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.graph.shapes import AnyGraph, Changes, Entity, Graph, Operation

AT_ONCE = 200


def apply(graph: AnyGraph, operations: list[Operation], gone: list[str]) -> int:
    """Carry out operations and remove entities; return the number of entities that changed."""
    there = graph.open_nodes(gone)["entities"] if gone else []
    if there:
        graph.delete_entities([one["name"] for one in there])
    changed = len(there)
    for start in range(0, len(operations), AT_ONCE):
        some = operations[start : start + AT_ONCE]
        changes = plan(some, graph.open_nodes([one["name"] for one in some]))
        if changes["create"]:
            graph.create_entities(changes["create"])
        if changes["delete"]:
            graph.delete_observations(changes["delete"])
        if changes["add"]:
            graph.add_observations(changes["add"])
        touched = [one["entityName"] for one in (*changes["delete"], *changes["add"])]
        changed += len({*touched, *(one["name"] for one in changes["create"])})
    return changed


def plan(operations: list[Operation], now: Graph) -> Changes:
    """Return the calls to make, given what the graph has now; an entity has one operation."""
    known: dict[str, Entity] = {}
    for entity in now["entities"]:
        known.setdefault(entity["name"], entity)
    changes: Changes = {"create": [], "delete": [], "add": []}
    for one in operations:
        entity = known.get(one["name"], {"name": "", "entityType": "", "observations": []})
        if not entity["name"]:
            fresh: Entity = {
                "name": one["name"],
                "entityType": one["entityType"],
                "observations": list(dict.fromkeys(one["observations"])),
            }
            changes["create"].append(fresh)
            continue
        stale, missing = _difference(one, entity["observations"])
        if stale:
            changes["delete"].append({"entityName": one["name"], "observations": stale})
        if missing:
            changes["add"].append({"entityName": one["name"], "contents": missing})
    return changes


def _difference(one: Operation, known: list[str]) -> tuple[list[str], list[str]]:
    """Return what to remove and what to add: from the first difference on, to keep the order."""
    wanted = list(dict.fromkeys(one["observations"]))
    if not one["replaces"]:
        return [], [text for text in wanted if text not in known]
    current = [text for text in known if text.startswith(one["replaces"])]
    same = 0
    while same < min(len(current), len(wanted)) and current[same] == wanted[same]:
        same += 1
    return current[same:], wanted[same:]
