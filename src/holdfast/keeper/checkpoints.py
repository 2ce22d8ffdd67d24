"""The checkpoints of initiatives on a Memory server.

The embedded graph is computed from the ledger, so it never knows more than the ledger. A server of
the user's own may: it survives the workspace, and other programs write to it.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.initiative_sources import Source
from holdfast.core.initiatives import find_key
from holdfast.core.other_layers import observed_values
from holdfast.errors import HoldfastError
from holdfast.layers.graph import mcp_delivery
from holdfast.layers.graph.projection import CHECKPOINT
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, InitiativesState
    from holdfast.keeper.store import Store

GRAPH = "memory graph"
_SERVER = "mcp:"


def server_of(store: Store) -> str | None:
    """Return the name of the Memory server that keeps the graph; ``None`` if none does."""
    graph = settings.load(store.workspace.root).graph()
    return graph.removeprefix(_SERVER) if graph.startswith(_SERVER) else None


def read_checkpoints(store: Store) -> dict[str, Source]:
    """Return what a Memory server says of each initiative, by the initiative's name.

    Empty without a server. One that failed recently is not asked. An error becomes a note.
    """
    try:
        server = server_of(store)
        if server is None:
            return {}
        entities: list[Fields] = mcp_delivery.call(
            store, server, lambda graph: graph.search_nodes(CHECKPOINT)["entities"]
        )
    except HoldfastError as error:
        store.note(error.message)
        return {}
    checkpoints: dict[str, Source] = {}
    # The current initiative's entity comes first: there may be an old one for the same name.
    for entity in sorted(entities, key=lambda entity: entity["name"] != CHECKPOINT):
        if entity["name"] == CHECKPOINT or entity["name"].startswith(f"{CHECKPOINT}:"):
            values = observed_values(entity["observations"])
            if values.get("initiative"):
                checkpoints.setdefault(values["initiative"], _source(values))
    return checkpoints


def unknown_checkpoints(store: Store, state: InitiativesState) -> list[str]:
    """Return the names of initiatives that only a Memory server knows."""
    return [name for name in read_checkpoints(store) if find_key(state, name) is None]


def _source(values: dict[str, str]) -> Source:
    try:
        progress = json_text.loads(values.get("progress", "{}"))
    except json_text.BadJson:
        progress = {}
    pairs = progress.items() if isinstance(progress, dict) else ()
    statuses = {key: status for key, status in pairs if isinstance(status, str)}
    at = values.get("updated") or values.get("lastUpdated")
    return Source(GRAPH, at, values.get("milestone"), values.get("status"), statuses)
