"""Run commands as a person types them: real processes in a folder, with parsed answers."""

import json
import os
import subprocess
import sys

from support import fork_server
from support.paths import SOURCE

INDEX = ".claude/workflow-state/index.json"
KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")


def clean_environment(home):
    """Return an environment without the settings of the person who runs the tests."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or name.startswith(("COV_", "COVERAGE_"))
    }
    return {
        **inherited,
        "HOME": str(home),
        "HOLDFAST_BACKGROUND": "off",
        "HOLDFAST_HOOK_MS": "60000",  # Of a hook on a busy machine, tests want the whole answer.
        "LANG": "C.UTF-8",
        "PYTHONPATH": SOURCE,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
    }


class Answer:
    """The result of a process: its exit code, its output, and the object that it printed."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout.decode(errors="surrogateescape")
        self.err = done.stderr.decode(errors="surrogateescape")

    @property
    def json(self):
        """Return the printed object; fail if standard output has anything else."""
        assert self.out.endswith("\n"), (self.out, self.err)
        lines = self.out.splitlines()
        assert len(lines) == 1, (self.out, self.err)
        value = json.loads(lines[0])
        assert isinstance(value, dict)
        assert value["ok"] is (self.code == 0)
        return value

    def __repr__(self):
        return f"<exit {self.code}\n{self.out}{self.err}>"


class Folder:
    """A folder to run commands in, with their environment."""

    def __init__(self, path, environment):
        self.path = str(path)
        self.environment = environment

    def run(self, *words, **options):
        """Run ``holdfast WORDS``; return its answer, successful or not."""
        command = [sys.executable, "-m", "holdfast", *words]
        settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 120, **options}
        env = settings.pop("env", self.environment)
        return Answer(fork_server.run(command, cwd=self.path, env=env, **settings))

    @staticmethod
    def in_json(words):
        """Return the words with ``--json``, which has to be before ``--``."""
        end = words.index("--") if "--" in words else len(words)
        return (*words[:end], "--json", *words[end:])

    def ok(self, *words, **options):
        """Run a command that must succeed; return its object."""
        answer = self.run(*self.in_json(words), **options)
        assert answer.code == 0, answer
        return answer.json

    def refused(self, *words, exit_code=1, **options):
        """Run a command that must fail; return its error."""
        answer = self.run(*self.in_json(words), **options)
        assert answer.code == exit_code, answer
        error = answer.json["error"]
        assert error["message"]
        assert error["hint"]
        return error

    def state(self, workflow=None):
        return self.ok("show", *([workflow] if workflow else []))["workflow"]

    def types(self, workflow=None):
        """Return the types of the events, oldest first."""
        events = self.ok("log", *([workflow] if workflow else []))["events"]
        return [event["type"] for event in events]

    def at(self, *parts):
        """Return another folder with the same environment; make it if it does not exist."""
        path = os.path.join(self.path, *parts)
        os.makedirs(path, exist_ok=True)
        return Folder(path, self.environment)

    def as_session(self, session, pid=None):
        """Return this folder, with the environment of a client's session."""
        variables = {} if pid is None else {"CLAUDE_PID": str(pid)}
        variables["CLAUDE_CODE_SESSION_ID"] = session
        return Folder(self.path, {**self.environment, **variables})

    def git(self, *words, check=True):
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=self.environment, check=check, capture_output=True
        )
        return done.stdout.decode().strip()

    def commit(self, name, text, message="more"):
        self.write(name, text)
        self.git("add", "--", name)
        self.git("commit", "-q", "-m", message)

    def write(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def has(self, *parts):
        return os.path.lexists(os.path.join(self.path, *parts))

    def edit(self, name, change):
        """Edit a JSON file by hand: ``change`` gets its document."""
        document = self.record(name)
        change(document)
        self.write(name, json.dumps(document, indent=2))

    def indexed_ids(self):
        """Return the ids in the index of active skill workflows."""
        return [row["id"] for row in self.record(INDEX)["active_workflows"]]

    def record(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return json.load(file)
