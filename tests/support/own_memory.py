"""The user's own Memory server, as a project's settings name it."""

import json
import os
from pathlib import Path

from support import memory_forks


class OwnMemory:
    """A server in ``.mcp.json``, and what it was asked and holds."""

    def __init__(self, place, monkeypatch):
        self.place = place
        self.file = place.parent / "memory.json"
        monkeypatch.setenv("HOLDFAST_GRAPH", "mcp:memory")

    def set(self, *words, trusted=True):
        program, arguments = memory_forks.command(str(self.file), *words)
        self.write({"command": program, "args": arguments})
        if trusted:
            self.trust()

    def write(self, server):
        (self.place / ".mcp.json").write_text(json.dumps({"mcpServers": {"memory": server}}))

    def trust(self):
        folder = Path(os.environ["HOME"]) / ".config" / "holdfast"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(f'[trust]\nfolders = ["{self.place}"]\n')

    def calls(self):
        log = Path(f"{self.file}.calls")
        return log.read_text().split() if log.exists() else []

    def entities(self):
        held = json.loads(self.file.read_text())["entities"]
        return {one["name"]: one["observations"] for one in held}
