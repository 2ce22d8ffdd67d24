"""Every mutating command, in an order in which it is accepted, for one recipe of each format.

A journey is a list of command lines. The state before the n-th of them is what the ones before it
leave, so "every command of every journey" is the matrix that the promises are tried on.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

from holdfast.cli.parser import COMMANDS, parse
from support import fork_server
from support.git_template import make_repository
from support.paths import SOURCE
from support.workshop import Workshop

PHASES = {
    "dev": ("load_feature", "create_branch", "task_execution"),
    "custom": ("gather", "change", "check"),
    "apex": ("analyze", "plan", "implement"),
    "loop-development": ("discover", "plan", "execute"),
}
MUTATING = {
    "start", "advance", "phase start", "phase complete", "phase block", "phase unblock",
    "phase skip", "step", "task add", "task start", "task done", "task block", "remind", "read",
    "set", "complete", "abandon", "resume",
}  # fmt: skip
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": SOURCE,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "CLAUDE_CODE_SESSION_ID": "",
}
INDEX = ".claude/workflow-state/index.json"
CHANCE = re.compile(r"^[0-9a-f]{24}")
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:?\d{2}:?\d{2}(?:\.\d+)?Z?|\d{8}_\d{6}")


def journey(recipe):
    """The command lines for a recipe, each with a name that is unique in the journey."""
    first, second, _ = PHASES[recipe]
    one, two = ("T1", "T2") if recipe.startswith("loop") else ("1", "2")
    own = [word for name in PHASES[recipe] for word in ("--phase", name)]
    start = [
        *("start", recipe, "docs/feature.md", "--title", "A feature", "--task", "one"),
        *("--task", "two", "--read", "@docs/plan.md", "--remind", "be kind", "--set", "k=v"),
        *(own if recipe == "custom" else []),
    ]
    lines = [
        start,
        ["phase", "start", first, "note=begun"],
        ["phase", "block", first, "--reason", "no access"],
        ["phase", "unblock", first],
        ["step", "draft"],
        ["phase", "complete", first, "found=3"],
        ["phase", "start", second, "note=begun"],
        # A branch is missing in dev and an approval in apex; in the others nothing is.
        ["advance", "--force", "--reason", "the plan is old"],
        ["task", "add", "three", "four"],
        ["task", "start", one],
        ["task", "block", one, "--reason", "a question"],
        ["task", "start", one],
        # A loop's unit is not done by a word.
        ["task", "done", one, "--commit", "HEAD"] if one == "1" else ["set", "unit=1"],
        ["task", "start", two],
        ["remind", "run the slow tests"],
        ["read", "@docs/more.md"],
        ["set", "tries=2", "hosts=[1,2]"],
        ["phase", "start", second],
        ["abandon", "--reason", "not now"],
        ["resume"],
        ["phase", "skip", second, "--reason", "seen before"],
        ["complete", "--force", "--reason", "the rest moved", "--outcome", "good enough"],
        ["resume", "--session", "s-2"],
    ]
    return [(_named(line, number), line) for number, line in enumerate(lines)]


def _named(line, number):
    pair = " ".join(line[:2])
    return f"{number:02}-{(pair if pair in MUTATING else line[0]).replace(' ', '-')}"


def run_held(words, attach=None, given=None, **options):
    """Run a program in a fork; call ``attach`` with its number while it waits to begin."""
    with fork_server.Process(
        words,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        hold=attach is not None,
        **options,
    ) as process:
        if attach is not None:
            attach(process.pid)
            os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(given, timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def command(root, words, *, environment=None, **options):
    """Run a command line of Holdfast in a fork; return how it ended."""
    words = [sys.executable, "-m", "holdfast", *words]
    return run_held(words, cwd=root, env=environment or ENVIRONMENT, text=True, **options)


def ask(root, *words, environment=None):
    """Return exit code and object of a command line."""
    ended = command(root, [*words, "--json"], environment=environment)
    assert ended.stdout, ended
    return ended.returncode, json.loads(ended.stdout)


def call(keeper, words):
    """One command line, by the surface's own way but with this keeper; what its receipt says."""
    args = parse(words)
    fields = COMMANDS[args["command"]].run(keeper, args).fields()
    return SimpleNamespace(seqs=fields["seqs"], state=fields["workflow"])


class Site:
    """A repository in which a journey goes on, and the questions that are asked after a fault."""

    def __init__(self, root):
        self.root = os.fspath(root)
        self.workflow = None

    @classmethod
    def made(cls, root, *, git=True):
        site = cls(root)
        Workshop(site.root, git=False)
        if git:
            make_repository(site.root, committed=True)
        os.makedirs(os.path.join(site.root, "docs"), exist_ok=True)
        return site

    def copy(self, root):
        """The same repository elsewhere; hard links stay hard links."""
        subprocess.run(["cp", "-a", self.root, os.fspath(root)], check=True)
        other = Site(root)
        other.workflow = self.workflow
        return other

    def drop(self):
        shutil.rmtree(self.root)

    def keeper(self, **options):
        from holdfast import Keeper

        return Keeper(self.root, **options)

    def words(self, line, command_id):
        """The command line with its id, and with the workflow it means."""
        aimed = ["-w", self.workflow] if self.workflow and line[0] != "start" else []
        return [*line, *aimed, "--id", command_id]

    def do(self, line, command_id, keeper=None):
        receipt = call(keeper or self.keeper(), self.words(line, command_id))
        self.workflow = receipt.state["id"]
        return receipt

    def run(self, line, command_id=None, **options):
        """The same as a process of its own; exit code and the one JSON object it printed."""
        words = self.words(line, command_id) if command_id else line
        start = subprocess.run if options.get("preexec_fn") else fork_server.run
        ended = start(
            [sys.executable, "-m", "holdfast", *words, "--json"],
            **{"cwd": self.root, "env": ENVIRONMENT, **options},
            capture_output=True,
            check=False,
            timeout=120,
        )
        return ended.returncode, json.loads(ended.stdout)

    def go(self, lines):
        """Carry out the lines, each in a process of its own and under its name as the id."""
        for name, line in lines:
            code, answer = ask(self.root, *self.words(line, name))
            assert code == 0, answer
            self.workflow = answer["workflow"]["id"]
        return self

    def events(self):
        return self.keeper().log()

    def ids(self):
        """The ids of all commits, in order."""
        return [event["id"] for event in self.events() if "." not in event["id"]]

    def bytes_everywhere(self):
        """The content of every file, the ledger's folder included."""
        found = []
        for folder, _, names in os.walk(self.root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found.append(file.read())
        return found

    @property
    def home(self):
        """The ledger's folder."""
        git = os.path.join(self.root, ".git")
        return os.path.join(git if os.path.isdir(git) else f"{self.root}/.claude", "holdfast")


class Stages:
    """The journeys, gone once, with a copy of the repository from before each line."""

    def __init__(self, folder):
        self._folder = folder
        self._sites = {}

    def site(self, root, recipe, number, *, git=True):
        """A repository in which the first lines of the recipe's journey are carried out."""
        return self._stage(recipe, number, git).copy(root)

    def _stage(self, recipe, number, git):
        key = (recipe, number, git)
        if key not in self._sites:
            root = os.path.join(self._folder, f"{recipe}-{number}-{git}")
            if number == 0:
                self._sites[key] = Site.made(root, git=git)
            else:
                before = self._stage(recipe, number - 1, git)
                self._sites[key] = before.copy(root).go(journey(recipe)[number - 1 : number])
        return self._sites[key]


def timeless(value):
    """The value with every moment in it replaced by the same word."""
    return json.loads(MOMENT.sub("then", json.dumps(value)))


def history_of(events):
    """What happened, without when and by whom, and with one word for ids made by chance."""
    return [
        (
            event["seq"],
            CHANCE.sub("some", event["id"]),
            event["version"],
            event["type"],
            timeless(event["data"]),
        )
        for event in events
    ]
