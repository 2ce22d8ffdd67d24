"""The Memory server: the reference's answers through the protocol, and data that stays."""

import fcntl
import json
import os
import random
import sqlite3
from pathlib import Path

import pytest

from memory_model import Model, NotThere

TALK = Path(__file__).parent.parent / "graph" / "memory-talk.json"
ARGUMENT = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "observations",
    "delete_entities": "entityNames",
    "delete_observations": "deletions",
    "delete_relations": "relations",
    "search_nodes": "query",
    "open_nodes": "names",
}
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


def entity(name, *observations, kind="T"):
    return {"name": name, "entityType": kind, "observations": list(observations)}


def asked(client, tool, argument=None):
    """The whole result of a call."""
    arguments = {ARGUMENT[tool]: argument} if tool in ARGUMENT else {}
    return client.result("tools/call", {"name": tool, "arguments": arguments})


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
def test_generated_calls_are_answered_as_the_model_answers(shop, tally, seed):
    client, model, chance = shop.memory(), Model(), random.Random(seed)
    for _ in range(300):
        tool, argument = a_call(chance)
        assert asked(client, tool, argument) == expected(model, tool, argument), (tool, argument)
    tally("memory server against the model", calls=300)


def test_the_recorded_conversation_gets_the_answers_that_were_recorded(shop):
    client = shop.memory()
    for tool, argument, recorded in json.loads(TALK.read_text("utf-8")):
        result = asked(client, tool, argument)
        if "error" in recorded:
            assert result["content"][0]["text"] == recorded["error"]
        else:
            assert result["structuredContent"] == recorded


def test_wrong_arguments_are_refused_in_the_words_of_the_reference(shop):
    client = shop.memory()
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


def test_ranked_search_is_an_argument_that_nobody_has_to_give(shop):
    client = shop.memory()
    made = [entity("zebra", "the login page"), entity("login page"), entity("page", "login")]
    asked(client, "create_entities", made)
    plain = client.call("search_nodes", query="login page")
    assert [one["name"] for one in plain["entities"]] == ["zebra", "login page"]
    ranked = client.call("search_nodes", query="page login", ranked=True)
    assert [one["name"] for one in ranked["entities"]] == ["login page", "page", "zebra"]
    first = client.call("search_nodes", query="login page", ranked=True, limit=1)
    assert [one["name"] for one in first["entities"]] == ["login page"]


def test_a_subscriber_hears_of_every_change_and_nobody_else_does(shop):
    client = shop.memory()
    asked(client, "create_entities", [entity("a")])
    assert client.heard == []
    client.result("resources/subscribe", {"uri": URI})
    asked(client, "create_entities", [entity("b")])
    asked(client, "read_graph")
    assert [told["params"] for told in client.heard] == [{"uri": URI}]
    client.result("resources/unsubscribe", {"uri": URI})
    asked(client, "delete_entities", ["a"])
    assert len(client.heard) == 1
    (content,) = client.result("resources/read", {"uri": URI})["contents"]
    assert json.loads(content["text"])["entities"] == [entity("b")]


# What was in a file


def jsonl(*entities, relations=()):
    lines = [{"type": "entity", **one} for one in entities]
    lines += [{"type": "relation", **one} for one in relations]
    return "\n".join(json.dumps(line) for line in lines)


def test_a_file_is_taken_over_once_and_never_changed(shop):
    link = {"from": "a", "to": "b", "relationType": "of"}
    text = jsonl(entity("a", "x"), entity("b"), entity("a", "again"), relations=[link])
    path = shop.write("memory.jsonl", text)
    client = shop.memory()
    graph = client.call("read_graph")
    assert graph["entities"] == [entity("a", "x"), entity("b"), entity("a", "again")]
    assert graph["relations"] == [link]
    asked(client, "create_entities", [entity("c")])
    client.close()
    assert path.read_text() == text
    again = shop.memory()
    assert len(again.call("read_graph")["entities"]) == 4
    assert again.err == ""
    path.write_text(jsonl(entity("other")))
    changed = shop.memory()
    assert len(changed.call("read_graph")["entities"]) == 4
    assert "changed since it was taken over" in changed.err


def test_each_path_has_a_graph_of_its_own(shop):
    one, other = shop.memory("one.jsonl"), shop.memory("other.jsonl")
    asked(one, "create_entities", [entity("a")])
    assert other.call("read_graph")["entities"] == []
    assert shop.memory("one.jsonl").call("read_graph")["entities"] == [entity("a")]
    assert (shop.folder / "one.jsonl.db").exists()


def test_a_bad_line_is_reported_and_the_others_are_there(shop):
    bad = '{"type": "entity", "name": 7}\n{torn'
    shop.write("memory.jsonl", f"{jsonl(entity('a'))}\n{bad}\n\n17\n{jsonl(entity('b'))}\n")
    client = shop.memory()
    assert client.call("read_graph")["entities"] == [entity("a"), entity("b")]
    assert [f"line {number}:" in client.err for number in (1, 2, 3, 4, 5, 6)] == [
        False, True, True, False, True, False,
    ]  # fmt: skip


def test_an_export_is_what_the_reference_reads_and_keeps_what_stood_there(shop):
    link = {"from": "a", "to": "b", "relationType": "of"}
    before = jsonl(entity("a"))
    path = shop.write("memory.jsonl", before)
    client = shop.memory()
    asked(client, "create_entities", [entity("b", "ü\n")])
    asked(client, "create_relations", [link])
    told = shop.holdfast("memory", "export", "--file", "memory.jsonl")
    assert (told["ok"], told["entities"], told["relations"]) == (True, 2, 1)
    lines = path.read_text("utf-8").split("\n")
    assert [json.loads(line) for line in lines] == [
        {"type": "entity", **entity("a")},
        {"type": "entity", **entity("b", "ü\n")},
        {"type": "relation", **link},
    ]
    assert Path(told["kept"]).read_text() == before
    again = shop.holdfast("memory", "export", "--file", "memory.jsonl")
    assert (again["kept"], again.get("notes")) == (None, None)
    other = shop.holdfast("memory", "export", "out/x.jsonl", "--file", "memory.jsonl")
    assert Path(other["path"]).read_bytes() == path.read_bytes()
    folder = shop.holdfast("memory", "export", ".", "--file", "memory.jsonl")
    assert folder["error"]["code"] == "in_the_way"


def test_people_search_by_words(shop):
    assert shop.holdfast("memory", "search", "x")["error"]["code"] == "no_memory"
    client = shop.memory()
    asked(client, "create_entities", [entity("Login page", "slow"), entity("b")])
    found = shop.holdfast("memory", "search", "page login", "--file", "memory.jsonl")
    assert [one["name"] for one in found["entities"]] == ["Login page"]


# Several at once, and ends in the middle


def test_pipelined_creates_of_several_processes_all_survive(shop, tally):
    servers = [shop.memory() for _ in range(4)]
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


def test_a_server_killed_in_the_middle_keeps_what_it_acknowledged(shop):
    acknowledged = set()
    for turn in range(6):
        server = shop.memory()
        sent = {}
        for number in range(10):
            name = f"{turn}-{number}"
            params = {"name": "create_entities", "arguments": {"entities": [entity(name, "x")]}}
            sent[server.send("tools/call", params)] = name
        acknowledged |= {sent[server.receive()["id"]] for _ in range(turn)}
        server.kill()
    graph = shop.memory().call("read_graph")["entities"]
    names = [one["name"] for one in graph]
    assert acknowledged <= set(names)
    assert len(names) == len(set(names))
    assert all(one["observations"] == ["x"] for one in graph)


def test_many_servers_take_a_file_over_once(shop):
    shop.write("memory.jsonl", jsonl(*[entity(f"n{number}") for number in range(50)]))
    servers = [shop.memory() for _ in range(6)]
    numbers = [
        server.send("tools/call", {"name": "read_graph", "arguments": {}}) for server in servers
    ]
    for server, number in zip(servers, numbers, strict=True):
        graph = server.answer(number)["result"]["structuredContent"]
        assert len(graph["entities"]) == 50


# Trouble: each call says what it is, and the next one looks again


def test_a_locked_database_is_said_and_works_when_it_is_free(shop):
    client = shop.memory(HOLDFAST_WAIT_MS="50")
    asked(client, "create_entities", [entity("a")])
    holder = os.open(shop.folder / "memory.jsonl.db.lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    told = asked(client, "create_entities", [entity("b")])
    assert (told["isError"], "locked" in told["content"][0]["text"]) == (True, True)
    assert client.call("read_graph")["entities"] == [entity("a")]
    os.close(holder)
    assert asked(client, "create_entities", [entity("b")])["structuredContent"]


def test_a_writer_of_sqlite_itself_is_waited_for_and_named(shop):
    client = shop.memory(HOLDFAST_WAIT_MS="50")
    asked(client, "create_entities", [entity("a")])
    other = sqlite3.connect(shop.folder / "memory.jsonl.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "locked" in asked(client, "create_entities", [entity("b")])["content"][0]["text"]
    other.execute("ROLLBACK")
    other.close()
    assert not asked(client, "create_entities", [entity("b")]).get("isError")


def test_a_damaged_database_is_said_and_left_and_a_new_one_begins_from_the_file(shop):
    shop.write("memory.jsonl", jsonl(entity("a")))
    database = shop.write("memory.jsonl.db", "this is no database, whatever its name may say")
    client = shop.memory()
    told = asked(client, "read_graph")
    assert (told["isError"], "damaged" in told["content"][0]["text"]) == (True, True)
    assert client.ask("resources/read", {"uri": URI})["error"]["data"]["code"] == "graph_damaged"
    assert database.read_text().startswith("this is no database")
    database.rename(shop.folder / "aside")
    assert client.call("read_graph")["entities"] == [entity("a")]


def test_a_database_that_was_taken_away_is_made_anew_from_the_file(shop):
    shop.write("memory.jsonl", jsonl(entity("a")))
    client = shop.memory()
    asked(client, "create_entities", [entity("b")])
    for end in ("", "-wal", "-shm"):
        Path(f"{shop.folder}/memory.jsonl.db{end}").unlink(missing_ok=True)
    assert client.call("read_graph")["entities"] == [entity("a")]


def test_a_file_that_another_process_writes_is_waited_for(shop):
    path = shop.write("memory.jsonl", jsonl(entity("a")))
    client = shop.memory()
    with open(path, "a", encoding="utf-8") as writer:
        told = asked(client, "read_graph")
        assert (told["isError"], "is writing" in told["content"][0]["text"]) == (True, True)
        writer.write(f"\n{jsonl(entity('b'))}")
    assert client.call("read_graph")["entities"] == [entity("a"), entity("b")]


def test_a_database_that_cannot_be_written_is_read_and_said(shop):
    client = shop.memory()
    asked(client, "create_entities", [entity("a")])
    client.close()
    database = shop.folder / "memory.jsonl.db"
    database.chmod(0o400)
    reader = shop.memory(rights=False)
    assert reader.call("read_graph")["entities"] == [entity("a")]
    told = asked(reader, "create_entities", [entity("b")])
    assert (told["isError"], "cannot be written" in told["content"][0]["text"]) == (True, True)
    database.chmod(0o600)
    assert asked(shop.memory(), "create_entities", [entity("b")])["structuredContent"]


def test_a_folder_in_place_of_the_file_is_said(shop):
    (shop.folder / "memory.jsonl").mkdir()
    told = asked(shop.memory(), "read_graph")
    assert "is not a file" in told["content"][0]["text"]


def test_half_a_surrogate_pair_is_refused_and_nothing_of_the_call_is_kept(shop):
    client = shop.memory()
    told = asked(client, "create_entities", [entity("a"), entity("\ud800")])
    assert "surrogate" in told["content"][0]["text"]
    assert client.call("read_graph")["entities"] == []
    assert client.call("search_nodes", query="x")["entities"] == []


def test_without_a_path_the_graph_is_the_persons_own(shop):
    client = shop.server("memory")
    asked(client, "create_entities", [entity("a")])
    home = Path(shop.environment["HOME"])
    assert (home / ".local" / "share" / "holdfast" / "memory.jsonl.db").exists()
    assert client.call("read_graph")["entities"] == [entity("a")]
