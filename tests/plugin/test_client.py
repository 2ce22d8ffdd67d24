"""What the client itself says of the plugin: it validates it, and installs it in a home of its own.

``HOLDFAST_CLAUDE`` names the client, else it is looked for on the path.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from support.paths import ROOT

PARTS = (".claude-plugin", "plugin", "README.md")
QUIET = ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")


@pytest.fixture
def claude(not_shown, tmp_path):
    """Runs the client in an empty home."""
    named = os.environ.get("HOLDFAST_CLAUDE")
    program = shutil.which(named or "claude")
    if program is None:
        assert not named, f"HOLDFAST_CLAUDE is {named}, which is no program"
        not_shown("plugin: no claude on the path, and HOLDFAST_CLAUDE names none")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CLAUDE", "ANTHROPIC"))}
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **kept,
        **dict.fromkeys(QUIET, "1"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
    }

    def run(*words):
        return subprocess.run(
            [program, *words],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    run.home = home
    return run


@pytest.fixture
def copy(tmp_path):
    """The repository as somebody else has it, in a folder with a space in its name."""
    folder = tmp_path / "a copy"
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part)
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


@pytest.mark.parametrize("path", [".", "plugin", "plugin/.claude-plugin/plugin.json"])
def test_the_client_finds_no_fault(claude, copy, path):
    done = claude("plugin", "validate", "--strict", str(copy / path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_client_would_find_a_fault(claude, copy):
    hooks = copy / "plugin" / "hooks" / "hooks.json"
    hooks.write_text(hooks.read_text("utf-8").replace('"PreCompact": [', '"PreCompakt": ['))
    assert claude("plugin", "validate", "--strict", str(copy / "plugin")).returncode != 0


@pytest.mark.parametrize("source", ["", "plugin"])
def test_the_client_installs_it_and_lets_it_go_again(claude, copy, source):
    for words in (("marketplace", "add", str(copy / source)), ("install", "holdfast@holdfast")):
        done = claude("plugin", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    listed = claude("plugin", "list").stdout
    assert "holdfast@holdfast" in listed
    assert "enabled" in listed
    settings = json.loads((claude.home / ".claude" / "settings.json").read_text("utf-8"))
    assert settings["enabledPlugins"] == {"holdfast@holdfast": True}
    inventory = claude("plugin", "details", "holdfast@holdfast").stdout
    skills = sorted(path.name for path in (ROOT / "plugin" / "skills").iterdir())
    assert ", ".join(skills) in " ".join(inventory.split()), inventory
    assert re.search(r"MCP servers \(1\)\s+holdfast", inventory), inventory
    assert "SessionStart, PreCompact, SessionEnd, PostToolUse, UserPromptSubmit" in inventory
    for words in (("uninstall", "holdfast@holdfast"), ("marketplace", "remove", "holdfast")):
        assert claude("plugin", *words).returncode == 0
    assert "holdfast" not in claude("plugin", "list").stdout
