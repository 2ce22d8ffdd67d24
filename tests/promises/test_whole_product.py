"""Promises 1, 5, 7 and 15 over all that writes: every command, every hook, every tool over MCP.

Each runs as the process that it is. strace kills it as it enters a system call that concerns the
workspace, or lets that call fail; then it is tried again, undisturbed.
"""

import errno
import json
import os
import shutil
import tempfile

import pytest

from holdfast.cli.parser import load_all
from promises import strace
from promises.conftest import IN_MEMORY
from promises.whole import READING, STEPS, Scenes
from support.story import PERSONS, STORY
from support.workshop import SEED, sampled

COMMANDS = load_all()
SERVERS = {"mcp", "mcp memory", "statusline", "web"}
BESIDE = {"demo", "doctor", "conflicts take", "conflicts drop", "pr"}
"""Commands that bring a repository of their own, or need a second machine (``tests/hub``) or the
GitHub CLI (``tests/acceptance/test_pull_requests.py``)."""
NUMBERS = [errno.ENOSPC, errno.EIO]
WRITES = {
    "write", "pwrite64", "fdatasync", "fsync", "rename", "renameat", "renameat2", "link", "linkat",
    "mkdir", "mkdirat", "ftruncate",
}  # fmt: skip
SOME = sampled(STEPS, 24, "whole")
each_step = pytest.mark.parametrize("step", SOME, ids=lambda step: f"{step.kind}-{step.name}")


@pytest.fixture(scope="module")
def scenes():
    """The story is told once for all tests of a worker."""
    folder = tempfile.mkdtemp(prefix="holdfast-", dir=IN_MEMORY)
    yield Scenes(folder)
    shutil.rmtree(folder, ignore_errors=True)


class Trial:
    """A step on a scene that stands right before it, and what it does undisturbed."""

    def __init__(self, scenes, step, folder):
        self.step, self.folder = step, folder
        self.scene = scenes.before(step)
        self.log = os.path.join(folder, "strace.log")
        self.before = self.scene.history()
        smooth = self.copy("smooth")
        ended = smooth.run_traced(step, self.log)
        assert ended.returncode == 0, ended
        self.points = strace.points_in(self.log, smooth.root)
        self.after, self.names = smooth.history(), smooth.names()
        smooth.drop()

    def copy(self, name):
        return self.scene.copy(os.path.join(self.folder, name))

    def disturbed(self, point, *options):
        """The step, disturbed at a point, and all that must be true of what it leaves."""
        # The same length of name: the calls are those of the smooth run.
        scene = self.copy("rugged")
        try:
            ended = scene.run_traced(self.step, self.log, *options)
            self._left(scene)
            self._again(scene)
        except Exception as error:
            raise AssertionError(f"seed {SEED}: {self.step.name} at {point} {options}") from error
        finally:
            scene.drop()
        return ended

    def _left(self, scene):
        """Nothing is lost, nothing is there twice, and nothing is there that was not asked for."""
        found = scene.history()
        assert found[: len(self.before)] == self.before
        assert self.after[: len(found)] == found or not self.step.is_named, found
        assert [line for line in scene.complaints() if line["level"] == "error"] == []

    def _again(self, scene):
        """Tried again it is done, and done once."""
        ended = scene.run(self.step)
        assert ended.returncode == 0, ended
        assert scene.complaints() == []
        if self.step.is_named:
            assert scene.history() == self.after
            scene.ask("clean")
            left = scene.names() - self.names
            assert {name for name in left if not self._may_be_left(name)} == set()

    def _may_be_left(self, name):
        """A spare goes with the next write.

        Before the very first event nothing tells whose a spare is: it is kept. And ``repair`` keeps
        a database that cannot be read.
        """
        spare = ".holdfast" in os.path.basename(name)
        is_kept = ".rejected-" in name and (not self.before or self.step.name == "repair")
        return spare or is_kept


def test_the_steps_are_all_that_writes():
    commands = {step.name for step in STEPS if step.kind == "command"}
    assert commands | READING | SERVERS | BESIDE | PERSONS == set(COMMANDS)
    assert commands - {"import"} <= {name for name, _ in STORY}


@pytest.mark.promise(1)
@each_step
def test_killed_anywhere_it_is_done_or_not_done(step, scenes, quick, untraceable, tally, not_shown):
    if untraceable:
        not_shown(f"promise 1, all that writes: {untraceable}")
    trial = Trial(scenes, step, quick)
    points = missed = 0
    for name, number, rest in sampled(trial.points, 1, f"kill{step.name}"):
        killing = ("-e", f"inject={name}:signal=SIGKILL:when={number}")
        ended = trial.disturbed((name, number, rest), *killing)
        # Now and then a run has one call less than the one before it.
        missed += ended.returncode not in (-9, 137)
        points += 1
    assert missed <= 1 + points / 4
    tally("kills of all that writes", points=points - missed)


@pytest.mark.promise(5, 15)
@each_step
def test_where_a_call_fails_it_says_so_and_leaves_nothing_half(
    step, scenes, quick, untraceable, tally, not_shown
):
    if untraceable:
        not_shown(f"promise 5, all that writes: {untraceable}")
    trial = Trial(scenes, step, quick)
    points = [point for point in trial.points if point[0] in WRITES and point[2][:2] != "1<"]
    tried = 0
    for name, number, rest in sampled(points, 1, f"fail{step.name}"):
        error = errno.errorcode[NUMBERS[number % 2]]
        failing = ("-e", f"inject={name}:error={error}:when={number}")
        _is_an_answer(step, trial.disturbed((name, number, rest), *failing))
        tried += 1
    tally("failing calls of all that writes", points=tried)


def _is_an_answer(step, ended):
    """A command says what failed, a hook never stands in the way, a server lives on."""
    assert b"Traceback" not in ended.stderr, ended
    if step.kind == "command":
        answer = json.loads(ended.stdout)
        assert answer["ok"] is (ended.returncode == 0)
        assert answer["ok"] or (answer["error"]["message"] and answer["error"]["hint"])
        return
    assert ended.returncode == 0, ended
    for line in ended.stdout.splitlines():
        json.loads(line)


@pytest.mark.promise(7)
@each_step
def test_asked_for_three_times_under_one_id_it_is_done_once(step, scenes, quick, tally):
    if not step.is_named:
        return
    scene = scenes.before(step).copy(os.path.join(quick, "again"))
    histories = []
    for _ in range(3):
        ended = scene.run(step)
        assert ended.returncode == 0, ended
        histories.append(scene.history())
    assert histories[0] == histories[1] == histories[2]
    tally("retries of all that writes", attempts=3)
