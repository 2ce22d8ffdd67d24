"""Codex: the briefing after its own compaction, with the hooks of ``.codex/hooks.json``."""

from briefings import LIMIT, briefings, delivered
from directives import START, call


def test_briefed_after_compaction_in_the_middle_of_a_turn(codex):
    codex.connect()
    assert (codex.place.path / ".codex" / "hooks.json").exists()
    # The tokens make it compact before it goes on with what the command said.
    said = codex.say(f"Begin. {call('exec_command', cmd=START)} <<tokens 60000>>")
    assert ".codex/hooks.json" not in said, "it complains about our hooks"
    assert codex.place.events("context_compacted")[-1]["data"]["trigger"] == "auto"
    workflow = codex.place.state()["id"]
    delivered(codex.place, codex.stub.after_summing_up(), workflow, "compact")
    (started,) = codex.place.events("workflow_started")
    (briefed,) = codex.place.events("briefing_delivered")
    assert started["data"]["session"]["id"] == briefed["data"]["session"]


def test_briefed_after_compaction_of_a_resumed_session(codex):
    codex.connect()
    workflow = codex.place.holdfast("start", "dev", "docs/login.md", "--task", "One")
    codex.say("Begin. <<say begun>>")
    delivered(codex.place, codex.stub.requests[-1], workflow["workflow"]["id"], "startup")
    codex.go_on("A lot. <<tokens 60000>> <<say much>>")
    codex.place.holdfast("task", "done", "1")
    codex.go_on("Go on. <<say on>>")
    request = codex.stub.after_summing_up()
    delivered(codex.place, request, workflow["workflow"]["id"], "resume")
    assert all("task 1 (One)" not in text for text in briefings(request))


def test_a_huge_workflow_in_any_script_arrives_whole(codex):
    codex.connect()
    words = ["start", "custom", "Huge"]
    for number in range(60):
        words += ["--remind", f"{number}: " + "漢" * 200]
    workflow = codex.place.holdfast(*words)["workflow"]["id"]
    codex.say("Begin. <<say begun>>")
    text = delivered(codex.place, codex.stub.requests[-1], workflow, "startup")
    assert 8_000 < len(text.encode()) < LIMIT
