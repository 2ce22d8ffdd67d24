"""Search what happened: the events of one or all of this person's repositories, and loops' logs.

An event is found through the index beside its ledger (``storage/search_index.py``), which is filled
first, and read in the ledger. Where the file cannot be written, the newest events that it lacks are
indexed in memory, and a note says so. Of a loop's ``progress.md`` only what people wrote between
the entries is read, at each search: the entries themselves are events.
"""

from __future__ import annotations

import os
from contextlib import suppress
from operator import itemgetter

from holdfast.core import time as times
from holdfast.core.event_text import text_of
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import is_workflow
from holdfast.keeper.audit import no_progress
from holdfast.keeper.record_folders import PROGRESS
from holdfast.storage import search_index
from holdfast.storage.ledger import OWN_STREAM, Ledger
from holdfast.storage.search_index import MAX_UNINDEXED, SearchIndex, Unusable, snippets
from holdfast.workspace.repositories import repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.types import Event, Fields
    from holdfast.keeper.audit import Progress
    from holdfast.keeper.store import Store
    from holdfast.workspace.location import Workspace

LIMIT = 20
_LOOPS = "format = 'loop' ORDER BY updated_at DESC, seq DESC LIMIT ?"
_MAX_LOOPS = 200
_MAX_LOG_BYTES = 1024 * 1024
_HEADING = "## "
_OF_ENTRY = (_HEADING, "**", "  ")
"""The beginnings of lines that belong to an entry of a loop's log."""


def search(
    store: Store, words: str, *, limit: int = LIMIT, everywhere: bool = False,
    progress: Progress | None = None,
) -> Fields:  # fmt: skip
    """Return the ``hits`` that have all of the words, the best first, and the ``repositories``.

    Raise ``Refused`` if there is no word to search for.
    """
    query = search_index.as_query(words)
    if limit < 1:
        raise Refused("invalid", "search: the limit is less than 1", "holdfast search WORDS")
    own = store.workspace
    chosen = [_Repository(store, own, store.ledger, store.note)]
    for other in repositories() if everywhere else ():
        if other.home != own.home:
            ledger = Ledger(other.home, store.disk, store.wait_s)
            chosen.append(_Repository(store, other, ledger, _named(store, other)))
    found: list[tuple[float, Fields]] = []
    searched = []
    for repository in chosen:
        try:
            found += repository.search(query, limit, progress or no_progress)
        except (HoldfastError, OSError) as error:
            if repository.workspace is own:
                raise
            repository.note(f"not searched: {error}")
            continue
        searched.append(repository.workspace.project)
    found.sort(key=itemgetter(0))
    hits = [hit for _, hit in found[:limit]]
    return {"query": words, "hits": hits, "repositories": searched}


def _named(store: Store, other: Workspace) -> Callable[[str], None]:
    return lambda text: store.note(f"{other.project}: {text}")


class _Repository:
    """One repository that is searched."""

    def __init__(
        self, store: Store, workspace: Workspace, ledger: Ledger, note: Callable[[str], None]
    ) -> None:
        self.workspace = workspace
        self.note = note
        self._store = store
        self._ledger = ledger

    def search(
        self, query: str, limit: int, progress: Progress
    ) -> list[tuple[float, Fields]]:  # fmt: skip
        """Return the best hits, each after its rank: a lower one is better."""
        if not self._ledger.head_seq:
            return []
        for lost in self._ledger.check_archives(is_whole=False):
            events = f"its {lost['events']:,} events are not searched"
            self.note(f"the archive {lost['archive']}: {lost['why']}; {events}")
        ranked = self._find(query, limit, progress)
        ranked = sorted(ranked, key=lambda found: (found[0], -found[1]))[:limit]
        return [*self._events(query, ranked), *self._remarks(query, limit)]

    def _find(self, query: str, limit: int, progress: Progress) -> list[tuple[float, int]]:
        """Return rank and seq of the best hits. An index that is damaged is made anew, once."""
        for is_retry in (False, True):
            ranked: list[tuple[float, int]] = []
            seq, why = 0, ""
            try:
                with SearchIndex.open(self._ledger, self._store.disk) as index:
                    why = self._fill(index, progress)
                    ranked, seq = index.find(query, limit), index.seq
            except Unusable as unusable:
                why = str(unusable)
                if unusable.is_damaged and not is_retry:
                    with suppress(OSError):
                        search_index.remove(self._ledger, self._store.disk)
                    continue
            break
        return [*ranked, *self._find_newest(query, limit, seq, why, progress)] if why else ranked

    def _fill(self, index: SearchIndex, progress: Progress) -> str:
        """Add what is new to the index; return why that is not possible."""
        try:
            index.fill(self._ledger, progress)
        except Unusable as unusable:
            if unusable.is_damaged:
                raise
            return str(unusable)
        return ""

    def _find_newest(
        self, query: str, limit: int, indexed: int, why: str, progress: Progress
    ) -> list[tuple[float, int]]:
        """Return the best hits after the events that the file has, from an index in memory."""
        head = self._ledger.head_seq
        after = max(indexed, head - MAX_UNINDEXED)
        note = f"{search_index.NAME} cannot be brought up to date ({why}): the newest "
        note += f"{head - after:,} events were searched without it"
        if after > indexed:
            note += f", and {after - indexed:,} before them were not searched"
        self.note(note)
        with SearchIndex.in_memory() as newest:
            newest.fill(self._ledger, progress, after)
            return newest.find(query, limit)

    def _events(
        self, query: str, ranked: list[tuple[float, int]]
    ) -> list[tuple[float, Fields]]:  # fmt: skip
        """Return the events that were found, as hits."""
        events: dict[int, Event] = {}
        for _, seq in ranked:
            try:
                events[seq] = self._ledger.event_of_seq(seq)
            except Fault as fault:
                self.note(f"event {seq} was found, but cannot be read: {fault.message}")
        texts = {seq: (text_of(event), event["type"]) for seq, event in events.items()}
        shown = snippets(query, texts)
        streams = list({event["stream"] for event in events.values()})
        marks = ", ".join("?" * len(streams))
        rows = {row["id"]: row for row in self._ledger.rows(f"stream IN ({marks})", *streams)}
        hits = []
        for rank, seq in ranked:
            if seq in shown:
                event = events[seq]
                hit = {"seq": seq, "at": event["at"], "type": event["type"]}
                hits.append((rank, self._hit(event["stream"], rows, hit, shown[seq])))
        return hits

    def _hit(self, stream: str, rows: dict[str, Fields], found: Fields, shown: Fields) -> Fields:
        row = rows.get(stream, {})
        is_loop = row.get("format") == "loop"
        kind = "loop" if is_loop else row.get("kind", OWN_STREAM.strip("_"))
        if not is_workflow(stream):
            command = ["holdfast", "log", stream]
        elif found["seq"] is None:
            command = ["holdfast", "show", stream]
        else:
            command = ["holdfast", "show", stream, "--at", str(found["seq"])]
        return {
            **found, "stream": stream, "kind": kind, **shown,
            "title": row.get("title") or row.get("subject"), "repository": self.workspace.project,
            "open": command,
        }  # fmt: skip

    def _remarks(self, query: str, limit: int) -> list[tuple[float, Fields]]:
        """Return what people wrote between the entries of loops' logs, as hits."""
        rows = {row["id"]: row for row in self._ledger.rows(_LOOPS, _MAX_LOOPS)}
        remarks = [remark for row in rows.values() for remark in self._remarks_of(row)]
        if not remarks:
            return []
        texts = {number: (text, PROGRESS) for number, (_, _, text) in enumerate(remarks, 1)}
        with SearchIndex.in_memory() as index:
            index.add(texts)
            ranked = index.find(query, limit)
        shown = snippets(query, texts)
        hits = []
        for rank, number in ranked:
            stream, at, _ = remarks[number - 1]
            found = {"seq": None, "at": at, "type": PROGRESS}
            hits.append((rank, self._hit(stream, rows, found, shown[number])))
        return hits

    def _remarks_of(self, row: Fields) -> Iterator[tuple[str, str, str]]:
        """Yield loop, time and text of each paragraph of a log that is not part of an entry."""
        root = self.workspace.root_of(row["worktree"])
        if root is None or not row["record"]:
            return
        try:
            path = self.workspace.inside(root, f"{os.path.dirname(row['record'])}/{PROGRESS}")
            raw = self._store.disk.read_end(path, _MAX_LOG_BYTES)
            at = times.iso(os.stat(path).st_mtime_ns // 1_000_000)
        except (HoldfastError, OSError):
            return
        for text in _paragraphs(raw.decode(errors="replace")):
            yield row["id"], at, text


def _paragraphs(log: str) -> Iterator[str]:
    """Yield the paragraphs of a log that are not part of its entries."""
    is_in_entry, paragraph = False, ""
    for line in [*log.splitlines(), ""]:
        if line.startswith(_HEADING):
            is_in_entry = times.epoch_ms(line.rpartition(" - ")[2].strip()) is not None
        if line.strip() and not line.startswith(_OF_ENTRY if is_in_entry else "# "):
            paragraph += f"{line}\n"
        elif paragraph:
            yield paragraph.strip()
            paragraph = ""
