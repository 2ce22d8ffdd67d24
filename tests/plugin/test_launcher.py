"""The launcher of the plugin's hooks: under every shell at hand, with and without Holdfast."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from support.paths import PLUGIN

LAUNCHER = PLUGIN / "bin" / "holdfast-hook"
HOOKS = json.loads((PLUGIN / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
EVENTS = ["SessionStart", "PreCompact", "SessionEnd", "PostToolUse", "UserPromptSubmit"]
KINDS = {"sh": ["sh"], "dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
SHELLS = {name: words for name, words in KINDS.items() if shutil.which(words[0])}
INPUT = b'{"hook_event_name":"X","text":"$(touch owned) `touch owned`\\u00e9"}'
FAKE = """\
#!{python} -IS
import os, sys
with open({seen!r}, "ab") as file:
    file.write(" ".join(sys.argv[1:]).encode() + b"|" + os.getcwd().encode() + b"|")
    file.write(sys.stdin.buffer.read() + b"\\n")
print({answer!r})
sys.exit({code})
"""


@pytest.fixture(params=sorted(SHELLS))
def launch(request, tmp_path):
    """Runs the launcher in a folder with a space in its name; ``path`` is the PATH it finds."""
    shell, *options = SHELLS[request.param]
    words = [shutil.which(shell), *options]
    work = tmp_path / "a project"
    work.mkdir()

    def run(event, path, *, launcher=LAUNCHER, home=None, cwd=work):
        environment = {"HOME": str(home or tmp_path / "nobody")}
        if path is not None:
            environment["PATH"] = path
        return subprocess.run(
            [*words, str(launcher), *([event] if event else [])],
            cwd=cwd,
            env=environment,
            input=INPUT,
            capture_output=True,
            check=False,
        )

    return run


@pytest.fixture
def fake(tmp_path):
    """Puts a ``holdfast`` into a folder; what it was handed stands in the file ``seen``."""

    def put(folder, *, code=0, answer='{"from": "fake"}', mode=0o755):
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "holdfast"
        values = {"python": sys.executable, "seen": str(tmp_path / "seen")}
        program.write_text(FAKE.format(answer=answer, code=code, **values))
        program.chmod(mode)
        return str(folder)

    return put


def seen(tmp_path):
    path = tmp_path / "seen"
    return path.read_bytes().splitlines() if path.exists() else []


def only_line(done):
    """What a session is told when Holdfast is of no use: the same line for person and model."""
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1
    answer = json.loads(done.stdout)
    specific = answer["hookSpecificOutput"]
    assert set(answer) == {"systemMessage", "hookSpecificOutput"}
    assert specific["hookEventName"] == "SessionStart"
    assert specific["additionalContext"] == answer["systemMessage"]
    return answer["systemMessage"]


def silent(done):
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("event", EVENTS)
def test_holdfast_gets_the_event_as_it_came(launch, fake, tmp_path, event):
    done = launch(event, fake(tmp_path / "some bin"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == {"from": "fake"}
    assert seen(tmp_path) == [b"hook|" + str(tmp_path / "a project").encode() + b"|" + INPUT]
    assert not (tmp_path / "a project" / "owned").exists()


def test_it_says_once_that_holdfast_is_missing_and_what_installs_it(launch):
    line = only_line(launch("SessionStart", "/usr/bin:/bin"))
    assert "not installed" in line
    assert "from a checkout of Holdfast: pipx install . (or: pip install .)" in line


@pytest.mark.parametrize("event", [*EVENTS[1:], "Stop", ""])
def test_without_holdfast_all_other_events_are_silent(launch, event):
    assert silent(launch(event, "/usr/bin:/bin"))


@pytest.mark.parametrize(
    "path",
    [None, "", ":", "::", "/usr/bin:", "nowhere", "/no such folder", "*", "/*:/bin/*", "$(exit 9)"],
)
def test_an_odd_path_is_no_error(launch, path):
    assert "not installed" in only_line(launch("SessionStart", path))
    assert silent(launch("PreCompact", path))


@pytest.mark.parametrize("before", ["", ":", "/no such folder:", "*:", "relative/bin:", "~/bin:"])
@pytest.mark.parametrize("name", ["bin", "with space", "with * and ?", "with $HOME", "ünï"])
def test_holdfast_is_found_wherever_it_stands_on_the_path(launch, fake, tmp_path, before, name):
    done = launch("SessionStart", before + fake(tmp_path / name) + ":")
    assert json.loads(done.stdout) == {"from": "fake"}


def test_nothing_but_holdfast_is_started(launch, fake, tmp_path):
    """There is no other program on this path."""
    assert launch("PreCompact", fake(tmp_path / "bin")).stderr == b""
    assert len(seen(tmp_path)) == 1


def test_the_first_on_the_path_is_taken_and_no_other(launch, fake, tmp_path):
    first = fake(tmp_path / "one", answer="first")
    done = launch("SessionStart", f"{first}:{fake(tmp_path / 'two')}")
    assert done.stdout == b"first\n"
    assert len(seen(tmp_path)) == 1


def test_the_folder_of_pipx_counts_when_it_is_not_on_the_path(launch, fake, tmp_path):
    home = tmp_path / "a home"
    fake(home / ".local" / "bin")
    assert json.loads(launch("SessionStart", "/usr/bin", home=home).stdout) == {"from": "fake"}


@pytest.mark.parametrize("path", [".", "", ":", "bin", "./bin", "/usr/bin::/bin"])
def test_a_repository_cannot_bring_a_holdfast_along(launch, fake, tmp_path, path):
    project = tmp_path / "a project"
    fake(project)
    fake(project / "bin")
    assert "not installed" in only_line(launch("SessionStart", path))
    assert seen(tmp_path) == []


def test_what_cannot_be_run_is_passed_over(launch, fake, tmp_path):
    plain = fake(tmp_path / "plain", mode=0o644)
    (tmp_path / "folder" / "holdfast").mkdir(parents=True)
    done = launch("SessionStart", f"{plain}:{tmp_path / 'folder'}:{fake(tmp_path / 'good')}")
    assert json.loads(done.stdout) == {"from": "fake"}


@pytest.mark.parametrize("code", [1, 2, 3, 4, 130])
@pytest.mark.parametrize("event", EVENTS[1:])
def test_no_failure_of_holdfast_reaches_the_client(launch, fake, tmp_path, code, event):
    done = launch(event, fake(tmp_path / "bin", code=code, answer=""))
    assert (done.returncode, done.stdout.strip()) == (0, b"")


def test_a_holdfast_that_does_not_know_hooks_is_said_to_be_old(launch, fake, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "holdfast").write_text("#!/bin/sh\necho 'no command hook' >&2\nexit 2\n")
    (folder / "holdfast").chmod(0o755)
    done = launch("SessionStart", str(folder))
    assert done.stderr == b"no command hook\n"
    done.stderr = b""
    assert "git pull in the checkout of Holdfast, then pipx install" in only_line(done)
    assert launch("PreCompact", str(folder)).stdout == b""


def test_a_holdfast_whose_python_is_gone_is_no_error(launch, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "holdfast").write_text("#!/no/python\n")
    (folder / "holdfast").chmod(0o755)
    done = launch("SessionStart", str(folder))
    done.stderr = b""
    assert "git pull in the checkout of Holdfast, then pipx install" in only_line(done)
    assert launch("SessionEnd", str(folder)).returncode == 0


# How the client calls it


def test_the_hooks_are_these():
    assert list(HOOKS) == EVENTS
    matchers = {event: [group.get("matcher") for group in HOOKS[event]] for event in EVENTS}
    every_source = {event: [None] for event in EVENTS}
    assert matchers == {**every_source, "PostToolUse": ["Read"]}


@pytest.mark.parametrize("event", EVENTS)
def test_the_command_of_each_hook_runs_wherever_the_plugin_lies(fake, tmp_path, event):
    root = tmp_path / "plug ins" / "it's"
    shutil.copytree(PLUGIN, root)
    (root / "bin" / "holdfast-hook").chmod(0o644)
    (hook,) = HOOKS[event][0]["hooks"]
    assert hook["type"] == "command"
    assert hook.get("timeout", 1) <= 30
    done = subprocess.run(
        ["sh", "-c", hook["command"]],
        cwd=tmp_path,
        env={
            "PATH": f"{fake(tmp_path / 'bin')}:{os.defpath}",
            "HOME": str(tmp_path),
            "CLAUDE_PLUGIN_ROOT": str(root),
        },
        input=INPUT,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(seen(tmp_path)) == 1
    assert hook["command"].endswith(f" {event}")


def test_the_launcher_can_be_run_and_is_short():
    assert os.access(LAUNCHER, os.X_OK)
    text = LAUNCHER.read_text("utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert len(text.splitlines()) <= 50
