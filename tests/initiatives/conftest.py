import pytest

from support.initiative_shop import InitiativeShop


@pytest.fixture
def shop(tmp_path):
    return InitiativeShop(tmp_path)
