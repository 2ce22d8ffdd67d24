"""Claude Code: what Holdfast writes into the project's memory is what the client loads."""

import json

POSITION = "Active APEX workflow: analyze completed, planning Login"


def test_the_position_of_a_workflow_reaches_the_next_session_through_memory_alone(claude):
    claude.place.holdfast("start", "apex", "Login")
    claude.place.holdfast("advance")
    claude.place.holdfast("remember", "Ada wants short commits", "--kind", "preference")
    # No hook is installed: what arrives came with the client's own memory.
    claude.say("Begin. <<say begun>>")
    asked = json.dumps(claude.stub.requests[-1].body, ensure_ascii=False)
    assert POSITION in asked
    assert "Preference: Ada wants short commits" in asked


def test_worktrees_share_the_memory(claude):
    claude.place.holdfast("start", "apex", "Login")
    claude.place.holdfast("advance")
    claude.place.holdfast("remember", "Ada wants short commits")
    side = claude.at(claude.place.worktree("side"))
    side.say("Begin. <<say begun>>")
    assert POSITION in json.dumps(side.stub.requests[-1].body)
