"""The memory graph (L3): entities with observations, and relations between them.

``projection`` reads from the ledger what the graph should contain. The embedded graph is that
answer and nothing more. ``mcp_delivery`` sends a Memory server of the user's own what changed.

``store`` is the graph of ``holdfast mcp memory``, in an SQLite file. ``memory_graph`` opens it and
exports it. ``jsonl_file`` keeps the file of the reference Memory server up to date and takes in
what others write there; ``jsonl`` is the format of that file, ``merge`` what both sides changed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    # The values that the tools of a Memory server take and return

    class Entity(TypedDict):
        """A node of the graph."""

        name: str
        entityType: str
        observations: list[str]

    Relation = TypedDict("Relation", {"from": str, "to": str, "relationType": str})

    class Graph(TypedDict):
        """The graph, or a part of it."""

        entities: list[Entity]
        relations: list[Relation]

    class Addition(TypedDict):
        """Observations to add to an entity."""

        entityName: str
        contents: list[str]

    class Added(TypedDict):
        """Observations that were added, because the entity did not have them."""

        entityName: str
        addedObservations: list[str]

    class Deletion(TypedDict):
        """Observations to delete from an entity."""

        entityName: str
        observations: list[str]

    Key = tuple[str, str, str, str]
    """What was added or deleted: its kind (``entity``, ``type``, ``observation``, ``relation``),
    and up to three texts that tell it from others of that kind.
    """
