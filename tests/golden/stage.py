"""Where a chapter is played: a repository and a home that nobody else has, and a runner in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runner.py")
NOON = 1_771_329_600_000  # 2026-02-17T12:00:00Z
MINUTE_MS = 60_000
PROGRAMS = ("git", "sh", "true", "false", "echo", "cat", "sed", "cp", "grep", "test")
COMMITTED_AT = "2026-02-17T11:00:00Z"
SETTLED = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
STORAGE = (".git", ".claude/holdfast")
"""Folders that hold the ledger: how it is stored is nobody's interface."""
EXCLUDE = ".git/info/exclude"
NAME = "project"
ABOVE = "/tmp"
"""Whatever the temporary folder is: texts are laid out by the length of a path."""
LENGTH = 90
"""The root's path has so many characters everywhere, so that texts are cut at the same points."""


class Runner:
    """The process that runs the steps of all chapters with the package ``holdfast`` of a folder."""

    def __init__(self, source):
        self.source = os.path.realpath(source)
        self._process = subprocess.Popen(
            [sys.executable, RUNNER],
            env={**SETTLED, "PYTHONPATH": self.source},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        with self._process:
            self._process.stdin.close()

    def run(self, step):
        """Run a step; return what came of it."""
        self._process.stdin.write(json.dumps(step).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Stage:
    """A folder with a git repository, an empty home, and the commands that are run there."""

    def __init__(self, runner):
        self._runner = runner
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="golden-", dir=ABOVE))
        self.source = runner.source
        filling = "w" * (LENGTH - len(self.base) - len(NAME) - 2)
        self.root = os.path.join(self.base, filling, NAME)
        self.home = os.path.join(self.base, "home")
        self.programs = os.path.join(self.base, "bin")
        self.at_ms = NOON
        self.spare = os.path.join(self.base, "tmp")
        for folder in (self.root, self.home, self.programs, self.spare):
            os.makedirs(folder)
        self._link_programs()
        self.write("README.md", "A project.\n")
        self.git("init", "-q", "-b", "main")
        shutil.rmtree(os.path.join(self.root, ".git", "hooks"), ignore_errors=True)
        self.write(EXCLUDE, "")
        self.git("add", "README.md")
        self.git("commit", "-q", "-m", "begin")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        shutil.rmtree(self.base)

    def _link_programs(self):
        for name in PROGRAMS:
            os.symlink(shutil.which(name), os.path.join(self.programs, name))
        path = os.path.join(self.programs, "holdfast")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
        os.chmod(path, 0o755)

    def environment(self):
        """Nothing of the person who runs the tests."""
        return {
            "PATH": self.programs,
            "HOME": self.home,
            "TMPDIR": self.spare,
            **SETTLED,
            "PYTHONPATH": self.source,
            "CLAUDE_CODE_PROJECT_DIR_NAME": "project",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_DATE": COMMITTED_AT for who in ("AUTHOR", "COMMITTER")},
        }

    def run(self, words, *, folder="", environment=None, **more):
        """Run a command a minute after the last; return what came of it."""
        self.at_ms += MINUTE_MS
        step = {
            "words": words, "folder": self.path(folder), "at_ms": self.at_ms, "stdin": "",
            "environment": {**self.environment(), **(environment or {})}, **more,
        }  # fmt: skip
        return self._runner.run(step)

    def git(self, *words):
        command = ["git", *words]
        subprocess.run(
            command, cwd=self.root, env=self.environment(), check=True, capture_output=True
        )

    def path(self, name):
        return os.path.normpath(os.path.join(self.root, name))

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="backslashreplace") as file:
            return file.read()

    def files(self):
        """Every file of the repository, its linked worktrees and the home; no storage."""
        above = os.path.dirname(self.root)
        trees = {name: f"../{name}/" for name in os.listdir(above) if name != NAME}
        tops = {self.root: "", self.home: "~/"}
        tops.update({os.path.join(above, name): sign for name, sign in trees.items()})
        found = {
            sign + path: self.read(full) for top, sign in tops.items() for path, full in _files(top)
        }
        if os.path.exists(self.path(EXCLUDE)):
            found[EXCLUDE] = self.read(EXCLUDE)
        return dict(sorted(found.items()))


def _files(top):
    """Yield every file below a folder, from there and from anywhere."""
    for folder, folders, names in os.walk(top):
        below = os.path.relpath(folder, top)
        folders[:] = [
            name for name in folders if os.path.normpath(os.path.join(below, name)) not in STORAGE
        ]
        for name in names:
            # A database is storage too, and so is what names the ledger of a linked worktree.
            if ".db" not in name and name != ".git":
                path = os.path.normpath(os.path.join(below, name))
                yield path, os.path.join(top, path)
