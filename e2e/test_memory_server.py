"""The real Memory server beside ``holdfast mcp memory``: the same lines in, the same lines out.

What differs is listed here, with the reason; where theirs is a defect, with its issue number.
"""

import json
import random
import subprocess

import pytest

from conftest import CLIENT
from install import pinned
from place import HOLDFAST
from reference import PACKAGE, Server, parameters, reference, told, why_unavailable
from test_memory import TALK, a_call

ROUNDS, CALLS = 8, 400
URI = "memory://knowledge-graph"
WRONG = [
    ("create_entities", {}),
    ("create_entities", {"entities": "x"}),
    ("create_entities", {"entities": None}),
    ("create_entities", {"entities": [1, {"name": 1, "entityType": None}]}),
    ("create_entities", {"entities": [{"name": "a", "entityType": "T", "observations": [1, {}]}]}),
    ("create_entities", {"entities": [], "more": 1}),
    ("create_relations", {"relations": [{"from": "a"}]}),
    ("add_observations", {"observations": [{"entityName": "zz", "contents": []}]}),
    ("add_observations", {"observations": [{"entityName": "a", "contents": "x"}]}),
    ("delete_entities", {"entityNames": [True, 1.5, []]}),
    ("search_nodes", {"query": 3}),
    ("open_nodes", {"names": [1, "a", None]}),
    ("nosuch", {}),
]


def ours(path):
    return Server([str(HOLDFAST / "holdfast"), "mcp", "memory"], {"MEMORY_FILE_PATH": str(path)})


@pytest.fixture
def both(tmp_path, record_property):
    record_property(CLIENT, f"memory {pinned()[PACKAGE]}")
    why = why_unavailable()
    if why:
        pytest.skip(why)
    servers = reference(tmp_path / "theirs.jsonl"), ours(tmp_path / "ours.jsonl")
    yield servers
    for server in servers:
        server.close()


def results(servers, tool, arguments):
    """What each answers: content, structure and whether it is an error."""
    params = {"name": tool, "arguments": arguments}
    return [server.request("tools/call", params)["result"] for server in servers]


def test_the_tools_are_the_same_but_for_two_arguments_of_ours(both):
    theirs, own = (server.request("tools/list", {})["result"]["tools"] for server in both)
    search = next(tool for tool in own if tool["name"] == "search_nodes")
    for name in ("ranked", "limit"):
        del search["inputSchema"]["properties"][name]
    assert own == theirs


def test_the_resource_is_the_same(both):
    lists = [server.request("resources/list", {})["result"] for server in both]
    assert lists[0] == lists[1]
    for uri in (URI, "memory://x"):
        texts = [server.request("resources/read", {"uri": uri}) for server in both]
        assert {**texts[0], "id": 0} == {**texts[1], "id": 0}


def test_a_subscriber_hears_the_same_in_the_same_order(both):
    heard = []
    for server in both:
        server.request("resources/subscribe", {"uri": URI})
        server.send("tools/call", parameters("create_entities", []))
        lines = [server.receive(), server.receive()]
        heard.append([(line.get("method"), line.get("params")) for line in lines])
    assert heard[0] == heard[1]


def test_the_recorded_conversation_has_the_same_answers_to_the_letter(both):
    talk = json.loads(TALK.read_text("utf-8"))
    for tool, argument, recorded in talk:
        theirs, own = results(both, tool, parameters(tool, argument)["arguments"])
        assert own == theirs, (tool, argument)
        assert told({"result": own}) == recorded
    print(f"recorded conversation: {len(talk)} calls, no difference")


def test_wrong_calls_are_refused_in_the_same_words(both):
    for tool, arguments in WRONG:
        theirs, own = results(both, tool, arguments)
        assert own == theirs, (tool, arguments)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_thousands_of_generated_calls_have_the_same_answers_to_the_letter(both, seed):
    chance = random.Random(1_000 + seed)
    for number in range(CALLS):
        tool, argument = a_call(chance)
        theirs, own = results(both, tool, parameters(tool, argument)["arguments"])
        assert own == theirs, (seed, number, tool, argument)


def test_a_file_of_the_reference_is_taken_over_and_an_export_is_read_by_it(tmp_path, both):
    theirs, _ = both
    chance = random.Random(7)
    for _ in range(60):
        tool, argument = a_call(chance)
        theirs.call(tool, argument)
    file = tmp_path / "theirs.jsonl"
    before = file.read_bytes()
    copy = ours(file)
    assert copy.call("read_graph") == theirs.call("read_graph")
    copy.close()
    assert file.read_bytes() == before
    target = tmp_path / "exported.jsonl"
    words = [HOLDFAST / "holdfast", "memory", "export", target, "--file", file]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    again = reference(target)
    assert again.call("read_graph") == theirs.call("read_graph")
    again.close()
    assert target.read_bytes() == before


# What is lost, side by side


def an_entity(name):
    return [{"name": name, "entityType": "T", "observations": ["x" * 200]}]


def survivors(make, path, processes, each):
    """Pipelined creates of several processes on one file: acknowledged, and kept."""
    servers = [make(path) for _ in range(processes)]
    for number in range(each):
        for place, server in enumerate(servers):
            entities = an_entity(f"{place}-{number}")
            server.send("tools/call", parameters("create_entities", entities))
    acknowledged = sum(
        "entities" in told(server.receive()) for server in servers for _ in range(each)
    )
    kept = len(servers[0].call("read_graph")["entities"])
    for server in servers:
        server.close()
    return acknowledged, kept


@pytest.mark.parametrize("processes", [1, 4])
def test_parallel_creates_survive_here_and_not_there(tmp_path, both, processes):
    """Issues 1819, 2577, 4797: acknowledged, and overwritten by the next one."""
    del both
    each = 100 // processes
    theirs = survivors(reference, tmp_path / "t.jsonl", processes, each)
    own = survivors(ours, tmp_path / "o.jsonl", processes, each)
    print(f"{processes} processes: theirs {theirs}, ours {own} (acknowledged, kept)")
    assert own == (100, 100)
    assert theirs[1] < 100, "the server keeps them now: take the difference off the list"


@pytest.mark.parametrize("make", [reference, ours], ids=["theirs", "ours"])
def test_a_kill_in_the_middle_of_a_save(tmp_path, both, make):
    """Neither loses what it acknowledged one by one; what was on its way is whole or not there."""
    del both
    path = tmp_path / "killed.jsonl"
    acknowledged = set()
    for turn in range(10):
        server = make(path)
        for number in range(turn):
            server.call("create_entities", an_entity(f"{turn}-{number}"))
            acknowledged.add(f"{turn}-{number}")
        server.send("tools/call", parameters("create_entities", an_entity(f"{turn}-last")))
        server.kill()
    server = make(path)
    found = server.call("read_graph")["entities"]
    server.close()
    lost = acknowledged - {one["name"] for one in found}
    print(f"killed ten times: {len(acknowledged)} acknowledged, {len(lost)} lost")
    assert not lost
    assert all(one["observations"] == ["x" * 200] for one in found)
    left = sorted(name.name for name in tmp_path.iterdir() if name.name.endswith(".tmp"))
    print(f"left behind: {left}")


def test_one_bad_line_breaks_every_call_there_and_is_left_out_here(tmp_path, both):
    del both
    lines = [{"type": "entity", "name": n, "entityType": "T", "observations": []} for n in "ab"]
    text = f"{json.dumps(lines[0])}\n{{torn\n{json.dumps(lines[1])}"
    (tmp_path / "bad.jsonl").write_text(text)
    (tmp_path / "bad2.jsonl").write_text(text)
    theirs, own = reference(tmp_path / "bad.jsonl"), ours(tmp_path / "bad2.jsonl")
    assert "error" in theirs.call("read_graph")
    assert [one["name"] for one in own.call("read_graph")["entities"]] == ["a", "b"]
    theirs.close()
    own.close()


def test_half_a_surrogate_pair_is_kept_there_and_refused_here(both):
    theirs, own = both
    given = [{"name": "a", "entityType": "T", "observations": ["\ud800"]}]
    assert theirs.call("create_entities", given) == {"entities": given}
    assert "surrogate" in own.call("create_entities", given)["error"]
