"""``holdfast demo``: the main job, done and checked before the user's eyes in a few seconds.

In a temporary repository a workflow is started, its writer is killed, its record is edited well and
badly, its context is lost, and it is finished all the same. Nothing is played: the commands are
processes, the commits are git's, the kill is SIGKILL, and a line with a check mark was compared.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
import time

from holdfast.cli.stage import CheckFailed, Stage
from holdfast.errors import Fault, HoldfastError
from holdfast.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.shapes import Event, Fields, Workflow

FAILED = 4
KEEP = "HOLDFAST_DEMO_KEEP"

_PLAN = "docs/greeting.md"
_TITLE = "A greeting for everyone"
_TASKS = ("Write greet()", "Test it", "Translate it")
_REMINDER = "Speak to the user in plain words"
_FILES = {
    _PLAN: "# A greeting for everyone\n\ngreet(name) says hello, in any language we know.\n",
    "greeting.py": 'def greet(name):\n    return f"Hello, {name}!"\n',
    "test_greeting.py": (
        "import unittest\n\nfrom greeting import greet\n\n\n"
        "class Greeting(unittest.TestCase):\n    def test_it_names_the_guest(self):\n"
        '        self.assertEqual(greet("Ada"), "Hello, Ada!")\n'
    ),
}
_LEDGER = ".claude/holdfast/ledger.ndjson"
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
    stage.say("Next, in a repository of yours: holdfast start dev SUBJECT, or holdfast help", margin="")
    return 0


def _clean_up(stage: Stage) -> None:
    stage.say()
    if os.environ.get(KEEP):
        stage.say(f"The folder is kept: {stage.root}", margin="")
    else:
        shutil.rmtree(stage.root, ignore_errors=True)


def _play(stage: Stage) -> None:
    stage.say("Holdfast keeps the state of an agent's work, through anything.", "strong", "")
    stage.say(f"What follows happens for real, in {stage.root}", "dim", "")
    story = _Story(stage)
    try:
        for scene in story.scenes():
            scene()
    except HoldfastError as error:
        raise CheckFailed("the library does what it is asked", "no error", error.message) from error


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
        return self.keeper().show(workflow=self.id).state

    def tasks(self) -> list[str]:
        return [task["status"] for task in self.state()["tasks"]]

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.keeper().log() if event["type"] == kind]

    def path(self, name: str) -> str:
        return os.path.join(self.stage.root, name)

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb") as file:
            return file.read()

    # What the scenes do outside of Holdfast

    def commit(self, name: str, message: str) -> str:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(_FILES[name])
        self.stage.git("add", name)
        self.stage.git("commit", "-q", "-m", message)
        return self.stage.git("rev-parse", "--short", "HEAD")

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
        self.stage.typed(f"$EDITOR {self.record}")
        self.stage.changed(before, lines[places[0]])
        return places[0] + 1

    # The scenes

    def start(self) -> None:
        stage = self.stage
        stage.git("init", "-q")
        stage.git("symbolic-ref", "HEAD", "refs/heads/main")
        self.commit(_PLAN, "Plan the greeting")
        stage.heading("Start a piece of work")
        stage.holdfast(
            "start", "dev", _PLAN, "--title", _TITLE, *_each("--task", _TASKS),
            "--read", f"@{_PLAN}", "--remind", _REMINDER,
        )  # fmt: skip
        row = self.keeper().workflows()[0][0]
        self.id, self.record = row["id"], row["record"]
        stage.check("three tasks are in the ledger", 3, len(self.events("task_added")))
        stage.check(f"the record is a JSON file: {self.record}", b"{", self.read(self.record)[:1])
        stage.check("git sees none of it", "", stage.git("status", "--porcelain"))
        stage.why("One command, and all that a later session needs is on disk.")

    def work(self) -> None:
        stage = self.stage
        stage.heading("Work: a branch, a phase, a task with its commit")
        stage.holdfast("advance", lines=1)
        stage.git("checkout", "-q", "-b", "feat/greeting", shown=True)
        stage.holdfast("advance", lines=1)
        stage.holdfast("task", "start", "1", lines=1)
        self.commits.append(self.commit("greeting.py", "Write greet()"))
        stage.typed("git commit -m 'Write greet()'")
        stage.holdfast("task", "done", "1", "--commit", self.commits[0])
        state = self.state()
        done = (state["tasks"][0]["status"], state["tasks"][0].get("commit"))
        stage.check("task 1 is done, by this commit", ("completed", self.commits[0]), done)
        stage.check("the workflow belongs to the branch", "feat/greeting", state["branch"])
        stage.why("A finished task names its commit: a claim that anyone can check.")

    def kill(self) -> None:
        stage = self.stage
        stage.heading("Kill a writer in the middle of a write")
        self.commits.append(self.commit("test_greeting.py", "Test it"))
        again = ("task", "done", "2", "--commit", self.commits[1])
        before = self.read(_LEDGER)
        stage.typed(f"holdfast {' '.join(again)}")
        half, whole = self.die_writing()
        stage.say(f"Killed  (SIGKILL, {half} of {whole} bytes written, the lock in its hand)", "bad")
        torn = self.read(_LEDGER)[len(before) :]
        stage.check("half a line stands at the end of the ledger", half, len(torn))
        stage.holdfast("status")
        stage.check("the next command sees the state before it", _done(1), self.tasks())
        stage.holdfast(*again)
        kept = [self.read(path) for path in glob.glob(self.path(".claude/holdfast/quarantine/*"))]
        stage.check("the torn bytes are in quarantine, every one of them", [torn], kept)
        finished = [event["data"]["task"] for event in self.events("task_completed")]
        stage.check("nothing is lost, nothing is there twice", [1, 2], finished)
        grown = self.read(_LEDGER).startswith(before)
        stage.check("what was in the ledger before still is, byte for byte", True, grown)  # noqa: FBT003
        stage.why("A crash costs at most the command that was running, never what was done.")

    def die_writing(self) -> tuple[int, int]:
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
        stage.check("until then every other writer was told to wait", "busy", held)
        stage.check("it died by the signal, not by itself", -9, writer.returncode)
        half, whole = report.split()
        return int(half), int(whole)

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
        edits = [event["data"]["changes"] for event in self.events("record_edited")]
        change = [["tasks", 2, "status"], "pending", "completed"]
        stage.check("the edit is an event in the ledger, once", [[change]], edits)
        stage.check("task 3 is done", _done(3), self.tasks())
        stage.why("The files are the interface: an editor or jq is as good as a command.")

    def edit_badly(self) -> None:
        stage = self.stage
        stage.heading("Edit it badly")
        good = self.read(self.record)
        line = self.edit_record('"status": "completed"', '"status": "done"')
        bad = self.read(self.record)
        answer = stage.holdfast("status")
        stage.check(f"line {line} is named", True, f"line {line}:" in answer)  # noqa: FBT003
        kept = [self.read(path) for path in glob.glob(self.path(f"{self.record}.rejected-*"))]
        stage.check("the file is kept aside as it was saved", [bad], kept)
        stage.check("the last good record stands in its place", good, self.read(self.record))
        stage.check("the state is as it was", _done(3), self.tasks())
        stage.why("A slip is answered with its line. Nothing is guessed, nothing thrown away.")

    def lose_context(self) -> None:
        stage = self.stage
        stage.heading("Lose the context")
        stage.say("The session ends, or is compacted. A new one knows this folder, and nothing else:")
        stage.environment["CLAUDE_CODE_SESSION_ID"] = "second-session"
        briefing = stage.holdfast("resume")
        told = {
            "where it stands": f"PHASE 3/5: {self.state()['phase']}",
            "what to read first": f"@{_PLAN}",
            "what to remember": _REMINDER,
            "what is left": "PENDING gates: lint, test",
        }
        missing = [name for name, words in told.items() if words not in briefing]
        stage.check(f"it is told {', '.join(told)}", [], missing)
        bound = self.state()["session"] or {}
        stage.check("the work is its own from here on", "second-session", bound.get("id"))
        stage.why("The next session does not ask what was done. It is told, and goes on.")

    def finish(self) -> None:
        stage = self.stage
        stage.heading("Finish, with everything accounted for")
        stage.holdfast("advance", lines=1)
        stage.holdfast("complete", code=1)
        left = ["lint", "test", "security_review", "code_simplifier", "pr_created"]
        stage.check("it is refused while gates are pending", left, _pending_gates(self.state()))
        self.pass_gate()
        stage.holdfast(
            "complete", "--outcome", "greet() is in", "--force", "--reason", _REASON, lines=1
        )
        left.remove("test")
        ends = [event["data"] for event in self.events("workflow_completed")]
        expected = [{
            "outcome": "greet() is in", "reason": _REASON,
            "skipped": {"phases": ["pr_creation"], "gates": left},
        }]  # fmt: skip
        stage.check("what was skipped is recorded, with the reason", expected, ends)
        stage.why("Done means done; what was left out is written down by name.")

    def pass_gate(self) -> None:
        """Runs the tests for real, and records it through the library."""
        stage = self.stage
        tests = ("-B", "-m", "unittest", "-q")
        code, _ = stage.python(*tests)
        stage.check("the tests pass", 0, code)
        evidence: Fields = {"gate": "test", "passed": not code}
        stage.typed(f'Keeper().do("record_gate", {evidence})', prompt=">>>")
        self.keeper().do("record_gate", evidence, workflow=self.id)
        gate = self.state()["gates"]["test"]
        stage.check("the gate has its evidence", ("completed", True), (gate["status"], gate["passed"]))

    def look_back(self) -> None:
        stage = self.stage
        stage.heading("Look back")
        stage.holdfast("verify")
        stage.holdfast("log", "--limit", "8")
        events = self.keeper().log()
        count = len(events)
        seqs = [event["seq"] for event in events]
        stage.check(f"{count} events, 1 to {count}, no gap", list(range(1, count + 1)), seqs)
        stage.check("each of them is there once", count, len({event["id"] for event in events}))
        told = [event["data"].get("commit") for event in self.events("task_completed")]
        known = [stage.git("rev-parse", "--short", f"{sha}^{{commit}}") for sha in self.commits]
        stage.check("the commits in the log are the commits in git", known, told)
        stage.check("nothing was ever damaged", True, self.keeper().verify().ok)  # noqa: FBT003
        stage.why("History is a file of lines that prove themselves, and it only grows.")


def _each(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _done(count: int) -> list[str]:
    """The statuses of the tasks when so many are done."""
    return ["completed"] * count + ["pending"] * (len(_TASKS) - count)


def _pending_gates(state: Workflow) -> list[str]:
    return [name for name, gate in state["gates"].items() if gate["status"] != "completed"]
