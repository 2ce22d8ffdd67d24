"""A graph store that behaves like the reference Memory MCP server, call by call.

Values, order and the treatment of duplicates are the same, also where they are odd: a name that
occurs twice in one ``create_entities`` becomes two entities, and ``add_observations`` changes the
first. Where the reference answers with an error, the store raises ``Refused`` with that message.
"""

from __future__ import annotations

from holdfast.errors import Refused
from holdfast.layers.graph import search, sql
from holdfast.layers.graph.database import LOCK_WAIT_S, Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

    from holdfast.layers.graph.types import Added, Addition, Deletion, Entity, Graph, Relation
    from holdfast.system.disk import Disk


class GraphStore:
    """The graph in one file. Any number of processes may have it open."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk | None = None,
        wait_s: float = LOCK_WAIT_S,
        database: Database | None = None,
    ) -> None:
        self.database = database or Database(path, disk=disk, wait_s=wait_s)
        self.path = path

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # Writing

    def create_entities(self, entities: list[Entity]) -> list[Entity]:
        """Add the entities whose names are new to the graph; return them."""
        with self.database.writing() as database:
            names: list[Any] = list(dict.fromkeys(entity["name"] for entity in entities))
            known = {row[1] for row in database.rows_in(sql.ENTITIES_NAMED, names)}
            created: list[Entity] = [
                {
                    "name": entity["name"],
                    "entityType": entity["entityType"],
                    "observations": list(entity["observations"]),
                }
                for entity in entities
                if entity["name"] not in known
            ]
            for entity in created:
                name, kind = entity["name"], entity["entityType"]
                lowers = search.folded_if_other(name), search.folded_if_other(kind)
                row = database.run(sql.ADD_ENTITY, (name, kind, *lowers))
                words = _entity_words(row, lowers[0] or name, lowers[1] or kind)
                database.run(sql.ADD_WORDS, words)
                self._insert_observations(row, entity["observations"])
        return created

    def create_relations(self, relations: list[Relation]) -> list[Relation]:
        """Add the relations that are new to the graph; return them."""
        with self.database.writing() as database:
            created = [
                relation
                for relation in map(_copy_relation, relations)
                if not database.rows(sql.HAS_RELATION, relation.values())
            ]
            database.run_each(sql.ADD_RELATION, (relation.values() for relation in created))
        return created

    def add_observations(self, observations: list[Addition]) -> list[Added]:
        """Add observations that the entities do not have; return them.

        Raise ``Refused`` if an entity is unknown; then nothing is added.
        """
        results: list[Added] = []
        with self.database.writing() as database:
            for item in observations:
                entity = self._first_entity(item["entityName"])
                if entity is None:
                    raise Refused(
                        "not_found",
                        f"Entity with name {item['entityName']} not found",
                        "create it first: create_entities",
                    )
                contents: list[Any] = list(item["contents"])
                known = {row[0] for row in database.rows_in(sql.HAS_OBSERVATION, contents, entity)}
                fresh = [text for text in contents if text not in known]
                self._insert_observations(entity, fresh)
                results.append({"entityName": item["entityName"], "addedObservations": fresh})
        return results

    def delete_entities(self, names: list[str]) -> None:
        """Delete entities, and every relation from or to these names."""
        unique: list[Any] = list(dict.fromkeys(names))
        with self.database.writing() as database:
            ids: list[Any] = [row[0] for row in database.rows_in(sql.ENTITIES_NAMED, unique)]
            self._drop_observations(database.rows_in(sql.OBSERVATION_IDS_OF, ids))
            folded = list(database.rows_in(sql.FOLDED_ENTITIES, ids))
            database.run_each(sql.DROP_WORDS, (_entity_words(*row) for row in folded))
            database.run_in(sql.DROP_ENTITIES, ids)
            database.run_in(sql.DROP_RELATIONS_FROM, unique)
            database.run_in(sql.DROP_RELATIONS_TO, unique)

    def delete_observations(self, deletions: list[Deletion]) -> None:
        """Delete observations; ignore unknown entities and observations."""
        with self.database.writing() as database:
            for item in deletions:
                entity = self._first_entity(item["entityName"])
                if entity is not None:
                    texts: list[Any] = list(dict.fromkeys(item["observations"]))
                    self._drop_observations(database.rows_in(sql.OBSERVATION_IDS, texts, entity))

    def delete_relations(self, relations: list[Relation]) -> None:
        """Delete relations; ignore unknown ones."""
        with self.database.writing() as database:
            rows = [_copy_relation(relation).values() for relation in relations]
            database.run_each(sql.DROP_RELATION, rows)

    # Reading

    def read_graph(self) -> Graph:
        """Return everything, in the order of insertion."""
        entities, observations, relations = self.read_rows()
        return {
            "entities": _join(entities, observations),
            "relations": [_relation_of(row) for row in relations],
        }

    def read_rows(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the rows of all entities, observations and relations."""
        with self.database.reading() as database:
            return (
                database.rows(sql.ALL_ENTITIES),
                database.rows(sql.ALL_OBSERVATIONS),
                database.rows(sql.ALL_RELATIONS),
            )

    def search_nodes(self, query: str, *, ranked: bool = False, limit: int | None = None) -> Graph:
        """Return the entities with the query in their name, type or observations, in any case.

        ``ranked``: return those with all words of the query, the best match first.
        """
        with self.database.reading():
            if ranked:
                sets = [self._containing(word) for word in search.words(query)]
                entities = search.ranked(self._entities(set.intersection(*sets)), query)
            else:
                entities = self._entities(self._containing(search.folded(query)))
            return self._with_relations(entities[:limit])

    def open_nodes(self, names: list[str]) -> Graph:
        """Return the entities of these names, and the relations from or to them."""
        with self.database.reading() as database:
            unique: list[Any] = list(dict.fromkeys(names))
            rows = sorted(database.rows_in(sql.ENTITIES_NAMED, unique))
            ids: list[Any] = [row[0] for row in rows]
            return self._with_relations(_join(rows, database.rows_in(sql.OBSERVATIONS, ids)))

    # Marks: what the owner of the graph remembers, in the same transaction

    def marks(self) -> dict[str, str]:
        with self.database.reading() as database:
            return {str(key): str(value) for key, value in database.rows(sql.MARKS)}

    def set_marks(self, **marks: str) -> None:
        with self.database.writing() as database:
            database.run_each(sql.SET_MARK, marks.items())

    # Rows

    def _first_entity(self, name: str) -> int | None:
        rows: list[Any] = self.database.rows(sql.FIRST_ENTITY, (name,))
        return rows[0][0] if rows else None

    def _insert_observations(self, entity: int, texts: list[str]) -> None:
        for text in texts:
            lower = search.folded_if_other(text)
            row = self.database.run(sql.ADD_OBSERVATION, (entity, text, lower))
            self.database.run(sql.ADD_WORDS, _observation_words(row, lower or text))

    def _drop_observations(self, rows: Iterable[Any]) -> None:
        ids = [row[0] for row in rows]
        folded: list[Any] = list(self.database.rows_in(sql.FOLDED_OBSERVATIONS, ids))
        self.database.run_each(sql.DROP_WORDS, (_observation_words(*row) for row in folded))
        self.database.run_in(sql.DROP_OBSERVATIONS, ids)

    def _containing(self, lower: str) -> set[Any]:
        """Return the ids of the entities with this folded text in one of their texts."""
        if not lower:
            return {row[0] for row in self.database.rows(sql.ALL_ENTITIES)}
        trigrams = search.trigrams(lower)
        if trigrams is None:
            rows = self.database.rows(sql.SCAN, (lower,))
        else:
            rows = self.database.rows(sql.FIND, (trigrams, lower))
        return {row[0] for row in rows}

    def _entities(self, ids: set[Any]) -> list[Entity]:
        ordered = sorted(ids)
        rows = self.database.rows_in(sql.ENTITIES, ordered)
        return _join(rows, self.database.rows_in(sql.OBSERVATIONS, ordered))

    def _with_relations(self, entities: list[Entity]) -> Graph:
        names: list[Any] = list(dict.fromkeys(entity["name"] for entity in entities))
        rows: dict[Any, Any] = {}
        for statement in (sql.RELATIONS_FROM, sql.RELATIONS_TO):
            rows.update((row[0], row) for row in self.database.rows_in(statement, names))
        relations = [_relation_of(rows[key]) for key in sorted(rows)]
        return {"entities": entities, "relations": relations}


def _copy_relation(relation: Relation) -> Relation:
    """Return the relation without other keys, in the order of the columns."""
    return {
        "from": relation["from"],
        "to": relation["to"],
        "relationType": relation["relationType"],
    }


def _relation_of(row: Any) -> Relation:
    return {"from": row[1], "to": row[2], "relationType": row[3]}


def _join(entities: Iterable[Any], observations: Iterable[Any]) -> list[Entity]:
    by_id: dict[int, Entity] = {
        row: {"name": name, "entityType": kind, "observations": []} for row, name, kind in entities
    }
    for entity, text in observations:
        by_id[entity]["observations"].append(text)
    return list(by_id.values())


def _entity_words(entity: Any, name: Any, kind: Any) -> tuple[int, str]:
    return 2 * entity, search.indexed(f"{name}\n{kind}")


def _observation_words(observation: int, lower: str) -> tuple[int, str]:
    return 2 * observation + 1, search.indexed(lower)
