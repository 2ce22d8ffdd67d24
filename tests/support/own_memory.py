"""The user's own Memory server, as a project's settings name it."""

import json
import os
from pathlib import Path

from support import memory_forks


class OwnMemory:
    """A server in ``.mcp.json``, with its log of calls and its graph."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.file = folder.parent / "memory.json"
        monkeypatch.setenv("HOLDFAST_GRAPH", "mcp:memory")

    def set(self, *words, trusted=True):
        program, arguments = memory_forks.command(str(self.file), *words)
        self.write({"command": program, "args": arguments})
        if trusted:
            self.trust()

    def write(self, server):
        (self.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"memory": server}}))

    def trust(self):
        folder = Path(os.environ["HOME"]) / ".config" / "holdfast"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f'[trust]\nfolders = ["{self.folder}"]\n')

    def calls(self):
        log = Path(f"{self.file}.calls")
        return log.read_text().split() if log.exists() else []

    def entities(self):
        entities = json.loads(self.file.read_text())["entities"]
        return {entity["name"]: entity["observations"] for entity in entities}
