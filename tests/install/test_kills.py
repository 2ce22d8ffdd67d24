"""A run that is killed at any step leaves a whole file, old or new, and uninstall still works."""

import os
import subprocess
import sys

import pytest

from support.paths import SOURCE
from support.workshop import EFFORT

pytestmark = pytest.mark.promise(1, 9)

HERE = os.path.dirname(os.path.abspath(__file__))
DYING = os.path.join(HERE, "dying.py")
PLACES = os.pathsep.join([SOURCE, os.path.dirname(HERE)])


@pytest.mark.parametrize("file", ["with", "without"])
@pytest.mark.parametrize(
    "scenario", ["dying_init", "dying_again", "dying_uninstall", "dying_with_codex"]
)
def test_killed_at_every_step_nothing_is_half_and_everything_can_be_undone(
    tmp_path, scenario, file, tally
):
    done = subprocess.run(
        [sys.executable, DYING, str(tmp_path / "work"), scenario, file],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": PLACES,
            "HOLDFAST_PROMISES": EFFORT,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    points = int(done.stdout)
    assert points > 10
    tally("kills of init and uninstall", points=points)
