"""A database that is damaged, locked, read-only, foreign or newer: said, and never deleted."""

import os
import sqlite3
import subprocess
import sys

import pytest

from holdfast.errors import Fault, Refused
from holdfast.layers.graph import store as graph_store
from holdfast.layers.graph.store import GraphStore
from support.memory_calls import entity
from support.paths import SOURCE

pytestmark = pytest.mark.promise(4, 5)


def filled(path, number=300):
    with GraphStore(path) as store:
        store.create_entities([entity(f"n{one}", f"the text {one} " * 9) for one in range(number)])


def content(path):
    with open(path, "rb") as file:
        return file.read()


def overwrite(path, data):
    with open(path, "wb") as file:
        file.write(data)


def said(fault):
    assert fault.message
    assert fault.hint
    return fault.code


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 4096, b"not a database " * 400, b"SQLite format 3\0"]
)
def test_a_file_that_is_no_graph_is_named_and_left_as_it_is(path, data):
    overwrite(path, data)
    with pytest.raises(Fault) as caught:
        GraphStore(path)
    assert said(caught.value) == "graph_damaged"
    assert path in caught.value.message
    assert content(path) == data


def test_another_programs_database_is_left_as_it_is(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = content(path)
    with pytest.raises(Fault, match="not a graph that Holdfast made"):
        GraphStore(path)
    assert content(path) == before


def test_a_newer_graph_is_left_to_the_newer_holdfast(path):
    filled(path, 1)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {graph_store.VERSION + 1}")
    connection.close()
    with pytest.raises(Fault) as caught:
        GraphStore(path)
    assert said(caught.value) == "newer_graph"


@pytest.mark.parametrize("start", [0, 100, 4096, 8192, 20_000])
def test_pages_that_were_overwritten_are_damage_or_harmless_never_a_crash(path, start, tally):
    filled(path)
    data = bytearray(content(path))
    data[start : start + 4_000] = b"\xa5" * 4_000
    overwrite(path, bytes(data))
    codes = []
    calls = [
        lambda store: store.read_graph(),
        lambda store: store.search_nodes("the text 7"),
        lambda store: store.create_entities([entity("new", "x")]),
        lambda store: store.delete_entities([f"n{one}" for one in range(300)]),
    ]
    for call in calls:
        try:
            with GraphStore(path) as store:
                call(store)
        except Fault as fault:
            codes.append(said(fault))
    assert set(codes) <= {"graph_damaged", "storage"}
    tally("graph damage", tried=len(calls), named=len(codes))


def test_a_graph_that_another_program_has_locked_is_busy(path):
    filled(path, 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with GraphStore(path, wait_s=0.05) as store:
            with pytest.raises(Fault) as caught:
                store.create_entities([entity("b")])
            assert said(caught.value) == "busy"
            assert caught.value.details == {"path": path}
            assert [one["name"] for one in store.read_graph()["entities"]] == ["n0"]
    finally:
        other.close()


def test_a_writer_that_is_in_its_turn_is_waited_for_and_then_named(path):
    filled(path, 1)
    with GraphStore(path) as one, GraphStore(path, wait_s=0) as other:
        with one.writing():
            with pytest.raises(Fault) as caught:
                other.create_entities([entity("b")])
            assert said(caught.value) == "busy"
        other.create_entities([entity("b")])
        assert len(one.read_graph()["entities"]) == 2


WITHOUT_RIGHTS = """\
import ctypes, sys
for right in (1, 2):
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
from holdfast.errors import Fault
from holdfast.layers.graph.store import GraphStore
with GraphStore(sys.argv[1]) as store:
    print(len(store.search_nodes("n")["entities"]), store.is_read_only)
    try:
        store.create_entities([{"name": "x", "entityType": "", "observations": []}])
    except Fault as fault:
        print(fault.code, fault.hint)
"""


@pytest.mark.parametrize("what", ["folder", "file", "both"])
def test_a_graph_that_cannot_be_written_is_still_read(path, what):
    filled(path, 3)
    folder = os.path.dirname(path)
    places = {"folder": [folder], "file": [path], "both": [path, folder]}[what]
    modes = {place: os.stat(place).st_mode & 0o777 for place in places}
    for place in places:
        os.chmod(place, modes[place] & 0o555)
    launcher = (
        "import ctypes, os, sys\n"
        "[ctypes.CDLL(None).prctl(24, right, 0, 0, 0) for right in (1, 2)]\n"
        "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1], sys.argv[2]])"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", launcher, WITHOUT_RIGHTS, path],
            env={**os.environ, "PYTHONPATH": SOURCE},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for place, mode in modes.items():
            os.chmod(place, mode)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "3 True"
    assert second.startswith("not_written make room")


def test_a_folder_that_is_not_there_is_a_fault(tmp_path):
    with pytest.raises(Fault) as caught:
        GraphStore(str(tmp_path / "none" / "graph.db"))
    assert said(caught.value) == "not_written"


def test_a_link_is_not_followed(path, tmp_path):
    os.symlink(tmp_path / "elsewhere.db", path)
    with pytest.raises(Refused) as caught:
        GraphStore(path)
    assert caught.value.code == "outside"
    assert not os.path.exists(tmp_path / "elsewhere.db")


def test_without_shared_memory_the_older_journal_serves(path):
    filled(path, 2)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode = delete").fetchone() == ("delete",)
    connection.close()
    with GraphStore(path) as one, GraphStore(path) as other:
        one.create_entities([entity("b")])
        other.create_entities([entity("c")])
        assert [n["name"] for n in one.read_graph()["entities"]] == ["n0", "n1", "b", "c"]
    assert not os.path.exists(f"{path}-wal")


def test_a_graph_that_was_put_anew_in_its_place_is_opened_anew(path):
    filled(path, 1)
    with GraphStore(path) as store:
        for end in ("", "-wal", "-shm"):
            os.rename(path + end, f"{path}.aside{end}")
        filled(path, 2)
        assert len(store.read_graph()["entities"]) == 2
        store.create_entities([entity("b")])
    with GraphStore(path) as again:
        assert len(again.read_graph()["entities"]) == 3


def test_a_graph_that_was_deleted_begins_anew(path):
    filled(path, 2)
    with GraphStore(path, wait_s=0) as store:
        os.unlink(path)
        store.create_entities([entity("b")])
        assert [one["name"] for one in store.read_graph()["entities"]] == ["b"]


def test_a_journal_without_its_database_is_not_played_into_a_new_one(path):
    with GraphStore(path) as store:
        store.create_entities([entity(f"n{one}", "text " * 50) for one in range(200)])
        journal = content(f"{path}-wal")
        os.unlink(path)
    overwrite(f"{path}-wal", journal)
    with GraphStore(path) as store:
        assert store.read_graph()["entities"] == []
        store.create_entities([entity("b")])
        assert store.rows("PRAGMA integrity_check") == [("ok",)]
    assert content(f"{path}.orphan-wal") == journal


WITHOUT_ROOM = """\
import resource, sys
from holdfast.errors import Fault
from holdfast.layers.graph.store import GraphStore

def entity(name, text):
    return {"name": name, "entityType": "T", "observations": [text]}

with GraphStore(sys.argv[1]) as store:
    store.create_entities([entity("before", "x")])
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
    codes = set()
    for number in range(200):
        try:
            store.create_entities([entity(f"n{number}", f"text {number} " * 2_000)])
        except Fault as fault:
            codes.add(fault.code)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    kept = len(store.read_graph()["entities"])
    store.create_entities([entity("after", "y")])
    sound = store.rows("PRAGMA integrity_check")
    print(sorted(codes), 1 < kept < 201, len(store.read_graph()["entities"]) - kept, sound)
"""


def test_without_room_nothing_of_a_call_is_kept_and_with_room_it_goes_on(path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROOM, path],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes, sound = done.stdout.split("] ", 1)
    assert sound == "True 1 [('ok',)]\n"
    assert codes.strip("[") in ("'not_written'", "'storage'", "'not_written', 'storage'")


def test_a_sqlite_that_cannot_search_is_said(path, monkeypatch):
    schema = graph_store.SCHEMA.replace("'trigram case_sensitive 1'", "'none'")
    monkeypatch.setattr(graph_store, "SCHEMA", schema)
    with pytest.raises(Fault) as caught:
        GraphStore(path)
    assert "FTS5 with trigrams" in caught.value.hint
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entities SET name = x'ff00' WHERE id = 1",
        "UPDATE observations SET text = x'00' WHERE id = 1",
        "UPDATE observations SET entity = 99 WHERE id = 1",
        "UPDATE relations SET target = x'00'",
        "UPDATE entities SET type = CAST(x'ff' AS TEXT) WHERE id = 1",
    ],
)
def test_rows_that_no_writer_made_are_damage(store, path, statement):
    store.create_entities([{"name": "a", "entityType": "T", "observations": ["x"]}])
    store.create_relations([{"from": "a", "to": "a", "relationType": "of"}])
    store.rows(statement)
    with pytest.raises(Fault) as caught:
        store.read_graph()
    assert caught.value.code == "graph_damaged"
    assert path in caught.value.message
