"""The skills that ``init`` puts beside the settings: ours come and go, somebody's own stay."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from holdfast import install
from holdfast.errors import Refused
from holdfast.install import client_files
from install.conftest import PLUGIN_SKILLS, SKILLS, skill_files, skills_in
from support.paths import ROOT

DEV = ".claude/skills/holdfast-dev/SKILL.md"
OLD_NAMES = ("context", "dev", "initiative", "iterate", "resume", "tdd", "workflow")
FOLDERS = {"claude": ".claude/skills", "codex": ".agents/skills", "gemini": ".agents/skills"}

each_agent = pytest.mark.parametrize("agent", FOLDERS)


def became(outcome):
    """What became of the skills."""
    return {
        change.file.name: change.how
        for change in outcome.changes
        if change.file.name.endswith("SKILL.md")
    }


def of_plugin(name):
    """A skill as the plugin has it, with the names that skills of a project have."""
    text = (ROOT / "plugin" / "skills" / name / "SKILL.md").read_text("utf-8")
    text = text.replace(f"name: {name}\n", f"name: holdfast-{name}\n", 1)
    return text.replace("holdfast:", "holdfast-")


@each_agent
def test_a_project_gets_every_skill_and_is_rid_of_them_again(project, agent):
    folder = FOLDERS[agent]
    assert became(install.init(project.root, agent=agent)) == dict.fromkeys(
        skill_files(folder), "created"
    )
    assert became(install.init(project.root, agent=agent)) == dict.fromkeys(
        skill_files(folder), "unchanged"
    )
    undone = became(install.uninstall(project.root))
    assert undone == dict.fromkeys(skill_files(folder), "removed")
    assert project.names() == []


def test_claude_code_gets_them_as_the_plugin_has_them(project):
    project.init()
    for name in PLUGIN_SKILLS:
        written = project.read(f".claude/skills/holdfast-{name}/SKILL.md").decode()
        assert written == of_plugin(name)
        assert written.startswith(f"---\nname: holdfast-{name}\n")


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_others_do_not_get_a_placeholder_that_they_would_not_fill(project, agent):
    project.init(agent=agent)
    text = project.read(".agents/skills/holdfast-dev/SKILL.md").decode()
    assert "FEATURE: (what the user asked for)" in text
    assert "$ARGUMENTS" not in text


def test_a_person_gets_them_in_the_clients_own_folders(project, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    for agent in FOLDERS:
        project.init(agent=agent, scope="user")
    assert sorted(os.listdir(tmp_path / "elsewhere" / "skills")) == SKILLS
    assert sorted(os.listdir(Path(project.home) / ".agents" / "skills")) == SKILLS
    install.uninstall(project.root, scope="user")
    assert os.listdir(project.home) == []
    assert not (tmp_path / "elsewhere").exists()


def test_a_persons_own_settings_here_bring_none_into_the_teams_folder(project):
    outcome = install.init(project.root, scope="local")
    assert became(outcome) == {}
    assert any("--user" in note for note in outcome.notes)
    assert not os.path.exists(project.path(".claude/skills"))


def test_a_skill_of_somebodys_own_stays_and_that_is_said(project):
    project.write(DEV, "Ours since 2019.\n")
    outcome = install.init(project.root)
    assert became(outcome)[DEV] == "unchanged"
    assert any(note.startswith(f"{DEV} differs from Holdfast's version") for note in outcome.notes)
    assert DEV not in became(install.uninstall(project.root))
    assert project.read(DEV) == b"Ours since 2019.\n"


def test_a_skill_that_somebody_changed_since_is_theirs(project):
    project.init()
    project.write(DEV, of_plugin("dev") + "And tell Ada.\n")
    outcome = install.init(project.root)
    assert became(outcome)[DEV] == "unchanged"
    assert any(DEV in note for note in outcome.notes)
    assert DEV not in became(install.uninstall(project.root))
    assert project.read(DEV).endswith(b"And tell Ada.\n")


def test_a_new_version_takes_the_place_of_the_one_that_was_put_there(project, monkeypatch):
    project.init()
    monkeypatch.setattr(
        "holdfast.install.client_files.read_skills",
        lambda _: {"holdfast-dev": "New.\n", "other": "Too.\n"},
    )
    assert became(install.init(project.root)) == {
        DEV: "changed",
        ".claude/skills/other/SKILL.md": "created",
    }
    assert project.read(DEV) == b"New.\n"


@pytest.fixture
def old_init(project, monkeypatch):
    """The project after ``init`` of an earlier version, whose skills had no prefix."""
    old = {name: f"The old {name}.\n" for name in OLD_NAMES}
    with monkeypatch.context() as earlier:
        earlier.setattr("holdfast.install.client_files.read_skills", lambda _: old)
        earlier.setattr("holdfast.install.client_files._OLD_SKILLS", ())
        install.init(project.root)
    return project


def old_file(name):
    return f".claude/skills/{name}/SKILL.md"


def test_skills_of_an_earlier_version_are_removed_by_the_next_init(old_init):
    planned = became(install.init(old_init.root, dry_run=True))
    assert old_init.read(old_file("resume")) == b"The old resume.\n"
    done = became(install.init(old_init.root))
    assert planned == done
    assert done == {
        **dict.fromkeys(skill_files(".claude/skills"), "created"),
        **{old_file(name): "removed" for name in OLD_NAMES},
    }
    assert sorted(os.listdir(old_init.path(".claude/skills"))) == SKILLS
    assert set(became(install.init(old_init.root)).values()) == {"unchanged"}
    install.uninstall(old_init.root)
    assert old_init.names() == []


def test_an_edited_skill_of_an_earlier_version_stays_and_that_is_said(old_init):
    old_init.write(old_file("resume"), "Mine now.\n")
    for _ in range(2):
        outcome = install.init(old_init.root)
        assert old_file("resume") not in became(outcome)
        assert any(
            note.startswith(f"{old_file('resume')} is from an earlier version of Holdfast")
            for note in outcome.notes
        )
    assert old_init.read(old_file("resume")) == b"Mine now.\n"


def test_uninstall_removes_the_skills_of_an_earlier_version(old_init):
    undone = became(install.uninstall(old_init.root))
    assert undone == {old_file(name): "removed" for name in OLD_NAMES}
    assert old_init.names() == []


def test_a_skill_that_somebody_has_under_an_old_name_is_not_touched(project):
    project.write(old_file("resume"), "Ours since 2019.\n")
    project.write(old_file("dev"), "")
    assert not {old_file("resume"), old_file("dev")} & set(became(install.init(project.root)))
    install.uninstall(project.root)
    assert project.names(".claude/skills") == sorted(
        name for old in ("dev", "resume") for name in (f".claude/skills/{old}", old_file(old))
    )


def test_a_colleagues_skills_are_as_good_as_ones_own(project):
    """They came with the repository: there is no journal of them here."""
    project.init()
    os.remove(project.path(".git/holdfast/installed.json"))
    assert set(became(install.init(project.root)).values()) == {"unchanged"}
    assert set(became(install.uninstall(project.root))) == set(skill_files(".claude/skills"))


def test_skills_that_two_clients_share_stay_until_both_are_gone(project):
    project.init(agent="codex")
    project.init(agent="gemini")
    assert became(install.uninstall(project.root, agent="codex")) == {}
    assert set(skills_in(".agents/skills")) <= set(project.names())
    assert len(became(install.uninstall(project.root, agent="gemini"))) == len(SKILLS)
    assert project.names() == []


def test_what_stands_in_the_way_of_a_skill_leaves_all_untouched(project):
    project.write(".claude/skills", "a file\n")
    with pytest.raises(Refused, match="is not a folder"):
        project.init()
    assert project.names() == [".claude", ".claude/skills"]


def test_the_package_has_them_where_it_looks_for_them():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    put = build["targets"]["wheel"]["force-include"]
    assert put == {"plugin/skills": "holdfast/skills"}
    assert Path(client_files.INSTALLED_SKILLS).parts[-2:] == ("holdfast", "skills")


def test_git_is_told_nothing_of_them(project):
    """They are the team's, to be committed with the settings."""
    project.init()
    done = subprocess.run(["git", "check-ignore", DEV], cwd=project.root, check=False)
    assert done.returncode == 1
