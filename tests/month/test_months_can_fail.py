"""Months can fail: each of these changes of the source turns one of the first of them red."""

import os
import subprocess
import sys

import pytest

from promises.mutations import MUTATIONS
from support.mutated_package import make_mutated_package
from support.paths import TESTS
from support.workshop import FULL

pytestmark = pytest.mark.promise

NOTICED = (  # from what is noticed at once to what takes months
    "ignore the hash", "no id check", "commit after the layers", "synchronous=OFF",
)  # fmt: skip
MONTHS = "12"


@pytest.mark.parametrize("name", NOTICED if FULL else NOTICED[:1])
def test_a_month_notices(tmp_path, name, tally):
    mutation = next(one for one in MUTATIONS if one.name == name)
    source = make_mutated_package(tmp_path, mutation)
    answer = subprocess.run(
        [sys.executable, "-m", "month.run", "--seeds", MONTHS, "--until-red"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, TESTS])},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert answer.returncode == 1, answer.stdout[-2000:]
    assert "again: " in answer.stdout
    tally("mutations that months notice", tried=1, noticed=1)
