"""Keep the JSONL file of a memory graph in step with its database.

The database is what counts, and the file is a view of it, for the reference Memory server and for
people. It is replaced as a whole, through ``shared_file``, so that no reader sees half of it and no
edit is overwritten unseen. One process at a time does that, under a lock of its own; writers of the
database do not wait for it.

Other programs that write the file take no lock. Its content is compared with the one that was last
written or read; if it differs, it is merged into the graph before the file is written again. What
the graph loses by that, and lines that it cannot hold, are appended to a file beside it.
"""

from __future__ import annotations

import os
from itertools import count

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.core.text_merge import merge_lines
from holdfast.errors import Fault, Refused, damaged_graph
from holdfast.layers.graph import jsonl
from holdfast.layers.graph.merge import OwnChanges, merge
from holdfast.storage import shared_file
from holdfast.system.disk import MAX_FILE_BYTES, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.types import Fields
    from holdfast.layers.graph import Entity, Graph, Key
    from holdfast.layers.graph.jsonl import ParsedFile
    from holdfast.layers.graph.store import GraphStore
    from holdfast.system.disk import Disk

KEPT_SUFFIX = ".kept"
"""The suffix of the file for lines that neither the file nor the graph has any more."""
_RECENT_S = 10.0
"""For so long after a change was written, a file that lacks it does not delete it.

The reference server reads the file and writes it a moment later, without a lock.
"""


class JsonlFile:
    """The file of one graph."""

    def __init__(
        self, path: str, lock: Lock, disk: Disk, wait_s: float, clock: Callable[[], float]
    ) -> None:
        self.path = path
        self.notes: list[str] = []
        """Notes for a person."""
        self._lock = lock
        self._disk = disk
        self._wait_s = wait_s
        self._clock = clock
        self._seen: tuple[int, ...] = ()
        """The version of the file that was last read or written, by this process or another."""
        self._foreign: tuple[int, ...] = ()
        """The version of the file that was found not to be a memory's; empty if none was."""
        self._digest = ""
        self._last_change = 0
        self.size = 0
        """The number of bytes that were last read or written."""

    def is_current(self, store: GraphStore) -> bool:
        """Return True if, going by its status, no other program has changed the file."""
        seen = version_of(self.path)
        if seen and seen != self._seen:
            mark = read_mark(store)
            if mark is None or mark["seen"] != list(seen[1:]):
                return False
            self._seen = seen
        return True

    def is_behind(self, store: GraphStore) -> bool:
        """Return True if the graph has changes that are not in the file."""
        mark = read_mark(store)
        return mark is None or mark.get("behind", False) or store.last_change() > 0

    def is_foreign(self, store: GraphStore) -> bool:
        """Return True if what is at the path is not a memory's file, and never was one."""
        if read_mark(store) is not None:
            return False
        version = version_of(self.path)
        if version and version != self._foreign:
            raw = self._disk.read(self.path, MAX_FILE_BYTES)
            self._foreign = version if jsonl.parse(raw or b"").is_foreign else ()
        return version != () and version == self._foreign

    def sync(self, store: GraphStore) -> None:
        """Bring what others wrote into the graph, and the graph into the file.

        Raise ``Fault`` or ``OSError`` if the file cannot be read or written; then nothing is lost,
        and the next call tries again.
        """
        self._lock.acquire(self._wait_s)
        try:
            spares = shared_file.clear_spares(
                self._disk, self.path, lambda raw: _is_known(store, raw)
            )
            for spare in spares:
                self.notes.append(f"what a killed process left beside {self.path} is in {spare}")
            turns = count()
            shared_file.settle(
                self._disk,
                self.path,
                lambda raw: self._next_content(store, raw, is_late=next(turns) > 0),
                self.notes.append,
                merge=merge_lines,
                prepares_all=True,
            )
            self._record(store)
        finally:
            self._lock.release()

    def take_in(self, store: GraphStore, raw: bytes, *, is_late: bool = False) -> bytes:
        """Merge the content of the file into the graph; return what the file should hold then.

        With ``is_late``, the content was saved while the file was being replaced. For a moment the
        file was without it, and a program that read it then deletes nothing by writing it.
        """
        parsed = jsonl.parse(raw)
        with store.writing():
            mark = read_mark(store)
            if mark is None and parsed.is_foreign:
                raise Refused(
                    "in_the_way",
                    f"{self.path} is not the file of a memory: no line of it is valid",
                    "name another one: --file PATH",
                )
            unsaved: set[Key] = set()
            recent: set[Key] = set()
            if mark is not None:
                unsaved, recent = store.changes(self._clock() - _RECENT_S)
            # The writer of an empty file, or of one with a torn line, was stopped in the middle.
            is_whole = raw.strip() != b"" and not parsed.bad
            is_known = mark is not None and not mark.get("behind")
            own = OwnChanges(unsaved, recent, is_complete=is_known and is_whole)
            ours = store.read_graph()
            merged = merge(parsed.graph, ours, own)
            self._keep_lost(parsed, ours, merged)
            store.replace_graph(merged)
            write_mark(store, digest=digest(raw))
            if is_late:
                store.record_additions(ours, merged)
            self._last_change = store.last_change()
        return raw if merged == parsed.graph else jsonl.render(merged)

    def _next_content(self, store: GraphStore, raw: bytes | None, *, is_late: bool) -> bytes | None:
        """Return what the file should hold, given what it holds; take that in if it is new."""
        mark = read_mark(store)
        content = raw
        self._last_change = 0
        if raw is not None and (mark is None or mark["digest"] != digest(raw)):
            content = self.take_in(store, raw, is_late=is_late)
        elif raw is None or self.is_behind(store):
            content = self._render(store)
        self.size = len(content or b"")
        if self.size > MAX_FILE_BYTES:
            raise Fault(
                "not_written",
                f"{self.path} is not kept up to date: the graph has {self.size:,} bytes, and at "
                f"most {MAX_FILE_BYTES:,} are written",
                "move the file away; the database has everything",
            )
        self._digest = digest(content or b"")
        return content

    def _render(self, store: GraphStore) -> bytes | None:
        """Return the graph as lines; ``None`` if it is empty and never was in a file."""
        if read_mark(store) is None:
            write_mark(store)
        with store.reading():
            self._last_change = store.last_change()
            graph = store.read_graph()
        is_new = not os.path.lexists(self.path)
        is_empty = not graph["entities"] and not graph["relations"]
        return None if is_new and is_empty else jsonl.render(graph)

    def _record(self, store: GraphStore) -> None:
        """Record in the database which content the file has."""
        seen = version_of(self.path)
        raw = self._disk.read(self.path)
        is_ours = digest(raw or b"") == self._digest and seen == version_of(self.path)
        self._seen = seen if is_ours else ()
        mark = {"digest": self._digest, "seen": list(self._seen[1:])}
        if self._last_change or mark != read_mark(store):
            now = self._clock()
            with store.writing():
                write_mark(store, **mark)
                store.mark_saved(self._last_change, now, now - _RECENT_S)

    def _keep_lost(self, parsed: ParsedFile, ours: Graph, merged: Graph) -> None:
        """Add what neither the file nor the graph will have any more to the kept file; note it."""
        self.notes += jsonl.faults(self.path, parsed)
        lost = [line.strip() for _, line in parsed.not_held]
        lost += [*_lost(ours, merged), *_lost(parsed.graph, merged)]
        path = self.path + KEPT_SUFFIX
        kept = set((self._disk.read(path, MAX_FILE_BYTES) or b"").split(b"\n"))
        lost = [line for line in dict.fromkeys(lost) if line not in kept]
        if lost:
            self._disk.extend(path, b"".join(line + b"\n" for line in lost), is_own=True)
            fd = self._disk.open_read(path)
            try:
                self._disk.sync(fd)
            finally:
                self._disk.close(fd)
            count = "1 line" if len(lost) == 1 else f"{len(lost)} lines"
            self.notes.append(f"{count} of {self.path} that the graph does not hold: see {path}")


def _lost(before: Graph, after: Graph) -> Iterator[bytes]:
    """Yield lines with what the first graph has and the second has not."""
    texts: dict[str, set[str]] = {}
    for entity in after["entities"]:
        texts.setdefault(entity["name"], set()).update(entity["observations"])
    for entity in before["entities"]:
        held = texts.get(entity["name"])
        gone = [text for text in entity["observations"] if held is None or text not in held]
        if gone or held is None:
            rest: Entity = {**entity, "observations": gone}
            yield jsonl.entity_line(rest).encode()
    relations = {jsonl.relation_line(relation) for relation in after["relations"]}
    for relation in before["relations"]:
        line = jsonl.relation_line(relation)
        if line not in relations:
            yield line.encode()


def _is_known(store: GraphStore, raw: bytes) -> bool:
    """Return True if the file held this last, or if the graph has all of it.

    A process that was killed while it wrote may have left a part of its last line.
    """
    mark = read_mark(store)
    if mark is not None and mark["digest"] == digest(raw):
        return True
    parsed = jsonl.parse(raw)
    last = raw.count(b"\n") + 1
    is_valid = all(number == last for number, _ in parsed.bad)
    return is_valid and not any(_lost(parsed.graph, store.read_graph()))


# The mark in the database: the digest of the file's content, and the status it had then


def read_mark(store: GraphStore) -> Fields | None:
    """Return what is known about the file; ``None`` if the graph is not kept in one."""
    text = store.file_mark()
    if text is None:
        return None
    try:
        mark: Fields = json_text.loads(text)
        return {"digest": mark["digest"], "seen": list(mark["seen"]), **mark}
    except (ValueError, TypeError, KeyError) as error:
        raise damaged_graph(store.path, "what it says of its file cannot be read") from error


def write_mark(store: GraphStore, **mark: object) -> None:
    store.set_file_mark(json_text.dumps({"digest": "", "seen": [], **mark}))


def version_of(path: str) -> tuple[int, ...]:
    """Return inode, size and time of a file; empty if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
