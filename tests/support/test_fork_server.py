"""A command in a fork answers and ends as it would in a fresh process."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

import holdfast
from support import fork_server
from support.command_line import clean_environment
from support.git_template import make_repository

ENTRY = os.path.join(os.path.dirname(holdfast.__file__), "hooks", "entry.py")
HOLDFAST = [sys.executable, "-m", "holdfast"]
CHANCE = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z|\d+ ms|just now|\d+ seconds ago")


@pytest.fixture
def options(tmp_path):
    folder, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    make_repository(folder, committed=True)
    return {"cwd": folder, "env": clean_environment(home), "capture_output": True, "timeout": 60}


def outcome_of(run, command, options, **more):
    ended = run(command, **{**options, **more})
    return ended.returncode, CHANCE.sub(b"then", ended.stdout), CHANCE.sub(b"then", ended.stderr)


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "status",
        "status --json",
        "no-such-command",
        "show nothing --json",
        "log",
        "help",
    ],
)
def test_answer_streams_and_exit_code_are_those_of_a_fresh_process(options, line):
    fork_server.run([*HOLDFAST, "start", "dev", "a.md"], **options)
    command = [*HOLDFAST, *line.split()]
    assert outcome_of(fork_server.run, command, options) == outcome_of(
        subprocess.run, command, options
    )


@pytest.mark.parametrize(
    "settings", [{"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"TZ": "Asia/Tokyo"}]
)
def test_settings_of_the_interpreter_are_in_effect(options, settings):
    fork_server.run([*HOLDFAST, "start", "dev", "docs/ärger.md", "--title", "Ärger →"], **options)
    options["env"] = {**options["env"], **settings}
    command = [*HOLDFAST, "status"]
    assert outcome_of(fork_server.run, command, options) == outcome_of(
        subprocess.run, command, options
    )


def test_a_hook_hears_its_event_and_answers_as_a_fresh_one(options):
    fork_server.run([*HOLDFAST, "start", "dev", "a.md"], **options)
    event = {"session_id": "s", "cwd": str(options["cwd"]), "source": "compact"}
    data = json.dumps({**event, "hook_event_name": "SessionStart"}).encode()
    command = [sys.executable, "-I", "-S", ENTRY]
    forked = outcome_of(fork_server.run, command, options, input=data)
    assert forked == outcome_of(subprocess.run, command, options, input=data)
    assert b"a.md" in forked[1]


def test_nothing_of_one_command_is_left_for_the_next(options, tmp_path):
    (tmp_path / "other").mkdir()
    env = {**options["env"], "CLAUDE_CODE_SESSION_ID": "mine"}
    fork_server.run([*HOLDFAST, "start", "dev", "a.md"], **{**options, "env": env})
    status = fork_server.run(
        [*HOLDFAST, "status", "--json"], **{**options, "cwd": tmp_path / "other"}
    )
    assert json.loads(status.stdout)["workflows"] == []
    started = fork_server.run([*HOLDFAST, "start", "tdd", "b", "--json"], **options)
    assert json.loads(started.stdout)["workflow"]["session"] is None


def test_it_holds_no_descriptor_but_its_streams(options):
    del options["capture_output"], options["timeout"]
    with fork_server.Process(
        [*HOLDFAST, "status"],
        hold=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        **options,
    ) as process:
        assert sorted(os.listdir(f"/proc/{process.pid}/fd")) == ["0", "1", "2"]
        assert process.poll() is None
        process.send_signal(signal.SIGCONT)
        assert b"workflow" in process.communicate()[0]
    assert process.returncode == 0


def test_a_kill_and_a_timeout_are_told(options):
    killed = fork_server.run([*HOLDFAST, "start", "dev", "a.md"], dies_at=3, **options)
    assert killed.returncode == -signal.SIGKILL
    reader, writer = os.pipe()
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.run([*HOLDFAST, "mcp"], stdin=reader, **{**options, "timeout": 0.2})
    os.close(reader)
    os.close(writer)


def test_without_rights_permissions_stop_it(options):
    options["cwd"].joinpath(".git").chmod(0o555)
    refused = fork_server.run(
        [*HOLDFAST, "start", "dev", "a.md", "--json"], rights=False, **options
    )
    assert json.loads(refused.stdout)["error"]["code"] == "not_writable"
    options["cwd"].joinpath(".git").chmod(0o755)
