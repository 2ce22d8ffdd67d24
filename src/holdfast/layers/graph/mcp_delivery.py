"""The user's own Memory server: call it over MCP, and deliver the graph (L3) to it.

A delivery takes as few calls as possible. The server's current content is compared first, so
repeating an update changes nothing. A small file beside the ledger has the last event that the
server acknowledged; after a kill before that, the same updates are delivered again. A server that
fails costs its time limit once and is then not called for five minutes, unless a person asks.

A server that is a process is reached by ``stdio_client``. One over HTTP needs the MCP SDK, which is
asynchronous and takes most of a second to import; both stay inside ``_reach_over_http``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from holdfast.core import json_text
from holdfast.core import time as times
from holdfast.core.json_text import digest
from holdfast.errors import Fault, Refused
from holdfast.layers.graph import projection
from holdfast.layers.graph.stdio_client import StdioClient, ToolResult, Unreachable, graph_of
from holdfast.workspace import trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.layers import LayerSource
    from holdfast.layers.graph import Addition, Deletion, Entity, Graph
    from holdfast.layers.graph.projection import EntityUpdate
    from holdfast.layers.graph.store import GraphStore
    from holdfast.workspace.trust import ConfiguredServer

    Work = Callable[["RemoteGraph"], Any]

POSITION_FILE = "graph-mcp.json"
LIMIT_S = 10.0
BACK_OFF_MS = 5 * 60 * 1_000
WARNING = "Memory MCP unavailable — operating in degraded mode (L1 only)"
RECOVERED = "Memory MCP is available again: L1 state was synced to L3"
_MAX_ENTITIES = 200
"""Entities that are read at once."""
_MAX_DIGITS = 15
"""A longer number is not a position in a ledger."""
EXTRA = "in Holdfast's checkout: pip install '.[mcp]'"
_MAX_QUOTED = 200
"""Characters of a server's own words in a message."""


# Calling


class RemoteGraph:
    """The tools of a Memory server as methods; ``call`` sends one call to it."""

    def __init__(self, call: Callable[[str, Fields], ToolResult]) -> None:
        self._call_tool = call

    def open_nodes(self, names: list[str]) -> Graph:
        return self._read("open_nodes", {"names": names})

    def search_nodes(self, query: str) -> Graph:
        return self._read("search_nodes", {"query": query})

    def create_entities(self, entities: list[Entity]) -> None:
        self._call("create_entities", {"entities": entities})

    def add_observations(self, observations: list[Addition]) -> None:
        self._call("add_observations", {"observations": observations})

    def delete_observations(self, deletions: list[Deletion]) -> None:
        self._call("delete_observations", {"deletions": deletions})

    def delete_entities(self, names: list[str]) -> None:
        self._call("delete_entities", {"entityNames": names})

    def _read(self, tool: str, arguments: Fields) -> Graph:
        graph: Any = graph_of(self._call(tool, arguments))
        return graph  # type: ignore[no-any-return]

    def _call(self, tool: str, arguments: Fields) -> ToolResult:
        result = self._call_tool(tool, arguments)
        if result.is_error:
            raise Unreachable(f"it refused {tool}: {result.text[:_MAX_QUOTED]}")
        return result


def reach(server: ConfiguredServer, folder: str, limit_s: float, work: Work) -> Any:
    """Run ``work`` with the server and return its result.

    Raise ``Unreachable`` if the server fails or takes longer than the limit, and ``Refused`` if it
    is reached over HTTP and the SDK for that is not installed.
    """
    expanded = server.expand(os.environ)
    if expanded.url:
        return _reach_over_http(expanded, limit_s, work)
    with StdioClient(expanded, folder, limit_s) as client:
        return work(RemoteGraph(client.call))


def _reach_over_http(server: ConfiguredServer, limit_s: float, work: Work) -> Any:
    try:
        import anyio.to_thread
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from mcp import Client
    except ImportError:
        raise Refused(
            "no_sdk",
            f"the server {server.name} speaks MCP over HTTP, and the SDK for it is not installed",
            EXTRA,
        ) from None
    import logging

    # Errors are reported below; the SDK must not print them as well.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False

    async def run() -> Any:
        with anyio.fail_after(limit_s) as scope:
            # The deadline covers everything, so single calls have no limit.
            async with httpx2.AsyncClient(headers=server.headers, timeout=None) as http:
                transport = streamable_http_client(server.url, http_client=http)
                async with Client(transport, cache=None) as client:

                    async def call_in_loop(tool: str, arguments: Fields) -> ToolResult:
                        with anyio.fail_after(max(0.0, scope.deadline - anyio.current_time())):
                            result = await client.call_tool(tool, arguments)
                        texts = [part.text for part in result.content if part.type == "text"]
                        value = result.structured_content
                        return ToolResult(value, "".join(texts[:1]), is_error=result.is_error)

                    def call(tool: str, arguments: Fields) -> ToolResult:
                        return anyio.from_thread.run(call_in_loop, tool, arguments)

                    return await anyio.to_thread.run_sync(work, RemoteGraph(call))

    try:
        return anyio.run(run)
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):  # The SDK's tasks fail as a group.
            cause = cause.exceptions[0]
        if isinstance(cause, (Refused, Unreachable)):
            raise cause from error
        if isinstance(cause, TimeoutError):
            raise Unreachable(f"it did not answer within {limit_s:g} s") from error
        raise Unreachable(f"{type(cause).__name__}: {str(cause)[:_MAX_QUOTED]}") from error


# Delivering


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
        """Begin the back-off after a failure."""
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


def is_unknown_to(source: LayerSource, name: str) -> bool:
    """Return whether nothing of this ledger was ever delivered to the server."""
    position = ServerPosition(source, _approved_server(source, name))
    return position.marks.get("ledger") != source.ledger.identity()


def deliver(
    source: LayerSource,
    name: str,
    *,
    everything: bool = False,
    at_once: bool = False,
    limit_s: float = LIMIT_S,
) -> Fields:
    """Bring the server up to date. Only one process delivers at a time.

    A server that failed recently is left alone, unless it is to be tried ``at_once``.

    Return the numbers of events and entities that were delivered, the last event that the server
    has (``seq``), and how many it lacks (``behind``). If it failed, ``why`` has the reason and
    ``until`` the time when it may be called again. Raise ``Refused`` if a person did not approve
    the server.
    """
    server = _approved_server(source, name)
    with _locked(source, limit_s):
        position = ServerPosition(source, server)
        # Read before the streams: what is recorded meanwhile is delivered again the next time.
        head, head_hash = source.ledger.head()
        start = 0 if everything else position.first_pending()
        events = entities = 0
        is_due = head != start or position.why
        if is_due and (at_once or not position.is_backing_off()):
            previous = position.marks.get("holder", "")
            updates, removed, holder = projection.read_changes(source, start, previous)

            def work(graph: RemoteGraph) -> int:
                return apply_updates(graph, updates, removed)

            try:
                entities = reach(server, source.workspace.root, limit_s, work)
            except Unreachable as error:
                position.back_off(str(error))
            else:
                events = head - start
                position.marks = {
                    "shape": projection.VERSION, "ledger": source.ledger.identity(),
                    "holder": holder, "seq": str(head), "hash": head_hash,
                }  # fmt: skip
                if position.why:
                    source.note(RECOVERED)
                position.why = ""
            position.save()
    if position.why:
        source.note(WARNING)
    return {
        "events": events,
        "entities": entities,
        "seq": position.seq,
        "behind": head - position.seq,
        "why": position.why,
        "until": times.iso(position.until_ms) if position.why else "",
    }


def call(
    source: LayerSource, name: str, work: Work, limit_s: float = LIMIT_S, *, at_once: bool = False
) -> Any:
    """Run ``work`` with the server and return its result.

    Raise ``Fault`` if the server fails, or during the back-off after a failure unless it is to be
    tried ``at_once``, and ``Refused`` if a person did not approve it.
    """
    server = _approved_server(source, name)
    position = ServerPosition(source, server)
    if at_once or not position.is_backing_off():
        try:
            return reach(server, source.workspace.root, limit_s, work)
        except Unreachable as error:
            position.back_off(str(error))
            # If nothing can be written, the next process tries again.
            with suppress(OSError), _locked(source, LIMIT_S):
                position.marks = ServerPosition(source, server).marks
                position.save()
    raise Fault(
        "graph_unavailable",
        f"{WARNING}: the server mcp:{name} failed: {position.why}",
        f"holdfast sync tries it at once; others do from {times.iso(position.until_ms)} on",
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
    graph: GraphStore | RemoteGraph, updates: list[EntityUpdate], removed: list[str]
) -> int:
    """Remove entities and apply updates; return the number of entities that changed."""
    obsolete = graph.open_nodes(removed)["entities"] if removed else []
    if obsolete:
        graph.delete_entities([entity["name"] for entity in obsolete])
    changed = len(obsolete)
    for start in range(0, len(updates), _MAX_ENTITIES):
        changed += _apply_batch(graph, updates[start : start + _MAX_ENTITIES])
    return changed


def _apply_batch(graph: GraphStore | RemoteGraph, updates: list[EntityUpdate]) -> int:
    observations: dict[str, list[str]] = {}
    for entity in graph.open_nodes([update["name"] for update in updates])["entities"]:
        observations.setdefault(entity["name"], entity["observations"])
    creations: list[Entity] = []
    deletions: list[Deletion] = []
    additions: list[Addition] = []
    for update in updates:
        name = update["name"]
        target = list(dict.fromkeys(update["observations"]))
        if name not in observations:
            kind = update["entityType"]
            creations.append({"name": name, "entityType": kind, "observations": target})
            continue
        if update["replaces"]:
            current = [text for text in observations[name] if text.startswith(update["replaces"])]
            # Everything after the first difference is replaced, to keep the order.
            equal = 0
            while equal < min(len(current), len(target)) and current[equal] == target[equal]:
                equal += 1
            stale, missing = current[equal:], target[equal:]
        else:
            stale, missing = [], [text for text in target if text not in observations[name]]
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
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0
