"""Everything that writes, as processes: the commands of the story, the hooks, the tools over MCP.

A ``Step`` is one process with what it reads. ``Scenes`` goes through the story once and keeps a
copy of the repository from right before each step; promises are tried on copies of those.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

import holdfast
from holdfast.hooks.handlers import EVENTS
from holdfast.mcp.workflow_tools import TOOLS
from holdfast.system.disk import Disk
from holdfast.workspace.location import sign_ledger
from promises import strace
from promises.journeys import INDEX, command, history_of, run_held
from support.mcp_client import STATELESS
from support.paths import SOURCE
from support.story import FOUND, PAGE, STORY

ENTRY = os.path.join(os.path.dirname(holdfast.__file__), "hooks", "entry.py")
RETRY = "tried"
CORRECTED = "initiative_sync_corrected"
READING = {
    "recipes", "recipes show", "status", "show", "log", "gate list", "violation list", "context",
    "forge show", "interview show", "delegation list", "trust", "verify", "loop status",
    "loop next", "memory search", "completion", "help", "hook", "initiative show", "watch",
    "export",
}  # fmt: skip
"""What changes nothing of its own."""
CHANGING = re.compile(r'"(pid|born|duration_ms)": \d+')
TOLD_HOOKS = {
    "source": "compact",
    "reason": "other",
    "trigger": "auto",
    "prompt": "go on",
    "stop_hook_active": False,
    "tool_name": "Read",
    "tool_input": {"file_path": "README.md"},
}
"""What one event or another tells beside its name."""
CALLS = [
    ("start", {"recipe": "dev", "subject": "b.md", "tasks": ["one"]}),
    ("resume", {}),
    ("phase", {"action": "advance"}),
    ("task", {"action": "add", "text": "more"}),
    ("gate", {"action": "record", "gate": "security_review", "passed": True}),
    ("note", {"kind": "reminder", "text": "carefully"}),
    ("complete", {"force": True, "reason": "enough"}),
]

ADA = {
    **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05Z" for who in ("AUTHOR", "COMMITTER")},
}
"""Who commits, and when: the same commit has the same id in every trial."""
EXPORT = "other.ndjson"
"""A ledger from elsewhere."""
BEGUN = [name for name, _ in STORY].index("gate run")
"""A moment in the story at which a workflow is active."""


class Step(NamedTuple):
    """A process that changes something; ``before`` is the line of the story it stands before."""

    name: str
    kind: str
    words: list[str]
    given: bytes
    before: int

    @property
    def is_named(self):
        """Whether a retry is known by its id; a client fires a hook as often as it likes."""
        return self.kind != "hook"


def in_json(words, *more):
    """The words with ``--json``, which is Holdfast's own only before ``--``."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *more, "--json", *words[end:]]


def _commands():
    for number, (name, line) in enumerate(STORY):
        if name in READING:
            continue
        words = in_json(shlex.split(line), "--id", RETRY)
        yield Step(name, "command", [sys.executable, "-m", "holdfast", *words], b"", number)
    words = [sys.executable, "-m", "holdfast", "import", EXPORT, "--json"]
    yield Step("import", "command", words, b"", BEGUN)


def _hooks():
    for event in EVENTS:
        yield Step(event, "hook", [sys.executable, "-I", "-S", ENTRY], b"", BEGUN)


def _tools():
    known = {tool["name"] for tool in TOOLS if not tool["annotations"].get("readOnlyHint")}
    assert known == {name for name, _ in CALLS}
    for name, arguments in CALLS:
        asked = {"name": name, "arguments": {**arguments, "id": RETRY}, "_meta": STATELESS}
        line = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
        words = [sys.executable, "-m", "holdfast", "mcp"]
        yield Step(name, "tool", words, json.dumps(line).encode() + b"\n", BEGUN)


STEPS = [*_commands(), *_hooks(), *_tools()]


def environment(root):
    """That of a machine where nobody is at home."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.path.join(os.path.dirname(root), "home"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": SOURCE,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "HOLDFAST_MEMORY": os.path.join(root, "memory"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "CLAUDE_CODE_SESSION_ID": "session-1",
        **ADA,
    }


def _steady(data):
    """The data without what is another with every process."""
    return json.loads(CHANGING.sub(r'"\1": 0', json.dumps(data)))


class Scene:
    """A repository at a moment of the story."""

    def __init__(self, root):
        self.root = root

    def copy(self, root):
        subprocess.run(["cp", "-a", self.root, root], check=True)
        home = os.path.join(root, ".git", "holdfast")
        if os.path.exists(os.path.join(home, "ledger.db")):
            sign_ledger(home, Disk())  # A copy with another home is another person's.
        return Scene(root)

    def drop(self):
        shutil.rmtree(self.root)

    def given(self, step):
        if step.kind != "hook":
            return step.given
        fields = {"session_id": "session-1", "cwd": self.root, "hook_event_name": step.name}
        return json.dumps({**fields, **TOLD_HOOKS}).encode()

    def run(self, step, attach=None):
        """Run the step as a process; call ``attach`` with its number while it waits to begin."""
        return run_held(
            step.words, attach, self.given(step), cwd=self.root, env=environment(self.root)
        )

    def run_traced(self, step, log, *options):
        """Run the step under strace, with further options of strace."""
        with strace.tracing(log, *options) as attach:
            return self.run(step, attach)

    def ask(self, *words):
        """A command line in a forked process, for speed: its exit code and its object."""
        words = in_json(words)
        ended = command(self.root, words, environment=environment(self.root))
        assert ended.stdout, ended
        return ended.returncode, json.loads(ended.stdout)

    def history(self):
        """What was asked for, as ``history_of`` has it.

        That a file which a killed command did not get to was brought in step is an event, too.
        """
        code, answer = self.ask("log")
        assert code == 0, answer
        asked = [event for event in answer["events"] if event["type"] != CORRECTED]
        return [(name, kind, _steady(data)) for _, name, _, kind, data in history_of(asked)]

    def complaints(self):
        """The lines of ``verify`` that are not fine; an index may be behind till the next event."""
        _, answer = self.ask("verify")
        fine = ("ok", "note", "behind")
        found = answer["lines"]
        return [line for line in found if line["level"] not in fine and line["what"] != INDEX]

    def names(self):
        """Every file that Holdfast has here, so that what a killed step left would be seen."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name not in (".git", "quarantine")]
            found.update(os.path.relpath(os.path.join(folder, name), self.root) for name in files)
        return found


def _exported(root):
    """What another repository's ledger exports."""
    os.makedirs(root)
    scene = Scene(root)
    code, answer = scene.ask("start", "dev", "elsewhere.md", "--task", "one")
    assert code == 0, answer
    return command(root, ["export"], environment=environment(root)).stdout


class Scenes:
    """The story, told once, with a copy of the repository from before each of its lines."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "home"))
        scene = Scene(os.path.join(folder, "now"))
        os.makedirs(os.path.join(scene.root, os.path.dirname(FOUND)))
        export = _exported(os.path.join(folder, "elsewhere"))
        for name, text in (("README.md", "A project.\n"), (FOUND, PAGE), (EXPORT, export)):
            with open(os.path.join(scene.root, name), "w") as file:
                file.write(text)
        for line in ("init -q -b main", "add .", "commit -q -m begin"):
            who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
            command = ["git", *who, *line.split()]
            subprocess.run(command, cwd=scene.root, check=True, capture_output=True)
        shutil.rmtree(os.path.join(scene.root, ".git", "hooks"), ignore_errors=True)
        for number, (_, line) in enumerate(STORY):
            scene.copy(self._path(number))
            code, answer = scene.ask(*shlex.split(line))
            assert code == 0, (line, answer)

    def _path(self, number):
        return os.path.join(self.folder, f"before-{number}")

    def before(self, step):
        return Scene(self._path(step.before))
