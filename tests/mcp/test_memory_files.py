"""The Memory server and its files: what it takes over, exports, and says when it cannot."""

import fcntl
import json
import os
import select
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from support.memory_calls import call_tool, entity, jsonl

URI = "memory://knowledge-graph"


def held(path):
    """The graph of a file."""
    graph = {"entities": [], "relations": []}
    for line in path.read_text("utf-8").split("\n"):
        fields = json.loads(line)
        graph["entities" if fields.pop("type") == "entity" else "relations"].append(fields)
    return graph


def names(graph):
    return [one["name"] for one in graph["entities"]]


# What was in a file


def test_a_file_is_taken_over_and_kept_up_to_date(served):
    link = {"from": "a", "to": "b", "relationType": "of"}
    text = jsonl(entity("a", "x"), entity("b"), entity("a", "again"), relations=[link])
    path = served.write("memory.jsonl", text)
    client = served.memory()
    graph = client.call("read_graph")
    assert graph["entities"] == [entity("a", "x"), entity("b"), entity("a", "again")]
    assert graph["relations"] == [link]
    assert path.read_text() == text
    call_tool(client, "create_entities", [entity("c")])
    assert held(path) == client.call("read_graph")
    assert client.err == ""
    path.write_text(f"{path.read_text()}\n{jsonl(entity('other'))}")
    assert len(client.call("read_graph")["entities"]) == 5
    client.close()
    assert len(served.memory().call("read_graph")["entities"]) == 5


def test_a_file_is_written_where_it_is_asked_for(served):
    client = served.memory()
    call_tool(client, "create_entities", [entity("a")])
    path = served.folder / "memory.jsonl"
    assert not path.exists()
    asked = served.server("memory", "--jsonl", MEMORY_FILE_PATH=str(path))
    call_tool(asked, "create_entities", [entity("b")])
    assert held(path)["entities"] == [entity("a"), entity("b")]
    call_tool(client, "create_entities", [entity("c")])
    assert held(path)["entities"] == [entity("a"), entity("b"), entity("c")]


@pytest.mark.parametrize("ending", ["close", "SIGTERM", "SIGINT", "SIGKILL"])
def test_what_was_acknowledged_is_in_a_long_file_however_the_server_ends(served, ending):
    path = served.write("memory.jsonl", jsonl(entity("long", "x" * 300_000)))
    client = served.memory()
    for number in range(5):
        call_tool(client, "create_entities", [entity(f"n{number}")])
    if ending != "close":
        client.process.send_signal(getattr(signal, ending))
    client.close()
    if ending == "SIGKILL":
        served.memory().initialize()  # A start is enough; it needs no call.
    assert names(held(path)) == ["long", *(f"n{number}" for number in range(5))]


def test_a_long_file_is_written_while_the_client_is_silent(served):
    path = served.write("memory.jsonl", jsonl(entity("long", "x" * 300_000)))
    client = served.memory()
    for number in range(3):
        call_tool(client, "create_entities", [entity(f"n{number}")])
    until = time.monotonic() + 60
    while names(held(path)) != ["long", "n0", "n1", "n2"] and time.monotonic() < until:
        select.select([], [], [], 0.01)
    assert names(held(path)) == ["long", "n0", "n1", "n2"]


def test_each_path_has_a_graph_of_its_own(served):
    one, other = served.memory("one.jsonl"), served.memory("other.jsonl")
    call_tool(one, "create_entities", [entity("a")])
    assert other.call("read_graph")["entities"] == []
    assert served.memory("one.jsonl").call("read_graph")["entities"] == [entity("a")]
    assert (served.folder / "one.jsonl.db").exists()


def test_a_bad_line_is_reported_and_the_others_are_there(served):
    bad = '{"type": "entity", "name": 7}\n{torn'
    served.write("memory.jsonl", f"{jsonl(entity('a'))}\n{bad}\n\n17\n{jsonl(entity('b'))}\n")
    client = served.memory()
    assert client.call("read_graph")["entities"] == [entity("a"), entity("b")]
    assert [f"line {number}:" in client.err for number in (1, 2, 3, 4, 5, 6)] == [
        False, True, True, False, True, False,
    ]  # fmt: skip


def test_of_many_bad_lines_the_first_are_named_and_the_others_counted(served):
    served.write("memory.jsonl", "{torn\n" * 1_000 + jsonl(entity("a")))
    client = served.memory()
    assert client.call("read_graph")["entities"] == [entity("a")]
    assert "line 20:" in client.err
    assert "980 more lines" in client.err
    assert len(client.err.splitlines()) == 22
    assert (served.folder / "memory.jsonl.kept").read_text() == "{torn\n"


@pytest.mark.parametrize(
    "made",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n") + b"\r\n",
        lambda text: b"\n\n" + text + b"\n \n",
    ],
    ids=["mark", "returns", "empty lines"],
)
def test_a_file_that_another_editor_saved_is_the_same_graph(served, made):
    raw = made(jsonl(entity("a", "ü"), entity("b")).encode())
    (served.folder / "memory.jsonl").write_bytes(raw)
    client = served.memory()
    assert client.call("read_graph")["entities"] == [entity("a", "ü"), entity("b")]
    assert client.err == ""


def test_an_export_is_what_the_reference_reads_and_keeps_what_stood_there(served):
    link = {"from": "a", "to": "b", "relationType": "of"}
    client = served.memory()
    call_tool(client, "create_entities", [entity("a"), entity("b", "ü\n")])
    call_tool(client, "create_relations", [link])
    path = served.folder / "memory.jsonl"
    told = served.holdfast("memory", "export", "--file", "memory.jsonl")
    assert (told["ok"], told["entities"], told["relations"]) == (True, 2, 1)
    lines = path.read_text("utf-8").split("\n")
    assert [json.loads(line) for line in lines] == [
        {"type": "entity", **entity("a")},
        {"type": "entity", **entity("b", "ü\n")},
        {"type": "relation", **link},
    ]
    again = served.holdfast("memory", "export", "--file", "memory.jsonl")
    assert (again["kept"], again.get("notes")) == (None, None)
    served.write("out.jsonl", "mine")
    other = served.holdfast("memory", "export", "out.jsonl", "--file", "memory.jsonl")
    assert Path(other["path"]).read_bytes() == path.read_bytes()
    assert Path(other["kept"]).read_text() == "mine"
    folder = served.holdfast("memory", "export", ".", "--file", "memory.jsonl")
    assert folder["error"]["code"] == "in_the_way"


def test_an_export_takes_in_what_another_program_wrote(served):
    path = served.write("memory.jsonl", jsonl(entity("a")))
    client = served.memory()
    call_tool(client, "create_entities", [entity("b")])
    client.close()
    path.write_text(f"{path.read_text()}\n{jsonl(entity('theirs'))}")
    told = served.holdfast("memory", "export", "--file", "memory.jsonl")
    assert told["entities"] == 3
    assert names(held(path)) == ["a", "b", "theirs"]


def test_people_search_by_words(served):
    assert served.holdfast("memory", "search", "x")["error"]["code"] == "no_memory"
    client = served.memory()
    call_tool(client, "create_entities", [entity("Login page", "slow"), entity("b")])
    found = served.holdfast("memory", "search", "page login", "--file", "memory.jsonl")
    assert [one["name"] for one in found["entities"]] == ["Login page"]


# Trouble: each call says what it is, and the next one looks again


def test_a_locked_database_is_said_and_works_when_it_is_free(served):
    client = served.memory(HOLDFAST_WAIT_MS="50")
    call_tool(client, "create_entities", [entity("a")])
    holder = os.open(served.folder / "memory.jsonl.db.lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    told = call_tool(client, "create_entities", [entity("b")])
    assert (told["isError"], "locked" in told["content"][0]["text"]) == (True, True)
    assert client.call("read_graph")["entities"] == [entity("a")]
    os.close(holder)
    assert call_tool(client, "create_entities", [entity("b")])["structuredContent"]


def test_a_writer_of_sqlite_itself_is_waited_for_and_named(served):
    client = served.memory(HOLDFAST_WAIT_MS="50")
    call_tool(client, "create_entities", [entity("a")])
    other = sqlite3.connect(served.folder / "memory.jsonl.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "locked" in call_tool(client, "create_entities", [entity("b")])["content"][0]["text"]
    other.execute("ROLLBACK")
    other.close()
    assert not call_tool(client, "create_entities", [entity("b")]).get("isError")


def test_a_damaged_database_is_said_and_left_and_a_new_one_begins_from_the_file(served):
    served.write("memory.jsonl", jsonl(entity("a")))
    database = served.write("memory.jsonl.db", "this is no database, whatever its name may say")
    client = served.memory()
    told = call_tool(client, "read_graph")
    assert (told["isError"], "damaged" in told["content"][0]["text"]) == (True, True)
    assert client.ask("resources/read", {"uri": URI})["error"]["data"]["code"] == "graph_damaged"
    assert database.read_text().startswith("this is no database")
    database.rename(served.folder / "aside")
    assert client.call("read_graph")["entities"] == [entity("a")]


def test_a_database_that_was_taken_away_is_made_anew_from_the_file(served):
    served.write("memory.jsonl", jsonl(entity("a")))
    client = served.memory()
    call_tool(client, "create_entities", [entity("b")])
    for end in ("", "-wal", "-shm"):
        Path(f"{served.folder}/memory.jsonl.db{end}").unlink(missing_ok=True)
    assert client.call("read_graph")["entities"] == [entity("a"), entity("b")]


def test_a_file_that_another_process_writes_is_waited_for(served):
    path = served.write("memory.jsonl", jsonl(entity("a")))
    client = served.memory()
    with open(path, "a", encoding="utf-8") as writer:
        told = call_tool(client, "read_graph")
        assert (told["isError"], "is writing" in told["content"][0]["text"]) == (True, True)
        writer.write(f"\n{jsonl(entity('b'))}")
    assert client.call("read_graph")["entities"] == [entity("a"), entity("b")]


def test_a_database_that_cannot_be_written_is_read_and_said(served):
    client = served.memory()
    call_tool(client, "create_entities", [entity("a")])
    client.close()
    database = served.folder / "memory.jsonl.db"
    database.chmod(0o400)
    reader = served.memory(rights=False)
    assert reader.call("read_graph")["entities"] == [entity("a")]
    told = call_tool(reader, "create_entities", [entity("b")])
    assert (told["isError"], "cannot be written" in told["content"][0]["text"]) == (True, True)
    database.chmod(0o600)
    assert call_tool(served.memory(), "create_entities", [entity("b")])["structuredContent"]


def test_a_file_in_a_folder_that_cannot_be_written_is_read_until_it_can(served):
    path = served.write("sealed/memory.jsonl", jsonl(entity("a", "x")))
    path.parent.chmod(0o555)
    reader = served.memory("sealed/memory.jsonl", rights=False)
    for tool, argument in [("read_graph", None), ("search_nodes", "X"), ("open_nodes", ["a"])]:
        found = call_tool(reader, tool, argument)["structuredContent"]
        assert found["entities"] == [entity("a", "x")]
    told = call_tool(reader, "create_entities", [entity("b")])
    assert (told["isError"], "cannot be written" in told["content"][0]["text"]) == (True, True)
    assert reader.err.count("is served read-only") == 1
    path.write_text(jsonl(entity("a", "x"), entity("c")))
    assert len(reader.call("read_graph")["entities"]) == 2
    none = served.memory("sealed/none.jsonl", rights=False)
    assert "cannot be written" in call_tool(none, "read_graph")["content"][0]["text"]
    path.parent.chmod(0o777)
    assert call_tool(reader, "create_entities", [entity("b")])["structuredContent"]
    assert len(reader.call("read_graph")["entities"]) == 3
    assert names(held(path)) == ["a", "c", "b"]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_said_and_nothing_is_made_beside_it(served, make):
    make(served.folder / "memory.jsonl")
    told = call_tool(served.memory(), "read_graph")
    assert "is not a file" in told["content"][0]["text"]
    assert [path.name for path in served.folder.glob("memory*")] == ["memory.jsonl"]


ODD = "%20#?&=+ü'\n\\.jsonl"


def test_a_path_may_have_any_name(served):
    path = served.write(ODD, jsonl(entity("a")))
    assert call_tool(served.memory(ODD), "create_entities", [entity("b")])["structuredContent"]
    assert len(served.memory(ODD).call("read_graph")["entities"]) == 2
    assert {one.name for one in served.folder.glob("%*")} >= {path.name, f"{path.name}.db"}


@pytest.mark.parametrize(("named", "place"), [("~/m.jsonl", "../home"), ("sub/m.jsonl", "sub")])
def test_a_path_may_begin_at_home_or_in_the_project(served, named, place):
    client = served.server("memory", MEMORY_FILE_PATH=named)
    call_tool(client, "create_entities", [entity("a")])
    assert (served.folder / place / "m.jsonl.db").is_file()


def test_half_a_surrogate_pair_is_refused_and_nothing_of_the_call_is_kept(served):
    client = served.memory()
    told = call_tool(client, "create_entities", [entity("a"), entity("\ud800")])
    assert "surrogate" in told["content"][0]["text"]
    assert client.call("read_graph")["entities"] == []
    assert client.call("search_nodes", query="x")["entities"] == []


def test_without_a_path_the_graph_is_the_persons_own(served):
    client = served.server("memory")
    call_tool(client, "create_entities", [entity("a")])
    home = Path(served.environment["HOME"])
    assert (home / ".local" / "share" / "holdfast" / "memory.jsonl.db").exists()
    assert client.call("read_graph")["entities"] == [entity("a")]
