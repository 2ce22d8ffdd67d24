"""The examples in ``docs/`` run as they stand, as the README's do: each page in a repository.

A block is marked by the line above it: ``run`` (it succeeds), ``transcript`` (it answers so),
``file PATH`` (it is put there), ``shown`` (it needs what a test has not: a client, a network).
"""

import re
from pathlib import Path

import pytest

from support.examples import is_answer, make_shell, steps_of
from support.paths import ROOT

BLOCK = re.compile(r"^(?:<!-- (.+?) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted((ROOT / "docs").glob("*.md"))
GENERATED = {"cli.md", "api.md"}
"""Their examples come from the code, and are parsed by the tests of it."""
MARKS = ("run", "transcript", "shown", "file")


def blocks(path):
    """Mark, language and text of every block of code."""
    return [(mark or "", *rest) for mark, *rest in BLOCK.findall(path.read_text("utf-8"))]


def is_run(mark):
    return mark.split(" ")[0] in ("run", "transcript", "file")


RUN = [path for path in PAGES if any(is_run(mark) for mark, _, _ in blocks(path))]


def play(shell, mark, language, text):
    """Runs one block; what is wrong with it, or nothing."""
    kind, _, name = mark.partition(" ")
    if kind == "file":
        folder = Path(name).parent
        done = shell(f"mkdir -p {folder}\ncat > {name} <<'END OF FILE'\n{text}END OF FILE")
        return done.stderr
    if kind == "transcript":
        for command, answer in steps_of(text):
            done = shell(command)
            said = done.stdout + done.stderr
            if not is_answer(answer, said):
                return f"$ {command}\n{said}"
        return ""
    script = f"python - <<'END OF FILE'\n{text}END OF FILE" if language == "python" else text
    done = shell(script)
    return f"{script}\n{done.stdout}{done.stderr}" if done.returncode else ""


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_the_examples_of_a_page_run(tmp_path, path):
    shell = make_shell(tmp_path)
    for mark, language, text in blocks(path):
        if is_run(mark):
            wrong = play(shell, mark, language, text)
            assert not wrong, wrong
    done = shell("holdfast verify")
    assert done.returncode == 0, done.stdout


def test_what_a_builder_tries_twice_runs_twice(tmp_path):
    shell = make_shell(tmp_path)
    examples = [block for block in blocks(ROOT / "docs" / "library.md") if block[0] == "run"]
    assert [wrong for block in [*examples, *examples] if (wrong := play(shell, *block))] == []


def test_the_skill_to_copy_is_allowed_what_it_does_or_the_page_says_why_not():
    page = (ROOT / "docs" / "skills.md").read_text("utf-8")
    (skill,) = [text for mark, _, text in blocks(ROOT / "docs" / "skills.md") if "SKILL" in mark]
    used = set(re.findall(r"`(holdfast (?:gate )?\w+)", skill))
    asked = {command for command in used if f"Bash({command}:*)" not in skill}
    assert asked == {"holdfast gate run"}
    assert "leaves `holdfast gate run` out on purpose" in page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_example_with_holdfast_in_it_is_run_or_says_why_not(path):
    if path.name in GENERATED:
        return
    unmarked = [
        text
        for mark, language, text in blocks(path)
        if language in ("sh", "console", "python") and not mark
    ]
    assert [text for text in unmarked if "holdfast" in text] == []
    marks = {mark.split(" ")[0] for mark, _, _ in blocks(path) if mark}
    assert marks <= set(MARKS)


def test_pages_with_examples_are_found():
    assert len(RUN) >= 8


@pytest.mark.parametrize(
    ("mark", "language", "text"),
    [
        ("run", "sh", "holdfast no such command\n"),
        ("run", "python", "raise SystemExit(1)\n"),
        ("transcript", "console", "$ holdfast status\nseven workflows\n"),
        ("file /dev/null/recipe.toml", "toml", "a = 1\n"),
    ],
)
def test_an_example_that_does_not_hold_is_found(tmp_path, mark, language, text):
    assert play(make_shell(tmp_path), mark, language, text)
