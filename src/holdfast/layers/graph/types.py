"""Types of the memory graph as the Memory MCP server's tools use them, for typing alone."""

from __future__ import annotations

from typing import Protocol, TypedDict


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


class EntityUpdate(TypedDict):
    """What the graph should hold about one entity after some events.

    Observations that begin with one of ``replaces`` are replaced by ``observations``. If
    ``replaces`` is empty, ``observations`` are added.
    """

    name: str
    entityType: str
    replaces: tuple[str, ...]
    observations: list[str]


class PlannedCalls(TypedDict):
    """The arguments of the calls that apply updates, in the order of the calls."""

    create: list[Entity]
    delete: list[Deletion]
    add: list[Addition]


class WritableGraph(Protocol):
    """The calls that updates are applied with: of ``GraphStore`` and of ``RemoteGraph``."""

    def open_nodes(self, names: list[str]) -> Graph: ...
    def create_entities(self, entities: list[Entity]) -> object: ...
    def add_observations(self, observations: list[Addition]) -> object: ...
    def delete_observations(self, deletions: list[Deletion]) -> object: ...
    def delete_entities(self, names: list[str]) -> object: ...
