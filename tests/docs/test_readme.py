"""The README's examples run as they stand, in a repository of their own."""

import re

import pytest

from support.examples import is_answer, make_shell, steps_of
from support.paths import ROOT

README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^<!-- (run|transcript) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in BLOCK.finditer(README)]


def blocks(mark, language):
    found = [text for *kind, text in BLOCKS if kind == [mark, language]]
    assert found
    return found


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return make_shell(tmp_path_factory.mktemp("readme"))


def test_the_examples_run_and_the_transcript_is_what_they_answer(shell):
    (transcript,) = blocks("transcript", "console")
    for command, answer in steps_of(transcript):
        done = shell(command)
        assert done.returncode == 0, done.stderr
        assert is_answer(answer, done.stdout), f"$ {command}\n{done.stdout}"
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
        assert "still needs" in done.stdout
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
