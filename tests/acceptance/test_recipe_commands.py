"""``holdfast recipes``: every recipe is listed, also one that is broken; one is shown whole."""

import os
import re

import pytest

from holdfast import Keeper, Refused
from holdfast.workspace import recipes

OWN = """\
format = "verb"
title = "Release"
ttl = "2d"
task_phases = ["red", "green"]
cycles_at = "check"

[context]
channel = "beta"

[[phases]]
name = "check"
steps = ["lint", "test"]
next = ["ship", "stop"]

[[phases]]
name = "ship"
approval = true
sets_branch = true

[[phases]]
name = "stop"
next = []

[gates.lint]
command = "make lint"
timeout = "10m"
"""
FOLDER = ".claude/workflows"


@pytest.fixture
def own(repo):
    repo.write(f"{FOLDER}/release.toml", OWN)
    return repo


def rows(place):
    return {row["name"]: row for row in place.ok("recipes")["recipes"]}


def test_shipped_recipes_and_the_workspaces_own_are_listed(own):
    found = rows(own)
    assert list(found) == sorted({*recipes.names(), "release"})
    assert found["apex"] == {
        "name": "apex",
        "format": "verb",
        "title": "APEX",
        "phases": ["analyze", "plan", "implement", "review", "git-commit"],
        "source": "shipped",
    }
    assert found["release"]["source"] == f"{FOLDER}/release.toml"
    assert found["release"]["phases"] == ["check", "ship", "stop"]
    text = own.run("recipes").out
    line = r"^  release +verb +Release +\S+/release.toml +check · ship · stop$"
    assert re.search(line, text, re.MULTILINE)


def test_the_workspaces_own_stands_in_place_of_a_shipped_one(own):
    own.write(f"{FOLDER}/dev.toml", 'format = "loop"\nmode = "knowledge"\n[[phases]]\nname="x"\n')
    row = rows(own)["dev"]
    assert (row["format"], row["title"], row["source"]) == ("loop", None, f"{FOLDER}/dev.toml")


def test_a_recipe_is_shown_whole(own):
    shown = own.ok("recipes", "show", "release")
    assert shown["source"] == f"{FOLDER}/release.toml"
    assert shown["recipe"] == recipes.load("release", own.path)
    assert own.run("recipes", "show", "release").out.splitlines() == [
        "release  Release",
        f"  format verb · ttl 2d · cycles at check · {FOLDER}/release.toml",
        "Phases",
        "  check  steps lint, test · then ship or stop",
        "  ship  needs approval · sets_branch=true",
        "  stop  the last",
        "Gates",
        "  lint  command=make lint · timeout=10m",
        "Phases of a task",
        "  red",
        "  green",
        "Context",
        "  channel=beta",
    ]
    assert own.ok("recipes", "show", "dev")["source"] == "shipped"


BROKEN = {
    "nophase": ('format = "verb"\n[[phases]]\n', "phases[0].name", "is missing"),
    "notoml": ("format = \n", "file", "is not TOML"),
    "gate": (
        'format = "verb"\n[[phases]]\nname = "x"\n[gates.lint]\ncommand = "a\\nb"\n',
        "gates.lint.command",
        "must be one line of text",
    ),
    "two words": (OWN, "name", "may hold letters, digits, - and _ only"),
}


def test_a_broken_recipe_is_listed_with_its_key_and_fails_nothing_else(own):
    for name, (text, _, _) in BROKEN.items():
        own.write(f"{FOLDER}/{name}.toml", text)
    found = rows(own)
    for name, (_, key, why) in BROKEN.items():
        assert found[name]["bad"]["key"] == key
        assert why in found[name]["bad"]["why"]
        assert (found[name]["format"], found[name]["phases"]) == (None, [])
        assert found[name]["source"] == f"{FOLDER}/{name}.toml"
    assert "bad" not in found["release"]
    text = own.run("recipes").out
    assert re.search(r"^✗ nophase .* phases\[0\]\.name: is missing$", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["nophase", "notoml", "gate"])
def test_a_broken_recipe_that_is_asked_for_is_refused(own, name):
    text, key, why = BROKEN[name]
    own.write(f"{FOLDER}/{name}.toml", text)
    error = own.refused("recipes", "show", name)
    assert (error["code"], error["details"]["key"]) == ("bad_recipe", key)
    assert why in error["details"]["why"]
    answer = own.run("recipes", "show", name)
    assert (answer.code, answer.out) == (1, "")
    assert f"recipe {name}: {key}: " in answer.err


def test_a_recipe_that_is_not_there_is_refused(own):
    error = own.refused("recipes", "show", "nosuch")
    assert error["code"] == "no_recipe"
    assert "release" in error["details"]["known"]
    assert own.refused("recipes", "show", "two words")["code"] == "no_recipe"


def test_what_cannot_be_read_is_listed_as_such(own):
    own.write(f"{FOLDER}/locked.toml", OWN)
    os.chmod(os.path.join(own.path, FOLDER, "locked.toml"), 0)
    os.symlink("/etc/hosts", os.path.join(own.path, FOLDER, "link.toml"))
    os.mkfifo(os.path.join(own.path, FOLDER, "pipe.toml"))
    with open(os.path.join(os.fsencode(own.path), FOLDER.encode(), b"\xff\x1b.toml"), "w") as file:
        file.write(OWN)
    answer = own.run("recipes", "--json", rights=False)
    found = {row["name"]: row.get("bad", {}).get("why") for row in answer.json["recipes"]}
    assert "cannot be read" in found["locked"]
    assert "leads out of the workspace" in found["link"]
    assert "not an ordinary file" in found["pipe"]
    assert found["\ufffd\x1b"] is not None
    assert "\x1b" not in own.run("recipes").out


def test_looking_at_recipes_leaves_nothing_behind(folder):
    assert folder.ok("recipes")["recipes"]
    assert folder.ok("recipes", "show", "dev")["recipe"]["name"] == "dev"
    assert not folder.has(".claude")


def test_the_library_lists_and_shows_the_same(own):
    keeper = Keeper(own.path)
    assert {row["name"]: row for row in keeper.recipes()} == rows(own)
    recipe, source = keeper.recipe("release")
    assert (recipe["title"], source) == ("Release", f"{FOLDER}/release.toml")
    with pytest.raises(Refused, match="no recipe nosuch"):
        keeper.recipe("nosuch")


def test_the_list_fits_what_is_typed_after_it(folder):
    """A command that is also the beginning of another one."""
    error = folder.refused("recipes", "shwo", "dev", exit_code=2)
    assert error["hint"] == "holdfast recipes show dev --json"
    assert folder.refused("recipes", "show", exit_code=2)["hint"] == "holdfast help recipes show"
    assert folder.refused("recipes", "dev", exit_code=2)["hint"] == "holdfast help recipes"
    for line in ("help recipes", "recipes --help"):
        text = folder.run(*line.split()).out
        assert "holdfast recipes show NAME" in text
    assert "holdfast recipes show:" in folder.run("recipes", "show", "--help").out
