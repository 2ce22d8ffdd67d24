"""A command that came with a repository runs only after a person approved exactly that command."""

import os
import pty
import select
import subprocess
import sys

import pytest

pytestmark = pytest.mark.promise(13)

RECIPE = """\
format = "skill"
[[phases]]
name = "work"
[gates.lint]
command = "{command}"
"""
EVIL = "touch ../owned"


@pytest.fixture
def hostile(repo):
    """A clone whose recipe, settings and records all want something run."""
    repo.write(".claude/workflows/ship.toml", RECIPE.format(command=EVIL))
    repo.write(".claude/holdfast.toml", '[gates.test]\ncommand = "touch ../owned"\n')
    repo.ok("start", "ship", "it")
    return repo


def owned(place):
    return os.path.lexists(os.path.join(place.path, "..", "owned"))


def on_terminal(place, *words, typed=""):
    """The command in a terminal of its own, with a person who types; what the screen shows."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        cwd=place.path, env={**place.environment, "TERM": "xterm"},
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    os.write(master, typed.encode())
    shown = b""
    while select.select([master], [], [], 30)[0]:
        try:
            piece = os.read(master, 65_536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    return process.wait(timeout=30), shown.decode()


def test_nothing_of_a_stranger_runs_by_itself(hostile):
    for gate in ("lint", "test"):
        error = hostile.refused("gate", "run", gate)
        assert error["code"] == "untrusted"
        assert EVIL in error["message"]
        assert error["hint"].endswith("holdfast trust")
    for line in ("status", "show", "resume", "gate list", "trust", "verify", "clean", "recipes"):
        hostile.run(*line.split(), "--json")
    assert not owned(hostile)


def test_without_a_terminal_nobody_is_asked_and_nothing_is_approved(hostile):
    assert hostile.refused("gate", "run", "lint")["code"] == "untrusted"
    answer = hostile.run("trust", input=b"y\ny\n", stdin=None)
    assert answer.code == 1
    assert "terminal" in answer.err
    listed = hostile.ok("trust")["commands"]
    assert [(row["gate"], row["approved"]) for row in listed] == [("lint", False), ("test", False)]
    assert hostile.ok("trust", "--list")["not_covered"]


def test_a_person_approves_exactly_one_command(hostile):
    code, shown = on_terminal(hostile, "trust", typed="y\nn\n")
    assert code == 0
    assert EVIL in shown
    assert "not covered" in shown
    hostile.ok("gate", "run", "lint")
    assert owned(hostile)


def test_an_approval_is_for_the_whole_text_of_the_command(repo):
    repo.write(".claude/workflows/ship.toml", RECIPE.format(command="true"))
    repo.ok("start", "ship", "it")
    on_terminal(repo, "trust", typed="y\n")
    assert repo.ok("gate", "run", "lint")["gate"]["passed"]
    for changed in ("true ", "true; touch ../owned", "true #", "TRUE"):
        repo.write(".claude/workflows/ship.toml", RECIPE.format(command=changed))
        repo.ok("abandon")
        repo.ok("start", "ship", "it")
        assert repo.refused("gate", "run", "lint")["code"] == "untrusted", changed
    assert not owned(repo)


def test_an_approval_is_for_one_workspace(repo):
    repo.write(".claude/workflows/ship.toml", RECIPE.format(command="true"))
    repo.ok("start", "ship", "it")
    on_terminal(repo, "trust", typed="y\n")
    other = repo.at("..", "other")
    other.git("init", "-q")
    other.write(".claude/workflows/ship.toml", RECIPE.format(command="true"))
    other.ok("start", "ship", "it")
    assert other.refused("gate", "run", "lint")["code"] == "untrusted"


def test_only_a_clear_yes_is_one(hostile):
    for typed in ("\n\n", "n\nn\n", "maybe\nno\n", "\x04\x04"):
        on_terminal(hostile, "trust", typed=typed)
        assert hostile.refused("gate", "run", "lint")["code"] == "untrusted"


def test_what_the_person_cannot_see_cannot_be_approved(repo):
    hidden = RECIPE.format(command="true \\u001b[8m; touch ../owned")
    repo.write(".claude/workflows/ship.toml", hidden)
    assert repo.refused("start", "ship", "it")["code"] == "bad_recipe"
    repo.write(".claude/holdfast.toml", '[gates.lint]\ncommand = "true \\u202e; x"\n')
    assert repo.refused("trust")["code"] == "bad_settings"
    for code in ("3164", "2800", "FE0F", "00A0"):
        repo.write(".claude/holdfast.toml", f'[gates.lint]\ncommand = "true \\u{code}; x"\n')
        assert f"<U+{code}>" in repo.refused("trust")["message"]


def test_what_can_be_overlooked_cannot_be_approved(repo):
    gap = RECIPE.format(command=f"make lint{' ' * 300}; touch ../owned")
    repo.write(".claude/workflows/ship.toml", gap)
    repo.ok("start", "ship", "it")
    code, shown = on_terminal(repo, "trust", typed="y\ny\n")
    assert code == 0
    assert "gap" in shown
    assert repo.ok("trust")["commands"] == []
    assert "gap" in repo.refused("gate", "run", "lint")["message"]


def test_the_persons_folder_is_never_one_of_the_repository(hostile):
    hostile.write("config/holdfast/config.toml", '[trust]\nfolders = ["/"]\n')
    told = {**hostile.environment, "XDG_CONFIG_HOME": "config"}
    assert hostile.refused("gate", "run", "lint", env=told)["code"] == "untrusted"


def test_a_record_that_names_another_command_changes_nothing(hostile):
    on_terminal(hostile, "trust", typed="n\nn\n")
    state = hostile.state()
    record = os.path.join(hostile.path, state["record"])
    with open(record) as file:
        text = file.read()
    with open(record, "w") as file:
        file.write(text.replace('"command": "touch ../owned"', '"command": "touch ../owned2"'))
    hostile.state()
    assert hostile.refused("gate", "run", "lint")["code"] == "untrusted"


def test_approvals_stand_in_the_persons_folder_and_can_be_taken_back(hostile):
    on_terminal(hostile, "trust", typed="y\ny\n")
    home = os.path.join(hostile.path, "..", "home", ".config", "holdfast")
    assert "trusted.json" in os.listdir(home)
    assert os.stat(home).st_mode & 0o077 == 0
    assert all(row["approved"] for row in hostile.ok("trust")["commands"])
    hostile.ok("trust", "--revoke")
    assert not any(row["approved"] for row in hostile.ok("trust")["commands"])


def test_a_damaged_file_of_approvals_approves_nothing(hostile):
    home = hostile.at("..", "home", ".config", "holdfast")
    for text in ("{", "[]", '{"workspaces": 1}', '{"workspaces": {"x": []}}'):
        home.write("trusted.json", text)
        assert hostile.refused("gate", "run", "lint")["code"] == "untrusted"


def test_a_folder_can_be_trusted_whole_by_the_person_alone(hostile):
    here = os.path.join(hostile.path, "..")
    hostile.write(".claude/holdfast.toml", f'[trust]\nfolders = ["{here}"]\n')
    assert hostile.refused("gate", "run", "lint")["code"] == "bad_settings"
    hostile.write(".claude/holdfast.toml", "")
    home = hostile.at("..", "home", ".config", "holdfast")
    home.write("config.toml", f'[trust]\nfolders = ["{here}"]\n')
    hostile.ok("gate", "run", "lint")
    home.write("config.toml", f'[trust]\nfolders = ["{hostile.path}-not"]\n')
    assert hostile.refused("gate", "run", "lint")["code"] == "untrusted"


def test_a_command_that_the_caller_typed_needs_no_approval(hostile):
    hostile.ok("gate", "run", "spelling", "--", "test", "-e", "README.md")
    # What is declared is what passes the gate: another command is refused, the same one is typed.
    error = hostile.refused("gate", "run", "lint", "--", "test", "-e", "README.md")
    assert (error["code"], error["hint"]) == ("invalid", "holdfast gate run lint")
    assert not owned(hostile)
    hostile.ok("gate", "run", "lint", "--", "touch", "../owned")
    assert owned(hostile)


def test_the_persons_own_setting_needs_none_either(repo):
    home = repo.at("..", "home", ".config", "holdfast")
    home.write("config.toml", '[gates.lint]\ncommand = "true"\ntimeout = "30s"\n')
    repo.ok("start", "dev", "feature.md")
    assert repo.ok("gate", "run", "lint")["gate"]["command"] == "true"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("gates = 1\n", "gates"),
        ("[gates]\nlint = 1\n", "gates.lint"),
        ("[gates.lint]\ncommand = 1\n", "gates.lint.command"),
        ("[gates.lint]\nrun = 'x'\n", "gates.lint.run"),
        ("[gates.lint]\ntimeout = 'soon'\n", "gates.lint.timeout"),
        ("[ttl]\ndev = 7\n", "ttl.dev"),
        ("[clean]\ncompleted = 'x'\n", "clean.completed"),
        ("[other]\n", "other"),
        ("[", "file"),
    ],
)
def test_bad_settings_are_named_by_key_and_reason(repo, text, key):
    repo.write(".claude/holdfast.toml", text)
    error = repo.refused("start", "dev", "feature.md")
    assert (error["code"], error["details"]["key"]) == ("bad_settings", key)
    assert not repo.has(".claude", "holdfast")


def test_settings_that_lead_out_of_the_workspace_are_not_read(repo):
    outside = os.path.join(repo.path, "..", "secret.toml")
    with open(outside, "w") as file:
        file.write("[other]\n")
    repo.at(".claude")
    os.symlink(outside, os.path.join(repo.path, ".claude", "holdfast.toml"))
    assert "link" in repo.refused("start", "dev", "feature.md")["message"]


def test_the_team_can_say_how_long_things_live(repo):
    repo.write(".claude/holdfast.toml", "[ttl]\ndev = '14d'\n")
    assert repo.ok("start", "dev", "feature.md")["workflow"]["ttl"] == "14d"
    assert repo.ok("start", "dev", "other.md", "--ttl", "1h")["workflow"]["ttl"] == "1h"


def test_git_runs_no_program_that_the_repository_names(repo):
    """Files that git looks at for us must not start what its own settings name."""
    repo.git("config", "core.fsmonitor", "touch ../owned; false")
    repo.ok("start", "dev", "feature.md")
    repo.ok("gate", "run", "lint", "--", "test", "-e", "README.md")
    repo.ok("files", "sync")
    assert not owned(repo)
