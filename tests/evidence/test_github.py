"""What is asked of ``gh`` ends in time, and what it says in an unusual way is a refusal."""

import os

import pytest

from holdfast.errors import Refused
from holdfast.evidence import github
from support import gh_program
from support.git_template import make_repository, run_git


@pytest.fixture
def work(tmp_path, monkeypatch):
    root, hub = tmp_path / "work", tmp_path / "hub.git"
    make_repository(root, committed=True)
    run_git(tmp_path, "init", "-q", "--bare", "-b", "main", str(hub))
    run_git(root, "remote", "add", "origin", "git@github.com:octo/shop.git")
    run_git(root, "config", "remote.origin.pushurl", str(hub))
    run_git(root, "push", "-q", "origin", "main", "main:feat")
    repositories = {"octo/shop": {"folder": str(hub), "pulls": []}}
    for name, value in gh_program.install(tmp_path / "bin", {"repositories": repositories}).items():
        monkeypatch.setenv(name, value)
    return root


def test_the_repository_and_its_main_branch_are_those_of_gh(work):
    found = github.GitHub(work, "pr")
    assert (found.name, found.main) == ("octo/shop", "main")
    assert found.head_of("origin") == ("octo", "shop")


def test_a_program_that_hangs_is_ended_and_nothing_is_claimed_to_be_done(work, monkeypatch):
    found = github.GitHub(work, "pr")
    change(faults={"POST": "hang"})
    monkeypatch.setattr(github, "_TIMEOUT_S", 0.5)
    with pytest.raises(Refused, match="whether it was done is not known") as refused:
        found.create({"title": "x", "body": "", "head": "feat", "base": "main", "draft": False})
    assert refused.value.code == "gh"


def test_a_branch_without_commits_of_its_own_is_refused_in_githubs_words(work):
    found = github.GitHub(work, "pr")
    with pytest.raises(Refused, match="No commits between main and feat"):
        found.create({"title": "x", "body": "", "head": "feat", "base": "main", "draft": False})


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("https://github.com/ada/shop.git", ("ada", "shop")),
        ("https://token@github.com/ada/shop", ("ada", "shop")),
        ("ssh://git@github.com:22/ada/shop.git", ("ada", "shop")),
        ("git@github.com:ada/shop.git", ("ada", "shop")),
        ("git@work-alias:ada/shop.git", ("octo", "shop")),
        ("/srv/git/ada/shop.git", ("octo", "shop")),
        ("https://example.org/ada/shop.git", ("octo", "shop")),
    ],
)
def test_the_owner_of_a_branch_is_read_from_the_remotes_address(work, address, source):
    run_git(work, "remote", "add", "mine", address)
    assert github.GitHub(work, "pr").head_of("mine") == source


def test_an_answer_that_is_no_json_is_a_refusal(work):
    program = os.path.join(os.environ["PATH"].split(os.pathsep)[0], "gh")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho 'a new gh'\n")
    with pytest.raises(Refused, match="did not name the repository"):
        github.GitHub(work, "pr")


def test_a_program_in_the_repository_is_not_run(work, monkeypatch):
    gh_program.install(work / "bin", {"repositories": {}})
    monkeypatch.setenv("PATH", f"{work / 'bin'}{os.pathsep}{os.defpath}")
    with pytest.raises(Refused) as refused:
        github.GitHub(work, "pr")
    assert refused.value.code == "no_gh"


def change(**changes):
    import json

    path = os.environ[gh_program.STATE]
    with open(path, encoding="utf-8") as file:
        state = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**state, **changes}, file)
