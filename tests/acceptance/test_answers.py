"""Every answer of ``--json`` fits the schema of its command."""

import pytest
from jsonschema import Draft202012Validator

from handbook import answers
from support.story import FOUND, STORY


def misfits(command, answer):
    errors = Draft202012Validator(answers.of_command(command)).iter_errors(answer)
    return [f"{command}: {error.json_path}: {error.message[:200]}" for error in errors]


def test_every_answer_fits_the_schema_of_its_command(repo):
    repo.write(FOUND, "## M1: Map\n\n- [x] readers\n")
    said = [(name, repo.run(*repo.in_json(line.split())).json) for name, line in STORY]
    assert [wrong for name, answer in said for wrong in misfits(name, answer)] == []


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("task done", "task done 9"),
        ("start", "start nosuch x"),
        ("verify", "verify --nosuch"),
        ("gate run", "gate run lint -- false"),
        ("tests run", "tests run -- false"),
    ],
)
def test_an_answer_that_says_no_fits_it_too(repo, command, line):
    repo.ok("start", "dev", "x")
    answer = repo.run(*repo.in_json(line.split())).json
    assert answer["ok"] is False
    assert misfits(command, answer) == []


def test_what_holdfast_alone_answers_fits_it_too(repo):
    assert misfits("holdfast", repo.ok()) == []
    repo.ok("start", "dev", "x")
    assert misfits("holdfast", repo.ok()) == []
