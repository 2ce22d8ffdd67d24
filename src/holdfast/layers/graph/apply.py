"""Apply entity updates to a Memory server with as few calls as possible.

The server's current content is compared first, so repeating an update after a kill or a lost
answer changes nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.graph.types import Entity, EntityUpdate, Graph, PlannedCalls, WritableGraph

_MAX_ENTITIES = 200
"""How many entities are read at once."""


def apply(graph: WritableGraph, updates: list[EntityUpdate], removed: list[str]) -> int:
    """Remove entities and apply updates; return the number of entities that changed."""
    obsolete = graph.open_nodes(removed)["entities"] if removed else []
    if obsolete:
        graph.delete_entities([entity["name"] for entity in obsolete])
    changed = len(obsolete)
    for start in range(0, len(updates), _MAX_ENTITIES):
        batch = updates[start : start + _MAX_ENTITIES]
        calls = _plan(batch, graph.open_nodes([update["name"] for update in batch]))
        if calls["create"]:
            graph.create_entities(calls["create"])
        if calls["delete"]:
            graph.delete_observations(calls["delete"])
        if calls["add"]:
            graph.add_observations(calls["add"])
        touched = {item["entityName"] for item in (*calls["delete"], *calls["add"])}
        changed += len(touched) + len(calls["create"])
    return changed


def _plan(updates: list[EntityUpdate], current: Graph) -> PlannedCalls:
    """Return the calls to make; each entity has one update."""
    known: dict[str, Entity] = {}
    for entity in current["entities"]:
        known.setdefault(entity["name"], entity)
    calls: PlannedCalls = {"create": [], "delete": [], "add": []}
    for update in updates:
        name = update["name"]
        target = list(dict.fromkeys(update["observations"]))
        if name not in known:
            kind = update["entityType"]
            calls["create"].append({"name": name, "entityType": kind, "observations": target})
            continue
        stale, missing = _difference(target, update["replaces"], known[name]["observations"])
        if stale:
            calls["delete"].append({"entityName": name, "observations": stale})
        if missing:
            calls["add"].append({"entityName": name, "contents": missing})
    return calls


def _difference(
    target: list[str], replaces: tuple[str, ...], known: list[str]
) -> tuple[list[str], list[str]]:
    """Return what to delete and what to add: all after the first difference, to keep the order."""
    if not replaces:
        return [], [text for text in target if text not in known]
    current = [text for text in known if text.startswith(replaces)]
    equal = 0
    while equal < min(len(current), len(target)) and current[equal] == target[equal]:
        equal += 1
    return current[equal:], target[equal:]
