"""What a client reads of the plugin before it loads it: the manifests, and who says the version."""

import json
import re

import pytest

import holdfast
from support.paths import PLUGIN, ROOT

MANIFEST = PLUGIN / ".claude-plugin" / "plugin.json"
MARKETPLACES = {
    "./plugin": ROOT / ".claude-plugin" / "marketplace.json",
    "./": PLUGIN / ".claude-plugin" / "marketplace.json",
}
FILES = {
    ".claude-plugin/marketplace.json",
    ".claude-plugin/plugin.json",
    ".mcp.json",
    "README.md",
    "bin/holdfast-hook",
    "bin/holdfast-mcp",
    "hooks/hooks.json",
    *(
        f"skills/{name}/SKILL.md"
        for name in (
            *("apex", "brainstorm", "context", "debug", "dev", "initiative", "iterate", "oneshot"),
            *("resume", "tdd", "workflow"),
        )
    ),
}


def read(path):
    """A file of JSON; a key that stands twice in it is an error."""

    def once(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    return json.loads(path.read_text("utf-8"), object_pairs_hook=once)


def test_the_plugin_is_these_files():
    found = {path.relative_to(PLUGIN).as_posix() for path in PLUGIN.rglob("*") if path.is_file()}
    assert found == FILES


@pytest.mark.parametrize("path", sorted(ROOT.glob("plugin/**/*.json")), ids=lambda p: p.name)
def test_every_json_file_is_json(path):
    assert read(path)


def test_the_version_is_that_of_the_program():
    assert read(MANIFEST)["version"] == holdfast.__version__


def test_the_manifest_says_what_it_is():
    manifest = read(MANIFEST)
    assert manifest["name"] == "holdfast"
    assert manifest["license"] == "Apache-2.0"
    assert manifest["keywords"] == sorted(set(manifest["keywords"]))
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'description = "{manifest["description"]}"' in project


@pytest.mark.parametrize("source", MARKETPLACES)
def test_the_repository_and_the_folder_are_a_marketplace_each(source):
    """They differ in nothing but the way to the plugin, and neither says a version of its own."""
    path = MARKETPLACES[source]
    marketplace = read(path)
    (entry,) = marketplace["plugins"]
    assert (marketplace["name"], entry["name"]) == ("holdfast", "holdfast")
    assert "version" not in entry
    assert entry["description"] == read(MANIFEST)["description"]
    folder = path.parents[1] / entry["source"]
    assert folder.resolve() == PLUGIN
    other = read(MARKETPLACES["./"])
    other["plugins"][0]["source"] = entry["source"]
    assert marketplace == other
    assert entry["source"] == source


def test_the_page_on_it_names_every_skill_and_every_hook():
    page = (ROOT / "docs" / "plugin.md").read_text("utf-8")
    skills = sorted(path.name for path in (PLUGIN / "skills").iterdir())
    assert sorted(set(re.findall(r"/holdfast:(\w+)", page))) == skills
    assert all(f"| `{event}`" in page for event in read(PLUGIN / "hooks" / "hooks.json")["hooks"])
    short = (PLUGIN / "README.md").read_text("utf-8")
    assert sorted(set(re.findall(r"/holdfast:(\w+)", short))) == skills
