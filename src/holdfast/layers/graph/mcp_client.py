"""A graph on the other side of MCP, as if it were here: the only place that imports the SDK.

The SDK is asynchronous and takes most of a second to load; all of that stays in here. ``reach``
starts a server or connects to it, lets ``work`` make its calls, and ends it; whatever goes wrong on
the way, and whatever takes longer than the limit, is ``Unreachable``.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from mcp import Client
    from mcp.client import Transport
    from mcp.types import CallToolResult

    from holdfast.layers.graph.servers import Server
    from holdfast.layers.graph.shapes import Addition, Deletion, Entity, Graph

    T = TypeVar("T")

EXTRA = "in Holdfast's checkout: pip install '.[mcp]'"


class Unreachable(Exception):
    """The server did not do its part; the message says how."""


class RemoteGraph:
    """The tools of a Memory server as calls. Used in a thread beside the one that waits for it."""

    def __init__(self, client: Client, deadline: float) -> None:
        self._client = client
        self._deadline = deadline

    def open_nodes(self, names: list[str]) -> Graph:
        return self._graph("open_nodes", {"names": names})

    def search_nodes(self, query: str) -> Graph:
        return self._graph("search_nodes", {"query": query})

    def _graph(self, tool: str, arguments: dict[str, Any]) -> Graph:
        told = self._call(tool, arguments)
        graph = told.structured_content
        if graph is None:  # a server from before answers had structure
            graph = json_text.loads(_text_of(told))
        return {"entities": graph["entities"], "relations": graph["relations"]}

    def create_entities(self, entities: list[Entity]) -> None:
        self._call("create_entities", {"entities": entities})

    def add_observations(self, observations: list[Addition]) -> None:
        self._call("add_observations", {"observations": observations})

    def delete_observations(self, deletions: list[Deletion]) -> None:
        self._call("delete_observations", {"deletions": deletions})

    def delete_entities(self, names: list[str]) -> None:
        self._call("delete_entities", {"entityNames": names})

    def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        from anyio import from_thread

        told = from_thread.run(self._answered, tool, arguments)
        if told.is_error:
            raise Unreachable(f"it refused {tool}: {_text_of(told)[:200]}")
        return told

    async def _answered(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        import anyio

        with anyio.fail_after(max(0.0, self._deadline - anyio.current_time())):
            return await self._client.call_tool(tool, arguments)


def reach(server: Server, folder: str, limit_s: float, work: Callable[[RemoteGraph], T]) -> T:
    """What ``work`` gives, done on the server within the limit."""
    try:
        import anyio
        import mcp  # noqa: F401
    except ImportError:
        raise Refused(
            "no_sdk",
            f"the server {server.name} speaks MCP, and the SDK for it is not installed",
            EXTRA,
        ) from None
    import logging

    # What the SDK has to say about a server is said in our own words.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False
    try:
        return anyio.run(_reached, server.filled(os.environ), folder, limit_s, work)
    except Exception as error:
        cause = _first(error)
        if isinstance(cause, (Refused, Unreachable)):
            raise cause from error
        if isinstance(cause, TimeoutError):
            raise Unreachable(f"it did not answer within {limit_s:g} s") from error
        raise Unreachable(f"{type(cause).__name__}: {str(cause)[:200]}") from error


async def _reached(
    server: Server, folder: str, limit_s: float, work: Callable[[RemoteGraph], T]
) -> T:
    import anyio

    with anyio.fail_after(limit_s) as scope:
        if server.url:
            return await _over_http(server, scope.deadline, work)
        return await _as_process(server, folder, scope.deadline, work)


async def _over_http(server: Server, deadline: float, work: Callable[[RemoteGraph], T]) -> T:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # The deadline is around all of it, so no call has a limit of its own.
    async with httpx2.AsyncClient(headers=server.headers, timeout=None) as http:
        return await _worked(streamable_http_client(server.url, http_client=http), deadline, work)


async def _as_process(
    server: Server, folder: str, deadline: float, work: Callable[[RemoteGraph], T]
) -> T:
    from mcp import StdioServerParameters, stdio_client

    told = StdioServerParameters(
        command=server.command, args=server.args, env=server.environment, cwd=folder
    )
    silence: Any = os.open(os.devnull, os.O_WRONLY)
    try:
        return await _worked(stdio_client(told, errlog=silence), deadline, work)
    finally:
        os.close(silence)


async def _worked(transport: Transport, deadline: float, work: Callable[[RemoteGraph], T]) -> T:
    from anyio import to_thread
    from mcp import Client

    async with Client(transport, cache=None) as client:
        return await to_thread.run_sync(work, RemoteGraph(client, deadline))


def _text_of(told: CallToolResult) -> str:
    return next((part.text for part in told.content if part.type == "text"), "")


def _first(error: BaseException) -> BaseException:
    """The first of a group of errors; groups are how the SDK's tasks end together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
