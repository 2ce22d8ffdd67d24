"""The schema of a graph's database, and every statement that is run on it.

Names are not unique, because the reference server accepts one name twice in a call. ``id`` is the
order of insertion, which is the order of every answer. A ``*_folded`` column has the text as it is
searched, if that differs from the text: what was put into the index is removed with the same bytes,
even if a later interpreter folds letters differently.

``words`` is an index only and holds no text. Its rows are ``2 * entity`` for name and type, and
``2 * observation + 1`` for an observation.
"""

from __future__ import annotations

APPLICATION_ID = 0x48464752
VERSION = 1

SCHEMA = f"""
CREATE TABLE entities (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  name_folded TEXT,
  type_folded TEXT
);
CREATE INDEX entities_by_name ON entities (name);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY,
  entity INTEGER NOT NULL REFERENCES entities (id),
  text TEXT NOT NULL,
  folded TEXT
);
CREATE INDEX observations_by_entity ON observations (entity);
CREATE TABLE relations (
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  target TEXT NOT NULL,
  type TEXT NOT NULL
);
CREATE INDEX relations_by_source ON relations (source);
CREATE INDEX relations_by_target ON relations (target);
CREATE TABLE marks (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
  folded, content='', columnsize=0, tokenize='trigram case_sensitive 1'
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

FIRST_ENTITY = "SELECT id FROM entities WHERE name = ? ORDER BY id LIMIT 1"
ADD_ENTITY = "INSERT INTO entities (name, type, name_folded, type_folded) VALUES (?, ?, ?, ?)"
ALL_ENTITIES = "SELECT id, name, type FROM entities ORDER BY id"
ENTITIES = "SELECT id, name, type FROM entities WHERE id IN ({}) ORDER BY id"
ENTITIES_NAMED = "SELECT id, name, type FROM entities WHERE name IN ({}) ORDER BY id"
FOLDED_ENTITIES = (
    "SELECT id, coalesce(name_folded, name), coalesce(type_folded, type)"
    " FROM entities WHERE id IN ({})"
)
DROP_ENTITIES = "DELETE FROM entities WHERE id IN ({})"

ADD_OBSERVATION = "INSERT INTO observations (entity, text, folded) VALUES (?, ?, ?)"
HAS_OBSERVATION = "SELECT text FROM observations WHERE entity = ? AND text IN ({})"
ALL_OBSERVATIONS = "SELECT entity, text FROM observations ORDER BY id"
OBSERVATIONS = "SELECT entity, text FROM observations WHERE entity IN ({}) ORDER BY id"
OBSERVATION_IDS = "SELECT id FROM observations WHERE entity = ? AND text IN ({})"
OBSERVATION_IDS_OF = "SELECT id FROM observations WHERE entity IN ({})"
FOLDED_OBSERVATIONS = "SELECT id, coalesce(folded, text) FROM observations WHERE id IN ({})"
DROP_OBSERVATIONS = "DELETE FROM observations WHERE id IN ({})"

HAS_RELATION = "SELECT 1 FROM relations WHERE source = ? AND target = ? AND type = ? LIMIT 1"
ADD_RELATION = "INSERT INTO relations (source, target, type) VALUES (?, ?, ?)"
ALL_RELATIONS = "SELECT id, source, target, type FROM relations ORDER BY id"
RELATIONS_FROM = "SELECT id, source, target, type FROM relations WHERE source IN ({})"
RELATIONS_TO = "SELECT id, source, target, type FROM relations WHERE target IN ({})"
DROP_RELATION = "DELETE FROM relations WHERE source = ? AND target = ? AND type = ?"
DROP_RELATIONS_FROM = "DELETE FROM relations WHERE source IN ({})"
DROP_RELATIONS_TO = "DELETE FROM relations WHERE target IN ({})"

ADD_WORDS = "INSERT INTO words (rowid, folded) VALUES (?, ?)"
DROP_WORDS = "INSERT INTO words (words, rowid, folded) VALUES ('delete', ?, ?)"
FIND = """
WITH hits (id) AS (SELECT rowid FROM words WHERE words MATCH ?1)
SELECT e.id FROM hits JOIN entities AS e ON e.id = hits.id / 2
WHERE hits.id % 2 = 0
AND (instr(coalesce(e.name_folded, e.name), ?2) OR instr(coalesce(e.type_folded, e.type), ?2))
UNION
SELECT o.entity FROM hits JOIN observations AS o ON o.id = hits.id / 2
WHERE hits.id % 2 = 1 AND instr(coalesce(o.folded, o.text), ?2)
"""
SCAN = """
SELECT id FROM entities
WHERE instr(coalesce(name_folded, name), ?1) OR instr(coalesce(type_folded, type), ?1)
UNION
SELECT entity FROM observations WHERE instr(coalesce(folded, text), ?1)
"""

MARKS = "SELECT key, value FROM marks"
SET_MARK = "INSERT OR REPLACE INTO marks (key, value) VALUES (?, ?)"
