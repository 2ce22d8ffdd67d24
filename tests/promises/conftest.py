"""What the tests of promises share."""

import os
import shutil
import tempfile

import pytest

MEMORY = "/dev/shm"


@pytest.fixture
def quick():
    """A folder where a sync costs nothing, if the machine has one: for thousands of trials."""
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="holdfast-", dir=in_memory)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
