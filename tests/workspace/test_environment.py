"""Who started this process: an agent's client, or a person."""

import os
import subprocess
import sys

import pytest

from holdfast.workspace.environment import client_above, client_of
from support.pseudoterminal import skip_below_client


@pytest.mark.parametrize(
    ("variable", "client"),
    [
        ("CLAUDECODE", "Claude Code"),
        ("CLAUDE_CODE_SESSION_ID", "Claude Code"),
        ("CLAUDE_PROJECT_DIR", "Claude Code"),
        ("CODEX_SESSION_ID", "Codex"),
        ("CODEX_THREAD_ID", "Codex"),
        ("CODEX_SANDBOX", "Codex"),
        ("GEMINI_CLI", "Gemini CLI"),
        ("CURSOR_AGENT", "Cursor"),
        ("COPILOT_CLI", "Copilot CLI"),
        ("OPENCODE", "OpenCode"),
    ],
)
def test_a_clients_mark_names_the_client(variable, client):
    assert client_of({"PATH": "/bin", variable: "1"}) == client


def test_an_unknown_client_gives_its_own_name():
    assert client_of({"AI_AGENT": "amp@2"}) == "amp@2"


def test_without_a_mark_it_is_a_person():
    assert client_of({"PATH": "/bin", "CODEX_HOME": "/x", "GEMINI_CLI_HOME": "/y"}) is None


def test_an_empty_variable_is_no_mark():
    assert client_of({"CLAUDECODE": "", "CLAUDE_CODE_SESSION_ID": ""}) is None


def ask(*words, **environ):
    """Return what a process says of itself that a shell with these variables starts."""
    code = "from holdfast.workspace.environment import client_above; print(client_above())"
    script = " ".join([*words, sys.executable, "-c", f"'{code}'"])
    environment = {**os.environ, **environ}
    done = subprocess.run(
        ["sh", "-c", f"{script}; :"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_process_below_a_client_is_the_clients():
    """A shell that a client started can remove the mark from its own children alone."""
    assert ask("env", "-u", "CLAUDECODE", CLAUDECODE="1") == "Claude Code"


def test_a_process_of_a_person_has_no_client_above():
    skip_below_client()
    assert ask() == "None"
    assert client_above() is None
