import pytest

from support.command_line import clean_environment
from support.git_template import make_repository
from support.hook_client import HookClient


@pytest.fixture
def client(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    made = HookClient(tmp_path / "work", clean_environment(tmp_path / "home"))
    make_repository(made.path, committed=True)
    return made


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
