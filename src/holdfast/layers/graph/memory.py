"""A memory graph of a person's own: what a Memory server kept in a JSONL file, in a database now.

The database stands beside the file, one for each path, and is the truth from its first opening on.
What the file holds then is taken over in the one transaction that notes it, and the file itself is
never changed; only an export writes there, and keeps what it finds.
"""

from __future__ import annotations

import os
import time

from holdfast.core import json_text
from holdfast.core.digest import digest
from holdfast.errors import Fault, Refused
from holdfast.layers.graph.database import InMemory, inode_of
from holdfast.layers.graph.store import GraphStore
from holdfast.storage import shared_file
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    from holdfast.core.types import Fields
    from holdfast.layers.graph.shapes import Entity, Relation

FILE = "MEMORY_FILE_PATH"
END = ".db"
WAIT_S = 10.0
_IMPORTED = "imported"
_NAMED = 20
"""So many bad lines are told one by one."""
_MOST = 1 << 32
"""The graph is the person's own, however large it is."""
_LOOKS = 40
_PAUSE_S = 0.05


def path_of(named: str | None, folder: str) -> str:
    """The JSONL file that is meant: named by the caller, else by the environment, else our own."""
    asked = named or os.environ.get(FILE, "")
    if asked:
        return os.path.realpath(os.path.join(folder, os.path.expanduser(asked)))
    base = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "holdfast", "memory.jsonl")


class MemoryGraph:
    """The graph that belongs to one path. ``notes`` says what was found when it was taken over."""

    def __init__(
        self,
        path: str,
        *,
        wait_s: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        disk: Disk | None = None,
    ) -> None:
        self.path = path
        self.database = path + END
        self.notes: list[str] = []
        self._wait_s = WAIT_S if wait_s is None else wait_s
        self._sleep = sleep
        self._disk = disk or Disk()
        self._store: GraphStore | None = None
        self._inode = -1
        self._seen: tuple[int, ...] = ()
        """The file as it was when it was read for want of a database."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def store(self) -> GraphStore:
        """The store, opened at the first use and again where another file took its place."""
        if self._store is None or inode_of(self.database) != self._inode or self._may_be_made():
            self.close()
            self._check_file()
            try:
                store = self._opened()
            except (Fault, OSError) as error:
                store = self._read_alone(error)
            self._store, self._inode = store, inode_of(self.database)
        return self._store

    def _check_file(self) -> None:
        """A database is not made beside what cannot be taken over."""
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise Refused(
                "in_the_way", f"{self.path} is not a file", "name another one: --file PATH"
            )

    def _opened(self) -> GraphStore:
        self._disk.make_folder(os.path.dirname(self.path))
        store = GraphStore(self.database, disk=self._disk, wait_s=self._wait_s)
        try:
            self._take_over(store)
        except BaseException:
            store.close()
            raise
        return store

    # Without a database

    def _read_alone(self, error: Fault | OSError) -> GraphStore:
        """What the file says, where no database can be made beside it; nothing can be added."""
        is_refused = isinstance(error, OSError) or error.code == "not_written"
        if not is_refused or os.path.lexists(self.database) or not os.path.exists(self.path):
            raise error
        self._seen = _look(self.path)
        store = GraphStore(self.database, database=InMemory(self.database))
        self._fill(store)
        store.database.is_read_only = True
        self.notes.append(f"{self.database} cannot be made: {self.path} is read, and not added to")
        return store

    def _may_be_made(self) -> bool:
        """Whether we have none, and something has changed since we tried."""
        if self._inode != -1:
            return False
        return self._seen != _look(self.path) or os.access(os.path.dirname(self.path), os.W_OK)

    # From JSONL

    def _take_over(self, store: GraphStore) -> None:
        noted = store.marks().get(_IMPORTED)
        if noted is not None:
            if json_text.loads(noted)["seen"] != list(_look(self.path)[1:]):
                self.notes.append(
                    f"{self.path} was changed since it was taken over; {self.database} is what "
                    "counts: holdfast memory export writes the file anew; to have the file taken "
                    "over instead, move the database away"
                )
            return
        with store.database.writing():
            if _IMPORTED in store.marks():
                return
            self._mark(store, bad=self._fill(store))

    def _fill(self, store: GraphStore) -> int:
        """Puts in what the file holds; gives the number of lines that are no good."""
        entities, relations, bad = parsed(self._read() or b"")
        # In one call each: what stands twice there stands twice here.
        store.create_entities(entities)
        store.create_relations(relations)
        for line, why in bad[:_NAMED]:
            self.notes.append(f"{self.path}, line {line}: {why}; it was left out")
        if len(bad) > _NAMED:
            more = len(bad) - _NAMED
            self.notes.append(f"{self.path}: {more} more lines are no good and were left out")
        return len(bad)

    def _mark(self, store: GraphStore, **more: int) -> None:
        seen = list(_look(self.path)[1:])
        store.set_marks(**{_IMPORTED: json_text.dumps({"seen": seen, **more})})

    def _read(self) -> bytes | None:
        """The file as it stands between two writers' visits."""
        for _ in range(_LOOKS):
            before = _look(self.path)
            raw = self._disk.read(self.path, _MOST)
            if before == _look(self.path) and not self._disk.is_being_written(self.path):
                return raw
            self._sleep(_PAUSE_S)
        raise Fault(
            "busy",
            f"another process is writing {self.path}; it is taken over when that is done",
            "end that process, then call again",
            path=self.path,
        )

    # To JSONL

    def export(self, target: str | None = None) -> Fields:
        """Writes the graph as the reference server reads it; what stood there is kept beside it."""
        store = self.store()
        path = os.path.realpath(target or self.path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise Refused("in_the_way", f"{path} is not a file", "name another one")
        graph = store.read_graph()
        kept = self._put(path, rendered(graph["entities"], graph["relations"]))
        if path == self.path and not store.database.is_read_only:
            self._mark(store)
        entities, relations = len(graph["entities"]), len(graph["relations"])
        return {"path": path, "kept": kept, "entities": entities, "relations": relations}

    def _put(self, path: str, raw: bytes) -> str | None:
        """Puts the file there in one step; gives the place of what stood there, if it differs."""
        kept: list[str] = []

        def prepare(found: bytes | None) -> bytes:
            if found is not None and found != raw:
                kept.append(f"{path}.before-{digest(found)[:12]}")
                if not os.path.lexists(kept[-1]):
                    self._disk.create(kept[-1], found, 0o600, durable=True)
            return raw

        shared_file.clear_spares(self._disk, path, raw.__eq__)
        shared_file.settle(self._disk, path, prepare)
        return kept[-1] if kept else None


def _look(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def parsed(raw: bytes) -> tuple[list[Entity], list[Relation], list[tuple[int, str]]]:
    """The entities and relations of a JSONL text, and the lines that are neither, each with why."""
    entities: list[Entity] = []
    relations: list[Relation] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            told = json_text.loads(line)
            kind = told.get("type") if isinstance(told, dict) else None
            if kind == "entity":
                entities.append(_entity(told))
            elif kind == "relation":
                relations.append(_relation(told))
            else:
                bad.append((number, "it is neither an entity nor a relation"))
        except ValueError as error:
            bad.append((number, str(error)))
    return entities, relations, bad


def _entity(told: Fields) -> Entity:
    texts = told.get("observations", [])
    return {
        "name": _text(told, "name"),
        "entityType": _text(told, "entityType"),
        "observations": [
            _checked(text, "list of observations")
            for text in (texts if isinstance(texts, list) else [None])
        ],
    }


def _relation(told: Fields) -> Relation:
    return {
        "from": _text(told, "from"),
        "to": _text(told, "to"),
        "relationType": _text(told, "relationType"),
    }


def _text(told: Fields, name: str) -> str:
    return _checked(told.get(name), name)


def _checked(value: Any, name: str) -> str:
    if not isinstance(value, str) or not json_text.is_encodable(value):
        raise ValueError(f"its {name} is not text")
    return value


def rendered(entities: list[Entity], relations: list[Relation]) -> bytes:
    """The lines of the reference server: no newline at the end."""
    return "\n".join(_lines(entities, relations)).encode()


def _lines(entities: list[Entity], relations: list[Relation]) -> Iterator[str]:
    for entity in entities:
        yield json_text.dumps({"type": "entity", **entity})
    for relation in relations:
        yield json_text.dumps({"type": "relation", **relation})
