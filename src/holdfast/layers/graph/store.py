"""The graph of ``holdfast mcp memory``: it behaves like the reference Memory server, call by call.

Values, order and the treatment of duplicates are equal, even where they are odd: a name that
occurs twice in one ``create_entities`` becomes two entities, and ``add_observations`` changes the
first. Where the reference answers with an error, the store raises ``Refused`` with that message.

A search finds what the reference's ``toLowerCase().includes()`` finds. The index returns all texts
with the rarest trigrams of the query, and the texts themselves are then compared with the query. So
the index may return too much, but never too little.

The graph is an SQLite database, shared by any number of processes. Writers queue at a kernel lock
beside the file, because SQLite polls when it waits and can starve a writer for seconds. Readers
take no lock. The journal is written ahead (WAL) where the file system shares memory between
processes; elsewhere SQLite's rollback journal is used. Every SQLite error becomes a ``Fault`` that
names the file and the next step. A damaged file is never deleted.
"""

from __future__ import annotations

import _sqlite3
import os
from contextlib import contextmanager, suppress

from holdfast import errors
from holdfast.errors import Fault, Refused
from holdfast.storage.database import result_code, uri_path
from holdfast.system.disk import Disk, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from sqlite3 import Connection
    from typing import Any, Self

    from holdfast.layers.graph import Added, Addition, Deletion, Entity, Graph, Key, Relation

APPLICATION_ID = 0x48464752
VERSION = 2
"""The newest version: 1 and the table ``changes``, which a graph has once it is kept in a file."""
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
PRAGMA user_version = 1;
"""
"""Names are not unique, because the reference server accepts one name twice in a call. ``id`` is
the order of insertion, which is the order of every answer. A ``*_folded`` column has the text as it
is searched, if that differs from the text: a text is removed from the index with the bytes that
were put into it, even if a later interpreter folds letters differently.

``words`` is an index only and holds no text. Its rows are ``2 * entity`` for name and type, and
``2 * observation + 1`` for an observation.
"""
_FOLLOW_CHANGES = (
    """
    CREATE TABLE IF NOT EXISTS changes (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      what TEXT NOT NULL,
      name TEXT NOT NULL,
      text TEXT NOT NULL,
      kind TEXT NOT NULL,
      saved_at REAL,
      UNIQUE (what, name, text, kind)
    )
    """,
    f"PRAGMA user_version = {VERSION}",
)
"""``changes`` has what was added or deleted since the graph was last written to its file, and what
was written there at ``saved_at``, not long ago: an ``entity`` or the ``type`` of one (name), an
``observation`` (entity and text), a ``relation`` (source, target and type). An older Holdfast would
not record its changes, so the version is another.
"""
_FILE = "file"
"""The mark of a graph that is kept in a file, too: which content the file had last."""
LOCK_WAIT_S = 10.0
_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Suffixes of the files that a database consists of."""
_CHECKPOINT_PAGES = 100
"""A journal that is used again from its start is synced in half the time of one that grows."""
_MAX_VALUES = 500
"""The number of values in one statement with ``IN``."""
_DAMAGED = (
    _sqlite3.SQLITE_ERROR,  # No such column: the schema is damaged.
    _sqlite3.SQLITE_CORRUPT,
    _sqlite3.SQLITE_NOTADB,
    _sqlite3.SQLITE_FORMAT,
)
_ERRORS = (_sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; the second one if its message has bytes of a damaged schema."""
_NOT_TEXT = ("Could not decode to UTF-8", "codec can't decode")
_BUSY = (_sqlite3.SQLITE_BUSY, _sqlite3.SQLITE_LOCKED)
_NOT_WRITABLE = (_sqlite3.SQLITE_READONLY, _sqlite3.SQLITE_PERM, _sqlite3.SQLITE_FULL)
_CANNOT_OPEN = (_sqlite3.SQLITE_CANTOPEN, _sqlite3.SQLITE_READONLY)
_NO_TRIGRAMS = ("no such module", "no such tokenizer")

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
_ENTITIES_NAMED = f"{_ENTITIES} WHERE name IN ({{}})"
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


class GraphDatabase:
    """One connection to one file."""

    _connection: Connection
    is_read_only = False
    inode = -1
    """The inode of the file that is open; -1 if there is no file."""

    def __init__(self, path: str, *, disk: Disk | None = None, wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        self._disk = disk or Disk()
        self._wait_s = wait_s
        self._lock = Lock(f"{path}.lock", self._disk)
        self._open()

    # Opening

    def _open(self) -> None:
        """Open the file that has the path now; create one if there is none."""
        if os.path.islink(self.path):
            raise errors.symbolic_link("graph", self.path)
        try:
            if not os.path.exists(self.path):
                self._create()
            inode = inode_of(self.path)
            self._check_readable()
            self._connection = self._connect()
            self.inode = inode
        except _ERRORS as error:
            raise _fault(error, self.path, "opened") from error

    def _check_readable(self) -> None:
        """Raise ``Fault`` if what has the path cannot be a database; SQLite does not say why."""
        why = "it is not a file"
        hint = f"move it away: mv {self.path} {self.path}.aside"
        if os.path.isfile(self.path):
            if os.access(self.path, os.R_OK):
                return
            why = "this user may not read it"
            hint = f"make it readable: chmod u+rw {self.path}"
        message = f"the graph {self.path} cannot be opened: {why}"
        raise Fault("storage", message, f"{hint}, then call again", path=self.path)

    def check(self) -> None:
        """Raise ``Fault`` if pages of the database are damaged."""
        with self.reading():
            problem = self.rows("PRAGMA quick_check(1)")[0][0]
        if problem != "ok":
            raise errors.damaged_graph(self.path, " ".join(str(problem).split()))

    def _create(self) -> None:
        """Create the file under another name and rename it, so that readers see all or nothing."""
        is_writer = self._lock.is_held
        if not is_writer:
            self._acquire_lock()
        try:
            if os.path.exists(self.path):
                return
            fresh = f"{self.path}.new"
            for suffix in _SUFFIXES:
                self._disk.remove(fresh + suffix)
            # SQLite gives the files beside it the same permissions.
            self._disk.create(fresh, b"", 0o600)
            connection = _sqlite3.connect(fresh, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = wal")
                connection.executescript(f"BEGIN;{SCHEMA}COMMIT;")
            finally:
                connection.close()
            # SQLite would replay the journal of a deleted database into the new one.
            for suffix in _SUFFIXES:
                if os.path.lexists(self.path + suffix):
                    self._disk.move(self.path + suffix, f"{self.path}.orphan{suffix}")
            self._disk.move(fresh, self.path)
            self._disk.sync_folder(os.path.dirname(self.path))
        finally:
            if not is_writer:
                self._lock.release()

    def _connect(self) -> Connection:
        """Open for writing if possible, else for reading; ``immutable`` for a read-only folder."""
        modes = ["mode=rw", "mode=ro"]
        if not os.path.exists(f"{self.path}-wal"):
            modes.append("immutable=1")
        for mode in modes:
            uri = f"file:{uri_path(os.path.abspath(self.path))}?{mode}"
            connection = _sqlite3.connect(uri, uri=True, isolation_level=None, timeout=self._wait_s)
            try:
                self._prepare(connection)
            except Exception as error:
                connection.close()
                if result_code(error) not in _CANNOT_OPEN or mode == "immutable=1":
                    raise
            else:
                self.is_read_only = mode != "mode=rw" or not os.access(self.path, os.W_OK)
                return connection
        raise Fault(
            "storage",
            f"the graph {self.path} cannot be opened: its folder is not writable and has a journal",
            "make the folder writable, then run the same command again",
        )

    def _prepare(self, connection: Connection) -> None:
        """Check that the file is a graph of this version, and make its commits durable."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise errors.damaged_graph(self.path, "it is not a graph that Holdfast made")
        if version > VERSION:
            raise Fault(
                "newer_graph",
                f"a newer Holdfast wrote the graph {self.path} (version {version})",
                "install that version, or move the file away",
                path=self.path,
            )
        is_wal = connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        # With a rollback journal a transaction ends when a file is removed: sync the folder too.
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_wal else 'EXTRA'}")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute("SELECT 1 FROM marks LIMIT 1").fetchone()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # Transactions

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which all queries see the graph as of one moment."""
        return self._transaction("BEGIN", "read")

    def writing(self) -> AbstractContextManager[None]:
        """Return a context that commits at its end; one inside another is part of the outer."""
        return self._transaction("BEGIN IMMEDIATE", "written")

    @contextmanager
    def _transaction(self, begin: str, doing: str) -> Iterator[None]:
        is_writing = doing == "written"
        if self._connection.in_transaction:
            assert self._lock.is_held or not is_writing, "a reading transaction cannot write"
            yield
            return
        try:
            self._reopen_if_replaced()
            if is_writing:
                if self.is_read_only:
                    raise _not_written(self.path, "it is read-only")
                self._acquire_lock()
                self._reopen_if_replaced()  # Another process may have done so during the wait.
            self._connection.execute(begin)
            yield
            self._connection.execute("COMMIT")
        except _ERRORS as error:
            raise _fault(error, self.path, doing) from error
        except UnicodeEncodeError as error:
            raise Refused(
                "invalid",
                "a text of the graph has half of a surrogate pair, which is not a character",
                "send the text without it",
            ) from error
        finally:
            with suppress(_sqlite3.Error):
                self._connection.rollback()  # does nothing after a commit
            self._lock.release()

    def _acquire_lock(self) -> None:
        try:
            self._lock.acquire(self._wait_s)
        except OSError as error:
            raise _not_written(self.path, error.strerror or str(error)) from error

    def _reopen_if_replaced(self) -> None:
        """Open the file again if another process replaced or removed it."""
        if self.inode != inode_of(self.path):
            old = self._connection
            self._open()
            old.close()

    # Statements

    def rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows of a query."""
        return self._connection.execute(statement, values).fetchall()

    def insert(self, statement: str, values: tuple[Any, ...]) -> int:
        """Insert a row; return its id."""
        return self._connection.execute(statement, values).lastrowid or 0

    def run_each(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute one statement for each row of values."""
        self._connection.executemany(statement, rows)

    def run_in(self, statement: str, values: Iterable[Any], *first: Any) -> list[Any]:
        """Execute a statement with ``IN ({})`` for any number of values; return its rows.

        ``first`` are the values that precede them in the statement.
        """
        unique = list(dict.fromkeys(values))
        rows: list[Any] = []
        for start in range(0, len(unique), _MAX_VALUES):
            batch = unique[start : start + _MAX_VALUES]
            marks = ",".join("?" * len(batch))
            rows += self._connection.execute(statement.format(marks), (*first, *batch))
        return rows


class GraphStore(GraphDatabase):
    """The graph in one file. Any number of processes may have it open."""

    # Writing

    def create_entities(self, entities: list[Entity]) -> list[Entity]:
        """Add the entities whose names are new to the graph; return them."""
        with self.writing():
            names = [entity["name"] for entity in entities]
            existing = {row[1] for row in self.run_in(_ENTITIES_NAMED, names)}
            created: list[Entity] = [
                {
                    "name": entity["name"],
                    "entityType": entity["entityType"],
                    "observations": list(entity["observations"]),
                }
                for entity in entities
                if entity["name"] not in existing
            ]
            self._insert_entities(created)
            self._record_changes(_keys_of(created))
        return created

    def create_relations(self, relations: list[Relation]) -> list[Relation]:
        """Add the relations that are new to the graph; return them."""
        query = f"{_RELATIONS} WHERE source = ? AND target = ? AND type = ? LIMIT 1"
        with self.writing():
            rows = [_row_of(relation) for relation in relations]
            fresh = [row for row in rows if not self.rows(query, row)]
            self.run_each(_ADD_RELATION, fresh)
            self._record_changes(("relation", *row) for row in fresh)
        return [_relation(*row) for row in fresh]

    def add_observations(self, observations: list[Addition]) -> list[Added]:
        """Add observations that the entities do not have; return them.

        Raise ``Refused`` if an entity is unknown; then nothing is added.
        """
        query = "SELECT text FROM observations WHERE entity = ? AND text IN ({})"
        results: list[Added] = []
        with self.writing():
            for item in observations:
                entity = self._first_entity(item["entityName"])
                if entity is None:
                    raise Refused(
                        "not_found",
                        f"Entity with name {item['entityName']} not found",
                        "create it first: create_entities",
                    )
                existing = {row[0] for row in self.run_in(query, item["contents"], entity)}
                fresh = [text for text in item["contents"] if text not in existing]
                self._insert_observations(entity, fresh)
                self._record_changes(_keys_of_texts(item["entityName"], fresh))
                results.append({"entityName": item["entityName"], "addedObservations": fresh})
        return results

    def delete_entities(self, names: list[str]) -> None:
        """Delete entities, and every relation from or to these names."""
        with self.writing():
            self._record_changes(self._keys_to_delete(names))
            self._drop_entities([row[0] for row in self.run_in(_ENTITIES_NAMED, names)])
            self.run_in("DELETE FROM relations WHERE source IN ({})", names)
            self.run_in("DELETE FROM relations WHERE target IN ({})", names)

    def delete_observations(self, deletions: list[Deletion]) -> None:
        """Delete observations; ignore unknown entities and observations."""
        query = "SELECT id FROM observations WHERE entity = ? AND text IN ({})"
        with self.writing():
            for item in deletions:
                entity = self._first_entity(item["entityName"])
                if entity is not None:
                    self._drop_observations(query, item["observations"], entity)
                    name = item["entityName"]
                    texts = item["observations"]
                    self._record_changes(("observation", name, text, "") for text in texts)

    def delete_relations(self, relations: list[Relation]) -> None:
        """Delete relations; ignore unknown ones."""
        statement = "DELETE FROM relations WHERE source = ? AND target = ? AND type = ?"
        with self.writing():
            self.run_each(statement, map(_row_of, relations))
            self._record_changes(("relation", *_row_of(relation)) for relation in relations)

    def replace_graph(self, graph: Graph) -> None:
        """Make the graph equal to another one, in its order; change only rows that differ."""
        with self.writing():
            entities, observations, relations = self.read_rows()
            old = list(
                zip((row[0] for row in entities), self._join(entities, observations), strict=True)
            )
            names = {entity["name"] for entity in graph["entities"]}
            gone = [row for row, entity in old if entity["name"] not in names]
            old = [(row, entity) for row, entity in old if entity["name"] in names]
            same = 0
            for (_, entity), new in zip(old, graph["entities"], strict=False):
                if entity["name"] != new["name"]:
                    break
                same += 1
            # What comes after an entity that stands elsewhere now is inserted again, in order.
            self._drop_entities([*gone, *(row for row, _ in old[same:])])
            for (row, entity), new in zip(old[:same], graph["entities"], strict=False):
                if entity != new:
                    self._replace_entity(row, new)
            self._insert_entities(graph["entities"][same:])
            rows = [_row_of(relation) for relation in graph["relations"]]
            if rows != [tuple(row[1:]) for row in relations]:
                self.rows("DELETE FROM relations")
                self.run_each(_ADD_RELATION, rows)

    # Reading

    def read_graph(self) -> Graph:
        """Return everything, in the order of insertion."""
        entities, observations, relations = self.read_rows()
        return {
            "entities": self._join(entities, observations),
            "relations": self._relations(relations),
        }

    def read_rows(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the rows of all entities, observations and relations."""
        with self.reading():
            return (
                self.rows(f"{_ENTITIES} ORDER BY id"),
                self.rows(f"{_OBSERVATIONS} ORDER BY id"),
                self.rows(f"{_RELATIONS} ORDER BY id"),
            )

    def search_nodes(self, query: str, *, ranked: bool = False, limit: int | None = None) -> Graph:
        """Return the entities with the query in their name, type or observations, in any case.

        ``ranked``: return those with all words of the query, the best match first.
        """
        lower = folded(query)
        words = (list(dict.fromkeys(lower.split())) if ranked else []) or [lower]
        with self.reading():
            ids = set.intersection(*map(self._containing, words))
            entities = self._entities(f"{_ENTITIES} WHERE id IN ({{}})", ids)
            if ranked:
                whole = " ".join(lower.split())
                entities.sort(key=lambda entity: -_score(entity, whole, words))
            return self._with_relations(entities[:limit])

    def open_nodes(self, names: list[str]) -> Graph:
        """Return the entities of these names, and the relations from or to them."""
        with self.reading():
            return self._with_relations(self._entities(_ENTITIES_NAMED, names))

    # Marks: what the owner of the graph remembers, in the same transaction

    def marks(self) -> dict[str, str]:
        with self.reading():
            return dict(self.rows("SELECT key, value FROM marks"))

    def set_marks(self, **marks: str) -> None:
        statement = "INSERT OR REPLACE INTO marks (key, value) VALUES (?, ?)"
        with self.writing():
            self.run_each(statement, marks.items())

    # Changes: what the file of the graph does not have yet

    def file_mark(self) -> str | None:
        """Return the mark of the file's last content; ``None`` if the graph is kept in no file."""
        return self.marks().get(_FILE)

    def set_file_mark(self, mark: str) -> None:
        """Mark the file's content; from the first mark on, all processes record their changes."""
        with self.writing():
            if self.file_mark() is None:
                for statement in _FOLLOW_CHANGES:
                    self.rows(statement)
            self.set_marks(**{_FILE: mark})

    def forget_changes(self) -> None:
        """Stop recording changes: the graph is no longer kept in a file."""
        with self.writing():
            self.rows("DELETE FROM marks WHERE key = ?", (_FILE,))
            self.rows("DELETE FROM changes")

    def last_change(self) -> int:
        """Return the number of the newest change that is not in the file, 0 if there is none."""
        with self.reading():
            rows = self.rows("SELECT max(id) FROM changes WHERE saved_at IS NULL")
        return rows[0][0] or 0

    def changes(self, since: float) -> tuple[set[Key], set[Key]]:
        """Return what is not in the file yet, and what was written there after ``since``."""
        query = "SELECT what, name, text, kind FROM changes WHERE saved_at"
        with self.reading():
            unsaved = {tuple(row) for row in self.rows(f"{query} IS NULL")}
            return unsaved, {tuple(row) for row in self.rows(f"{query} > ?", (since,))}

    def mark_saved(self, last: int, now: float, since: float) -> None:
        """Mark changes up to a number as written to the file; forget those before ``since``."""
        with self.writing():
            statement = "UPDATE changes SET saved_at = ? WHERE id <= ? AND saved_at IS NULL"
            self.rows(statement, (now, last))
            # A clock that was set back must not keep them for ever.
            statement = "DELETE FROM changes WHERE saved_at < ? OR saved_at > ?"
            self.rows(statement, (since, now))

    def record_additions(self, before: Graph, after: Graph) -> None:
        """Record what one graph has and an earlier one has not, as a change of this graph."""
        earlier = {*_keys_of(before["entities"]), *map(_row_of, before["relations"])}
        self._record_changes(key for key in _keys_of(after["entities"]) if key not in earlier)
        rows = (row for row in map(_row_of, after["relations"]) if row not in earlier)
        self._record_changes(("relation", *row) for row in rows)

    def _record_changes(self, keys: Iterable[Key]) -> None:
        if self.rows("SELECT 1 FROM marks WHERE key = ?", (_FILE,)):
            statement = (
                "INSERT OR REPLACE INTO changes (what, name, text, kind) VALUES (?, ?, ?, ?)"
            )
            self.run_each(statement, keys)

    def _keys_to_delete(self, names: list[str]) -> Iterator[Key]:
        """Yield entities with their observations and relations, before they are deleted."""
        for entity in self._entities(_ENTITIES_NAMED, names):
            yield from _keys_of_texts(entity["name"], entity["observations"])
        for name in names:
            yield "entity", name, "", ""
        for end in ("source", "target"):
            rows = self.run_in(f"{_RELATIONS} WHERE {end} IN ({{}})", names)
            yield from (("relation", *row[1:]) for row in rows)

    # Rows

    def _insert_entities(self, entities: list[Entity]) -> None:
        for entity in entities:
            name, kind = entity["name"], entity["entityType"]
            lowers = _folded_if_other(name), _folded_if_other(kind)
            row = self.insert(_ADD_ENTITY, (name, kind, *lowers))
            words = _entity_words(row, lowers[0] or name, lowers[1] or kind)
            self.insert(_ADD_WORDS, words)
            self._insert_observations(row, entity["observations"])

    def _replace_entity(self, row: int, entity: Entity) -> None:
        """Give an entity another type and other observations; its name and place stay."""
        kind = entity["entityType"]
        self.run_each(_DROP_WORDS, self._words_of([row]))
        statement = "UPDATE entities SET type = ?, type_folded = ? WHERE id = ?"
        self.rows(statement, (kind, _folded_if_other(kind), row))
        self.run_each(_ADD_WORDS, self._words_of([row]))
        self._drop_observations("SELECT id FROM observations WHERE entity IN ({})", [row])
        self._insert_observations(row, entity["observations"])

    def _drop_entities(self, ids: list[int]) -> None:
        self._drop_observations("SELECT id FROM observations WHERE entity IN ({})", ids)
        self.run_each(_DROP_WORDS, self._words_of(ids))
        self.run_in("DELETE FROM entities WHERE id IN ({})", ids)

    def _words_of(self, ids: list[int]) -> list[tuple[int, str]]:
        """Return the names and types of entities as they are in the index."""
        query = (
            "SELECT id, coalesce(name_folded, name), coalesce(type_folded, type)"
            " FROM entities WHERE id IN ({})"
        )
        return [_entity_words(*row) for row in self.run_in(query, ids)]

    def _first_entity(self, name: str) -> int | None:
        query = "SELECT id FROM entities WHERE name = ? ORDER BY id LIMIT 1"
        rows = self.rows(query, (name,))
        return rows[0][0] if rows else None

    def _insert_observations(self, entity: int, texts: list[str]) -> None:
        for text in texts:
            lower = _folded_if_other(text)
            row = self.insert(_ADD_OBSERVATION, (entity, text, lower))
            self.insert(_ADD_WORDS, _observation_words(row, lower or text))

    def _drop_observations(self, query: str, values: Iterable[Any], *first: Any) -> None:
        """Delete the observations whose ids a query returns, and their words in the index."""
        ids = [row[0] for row in self.run_in(query, values, *first)]
        folded = "SELECT id, coalesce(folded, text) FROM observations WHERE id IN ({})"
        rows = self.run_in(folded, ids)
        self.run_each(_DROP_WORDS, (_observation_words(*row) for row in rows))
        self.run_in("DELETE FROM observations WHERE id IN ({})", ids)

    def _containing(self, lower: str) -> set[int]:
        """Return the ids of the entities with this folded text in one of their texts."""
        text = _indexed(lower)
        starts = range(len(text) - _TRIGRAM + 1)
        trigrams = list(dict.fromkeys(text[at : at + _TRIGRAM] for at in starts))
        if not lower:
            rows = self.rows("SELECT id FROM entities")
        elif not trigrams:
            rows = self.rows(_SCAN, (lower,))
        else:
            by_rarity = sorted(trigrams, key=lambda part: sum(map(_RARE_FIRST.find, part)))
            parts = [part.replace('"', '""') for part in by_rarity[:_MAX_TRIGRAMS]]
            rows = self.rows(_FIND, (" ".join(f'"{part}"' for part in parts), lower))
        return {row[0] for row in rows}

    def _entities(self, query: str, values: Iterable[Any]) -> list[Entity]:
        """Return the entities that a query finds, in the order of insertion."""
        rows = sorted(self.run_in(query, values))
        return self._join(rows, self.run_in(_OBSERVATIONS_OF, [row[0] for row in rows]))

    def _with_relations(self, entities: list[Entity]) -> Graph:
        names = [entity["name"] for entity in entities]
        rows: set[Any] = set()
        for end in ("source", "target"):
            rows.update(self.run_in(f"{_RELATIONS} WHERE {end} IN ({{}})", names))
        return {"entities": entities, "relations": self._relations(sorted(rows))}

    def _join(self, entities: Iterable[Any], observations: Iterable[Any]) -> list[Entity]:
        """Return entities with their observations; raise ``Fault`` if rows do not fit together."""
        by_id: dict[int, Entity] = {}
        for row, name, kind in entities:
            self._check_text(name, kind)
            by_id[row] = {"name": name, "entityType": kind, "observations": []}
        for entity, text in observations:
            self._check_text(text)
            if entity not in by_id:
                raise errors.damaged_graph(self.path, "an observation belongs to no entity")
            by_id[entity]["observations"].append(text)
        return list(by_id.values())

    def _relations(self, rows: list[Any]) -> list[Relation]:
        for row in rows:
            self._check_text(*row[1:])
        return [_relation(*row[1:]) for row in rows]

    def _check_text(self, *values: object) -> None:
        for value in values:
            if type(value) is not str:
                raise errors.damaged_graph(self.path, "a value that is not text")


class InMemoryGraph(GraphStore):
    """A graph of this process alone, for a folder in which no file can be created."""

    def _open(self) -> None:
        self._connection = _sqlite3.connect(":memory:", isolation_level=None)
        self._connection.executescript(f"BEGIN;{SCHEMA}COMMIT;")

    def _reopen_if_replaced(self) -> None:
        """Do nothing: there is no file."""

    def _acquire_lock(self) -> None:
        """Do nothing: no other process can write to it."""


def _row_of(relation: Relation) -> tuple[str, str, str]:
    return relation["from"], relation["to"], relation["relationType"]


def _relation(source: str, target: str, kind: str) -> Relation:
    return {"from": source, "to": target, "relationType": kind}


def _keys_of(entities: list[Entity]) -> Iterator[Key]:
    for entity in entities:
        yield "type", entity["name"], "", ""
        yield from _keys_of_texts(entity["name"], entity["observations"])


def _keys_of_texts(name: str, texts: list[str]) -> Iterator[Key]:
    yield "entity", name, "", ""
    for text in texts:
        yield "observation", name, text, ""


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


# Files and faults


def inode_of(path: str) -> int:
    """Return the inode of a file, -1 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _not_written(path: str, why: str) -> Fault:
    remedy = "make room, or make it and its folder writable"
    return errors.not_written(f"the graph {path}", why, remedy)


def _fault(error: Exception, path: str, doing: str) -> Fault:
    """Return the fault for an SQLite error."""
    code = result_code(error)
    if any(part in str(error) for part in _NO_TRIGRAMS):
        hint = "use a Python whose SQLite has FTS5 with trigrams: 3.34 or newer"
        return Fault("storage", f"the graph {path} cannot be {doing} ({error})", hint)
    if code in _DAMAGED or any(part in str(error) for part in _NOT_TEXT):
        return errors.damaged_graph(path, str(error))
    if code in _BUSY:
        return errors.busy(f"the graph {path}", path)
    if code in _NOT_WRITABLE:
        return _not_written(path, str(error))
    hint = "see to that, then run the same command again"
    return Fault("storage", f"the graph {path} cannot be {doing} ({error})", hint)
