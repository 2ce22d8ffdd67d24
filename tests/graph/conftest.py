import pytest

from holdfast.graph.store import GraphStore


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "graph.db")


@pytest.fixture
def store(path):
    with GraphStore(path) as opened:
        yield opened
