"""What cannot be changed safely is refused, with the file, the line and the reason; untouched."""

import os

import pytest

from holdfast.cli.main import failure
from holdfast.errors import Refused
from support.settings_samples import FILES

TEAM = ".claude/settings.json"
WRONG = {
    "a comment": ('{\n  // mine\n  "a": 1\n}', 2, "comments and trailing commas are not JSON"),
    "a comment of many lines": ('{\n  "a": 1 /* mine */\n}', 2, "not JSON"),
    "a trailing comma": ('{\n  "a": 1,\n}', None, "comments and trailing commas are not"),
    "half a file": ('{\n  "a": {\n', None, "not JSON"),
    "two values": ("{}\n{}", 1, "text after the value"),
    "a key twice": ('{\n  "a": 1,\n  "a": 2\n}', 3, "twice"),
    "hooks twice": ('{"hooks": {},\n "hooks": {}}', 2, "twice"),
    "not utf-8": (b'{\n  "a": "\xff"\n}', 2, "not UTF-8"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), 1, "not UTF-8"),
    "half a pair": ('{"a": "\\ud800"}', 1, "surrogate"),
    "too deep": ("[" * 100 + "]" * 100, 1, "nested too deeply"),
    "a list": ("[]", 1, "the settings must be an object"),
    "a number": ("\n3", 2, "the settings must be an object"),
    "null": ("null", 1, "the settings must be an object"),
    "hooks is a list": ('{\n"hooks": []}', 2, "hooks must be an object"),
    "hooks is null": ('{"hooks": null}', 1, "hooks must be an object"),
    "an event is an object": ('{"hooks": {\n"Stop": 1, "SessionStart": {}}}', 2, "must be a list"),
    "a group is text": ('{"hooks": {"PreCompact": [\n"x"]}}', 2, "must be an object"),
    "a matcher is a number": ('{"hooks": {"PreCompact": [{"matcher":\n3}]}}', 2, "must be text"),
    "handlers are an object": ('{"hooks": {"PreCompact": [{"hooks":\n{}}]}}', 2, "must be a list"),
    "a handler is text": ('{"hooks": {"PreCompact": [{"hooks":["x"]}]}}', 1, "must be an object"),
}


def refused_init(project, **options):
    with pytest.raises(Refused) as caught:
        project.init(**options)
    answer = failure(caught.value)
    assert answer.code == 1
    assert answer.fields()["error"]["hint"]
    return caught.value


@pytest.mark.parametrize(("data", "line", "why"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_not_what_a_client_takes_is_left_alone(project, data, line, why):
    project.write(TEAM, data)
    before = project.read(TEAM)
    error = refused_init(project)
    assert error.code == "bad_settings"
    assert error.message.startswith(f"{TEAM}: line ")
    assert line is None or f": line {line}: " in error.message
    assert why in error.message
    assert project.read(TEAM) == before
    assert project.names() == [".claude", TEAM]
    assert refused_init(project, dry_run=True).message == error.message


@pytest.mark.parametrize(("data", "line", "why"), WRONG.values(), ids=WRONG)
def test_a_file_that_never_had_our_hooks_does_not_stop_an_uninstall(project, data, line, why):
    project.init(agent="codex")
    project.write(TEAM, data)
    before = project.read(TEAM)
    assert project.how(project.uninstall()) == {".codex/hooks.json": "removed"}
    assert project.read(TEAM) == before


def test_one_that_may_have_them_and_cannot_be_read_stops_it_before_anything_is_written(project):
    project.init(agent="codex")
    project.write(".gemini/settings.json", '{\n// holdfast hook\n"hooks": {}}')
    with pytest.raises(Refused, match=r"\.gemini/settings\.json: line 2: is not JSON"):
        project.uninstall()
    assert project.read(".codex/hooks.json")


def test_events_of_others_need_not_make_sense(project):
    project.write(TEAM, '{"hooks": {"Stop": 3, "enabled": true, "disabled": ["x"]}}')
    project.init()
    project.uninstall()
    assert project.read(TEAM) == b'{"hooks": {"Stop": 3, "enabled": true, "disabled": ["x"]}}'


def test_a_folder_in_its_place_is_refused(project):
    os.makedirs(project.path(TEAM))
    assert "is not a file" in refused_init(project).message
    assert project.uninstall().changes == []


def test_a_pipe_in_its_place_is_refused_and_not_waited_for(project):
    os.mkdir(project.path(".claude"))
    os.mkfifo(project.path(TEAM))
    assert "is not a file" in refused_init(project).message
    assert project.uninstall().changes == []


def test_a_file_in_place_of_the_folder_is_refused(project):
    project.write(".claude", "x")
    assert "is not a folder" in refused_init(project).message
    assert project.uninstall().changes == []


@pytest.mark.parametrize("scope", ["team", "user"])
def test_a_link_to_nothing_is_refused(project, scope, tmp_path):
    folder = project.root if scope == "team" else project.home
    os.mkdir(os.path.join(folder, ".claude"))
    link = os.path.join(folder, TEAM)
    os.symlink(os.path.join(folder, "nowhere.json"), link)
    assert "is a link to nothing" in refused_init(project, scope=scope).message
    assert os.readlink(link).endswith("nowhere.json")
    assert project.uninstall().changes == []


def test_a_link_that_leads_out_of_the_project_is_refused(project, tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    os.mkdir(project.path(".claude"))
    os.symlink(tmp_path / "mine.json", project.path(TEAM))
    error = refused_init(project)
    assert (error.code, "leads out of the workspace" in error.message) == ("outside", True)
    assert "--user" in error.hint
    assert (tmp_path / "mine.json").read_text() == "{}"


def test_nothing_is_taken_out_of_a_file_outside_of_the_project(project, tmp_path):
    project.init()
    with open(tmp_path / "mine.json", "wb") as file:
        file.write(project.read(TEAM))
    os.remove(project.path(TEAM))
    os.symlink(tmp_path / "mine.json", project.path(TEAM))
    with pytest.raises(Refused) as caught:
        project.uninstall()
    assert caught.value.code == "outside"
    assert b"holdfast hook" in (tmp_path / "mine.json").read_bytes()


def test_a_folder_that_leads_out_of_the_project_is_refused(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", project.path(".claude"))
    assert refused_init(project).code == "outside"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_within_the_project_is_followed_and_stays_one(project):
    project.write("config/claude.json", FILES["big"])
    os.mkdir(project.path(".claude"))
    os.symlink("../config/claude.json", project.path(TEAM))
    project.init()
    assert os.readlink(project.path(TEAM)) == "../config/claude.json"
    assert b"holdfast hook" in project.read("config/claude.json")
    project.uninstall()
    assert project.read("config/claude.json").decode() == FILES["big"]
    assert os.path.islink(project.path(TEAM))


def test_a_persons_link_is_followed_wherever_it_leads(project, tmp_path):
    """Those who keep their settings in a repository of dotfiles link to them."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "claude.json").write_text(FILES["tabs"])
    os.mkdir(os.path.join(project.home, ".claude"))
    link = os.path.join(project.home, ".claude", "settings.json")
    os.symlink(tmp_path / "dotfiles" / "claude.json", link)
    project.init(scope="user")
    assert os.path.islink(link)
    assert "entry.py" in (tmp_path / "dotfiles" / "claude.json").read_text()
    assert project.uninstall(scope="user").changes[0].how == "restored"
    assert (tmp_path / "dotfiles" / "claude.json").read_text() == FILES["tabs"]
    assert os.listdir(tmp_path / "dotfiles") == ["claude.json"]


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_a_client_without_a_local_file_says_so(project, agent):
    error = refused_init(project, agent=agent, scope="local")
    assert (error.code, error.hint) == ("invalid", f"holdfast init --agent {agent} --user")
    assert project.uninstall(agent=agent, scope="local").changes == []


def test_an_unknown_client_is_refused(project):
    error = refused_init(project, agent="emacs")
    assert "claude, codex, gemini" in error.message
