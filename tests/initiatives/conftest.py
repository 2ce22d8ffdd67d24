import pytest

from initiatives.ground import Ground


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)
