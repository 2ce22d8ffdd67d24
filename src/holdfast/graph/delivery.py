"""L3 on the user's own Memory server: what of the ledger it has not had yet is delivered.

How far it has got stands in a small file of the workspace, written after the server acknowledged.
A kill in between delivers the same again, which changes nothing: current values are compared before
they are replaced, and the server takes an observation once. A server that fails costs its time
limit once, then it is left alone for a while.
"""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast import jsontext, trust
from holdfast.core import moment
from holdfast.digest import digest
from holdfast.errors import Fault
from holdfast.graph import applying, history, remote, servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.shapes import Fields
    from holdfast.engine import Engine
    from holdfast.graph.servers import Server
    from holdfast.graph.shapes import Graph

    Reach = Callable[[Server, str, float, Callable[[remote.RemoteGraph], Any]], Any]

NAME = "graph-mcp.json"
LIMIT_S = 10.0
LEFT_ALONE = "5m"
WARNING = "Memory MCP unavailable — operating in degraded mode (L1 only)"
RECOVERED = "Memory MCP is available again: L1 state was synced to L3"


class Delivered:
    """What came of a delivery. ``why`` is the trouble, where there was one."""

    __slots__ = ("behind", "entities", "events", "seq", "until", "why")

    def __init__(self, position: Position) -> None:
        self.seq = position.seq
        self.events = 0
        self.entities = 0
        self.behind = 0
        """How many events the server has not had."""
        self.why = ""
        self.until = ""
        """Until when a server that failed is left alone."""


class Position:
    """How far one server has got, as a file."""

    def __init__(self, engine: Engine, server: Server) -> None:
        self._disk = engine.disk
        self._path = os.path.join(engine.workspace.home, NAME)
        self._target = digest(f"{server.name}\n{server.text}".encode())
        held = self._read()
        self.marks: dict[str, str] = held.get("marks", {})
        self.until_ms: int = held.get("left_alone_until_ms", 0)
        self.why: str = held.get("why", "")

    def _read(self) -> Fields:
        try:
            held = jsontext.loads(self._disk.read_own(self._path) or b"{}", strict=True)
        except jsontext.BadJson:
            return {}
        is_ours = isinstance(held, dict) and held.get("target") == self._target
        return held if is_ours and _is_position(held) else {}

    @property
    def seq(self) -> int:
        return int(self.marks.get("seq", "0"))

    def leave_alone(self, now_ms: int, why: str) -> None:
        self.why = why
        self.until_ms = now_ms + (moment.duration_s(LEFT_ALONE) or 0) * 1_000

    def is_left_alone(self, now_ms: int) -> bool:
        """Whether it failed a short while ago; a clock that was set back makes it no longer."""
        return 0 < self.until_ms - now_ms <= (moment.duration_s(LEFT_ALONE) or 0) * 1_000

    def keep(self) -> None:
        """Remembers it, durably."""
        held: Fields = {"target": self._target, "marks": self.marks}
        if self.why:
            held |= {"left_alone_until_ms": self.until_ms, "why": self.why}
        data = f"{jsontext.pretty(held)}\n".encode()
        self._disk.replace_view(self._path, data, durable=True)


def remembered_seq(engine: Engine) -> int:
    """The last event that the server had, whichever server it was; 0 where nothing says so."""
    try:
        held = jsontext.loads(engine.disk.read(os.path.join(engine.workspace.home, NAME)) or b"{}")
    except jsontext.BadJson:
        return 0
    is_told = isinstance(held, dict) and _is_position(held)
    return int(held["marks"].get("seq", "0")) if is_told else 0


def _is_position(held: Fields) -> bool:
    """Whether a file says what one of ours does; else everything is delivered again."""
    marks = held.get("marks")
    return (
        isinstance(marks, dict)
        and all(isinstance(value, str) for value in marks.values())
        and marks.get("seq", "0").isdecimal()
        and isinstance(held.get("left_alone_until_ms", 0), int)
        and isinstance(held.get("why", ""), str)
    )


def deliver(
    engine: Engine,
    name: str,
    *,
    everything: bool = False,
    limit_s: float = LIMIT_S,
    reach: Reach = remote.reach,
) -> Delivered:
    """Brings the server up to date, unless it is being left alone."""
    server = _approved(engine, name)
    lock = _locked(engine, limit_s)
    try:
        return _delivered(engine, server, limit_s, reach, everything=everything)
    finally:
        engine.disk.close(lock)


def _locked(engine: Engine, limit_s: float) -> int:
    """One delivery at a time; and nobody overwrites what another one has delivered."""
    return engine.disk.lock(os.path.join(engine.workspace.home, f"{NAME}.lock"), limit_s)


def search(
    engine: Engine, name: str, query: str, *, limit_s: float = LIMIT_S, reach: Reach = remote.reach
) -> Graph:
    """What the server finds, for a reader; a server that fails is a ``Fault``, and left alone."""
    server = _approved(engine, name)
    position = Position(engine, server)
    if not position.is_left_alone(engine.now_ms()):
        try:
            found: Graph = reach(
                server, engine.workspace.root, limit_s, lambda graph: graph.search_nodes(query)
            )
        except remote.Unreachable as error:
            position = _left_alone(engine, server, str(error), limit_s)
        else:
            return found
    raise _unavailable(position)


def _left_alone(engine: Engine, server: Server, why: str, limit_s: float) -> Position:
    """Remembers that a server failed, beside how far it has got."""
    lock = _locked(engine, limit_s)
    try:
        position = Position(engine, server)
        position.leave_alone(engine.now_ms(), why)
        position.keep()
    finally:
        engine.disk.close(lock)
    return position


def _unavailable(position: Position) -> Fault:
    return Fault(
        "graph_unavailable",
        f"{WARNING}: {position.why}",
        f"holdfast sync, when it is back; it is left alone until {moment.iso(position.until_ms)}",
    )


def reached(
    engine: Engine,
    name: str,
    work: Callable[[remote.RemoteGraph], Any],
    *,
    limit_s: float = LIMIT_S,
    reach: Reach = remote.reach,
) -> Any:
    """What the work with the server gives, for somebody who has no other place to write to."""
    server = _approved(engine, name)
    position = Position(engine, server)
    if position.is_left_alone(engine.now_ms()):
        raise _unavailable(position)
    try:
        return reach(server, engine.workspace.root, limit_s, work)
    except remote.Unreachable as error:
        with suppress(OSError):  # Where nothing can be written, the next one finds out for itself.
            _left_alone(engine, server, str(error), limit_s)
        hint = "make the folder writable, then run the same command again"
        raise Fault("graph_unavailable", f"the server mcp:{name} failed: {error}", hint) from error


def _approved(engine: Engine, name: str) -> Server:
    server = servers.find(engine.workspace, name)
    trust.check(engine.workspace, f"mcp:{name}", server.text, servers.FILE)
    return server


def _delivered(
    engine: Engine, server: Server, limit_s: float, reach: Reach, *, everything: bool
) -> Delivered:
    position = Position(engine, server)
    marks = {"holder": position.marks.get("holder", "")} if everything else position.marks
    found = Delivered(position)
    if history.is_current(engine, marks) and not position.why:
        return found
    if position.is_left_alone(engine.now_ms()):
        found.why = position.why
    else:
        lacking = history.outstanding(engine, marks)
        try:
            found.entities = reach(
                server,
                engine.workspace.root,
                limit_s,
                lambda graph: applying.apply(graph, lacking.operations, lacking.gone),
            )
        except remote.Unreachable as error:
            position.leave_alone(engine.now_ms(), str(error))
            found.why = position.why
        else:
            found.events = lacking.events
            position.marks = {**position.marks, **lacking.marks}
            if position.why:
                engine.note(RECOVERED)
            position.why = ""
        position.keep()
    if found.why:
        engine.note(WARNING)
        found.until = moment.iso(position.until_ms)
    found.seq = position.seq
    found.behind = engine.ledger.head_seq - position.seq
    return found


def position_of(engine: Engine, name: str) -> tuple[int, str]:
    """The last event that the server has had, and its trouble; without asking it anything."""
    position = Position(engine, servers.find(engine.workspace, name))
    return position.seq, position.why
