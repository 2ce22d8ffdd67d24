"""Months by their numbers: a few in every run, hundreds where the promises are shown whole."""

import os
import subprocess
import sys

import pytest

from month.run import one
from support.paths import SOURCE, TESTS
from support.workshop import IS_SAMPLE, SEED

pytestmark = pytest.mark.promise(1, 2, 5, 6, 7, 8, 9, 12, 15)

SEEDS = range(SEED % 10_000, SEED % 10_000 + (3 if IS_SAMPLE else 200))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_month(seed, tally):
    counts, _, failure = one(seed)
    assert not failure, failure
    tally("simulated months", months=1, **counts)


def test_the_same_number_is_the_same_month_byte_for_byte():
    seed = 3
    again = subprocess.run(
        [sys.executable, "-m", "month.run", str(seed), "--jobs", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, TESTS])},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    _, digest, _ = one(seed)
    assert f"seed {seed}: {digest}" in again.stdout
