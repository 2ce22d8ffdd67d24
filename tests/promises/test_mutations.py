"""Every promise can be broken, and its test notices: with each mutation, the test that shows the
promise turns red.

The test runs in a process of its own whose package lies in a folder with a ``sitecustomize``: every
Python that finds the package there, also one that the test starts, applies the mutation.
"""

import importlib
import os
import sys

import pytest

from promises.mutations import MUTATIONS
from support import fork_server
from support.mutated_package import make_mutated_package
from support.paths import ROOT, TESTS
from support.workshop import FULL

pytestmark = pytest.mark.promise

PROMISED = set(range(1, 18))
NOT_SHOWN = "NOT SHOWN"
IMPATIENT_S = "2"
"""What a mutation prevents never happens, however long its test waits for it."""
FAILED = 1
"""What pytest answers when it ran tests and some of them failed."""

each_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)


def outcome(package, mutation):
    """Return what pytest says of the mutation's test, run against this package."""
    environment = {**os.environ, "PYTHONPATH": package, "HOLDFAST_PATIENCE_S": IMPATIENT_S}
    environment.pop("PYTEST_XDIST_WORKER", None)
    if mutation.whole:
        environment["HOLDFAST_PROMISES"] = "full"
    paths = f"pythonpath={package} {TESTS}"
    flags = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", paths]
    return fork_server.run(
        [sys.executable, "-m", "pytest", *flags, mutation.test],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


@each_mutation
def test_a_mutation_turns_its_promise_red(tmp_path, tally, not_shown, mutation):
    ended = outcome(make_mutated_package(tmp_path, mutation), mutation)
    if ended.returncode == 0 and NOT_SHOWN in ended.stdout:
        not_shown(f"the mutation {mutation.name!r}: its test could not run here")
    assert ended.returncode == FAILED, f"{mutation.name} went unnoticed:\n{ended.stdout[-3000:]}"
    tally("mutations", tried=1, noticed=1)


if FULL:
    # In a sampled run the tests themselves show it.
    @each_mutation
    def test_the_same_test_is_green_without_the_mutation(tmp_path, mutation):
        ended = outcome(make_mutated_package(tmp_path), mutation)
        assert ended.returncode == 0, ended.stdout[-3000:]


@each_mutation
def test_a_mutation_names_something_that_exists(mutation):
    owner = importlib.import_module(mutation.module)
    for part in mutation.target.partition(":")[2].split("."):
        owner = getattr(owner, part)


def test_every_promise_has_a_mutation():
    assert {mutation.promise for mutation in MUTATIONS} == PROMISED


def test_no_name_stands_twice():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
