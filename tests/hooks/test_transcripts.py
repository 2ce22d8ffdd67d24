"""Gemini CLI never says that it summed up; its transcript does, and the next turn is briefed."""

import json
import os

import pytest

START = {"sessionId": "session-1", "startTime": "2026-01-01T00:00:00.000Z", "kind": "main"}
BEFORE, AFTER = "2026-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000Z"


def message(text):
    return {"id": "1b2c", "timestamp": BEFORE, "type": "user", "content": [{"text": text}]}


def anew(at, *texts):
    return {"$set": {"messages": [message(text) for text in texts], "lastUpdated": at}}


HELLO = (START, anew(BEFORE, "context"), message("hello"), {"$set": {"lastUpdated": BEFORE}})


def turn(client, *lines, raw=None):
    """Whether a turn gets the briefing, when the transcript has these lines."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path = os.path.join(client.path, "transcript.jsonl")
    with open(path, "wb") as file:
        file.write(text.encode() if raw is None else raw)
    return client.fire("BeforeAgent", prompt="go on", transcript_path=path) is not None


@pytest.fixture
def briefed(migration):
    """A session that has had its briefing."""
    assert turn(migration, *HELLO)
    assert not turn(migration, *HELLO)
    return migration


def test_a_conversation_that_was_summed_up_is_briefed_once_more(briefed):
    summed_up = (*HELLO, anew(AFTER, "context", "a summary"))
    assert turn(briefed, *summed_up)
    assert briefed.types().count("briefing_delivered") == 2


@pytest.mark.parametrize(
    "lines",
    [
        (*HELLO, anew(BEFORE, "context", "a summary")),
        (*HELLO, anew(AFTER, "context", "WORKFLOW: x\nid database-migration · recipe custom")),
        (*HELLO, anew(AFTER, "a summary"), message("id database-migration · recipe custom")),
        (*HELLO, START, anew(AFTER, "context")),
        (START, anew(AFTER, "context")),
        (),
    ],
    ids=["before the briefing", "with it", "it came after", "a resumed one", "a new one", "none"],
)
def test_any_other_conversation_has_its_briefing_still(briefed, lines):
    assert not turn(briefed, *lines)


@pytest.mark.parametrize(
    "raw",
    [
        b"\0" * 1_000,
        b'\n{"id":1}\n{"$set":{"messages":[',
        b'\n{"id":1}\n{"$set":{"messages":[{}],"lastUpdated":"',
        b'\n{"id":1}\n{"$set":{"messages":[{}],"lastUpdated":7}}',
        b'\n{"id":1}\n{"$set":{"messages":[{}],"lastUpdated":"\xff\xfe"}}',
        b"[" * 100_000,
    ],
)
def test_a_transcript_that_makes_no_sense_stops_nobody(briefed, raw):
    assert not turn(briefed, raw=raw)
    assert briefed.log() == ""


@pytest.mark.parametrize("path", ["", "/no/such/file", "/", "relative.jsonl", 7, None])
def test_a_transcript_that_is_not_there_stops_nobody(briefed, path):
    assert briefed.fire("BeforeAgent", transcript_path=path) is None
    assert briefed.log() == ""
