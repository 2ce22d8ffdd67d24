"""``holdfast demo``: the main job, done and checked before the user's eyes in a few seconds.

In a temporary repository a workflow is started, its writer is killed, its record is edited well and
badly, its context is lost, and it is finished all the same. The commands are processes, the commits
are git's, the kills are SIGKILL, and every line with a check mark was compared.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from holdfast.cli.answer import FAILED
from holdfast.cli.screen import Screen, shorten, wrap
from holdfast.core import json_text
from holdfast.core.refusal import shell_word as quote
from holdfast.core.visible import clean
from holdfast.errors import Fault, Refused
from holdfast.evidence.git import which
from holdfast.keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.cli.screen import Tone
    from holdfast.core.types import Event, Workflow

_KEEP = "HOLDFAST_DEMO_KEEP"
_MAX_COLUMNS, _MAX_VALUE_COLUMNS = 100, 400
_MARGIN = "    "
_LEFT_OUT = ("GIT_", "HOLDFAST_", "CLAUDE_", "COLUMNS")
"""Variables of the user that are about other repositories, sessions and terminals."""
_KILLS = 8
_PLAN = "docs/greeting.md"
_TASKS = ("Write greet()", "Test it", "Translate it", "Describe it")
_REMINDER = "Speak to the user in plain words"
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


class CheckFailed(Exception):
    """A fact that the demonstration shows did not hold."""

    def __init__(self, fact: str, expected: object, actual: object) -> None:
        super().__init__(fact)
        self.values = (("expected:", expected), ("found:   ", actual))


def run(out: TextIO) -> int:
    """Play the whole story; return 0 only if every fact in it held."""
    git = which("git")
    if git is None:
        message = "the demonstration plays in a git repository, and git was not found"
        raise Fault("no_git", message, "install git, then: holdfast demo")
    began_s = time.monotonic()
    story = Story(out, os.path.realpath(tempfile.mkdtemp(prefix="holdfast-demo-")), git)
    try:
        story.play()
    except CheckFailed as failure:
        story.say(f"{story.screen.mark('blocked')} {failure}")
        for label, value in failure.values:
            story.say(f"{label} {shorten(clean(value), _MAX_VALUE_COLUMNS)}", margin=_MARGIN * 2)
        story.print()
        story.say(f"This did not go as promised. {_KEEP}=1 holdfast demo keeps its folder.", "bad")
        return FAILED
    finally:
        story.print()
        if os.environ.get(_KEEP):
            story.print(f"The folder is kept: {clean(story.root)}")
        else:
            shutil.rmtree(story.root, ignore_errors=True)
    spent_s = time.monotonic() - began_s
    story.say(f"All {story.facts} facts were checked and held. {spent_s:.1f} s.", "good", "")
    story.say("Next, in a repository of yours: holdfast start dev SUBJECT", margin="")
    return 0


class Story:
    """The scenes, in order; each one leaves the repository to the next."""

    def __init__(self, out: TextIO, root: str, git: str) -> None:
        self.root = root
        self.facts = 0
        self.screen = Screen.of(out)
        self._out: TextIO | None = out
        self._git = git
        self._width = min(self.screen.width or _MAX_COLUMNS, _MAX_COLUMNS)
        self._encoding = out.encoding or "ascii"
        self._environment = self._clean_environment()
        self._scenes = 0
        self.id = ""
        self.record = ""
        self.commits: list[str] = []

    def play(self) -> None:
        self.say("Holdfast keeps the state of an agent's work, through anything.", "strong", "")
        self.print(clean(f"What follows happens for real, in {self.root}"))
        try:
            for scene in (self.work, self.kill, self.edit, self.lose_context, self.finish):
                scene()
        except Refused as refused:
            fact = "the library does what it is asked"
            raise CheckFailed(fact, "done", refused.message) from refused

    # The scenes

    def work(self) -> None:
        self.git("init", "-q")
        self.git("symbolic-ref", "HEAD", "refs/heads/main")
        self.commit(_PLAN, "Plan it", is_shown=False)
        self.heading("Start a piece of work")
        tasks = [option for task in _TASKS for option in ("--task", task)]
        reading = ("--read", f"@{_PLAN}", "--remind", _REMINDER)
        self.holdfast("start", "dev", _PLAN, "--title", "Greet everyone", *tasks, *reading)
        rows = self.keeper().workflows()[0]
        self.check("the workflow is open", ["dev"], [row["recipe"] for row in rows])
        self.id, self.record = rows[0]["id"], rows[0]["record"]
        seq = json_text.loads(self.read(self.record))["_holdfast"]["seq"]
        last = self.keeper().log()[-1]["seq"]
        self.check("its record, a JSON file, shows the ledger's last event", last, seq)
        self.check("git sees none of it", "", self.git("status", "--porcelain"))
        self.holdfast("advance", lines=1)
        self.git("checkout", "-q", "-b", "feat/greeting", is_shown=True)
        self.holdfast("advance", lines=1)
        self.commit("greeting.py", _TASKS[0])
        self.holdfast("task", "done", "1", "--commit", "HEAD")
        task = self.state()["tasks"][0]
        done = (task["status"], task.get("commit"))
        self.check("task 1 is done, by this commit", ("completed", self.commits[1]), done)
        self.why("All that a later session needs is on disk, and a finished task names its commit.")

    def kill(self) -> None:
        self.heading("Kill a writer, again and again")
        self.commit("test_greeting.py", _TASKS[1])
        words = ("task", "done", "2", "--id", "demo-2", "--commit", "HEAD")
        before = self.keeper().log()
        self.say(f"Started {_KILLS} times, and each time killed a little later:")
        self.typed(f"holdfast {' '.join(words)}")
        codes, statuses, sound = [], [], []
        for number in range(_KILLS):
            command = [sys.executable, "-m", "holdfast", *words]
            codes.append(self._run(command, kill_after_s=number * 0.015)[0])
            statuses.append(self.state()["tasks"][1]["status"])
            sound.append(self.keeper().verify().ok)
        killed = codes.count(-signal.SIGKILL)
        self.answered(f"Killed ({killed} of them before they had ended by themselves)")
        self.check("SIGKILL ended the first of them", -signal.SIGKILL, codes[0])
        odd = [status for status in statuses if status not in ("pending", "completed")]
        self.check("task 2 is done or not, and never anything in between", [], odd)
        self.check("after each kill the ledger is sound", [True] * _KILLS, sound)
        self.holdfast(*words)
        numbers = [event["data"]["task"] for event in self.events("task_completed")]
        self.check("nothing is lost, nothing is there twice", [1, 2], numbers)
        events = self.keeper().log()[: len(before)]
        self.check("what was in the ledger before still is, event for event", before, events)
        self.why("A crash costs at most the command that was running, never what was done.")

    def edit(self) -> None:
        self.heading("Edit the record by hand, well and badly")
        self.edit_record('"status": "pending"', '"status": "completed"')
        self.holdfast("status")
        done = self.state()["tasks"][2]["status"]
        self.check("a look shows it: task 3 is done", "completed", done)
        self.check("a look records nothing", [], self.events("record_edited"))
        self.holdfast("remind", "Name the translator")
        edits = [event["data"]["changes"][0] for event in self.events("record_edited")]
        change = [["tasks", 2, "status"], "pending", "completed"]
        self.check("after a change the edit is an event in the ledger, once", [change], edits)
        line = self.edit_record('"status": "completed"', '"status": "done"')
        bad = self.read(self.record)
        answer = self.holdfast("task", "start", "4")
        self.check(f"line {line} is named", True, f"line {line}:" in answer)
        names = glob.glob(f"{self.record}.rejected-*", root_dir=self.root)
        contents = [self.read(name) for name in names]
        self.check("the file is kept aside as it was saved", True, bad in contents)
        good = ["completed"] * 3 + ["in_progress"]
        statuses = [task["status"] for task in json_text.loads(self.read(self.record))["tasks"]]
        self.check("the record shows the last good state again", good, statuses)
        self.why("An editor is as good as a command, and a slip is answered with its line.")

    def lose_context(self) -> None:
        self.heading("Lose the context")
        self.say("In the middle of task 4 the session ends. The next one knows only the folder:")
        self._environment["CLAUDE_CODE_SESSION_ID"] = "second-session"
        briefing = self.holdfast("resume")
        parts = {
            "place": f"TASK 4/4 (4): {_TASKS[3]} (in progress",
            "next step": "NEXT: task 4",
            "pending gates": "PENDING gates: lint, test",
            "reading": f"@{_PLAN}",
            "reminders": _REMINDER,
        }
        missing = [name for name, text in parts.items() if text not in briefing]
        self.check(f"it reads its {', '.join(parts)}", [], missing)
        session = self.state()["session"]
        self.check("the work is its own from here on", "second-session", session and session["id"])
        self.why("The next session does not ask what was done: it reads that in its briefing.")

    def finish(self) -> None:
        self.heading("Finish, with everything accounted for")
        self.commit("README.md", _TASKS[3])
        self.holdfast("task", "done", "4", "--commit", "HEAD", lines=1)
        self.holdfast("advance", lines=1)
        answer = self.holdfast("complete", code=1)
        gates = ["lint", "test", "security_review", "code_simplifier", "pr_created"]
        pending = ["pr_creation", *gates]
        mentioned = [name for name in pending if name in answer]
        self.check("it is refused, and everything pending is named", pending, mentioned)
        answer = self.holdfast("gate", "record", "lint", "--passed", code=1)
        self.check("to say that lint passed is not enough", True, "takes a run" in answer)
        # Without -B Python would leave files of its own in the tree that the gate is shown on.
        self.holdfast("gate", "run", "test", "--", sys.executable, "-B", "-m", "unittest", "-q")
        gate = self.state()["gates"]["test"]
        result = [gate.get(name) for name in ("passed", "evidence", "exit_code")]
        self.check("Holdfast ran the tests itself, and they pass", [True, "run", 0], result)
        reason = "nobody reviews a demonstration"
        forced = ("--force", "--reason", reason)
        self.holdfast("complete", "--outcome", "greet() is in", *forced, lines=1)
        gates.remove("test")
        expected = [(reason, {"phases": ["pr_creation"], "gates": gates})]
        completions = [event["data"] for event in self.events("workflow_completed")]
        skipped = [(data.get("reason"), data.get("skipped")) for data in completions]
        self.check("what was skipped is recorded, with the reason", expected, skipped)
        self.holdfast("verify")
        self.holdfast("log", "--limit", "5")
        commits = [event["data"].get("commit") for event in self.events("task_completed")]
        in_git = self.git("log", "--reverse", "--format=%H", "main..").split()
        self.check("the commits in the log are the commits in git", in_git, commits)
        self.why("Done means done; what was left out is written down by name.")

    # What the scenes read and write

    def keeper(self) -> Keeper:
        return Keeper(self.root, by="demo", wait_s=10.0)

    def state(self) -> Workflow:
        state: Workflow = self.keeper().show(workflow=self.id).state
        return state

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.keeper().log() if event["type"] == kind]

    def read(self, name: str) -> bytes:
        with open(os.path.join(self.root, name), "rb") as file:
            return file.read()

    def write(self, name: str, text: str) -> None:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, name: str, message: str, *, is_shown: bool = True) -> None:
        self.write(name, _FILES[name])
        self.git("add", name)
        self.git("commit", "-q", "-m", message, is_shown=is_shown)
        self.commits.append(self.git("rev-parse", "HEAD"))

    def edit_record(self, old: str, new: str) -> int:
        """Change task 3's status in the record, as an editor would; return the line's number."""
        lines = self.read(self.record).decode().splitlines(keepends=True)
        numbers = [n for n, line in enumerate(lines) if _TASKS[2] in line and old in line]
        self.check("the record has one line for task 3", 1, len(numbers), is_shown=False)
        before = lines[numbers[0]]
        after = lines[numbers[0]] = before.replace(old, new)
        self.write(self.record, "".join(lines))
        self.typed(f"vi {self.record}")
        columns = self._width - len(_MARGIN) - 2
        removed, added = [shorten(clean(line.strip()), columns) for line in (before, after)]
        self.print(_MARGIN + self.screen.paint(f"- {removed}", "bad"))
        self.print(_MARGIN + self.screen.paint(f"+ {added}", "good"))
        return numbers[0] + 1

    # What the scenes run

    def holdfast(self, *words: str, code: int = 0, lines: int | None = None) -> str:
        """Run a command as a user would, and show it with ``lines`` of its answer, or all."""
        self.typed(" ".join(["holdfast", *map(quote, words)]))
        ended, answer = self._run([sys.executable, "-m", "holdfast", *words])
        for line in answer.splitlines()[: lines if ended == code else None]:
            self.answered(line)
        self.check(f"holdfast {words[0]} ends with {code}", code, ended, is_shown=False)
        return answer

    def git(self, *words: str, is_shown: bool = False) -> str:
        if is_shown:
            self.typed(" ".join(["git", *map(quote, words)]))
        code, answer = self._run([self._git, *words])
        if code:
            raise Fault(
                "git",
                f"git {words[0]} failed in {self.root}: {answer.strip()}",
                "see that git works here: git --version, git init in an empty folder",
            )
        return answer.strip()

    def _run(self, words: list[str], kill_after_s: float | None = None) -> tuple[int, str]:
        """Run a program; return its exit code, and what it printed."""
        process = subprocess.Popen(  # noqa: S603 - the words are the story's own
            words,
            cwd=self.root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            process.kill()
        answer = process.communicate()[0]
        return process.returncode, answer.decode(self._encoding, "replace")

    def _clean_environment(self) -> dict[str, str]:
        """Return the user's environment, without what would lead a command somewhere else."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)}
        # A relative PYTHONPATH means nothing in another folder.
        package = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
        paths = [package, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{role}_NAME": "Ada", f"GIT_{role}_EMAIL": "ada@example.com"}
        if self.screen.colour:
            environment["FORCE_COLOR"] = "1"
        return {
            **environment,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOLDFAST_MEMORY": "off",
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONIOENCODING": self._encoding,
        }

    # What the user sees

    def check(self, fact: str, expected: object, actual: object, *, is_shown: bool = True) -> None:
        """Show a fact; raise ``CheckFailed`` if it does not hold."""
        if expected != actual:
            raise CheckFailed(fact, expected, actual)
        if is_shown:
            self.facts += 1
            self.say(f"{self.screen.mark('completed')} {fact}")

    def say(self, text: str, tone: Tone | None = None, margin: str = _MARGIN) -> None:
        for line in wrap(text, self._width - len(margin)):
            self.print(margin + (self.screen.paint(line, tone) if tone else line))

    def heading(self, title: str) -> None:
        self._scenes += 1
        self.print()
        self.print(self.screen.paint(f"{self._scenes:>2}  {title}", "strong"))

    def why(self, text: str) -> None:
        self.say(f"{self.screen.arrow} {text}", "dim")

    def typed(self, line: str) -> None:
        """Show what a user would type, a long line broken before options."""
        first, *options = line.split(" --")
        lines = [first]
        for option in options:
            if len(lines[-1]) + len(option) + 5 > self._width - len(_MARGIN) - 2:
                lines[-1] += " \\"
                lines.append(f"  --{option}")
            else:
                lines[-1] += f" --{option}"
        for number, text in enumerate(lines):
            prompt = " " if number else "$"
            self.print(f"{_MARGIN}{prompt} {self.screen.paint(clean(text), 'active')}")

    def answered(self, line: str) -> None:
        """Show a line of a command's answer, with a bar at its side; its colour may go on below."""
        bar = self.screen.paint("│ " if self.screen.fancy else "| ", "dim")
        colour = ""
        for piece in wrap(line, self._width - len(_MARGIN) - 2):
            text = colour + piece
            _, escape, last = piece.rpartition("\x1b[")
            if escape:
                colour = "" if last.startswith("0m") else f"\x1b[{last.partition('m')[0]}m"
            self.print(f"{_MARGIN}{bar}{text}" + ("\x1b[0m" if colour else ""))

    def print(self, line: str = "") -> None:
        """Print a line; a closed pipe does not end the checks."""
        if self._out is None:
            return
        try:
            self._out.write(self.screen.encoded(line.rstrip()) + "\n")
            self._out.flush()
        except BrokenPipeError:
            self._out = None
