"""L3 on a Memory server of the user's own: what it has not heard of yet is delivered.

How far the server has got stands in a small file beside the ledger, written after the server
acknowledged. A kill in between delivers the same again, which changes nothing: current values are
compared before they are replaced, and the server takes an observation once. A server that fails
costs its time limit once, and is then left alone for a while.
"""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast.core import json_text
from holdfast.core import time as times
from holdfast.core.digest import digest
from holdfast.errors import Fault
from holdfast.layers.graph import apply, mcp_client, pending_events, projection, servers
from holdfast.workspace import trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.keeper.store import Store
    from holdfast.layers.graph.servers import Server
    from holdfast.layers.graph.shapes import Graph

    Reach = Callable[[Server, str, float, Callable[[mcp_client.RemoteGraph], Any]], Any]

NAME = "graph-mcp.json"
LIMIT_S = 10.0
LEFT_ALONE = "5m"
WARNING = "Memory MCP unavailable — operating in degraded mode (L1 only)"
RECOVERED = "Memory MCP is available again: L1 state was synced to L3"
_DIGITS = 16
"""A number with as many digits is no place in a ledger."""


class Delivered:
    """What came of a delivery. ``why`` is the trouble, if there was any."""

    __slots__ = ("behind", "entities", "events", "seq", "until", "why")

    def __init__(self, position: Position) -> None:
        self.seq = position.seq
        self.events = 0
        self.entities = 0
        self.behind = 0
        """How many events the server has not heard of."""
        self.why = ""
        self.until = ""
        """Until when a server that failed is left alone."""


class Position:
    """How far one server has got, as a file."""

    def __init__(self, store: Store, server: Server) -> None:
        self._disk = store.disk
        self._path = _path(store)
        self._target = digest(f"{server.name}\n{server.text}".encode())
        held = self._read()
        self.marks: dict[str, str] = held.get("marks", {})
        self.until_ms: int = held.get("left_alone_until_ms", 0)
        self.why: str = held.get("why", "")

    def _read(self) -> Fields:
        held = _parse(self._disk.read_own(self._path))
        return held if held.get("target") == self._target else {}

    @property
    def seq(self) -> int:
        return _seq_in(self.marks)

    @property
    def holder(self) -> str:
        """The workflow that is the entity ``workflow-state`` there."""
        return self.marks.get("holder", "")

    def start(self, store: Store) -> int:
        """Return the event after which the server has to hear of everything.

        That is 0 if the ledger does not have the event that the server heard of last: then the
        ledger was replaced or cut.
        """
        made_as = (self.marks.get("shape"), self.marks.get("ledger"))
        if made_as != (projection.VERSION, store.ledger.identity()):
            return 0
        last = store.ledger.event_at(self.seq, self.marks.get("hash", ""))
        return 0 if last is None else self.seq

    def leave_alone(self, now_ms: int, why: str) -> None:
        self.why = why
        self.until_ms = now_ms + (times.duration_s(LEFT_ALONE) or 0) * 1_000

    def is_left_alone(self, now_ms: int) -> bool:
        """True if it failed a short while ago; a clock that was set back does not prolong that."""
        return 0 < self.until_ms - now_ms <= (times.duration_s(LEFT_ALONE) or 0) * 1_000

    def keep(self) -> None:
        """Write it down, durably."""
        held: Fields = {"target": self._target, "marks": self.marks}
        if self.why:
            held |= {"left_alone_until_ms": self.until_ms, "why": self.why}
        data = f"{json_text.pretty(held)}\n".encode()
        self._disk.replace_view(self._path, data, durable=True)


def remembered_seq(store: Store) -> int:
    """Return the last event that any server heard of; 0 if none is on record."""
    return _seq_in(_parse(store.disk.read(_path(store))).get("marks", {}))


def _path(store: Store) -> str:
    return os.path.join(store.workspace.home, NAME)


def _parse(raw: bytes | None) -> Fields:
    """Return what the file of a position says; nothing if it makes no sense."""
    try:
        held = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson:
        return {}
    return held if isinstance(held, dict) and _is_position(held) else {}


def _is_position(held: Fields) -> bool:
    marks = held.get("marks")
    return (
        isinstance(marks, dict)
        and all(isinstance(value, str) for value in marks.values())
        and isinstance(held.get("left_alone_until_ms", 0), int)
        and isinstance(held.get("why", ""), str)
    )


def _seq_in(marks: dict[str, str]) -> int:
    text = marks.get("seq", "")
    is_number = text.isascii() and text.isdecimal() and len(text) < _DIGITS
    return int(text) if is_number else 0


def deliver(
    store: Store,
    name: str,
    *,
    everything: bool = False,
    limit_s: float = LIMIT_S,
    reach: Reach = mcp_client.reach,
) -> Delivered:
    """Bring the server up to date, unless it is being left alone."""
    server = _approved(store, name)
    lock = _lock(store, limit_s)
    try:
        return _deliver(store, server, limit_s, reach, everything=everything)
    finally:
        store.disk.close(lock)


def _lock(store: Store, limit_s: float) -> int:
    """Let one process deliver at a time, so that none overwrites another one's position."""
    return store.disk.lock(f"{_path(store)}.lock", limit_s)


def _deliver(
    store: Store, server: Server, limit_s: float, reach: Reach, *, everything: bool
) -> Delivered:
    position = Position(store, server)
    outcome = Delivered(position)
    # Read before the streams: what is recorded meanwhile is delivered again by the next delivery.
    head, head_hash = store.ledger.head()
    start = 0 if everything else position.start(store)
    if head == start and not position.why:
        return outcome
    if position.is_left_alone(store.now_ms()):
        outcome.why = position.why
    else:
        update = pending_events.since(store, start, position.holder)
        try:
            outcome.entities = reach(
                server,
                store.workspace.root,
                limit_s,
                lambda graph: apply.apply(graph, update.operations, update.gone),
            )
        except mcp_client.Unreachable as error:
            position.leave_alone(store.now_ms(), str(error))
            outcome.why = position.why
        else:
            outcome.events = head - start
            position.marks = {
                "shape": projection.VERSION, "ledger": store.ledger.identity(),
                "holder": update.holder, "seq": str(head), "hash": head_hash,
            }  # fmt: skip
            if position.why:
                store.note(RECOVERED)
            position.why = ""
        position.keep()
    if outcome.why:
        store.note(WARNING)
        outcome.until = times.iso(position.until_ms)
    outcome.seq = position.seq
    outcome.behind = head - position.seq
    return outcome


def search(
    store: Store,
    name: str,
    query: str,
    *,
    limit_s: float = LIMIT_S,
    reach: Reach = mcp_client.reach,
) -> Graph:
    """Return what the server finds; raise ``Fault`` if it fails, and leave it alone for a while."""
    server = _approved(store, name)
    position = Position(store, server)
    if not position.is_left_alone(store.now_ms()):
        try:
            graph: Graph = reach(
                server, store.workspace.root, limit_s, lambda graph: graph.search_nodes(query)
            )
        except mcp_client.Unreachable as error:
            position = _leave_alone(store, server, str(error), limit_s)
        else:
            return graph
    raise _unavailable(position)


def _leave_alone(store: Store, server: Server, why: str, limit_s: float) -> Position:
    """Remember that a server failed, beside how far it has got.

    Where nothing can be written, the next process finds out for itself.
    """
    try:
        lock = _lock(store, limit_s)
    except OSError:
        position = Position(store, server)
        position.leave_alone(store.now_ms(), why)
        return position
    try:
        position = Position(store, server)
        position.leave_alone(store.now_ms(), why)
        with suppress(OSError):
            position.keep()
    finally:
        store.disk.close(lock)
    return position


def _unavailable(position: Position) -> Fault:
    return Fault(
        "graph_unavailable",
        f"{WARNING}: {position.why}",
        f"holdfast sync, when it is back; it is left alone until {times.iso(position.until_ms)}",
    )


def reached(
    store: Store,
    name: str,
    work: Callable[[mcp_client.RemoteGraph], Any],
    *,
    limit_s: float = LIMIT_S,
    reach: Reach = mcp_client.reach,
) -> Any:
    """Do some work with the server, for a caller that has nowhere else to write to."""
    server = _approved(store, name)
    position = Position(store, server)
    if position.is_left_alone(store.now_ms()):
        raise _unavailable(position)
    try:
        return reach(server, store.workspace.root, limit_s, work)
    except mcp_client.Unreachable as error:
        _leave_alone(store, server, str(error), limit_s)
        hint = "make the folder writable, then run the same command again"
        raise Fault("graph_unavailable", f"the server mcp:{name} failed: {error}", hint) from error


def _approved(store: Store, name: str) -> Server:
    server = servers.find(store.workspace, name)
    trust.check(store.workspace, f"mcp:{name}", server.text, servers.FILE)
    return server
