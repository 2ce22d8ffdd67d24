"""When MEMORY.md is written: after ``init`` or ``remember``, with the plugin, or by its name."""

import json
import os
from pathlib import Path

import pytest

from holdfast import Keeper, install
from holdfast.layers.memory import Memory
from holdfast.layers.sync import sync
from support.git_template import make_repository

PLUGIN = {"enabledPlugins": {"holdfast@holdfast": True}}


class Project:
    def __init__(self, root, home):
        self.root = root
        self.home = home
        self.keeper = Keeper(str(root))

    def complete(self, subject="Typo"):
        self.keeper.start("oneshot", subject)
        self.keeper.complete("done", force=True, reason="a test")

    def memory(self):
        """The text of the file; ``None`` if it was not written."""
        found = list(Path(self.home).glob(".claude/projects/*/memory/MEMORY.md"))
        return found[0].read_text() if found else None


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("HOLDFAST_MEMORY")
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_DISABLE_AUTO_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    make_repository(root)
    return Project(root, home)


def test_without_init_nothing_is_written_outside_the_project(project):
    project.complete()
    assert project.memory() is None
    assert os.listdir(project.home) in ([], [".local"])
    row = sync(project.keeper.store)[0]
    assert (row["status"], os.path.basename(row["target"])) == ("off", "MEMORY.md")
    assert project.memory() is None


@pytest.mark.parametrize("scope", ["team", "local", "user"])
def test_after_init_the_end_of_a_workflow_is_written(project, scope):
    install.init(str(project.root), scope=scope)
    project.complete()
    assert "Completed ONESHOT for Typo: done" in project.memory()


def test_what_ended_before_init_is_written_with_the_next_news(project):
    project.complete("Before")
    install.init(str(project.root))
    project.complete("After")
    assert "for Before" in project.memory()
    assert "for After" in project.memory()


@pytest.mark.parametrize(("settings", "is_written"), [
    (PLUGIN, True),
    ({"enabledPlugins": {"holdfast@holdfast": False}}, False),
    ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "date"}]}]}}, False),
    ({"hooks": 3, "enabledPlugins": ["holdfast"]}, False),
])  # fmt: skip
def test_the_plugin_is_as_good_as_init_and_other_settings_are_not(project, settings, is_written):
    (project.home / ".claude").mkdir()
    (project.home / ".claude" / "settings.json").write_text(json.dumps(settings))
    project.complete()
    assert (project.memory() is not None) == is_written


def test_another_clients_init_does_not_count(project):
    install.init(str(project.root), agent="gemini")
    project.complete()
    assert project.memory() is None


def test_remember_writes_it_and_what_follows_too(project):
    project.complete("Before")
    project.keeper.remember("Ada wants short commits", kind="preference")
    assert "Ada wants short commits" in project.memory()
    project.complete("After")
    assert "for After" in project.memory()


def test_after_uninstall_a_section_that_is_there_does_not_grow_stale(project):
    install.init(str(project.root))
    project.keeper.start("apex", "Login")
    project.keeper.advance()
    assert "Active APEX workflow" in project.memory()
    install.uninstall(str(project.root))
    project.keeper.abandon(reason="a test")
    assert "Active APEX workflow" not in project.memory()
    assert not Memory(project.keeper.store).is_wanted()


def test_a_path_that_somebody_named_is_used_without_init(project, tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MEMORY", str(tmp_path / "NOTES.md"))
    project.complete()
    assert "for Typo" in (tmp_path / "NOTES.md").read_text()
