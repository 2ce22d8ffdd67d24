"""Every promise can be broken, and its test notices: each mutation is applied to a copy of the
source, and the test that shows the promise must turn red.
"""

import os
import shutil
import subprocess
import sys

import pytest

from promises.mutations import MUTATIONS
from workshop import FULL, SOURCE

pytestmark = pytest.mark.promise

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMISED = set(range(1, 16))
NOT_SHOWN = "NOT SHOWN"
FAILED = 1
"""What pytest answers when it ran tests and some of them failed."""


def mutated(folder, mutation):
    """A copy of the source with the mutation in it."""
    source = os.path.join(folder, "src")
    package = os.path.join(source, "holdfast")
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.join(SOURCE, "holdfast"), package, ignore=leave_out)
    for name, old, new in mutation.changes:
        path = os.path.join(package, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        count = text.count(old)
        assert count == 1, f"{mutation.name}: {name} has its text {count} times, not once:\n{old}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
    return source


def outcome(source, mutation):
    """What pytest says of the mutation's test, run against this source."""
    environment = {**os.environ, "PYTHONPATH": source}
    environment.pop("PYTEST_XDIST_WORKER", None)
    if mutation.whole:
        environment["HOLDFAST_PROMISES"] = "full"
    paths = f"pythonpath={source} {os.path.join(ROOT, 'tests')}"
    flags = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", paths]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *flags, mutation.test],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_turns_its_promise_red(tmp_path, tally, not_shown, mutation):
    answer = outcome(mutated(tmp_path, mutation), mutation)
    if answer.returncode == 0 and NOT_SHOWN in answer.stdout:
        not_shown(f"the mutation {mutation.name!r}: its test could not run here")
    assert answer.returncode == FAILED, f"{mutation.name} went unnoticed:\n{answer.stdout[-3000:]}"
    tally("mutations", tried=1, noticed=1)


if FULL:
    # In a sampled run the tests themselves show it.
    @pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
    def test_the_same_test_is_green_without_the_mutation(tmp_path, mutation):
        answer = outcome(mutated(tmp_path, mutation._replace(changes=[])), mutation)
        assert answer.returncode == 0, answer.stdout[-3000:]


def test_every_promise_has_a_mutation():
    assert {mutation.promise for mutation in MUTATIONS} == PROMISED
