"""``holdfast init`` and ``holdfast uninstall`` as they are typed."""

import json
import os
import re
import subprocess
import sys

import pytest

from holdfast.cli.commands.setup import settings_lines
from holdfast.cli.screen import Screen

TEAM = ".claude/settings.json"


def test_the_answer_names_the_file_the_change_and_the_diff(repo):
    answer = repo.ok("init")
    assert {name: answer[name] for name in ("agent", "scope", "dry_run")} == {
        "agent": "claude",
        "scope": "team",
        "dry_run": False,
    }
    file = answer["files"][0]
    assert (file["path"], file["change"]) == (TEAM, "created")
    assert file["diff"].startswith(f"--- /dev/null\n+++ {TEAM}\n")
    file = repo.ok("uninstall")["files"][0]
    assert (file["path"], file["change"]) == (TEAM, "removed")
    answer = repo.ok("uninstall")
    assert (answer["files"], answer["agent"], answer["scope"]) == ([], None, None)


def test_people_see_the_diff_and_what_was_done(repo):
    repo.write(TEAM, '{\n  "model": "opus"\n}\n')
    shown = repo.run("init", "--dry-run").out
    assert '+  "hooks": {' in shown
    assert f"{TEAM} would be changed" in shown
    assert "✓ .claude/skills/holdfast-dev/SKILL.md would be created\n" in shown
    assert "# Develop a feature" not in shown
    assert f"✓ {TEAM} was changed" in repo.run("init").out
    assert repo.run("init").out.startswith(f"✓ {TEAM} unchanged")
    assert f"✓ {TEAM} was restored" in repo.run("uninstall").out
    assert repo.run("uninstall").out == "Nothing of Holdfast's is in these settings.\n"


def test_it_is_set_up_from_any_folder_of_the_project(repo):
    assert repo.at("src", "deep").ok("init")["files"][0]["path"] == TEAM
    assert repo.has(TEAM)
    assert repo.at("src").ok("uninstall")["files"][0]["change"] == "removed"


def test_a_folder_without_git_will_do(folder):
    folder.ok("init")
    assert folder.has(TEAM)
    folder.ok("uninstall")
    assert os.listdir(folder.path) == []


@pytest.mark.parametrize(
    "words",
    [
        ["init", "--local", "--user"],
        ["uninstall", "--local", "--user"],
        ["init", "--agent", "emacs"],
        ["uninstall", "--agent", ""],
        ["init", "extra"],
    ],
)
def test_a_line_that_makes_no_sense_is_a_usage_error(repo, words):
    assert repo.refused(*words, exit_code=2)["code"] == "usage"
    assert not repo.has(".claude")


def test_a_file_that_cannot_be_used_is_named_with_its_line(repo):
    repo.write(TEAM, '{\n  "hooks": []\n}\n')
    error = repo.refused("init")
    assert error["message"] == f"{TEAM}: line 2: hooks must be an object"
    assert error["details"] == {"key": "line 2", "why": "hooks must be an object"}
    assert TEAM in error["hint"]


def test_where_nothing_can_be_written_nothing_is_changed(repo):
    repo.write(TEAM, "{}")
    os.chmod(os.path.join(repo.path, ".claude"), 0o500)
    assert repo.refused("init", exit_code=3, rights=False)["code"] == "storage"
    os.chmod(os.path.join(repo.path, ".claude"), 0o700)
    assert repo.record(TEAM) == {}
    assert os.listdir(os.path.join(repo.path, ".claude")) == ["settings.json"]


def test_what_would_be_told_twice_is_said(repo):
    repo.ok("init")
    notes = " ".join(repo.ok("init", "--local")["notes"])
    assert f"{TEAM} has the hook too" in notes
    assert "holdfast uninstall --agent claude --local" in notes
    assert "--user" in " ".join(repo.ok("init", "--user")["notes"])
    (file,) = repo.ok("uninstall", "--local")["files"]
    assert file["path"] == ".claude/settings.local.json"


def test_what_else_stands_in_the_way_is_said(repo):
    repo.write(TEAM, '{"disableAllHooks": true}')
    notes = " ".join(repo.ok("init", "--enforce")["notes"])
    assert "disableAllHooks" in notes
    assert "not on the PATH" in notes
    assert 'enforce = ["reading", "stop"]' in notes


def test_a_command_on_the_path_is_found(repo, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "holdfast").touch(0o755)
    path = f"{tmp_path / 'bin'}:{repo.environment['PATH']}"
    answer = repo.ok("init", env={**repo.environment, "PATH": path})
    assert not any("PATH" in note for note in answer.get("notes", []))


def test_what_is_written_for_oneself_really_answers_an_event(repo):
    """The file that a client would read, run as a client runs it."""
    repo.ok("start", "tdd", "src/parser.py", "--remind", "Keep the old tests")
    repo.ok("init", "--local")
    hooks = repo.record(".claude/settings.local.json")["hooks"]
    handler = hooks["SessionStart"][0]["hooks"][0]
    event = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s-1"}
    done = subprocess.run(
        [handler["command"], *handler["args"]],
        input=json.dumps({**event, "cwd": repo.path}).encode(),
        env={"PATH": "/usr/bin:/bin", "HOME": repo.environment["HOME"]},
        cwd=repo.path, capture_output=True, check=True,
    )  # fmt: skip
    assert "Keep the old tests" in done.stdout.decode()


def test_the_teams_hook_does_nothing_where_holdfast_is_not_installed(repo, tmp_path):
    repo.ok("init")
    handler = repo.record(TEAM)["hooks"]["SessionStart"][0]["hooks"][0]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "holdfast").write_text("#!/bin/sh\necho ran $*; exit 2\n")
    (tmp_path / "bin" / "holdfast").chmod(0o755)
    for path, code, out in (("/usr/bin:/bin", 0, ""), (f"{tmp_path}/bin:/bin", 2, "ran hook\n")):
        done = subprocess.run(
            ["sh", "-c", handler["command"]], env={"PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (code, out, "")


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        ((), "/holdfast-dev FILE, or in a terminal: holdfast start dev FILE"),
        (("--local",), "holdfast start dev FILE"),
        (
            ("--agent", "codex"),
            "the skill holdfast-dev with FILE, or in a terminal: holdfast start dev FILE",
        ),
    ],
)
def test_init_ends_with_what_to_do_next(repo, words, begin):
    *_, blank, restart, start, check = repo.run("init", *words).out.splitlines()
    assert blank == ""
    assert restart.startswith("Restart C")
    assert start == f"Then begin: {begin}"
    assert check.startswith("holdfast doctor ")
    assert "doctor" not in repo.run("init", "--dry-run", *words).out
    assert "doctor" not in repo.run("uninstall").out


def test_several_at_once_lose_nothing_of_each_other(repo):
    lines = [
        ["--local"],
        [],
        ["--agent", "codex"],
        ["--agent", "gemini"],
        ["--enforce"],
        ["--local"],
    ]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", "init", *words],
            cwd=repo.path, env=repo.environment, stdout=subprocess.DEVNULL,
        )
        for words in lines
    ]  # fmt: skip
    assert [process.wait(60) for process in running] == [0] * len(lines)
    assert repo.ok("init", "--local")["files"][0]["change"] == "unchanged"
    undone = repo.ok("uninstall")["files"]
    assert {file["change"] for file in undone} == {"removed"}
    assert [file["path"] for file in undone if "SKILL.md" not in file["path"]] == [
        TEAM,
        ".mcp.json",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".claude/settings.local.json",
        os.path.join(repo.environment["HOME"], ".codex", "config.toml"),
    ]
    assert sorted(os.listdir(repo.path)) == [".git", "README.md"]


def test_a_terminal_gets_colours_and_whole_lines(repo):
    file = repo.ok("init", "--dry-run")["files"][0]
    data = {"files": [{**file, "diff": file["diff"].replace("\n", "\r\n")}], "dry_run": True}
    lines = list(settings_lines(Screen(colour=True, width=40), data))
    assert "\x1b[32m+{\x1b[0m" in lines
    assert not any("\\r" in line for line in lines)
    assert re.search(r"\x1b\[36m@@", "\n".join(lines))
