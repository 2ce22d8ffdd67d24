"""Claude Code: the plugin, installed from this repository's own marketplace."""

from pathlib import Path

import pytest

from briefings import briefings, delivered
from directives import START, bash

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture
def plugged(claude):
    """The client with the plugin, and no hooks but those of the plugin."""
    if not (REPOSITORY / ".claude-plugin" / "marketplace.json").exists():
        pytest.skip("the repository has no marketplace file yet")
    claude.run("plugin", "marketplace", "add", str(REPOSITORY))
    claude.run("plugin", "install", "holdfast@holdfast")
    return claude


def test_the_plugin_briefs_after_a_compaction(plugged):
    plugged.say(f"Begin. {bash(START)} <<say begun>>")
    workflow = plugged.place.state()["id"]
    plugged.go_on("/compact")
    assert plugged.place.events("context_compacted")
    plugged.go_on("Go on. <<say on>>")
    delivered(plugged.place, plugged.stub.after_summing_up(), workflow, "compact")


def test_the_plugin_without_the_program_says_one_line(plugged):
    plugged.place.holdfast("start", "custom", "Left behind")
    if plugged.place.without_holdfast() is None:
        pytest.skip("holdfast is installed for the whole system")
    plugged.say("Begin. <<say begun>>")
    (request,) = plugged.stub.requests
    said = [line for line in request.text.splitlines() if "Holdfast: " in line]
    assert len(said) == 1
    assert "the program is not installed. Install it from a checkout" in said[0]
    assert not briefings(request)
