import pytest

from support.hook_client import HookClient


@pytest.fixture
def client(repo):
    return HookClient(repo.path, repo.environment)


@pytest.fixture
def migration(client):
    """A formal workflow in its first phase, with required reading."""
    client.write("docs/guide.md", "Read me.\n")
    client.ok(
        "start", "custom", "Database Migration", "--phase", "Backup", "--phase", "Transform",
        "--phase", "Verify", "--read", "@docs/guide.md", "--remind", "Back up first",
        "--set", "source_db=postgres",
    )  # fmt: skip
    return client
