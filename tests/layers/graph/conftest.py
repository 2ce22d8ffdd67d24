import pytest

from holdfast import Keeper
from holdfast.layers.graph.store import GraphStore
from support.git_template import make_repository
from support.workshop import Clock


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "graph.db")


@pytest.fixture
def store(path):
    with GraphStore(path) as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository, and a person without settings of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOLDFAST_GRAPH", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    make_repository(folder)
    return folder


@pytest.fixture
def open_keeper(project, clock):
    return lambda: Keeper(str(project), clock_ms=clock, by="test")
