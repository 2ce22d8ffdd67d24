"""The embedded graph (L3): the ledger's tables, seen as entities and relations.

It is computed when somebody asks, so it is never behind, cannot be damaged by itself, and costs
nothing when something is recorded.
"""

from __future__ import annotations

from holdfast.layers.graph import pending_events, projection
from holdfast.layers.graph.search import folded
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.store import Store
    from holdfast.layers.graph.shapes import Entity, Graph, Operation


def graph(store: Store) -> Graph:
    """Return the whole graph as of the ledger's last event."""
    entities = [_entity(one) for one in pending_events.since(store, 0).operations]
    return {"entities": entities, "relations": []}


def search(store: Store, query: str) -> Graph:
    """Return the entities that have the query in their name, type or observations, in any case."""
    wanted = folded(query)
    entities = [one for one in graph(store)["entities"] if _has(one, wanted)]
    return {"entities": entities, "relations": []}


def newest(store: Store) -> Entity | None:
    """Return the entity of the active workflow that changed last, without making the others."""
    where = f"{ACTIVE} AND phase_total > 0 ORDER BY updated_at DESC, seq DESC LIMIT 1"
    for one in store.ledger.states(where):
        has_place = projection.Seen(one.state, one.row["seq"]).has_place
        return _entity(projection.of_workflow(one.state, is_holder=has_place))
    return None


def _entity(operation: Operation) -> Entity:
    return {
        "name": operation["name"],
        "entityType": operation["entityType"],
        "observations": list(dict.fromkeys(operation["observations"])),
    }


def _has(entity: Entity, wanted: str) -> bool:
    texts = (entity["name"], entity["entityType"], *entity["observations"])
    return any(wanted in folded(text) for text in texts)
