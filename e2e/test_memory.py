"""The real Memory server beside our graph: the same calls, the same answers.

Where the two differ the server has a known defect, and the number of its issue is given.
"""

import json
import random
import subprocess
from pathlib import Path

import pytest
from holdfast.layers.graph.store import GraphStore, folded

from conftest import CLIENT
from install import node, pinned
from place import Place
from reference import (
    PACKAGE,
    answer_of,
    command,
    parameters,
    reference,
    told,
    why_unavailable,
)

TALK = Path(__file__).resolve().parent.parent / "tests" / "layers" / "graph" / "memory-talk.json"
ROUNDS, CALLS = 12, 400
NAMES = ["a", "A", "b", "Ab c", "Straße", "ΣΑΣ", "", "日本語", "e\u0301", "x" * 50]
TEXTS = [*NAMES, "one", "One two", "THREE", 'q"uote', "%_\\", "a\0b", "😀😃", "İ", "tab\t", "\n"]
TYPES = ["Note", "note", "Person", ""]
LETTERS = """
const found = [];
for (let code = 0; code < 0x110000; code++) {
  if (code >= 0xd800 && code < 0xe000) continue;
  const letter = String.fromCodePoint(code);
  found.push(letter.toLowerCase());
}
console.log(JSON.stringify(found));
"""


@pytest.fixture
def both(tmp_path, record_property):
    record_property(CLIENT, f"memory {pinned()[PACKAGE]}")
    why = why_unavailable()
    if why:
        pytest.skip(why)
    server = reference(tmp_path / "theirs.jsonl")
    with GraphStore(str(tmp_path / "ours.db")) as store:
        yield server, store
    server.close()


def test_a_recorded_conversation_gets_the_answers_that_were_recorded(both):
    server, store = both
    for tool, argument, recorded in json.loads(TALK.read_text("utf-8")):
        assert server.call(tool, argument) == recorded, (tool, argument)
        assert answer_of(store, tool, argument) == recorded, (tool, argument)


def an_entity(chance):
    return {
        "name": chance.choice(NAMES),
        "entityType": chance.choice(TYPES),
        "observations": chance.choices(TEXTS, k=chance.randrange(4)),
    }


def a_relation(chance):
    return {
        "from": chance.choice(NAMES),
        "to": chance.choice(NAMES),
        "relationType": chance.choice(["knows", "of"]),
    }


def a_few(chance, make, most=3):
    return [make(chance) for _ in range(chance.randrange(most + 1))]


def a_call(chance):
    """Any call; those that make something come more often than those that remove."""

    def named(key):
        return lambda chance: {
            "entityName": chance.choice(NAMES),
            key: chance.choices(TEXTS, k=chance.randrange(4)),
        }

    calls = {
        "create_entities": (3, lambda: a_few(chance, an_entity)),
        "create_relations": (2, lambda: a_few(chance, a_relation)),
        "add_observations": (3, lambda: a_few(chance, named("contents"), 2)),
        "delete_entities": (1, lambda: chance.choices(NAMES, k=chance.randrange(2))),
        "delete_observations": (1, lambda: a_few(chance, named("observations"), 2)),
        "delete_relations": (1, lambda: a_few(chance, a_relation, 2)),
        "read_graph": (1, lambda: None),
        "search_nodes": (3, lambda: a_query(chance)),
        "open_nodes": (2, lambda: chance.choices(NAMES, k=chance.randrange(4))),
    }
    tool = chance.choices(list(calls), weights=[weight for weight, _ in calls.values()])[0]
    return tool, calls[tool][1]()


def a_query(chance):
    text = chance.choice(TEXTS)
    start = chance.randrange(len(text) + 1)
    part = text[start : start + chance.randrange(1, 6)]
    return chance.choice([part, part.upper(), part.swapcase(), text])


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_thousands_of_generated_calls_are_answered_alike(both, seed):
    server, store = both
    chance = random.Random(seed)
    for number in range(CALLS):
        tool, argument = a_call(chance)
        theirs, ours = server.call(tool, argument), answer_of(store, tool, argument)
        assert ours == theirs, (seed, number, tool, argument)


@pytest.mark.usefixtures("both")
def test_every_letter_has_the_same_lower_case():
    run = [node() / "node", "-e", LETTERS]
    done = subprocess.run(run, capture_output=True, check=True)
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    theirs = json.loads(done.stdout)
    assert [hex(c) for c, lower in zip(codes, theirs, strict=True) if folded(chr(c)) != lower] == []


def test_pipelined_creates_survive_here_and_not_there(both):
    """Issues 1819, 2577, 4797: the server acknowledges them all, and keeps a few."""
    server, store = both
    made = [[{"name": f"n{number}", "entityType": "T", "observations": []}] for number in range(20)]
    for entities in made:
        server.send("tools/call", parameters("create_entities", entities))
    acknowledged = [told(server.receive()) for _ in made]
    assert len(acknowledged) == 20
    kept = len(server.call("read_graph")["entities"])
    for entities in made:
        store.create_entities(entities)
    print(f"of 20 acknowledged entities the server has {kept}, the store 20")
    assert len(store.read_graph()["entities"]) == 20
    assert kept < 20, "the server keeps them now: take the difference off the list"


def test_one_bad_line_breaks_every_call_there(both, tmp_path):
    """The file is the server's only copy; our store has no such line."""
    server, _ = both
    (tmp_path / "theirs.jsonl").write_text("{not json\n")
    assert "error" in server.call("read_graph")


def test_half_a_surrogate_pair_is_kept_there_and_refused_here(both):
    server, store = both
    given = [{"name": "a", "entityType": "T", "observations": ["\ud800"]}]
    assert server.call("create_entities", given) == {"entities": given}
    assert "surrogate" in answer_of(store, "create_entities", given)["error"]


@pytest.mark.usefixtures("both")
def test_sync_keeps_the_real_server_up_to_date(tmp_path):
    folder = tmp_path / "place"
    folder.mkdir()
    place = Place(folder)
    place.variables["HOLDFAST_BACKGROUND"] = "off"  # Else a change delivers by itself.
    memory = folder / "memory.jsonl"
    told_of = {
        "command": command()[0],
        "args": command()[1:],
        "env": {"MEMORY_FILE_PATH": str(memory)},
    }
    place.write(".mcp.json", json.dumps({"mcpServers": {"memory": told_of}}))
    place.write(".claude/holdfast.toml", 'graph = "mcp:memory"\n')
    place.holdfast("start", "apex", "a login page")
    refused = place.run("holdfast", "sync", "--json", check=False)
    assert json.loads(refused.stdout)["layers"][-1]["error"]["code"] == "untrusted"
    assert not memory.exists()
    trusted = place.home / ".config" / "holdfast"
    trusted.mkdir(parents=True)
    (trusted / "config.toml").write_text(f'[trust]\nfolders = ["{place.path}"]\n')
    row = place.holdfast("sync")["layers"][-1]
    assert (row["target"], row["status"], row["entities"]) == ("mcp:memory", "delivered", 1)
    place.holdfast("advance")
    assert place.holdfast("sync")["layers"][-1]["entities"] == 1
    assert place.holdfast("sync", "--everything")["layers"][-1]["entities"] == 0
    (line,) = memory.read_text("utf-8").splitlines()
    entity = json.loads(line)
    assert (entity["name"], entity["entityType"]) == ("workflow-state", "WorkflowState")
    assert entity["observations"][:3] == ["type: APEX", "phase: plan", "phase_index: 2/5"]
    assert len(entity["observations"]) == 6
