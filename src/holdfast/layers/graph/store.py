"""A graph store that behaves like the reference Memory MCP server, call by call.

Values, order and the treatment of duplicates are the same, also where they are odd: a name that
occurs twice in one ``create_entities`` becomes two entities, and ``add_observations`` changes the
first. Where the reference answers with an error, the store raises ``Refused`` with that message.

A search finds what the reference's ``toLowerCase().includes()`` finds. The index returns all texts
with the rarest trigrams of the query, and the texts themselves are then compared with the query. So
the index may return too much, but never too little.
"""

from __future__ import annotations

from holdfast.errors import Refused
from holdfast.layers.graph.database import LOCK_WAIT_S, GraphDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

    from holdfast.layers.graph import Added, Addition, Deletion, Entity, Graph, Relation
    from holdfast.system.disk import Disk

_TRIGRAM = 3
"""Letters that the index has together; a shorter query is compared with every text."""
_MAX_TRIGRAMS = 3
_RARE_FIRST = "zqxjkvbywgfpmucldhrsnioate "
"""Letters from rare to common; digits, marks and other scripts count as rare."""
_REPLACES_NUL = "\ufffd"
"""The index would stop reading at NUL."""
_NEW_LETTERS = {
    **{code: code + 1 for code in (0x1C89, 0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)},
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
    0xA7CB: 0x264,
    0xA7DC: 0x19B,
}
"""Letters with a lower case since Unicode 16 and 17, which Node knows and older Pythons do not."""
_ENTITIES = "SELECT id, name, type FROM entities"
_ENTITIES_NAMED = f"{_ENTITIES} WHERE name IN ({{}}) ORDER BY id"
_OBSERVATIONS = "SELECT entity, text FROM observations"
_OBSERVATIONS_OF = f"{_OBSERVATIONS} WHERE entity IN ({{}}) ORDER BY id"
_RELATIONS = "SELECT id, source, target, type FROM relations"
_ADD_ENTITY = "INSERT INTO entities (name, type, name_folded, type_folded) VALUES (?, ?, ?, ?)"
_ADD_OBSERVATION = "INSERT INTO observations (entity, text, folded) VALUES (?, ?, ?)"
_ADD_RELATION = "INSERT INTO relations (source, target, type) VALUES (?, ?, ?)"
_ADD_WORDS = "INSERT INTO words (rowid, folded) VALUES (?, ?)"
_DROP_WORDS = "INSERT INTO words (words, rowid, folded) VALUES ('delete', ?, ?)"
_FIND = """
WITH hits (id) AS (SELECT rowid FROM words WHERE words MATCH ?1)
SELECT e.id FROM hits JOIN entities AS e ON e.id = hits.id / 2
WHERE hits.id % 2 = 0
AND (instr(coalesce(e.name_folded, e.name), ?2) OR instr(coalesce(e.type_folded, e.type), ?2))
UNION
SELECT o.entity FROM hits JOIN observations AS o ON o.id = hits.id / 2
WHERE hits.id % 2 = 1 AND instr(coalesce(o.folded, o.text), ?2)
"""
_SCAN = """
SELECT id FROM entities
WHERE instr(coalesce(name_folded, name), ?1) OR instr(coalesce(type_folded, type), ?1)
UNION
SELECT entity FROM observations WHERE instr(coalesce(folded, text), ?1)
"""


class GraphStore:
    """The graph in one file. Any number of processes may have it open."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk | None = None,
        wait_s: float = LOCK_WAIT_S,
        database: GraphDatabase | None = None,
    ) -> None:
        self.database = database or GraphDatabase(path, disk=disk, wait_s=wait_s)
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
            names = [entity["name"] for entity in entities]
            known = {row[1] for row in database.run_in(_ENTITIES_NAMED, names)}
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
                lowers = _folded_if_other(name), _folded_if_other(kind)
                row = database.insert(_ADD_ENTITY, (name, kind, *lowers))
                words = _entity_words(row, lowers[0] or name, lowers[1] or kind)
                database.insert(_ADD_WORDS, words)
                self._insert_observations(row, entity["observations"])
        return created

    def create_relations(self, relations: list[Relation]) -> list[Relation]:
        """Add the relations that are new to the graph; return them."""
        query = f"{_RELATIONS} WHERE source = ? AND target = ? AND type = ? LIMIT 1"
        with self.database.writing() as database:
            rows = [_row_of(relation) for relation in relations]
            fresh = [row for row in rows if not database.rows(query, row)]
            database.run_each(_ADD_RELATION, fresh)
        return [_relation(*row) for row in fresh]

    def add_observations(self, observations: list[Addition]) -> list[Added]:
        """Add observations that the entities do not have; return them.

        Raise ``Refused`` if an entity is unknown; then nothing is added.
        """
        query = "SELECT text FROM observations WHERE entity = ? AND text IN ({})"
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
                known = {row[0] for row in database.run_in(query, item["contents"], entity)}
                fresh = [text for text in item["contents"] if text not in known]
                self._insert_observations(entity, fresh)
                results.append({"entityName": item["entityName"], "addedObservations": fresh})
        return results

    def delete_entities(self, names: list[str]) -> None:
        """Delete entities, and every relation from or to these names."""
        with self.database.writing() as database:
            ids = [row[0] for row in database.run_in(_ENTITIES_NAMED, names)]
            self._drop_observations("SELECT id FROM observations WHERE entity IN ({})", ids)
            rows = database.run_in(
                "SELECT id, coalesce(name_folded, name), coalesce(type_folded, type)"
                " FROM entities WHERE id IN ({})",
                ids,
            )
            database.run_each(_DROP_WORDS, (_entity_words(*row) for row in rows))
            database.run_in("DELETE FROM entities WHERE id IN ({})", ids)
            database.run_in("DELETE FROM relations WHERE source IN ({})", names)
            database.run_in("DELETE FROM relations WHERE target IN ({})", names)

    def delete_observations(self, deletions: list[Deletion]) -> None:
        """Delete observations; ignore unknown entities and observations."""
        query = "SELECT id FROM observations WHERE entity = ? AND text IN ({})"
        with self.database.writing():
            for item in deletions:
                entity = self._first_entity(item["entityName"])
                if entity is not None:
                    self._drop_observations(query, item["observations"], entity)

    def delete_relations(self, relations: list[Relation]) -> None:
        """Delete relations; ignore unknown ones."""
        statement = "DELETE FROM relations WHERE source = ? AND target = ? AND type = ?"
        with self.database.writing() as database:
            database.run_each(statement, map(_row_of, relations))

    # Reading

    def read_graph(self) -> Graph:
        """Return everything, in the order of insertion."""
        entities, observations, relations = self.read_rows()
        return {
            "entities": _join(entities, observations),
            "relations": [_relation(*row[1:]) for row in relations],
        }

    def read_rows(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the rows of all entities, observations and relations."""
        with self.database.reading() as database:
            return (
                database.rows(f"{_ENTITIES} ORDER BY id"),
                database.rows(f"{_OBSERVATIONS} ORDER BY id"),
                database.rows(f"{_RELATIONS} ORDER BY id"),
            )

    def search_nodes(self, query: str, *, ranked: bool = False, limit: int | None = None) -> Graph:
        """Return the entities with the query in their name, type or observations, in any case.

        ``ranked``: return those with all words of the query, the best match first.
        """
        lower = folded(query)
        words = (list(dict.fromkeys(lower.split())) if ranked else []) or [lower]
        with self.database.reading():
            entities = self._entities(set.intersection(*map(self._containing, words)))
            if ranked:
                whole = " ".join(lower.split())
                entities.sort(key=lambda entity: -_score(entity, whole, words))
            return self._with_relations(entities[:limit])

    def open_nodes(self, names: list[str]) -> Graph:
        """Return the entities of these names, and the relations from or to them."""
        with self.database.reading() as database:
            rows = sorted(database.run_in(_ENTITIES_NAMED, names))
            ids = [row[0] for row in rows]
            return self._with_relations(_join(rows, database.run_in(_OBSERVATIONS_OF, ids)))

    # Marks: what the owner of the graph remembers, in the same transaction

    def marks(self) -> dict[str, str]:
        with self.database.reading() as database:
            return dict(database.rows("SELECT key, value FROM marks"))

    def set_marks(self, **marks: str) -> None:
        statement = "INSERT OR REPLACE INTO marks (key, value) VALUES (?, ?)"
        with self.database.writing() as database:
            database.run_each(statement, marks.items())

    # Rows

    def _first_entity(self, name: str) -> int | None:
        query = "SELECT id FROM entities WHERE name = ? ORDER BY id LIMIT 1"
        rows = self.database.rows(query, (name,))
        return rows[0][0] if rows else None

    def _insert_observations(self, entity: int, texts: list[str]) -> None:
        for text in texts:
            lower = _folded_if_other(text)
            row = self.database.insert(_ADD_OBSERVATION, (entity, text, lower))
            self.database.insert(_ADD_WORDS, _observation_words(row, lower or text))

    def _drop_observations(self, query: str, values: Iterable[Any], *first: Any) -> None:
        """Delete the observations whose ids a query returns, and their words in the index."""
        database = self.database
        ids = [row[0] for row in database.run_in(query, values, *first)]
        folded = "SELECT id, coalesce(folded, text) FROM observations WHERE id IN ({})"
        rows = database.run_in(folded, ids)
        database.run_each(_DROP_WORDS, (_observation_words(*row) for row in rows))
        database.run_in("DELETE FROM observations WHERE id IN ({})", ids)

    def _containing(self, lower: str) -> set[int]:
        """Return the ids of the entities with this folded text in one of their texts."""
        trigrams = _trigrams(lower)
        if not lower:
            rows = self.database.rows("SELECT id FROM entities")
        elif trigrams is None:
            rows = self.database.rows(_SCAN, (lower,))
        else:
            rows = self.database.rows(_FIND, (trigrams, lower))
        return {row[0] for row in rows}

    def _entities(self, ids: set[int]) -> list[Entity]:
        ordered = sorted(ids)
        rows = self.database.run_in(f"{_ENTITIES} WHERE id IN ({{}}) ORDER BY id", ordered)
        return _join(rows, self.database.run_in(_OBSERVATIONS_OF, ordered))

    def _with_relations(self, entities: list[Entity]) -> Graph:
        names = [entity["name"] for entity in entities]
        rows: set[Any] = set()
        for end in ("source", "target"):
            rows.update(self.database.run_in(f"{_RELATIONS} WHERE {end} IN ({{}})", names))
        return {"entities": entities, "relations": [_relation(*row[1:]) for row in sorted(rows)]}


def _row_of(relation: Relation) -> tuple[str, str, str]:
    return relation["from"], relation["to"], relation["relationType"]


def _relation(source: str, target: str, kind: str) -> Relation:
    return {"from": source, "to": target, "relationType": kind}


def _join(entities: Iterable[Any], observations: Iterable[Any]) -> list[Entity]:
    by_id: dict[int, Entity] = {
        row: {"name": name, "entityType": kind, "observations": []} for row, name, kind in entities
    }
    for entity, text in observations:
        by_id[entity]["observations"].append(text)
    return list(by_id.values())


def _entity_words(entity: int, name: str, kind: str) -> tuple[int, str]:
    return 2 * entity, _indexed(f"{name}\n{kind}")


def _observation_words(observation: int, lower: str) -> tuple[int, str]:
    return 2 * observation + 1, _indexed(lower)


# Search


def folded(text: str) -> str:
    """Return the text in lower case, by the rules of JavaScript."""
    return text.lower() if text.isascii() else text.translate(_NEW_LETTERS).lower()


def _folded_if_other(text: str) -> str | None:
    """Return the folded text, ``None`` if it equals the text."""
    lower = folded(text)
    return None if lower == text else lower


def _indexed(lower: str) -> str:
    """Return a folded text as it is put into the index."""
    return lower.replace("\0", _REPLACES_NUL)


def _trigrams(lower: str) -> str | None:
    """Return the query for the index, ``None`` if the text is too short for it."""
    text = _indexed(lower)
    parts = dict.fromkeys(text[at : at + _TRIGRAM] for at in range(len(text) - _TRIGRAM + 1))
    by_rarity = sorted(parts, key=lambda part: sum(map(_RARE_FIRST.find, part)))
    rarest = [part.replace('"', '""') for part in by_rarity[:_MAX_TRIGRAMS]]
    return " ".join(f'"{part}"' for part in rarest) or None


def _score(entity: Entity, whole: str, words: list[str]) -> float:
    """Return how well an entity matches the folded words of a query, and the query as a whole."""
    name, kind = folded(entity["name"]), folded(entity["entityType"])
    texts = [folded(text) for text in entity["observations"]]
    score = 100.0 * (name == whole) + 40.0 * name.startswith(whole) + 20.0 * (whole in name)
    score += 10.0 * (kind == whole) + 5.0 * any(whole in text for text in texts)
    for word in words:
        hits = sum(word in text for text in texts)
        score += 8.0 * (word in name) + 4.0 * (word in kind) + 3.0 * hits / (hits + 2)
    return score
