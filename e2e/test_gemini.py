"""Gemini CLI: the briefing in the request of the next turn, once in a session."""

from briefings import briefings, delivered
from directives import START, call


def test_briefed_at_the_start_of_a_session(gemini):
    gemini.connect()
    workflow = gemini.place.holdfast("start", "dev", "docs/login.md", "--task", "One")
    gemini.say("Begin. <<say begun>>")
    (request,) = gemini.stub.requests
    delivered(gemini.place, request, workflow["workflow"]["id"], "startup")
    assert len(briefings(request)) == 1
    gemini.go_on("Go on. <<say on>>")
    delivered(gemini.place, gemini.stub.requests[-1], workflow["workflow"]["id"], "startup")


def test_briefed_in_the_turn_after_automatic_compression(gemini):
    gemini.connect()
    workflow = gemini.place.holdfast("start", "dev", "docs/login.md", "--task", "One")
    talk = gemini.talk()
    talk.say("Begin. <<say begun>>")
    talk.say("A lot. <<tokens 900000>> <<say much>>")
    # In this turn it is summed up, and no hook hears of that before the next one begins.
    talk.say("Go on. <<say on>>")
    assert not briefings(gemini.stub.after_summing_up())
    for _ in range(2):
        talk.say("Go on. <<say on>>")
        assert len(briefings(gemini.stub.requests[-1])) == 1
    delivered(gemini.place, gemini.stub.requests[-1], workflow["workflow"]["id"], "turn")
    assert len(gemini.place.events("briefing_delivered")) == 2


def test_briefed_in_the_next_turn_and_only_there(gemini):
    gemini.connect()
    talk = gemini.talk()
    talk.say(f"Begin. {call('run_shell_command', command=START)} <<say begun>>")
    assert not briefings(gemini.stub.requests[-1])
    for _ in range(3):
        talk.say("Go on. <<say on>>")
        assert len(briefings(gemini.stub.requests[-1])) == 1
    workflow = gemini.place.state()["id"]
    delivered(gemini.place, gemini.stub.requests[-1], workflow, "turn")
    assert len(gemini.place.events("briefing_delivered")) == 1


def test_an_agent_that_stops_too_early_is_sent_back_once(gemini):
    gemini.connect("--enforce")
    gemini.place.write(".claude/holdfast.toml", 'enforce = ["stop"]\n')
    gemini.place.holdfast("start", "dev", "a.md", "--task", "One")
    gemini.say("Work. <<say done>>")
    told = [request.text.count("still needs task 1") for request in gemini.stub.requests]
    assert told[0] == 0
    assert [count > 0 for count in told].count(True) == 1
