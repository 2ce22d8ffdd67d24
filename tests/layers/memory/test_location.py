"""Which MEMORY.md it is: the one that Claude Code really loads."""

import re
import subprocess

import pytest

from holdfast import Keeper, Refused
from holdfast.layers.memory import find_path
from holdfast.workspace.location import find


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("HOLDFAST_MEMORY")
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_DISABLE_AUTO_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "a_b.c").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path


def at(home):
    return find_path(find(str(home / "a_b.c")))


def test_it_goes_by_the_path_of_the_project(home):
    slug = re.sub("[^A-Za-z0-9]", "-", str(home / "a_b.c"))
    expected = home / "home" / ".claude" / "projects" / slug / "memory" / "MEMORY.md"
    assert at(home) == str(expected)


def test_worktrees_share_it(home):
    git = ["git", "-C", str(home / "a_b.c"), "-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(home / "side")], check=True)
    assert find_path(find(str(home / "side"))) == at(home)


def test_the_clients_settings_say_another_folder(home, monkeypatch):
    (home / "a_b.c" / ".claude").mkdir()
    settings = home / "a_b.c" / ".claude" / "settings.json"
    settings.write_text('{"autoMemoryDirectory": "docs/memory"}')
    assert at(home) == str(home / "a_b.c" / "docs" / "memory" / "MEMORY.md")
    settings.write_text('{"autoMemoryDirectory": "../../etc"}')
    assert "projects" in at(home)
    local = home / "a_b.c" / ".claude" / "settings.local.json"
    local.write_text('{"autoMemoryDirectory": "~/elsewhere"}')
    assert "projects" in at(home), "an archive can bring local settings"
    own = home / "home" / ".claude"
    own.mkdir(exist_ok=True)
    (own / "settings.json").write_text('{"autoMemoryDirectory": "~/elsewhere"}')
    assert at(home) == str(home / "home" / "elsewhere" / "MEMORY.md")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "config"))
    local.unlink()
    settings.unlink()
    assert at(home).startswith(str(home / "config" / "projects"))


def test_a_clones_link_does_not_lead_out_of_the_workspace(home):
    (home / "a_b.c" / ".claude").mkdir()
    (home / "a_b.c" / "docs").mkdir()
    (home / "a_b.c" / ".claude" / "settings.json").write_text('{"autoMemoryDirectory": "docs"}')
    file = home / "a_b.c" / "docs" / "MEMORY.md"
    assert at(home) == str(file)
    file.symlink_to(home / "a_b.c" / "notes.md")
    assert at(home) == str(file)
    file.unlink()
    file.symlink_to(home / "home" / "notes.md")
    assert "projects" in at(home)


@pytest.mark.parametrize("text", ['{"autoMemoryEnabled": false}', "nonsense", "[]"])
def test_switched_off_there_is_none(home, text):
    (home / "home" / ".claude").mkdir()
    (home / "home" / ".claude" / "settings.json").write_text(text)
    assert (at(home) is None) == ("false" in text)


def test_the_environment_of_the_client_switches_it_off(home, monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")
    assert at(home) is None


def test_our_own_settings_come_first(home):
    (home / "a_b.c" / ".claude").mkdir()
    team = home / "a_b.c" / ".claude" / "holdfast.toml"
    team.write_text('memory = "notes/MEMORY.md"\n')
    assert at(home) == str(home / "a_b.c" / "notes" / "MEMORY.md")
    for bad in ('"../x.md"', '"/etc/x.md"', '"~/x.md"', '""', "3"):
        team.write_text(f"memory = {bad}\n")
        with pytest.raises(Refused, match="memory"):
            at(home)
    team.write_text('memory = "off"\n')
    assert at(home) is None


def test_settings_that_make_no_sense_do_not_undo_what_was_recorded(home):
    (home / "a_b.c" / ".claude").mkdir()
    (home / "a_b.c" / ".claude" / "holdfast.toml").write_text("memory = 3\n")
    noted = Keeper(str(home / "a_b.c")).remember("One")
    assert noted.seqs == [1]
    assert any("memory: must be the path of a file" in note for note in noted.notes)
