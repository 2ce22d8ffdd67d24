"""Call a Memory server over MCP, synchronously. The only module that imports the MCP SDK.

The SDK is asynchronous and takes most of a second to import; both stay inside this module.
``reach`` starts the server or connects to it, runs ``work`` with it, and ends it. An error on the
way, or a call that exceeds the time limit, is raised as ``Unreachable``.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

from holdfast.core import json_text
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any, TypeVar

    from mcp import Client
    from mcp.types import CallToolResult

    from holdfast.layers.graph import Addition, Deletion, Entity, Graph
    from holdfast.workspace.trust import ConfiguredServer

    T = TypeVar("T")

EXTRA = "in Holdfast's checkout: pip install '.[mcp]'"
_MAX_QUOTED = 200
"""Characters of a server's own words in a message."""


class Unreachable(Exception):
    """The server failed; the message says how."""


class RemoteGraph:
    """The tools of a Memory server as methods, for use in a worker thread of the event loop."""

    def __init__(self, client: Client, deadline: float) -> None:
        self._client = client
        self._deadline = deadline

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

    def _read(self, tool: str, arguments: dict[str, Any]) -> Graph:
        result = self._call(tool, arguments)
        graph = result.structured_content
        if graph is None:  # An older server answers with text only.
            graph = json_text.loads(_text_of(result))
        return {"entities": graph["entities"], "relations": graph["relations"]}

    def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        from anyio import from_thread

        result = from_thread.run(self._call_in_loop, tool, arguments)
        if result.is_error:
            raise Unreachable(f"it refused {tool}: {_text_of(result)[:_MAX_QUOTED]}")
        return result

    async def _call_in_loop(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        import anyio

        with anyio.fail_after(max(0.0, self._deadline - anyio.current_time())):
            return await self._client.call_tool(tool, arguments)


def reach(
    server: ConfiguredServer, folder: str, limit_s: float, work: Callable[[RemoteGraph], T]
) -> T:
    """Run ``work`` with the server and return its result.

    Raise ``Unreachable`` if the server fails or takes longer than the limit, and ``Refused`` if
    the SDK is not installed.
    """
    try:
        import anyio.to_thread
        import mcp  # noqa: F401
    except ImportError:
        raise Refused(
            "no_sdk",
            f"the server {server.name} speaks MCP, and the SDK for it is not installed",
            EXTRA,
        ) from None
    import logging

    # Errors are reported below; the SDK must not print them as well.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False

    async def run() -> T:
        with anyio.fail_after(limit_s) as scope:
            async with _client(server.expand(os.environ), folder) as client:
                graph = RemoteGraph(client, scope.deadline)
                return await anyio.to_thread.run_sync(work, graph)

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


@asynccontextmanager
async def _client(server: ConfiguredServer, folder: str) -> AsyncIterator[Client]:
    """Connect to a server over HTTP, or start its process and end it afterwards."""
    from mcp import Client, StdioServerParameters, stdio_client

    if server.url:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # The deadline covers everything, so single calls have no limit.
        async with httpx2.AsyncClient(headers=server.headers, timeout=None) as http:
            transport = streamable_http_client(server.url, http_client=http)
            async with Client(transport, cache=None) as client:
                yield client
        return
    parameters = StdioServerParameters(
        command=server.command, args=server.args, env=server.environment, cwd=folder
    )
    null: Any = os.open(os.devnull, os.O_WRONLY)
    try:
        async with Client(stdio_client(parameters, errlog=null), cache=None) as client:
            yield client
    finally:
        os.close(null)


def _text_of(result: CallToolResult) -> str:
    return next((part.text for part in result.content if part.type == "text"), "")
