"""Read the MCP servers that a repository configures in ``.mcp.json``.

The file comes with the repository, so a server is used only after a person approved it
(``workspace.trust``): the command with its arguments and variables, or the address with its
headers, exactly as the file has them. ``${NAME}`` and ``${NAME:-default}`` are expanded at use.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.refusal import word
from holdfast.errors import Refused
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.types import Fields, Json
    from holdfast.workspace.location import Workspace

FILE = ".mcp.json"
MAX_FILE_BYTES = 1 << 20
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp")
_MAX_LISTED = 10


class ConfiguredServer:
    """One server of ``.mcp.json``. ``text`` is what a person reads and approves."""

    __slots__ = ("args", "command", "environment", "headers", "name", "text", "url")

    def __init__(self, name: str, config: Fields) -> None:
        _check_types(name, config)
        self.name = name
        self.url: str = config.get("url", "")
        self.headers: dict[str, str] = config.get("headers", {})
        self.command: str = config.get("command", "")
        self.args: list[str] = config.get("args", [])
        self.environment: dict[str, str] = config.get("env", {})
        kind: str = config.get("type", "http" if self.url else "stdio")
        if kind in _HTTP_TYPES and self.url:
            self.command = ""
            # No command reads like this: its words would be quoted.
            self.text = f"connect to <{self.url}> {_line(*_pairs(self.headers))}".rstrip()
        elif kind == "stdio" and self.command:
            self.url = ""
            env = ["env", *_pairs(self.environment)] if self.environment else []
            self.text = _line(*env, self.command, *self.args)
        else:
            raise _unusable(f"is of the type {kind[:40]!r}: stdio or http is needed", name)

    def expand(self, variables: Mapping[str, str]) -> ConfiguredServer:
        """Return the server with variables filled in; raise ``Refused`` if one is not set."""

        def fill(text: str) -> str:
            return _expand(self.name, text, variables)

        config: Fields = {"headers": {key: fill(value) for key, value in self.headers.items()}}
        if self.url:
            config["url"] = fill(self.url)
        else:
            config |= {"command": fill(self.command), "args": [fill(arg) for arg in self.args]}
            config["env"] = {key: fill(value) for key, value in self.environment.items()}
        return ConfiguredServer(self.name, config)


def find(workspace: Workspace, name: str) -> ConfiguredServer:
    """Return the server of this name; raise ``Refused`` if it is missing or unusable."""
    servers = _read(workspace)
    if name not in servers:
        names = ", ".join(sorted(servers)[:_MAX_LISTED])
        listed = f"; it names {names}" if names else ""
        raise Refused(
            "no_server",
            f"the graph is to be kept by the server {name!r}, which {FILE} does not name{listed}",
            f"name it in {FILE}, or set HOLDFAST_GRAPH=embedded",
        )
    if not isinstance(servers[name], dict):
        raise _unusable("must be an object", name)
    return ConfiguredServer(name, servers[name])


def _read(workspace: Workspace) -> Fields:
    path = os.path.join(workspace.root, FILE)
    root = os.path.join(os.path.realpath(workspace.root), "")
    if not os.path.realpath(path).startswith(root):
        raise Refused(
            "outside", f"{FILE} is a link that leads out of the workspace", "replace it by the file"
        )
    raw = Disk().read(path, MAX_FILE_BYTES + 1)
    if raw is not None and len(raw) > MAX_FILE_BYTES:
        raise _unusable(f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        document: Json = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson as bad:
        raise _unusable(f"is not JSON (line {bad.line}: {bad.why})") from None
    servers = document.get("mcpServers", {}) if isinstance(document, dict) else {}
    return servers if isinstance(servers, dict) else {}


def _check_types(name: str, config: Fields) -> None:
    for key in ("url", "command", "type"):
        if not isinstance(config.get(key, ""), str):
            raise _unusable(f"must have text as its {key}", name)
    args = config.get("args", [])
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        raise _unusable("must have a list of texts as its args", name)
    for key in ("headers", "env"):
        table = config.get(key, {})
        if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
            raise _unusable(f"must have texts by name as its {key}", name)


def _unusable(why: str, name: str | None = None) -> Refused:
    key = "file" if name is None else f"mcpServers.{name[:60]}"
    hint = f"edit {FILE}, then run the command again"
    return Refused("bad_settings", f"{FILE}: {key} {why}", hint, key=key, why=why)


def _pairs(table: dict[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in table.items()]


def _line(*parts: str) -> str:
    return " ".join(word(part) for part in parts)


def _expand(name: str, text: str, variables: Mapping[str, str]) -> str:
    start = text.find("${")
    end = text.find("}", start)
    if start < 0 or end < 0:
        return text
    key, has_default, default = text[start + 2 : end].partition(":-")
    if key not in variables and not has_default:
        raise _unusable(f"needs the variable {key[:60]}, which is not set", name)
    value = variables.get(key) or default
    return text[:start] + value + _expand(name, text[end + 1 :], variables)
