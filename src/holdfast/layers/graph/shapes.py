"""The shapes of a graph, for the type checker alone: as the Memory MCP server's tools have them."""

from __future__ import annotations

from typing import Protocol, TypedDict


class Entity(TypedDict):
    """A node of the graph."""

    name: str
    entityType: str
    observations: list[str]


Relation = TypedDict("Relation", {"from": str, "to": str, "relationType": str})


class Graph(TypedDict):
    """A part of the graph, or all of it."""

    entities: list[Entity]
    relations: list[Relation]


class Addition(TypedDict):
    """What an entity should say as well."""

    entityName: str
    contents: list[str]


class Added(TypedDict):
    """What it did not say before."""

    entityName: str
    addedObservations: list[str]


class Deletion(TypedDict):
    """What an entity should no longer say."""

    entityName: str
    observations: list[str]


class Operation(TypedDict):
    """What a graph should say of one entity after some events.

    Observations that begin with one of ``replaces`` are those of ``observations`` and no others;
    with nothing to replace, ``observations`` are added to what is there.
    """

    name: str
    entityType: str
    replaces: tuple[str, ...]
    observations: list[str]


class Changes(TypedDict):
    """The calls that bring a graph there, in this order."""

    create: list[Entity]
    delete: list[Deletion]
    add: list[Addition]


class AnyGraph(Protocol):
    """The few calls that a view is kept with: of the store, and of a server that speaks MCP."""

    def open_nodes(self, names: list[str]) -> Graph: ...
    def create_entities(self, entities: list[Entity]) -> object: ...
    def add_observations(self, observations: list[Addition]) -> object: ...
    def delete_observations(self, deletions: list[Deletion]) -> object: ...
    def delete_entities(self, names: list[str]) -> object: ...
