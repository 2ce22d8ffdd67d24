"""``docs/recipes.md``: every key is in it, and every example is a recipe to the real loader."""

import re
import tomllib
from pathlib import Path

import pytest

from holdfast.core.workflow.needs import EVIDENCE, NEEDS
from holdfast.workspace import recipes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| .+ \| .+ \| `(.+)` \|$", re.MULTILINE)
PHASES = [{"name": "one", "next": ["two"]}, {"name": "two"}]


def rows(title):
    """Key to its example, of the table under a heading."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(ROW.findall(section))


RECIPE, PHASE, GATE = (rows(f"Keys of a {what}") for what in ("recipe", "phase", "gate"))


def test_every_key_is_on_the_page_and_no_other():
    assert set(RECIPE) == set(recipes._RECIPE)
    assert set(PHASE) == set(recipes._PHASE)
    assert set(GATE) == {"status", *recipes._GATE}


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_is_loaded(tmp_path, text):
    folder = tmp_path / recipes.FOLDER
    folder.mkdir(parents=True)
    (folder / "release.toml").write_text(text)
    loaded = recipes.load("release", str(tmp_path))
    assert loaded["phases"]
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("key", "example"), RECIPE.items())
def test_every_key_of_a_recipe_has_an_example_that_is_taken(key, example):
    own = {
        "mode": {"format": "loop"},
        "task_needs": {"format": "skill", "task_phases": ["red", "green"]},
    }.get(key, {"format": "skill"})
    loaded = recipes.check({"phases": PHASES, **own, **tomllib.loads(example)}, "release")
    assert key in loaded


@pytest.mark.parametrize(("key", "example"), PHASE.items())
def test_every_key_of_a_phase_has_an_example_that_is_taken(key, example):
    phase = {"name": "three", **tomllib.loads(example)}
    loaded = recipes.check({"format": "verb", "phases": [*PHASES, phase]}, "release")
    if key == "approval":
        assert loaded["phases"][2]["needs"] == ["approval"]
    else:
        assert loaded["phases"][2][key] == phase[key]


@pytest.mark.parametrize(("key", "example"), GATE.items())
def test_every_key_of_a_gate_has_an_example_that_is_taken(key, example):
    gates = {"lint": tomllib.loads(example)}
    loaded = recipes.check({"format": "verb", "phases": PHASES, "gates": gates}, "release")
    assert loaded["gates"]["lint"][key] == gates["lint"][key]


def test_every_need_and_every_kind_of_evidence_is_on_the_page():
    section = PAGE.partition("\n## Keys of a phase\n")[2].partition("\n## ")[0]
    _, _, table = section.partition("| word | it is there when |")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(NEEDS)
    row = next(line for line in PAGE.splitlines() if line.startswith("| `evidence` "))
    assert all(f"`{name}`" in row for name in EVIDENCE)


def test_the_limits_on_the_page_are_the_loaders():
    for limit in (recipes.MAX_PHASES, recipes.MAX_NAME, recipes.MAX_COMMAND):
        assert f"{limit:,}" in PAGE
