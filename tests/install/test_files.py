"""Real settings files: our hooks come in beside everything else, and go without a trace."""

import json
import os
import shutil
import subprocess

import pytest

from holdfast import Keeper, install
from holdfast.install.agents import AGENTS, TEAM_HOOK, fastest_command
from holdfast.install.client_files import is_our_handler
from install.conftest import skill_files, skills_in
from support.settings_samples import BIG, FILES

TEAM = ".claude/settings.json"
LOCAL = ".claude/settings.local.json"
EVENTS = {
    "SessionStart": None,
    "PreCompact": None,
    "SessionEnd": None,
    "PostToolUse": "Read",
    "UserPromptSubmit": None,
}
EDITS = "Edit|Write|MultiEdit|NotebookEdit"

each_file = pytest.mark.parametrize("text", FILES.values(), ids=FILES)


def loaded(raw):
    return json.loads(raw.decode("utf-8-sig") or "{}")


def ours(raw):
    """Event to the matcher of our group there."""
    return {
        event: group.get("matcher")
        for event, groups in loaded(raw).get("hooks", {}).items()
        for group in groups
        for handler in group["hooks"]
        if is_our_handler(handler)
    }


def without_ours(value):
    """The settings as pairs, in their order, without our groups and what only they filled."""
    rest = dict(value)
    events = {
        event: [g for g in groups if not any(map(is_our_handler, g["hooks"]))]
        for event, groups in value.get("hooks", {}).items()
    }
    rest["hooks"] = {event: groups for event, groups in events.items() if groups}
    if not rest["hooks"]:
        del rest["hooks"]
    return json.dumps(rest)


@each_file
def test_the_hooks_come_in_and_everything_else_stays(project, text):
    project.write(TEAM, text)
    assert project.how(project.init()) == {TEAM: "changed"}
    raw = project.read(TEAM)
    assert ours(raw) == EVENTS
    assert without_ours(loaded(raw)) == without_ours(loaded(text.encode()))


@each_file
def test_what_was_there_is_there_again_byte_for_byte(project, text):
    project.write(TEAM, text)
    project.init()
    assert project.how(project.uninstall()) == {TEAM: "restored"}
    assert project.read(TEAM) == text.encode()
    assert project.names() == [".claude", TEAM]


@each_file
def test_twice_is_once(project, text):
    project.write(TEAM, text)
    project.init()
    once = project.read(TEAM)
    assert project.how(project.init()) == {TEAM: "unchanged"}
    assert project.read(TEAM) == once


@each_file
def test_line_ends_and_the_byte_order_mark_stay(project, text):
    project.write(TEAM, text)
    project.init()
    new = project.read(TEAM).decode()
    assert ("\r\n" in new) == ("\r\n" in text)
    assert new.replace("\r\n", "").count("\r") == 0
    assert new.startswith("\ufeff") == text.startswith("\ufeff")


@pytest.mark.parametrize(
    "name", ["big", "four spaces", "tabs", "no indentation", "no newline at the end"]
)
def test_a_file_that_a_tool_wrote_looks_as_if_that_tool_had_added_the_hooks(project, name):
    text = FILES[name]
    indent = {"four spaces": 4, "tabs": "\t", "no indentation": 0}.get(name, 2)
    project.write(TEAM, text)
    project.init()
    new = project.read(TEAM).decode()
    ascii_only = name in ("four spaces", "tabs", "no indentation")
    assert new.rstrip("\n") == json.dumps(json.loads(new), indent=indent, ensure_ascii=ascii_only)
    assert new.endswith("\n") == text.endswith("\n")


@pytest.mark.parametrize("name", ["one line", "minified"])
def test_a_file_of_one_line_stays_one(project, name):
    project.write(TEAM, FILES[name])
    project.init()
    new = project.read(TEAM).decode()
    assert "\n" not in new
    separators = (",", ":") if name == "minified" else None
    assert new == json.dumps(json.loads(new), separators=separators)


def test_a_file_and_its_folder_that_were_not_there_go_again(project):
    assert project.how(project.init()) == {TEAM: "created"}
    assert ours(project.read(TEAM)) == EVENTS
    assert os.listdir(project.path(".git/holdfast")) == ["installed.json"]
    assert project.names() == [
        ".claude",
        TEAM,
        *skills_in(".claude/skills"),
        ".mcp.json",
    ]
    assert project.how(project.uninstall()) == {TEAM: "removed"}
    assert project.names() == []
    assert not os.path.exists(project.path(".git/holdfast"))


def test_a_folder_that_was_there_stays(project):
    os.mkdir(project.path(".claude"))
    project.init()
    project.uninstall()
    assert project.names() == [".claude"]


def test_a_folder_with_something_else_in_it_stays(project):
    project.init()
    project.write(".claude/CLAUDE.md", "read me\n")
    project.uninstall()
    assert project.names() == [".claude", ".claude/CLAUDE.md"]


def test_enforcing_adds_two_events_and_without_it_they_go(project):
    project.write(TEAM, FILES["big"])
    project.init(enforce=True)
    assert ours(project.read(TEAM)) == {**EVENTS, "Stop": None, "PreToolUse": EDITS}
    project.init()
    assert ours(project.read(TEAM)) == EVENTS
    project.uninstall()
    assert project.read(TEAM).decode() == FILES["big"]


def test_the_teams_file_has_a_command_that_every_machine_has(project):
    project.init()
    (group,) = loaded(project.read(TEAM))["hooks"]["SessionStart"]
    assert group == {"hooks": [{"type": "command", "command": TEAM_HOOK, "timeout": 10}]}


@pytest.mark.parametrize("scope", ["local", "user"])
def test_ones_own_file_starts_the_hooks_file_itself(project, scope):
    (change,) = project.init(scope=scope).changes
    assert (
        change.file.path
        == {
            "local": project.path(LOCAL),
            "user": os.path.join(project.home, ".claude", "settings.json"),
        }[scope]
    )
    (group,) = loaded(change.after)["hooks"]["SessionEnd"]
    (handler,) = group["hooks"]
    assert [handler["command"], *handler["args"]] == fastest_command()
    assert os.path.isabs(handler["command"])
    assert handler["args"][:2] == ["-I", "-S"]
    assert handler["args"][2].endswith("/holdfast/hooks/entry.py")


def test_a_variable_says_where_a_clients_own_settings_are(project, monkeypatch, tmp_path):
    places = {
        "claude": ("CLAUDE_CONFIG_DIR", "settings.json"),
        "codex": ("CODEX_HOME", "hooks.json"),
        "gemini": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
    }
    for agent, (variable, file) in places.items():
        monkeypatch.setenv(variable, str(tmp_path / agent))
        (change,) = project.init(agent=agent, scope="user").changes
        assert change.file.path == str(tmp_path / agent / file)
        assert os.path.exists(change.file.path)
    assert len(project.uninstall(scope="user").changes) == 3
    assert sorted(os.listdir(tmp_path)) == ["home", "work"]
    assert os.listdir(project.home) == []


def test_codex_gets_its_file_and_is_said_to_ask(project):
    outcome = project.init(agent="codex")
    hooks = loaded(project.read(".codex/hooks.json"))["hooks"]
    assert list(hooks) == ["SessionStart", "PreCompact", "SessionEnd", "UserPromptSubmit"]
    assert [group["hooks"][0]["timeout"] for (group,) in hooks.values()] == [10, 10, 3, 10]
    assert any("trust" in note for note in outcome.notes)


def test_reading_is_not_insisted_on_where_the_client_does_not_tell_of_it(project):
    notes = " ".join(project.init(agent="codex", enforce=True).notes)
    assert 'enforce = ["stop"]' in notes
    hooks = loaded(project.read(".codex/hooks.json"))["hooks"]
    assert list(hooks) == ["SessionStart", "PreCompact", "SessionEnd", "UserPromptSubmit", "Stop"]


def test_gemini_counts_in_milliseconds_and_has_its_own_events(project):
    project.init(agent="gemini")
    hooks = loaded(project.read(".gemini/settings.json"))["hooks"]
    assert {event: groups[0].get("matcher") for event, groups in hooks.items()} == {
        "SessionStart": None,
        "PreCompress": None,
        "SessionEnd": None,
        "BeforeAgent": None,
        "AfterTool": "read_file|read_many_files",
    }
    assert {group["hooks"][0]["timeout"] for (group,) in hooks.values()} == {10_000}


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_a_path_with_a_space_in_it_is_quoted_in_a_command_line(project, agent, monkeypatch):
    monkeypatch.setattr("sys.executable", "/a place/it's/python")
    (change,) = project.init(agent=agent, scope="user").changes
    command = loaded(change.after)["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    assert command.startswith("'/a place/it'\\''s/python' -I -S ")
    assert ours(change.after)
    assert project.how(project.init(agent=agent, scope="user")) == {change.file.path: "unchanged"}


def test_the_lock_of_an_uninstall_that_was_killed_at_its_end_goes_with_the_next(project):
    project.write(".git/holdfast/installed.json.lock", "")
    assert project.uninstall().changes == []
    assert not os.path.exists(project.path(".git/holdfast"))


def test_all_agents_of_the_project_are_uninstalled_together_and_the_persons_stay(project):
    for agent in AGENTS:
        project.init(agent=agent)
        project.init(agent=agent, scope="user")
    project.init(scope="local")
    assert project.how(project.uninstall()) == {
        TEAM: "removed",
        LOCAL: "removed",
        ".codex/hooks.json": "removed",
        ".gemini/settings.json": "removed",
    }
    assert project.names() == []
    assert len(project.uninstall(scope="user").changes) == 3
    assert os.listdir(project.home) == []


def test_one_agent_or_one_scope_is_uninstalled_alone(project):
    project.init()
    project.init(scope="local")
    project.init(agent="codex")
    assert project.how(project.uninstall(agent="codex")) == {".codex/hooks.json": "removed"}
    assert project.how(project.uninstall(scope="local")) == {LOCAL: "removed"}
    assert ours(project.read(TEAM)) == EVENTS
    assert project.how(project.uninstall()) == {TEAM: "removed"}
    assert project.names() == []


def test_without_init_there_is_nothing_to_uninstall(project):
    project.write(TEAM, FILES["big"])
    assert project.uninstall().changes == []
    project.init()
    project.uninstall()
    assert project.uninstall().changes == []
    assert project.names() == [".claude", TEAM]
    assert loaded(project.read(TEAM)) == BIG


def test_a_dry_run_tells_everything_and_writes_nothing(project):
    project.write(TEAM, FILES["big"])
    (planned,) = project.init(dry_run=True).changes
    assert project.names() == [".claude", TEAM]
    assert project.read(TEAM).decode() == FILES["big"]
    (done,) = project.init().changes
    assert planned.as_fields() == done.as_fields()
    (planned,) = project.uninstall(dry_run=True).changes
    assert project.read(TEAM) == done.after
    (undone,) = project.uninstall().changes
    assert planned.as_fields() == undone.as_fields()


def test_a_diff_shows_exactly_the_lines_that_come(project):
    project.write(TEAM, '{\n  "model": "opus"\n}')
    diff = project.init().changes[0].as_fields()["diff"].split("\n")
    assert diff[:2] == [f"--- {TEAM}", f"+++ {TEAM}"]
    assert [line for line in diff[2:] if line.startswith("-")] == ['-  "model": "opus"']
    assert "\\ No newline at end of file" in diff


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_permissions_stay(project, mode):
    path = project.write(TEAM, FILES["big"], mode)
    project.init()
    assert os.stat(path).st_mode & 0o7777 == mode
    project.uninstall()
    assert os.stat(path).st_mode & 0o7777 == mode


def test_the_journal_is_for_the_person_alone(project):
    project.write(TEAM, FILES["big"])
    project.init()
    assert os.stat(project.path(".git/holdfast/installed.json")).st_mode & 0o777 == 0o600
    project.init(scope="user")
    path = os.path.join(project.home, ".config", "holdfast", "installed.json")
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_git_does_not_see_the_journal_nor_is_its_ignore_file_touched(project):
    project.init()
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    seen = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True)
    assert set(seen.stdout.split()) == {"??", TEAM, ".mcp.json", *skill_files(".claude/skills")}


def test_a_linked_worktree_has_settings_of_its_own(project, tmp_path):
    base = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", project.root]
    subprocess.run([*base, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*base, "worktree", "add", "-q", tmp_path / "other"], check=True)
    project.init()
    install.init(str(tmp_path / "other"))
    assert project.how(project.uninstall()) == {TEAM: "removed"}
    assert (tmp_path / "other" / TEAM).exists()
    assert install.uninstall(str(tmp_path / "other")).changes[0].how == "removed"
    assert sorted(os.listdir(tmp_path / "other")) == [".git"]
    assert project.names() == []


def test_a_ledger_that_is_there_stays(project):
    Keeper(project.root).start("tdd", "one")
    project.init()
    project.uninstall()
    assert Keeper(project.root).show().state["subject"] == "one"


def test_records_of_a_cleaned_work_tree_come_back_although_init_came_first(project):
    state = Keeper(project.root).start("tdd", "one").state
    shutil.rmtree(project.path(".claude"))
    project.init()
    assert Keeper(project.root).show().state["id"] == state["id"]
    Keeper(project.root).remind("look at the log")
    assert os.path.exists(project.path(state["record"]))
