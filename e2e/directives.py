"""What a scenario tells the model to do, in a prompt; ``stub`` says what each means."""

import json

START = ("holdfast start dev docs/login.md --task 'Check the password' --task 'Ask for a code'"
         " --task 'Lock after five' --remind 'Never log a password'")  # fmt: skip
"""A workflow as an agent would open it."""


def call(tool, **given):
    return f"<<call {tool} {json.dumps(given)}>>"


def bash(command):
    """Claude Code runs a command."""
    return call("Bash", command=command)
