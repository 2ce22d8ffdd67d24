import pytest

from support.workshop import OneWorkflow


@pytest.fixture
def work(tmp_path, record_format):
    """A workflow of the format that the test is about, with its record."""
    return OneWorkflow(tmp_path, record_format)
