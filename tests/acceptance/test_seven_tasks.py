"""A whole ``dev`` session of seven tasks, killed in the middle of every command and taken up again.

Each command is begun by a process that dies of SIGKILL at one of its steps on the disk. A new
session resumes, hears where the work stands, and asks for the same thing again.
"""

import signal
import subprocess
import sys

TASKS = [f"Part {number}" for number in range(1, 8)]
DYING = """\
import os, signal, sys
from holdfast.system.disk import Disk
left = int(sys.argv.pop(1))
def dying(name):
    step = getattr(Disk, name)
    def call(self, *args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, *args, **options)
    return call
for name in ("write", "sync", "exchange", "remove", "link", "move", "update"):
    setattr(Disk, name, dying(name))
from holdfast.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def story():
    """The commands of the session, each with what the next session must hear after it."""
    start = ["start", "dev", "features/login.md"]
    yield [*start, *[word for task in TASKS for word in ("--task", task)]], "TASK 1/7"
    yield ["advance"], "PHASE 2/5: create_branch"
    yield ["advance"], "PHASE 3/5: task_execution"
    for number in range(1, 8):
        for phase in ("red", "green", "refactor"):
            told = f"Resuming task {number}/7, currently in {phase.upper()} phase"
            yield ["task", "phase", str(number), phase], told
        following = f"TASK {number + 1}/7" if number < 7 else "All tasks complete. Pending: lint"
        yield ["task", "done", str(number), "--commit", f"abc000{number}"], following
    yield ["advance"], "PHASE 4/5: verification"
    for gate, following in (("lint", "test"), ("test", "security_review")):
        yield ["gate", "run", gate, "--", "true"], f"gate run {following}"
    for gate in ("security_review", "code_simplifier"):
        yield ["gate", "record", gate, "--passed"], "PENDING gates"
    yield ["advance"], "PHASE 5/5: pr_creation"
    yield ["gate", "record", "pr_created", "--passed", "pr_number=7"], "NEXT"
    yield ["complete"], None


def with_id(words, number):
    return [words[0], "--id", f"step-{number}", *words[1:]] if words[0] in ONE_WORD else [
        *words[:2], "--id", f"step-{number}", *words[2:],
    ]  # fmt: skip


ONE_WORD = ("start", "advance", "complete")


def test_a_session_that_dies_at_every_boundary_loses_and_doubles_nothing(repo):
    killed = 0
    for number, (words, told) in enumerate(story()):
        line = with_id(words, number)
        session = repo.as_session(f"session-{number}", dead_client())
        for steps in {number % 7, number % 3}:
            code = dying(session, steps, line)
            killed += code == -signal.SIGKILL
        # A command that was recorded before its writer died may have been the last.
        if number and told is not None:
            assert session.run("resume").code == 0
        session.ok(*line)
        if told is not None:
            after = repo.as_session(f"next-{number}", dead_client()).run("resume")
            assert told in after.out, (words, after)
    assert killed > 30
    assert repo.ok("verify")["counts"]["errors"] == 0
    types = [kind for kind in repo.types() if kind != "workflow_resumed"]
    assert types == undisturbed(repo.at("..", "calm"))
    ended = repo.state(repo.ok("log")["events"][0]["stream"])
    assert ended["status"] == "completed"
    assert [task["commit"] for task in ended["tasks"]] == [f"abc000{n}" for n in range(1, 8)]
    assert {gate["passed"] for gate in ended["gates"].values()} == {True}


def dead_client():
    """The process of a client that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def dying(place, steps, line):
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(steps), *line],
        cwd=place.path, env=place.environment, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode


def undisturbed(place):
    place.git("init", "-q", "-b", "main")
    place.commit("README.md", "A project.\n", "begin")
    for words, _ in story():
        place.ok(*words)
    return place.types()
