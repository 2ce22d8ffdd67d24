"""Our server in a project's ``.mcp.json``: recognise it, add it, remove it.

An entry named ``holdfast`` is ours only if it runs our command; any other one stays.
"""

from __future__ import annotations

import os

from holdfast.install.json_settings import Misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields, Json

FILE = ".mcp.json"
SERVERS = "mcpServers"
NAME = "holdfast"
OURS: Fields = {"command": "holdfast", "args": ["mcp"]}


def add_server(settings: Json) -> None:
    """Add our server; raise ``Misfit`` if it does not fit in."""
    if not isinstance(settings, dict):
        raise Misfit([], "the file must be an object")
    servers = settings.setdefault(SERVERS, {})
    if not isinstance(servers, dict):
        raise Misfit([SERVERS], f"{SERVERS} must be an object")
    servers.setdefault(NAME, OURS)


def remove_server(settings: Json, kept: Iterable[str] = ()) -> None:
    """Remove our server, and the object around it if that is then empty and not in ``kept``."""
    if not has_ours(settings):
        return
    del settings[SERVERS][NAME]
    if not settings[SERVERS] and SERVERS not in kept:
        del settings[SERVERS]


def has_ours(settings: Json) -> bool:
    """Return True if the settings have our server."""
    servers = settings.get(SERVERS) if isinstance(settings, dict) else None
    return isinstance(servers, dict) and is_ours(servers.get(NAME))


def containers(settings: Json) -> frozenset[str]:
    """Return the key of the object of servers if the settings have it."""
    return frozenset([SERVERS] if isinstance(settings, dict) and SERVERS in settings else [])


def is_ours(server: Json) -> bool:
    """Return True if a server runs our command, from any installation."""
    if not isinstance(server, dict) or not isinstance(server.get("command"), str):
        return False
    return (os.path.basename(server["command"]), server.get("args")) == (NAME, OURS["args"])
