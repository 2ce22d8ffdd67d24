from pathlib import Path

import pytest

from support.command_line import Folder, clean_environment
from support.git_template import make_repository
from support.mcp_client import Client


class ServedFolder(Folder):
    """A repository in which servers are started and commands are typed."""

    def __init__(self, path, environment):
        super().__init__(path, environment)
        self.folder = Path(path)
        self._open = []

    def server(self, *words, stateless=False, fresh=False, rights=True, **environment):
        variables = {**self.environment, **environment}
        limits = {} if rights else {"rights": False}
        client = Client(
            self.path, variables, "mcp", *words, stateless=stateless, fresh=fresh, **limits
        )
        self._open.append(client)
        return client

    def memory(self, name="memory.jsonl", **options):
        return self.server("memory", MEMORY_FILE_PATH=str(self.folder / name), **options)

    def holdfast(self, *words):
        """The object that a command answers, also if it refuses."""
        return self.run(*words, "--json").json

    def write(self, name, text):
        super().write(name, text)
        return self.folder / name

    def trusted(self):
        """A person who lets this folder run its commands."""
        home = self.folder.parent / "home" / ".config" / "holdfast"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(f'[trust]\nfolders = ["{self.folder}"]\n')

    def close(self):
        for client in self._open:
            client.close()


@pytest.fixture
def served(tmp_path):
    work, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    make_repository(work)
    folder = ServedFolder(work, {**clean_environment(home), "HOLDFAST_MEMORY": "off"})
    yield folder
    folder.close()
