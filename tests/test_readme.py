"""The README's examples run as they stand, in a repository of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^<!-- (run|transcript) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in BLOCK.finditer(README)]
COMMANDS = [
    "git init -q",
    "git commit -q --allow-empty -m begin",
    "mkdir docs",
    "touch docs/login.md docs/search.md",
]


def blocks(mark, language):
    found = [text for *kind, text in BLOCKS if kind == [mark, language]]
    assert found
    return found


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return a_shell(tmp_path_factory.mktemp("readme"))


def a_shell(folder):
    """Runs a script in a fresh repository in which ``holdfast`` and ``python`` are these."""
    tools, project = folder / "tools", folder / "project"
    tools.mkdir()
    project.mkdir()
    for name, words in (("holdfast", "-m holdfast"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tools / name).chmod(0o755)
    person = {"NAME": "Ada", "EMAIL": "ada@example.com"}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "CLAUDE_"))}
    environment = {
        **kept,
        **{f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in person.items()},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
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

    assert run("\n".join(COMMANDS)).returncode == 0
    return run


def told(transcript):
    """The commands of a transcript, each with the lines that it is said to answer."""
    for part in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
        command, answer = re.fullmatch(r"((?:.*\\\n)*.*)\n((?:.*\n)*)", part).groups()
        yield command, answer


def matches(answer, found):
    """Whether the answer is what was found, a line of ``…`` standing for any lines."""
    pieces = [re.escape(piece) for piece in re.split(r"^…\n", answer, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*?".join(pieces), found) is not None


def test_the_examples_run_and_the_transcript_is_what_they_answer(shell):
    (transcript,) = blocks("transcript", "console")
    for command, answer in told(transcript):
        done = shell(command)
        assert done.returncode == 0, done.stderr
        assert matches(answer, done.stdout), f"$ {command}\n{done.stdout}"
    assert shell("holdfast abandon").returncode == 0
    for script in blocks("run", "sh"):
        done = shell(script)
        assert done.returncode == 0, done.stderr
    assert "Find words and phrases" in done.stdout
    assert "was edited" in done.stdout
    assert shell("holdfast abandon").returncode == 0
    for program in blocks("run", "python"):
        done = shell(f"python - <<'END'\n{program}END")
        assert done.returncode == 0, done.stderr
        assert "still has pending" in done.stdout
        assert "WORKFLOW: Move to the new index" in done.stdout
        again = shell(f"python - <<'END'\n{program}END")
        assert again.returncode == 0, again.stderr
    assert shell("holdfast verify").returncode == 0


def test_every_make_target_that_is_named_exists():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert named == {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


def test_every_shell_example_with_holdfast_in_it_is_run():
    every = re.findall(r"^```(?:sh|console)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    run = [text for _, language, text in BLOCKS if language in ("sh", "console")]
    assert [text for text in every if "holdfast " in text and text not in run] == []


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^):]+)\)", README))))
def test_every_document_that_is_named_is_there(path):
    assert (ROOT / path).exists()


def test_it_fits_on_two_screens():
    assert len(README.splitlines()) <= 140
