"""Claude Code: what real tools do to required reading, what is enforced, and what stops nobody."""

import json
import os

from briefings import briefings, delivered
from directives import START, bash, call

NOTES = """\
# Current Workflow State

Workflow: Shop Pages - Product List
Phase: 4/10 - Texts

@docs/products.md
"""


def reading(client, *enforced):
    """A workflow that requires a file to be read, and that file."""
    client.connect("--enforce")
    guide = client.place.write("docs/guide.md", "Read me.\n")
    if enforced:
        client.place.write(".claude/holdfast.toml", f"enforce = {json.dumps(enforced)}\n")
    client.place.holdfast("start", "custom", "Migration", "--read", "@docs/guide.md")
    return call("Read", file_path=str(guide))


def test_required_reading_is_ticked_by_a_read_and_unticked_by_a_compaction(claude):
    read_it = reading(claude)
    assert claude.place.state()["unread"] == ["@docs/guide.md"]
    claude.say(f"Work. {read_it} <<say read>>")
    assert claude.place.state()["unread"] == []
    claude.go_on("/compact")
    assert claude.place.state()["unread"] == ["@docs/guide.md"]
    claude.go_on("Go on. <<say on>>")
    text = delivered(claude.place, claude.stub.after_summing_up(), "migration", "compact")
    assert "REQUIRED READING (read each of these files now):\n@docs/guide.md" in text


def test_an_edit_is_denied_until_the_required_file_was_read(claude):
    read_it = reading(claude, "reading")
    readme = claude.place.path / "README.md"
    # The client itself wants a file read before it is edited.
    look = call("Read", file_path=str(readme))
    edit = call("Edit", file_path=str(readme), old_string="A project.", new_string="Mine.")
    claude.say(f"Work. {look} {edit} <<say denied>>")
    assert "Holdfast: read these first" in claude.stub.requests[-1].results()[-1]
    assert readme.read_text() == "A project.\n"
    claude.go_on(f"Work. {read_it} {edit} <<say done>>")
    assert readme.read_text() == "Mine.\n"


def test_an_agent_that_stops_too_early_is_sent_back_once(claude):
    claude.connect("--enforce")
    claude.place.write(".claude/holdfast.toml", 'enforce = ["stop"]\n')
    claude.say(f"Work. {bash(START)} <<say done>>")
    *before, last = claude.stub.requests
    assert len(before) == 2
    assert not any("still needs tasks 1" in request.text for request in before)
    assert "still needs tasks 1" in last.text


def test_nothing_is_enforced_unless_it_was_asked_for(claude):
    reading(claude)
    write = call("Write", file_path=str(claude.place.path / "new.txt"), content="new")
    claude.say(f"Work. {write} <<say done>>")
    assert (claude.place.path / "new.txt").exists()
    assert len(claude.stub.requests) == 2


def test_a_workflow_in_the_agents_notes_is_adopted_and_briefed(claude):
    claude.connect()
    claude.say("Begin. <<say begun>>")
    assert not briefings(claude.stub.requests[-1])
    claude.place.write("CLAUDE.local.md", NOTES)
    claude.go_on("/compact")
    claude.go_on("Go on. <<say on>>")
    state = claude.place.state()
    assert (state["title"], state["phase"]) == ("Shop Pages - Product List", "Texts")
    text = delivered(claude.place, claude.stub.after_summing_up(), state["id"], "compact")
    assert "✅ Workflow restored: Shop Pages - Product List, Phase 4/10" in text


def test_a_hook_that_fails_does_not_stop_the_session(claude):
    claude.connect("--enforce")
    claude.place.write(".claude/holdfast.toml", 'enforce = ["reading", "stop"]\n')
    claude.say(f"Begin. {bash(START)} <<say begun>>")
    workflow = claude.place.state()["id"]
    ledger = claude.place.path / ".git" / "holdfast" / "ledger.db"
    os.rename(ledger, f"{ledger}.away")
    ledger.mkdir()
    claude.go_on("/compact")
    told = json.loads(claude.go_on(f"Go on. {bash('echo hello')} <<say on>>"))
    assert (told["is_error"], told["result"]) == (False, "on")
    assert not briefings(claude.stub.requests[-1])
    assert claude.place.hook_log()
    ledger.rmdir()
    os.rename(f"{ledger}.away", ledger)
    claude.go_on("Go on. <<say on>>")
    delivered(claude.place, claude.stub.requests[-1], workflow, "resume")


def test_a_long_file_was_read_when_its_end_was(claude):
    claude.connect()
    guide = claude.place.write("docs/guide.md", "A line.\n" * 3_000)
    claude.place.holdfast("start", "custom", "Migration", "--read", "@docs/guide.md")
    begin = call("Read", file_path=str(guide), limit=20)
    claude.say(f"Work. {begin} <<say begun>>")
    assert claude.place.state()["unread"] == ["@docs/guide.md"]
    end = call("Read", file_path=str(guide), offset=2_001)
    claude.go_on(f"Work. {end} <<say read>>")
    assert claude.place.state()["unread"] == []
