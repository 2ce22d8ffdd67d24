"""A project of a person who has no settings yet, and whose home is in a temporary folder."""

import os
from pathlib import Path

import pytest

from holdfast import install
from holdfast.install.client_files import SettingsFile
from support.git_template import make_repository

PLUGIN_SKILLS = sorted(os.listdir(Path(__file__).resolve().parents[2] / "plugin" / "skills"))
SKILLS = [f"holdfast-{name}" for name in PLUGIN_SKILLS]


class Project:
    """A repository and the person's home beside it."""

    def __init__(self, root, home):
        self.root = root
        self.home = home

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, data, mode=None):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        if mode is not None:
            os.chmod(path, mode)
        return path

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def init(self, **options):
        return of_settings(install.init(self.root, **options))

    def uninstall(self, **options):
        return of_settings(install.uninstall(self.root, **options))

    def how(self, outcome):
        return {change.file.name: change.how for change in outcome.changes}

    def names(self, folder=""):
        """Everything below a folder but git's own, from the project's root."""
        found = []
        for above, folders, names in os.walk(self.path(folder)):
            if ".git" in folders:
                folders.remove(".git")
            found += [os.path.relpath(os.path.join(above, n), self.root) for n in names + folders]
        return sorted(found)


def skill_files(folder):
    return [f"{folder}/{name}/SKILL.md" for name in SKILLS]


def skills_in(folder):
    """Their files and folders, in the order of their names."""
    return sorted([folder, *[f"{folder}/{name}" for name in SKILLS], *skill_files(folder)])


def of_settings(outcome):
    """What became of the settings alone; ``test_skills.py`` looks at the others."""
    changes = [change for change in outcome.changes if isinstance(change.file, SettingsFile)]
    return install.SetupOutcome(changes, outcome.notes)


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    home, root = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    root.mkdir()
    monkeypatch.setenv("HOME", str(home))
    make_repository(root)
    return Project(str(root), str(home))
