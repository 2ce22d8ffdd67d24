"""The status line in the real client: ours on its screen, beside the one that was there."""

import json
import os

import pytest

import terminal
from clients import KEY
from directives import START, bash

FORMER = "read -r line; echo \"former of ${#line}\" | sed 's/[0-9].*/many letters/'"


def at_home(claude):
    """Answer what the client asks at its first start; the person has a status line already."""
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    answers = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(claude.place.path): known},
    }
    (claude.place.home / ".claude.json").write_text(json.dumps(answers))
    folder = claude.place.home / ".claude"
    folder.mkdir(exist_ok=True)
    line = {"type": "command", "command": FORMER}
    (folder / "settings.json").write_text(json.dumps({"statusLine": line}))


@pytest.mark.skipif(not terminal.is_there(), reason="there is no tmux")
def test_the_status_line_follows_the_work_of_the_session(claude):
    at_home(claude)
    claude.connect("--statusline")
    former = "former of many letters"
    with open_client(claude, 120) as seen:
        seen.wait_for(former)
        seen.enter(f"Begin. {bash(START)} <<say begun>>")
        seen.wait_for("● begun", former, "▶ 1/5 load_feature · task 1/3 Check the password")
        seen.enter(f"Go on. {bash('holdfast task start 2')} <<say went on>>")
        print(seen.wait_for("● went on", former, "task 2/3 Ask for a code · gates 0/5 · context"))
    with open_client(claude, 50, "--continue") as seen:
        # Where it would be wider, the client would cut it.
        print(seen.wait_for(former, "▶ 1/5 load_feature · task 2/3 · gates 0/5 · 0%"))


def open_client(claude, columns, *words):
    words = [*claude.program(), *claude.allowed, "--permission-mode", "default", *words]
    place = claude.place
    return terminal.Terminal(words, place.path, claude.environment(), place.root, columns)
