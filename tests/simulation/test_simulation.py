"""Promise 16, simulated: whatever machines, network and agents do, all replicas end up with the
same work, nothing acknowledged is lost or doubled, a fenced worker never succeeds, no claim is held
twice, and no conflict is silent.

A thousand worlds in ``make promises``, a few in ``make test``; every fiftieth has the full size, 50
machines and 1,000 agents. One world again: ``python -m simulation.run SEED``.
"""

import os
import subprocess
import sys

import pytest

from simulation.run import LARGE_EVERY, Size, simulate
from support.paths import SOURCE, TESTS
from support.workshop import FULL, IS_SAMPLE, SEED

pytestmark = pytest.mark.promise(16)

COUNT = 3 if IS_SAMPLE else 1_000
FIRST = SEED % 100_000 // LARGE_EVERY * LARGE_EVERY + 1
SEEDS = range(FIRST, FIRST + COUNT)
CROWDED = Size(4, 12, 250)
CROWDED_SEEDS = (4, 7, 10, 1, 2, 6, 9, 3, 5, 8, 11, 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world(seed, tmp_path, tally):
    world = simulate(seed, tmp_path / "world")
    counts = world.counts
    tally(
        "simulated worlds",
        worlds=1,
        machines=len(world.machines),
        agents=world.agents,
        days=round(world.days),
        events=world.events,
        acknowledged=len(world.deeds),
        died=counts.get("died", 0),
        parted=counts.get("parted", 0),
        copied=counts.get("copied", 0),
        restored=counts.get("restored", 0),
        claims=world.hub.referee.claims,
        fenced=len(world.hub.referee.late),
        conflicts=world.conflicts,
    )


def test_crowded_worlds(tmp_path):
    """Few machines, much to do for each of them: what the mutations are tried on."""
    for seed in CROWDED_SEEDS[: len(CROWDED_SEEDS) if FULL else 1]:
        simulate(seed, tmp_path / f"world-{seed}", CROWDED)


def test_the_same_seed_is_the_same_run(tmp_path):
    seed = "7"
    again = subprocess.run(
        [sys.executable, "-m", "simulation.run", seed],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, TESTS]), "PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert f"seed {seed}: {simulate(int(seed), tmp_path / 'world').digest()} " in again.stdout
