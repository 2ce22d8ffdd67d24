"""A conversation with the real server, recorded with its answers: the store gives the same ones.

``make e2e`` holds the recording against the server itself.
"""

import json
from pathlib import Path

from holdfast.errors import Refused

TALK = json.loads((Path(__file__).parent / "memory-talk.json").read_text("utf-8"))
WRAPPED = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "results",
}


def test_the_store_answers_as_the_real_server_did(store):
    for tool, argument, recorded in TALK:
        try:
            made = getattr(store, tool)(*(() if argument is None else (argument,)))
        except Refused as refused:
            assert recorded == {"error": refused.message}, (tool, argument)
            continue
        if made is None:
            assert recorded["success"], (tool, argument)
        else:
            answer = {WRAPPED[tool]: made} if tool in WRAPPED else made
            assert answer == recorded, (tool, argument)


def test_the_recording_has_every_tool():
    assert len({tool for tool, _, _ in TALK}) == 9
