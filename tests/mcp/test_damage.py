"""A damaged database is a clear answer: each call says so, the server lives on, and looks again."""

import random
import shutil
import sqlite3

import pytest

from support.memory_calls import ARGUMENT, call_tool, entity
from support.workshop import SEED, sampled

pytestmark = pytest.mark.promise(4)

LINK = {"from": "n1", "to": "n2", "relationType": "of"}
MEMORY_CALLS = [
    ("read_graph", None),
    ("search_nodes", "seen"),
    ("search_nodes", "e"),
    ("open_nodes", ["n1", "n2"]),
    ("create_entities", [entity("new", "x")]),
    ("create_relations", [LINK, {**LINK, "to": "new"}]),
    ("add_observations", [{"entityName": "n3", "contents": ["more"]}]),
    ("delete_observations", [{"entityName": "n4", "observations": ["seen 4"]}]),
    ("delete_relations", [LINK]),
    ("delete_entities", ["n5"]),
]
WORKFLOW_CALLS = [
    ("status", {}),
    ("status", {"show": True}),
    ("resume", {}),
    ("start", {"recipe": "dev", "subject": "other.md"}),
    ("task", {"action": "add", "text": "two"}),
    ("phase", {"action": "advance"}),
    ("gate", {"action": "record", "gate": "code_simplifier", "passed": True}),
    ("note", {"kind": "reminder", "text": "slowly"}),
    ("complete", {}),
]
NEXT = ("mv ", "holdfast repair", "chmod", "install that version", "fix the disk or the file")
"""What an answer says to do: one of these."""


def flip(path, chance):
    raw = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 8, 64])):
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def overwrite_a_page(path, chance):
    raw = bytearray(path.read_bytes())
    page = chance.randrange(len(raw) // 4096) * 4096
    raw[page : page + 4096] = chance.choice([bytes(4096), chance.randbytes(4096)])
    path.write_bytes(raw)


def cut(path, chance):
    raw = path.read_bytes()
    path.write_bytes(raw[: chance.randrange(1, len(raw))])


def replace_by_folder(path, _chance):
    path.unlink()
    path.mkdir()


def make_newer(path, _chance):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


CERTAIN = {
    "empty": lambda path, _: path.write_bytes(b""),
    "text": lambda path, _: path.write_text("this is no database" * 500),
    "folder": replace_by_folder,
    "newer": make_newer,
    "other": lambda path, _: (path.unlink(), sqlite3.connect(path).execute("CREATE TABLE t (a)")),
}
"""Damage that every call must notice."""
CHANCES = [(kind, seed) for kind in (flip, overwrite_a_page, cut) for seed in sampled(range(40), 4)]


def content_of(path):
    return path.read_bytes() if path.is_file() else None


def remove(path):
    for end in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


class Damaged:
    """A database that was closed, is damaged in some way, and can be put right again."""

    def __init__(self, path):
        self.path = path
        self.good = path.with_name("good-copy")
        for end in ("-wal", "-shm"):
            assert not path.with_name(path.name + end).exists()
        shutil.copy(path, self.good)

    def put_right(self):
        remove(self.path)
        shutil.copy(self.good, self.path)


def is_clear(text, path):
    """An answer that names the file and the next step, and shows nothing of the program."""
    assert "Traceback" not in text, text
    assert "bug" not in text, text
    return str(path) in text and any(part in text for part in NEXT)


# The Memory server


@pytest.fixture
def damaged_graph(served):
    client = served.memory()
    entities = [entity(f"n{number}", f"seen {number}", "Ü" * number) for number in range(60)]
    call_tool(client, "create_entities", entities)
    call_tool(client, "create_relations", [LINK])
    client.close()
    path = served.folder / "memory.jsonl.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return Damaged(path)


def say_all(client, path, *, is_certain):
    for tool, argument in MEMORY_CALLS:
        result = call_tool(client, tool, argument)
        text = result["content"][0]["text"]
        if result.get("isError") and not text.startswith("Entity with name"):
            assert is_clear(text, path), text
        else:
            assert not is_certain, (tool, text)
        assert client.result("ping") == {}


@pytest.mark.parametrize("with_file", [False, True], ids=["alone", "with a file"])
@pytest.mark.parametrize("kind", CERTAIN)
def test_every_call_to_a_graph_that_is_none_says_so(served, damaged_graph, kind, with_file):
    path = damaged_graph.path
    file = served.folder / "memory.jsonl"
    if with_file:
        assert served.holdfast("memory", "export", "--file", "memory.jsonl")["ok"]
        shutil.copy(path, damaged_graph.good)
    written = content_of(file)
    CERTAIN[kind](path, None)
    before = content_of(path)
    client = served.memory()
    say_all(client, path, is_certain=True)
    assert content_of(path) == before
    assert content_of(file) == written
    assert "Traceback" not in client.err
    damaged_graph.put_right()
    assert len(client.call("read_graph")["entities"]) == 60
    call_tool(client, "create_entities", [entity("new")])
    assert len(client.call("read_graph")["entities"]) == 61


@pytest.mark.parametrize(("kind", "seed"), CHANCES)
def test_damage_anywhere_in_a_graph_is_a_clear_answer_or_none(served, damaged_graph, kind, seed):
    kind(damaged_graph.path, random.Random(f"{SEED}-{seed}"))
    client = served.memory()
    say_all(client, damaged_graph.path, is_certain=False)
    assert "Traceback" not in client.err
    damaged_graph.put_right()
    assert len(client.call("read_graph")["entities"]) == 60


def test_a_graph_that_may_not_be_read_is_said_with_the_way_out(served, damaged_graph):
    damaged_graph.path.chmod(0o000)
    client = served.memory(rights=False)
    say_all(client, damaged_graph.path, is_certain=True)
    damaged_graph.path.chmod(0o600)
    assert len(client.call("read_graph")["entities"]) == 60


def test_a_damaged_graph_does_not_replace_its_file(served, damaged_graph):
    """A page that is lost takes entities with it; the file still has them."""
    assert served.holdfast("memory", "export", "--file", "memory.jsonl")["ok"]
    file = served.folder / "memory.jsonl"
    written = file.read_bytes()
    raw = bytearray(damaged_graph.path.read_bytes())
    found = raw.index(b"seen 30") // 4096 * 4096
    raw[found : found + 4096] = bytes(4096)
    damaged_graph.path.write_bytes(raw)
    client = served.memory()
    result = call_tool(client, "create_entities", [entity("new")])
    assert is_clear(result["content"][0]["text"], damaged_graph.path)
    client.close()
    assert file.read_bytes() == written
    damaged_graph.path.rename(served.folder / "aside")
    assert len(served.memory().call("read_graph")["entities"]) == 60


def test_all_tools_are_called():
    assert {tool for tool, _ in MEMORY_CALLS} == {*ARGUMENT, "read_graph"}


# The server of workflows


@pytest.fixture
def damaged_ledger(served):
    served.holdfast("start", "dev", "a.md", "--task", "one")
    path = served.folder / ".git" / "holdfast" / "ledger.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return Damaged(path)


def call_all(client, path, *, is_certain):
    for tool, arguments in WORKFLOW_CALLS:
        response = client.ask("tools/call", {"name": tool, "arguments": arguments})
        result = response.get("result")
        assert result is not None, (tool, response)
        if result.get("isError"):
            error = result["structuredContent"]["error"]
            assert error["code"] != "bug", error
            assert error["hint"], error
            if is_certain:
                text = f"{error['message']}; {error['hint']}"
                assert is_clear(text, path), error
        else:
            assert not is_certain, (tool, result)
        assert client.result("ping") == {}


@pytest.mark.parametrize("kind", sorted(CERTAIN.keys() - {"newer"}))
def test_every_call_to_a_ledger_that_is_none_says_so(served, damaged_ledger, kind):
    path = damaged_ledger.path
    CERTAIN[kind](path, None)
    before = content_of(path)
    client = served.server()
    call_all(client, path, is_certain=True)
    assert content_of(path) == before
    assert "Traceback" not in client.err
    damaged_ledger.put_right()
    assert client.call("task", action="add", text="again")["ok"]


def test_a_newer_ledger_is_read_and_every_change_of_it_is_refused(served, damaged_ledger):
    make_newer(damaged_ledger.path, None)
    client = served.server()
    assert client.call("status")["workflows"]
    refused = client.refused("task", action="add", text="two")["structuredContent"]["error"]
    assert (refused["code"], str(damaged_ledger.path) in refused["message"]) == (
        "newer_ledger",
        True,
    )


@pytest.mark.parametrize(("kind", "seed"), CHANCES)
def test_damage_anywhere_in_a_ledger_is_a_clear_answer_or_none(served, damaged_ledger, kind, seed):
    kind(damaged_ledger.path, random.Random(f"{SEED}-{seed}"))
    client = served.server()
    call_all(client, damaged_ledger.path, is_certain=False)
    assert "Traceback" not in client.err
    damaged_ledger.put_right()
    assert client.call("status")["workflows"]
