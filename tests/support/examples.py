"""The examples in the documentation: a shell to run them in, and their expected output."""

import os
import re
import subprocess
import sys

from support.paths import SOURCE

BEGIN = [
    "git init -q",
    "git commit -q --allow-empty -m begin",
    "mkdir docs",
    "touch docs/login.md docs/search.md",
]


def make_shell(folder):
    """Return a function that runs a script in a new repository, with this Holdfast and Python."""
    tools, project = folder / "tools", folder / "project"
    tools.mkdir()
    project.mkdir()
    for name, words in (("holdfast", "-m holdfast"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tools / name).chmod(0o755)
    person = {"NAME": "Ada", "EMAIL": "ada@example.com"}
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "CLAUDE_"))}
    environment = {
        **inherited,
        **{f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in person.items()},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": SOURCE,
        "PYTHONIOENCODING": "utf-8",
    }

    def run(script):
        return subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("\n".join(BEGIN)).returncode == 0
    return run


def steps_of(transcript):
    """Yield the commands of a transcript, each with the lines of its answer."""
    for part in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
        command, answer = re.fullmatch(r"((?:.*\\\n)*.*)\n((?:.*\n)*)", part).groups()
        yield command, answer


def is_answer(answer, output):
    """Return True if the output is this answer, in which a line of ``…`` matches any lines."""
    pieces = [re.escape(piece) for piece in re.split(r"^…\n", answer, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*?".join(pieces), output) is not None
