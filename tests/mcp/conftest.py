import json
import os
import subprocess
import sys

import pytest

from support import fork_server
from support.command_line import clean_environment
from support.git_template import make_repository
from support.mcp_client import Client


class Shop:
    """A repository in which servers are started and commands are typed."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = environment
        self._open = []

    def server(self, *words, stateless=False, fresh=False, rights=True, **environment):
        told = {**self.environment, **environment}
        wishes = {} if rights else {"rights": False}
        folder = str(self.folder)
        client = Client(folder, told, "mcp", *words, stateless=stateless, fresh=fresh, **wishes)
        self._open.append(client)
        return client

    def memory(self, name="memory.jsonl", **options):
        return self.server("memory", MEMORY_FILE_PATH=str(self.folder / name), **options)

    def holdfast(self, *words):
        done = fork_server.run(
            [sys.executable, "-m", "holdfast", *words, "--json"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return json.loads(done.stdout)

    def write(self, name, text):
        path = self.folder / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def trusted(self):
        """A person who lets this folder run its commands."""
        home = self.folder.parent / "home" / ".config" / "holdfast"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(f'[trust]\nfolders = ["{self.folder}"]\n')

    def close(self):
        for client in self._open:
            client.close()


@pytest.fixture
def shop(tmp_path):
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    make_repository(folder)
    opened = Shop(folder, {**clean_environment(home), "HOLDFAST_MEMORY": "off"})
    yield opened
    opened.close()
