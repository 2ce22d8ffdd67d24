"""The Memory server: the reference's answers through the protocol, and data that stays."""

import json
import random
from pathlib import Path

import pytest

from support.memory_calls import call_tool, entity, jsonl
from support.memory_model import Model, NotThere

pytestmark = pytest.mark.promise(1, 6)

TALK = Path(__file__).parents[1] / "layers" / "graph" / "memory-talk.json"
DONE = {
    "delete_entities": "Entities deleted successfully",
    "delete_observations": "Observations deleted successfully",
    "delete_relations": "Relations deleted successfully",
}
RESULT = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "results",
}
NAMES = ["a", "A", "b", "Ab c", "Straße", "", "日本語", 'q"uote']
TEXTS = [*NAMES, "one", "One two", "%_\\", "a\0b", "😀😃", "tab\t", "\n", "\u2028"]
THREE = """\
Invalid input: expected string, received number at entities[0].name
Invalid input: expected string, received null at entities[0].entityType
Invalid input: expected array, received undefined at entities[0].observations"""
URI = "memory://knowledge-graph"


def expected(model, tool, argument=None):
    """The same from the model, in the form that the reference gives it."""
    try:
        made = getattr(model, tool)(*(() if tool == "read_graph" else (argument,)))
    except NotThere as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    if tool in DONE:
        text, structure = DONE[tool], {"success": True, "message": DONE[tool]}
    else:
        text = json.dumps(made, indent=2, ensure_ascii=False)
        structure = {RESULT[tool]: made} if tool in RESULT else made
    return {"content": [{"type": "text", "text": text}], "structuredContent": structure}


def a_call(chance):
    def some(make, most=3):
        return [make() for _ in range(chance.randrange(most + 1))]

    def text():
        return chance.choice(TEXTS)

    def name():
        return chance.choice(NAMES)

    def relation():
        return {"from": name(), "to": name(), "relationType": chance.choice("xy")}

    calls = {
        "create_entities": lambda: some(lambda: entity(name(), *some(text), kind=text())),
        "create_relations": lambda: some(relation),
        "add_observations": lambda: some(lambda: {"entityName": name(), "contents": some(text)}, 2),
        "delete_entities": lambda: some(name, 1),
        "delete_observations": lambda: some(
            lambda: {"entityName": name(), "observations": some(text)}
        ),
        "delete_relations": lambda: some(relation),
        "read_graph": lambda: None,
        "search_nodes": text,
        "open_nodes": lambda: some(name),
    }
    tool = chance.choice([*calls, "create_entities", "create_relations"])
    return tool, calls[tool]()


@pytest.mark.parametrize("seed", range(3))
def test_generated_calls_are_answered_as_the_model_answers(served, tally, seed):
    client, model, chance = served.memory(), Model(), random.Random(seed)
    for _ in range(300):
        tool, argument = a_call(chance)
        assert call_tool(client, tool, argument) == expected(model, tool, argument), (
            tool,
            argument,
        )
    tally("memory server against the model", calls=300)


def test_the_recorded_conversation_gets_the_answers_that_were_recorded(served):
    client = served.memory()
    for tool, argument, recorded in json.loads(TALK.read_text("utf-8")):
        result = call_tool(client, tool, argument)
        if "error" in recorded:
            assert result["content"][0]["text"] == recorded["error"]
        else:
            assert result["structuredContent"] == recorded


def test_wrong_arguments_are_refused_in_the_words_of_the_reference(served):
    client = served.memory()
    begin = "MCP error -32602: Input validation error: Invalid arguments for tool"
    for tool, arguments, said in [
        ("search_nodes", {}, "Invalid input: expected string, received undefined at query"),
        ("open_nodes", {"names": ["a", None]},
         "Invalid input: expected string, received null at names[1]"),
        ("create_entities", {"entities": [{"name": 1, "entityType": None}]}, THREE),
        ("create_entities", {"entities": [True]},
         "Invalid input: expected object, received boolean at entities[0]"),
    ]:  # fmt: skip
        told = client.refused(tool, **arguments)
        assert told["content"][0]["text"] == f"{begin} {tool}: {said}"
    told = client.refused("nosuch")
    assert told["content"][0]["text"] == "MCP error -32602: Tool nosuch not found"
    told = client.ask("resources/read", {"uri": "memory://x"})
    assert told["error"]["message"] == "MCP error -32602: Resource memory://x not found"


def test_ranked_search_is_an_argument_that_nobody_has_to_give(served):
    client = served.memory()
    made = [entity("zebra", "the login page"), entity("login page"), entity("page", "login")]
    call_tool(client, "create_entities", made)
    plain = client.call("search_nodes", query="login page")
    assert [one["name"] for one in plain["entities"]] == ["zebra", "login page"]
    ranked = client.call("search_nodes", query="page login", ranked=True)
    assert [one["name"] for one in ranked["entities"]] == ["login page", "page", "zebra"]
    first = client.call("search_nodes", query="login page", ranked=True, limit=1)
    assert [one["name"] for one in first["entities"]] == ["login page"]


def test_subscriptions_are_limited_in_number_and_length(served):
    client = served.memory()
    for number in range(1_000):
        client.result("resources/subscribe", {"uri": f"memory://{number}"})
    client.result("resources/subscribe", {"uri": "memory://999"})
    for uri in ("memory://1000", "x" * 2_001):
        error = client.ask("resources/subscribe", {"uri": uri})["error"]
        assert "at most 1000 subscriptions are kept" in error["message"]
    client.result("resources/unsubscribe", {"uri": "memory://0"})
    client.result("resources/subscribe", {"uri": "memory://1000"})


def test_a_subscriber_hears_of_every_change_and_nobody_else_does(served):
    client = served.memory()
    call_tool(client, "create_entities", [entity("a")])
    assert client.heard == []
    client.result("resources/subscribe", {"uri": URI})
    call_tool(client, "create_entities", [entity("b")])
    call_tool(client, "read_graph")
    assert [told["params"] for told in client.heard] == [{"uri": URI}]
    client.result("resources/unsubscribe", {"uri": URI})
    call_tool(client, "delete_entities", ["a"])
    assert len(client.heard) == 1
    (content,) = client.result("resources/read", {"uri": URI})["contents"]
    assert json.loads(content["text"])["entities"] == [entity("b")]


# Several at once, and ends in the middle


def test_pipelined_creates_of_several_processes_all_survive(served, tally):
    servers = [served.memory() for _ in range(4)]
    waiting = []
    for number in range(25):
        for place, server in enumerate(servers):
            arguments = {"entities": [entity(f"{place}-{number}")]}
            params = {"name": "create_entities", "arguments": arguments}
            waiting.append((server, server.send("tools/call", params)))
    for server, number in waiting:
        assert server.answer(number)["result"]["structuredContent"]["entities"]
    names = {one["name"] for one in servers[0].call("read_graph")["entities"]}
    tally("creates of four Memory servers", acknowledged=len(waiting), kept=len(names))
    assert len(names) == len(waiting) == 100


def test_a_server_killed_in_the_middle_keeps_what_it_acknowledged(served):
    acknowledged = set()
    for turn in range(6):
        server = served.memory()
        sent = {}
        for number in range(10):
            name = f"{turn}-{number}"
            params = {"name": "create_entities", "arguments": {"entities": [entity(name, "x")]}}
            sent[server.send("tools/call", params)] = name
        acknowledged |= {sent[server.receive()["id"]] for _ in range(turn)}
        server.kill()
    graph = served.memory().call("read_graph")["entities"]
    names = [one["name"] for one in graph]
    assert acknowledged <= set(names)
    assert len(names) == len(set(names))
    assert all(one["observations"] == ["x"] for one in graph)


def test_many_servers_take_a_file_over_once(served):
    served.write("memory.jsonl", jsonl(*[entity(f"n{number}") for number in range(50)]))
    servers = [served.memory() for _ in range(6)]
    numbers = [
        server.send("tools/call", {"name": "read_graph", "arguments": {}}) for server in servers
    ]
    for server, number in zip(servers, numbers, strict=True):
        graph = server.answer(number)["result"]["structuredContent"]
        assert len(graph["entities"]) == 50
