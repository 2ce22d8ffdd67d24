"""The user's own Memory server, as ``.mcp.json`` names it. That file came with the repository.

So what it says is data until a person approved it: the command with its arguments and variables,
or the address with its headers, as they stand in the file. ``${NAME}`` and ``${NAME:-else}`` are
filled in only when it is used.
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
MAX_BYTES = 1 << 20
_REMOTE = ("http", "streamable-http", "streamableHttp")


class Server:
    """One server. ``text`` is what a person reads and approves."""

    __slots__ = ("args", "command", "environment", "headers", "name", "text", "url")

    def __init__(self, name: str, told: Fields) -> None:
        self.name = name
        self.url = _text(name, told, "url", "")
        self.headers = _table(name, told, "headers")
        self.command = _text(name, told, "command", "")
        self.args = _list(name, told, "args")
        self.environment = _table(name, told, "env")
        kind = _text(name, told, "type", "http" if self.url else "stdio")
        if kind in _REMOTE and self.url:
            self.command = ""
            # No command reads like this: its words would stand in quotes.
            self.text = f"connect to <{self.url}> {_line(*_pairs(self.headers))}".rstrip()
        elif kind == "stdio" and self.command:
            self.url = ""
            env = ["env", *_pairs(self.environment)] if self.environment else []
            self.text = _line(*env, self.command, *self.args)
        else:
            raise _unusable(f"is of the type {kind[:40]!r}: stdio or http is needed", name)

    def filled(self, variables: Mapping[str, str]) -> Server:
        """The same with the variables of the person's environment in their places."""

        def fill(text: str) -> str:
            return _filled(self.name, text, variables)

        told: Fields = {"headers": {k: fill(v) for k, v in self.headers.items()}}
        if self.url:
            told["url"] = fill(self.url)
        else:
            told |= {"command": fill(self.command), "args": [fill(one) for one in self.args]}
            told["env"] = {key: fill(value) for key, value in self.environment.items()}
        return Server(self.name, told)


def find(workspace: Workspace, name: str) -> Server:
    """The server of this name; a name that nothing goes by is refused."""
    known = _read(workspace)
    if name not in known:
        listed = f"; it names {', '.join(sorted(known)[:10])}" if known else ""
        raise Refused(
            "no_server",
            f"the graph is to be kept by the server {name!r}, which {FILE} does not name{listed}",
            f"name it in {FILE}, or set HOLDFAST_GRAPH=embedded",
        )
    told = known[name]
    if not isinstance(told, dict):
        raise _unusable("must be an object", name)
    return Server(name, told)


def _read(workspace: Workspace) -> Fields:
    path = os.path.join(workspace.root, FILE)
    top = os.path.join(os.path.realpath(workspace.root), "")
    if not os.path.realpath(path).startswith(top):
        raise Refused(
            "outside", f"{FILE} is a link that leads out of the workspace", "replace it by the file"
        )
    raw = Disk().read(path, MAX_BYTES + 1)
    if raw is not None and len(raw) > MAX_BYTES:
        raise _unusable(f"is larger than {MAX_BYTES:,} bytes")
    try:
        told: Json = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson as bad:
        raise _unusable(f"is not JSON (line {bad.line}: {bad.why})") from None
    servers = told.get("mcpServers", {}) if isinstance(told, dict) else {}
    return servers if isinstance(servers, dict) else {}


def _unusable(why: str, name: str | None = None) -> Refused:
    key = "file" if name is None else f"mcpServers.{name[:60]}"
    hint = f"edit {FILE}, then run the command again"
    return Refused("bad_settings", f"{FILE}: {key} {why}", hint, key=key, why=why)


def _text(name: str, told: Fields, key: str, otherwise: str) -> str:
    value = told.get(key, otherwise)
    if not isinstance(value, str):
        raise _unusable(f"must have text as its {key}", name)
    return value


def _list(name: str, told: Fields, key: str) -> list[str]:
    value = told.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _unusable(f"must have a list of texts as its {key}", name)
    return value


def _table(name: str, told: Fields, key: str) -> dict[str, str]:
    value = told.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _unusable(f"must have texts by name as its {key}", name)
    return value


def _pairs(table: dict[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in table.items()]


def _line(*parts: str) -> str:
    return " ".join(word(part) for part in parts)


def _filled(name: str, text: str, variables: Mapping[str, str]) -> str:
    start = text.find("${")
    end = text.find("}", start)
    if start < 0 or end < 0:
        return text
    key, has_default, otherwise = text[start + 2 : end].partition(":-")
    if key not in variables and not has_default:
        raise _unusable(f"needs the variable {key[:60]}, which is not set", name)
    value = variables.get(key) or otherwise
    return text[:start] + value + _filled(name, text[end + 1 :], variables)
