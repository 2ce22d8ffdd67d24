"""``init --statusline``: our line beside the one that is there, and the former one back."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import install
from holdfast.errors import HoldfastError
from holdfast.install.status_line import command_line, former_of, own_words
from support.settings_samples import FILES
from support.workshop import PATIENCE_S

TEAM, LOCAL = ".claude/settings.json", ".claude/settings.local.json"
USER = "../home/.claude/settings.json"
SCOPES = {"team": TEAM, "local": LOCAL, "user": USER}
FORMER = """jq -r '"[\\(.model.display_name)]"' | sed 's/x/"y"/'; echo 'it'"'"'s' $HOME"""


def settings(command=None, **more):
    line = {"statusLine": {"type": "command", "command": command, "padding": 2}} if command else {}
    return json.dumps({"model": "opus", **line, **more}, indent=2) + "\n"


def status_line(project, name):
    return json.loads(project.read(name))["statusLine"]


def notes_on(outcome):
    return [note for note in outcome.notes if "status" in note]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_status_line_is_added_and_taken_out_byte_for_byte(project, scope):
    name = SCOPES[scope]
    before = settings().encode()
    project.write(name, before)
    project.init(scope=scope, status_line=True)
    line = status_line(project, name)
    assert line == {"type": "command", "command": command_line(scope)}
    assert "hooks" in json.loads(project.read(name))
    project.uninstall(scope=scope)
    assert project.read(name) == before


@pytest.mark.parametrize("scope", SCOPES)
def test_the_one_that_is_there_is_run_first_and_comes_back_byte_for_byte(project, scope):
    name = SCOPES[scope]
    before = settings(FORMER).encode()
    project.write(name, before)
    project.init(scope=scope, status_line=True)
    line = status_line(project, name)
    assert line == {"type": "command", "command": command_line(scope, FORMER), "padding": 2}
    assert former_of(line["command"]) == FORMER
    again = project.read(name)
    project.init(scope=scope, status_line=True)
    assert project.read(name) == again
    project.uninstall(scope=scope)
    assert project.read(name) == before


@pytest.mark.parametrize("scope", SCOPES)
def test_the_former_one_comes_back_from_settings_that_were_edited_since(project, scope):
    name = SCOPES[scope]
    project.write(name, settings(FORMER))
    project.init(scope=scope, status_line=True)
    edited = json.loads(project.read(name))
    edited["statusLine"]["padding"] = 0
    project.write(name, json.dumps(edited))
    project.uninstall(scope=scope)
    after = json.loads(project.read(name))
    assert after == {
        "model": "opus", "statusLine": {"type": "command", "command": FORMER, "padding": 0}
    }  # fmt: skip


def test_a_journal_that_is_gone_loses_nothing(project):
    project.write(TEAM, settings(FORMER))
    project.init(status_line=True)
    os.unlink(project.path(".git/holdfast/installed.json"))
    project.uninstall()
    assert json.loads(project.read(TEAM)) == json.loads(settings(FORMER))


def test_init_alone_adds_none_and_keeps_the_one_that_is_there(project):
    project.init()
    assert "statusLine" not in json.loads(project.read(TEAM))
    project.init(status_line=True)
    project.init()
    assert status_line(project, TEAM)["command"] == command_line("team")
    project.uninstall()
    assert project.read(TEAM) is None


def test_a_command_of_an_older_place_is_renewed_with_its_former_one(project):
    old = "/old/python -I -S /old/holdfast/hooks/entry.py statusline --after 'echo x'"
    project.write(LOCAL, settings(old))
    project.init(scope="local")
    assert status_line(project, LOCAL)["command"] == command_line("local", "echo x")


def test_one_that_somebody_composed_already_stays(project):
    composed = "echo mine; holdfast statusline"
    project.write(LOCAL, settings(composed))
    outcome = project.init(scope="local", status_line=True)
    assert status_line(project, LOCAL)["command"] == composed
    assert notes_on(outcome) == [f"the status line in {LOCAL} runs holdfast statusline already"]


@pytest.mark.parametrize(
    "line", ['"text"', "[]", "null", '{"type": "static"}', '{"type": "command", "command": 5}',
             '{"type": "command", "command": " "}'],
)  # fmt: skip
def test_one_of_another_shape_is_refused_by_its_line(project, line):
    text = f'{{\n  "model": "opus",\n  "statusLine": {line}\n}}\n'
    project.write(TEAM, text)
    with pytest.raises(HoldfastError) as refused:
        project.init(status_line=True)
    assert f"{TEAM}: line 3: statusLine must" in refused.value.message
    assert project.read(TEAM) == text.encode()
    project.init()
    project.uninstall()
    assert project.read(TEAM) == text.encode()


@pytest.mark.parametrize("name", sorted(FILES))
def test_settings_of_others_come_back_byte_for_byte(project, name):
    project.write(TEAM, FILES[name])
    before = project.read(TEAM)
    project.init(status_line=True)
    assert b"holdfast statusline" in project.read(TEAM)
    project.uninstall()
    assert project.read(TEAM) == before


# Whose line is run where


def test_ones_own_line_for_all_projects_is_kept_in_ones_own_settings_of_a_project(project):
    project.write(USER, settings(FORMER))
    project.init(scope="local", status_line=True)
    assert former_of(status_line(project, LOCAL)["command"]) == FORMER
    assert json.loads(project.read(USER)) == json.loads(settings(FORMER))


def test_a_repositorys_line_is_never_moved_to_where_it_is_trusted_more(project):
    project.write(TEAM, settings("./evil"))
    outcome = project.init(scope="local", status_line=True)
    assert former_of(status_line(project, LOCAL)["command"]) == ""
    hides = f"{TEAM} has a status line that this one hides here"
    assert notes_on(outcome) == [f"{hides}; to have both: holdfast init --statusline"]
    outcome = project.init(scope="user", status_line=True)
    assert former_of(status_line(project, USER)["command"]) == ""
    project.write(USER, settings(FORMER))
    project.write(LOCAL, "{}")
    project.init(scope="local", status_line=True)
    assert former_of(status_line(project, LOCAL)["command"]) == ""


def test_ones_own_line_is_never_copied_into_a_teams_file(project):
    project.write(USER, settings(FORMER))
    outcome = project.init(status_line=True)
    assert former_of(status_line(project, TEAM)["command"]) == ""
    assert len(notes_on(outcome)) == 1
    assert notes_on(outcome)[0].endswith("to have both: holdfast init --statusline --user")


def test_a_line_that_another_file_hides_is_said(project):
    project.write(LOCAL, settings("date"))
    outcome = project.init(status_line=True)
    note = f"{LOCAL} has a status line, too, which is shown here in place of this one"
    assert notes_on(outcome) == [note]


# What a client runs


def run_in_shell(project, command, path, event=b"{}"):
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=project.root, input=event, capture_output=True,
        env={"PATH": path, "HOME": project.home, "LANG": "C.UTF-8"}, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.fixture
def on_path(tmp_path):
    """A folder with a program ``holdfast``, as for a PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "holdfast"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


EVENT = b'{"hook_event_name": "HoldfastPing"}'


@pytest.mark.parametrize("scope", SCOPES)
def test_the_client_shows_both_lines(project, on_path, scope):
    former = "cat; echo; printf '%s\\n' \"it's\" 'two  spaces' \"$HOME\""
    printed = run_in_shell(project, command_line(scope, former), on_path, EVENT)
    assert printed.splitlines()[:4] == [EVENT.decode(), "it's", "two  spaces", project.home]
    assert printed.splitlines()[4].startswith("holdfast ")
    assert run_in_shell(project, command_line(scope), on_path, EVENT).startswith("holdfast ")


def test_a_colleague_without_holdfast_sees_the_teams_line_alone(project):
    nothing = "/usr/bin:/bin"
    assert run_in_shell(project, command_line("team"), nothing) == ""
    former = 'read -r line; echo "it\'s $line"'
    printed = run_in_shell(project, command_line("team", former), nothing, b"{}\n")
    assert printed == "it's {}\n"


@given(
    former=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
)
def test_any_former_command_is_read_back_from_ours(former):
    for scope in SCOPES:
        assert former_of(command_line(scope, former)) == former
        assert own_words(command_line(scope, former)) == own_words(command_line(scope))


@pytest.mark.parametrize(
    "command",
    ["", "holdfast", "holdfast status", "echo statusline", "/x/holdfast hook", "'", "f=a; eval b",
     "./x entry.py statusline", "sh -c 'x' /x/holdfast/hooks/entry.py statusline"],
)  # fmt: skip
def test_what_is_not_ours_is_not_taken_for_ours(command):
    assert former_of(command) is None


# Other clients


@pytest.mark.parametrize(
    ("agent", "key"), [("codex", "tui.status_line"), ("gemini", "ui.footer.items")]
)
def test_clients_that_run_no_command_say_what_else_there_is(project, agent, key):
    outcome = install.init(project.root, agent=agent, status_line=True)
    (note,) = notes_on(outcome)
    assert key in note
    assert "holdfast watch" in note
    for change in outcome.changes:
        assert b"statusline" not in (change.after or b"") or "SKILL.md" in change.file.name


def test_it_is_an_option_of_init(repo):
    file = repo.ok("init", "--statusline", "--local")["files"][0]
    assert "entry.py statusline" in file["diff"]
    assert repo.ok("uninstall")["files"][0]["change"] == "removed"


# Doctor


def checked(repo, **options):
    answer = json.loads(repo.run("doctor", "--json", **options).out)
    return [(c["status"], c["found"]) for c in answer["checks"] if c["what"] == "status line"]


def test_doctor_tries_the_line_that_is_shown(repo):
    assert checked(repo) == []
    repo.ok("init", "--local", "--statusline")
    assert checked(repo) == [("good", f"{LOCAL}: the status line answers")]
    repo.ok("init", "--statusline")
    path = {**repo.environment, "PATH": "/usr/bin:/bin"}
    repo.write(LOCAL, "{}")
    assert checked(repo, env=path) == [("bad", f"{TEAM}: holdfast is not on the PATH")]
    repo.write(LOCAL, settings("date"))
    assert checked(repo) == [("bad", f"{LOCAL} has a status line that hides the one of {TEAM}")]


def test_doctor_runs_no_former_command_and_no_holdfast_of_the_project(repo):
    for scope in ("team", "local"):
        repo.write(TEAM, settings(command_line(scope, "touch ran")))
        checked(repo)
    own = "./python -I x/holdfast/hooks/entry.py statusline"
    repo.write(TEAM, settings(own))
    assert checked(repo)[0][0] == "unknown"
    assert not repo.has("ran")
