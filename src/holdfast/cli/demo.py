"""``holdfast demo``: the main job, done and checked before the user's eyes in a few seconds.

In a temporary repository a workflow is started, its writer is killed, its record is edited well and
badly, its context is lost, and it is finished all the same. Nothing is played: the commands are
processes, the commits are git's, the kill is SIGKILL, and a line with a check mark was compared.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import sys
import tempfile
import time

from holdfast.cli.stage import CheckFailed, Stage
from holdfast.core import json_text
from holdfast.errors import Fault, Refused
from holdfast.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Event, Workflow

FAILED = 4
KEEP = "HOLDFAST_DEMO_KEEP"

_PLAN = "docs/greeting.md"
_TITLE = "Greet everyone"
_TASKS = ("Write greet()", "Test it", "Translate it", "Describe it")
_REMINDER = "Speak to the user in plain words"
_CREDIT = "Name the translator"
_FILES = {
    _PLAN: "# Greet everyone\n\ngreet(name) says hello, in any language we know.\n",
    "README.md": "greet(name) says hello.\n",
    "greeting.py": 'def greet(name):\n    return f"Hello, {name}!"\n',
    "test_greeting.py": (
        "import unittest\n\nfrom greeting import greet\n\n\n"
        "class Greeting(unittest.TestCase):\n    def test_it_names_the_guest(self):\n"
        '        self.assertEqual(greet("Ada"), "Hello, Ada!")\n'
    ),
}
_NEXT_SESSION = "second-session"
_REASON = "nobody reviews a demonstration"


def run() -> int:
    """Plays the whole story; 0 only if every fact in it held."""
    git = shutil.which("git")
    if git is None:
        raise Fault(
            "no_git",
            "the demonstration plays in a git repository, and git was not found",
            "install git, then: holdfast demo",
        )
    began = time.monotonic()
    root = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-demo-"))
    stage = Stage(sys.stdout, root, git)
    try:
        _play(stage)
    except CheckFailed as failure:
        stage.failed(failure)
        stage.say()
        stage.say(f"This did not go as promised. {KEEP}=1 holdfast demo keeps its folder.", "bad")
        return FAILED
    finally:
        _clean_up(stage)
    seconds = time.monotonic() - began
    stage.say(f"All {stage.facts} facts were checked and held. {seconds:.1f} s.", "good", "")
    stage.say("Next, in a repository of yours: holdfast start dev SUBJECT", margin="")
    return 0


def _clean_up(stage: Stage) -> None:
    stage.say()
    if os.environ.get(KEEP):
        stage.line(f"The folder is kept: {stage.root}")
    else:
        shutil.rmtree(stage.root, ignore_errors=True)


def _play(stage: Stage) -> None:
    stage.say("Holdfast keeps the state of an agent's work, through anything.", "strong", "")
    stage.line(f"What follows happens for real, in {stage.root}")
    story = _Story(stage)
    try:
        for scene in story.scenes():
            scene()
    except Refused as refused:
        raise CheckFailed("the library does what it is asked", "done", refused.message) from refused


class _Story:
    """The scenes, in order; each one leaves the workspace to the next."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.id = ""
        self.record = ""
        self.commits: list[str] = []

    def scenes(self) -> list[Callable[[], None]]:
        return [
            self.start,
            self.work,
            self.kill,
            self.edit,
            self.edit_badly,
            self.lose_context,
            self.finish,
            self.look_back,
        ]

    # What the scenes look at

    def keeper(self, wait_s: float = 10.0) -> Keeper:
        return Keeper(self.stage.root, by="demo", wait_s=wait_s)

    def state(self) -> Workflow:
        state: Workflow = self.keeper().show(workflow=self.id).state
        return state

    def tasks(self) -> list[str]:
        return [task["status"] for task in self.state()["tasks"]]

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.keeper().log() if event["type"] == kind]

    def path(self, name: str) -> str:
        return os.path.join(self.stage.root, name)

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb") as file:
            return file.read()

    def read_all(self, pattern: str) -> list[bytes]:
        return [self.read(name) for name in glob.glob(pattern, root_dir=self.stage.root)]

    # What the scenes do outside of Holdfast

    def write(self, name: str) -> None:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(_FILES[name])
        self.stage.git("add", name)

    def commit(self, name: str, message: str) -> None:
        self.write(name)
        self.stage.git("commit", "-q", "-m", message, shown=True)
        self.commits.append(self.stage.git("rev-parse", "--short", "HEAD"))

    def edit_record(self, was: str, now: str) -> int:
        """Changes the last task's status in the record, as an editor would; gives the line."""
        lines = self.read(self.record).decode().splitlines(keepends=True)
        places = [n for n, line in enumerate(lines) if _TASKS[2] in line and was in line]
        if len(places) != 1:
            raise CheckFailed("the record has one line for task 3", 1, len(places))
        before = lines[places[0]]
        lines[places[0]] = before.replace(was, now)
        with open(self.path(self.record), "w", encoding="utf-8") as file:
            file.write("".join(lines))
        self.stage.typed(f"vi {self.record}")
        self.stage.changed(before, lines[places[0]])
        return places[0] + 1

    # The scenes

    def start(self) -> None:
        stage = self.stage
        stage.git("init", "-q")
        stage.git("symbolic-ref", "HEAD", "refs/heads/main")
        self.write(_PLAN)
        stage.git("commit", "-q", "-m", "Plan it")
        stage.heading("Start a piece of work")
        stage.holdfast(
            "start", "dev", _PLAN, "--title", _TITLE, *_each("--task", _TASKS),
            "--read", f"@{_PLAN}", "--remind", _REMINDER,
        )  # fmt: skip
        rows = self.keeper().workflows()[0]
        stage.check("the workflow is open", ["dev"], [row["recipe"] for row in rows])
        self.id, self.record = rows[0]["id"], rows[0]["record"]
        stage.check("its four tasks are in the ledger", len(_TASKS), len(self.events("task_added")))
        shown = json_text.loads(self.read(self.record))["_holdfast"]["seq"]
        last = self.keeper().log()[-1]["seq"]
        stage.check("its record, a JSON file, shows the ledger's last event", last, shown)
        stage.check("git sees none of it", "", stage.git("status", "--porcelain"))
        stage.why("One command, and all that a later session needs is on disk.")

    def work(self) -> None:
        stage = self.stage
        stage.heading("Work: a branch, a phase, a task with its commit")
        stage.holdfast("advance", lines=1)
        stage.git("checkout", "-q", "-b", "feat/greeting", shown=True)
        stage.holdfast("advance", lines=1)
        stage.holdfast("task", "start", "1", lines=1)
        self.commit("greeting.py", _TASKS[0])
        stage.holdfast("task", "done", "1", "--commit", self.commits[0])
        state = self.state()
        done = (state["tasks"][0]["status"], state["tasks"][0].get("commit"))
        stage.check("task 1 is done, by this commit", ("completed", self.commits[0]), done)
        stage.check("the workflow belongs to the branch", "feat/greeting", state["branch"])
        stage.why("A finished task names its commit: a claim that anyone can check.")

    def kill(self) -> None:
        stage = self.stage
        stage.heading("Kill a writer in the middle of a write")
        self.commit("test_greeting.py", _TASKS[1])
        again = ("task", "done", "2", "--commit", self.commits[1])
        before = self.keeper().log()
        stage.say("On a disk that stops half way, and then SIGKILL:")
        stage.typed(f"holdfast {' '.join(again)}")
        half = self.die_writing()
        folder, name = os.path.split(self.record)
        (torn,) = self.read_all(f"{folder}/.{name}.*")
        stage.check("half a record stands beside the last one", half, len(torn))
        stage.holdfast("status")
        stage.check("the next command sees the state before it", _done(1), self.tasks())
        stage.holdfast(*again)
        kept = self.read_all(f"{self.record}.rejected-*")
        stage.check("the torn bytes are kept aside, every one of them", [torn], kept)
        finished = [event["data"]["task"] for event in self.events("task_completed")]
        stage.check("nothing is lost, nothing is there twice", [1, 2], finished)
        events = self.keeper().log()[: len(before)]
        stage.check("what was in the ledger before still is, event for event", before, events)
        stage.why("A crash costs at most the command that was running, never what was done.")

    def die_writing(self) -> int:
        """Starts a writer, waits until it is half way, and kills it while it has the lock."""
        stage = self.stage
        words = ("-m", "holdfast.cli.victim", self.id, "2", self.commits[1])
        with stage.child(*words) as writer:
            try:
                report = writer.stdout.readline() if writer.stdout else b""
                if not report:
                    raise CheckFailed("the writer gets half way", "its report", "nothing")
                held = self.locked_out()
            finally:
                writer.kill()
        half, whole = map(int, report.split())
        stage.answered(f"Killed: {half} of {whole} bytes were written")
        stage.check("it had the lock: another writer was told to wait", "busy", held)
        stage.check("SIGKILL ended it, nothing else did", -signal.SIGKILL, writer.returncode)
        return half

    def locked_out(self) -> str:
        """What a writer hears that does not want to wait."""
        try:
            self.keeper(wait_s=0.01).remind("this must not be recorded", workflow=self.id)
        except Fault as fault:
            return fault.code
        return "recorded"

    def edit(self) -> None:
        stage = self.stage
        stage.heading("Edit the record by hand")
        stage.say("Somebody has translated it, and says so in the file itself:")
        self.edit_record('"status": "pending"', '"status": "completed"')
        stage.holdfast("status")
        stage.check("a look shows it: task 3 is done", _done(3), self.tasks())
        stage.check("a look records nothing", [], self.events("record_edited"))
        stage.holdfast("remind", _CREDIT)
        edits = [event["data"]["changes"] for event in self.events("record_edited")]
        change = [["tasks", 2, "status"], "pending", "completed"]
        stage.check("after a change the edit is an event in the ledger, once", [[change]], edits)
        stage.why("The files are the interface: an editor or jq is as good as a command.")

    def edit_badly(self) -> None:
        stage = self.stage
        stage.heading("Edit it badly")
        line = self.edit_record('"status": "completed"', '"status": "done"')
        bad = self.read(self.record)
        # In a narrow window it may be broken anywhere.
        answer = " ".join(stage.holdfast("task", "start", "4").split())
        stage.check(f"line {line} is named", True, f"line {line}:" in answer)
        kept = self.read_all(f"{self.record}.rejected-*")
        stage.check("the file is kept aside as it was saved", True, bad in kept)
        shown = [task["status"] for task in json_text.loads(self.read(self.record))["tasks"]]
        good = [*_done(3)[:3], "in_progress"]
        stage.check("the record shows the last good state again", good, shown)
        stage.check("and so does every command", good, self.tasks())
        stage.why("A slip is answered with its line. Nothing is guessed, nothing thrown away.")

    def lose_context(self) -> None:
        stage = self.stage
        stage.heading("Lose the context")
        stage.say("In the middle of task 4 the session ends. The next one knows only the folder:")
        stage.environment["CLAUDE_CODE_SESSION_ID"] = _NEXT_SESSION
        briefing = stage.holdfast("resume", by_agent=True)
        told = {
            "place": f"TASK 4/4 (4): {_TASKS[3]} (in progress",
            "next step": "NEXT: task 4",
            "pending gates": "PENDING gates: lint, test",
            "reading": f"@{_PLAN}",
            "reminders": _REMINDER,
        }
        missing = [name for name, words in told.items() if words not in briefing]
        stage.check(f"it is told its {', '.join(told)}", [], missing)
        holder = self.state()["session"]
        stage.check("the work is its own from here on", _NEXT_SESSION, holder and holder["id"])
        stage.why("The next session does not ask what was done. It is told, and goes on.")

    def finish(self) -> None:
        stage = self.stage
        stage.heading("Finish, with everything accounted for")
        self.commit("README.md", _TASKS[3])
        stage.holdfast("task", "done", "4", "--commit", self.commits[2], lines=1)
        stage.holdfast("advance", lines=1)
        answer = stage.holdfast("complete", code=1)
        left = ["pr_creation", "lint", "test", "security_review", "code_simplifier", "pr_created"]
        named = [name for name in left if name in answer]
        stage.check("it is refused, and everything pending is named", left, named)
        self.pass_gate()
        stage.holdfast(
            "complete", "--outcome", "greet() is in", "--force", "--reason", _REASON, lines=1
        )
        left.remove("test")
        skipped = {"phases": left[:1], "gates": left[1:]}
        ends = [event["data"] for event in self.events("workflow_completed")]
        told = [(data.get("reason"), data.get("skipped")) for data in ends]
        stage.check("what was skipped is recorded, with the reason", [(_REASON, skipped)], told)
        stage.why("Done means done; what was left out is written down by name.")

    def pass_gate(self) -> None:
        """Lets Holdfast run the tests itself: only that is evidence, all else is a claim."""
        stage = self.stage
        # Without -B Python would leave files of its own in the tree that the gate is shown on.
        stage.holdfast("gate", "run", "test", "--", sys.executable, "-B", "-m", "unittest", "-q")
        gate = self.state()["gates"]["test"]
        result = [gate.get(name) for name in ("passed", "evidence", "exit_code")]
        stage.check("Holdfast ran the tests itself, and they pass", [True, "run", 0], result)
        stage.check("the gate is shown for the tree as it is now", "completed", gate["status"])

    def look_back(self) -> None:
        stage = self.stage
        stage.heading("Look back")
        stage.holdfast("verify")
        stage.holdfast("log", "--limit", "9")
        events = self.keeper().log()
        count = len(events)
        seqs = [event["seq"] for event in events]
        stage.check(f"{count} events, 1 to {count}, no gap", list(range(1, count + 1)), seqs)
        stage.check("each of them is there once", count, len({event["id"] for event in events}))
        told = [event["data"].get("commit") for event in self.events("task_completed")]
        known = [stage.git("rev-parse", "--short", f"{sha}^{{commit}}") for sha in self.commits]
        stage.check("the commits in the log are the commits in git", known, told)
        stage.check("nothing was ever damaged", True, self.keeper().verify().ok)
        stage.why("History is a chain of events, each proves the one before, and it only grows.")


def _each(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _done(count: int) -> list[str]:
    """The statuses of the tasks when so many are done."""
    return ["completed"] * count + ["pending"] * (len(_TASKS) - count)
