"""A person's own memory graph: the JSONL file of a Memory server, kept in a database.

The database is beside the file, one for each path, and is authoritative once it exists. The file is
imported in the transaction that marks it as imported, and is never changed by that; only an export
writes it, and keeps a copy of the previous content.
"""

from __future__ import annotations

import os
import time

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.errors import Fault, Refused
from holdfast.layers.graph.store import LOCK_WAIT_S, GraphStore, InMemoryGraph, inode_of
from holdfast.storage import shared_file
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from holdfast.core.types import Fields, Json
    from holdfast.layers.graph import Entity, Relation

FILE_VARIABLE = "MEMORY_FILE_PATH"
DATABASE_SUFFIX = ".db"
_IMPORTED = "imported"
"""The mark of an import: how the file was then."""
_TEXTS = {
    "entity": ("name", "entityType"),
    "relation": ("from", "to", "relationType"),
}
"""The fields of each kind of line that are one text."""
_MAX_LISTED = 20
"""Bad lines that are listed one by one."""
_MAX_FILE_BYTES = 1 << 32
_READ_ATTEMPTS = 40
_READ_PAUSE_S = 0.05


def path_of(named: str | None, folder: str) -> str:
    """Return the JSONL file: the one that the caller or the environment names, else the default."""
    path = named or os.environ.get(FILE_VARIABLE, "")
    if path:
        return os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    base = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "holdfast", "memory.jsonl")


class MemoryGraph:
    """The graph of one path. ``notes`` has what a person should know about its import."""

    def __init__(self, path: str, *, wait_s: float | None = None) -> None:
        self.path = path
        self.database = path + DATABASE_SUFFIX
        self.notes: list[str] = []
        self._wait_s = LOCK_WAIT_S if wait_s is None else wait_s
        self._disk = Disk()
        self._store: GraphStore | None = None
        self._inode = -1
        """The inode of the database that the file was imported into."""
        self._file_read: tuple[int, ...] = ()
        """The version of the file that is served because no database can be created."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def store(self) -> GraphStore:
        """Return the store; open it at the first use and after another process replaced it."""
        if self._store is None or self._is_outdated():
            self.close()
            if os.path.exists(self.path) and not os.path.isfile(self.path):
                raise Refused(
                    "in_the_way", f"{self.path} is not a file", "name another one: --file PATH"
                )
            try:
                self._store = self._open()
            except (Fault, OSError) as error:
                self._store = self._open_in_memory(error)
            self._inode = self._store.inode
        return self._store

    def _is_outdated(self) -> bool:
        """Return True if the database was replaced, or if one can be created by now."""
        if self._inode != inode_of(self.database):
            return True
        is_in_memory = self._inode == -1
        return is_in_memory and (
            self._file_read != _stat(self.path) or os.access(os.path.dirname(self.path), os.W_OK)
        )

    def _open(self) -> GraphStore:
        self._disk.make_folder(os.path.dirname(self.path))
        store = GraphStore(self.database, disk=self._disk, wait_s=self._wait_s)
        try:
            mark = store.marks().get(_IMPORTED)
            if mark is None:
                with store.writing():
                    if _IMPORTED not in store.marks():
                        self._mark(store, bad=self._import(store))
            elif json_text.loads(mark)["seen"] != list(_stat(self.path)[1:]):
                self.notes.append(
                    f"{self.path} was changed since it was imported, and {self.database} is used; "
                    "holdfast memory export writes the file again; to import the file again, move "
                    "the database away"
                )
        except BaseException:
            store.close()
            raise
        return store

    def _open_in_memory(self, error: Fault | OSError) -> GraphStore:
        """Serve the file read-only, if a database cannot be created; else raise the error."""
        is_refused = isinstance(error, OSError) or error.code == "not_written"
        if not is_refused or os.path.lexists(self.database) or not os.path.exists(self.path):
            raise error
        self._file_read = _stat(self.path)
        store = InMemoryGraph(self.database)
        self._import(store)
        store.is_read_only = True
        self.notes.append(f"{self.database} cannot be created: {self.path} is served read-only")
        return store

    # Import

    def _import(self, store: GraphStore) -> int:
        """Insert what the file holds; return the number of lines that were skipped."""
        entities, relations, bad = parse(self._read_file() or b"")
        # In one call each, so that a name that occurs twice stays two entities.
        store.create_entities(entities)
        store.create_relations(relations)
        for line, why in bad[:_MAX_LISTED]:
            self.notes.append(f"{self.path}, line {line}: {why}; it was left out")
        if len(bad) > _MAX_LISTED:
            more = len(bad) - _MAX_LISTED
            self.notes.append(f"{self.path}: {more} more lines are not valid and were left out")
        return len(bad)

    def _mark(self, store: GraphStore, **more: int) -> None:
        seen = list(_stat(self.path)[1:])
        store.set_marks(**{_IMPORTED: json_text.dumps({"seen": seen, **more})})

    def _read_file(self) -> bytes | None:
        """Read the file while no other process writes it; raise ``Fault`` if one does not stop."""
        for _ in range(_READ_ATTEMPTS):
            before = _stat(self.path)
            raw = self._disk.read(self.path, _MAX_FILE_BYTES)
            if before == _stat(self.path) and not self._disk.is_being_written(self.path):
                return raw
            time.sleep(_READ_PAUSE_S)
        raise Fault(
            "busy",
            f"another process is writing {self.path}; it is imported when that is done",
            "wait for that process or end it, then call again",
            path=self.path,
        )

    # Export

    def export(self, target: str | None = None) -> Fields:
        """Write the graph as JSONL; keep a copy of what the file held before."""
        store = self.store()
        path = os.path.realpath(target or self.path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise Refused("in_the_way", f"{path} is not a file", "name another one")
        graph = store.read_graph()
        raw = render(graph["entities"], graph["relations"])
        copies: list[str] = []

        def replace(current: bytes | None) -> bytes:
            if current is not None and current != raw:
                copies.append(f"{path}.before-{digest(current)[:12]}")
                if not os.path.lexists(copies[-1]):
                    self._disk.create(copies[-1], current, 0o600, durable=True)
            return raw

        shared_file.clear_spares(self._disk, path, raw.__eq__)
        shared_file.settle(self._disk, path, replace)
        if path == self.path and not store.is_read_only:
            self._mark(store)
        return {
            "path": path,
            "kept": copies[-1] if copies else None,
            "entities": len(graph["entities"]),
            "relations": len(graph["relations"]),
        }


def _stat(path: str) -> tuple[int, ...]:
    """Return inode, size and time of a file; empty if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def parse(raw: bytes) -> tuple[list[Entity], list[Relation], list[tuple[int, str]]]:
    """Return the entities, the relations, and the number and fault of each bad line."""
    nodes: dict[str, list[Any]] = {"entity": [], "relation": []}
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                kind, node = _parse_line(line)
            except ValueError as error:
                bad.append((number, str(error)))
            else:
                nodes[kind].append(node)
    return nodes["entity"], nodes["relation"], bad


def _parse_line(line: bytes) -> tuple[str, Fields]:
    """Return the kind of a line, and its fields; raise ``ValueError`` with the fault."""
    fields = json_text.loads(line)
    kind = str(fields.get("type")) if isinstance(fields, dict) else ""
    if kind not in _TEXTS:
        raise ValueError("it is neither an entity nor a relation")
    node: Fields = {name: _text(fields.get(name), name) for name in _TEXTS[kind]}
    if kind == "entity":
        texts = fields.get("observations", [])
        texts = texts if isinstance(texts, list) else [None]
        node["observations"] = [_text(text, "list of observations") for text in texts]
    return kind, node


def _text(value: Json, name: str) -> str:
    if not isinstance(value, str) or not json_text.is_encodable(value):
        raise ValueError(f"its {name} is not text")
    return value


def render(entities: list[Entity], relations: list[Relation]) -> bytes:
    """Return the lines of the reference server, without a newline at the end."""
    rows = [
        *({"type": "entity", **entity} for entity in entities),
        *({"type": "relation", **relation} for relation in relations),
    ]
    return "\n".join(map(json_text.dumps, rows)).encode()
