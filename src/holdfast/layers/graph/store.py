"""A graph store with the semantics of the reference Memory MCP server, call by call.

The same values, the same order, the same treatment of what is there already; also where that is
odd: a name that stands twice in one ``create_entities`` becomes two entities, of which
``add_observations`` means the first. What the reference answers with an error is ``Refused``, with
its sentence as the message.
"""

from __future__ import annotations

from holdfast.errors import Refused
from holdfast.layers.graph import search, sql
from holdfast.layers.graph.database import Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Self

    from holdfast.layers.graph.shapes import Added, Addition, Deletion, Entity, Graph, Relation
    from holdfast.system.disk import Disk


class GraphStore:
    """The graph in one file. Any number of processes may have it open."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk | None = None,
        durable: bool = True,
        wait_s: float = 10.0,
        database: Database | None = None,
    ) -> None:
        self.database = database or Database(path, disk=disk, durable=durable, wait_s=wait_s)
        self.path = path

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # Writing

    def create_entities(self, entities: list[Entity]) -> list[Entity]:
        """Adds the entities whose names were not there before the call; gives those."""
        with self.database.writing() as database:
            known = self._known(entity["name"] for entity in entities)
            fresh = [_entity(one) for one in entities if one["name"] not in known]
            for entity in fresh:
                name, kind = entity["name"], entity["entityType"]
                lowers = search.folded_if_other(name), search.folded_if_other(kind)
                row = database.run(sql.ADD_ENTITY, (name, kind, *lowers))
                database.run(sql.ADD_WORDS, _words(row, lowers[0] or name, lowers[1] or kind))
                self._observe(row, entity["observations"])
        return fresh

    def create_relations(self, relations: list[Relation]) -> list[Relation]:
        """Adds the relations that were not there before the call; gives those."""
        with self.database.writing() as database:
            wanted = [_relation(relation) for relation in relations]
            fresh = [one for one in wanted if not database.rows(sql.HAS_RELATION, one.values())]
            database.run_each(sql.ADD_RELATION, (one.values() for one in fresh))
        return fresh

    def add_observations(self, observations: list[Addition]) -> list[Added]:
        """Adds what the entities do not say yet; an unknown entity refuses the whole call."""
        results: list[Added] = []
        with self.database.writing() as database:
            for item in observations:
                entity = self._first(item["entityName"])
                if entity is None:
                    raise Refused(
                        "not_found",
                        f"Entity with name {item['entityName']} not found",
                        "create it first: create_entities",
                    )
                contents: list[Any] = list(item["contents"])
                known = {row[0] for row in database.rows_in(sql.HAS_OBSERVATION, contents, entity)}
                fresh = [text for text in contents if text not in known]
                self._observe(entity, fresh)
                results.append({"entityName": item["entityName"], "addedObservations": fresh})
        return results

    def delete_entities(self, names: list[str]) -> None:
        """Removes entities, and every relation that names them, known or not."""
        given: list[Any] = list(dict.fromkeys(names))
        with self.database.writing() as database:
            ids: list[Any] = [row[0] for row in database.rows_in(sql.ENTITIES_NAMED, given)]
            self._forget([row[0] for row in database.rows_in(sql.OBSERVATION_IDS_OF, ids)])
            folded = list(database.rows_in(sql.FOLDED_ENTITIES, ids))
            database.run_each(sql.DROP_WORDS, (_words(*row) for row in folded))
            database.run_in(sql.DROP_ENTITIES, ids)
            database.run_in(sql.DROP_RELATIONS_FROM, given)
            database.run_in(sql.DROP_RELATIONS_TO, given)

    def delete_observations(self, deletions: list[Deletion]) -> None:
        """Removes observations; an unknown entity or observation is passed over."""
        with self.database.writing() as database:
            for item in deletions:
                entity = self._first(item["entityName"])
                if entity is not None:
                    texts: list[Any] = list(dict.fromkeys(item["observations"]))
                    found = database.rows_in(sql.OBSERVATION_IDS, texts, entity)
                    self._forget([row[0] for row in found])

    def delete_relations(self, relations: list[Relation]) -> None:
        """Removes relations; an unknown one is passed over."""
        with self.database.writing() as database:
            rows = [_relation(relation).values() for relation in relations]
            database.run_each(sql.DROP_RELATION, rows)

    # Reading

    def read_graph(self) -> Graph:
        """Everything, in the order in which it came."""
        entities, observations, relations = self.read_rows()
        return {
            "entities": _joined(entities, observations),
            "relations": [_told(row) for row in relations],
        }

    def read_rows(self) -> tuple[list[Any], list[Any], list[Any]]:
        """The same as rows: entities, observations, relations."""
        with self.database.reading() as database:
            return (
                database.rows(sql.ALL_ENTITIES),
                database.rows(sql.ALL_OBSERVATIONS),
                database.rows(sql.ALL_RELATIONS),
            )

    def search_nodes(self, query: str, *, ranked: bool = False, limit: int | None = None) -> Graph:
        """The entities that have the query in their name, type or observations, in any case.

        ``ranked``: those that have all of its words, wherever each may be; the likeliest first.
        """
        with self.database.reading():
            if ranked:
                sets = [self._having(word) for word in search.words(query)]
                entities = search.ranked(self._entities(set.intersection(*sets)), query)
            else:
                entities = self._entities(self._having(search.folded(query)))
            return self._around(entities[:limit])

    def open_nodes(self, names: list[str]) -> Graph:
        """The entities of these names, and the relations at either end of them."""
        with self.database.reading() as database:
            given: list[Any] = list(dict.fromkeys(names))
            rows = sorted(database.rows_in(sql.ENTITIES_NAMED, given))
            ids: list[Any] = [row[0] for row in rows]
            return self._around(_joined(rows, database.rows_in(sql.OBSERVATIONS, ids)))

    # Marks: what a view remembers of where it comes from, in the same transaction

    def marks(self) -> dict[str, str]:
        with self.database.reading() as database:
            return {str(key): str(value) for key, value in database.rows(sql.MARKS)}

    def set_marks(self, **marks: str) -> None:
        with self.database.writing() as database:
            database.run_each(sql.SET_MARK, marks.items())

    def clear(self) -> None:
        """Takes everything out, marks too."""
        with self.database.writing() as database:
            for statement in sql.EMPTY.split(";\n")[:-1]:
                database.run(statement)

    # Below

    def _known(self, names: Iterable[str]) -> set[object]:
        given: list[Any] = list(dict.fromkeys(names))
        return {row[1] for row in self.database.rows_in(sql.ENTITIES_NAMED, given)}

    def _first(self, name: str) -> int | None:
        rows: list[Any] = self.database.rows(sql.FIRST_ENTITY, (name,))
        return rows[0][0] if rows else None

    def _observe(self, entity: int, texts: list[str]) -> None:
        for text in texts:
            lower = search.folded_if_other(text)
            row = self.database.run(sql.ADD_OBSERVATION, (entity, text, lower))
            self.database.run(sql.ADD_WORDS, _observation_words(row, lower or text))

    def _forget(self, observations: list[Any]) -> None:
        folded = list(self.database.rows_in(sql.FOLDED_OBSERVATIONS, observations))
        words: Iterator[Any] = (_observation_words(*row) for row in folded)  # type: ignore[arg-type]
        self.database.run_each(sql.DROP_WORDS, words)
        self.database.run_in(sql.DROP_OBSERVATIONS, observations)

    def _having(self, lower: str) -> set[Any]:
        """The entities with this in one of their texts."""
        if not lower:
            return {row[0] for row in self.database.rows(sql.ALL_ENTITIES)}
        asked = search.trigrams(lower)
        if asked is None:
            found = self.database.rows(sql.SCAN, (lower,))
        else:
            found = self.database.rows(sql.FIND, (asked, lower))
        return {row[0] for row in found}

    def _entities(self, ids: set[Any]) -> list[Entity]:
        given = sorted(ids)
        rows = self.database.rows_in(sql.ENTITIES, given)
        return _joined(rows, self.database.rows_in(sql.OBSERVATIONS, given))

    def _around(self, entities: list[Entity]) -> Graph:
        names: list[Any] = list(dict.fromkeys(entity["name"] for entity in entities))
        found: dict[Any, Any] = {}
        for statement in (sql.RELATIONS_FROM, sql.RELATIONS_TO):
            found.update((row[0], row) for row in self.database.rows_in(statement, names))
        return {"entities": entities, "relations": [_told(found[key]) for key in sorted(found)]}


def _entity(given: Entity) -> Entity:
    return {
        "name": given["name"],
        "entityType": given["entityType"],
        "observations": list(given["observations"]),
    }


def _relation(given: Relation) -> Relation:
    return {"from": given["from"], "to": given["to"], "relationType": given["relationType"]}


def _joined(entities: Iterable[Any], observations: Iterable[Any]) -> list[Entity]:
    found: dict[int, Entity] = {
        row: {"name": name, "entityType": kind, "observations": []} for row, name, kind in entities
    }
    for entity, text in observations:
        found[entity]["observations"].append(text)
    return list(found.values())


def _told(row: Any) -> Relation:
    return {"from": row[1], "to": row[2], "relationType": row[3]}


def _words(entity: Any, name: Any, kind: Any) -> tuple[int, str]:
    return 2 * entity, search.indexed(f"{name}\n{kind}")


def _observation_words(observation: int, lower: str) -> tuple[int, str]:
    return 2 * observation + 1, search.indexed(lower)
