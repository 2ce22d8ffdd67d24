"""The skills of ``holdfast init``: each client offers them to its model, and fills in the words."""

import json

OFFERED = "Takes a feature file, or a folder of them, to a pull request"


def offered(client):
    client.own()  # Its own settings come first: ``init`` adds to them.
    client.place.holdfast("init", "--agent", client.name)
    client.say("Begin. <<say begun>>")
    return OFFERED in json.dumps(client.stub.requests[-1].body)


def test_the_skills_of_the_project_are_offered_and_one_is_called(claude):
    assert offered(claude)
    claude.go_on("/holdfast-dev docs/login.md <<say on>>")
    assert "FEATURE: docs/login.md" in json.dumps(claude.stub.requests[-1].body)


def test_the_skills_of_the_project_are_offered(codex):
    assert offered(codex)


def test_the_skills_are_offered(gemini):
    assert offered(gemini)
