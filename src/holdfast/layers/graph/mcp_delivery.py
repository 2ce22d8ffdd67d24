"""Deliver the graph (L3) to the user's own Memory server, with as few calls as possible.

The server's current content is compared first, so repeating an update changes nothing. How far the
server is up to date is in a small file beside the ledger, written after the server acknowledged; a
kill in between delivers the same updates again. A server that fails costs its time limit once and
is then left alone for five minutes.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from holdfast.core import json_text
from holdfast.core import time as times
from holdfast.core.json_text import digest
from holdfast.errors import Fault
from holdfast.layers.graph import mcp_client, projection
from holdfast.workspace import trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.layers import LayerSource
    from holdfast.layers.graph import Addition, Deletion, Entity
    from holdfast.layers.graph.projection import EntityUpdate
    from holdfast.layers.graph.store import GraphStore
    from holdfast.workspace.trust import ConfiguredServer

    Work = Callable[[mcp_client.RemoteGraph], Any]
    Reach = Callable[[ConfiguredServer, str, float, Work], Any]

POSITION_FILE = "graph-mcp.json"
LIMIT_S = 10.0
BACK_OFF_MS = 5 * 60 * 1_000
WARNING = "Memory MCP unavailable — operating in degraded mode (L1 only)"
RECOVERED = "Memory MCP is available again: L1 state was synced to L3"
_MAX_ENTITIES = 200
"""Entities that are read at once."""
_MAX_DIGITS = 15
"""A longer number is not a position in a ledger."""


class Delivery:
    """The outcome of a delivery. ``why`` is empty unless the server failed."""

    __slots__ = ("behind", "entities", "events", "seq", "until", "why")

    def __init__(self) -> None:
        self.seq = 0
        self.events = 0
        self.entities = 0
        self.behind = 0
        """The number of events that the server still lacks."""
        self.why = ""
        self.until = ""
        """When a server that failed may be called again."""


class ServerPosition:
    """The position up to which one server has the ledger, and its last failure. Kept in a file."""

    def __init__(self, source: LayerSource, server: ConfiguredServer) -> None:
        self._source = source
        self._target = digest(f"{server.name}\n{server.text}".encode())
        stored = _parse(source.disk.read_own(_path(source)))
        if stored.get("target") != self._target:
            stored = {}
        self.marks: dict[str, str] = stored.get("marks", {})
        self.until_ms: int = stored.get("left_alone_until_ms", 0)
        self.why: str = stored.get("why", "")

    @property
    def seq(self) -> int:
        return _seq_in(self.marks)

    def first_pending(self) -> int:
        """Return the event after which the server lacks everything.

        Return 0 if the ledger does not have the event that was delivered last, because it was
        replaced or cut, and if the server has another version of the projection.
        """
        ledger = self._source.ledger
        delivered = (self.marks.get("shape"), self.marks.get("ledger"))
        if delivered != (projection.VERSION, ledger.identity()):
            return 0
        last = ledger.event_at(self.seq, self.marks.get("hash", ""))
        return 0 if last is None else self.seq

    def back_off(self, why: str) -> None:
        """Leave the server alone for a while, because it failed."""
        self.why = why
        self.until_ms = self._source.now_ms() + BACK_OFF_MS

    def is_backing_off(self) -> bool:
        """Return True during the back-off. Setting the clock back does not extend it."""
        return 0 < self.until_ms - self._source.now_ms() <= BACK_OFF_MS

    def save(self) -> None:
        """Write the file durably."""
        stored: Fields = {"target": self._target, "marks": self.marks}
        if self.why:
            stored |= {"left_alone_until_ms": self.until_ms, "why": self.why}
        data = f"{json_text.pretty(stored)}\n".encode()
        self._source.disk.replace_view(_path(self._source), data, durable=True)


def delivered_seq(source: LayerSource) -> int:
    """Return the last event that was delivered to any server; 0 if none is on record."""
    return _seq_in(_parse(source.disk.read(_path(source))).get("marks", {}))


def deliver(
    source: LayerSource,
    name: str,
    *,
    everything: bool = False,
    limit_s: float = LIMIT_S,
    reach: Reach = mcp_client.reach,
) -> Delivery:
    """Bring the server up to date, unless it failed recently. Only one process delivers at a time.

    Raise ``Refused`` if a person did not approve the server.
    """
    server = _approved_server(source, name)
    with _locked(source, limit_s):
        position = ServerPosition(source, server)
        # Read before the streams: what is recorded meanwhile is delivered again the next time.
        head, head_hash = source.ledger.head()
        start = 0 if everything else position.first_pending()
        delivery = Delivery()
        if (head != start or position.why) and not position.is_backing_off():
            changes = projection.read_changes(source, start, position.marks.get("holder", ""))

            def work(graph: mcp_client.RemoteGraph) -> int:
                return apply_updates(graph, changes.updates, changes.removed)

            try:
                delivery.entities = reach(server, source.workspace.root, limit_s, work)
            except mcp_client.Unreachable as error:
                position.back_off(str(error))
            else:
                delivery.events = head - start
                position.marks = {
                    "shape": projection.VERSION, "ledger": source.ledger.identity(),
                    "holder": changes.holder, "seq": str(head), "hash": head_hash,
                }  # fmt: skip
                if position.why:
                    source.note(RECOVERED)
                position.why = ""
            position.save()
    if position.why:
        source.note(WARNING)
        delivery.why = position.why
        delivery.until = times.iso(position.until_ms)
    delivery.seq = position.seq
    delivery.behind = head - position.seq
    return delivery


def call(
    source: LayerSource,
    name: str,
    work: Work,
    *,
    limit_s: float = LIMIT_S,
    reach: Reach = mcp_client.reach,
) -> Any:
    """Run ``work`` with the server and return its result.

    Raise ``Fault`` if the server fails, or failed recently and is left alone, and ``Refused`` if a
    person did not approve it.
    """
    server = _approved_server(source, name)
    position = ServerPosition(source, server)
    if not position.is_backing_off():
        try:
            return reach(server, source.workspace.root, limit_s, work)
        except mcp_client.Unreachable as error:
            position.back_off(str(error))
            # If nothing can be written, the next process tries again.
            with suppress(OSError), _locked(source, limit_s):
                position.marks = ServerPosition(source, server).marks
                position.save()
    raise Fault(
        "graph_unavailable",
        f"{WARNING}: the server mcp:{name} failed: {position.why}",
        f"holdfast sync, when it is back; it is left alone until {times.iso(position.until_ms)}",
    )


@contextmanager
def _locked(source: LayerSource, limit_s: float) -> Iterator[None]:
    """Let one process at a time deliver and record how far it came."""
    lock = source.disk.lock(f"{_path(source)}.lock", limit_s)
    try:
        yield
    finally:
        source.disk.close(lock)


def apply_updates(
    graph: GraphStore | mcp_client.RemoteGraph, updates: list[EntityUpdate], removed: list[str]
) -> int:
    """Remove entities and apply updates; return the number of entities that changed."""
    obsolete = graph.open_nodes(removed)["entities"] if removed else []
    if obsolete:
        graph.delete_entities([entity["name"] for entity in obsolete])
    changed = len(obsolete)
    for start in range(0, len(updates), _MAX_ENTITIES):
        changed += _apply_batch(graph, updates[start : start + _MAX_ENTITIES])
    return changed


def _apply_batch(graph: GraphStore | mcp_client.RemoteGraph, updates: list[EntityUpdate]) -> int:
    known: dict[str, list[str]] = {}
    for entity in graph.open_nodes([update["name"] for update in updates])["entities"]:
        known.setdefault(entity["name"], entity["observations"])
    creations: list[Entity] = []
    deletions: list[Deletion] = []
    additions: list[Addition] = []
    for update in updates:
        name = update["name"]
        target = list(dict.fromkeys(update["observations"]))
        if name not in known:
            kind = update["entityType"]
            creations.append({"name": name, "entityType": kind, "observations": target})
            continue
        stale, missing = _difference(target, update["replaces"], known[name])
        if stale:
            deletions.append({"entityName": name, "observations": stale})
        if missing:
            additions.append({"entityName": name, "contents": missing})
    if creations:
        graph.create_entities(creations)
    if deletions:
        graph.delete_observations(deletions)
    if additions:
        graph.add_observations(additions)
    return len(creations) + len({item["entityName"] for item in (*deletions, *additions)})


def _difference(
    target: list[str], replaces: tuple[str, ...], known: list[str]
) -> tuple[list[str], list[str]]:
    """Return what to delete and what to add: all after the first difference, to keep the order."""
    if not replaces:
        return [], [text for text in target if text not in known]
    current = [text for text in known if text.startswith(replaces)]
    equal = 0
    while equal < min(len(current), len(target)) and current[equal] == target[equal]:
        equal += 1
    return current[equal:], target[equal:]


def _approved_server(source: LayerSource, name: str) -> ConfiguredServer:
    server = trust.find_server(source.workspace, name)
    trust.check(source.workspace, f"mcp:{name}", server.text, trust.SERVERS_FILE)
    return server


def _path(source: LayerSource) -> str:
    return os.path.join(source.workspace.home, POSITION_FILE)


def _parse(raw: bytes | None) -> Fields:
    """Return the content of a position file; empty if it makes no sense."""
    try:
        stored = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson:
        return {}
    marks = stored.get("marks") if isinstance(stored, dict) else None
    is_valid = (
        isinstance(marks, dict)
        and all(isinstance(value, str) for value in marks.values())
        and isinstance(stored.get("left_alone_until_ms", 0), int)
        and isinstance(stored.get("why", ""), str)
    )
    return stored if is_valid else {}


def _seq_in(marks: dict[str, str]) -> int:
    text = marks.get("seq", "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else 0
