"""Secrets that a gate or a test prints are in no file of ours, and in no answer."""

import os

import pytest

TOKEN = "ghp_" + "a1B2c3D4" * 5
VALUE = "zq9-of-a-variable"
PASSWORD = "hunter2-on-the-line"
SECRETS = (TOKEN, VALUE, PASSWORD)
PRINTS = f"echo {TOKEN}; echo $DEPLOY_TOKEN; echo FAILED tests/a.py::test_[{TOKEN}]; exit 1"
WORDS = ("--", "sh", "-c", PRINTS, "sh", "--password", PASSWORD)


@pytest.fixture
def dev(repo):
    repo.environment["DEPLOY_TOKEN"] = VALUE
    repo.ok("start", "dev", "feature.md", "--task", "one")
    return repo


def contents(top):
    """Yield every file below a folder, the ledger with its journal too."""
    for folder, _, names in os.walk(top):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                yield os.path.join(folder, name), file.read()


RUNS = {
    "gate": ("gate", "run", "lint", "--json", *WORDS),
    "tests": ("tests", "run", "--json", *WORDS),
    "claim": (
        "tests", "record", "--json", "--command", f"pytest --password {PASSWORD}",
        "--failing", f"test_[{TOKEN}]", "--error", f"it said {VALUE}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RUNS)
def test_no_secret_of_a_run_is_kept_anywhere(dev, kind):
    answer = dev.run(*RUNS[kind])
    later = [dev.run(*words) for words in (["resume"], ["show", "--json"], ["log"], ["export"])]
    texts = [text for each in (answer, *later) for text in (each.out, each.err)]
    assert "[masked]" in answer.out
    for secret in SECRETS:
        assert not [text for text in texts if secret in text]
        assert not [path for path, raw in contents(dev.path) if secret.encode() in raw]


def test_a_command_with_a_secret_is_asked_for_again_and_is_the_same_command(dev):
    dev.run(*RUNS["gate"])
    error = dev.refused("gate", "run", "lint")
    assert error["code"] == "no_command"
    assert error["hint"] == "holdfast gate run lint -- COMMAND"
    assert dev.run(*RUNS["gate"]).json["error"]["code"] == "failed"
    assert dev.refused("gate", "run", "lint", "--", "test", "-d", ".")["code"] == ("other_command")


def test_the_patterns_of_the_team_add_to_what_is_masked(dev):
    dev.write(".claude/holdfast.toml", "[mask]\npatterns = ['K-[0-9]{4}']\n")
    gate = dev.ok("gate", "run", "lint", "--", "sh", "-c", f"echo K-1234 {TOKEN}")["gate"]
    assert gate["output_tail"] == "[masked] [masked]"
    assert "K-1234" not in gate["command"]
