import pytest

from support.command_line import Folder, clean_environment
from support.git_template import make_repository


@pytest.fixture
def folder(tmp_path):
    """An empty folder that is no repository."""
    (tmp_path / "home").mkdir()
    return Folder(tmp_path, clean_environment(tmp_path / "home")).at("work")


@pytest.fixture
def repo(folder):
    """A git repository with one commit on ``main``."""
    make_repository(folder.path, committed=True)
    return folder
