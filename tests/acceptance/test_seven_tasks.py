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


RUN_TESTS = "for each in test-*; do sh $each || exit 1; done\n"


def story(place):
    """The commands of the session, each with what the next session must hear after it.

    Between them, tests and code are written, staged and pushed.
    """
    begin(place)
    start = ["start", "dev", "features/login.md"]
    yield [*start, *[word for task in TASKS for word in ("--task", task)]], "TASK 1/7"
    yield ["advance", "--branch", "feat/login"], "PHASE 3/5: task_execution"
    for number in range(1, 8):
        place.write(f"test-{number}", f"test -e part-{number}\n")
        told = f"Resuming task {number}/7, currently in {{}} phase"
        yield ["red", *([] if number > 1 else ["--", "sh", "run-tests"])], told.format("RED")
        place.write(f"part-{number}", "done\n")
        yield ["green"], told.format("GREEN")
        place.write(f"part-{number}", "done well\n")
        yield ["refactor"], told.format("REFACTOR")
        place.git("add", "-A", "--", "part-*", "test-*")
        following = f"TASK {number + 1}/7" if number < 7 else "All tasks complete. Pending: lint"
        yield ["commit", "-m", f"Part {number}"], following
    yield ["gate", "run", "lint", "--", "test", "-e", "part-7"], "gate record security_review"
    yield ["gate", "run", "test"], "gate record security_review"
    for gate in ("security_review", "code_simplifier"):
        yield ["gate", "record", gate, "--passed"], "All tasks complete. Pending:"
    place.git("push", "-q", "origin", "feat/login")
    yield ["gate", "record", "pr_created", "--passed", "pr_number=7"], "NEXT"
    yield ["complete"], None


def begin(place):
    """Add what runs the tests, and a remote."""
    place.commit("run-tests", RUN_TESTS)
    remote = f"{place.path}.git"
    place.git("init", "-q", "--bare", remote)
    place.git("remote", "add", "origin", remote)


def with_id(words, number):
    length = 2 if words[0] == "gate" else 1
    return [*words[:length], "--id", f"step-{number}", *words[length:]]


def test_a_session_that_dies_at_every_boundary_loses_and_doubles_nothing(repo):
    killed = 0
    for number, (words, told) in enumerate(story(repo)):
        line = with_id(words, number)
        session = repo.as_session(f"session-{number}", dead_client())
        killed += dying(session, number % 7, line) == -signal.SIGKILL
        # A command that was recorded before its writer died may have been the last.
        if number and told is not None:
            assert session.run("resume").code == 0
        session.ok(*line)
        if told is not None:
            after = repo.as_session(f"next-{number}", dead_client()).run("resume")
            assert told in after.out, (words, after)
    assert killed > 20
    assert repo.ok("verify")["counts"]["errors"] == 0
    taken_up = ("workflow_resumed", "briefing_delivered")
    types = [kind for kind in repo.types() if kind not in taken_up]
    assert types == undisturbed(repo.at("..", "calm"))
    ended = repo.state(repo.ok("log")["events"][0]["stream"])
    assert ended["status"] == "completed"
    made = repo.git("rev-list", "--reverse", "main..feat/login").splitlines()
    assert [task["commit"] for task in ended["tasks"]] == made
    assert len(made) == 7
    done = dict.fromkeys(("red", "green", "refactor"), "completed")
    assert all(task["phases"] == done for task in ended["tasks"])
    assert {gate["passed"] for gate in ended["gates"].values()} == {True}
    evidence = {name: gate["evidence"] for name, gate in ended["gates"].items()}
    assert evidence == {
        "lint": "run", "test": "run", "security_review": "claim", "code_simplifier": "claim",
        "pr_created": "check",
    }  # fmt: skip


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
    for words, _ in story(place):
        place.ok(*words)
    return place.types()
