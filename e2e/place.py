"""A throw-away home and a throw-away git repository, with the installed Holdfast in it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

HOLDFAST = Path(__file__).resolve().parent / ".venv" / "bin"
SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
LIMIT_S = 60


class Place:
    """Where a client works. ``path`` is the repository; ``home`` is nobody's."""

    def __init__(self, root, path=None):
        self.root = Path(root)
        self.home = self.root / "home"
        self.path = Path(path or self.root / "work")
        self.programs = [str(HOLDFAST), *SYSTEM]
        self.variables = {}
        for folder in (self.home, self.path, self.root / "tmp"):
            folder.mkdir(exist_ok=True)
        if path is None:
            self.git("init", "-q", "-b", "main")
            self.write("README.md", "A project.\n")
            self.commit("begin")

    def environment(self):
        """What anybody in this place has; nothing of the person who runs the tests."""
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(self.programs),
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.variables,
        }

    def run(self, *words, check=True):
        done = subprocess.run(
            words, cwd=self.path, env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def git(self, *words):
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        return self.run("git", *who, *words).stdout.strip()

    def commit(self, message):
        self.git("add", ".")
        self.git("commit", "-q", "-m", message)

    def write(self, path, text):
        full = self.path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, "utf-8")
        return full

    def worktree(self, name):
        """A linked worktree on a branch of its own."""
        self.git("worktree", "add", "-q", "-b", name, f"../{name}")
        return Place(self.root, self.root / name)

    def without_holdfast(self):
        """The same place, for somebody who never installed it; ``None`` if the system has it."""
        self.programs = list(SYSTEM)
        return None if shutil.which("holdfast", path=os.pathsep.join(SYSTEM)) else self

    # What Holdfast says

    def holdfast(self, *words):
        return json.loads(self.run("holdfast", *words, "--json").stdout)

    def state(self):
        """The one workflow that is active here, whoever holds it."""
        (row,) = self.holdfast("status")["workflows"]
        return self.holdfast("show", row["id"])["workflow"]

    def events(self, kind):
        """What the ledger holds of a kind, oldest first."""
        return [event for event in self.holdfast("log")["events"] if event["type"] == kind]

    def hook_log(self):
        common = self.git("rev-parse", "--path-format=absolute", "--git-common-dir")
        path = Path(common) / "holdfast" / "hook.log"
        return path.read_text("utf-8") if path.exists() else ""

    def has_command(self, name):
        return self.run("holdfast", "help", name, check=False).returncode == 0
