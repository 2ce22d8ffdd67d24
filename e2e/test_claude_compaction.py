"""Claude Code: whatever becomes of the context, the very next request has the briefing."""

import pytest

from briefings import LIMIT, briefings, delivered
from clients import kill
from directives import START, bash


def begun(client):
    """The id of a workflow that the agent began in its session."""
    client.connect()
    client.say(f"Begin. {bash(START)} <<say begun>>")
    return client.place.state()["id"]


def test_briefed_after_manual_compaction(claude):
    workflow = begun(claude)
    claude.go_on("/compact")
    assert claude.place.events("context_compacted")[-1]["data"]["trigger"] == "manual"
    assert claude.place.events("briefing_delivered")[-1]["data"]["source"] == "compact"
    claude.go_on("Go on. <<say on>>")
    text = delivered(claude.place, claude.stub.after_summing_up(), workflow, "compact")
    assert "NEXT: when load_feature is done, create the branch of this work: holdfast" in text
    assert "Never log a password" in text


def test_briefed_after_manual_compaction_in_the_same_process(claude):
    claude.connect()
    talk = claude.talk()
    talk.say(f"Begin. {bash(START)} <<say begun>>")
    talk.say("/compact")
    talk.say("Go on. <<say on>>")
    workflow = claude.place.state()["id"]
    delivered(claude.place, claude.stub.after_summing_up(), workflow, "compact")
    talk.end()
    assert claude.place.events("session_ended")


def test_briefed_after_automatic_compaction(claude):
    claude.extra = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
    workflow = begun(claude)
    claude.go_on("A lot. <<tokens 99000>> <<say much>>")
    assert not claude.place.events("context_compacted")
    claude.go_on("Go on. <<say on>>")
    assert claude.place.events("context_compacted")[-1]["data"]["trigger"] == "auto"
    delivered(claude.place, claude.stub.after_summing_up(), workflow, "compact")


def test_briefed_after_reactive_compaction(claude):
    workflow = begun(claude)
    claude.go_on("Go on. <<too-long>> <<say on>>")
    assert any(request.reply.is_refused for request in claude.stub.requests)
    assert claude.place.events("context_compacted")[-1]["data"]["trigger"] == "auto"
    delivered(claude.place, claude.stub.after_summing_up(), workflow, "compact")


def test_briefed_after_clear(claude):
    claude.connect()
    talk = claude.talk()
    talk.say(f"Begin. {bash(START)} <<say begun>>")
    talk.say("/clear")
    talk.say("Go on. <<say on>>")
    newest = claude.stub.requests[-1]
    assert "Begin." not in newest.text, "the context was not cleared"
    delivered(claude.place, newest, claude.place.state()["id"], "clear")
    talk.end()


def killed_in_a_turn(claude):
    """A task is done, and the client dies before its model answers."""
    workflow = begun(claude)
    words = ("-p", f"Work. {bash('holdfast task done 1')} <<hang>>", "--continue")
    process = claude.start(*words, *claude.allowed)
    claude.stub.wait_for(1, lambda request: request.reply.hangs)
    kill(process)
    return workflow


def test_briefed_after_a_kill_in_the_middle_of_a_turn(claude):
    workflow = killed_in_a_turn(claude)
    claude.go_on("Go on. <<say on>>")
    text = delivered(claude.place, claude.stub.requests[-1], workflow, "resume")
    assert "TASK 2/3 (2): Ask for a code (pending)" in text


def test_a_new_session_takes_up_what_a_killed_one_left(claude):
    workflow = killed_in_a_turn(claude)
    claude.say("What was I doing? <<say this>>")
    text = delivered(claude.place, claude.stub.requests[-1], workflow, "startup")
    assert "TASK 2/3 (2): Ask for a code (pending)" in text


def test_two_sessions_in_two_worktrees_each_get_their_own(claude):
    clients = {"here": claude, "there": claude.at(claude.place.worktree("linked"))}
    talks = {}
    for name, client in clients.items():
        client.connect()
        talks[name] = client.talk()
        talks[name].say(f"Begin. {bash(f'holdfast start custom {name}')} <<say begun>>")
    for talk in talks.values():
        talk.say("/compact")
    for name, talk in talks.items():
        talk.say("Go on. <<say on>>")
        newest = claude.stub.requests[-1]
        delivered(clients[name].place, newest, name, "compact")
        assert all(f"id {name} " in text for text in briefings(newest))
    for talk in talks.values():
        talk.end()


def test_three_compactions_in_a_row_lose_nothing(claude):
    claude.connect()
    talk = claude.talk()
    talk.say(f"Begin. {bash(START)} <<say begun>>")
    opened = claude.place.state()
    for number, following in ((1, "TASK 2/3 (2)"), (2, "TASK 3/3 (3)"), (3, "All tasks complete")):
        talk.say(f"Work. {bash(f'holdfast task done {number}')} <<say done>>")
        talk.say("/compact")
        talk.say("Go on. <<say on>>")
        text = delivered(claude.place, claude.stub.after_summing_up(), opened["id"], "compact")
        assert following in text
    talk.end()
    assert len(claude.place.events("context_compacted")) == 3
    state = claude.place.state()
    assert (state["created_at"], state["record"]) == (opened["created_at"], opened["record"])


@pytest.mark.parametrize("filling", ["x", "🦊"], ids=["letters", "emoji"])
def test_a_huge_workflow_arrives_whole_and_under_the_limit(claude, filling):
    claude.connect()
    words = ["start", "custom", "Huge"]
    for number in range(60):
        words += ["--remind", f"{number}: " + filling * 400, "--read", f"@docs/{number}.md"]
    workflow = claude.place.holdfast(*words)["workflow"]["id"]
    claude.say("Begin. <<say begun>>")
    claude.go_on("/compact")
    claude.go_on("Go on. <<say on>>")
    for request in (claude.stub.requests[0], claude.stub.after_summing_up()):
        (text,) = set(briefings(request))
        assert 7_500 < len(text.encode()) < LIMIT
        assert "@docs/59.md" in text
        assert "LEFT OUT for its length: " in text
    delivered(claude.place, claude.stub.after_summing_up(), workflow, "compact")
