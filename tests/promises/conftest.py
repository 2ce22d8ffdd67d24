"""What the tests of promises share."""

import os
import shutil
import tempfile

import pytest

from promises.strace import cannot_trace

MEMORY = "/dev/shm"
IN_MEMORY = MEMORY if os.access(MEMORY, os.W_OK) else None


@pytest.fixture(scope="session")
def untraceable():
    """Why strace cannot be used here; empty or ``None`` if it can."""
    return cannot_trace()


@pytest.fixture(scope="session")
def stages():
    """Repositories at every stage of every journey, made when they are asked for."""
    from promises.journeys import Stages

    folder = tempfile.mkdtemp(prefix="holdfast-", dir=IN_MEMORY)
    yield Stages(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def quick():
    """A folder where a sync costs nothing, if the machine has one: for thousands of trials."""
    folder = tempfile.mkdtemp(prefix="holdfast-", dir=IN_MEMORY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
