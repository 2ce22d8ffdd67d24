"""Our server in the project's ``.mcp.json``: putting it in, taking it out, nobody else's touched.

The name ``holdfast`` is ours only where our command stands behind it; whatever else somebody has
under that name stays.
"""

from __future__ import annotations

import os

from holdfast.install.document import Document
from holdfast.install.hooks import Misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json

FILE = ".mcp.json"
SERVERS = "mcpServers"
NAME = "holdfast"
OURS: Fields = {"command": "holdfast", "args": ["mcp"]}


def merged(text: str) -> str:
    """The text with our server; ``Misfit`` where there is no place for it."""
    document = Document(text)
    root = document.root
    if not isinstance(root.value, dict):
        raise Misfit(document.line_of(root), "the file must be an object")
    place = root.index_of(SERVERS)
    if place is None:
        return document.with_part([root], SERVERS, {NAME: OURS})
    servers = root.parts[place].node
    if not isinstance(servers.value, dict):
        raise Misfit(document.line_of(servers), f"{SERVERS} must be an object")
    if NAME in servers.value:
        return text
    return document.with_part([root, servers], NAME, OURS)


def stripped(text: str, kept: frozenset[str] = frozenset()) -> str:
    """The text without our server, and without what held nothing else unless it is ``kept``."""
    if not has_ours(text):
        return text
    document = Document(text)
    root = document.root
    place = root.index_of(SERVERS)
    assert place is not None
    servers = root.parts[place].node
    if len(servers.parts) == 1 and SERVERS not in kept:
        return document.without_part(root, place)
    ours = servers.index_of(NAME)
    assert ours is not None
    return document.without_part(servers, ours)


def has_ours(text: str) -> bool:
    return has_ours_in(Document(text).root.value)


def has_ours_in(told: Json) -> bool:
    servers = told.get(SERVERS) if isinstance(told, dict) else None
    return isinstance(servers, dict) and is_ours(servers.get(NAME))


def containers(text: str) -> frozenset[str]:
    """What a text already has of that which we would make."""
    root = Document(text).root.value
    return frozenset([SERVERS] if isinstance(root, dict) and SERVERS in root else [])


def is_ours(server: Json) -> bool:
    if not isinstance(server, dict) or not isinstance(server.get("command"), str):
        return False
    return (os.path.basename(server["command"]), server.get("args")) == (NAME, OURS["args"])
