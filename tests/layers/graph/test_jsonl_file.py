"""The JSONL file of a memory graph: kept up to date, and read again when another program wrote it.

The other program is the reference's model over the file: it reads all of it, changes it, and writes
all of it.
"""

import json
import os
import random
import signal
import sys
from contextlib import ExitStack, contextmanager

import pytest

from holdfast.layers.graph import memory_graph
from holdfast.layers.graph.jsonl import entity_line, parse, relation_line, render
from holdfast.layers.graph.memory_graph import MemoryGraph
from holdfast.layers.graph.store import GraphStore
from holdfast.system.disk import Disk
from support.memory_calls import entity, jsonl
from support.memory_model import Model, NotThere
from support.workshop import sampled

pytestmark = pytest.mark.promise(1, 9)

LINK = {"from": "a", "to": "b", "relationType": "of"}
LONG_AGO = 3_600


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.jsonl"


@pytest.fixture
def opened(path, time):
    """Open the graph as one process of several."""
    graphs = []

    def open_graph(**options):
        graphs.append(MemoryGraph(str(path), clock=time, timer=time, wait_s=5, **options))
        return graphs[-1]

    yield open_graph
    for graph in graphs:
        graph.close()


@pytest.fixture
def put_off(monkeypatch):
    """Every file counts as long: it is written later."""
    monkeypatch.setattr(memory_graph, "_MAX_QUICK_BYTES", -1)


def change(graph, call, argument):
    """Make a call as the server does; return its result."""
    result = getattr(graph.store(), call)(argument)
    graph.note_change()
    return result


def create(graph, *entities):
    return change(graph, "create_entities", list(entities))


def content(path):
    return parse(path.read_bytes()).graph


def kept_lines(path):
    return path.with_name(f"{path.name}.kept").read_text().splitlines()


def names(graph):
    return [one["name"] for one in graph["entities"]]


@contextmanager
def other_program(path, *, is_atomic=True):
    """The reference server's way: read everything, let the test change it, write everything."""
    model = Model()
    if path.exists():
        held = content(path)
        model.entities, model.relations = held["entities"], held["relations"]
    yield model
    raw = render(model.read_graph())
    if is_atomic:
        spare = path.with_suffix(".theirs")
        spare.write_bytes(raw)
        spare.replace(path)
    else:
        path.write_bytes(raw)


# Written


def test_every_change_is_in_the_file_before_it_is_acknowledged(opened, path):
    graph = opened(keep_file=True)
    create(graph, entity("a", "x", "ü\u2028"), entity("b"))
    change(graph, "create_relations", [LINK])
    assert path.read_text("utf-8").split("\n") == [
        '{"type":"entity","name":"a","entityType":"T","observations":["x","ü\u2028"]}',
        '{"type":"entity","name":"b","entityType":"T","observations":[]}',
        '{"type":"relation","from":"a","to":"b","relationType":"of"}',
    ]
    change(graph, "delete_entities", ["a"])
    assert content(path) == {"entities": [entity("b")], "relations": []}


def test_without_a_file_none_is_written_until_there_is_one(opened, path):
    graph = opened()
    create(graph, entity("a"))
    assert not path.exists()
    path.write_text(jsonl(entity("b")))
    create(graph, entity("c"))
    assert sorted(names(content(path))) == ["a", "b", "c"]
    assert sorted(names(graph.store().read_graph())) == ["a", "b", "c"]


def test_a_graph_that_is_asked_for_its_file_later_writes_all_of_it(opened, path):
    create(opened(), entity("a", "x"))
    opened(keep_file=True).store()
    assert content(path)["entities"] == [entity("a", "x")]


def test_a_file_that_was_removed_is_left_alone_until_something_changes(opened, path):
    graph = opened(keep_file=True)
    create(graph, entity("a"))
    path.unlink()
    assert names(graph.store().read_graph()) == ["a"]
    assert not path.exists()
    create(graph, entity("b"))
    assert names(content(path)) == ["a", "b"]


def test_a_file_that_was_moved_away_is_not_written_by_the_next_process(opened, path):
    create(opened(keep_file=True), entity("a"))
    path.rename(path.with_suffix(".away"))
    graph = opened()
    create(graph, entity("b"))
    assert not path.exists()
    with GraphStore(graph.database) as store:
        assert store.rows("SELECT * FROM changes") == []


def test_a_long_file_is_written_later_and_not_more_often_than_said(opened, path, time, put_off):
    graph = opened(keep_file=True)
    create(graph, entity("a"))
    time.now += 1
    assert graph.do_due_work() is None
    assert names(content(path)) == ["a"]
    create(graph, entity("b"))
    assert names(content(path)) == ["a"]
    wait_s = graph.do_due_work()
    assert 0 < wait_s <= 1
    time.now += wait_s
    assert graph.do_due_work() is None
    assert names(content(path)) == ["a", "b"]
    create(graph, entity("c"))
    graph.close()
    assert names(content(path)) == ["a", "b", "c"]


def test_what_a_killed_process_did_not_write_the_next_one_writes(opened, path, time, put_off):
    graph = opened(keep_file=True)
    create(graph, entity("a"), entity("old"))
    time.now += 1
    graph.do_due_work()
    create(graph, entity("b"))
    change(graph, "delete_entities", ["old"])
    graph._store.close()  # The process is gone; nothing wrote the file.
    graph._store = None
    assert names(content(path)) == ["a", "old"]
    opened().store()
    assert names(content(path)) == ["a", "b"]


def test_an_earlier_versions_database_is_written_to_its_file_and_that_is_kept(opened, path):
    path.write_text(jsonl(entity("a")))
    graph = opened()
    graph.store()
    stat = path.stat()
    with GraphStore(graph.database) as store:
        store.forget_changes()
        store.rows("DROP TABLE changes")
        store.rows("PRAGMA user_version = 1")
        store.set_marks(imported=json.dumps({"seen": [stat.st_size, stat.st_mtime_ns]}))
        store.create_entities([entity("b")])
        store.delete_entities(["a"])
    opened().store()
    assert names(content(path)) == ["b"]
    (copy,) = path.parent.glob("memory.jsonl.before-*")
    assert copy.read_text() == jsonl(entity("a"))


# Trouble with the file fails no call


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_file_that_cannot_be_written_is_noted_once_and_written_when_it_can(
    opened, path, time, make
):
    graph = opened(keep_file=True)
    create(graph, entity("a"))
    path.unlink()
    make(path)
    graph.notes.clear()
    create(graph, entity("b"))
    create(graph, entity("c"))
    assert len([note for note in graph.notes if "not up to date" in note]) == 1
    assert names(graph.store().read_graph()) == ["a", "b", "c"]
    path.rmdir() if path.is_dir() else path.unlink()
    time.now += 10
    assert graph.do_due_work() is None
    assert names(content(path)) == ["a", "b", "c"]


def test_a_graph_that_is_too_large_for_a_file_is_said_and_kept(opened, path, monkeypatch):
    from holdfast.layers.graph import jsonl_file

    graph = opened(keep_file=True)
    create(graph, entity("a"))
    monkeypatch.setattr(jsonl_file, "MAX_FILE_BYTES", 100)
    create(graph, entity("b", "x" * 100))
    assert "at most 100 are written" in graph.notes[-1]
    assert names(content(path)) == ["a"]
    assert names(graph.store().read_graph()) == ["a", "b"]


# Read again


def test_what_another_program_wrote_is_in_the_next_answer(opened, path, time):
    graph = opened(keep_file=True)
    create(graph, entity("a", "x", "y"), entity("b"), entity("c"))
    change(graph, "create_relations", [LINK])
    time.now += LONG_AGO
    create(graph, entity("d"))
    time.now += LONG_AGO
    with other_program(path) as other:
        other.delete_entities(["b"])
        other.delete_observations([{"entityName": "a", "observations": ["x"]}])
        other.add_observations([{"entityName": "c", "contents": ["new"]}])
        other.create_entities([entity("e")])
    expected = [entity("a", "y"), entity("c", "new"), entity("d"), entity("e")]
    assert graph.store().read_graph() == {"entities": expected, "relations": []}
    assert graph.store().search_nodes("new")["entities"] == [entity("c", "new")]
    assert graph.store().search_nodes("x")["entities"] == []
    create(graph, entity("f"))
    assert content(path)["entities"] == [*expected, entity("f")]
    assert [json.loads(line) for line in kept_lines(path)] == [
        {"type": "entity", **entity("a", "x")},
        {"type": "entity", **entity("b")},
        {"type": "relation", **LINK},
    ]


def test_an_edit_in_place_of_the_same_length_is_not_overwritten(opened, path, time):
    graph = opened(keep_file=True)
    create(graph, entity("a", "old"))
    time.now += LONG_AGO
    before = path.stat()
    path.write_text(path.read_text().replace("old", "new"))
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    create(graph, entity("b"))
    assert content(path)["entities"] == [entity("a", "new"), entity("b")]


def test_another_order_is_taken_over(opened, path):
    graph = opened(keep_file=True)
    create(graph, *map(entity, "abcd"))
    path.write_bytes(b"\n".join(reversed(path.read_bytes().split(b"\n"))))
    assert names(graph.store().read_graph()) == ["d", "c", "b", "a"]


def test_a_writer_that_had_read_the_file_before_deletes_nothing(opened, path):
    graph = opened(keep_file=True)
    create(graph, entity("a"))
    with other_program(path) as other:
        other.create_entities([entity("theirs")])
        create(graph, entity("ours", "x"))
        change(graph, "add_observations", [{"entityName": "a", "contents": ["y"]}])
    assert sorted(names(graph.store().read_graph())) == ["a", "ours", "theirs"]
    graph.store()
    assert content(path) == graph.store().read_graph()
    assert graph.store().open_nodes(["a", "ours"])["entities"] == [
        entity("a", "y"),
        entity("ours", "x"),
    ]


def test_a_program_that_read_the_file_while_it_was_replaced_deletes_nothing(
    opened, path, monkeypatch
):
    """For a moment the file is without what a third program saved just before."""
    graph = opened(keep_file=True)
    create(graph, entity("a"))
    exchange, late = Disk.exchange, ExitStack()
    readers = []

    def exchange_in_a_crowd(disk, spare, target):
        if readers:
            return exchange(disk, spare, target)
        with other_program(path) as first:
            first.create_entities([entity("first")])
        assert exchange(disk, spare, target)
        readers.append(late.enter_context(other_program(path)))
        return True

    monkeypatch.setattr(Disk, "exchange", exchange_in_a_crowd)
    create(graph, entity("ours"))
    readers[0].create_entities([entity("second")])
    late.close()
    assert sorted(names(graph.store().read_graph())) == ["a", "first", "ours", "second"]
    assert sorted(one.name for one in path.parent.glob("*.found-*")) == []


def test_lines_that_are_appended_behind_the_last_one_are_taken_in(opened, path):
    """Neither the reference server nor Holdfast ends the last line, so two stand on one line."""
    graph = opened(keep_file=True)
    create(graph, entity("a"))
    with path.open("a") as file:
        file.write(f"{entity_line(entity('b', 'x}{y'))}\n{relation_line(LINK)}\n")
    expected = {"entities": [entity("a"), entity("b", "x}{y")], "relations": [LINK]}
    assert graph.store().read_graph() == expected
    create(graph, entity("c"))
    assert content(path)["entities"] == [*expected["entities"], entity("c")]
    assert not path.with_name(f"{path.name}.kept").exists()


def test_changes_of_both_that_were_put_off_are_both_there(opened, path, time, put_off):
    graph = opened(keep_file=True)
    create(graph, entity("a"), entity("b", "old"), entity("c"))
    graph.close()
    graph = opened()
    time.now += LONG_AGO
    store = graph.store()
    store.create_entities([entity("a"), entity("ours")])
    store.delete_entities(["c"])
    graph.note_change()
    with other_program(path) as other:
        other.create_entities([entity("theirs")])
        other.delete_observations([{"entityName": "b", "observations": ["old"]}])
    graph.close()
    assert content(path)["entities"] == [
        entity("a"), entity("b"), entity("theirs"), entity("ours"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "spoiled",
    [b"", b"\n", b"\0" * 80, None],
    ids=["empty", "blank", "zeros", "torn"],
)
def test_a_file_whose_writer_was_stopped_deletes_nothing(opened, path, time, spoiled):
    graph = opened(keep_file=True)
    create(graph, entity("a", "x"), entity("b"))
    time.now += LONG_AGO
    create(graph, entity("c"))
    time.now += LONG_AGO
    whole = content(path)
    path.write_bytes(path.read_bytes()[:-80] if spoiled is None else spoiled)
    assert graph.store().read_graph() == whole
    assert content(path) == whole


def test_lines_that_the_graph_does_not_hold_are_kept_and_said(opened, path):
    more = '{"type":"entity","name":"c","entityType":"T","observations":[],"since":1999}'
    odd = '{"type":"_aim","source":"elsewhere"}'
    half = '{"type":"entity","name":"\\ud800","entityType":"T","observations":[]}'
    path.write_text("\n".join([jsonl(entity("a")), "{torn", odd, half, more, jsonl(entity("b"))]))
    graph = opened()
    assert names(graph.store().read_graph()) == ["a", "c", "b"]
    assert ["line 2" in graph.notes[0], "line 3" in graph.notes[1], "line 4" in graph.notes[2]]
    assert "{torn" in path.read_text()
    create(graph, entity("d"))
    assert names(content(path)) == ["a", "c", "b", "d"]
    assert "{torn" not in path.read_text()
    assert kept_lines(path) == ["{torn", odd, half, more]
    path.write_text(f"{path.read_text()}\n{{torn")
    graph.store()
    create(graph, entity("e"))
    assert len(kept_lines(path)) == 4


@pytest.mark.parametrize("asked", [False, True])
def test_a_document_is_not_taken_for_the_file_of_a_memory(opened, path, asked):
    """A wrong path in a setting must cost nobody a README."""
    path.write_text("# A project\n\nIts text.\n")
    graph = opened(keep_file=asked)
    create(graph, entity("a"))
    graph.close()
    again = opened(keep_file=asked)
    create(again, entity("b"))
    assert path.read_text() == "# A project\n\nIts text.\n"
    assert names(again.store().read_graph()) == ["a", "b"]
    assert not path.with_name("memory.jsonl.kept").exists()
    path.write_text(jsonl(entity("c")))
    assert names(again.store().read_graph()) == ["c", "a", "b"]


# Both directions, at random


def a_call(chance):
    name, text = chance.choice("abcd"), chance.choice("xyz")
    relation = {"from": name, "to": chance.choice("abcd"), "relationType": "of"}
    return chance.choice(
        [
            ("create_entities", [entity(name, text)]),
            ("create_entities", [entity(name, text), entity(name), entity(text)]),
            ("create_relations", [relation]),
            ("add_observations", [{"entityName": name, "contents": [text, "more"]}]),
            ("delete_entities", [name]),
            ("delete_observations", [{"entityName": name, "observations": [text]}]),
            ("delete_relations", [relation]),
        ]
    )


@pytest.mark.parametrize("seed", range(12))
def test_calls_in_turn_give_the_graph_of_one_reference_server(opened, path, time, seed, tally):
    chance, expected = random.Random(seed), Model()
    graphs = [opened(keep_file=True), opened(keep_file=True)]
    for model_or_graph in (expected, graphs[0].store()):
        model_or_graph.create_entities([entity("always")])
    graphs[0].note_change()
    for _ in range(60):
        time.now += chance.choice([1, LONG_AGO])
        call, argument = a_call(chance)
        try:
            getattr(expected, call)(argument)
        except NotThere:
            continue
        if chance.random() < 0.4:
            # Only what a call of ours wrote long ago can be deleted there.
            time.now += LONG_AGO
            with other_program(path, is_atomic=chance.random() < 0.5) as other:
                getattr(other, call)(argument)
        else:
            change(chance.choice(graphs), call, argument)
        asked = chance.choice(graphs).store()
        assert asked.read_graph() == expected.read_graph() == content(path), (seed, call, argument)
        for word in ("x", "more", "b"):
            assert asked.search_nodes(word) == expected.search_nodes(word)
    tally("calls in turn with another writer of the file", calls=60)


@pytest.mark.parametrize("seed", range(12))
def test_whenever_they_write_no_addition_is_lost(opened, path, time, seed, put_off):
    """Files are written late, processes die, the other program works with what it read before."""
    chance, added = random.Random(seed), set()
    graphs = [opened(keep_file=True) for _ in range(2)]
    for number in range(60):
        time.now += chance.choice([0, 0.3, 2])
        name = f"n{number}"
        added.add(name)
        if chance.random() < 0.4:
            with other_program(path, is_atomic=chance.random() < 0.5) as other:
                other.create_entities([entity(name, "x")])
                if chance.random() < 0.5:
                    chance.choice(graphs).store()
        else:
            graph = chance.choice(graphs)
            create(graph, entity(name, "x"))
            if chance.random() < 0.2:
                graph._store.close()
                graph._store = None
                graphs[graphs.index(graph)] = opened(keep_file=True)
        chance.choice(graphs).do_due_work()
    for graph in graphs:
        graph.close()
    last = opened()
    assert set(names(last.store().read_graph())) == added
    last.close()
    assert content(path) == opened().store().read_graph()
    assert all(one["observations"] == ["x"] for one in content(path)["entities"])


# Killed at every step


STEPS = {
    "execute", "executemany", "flock", "write", "fsync", "fdatasync", "rename", "link", "unlink",
    "call_function", "open", "close",
}  # fmt: skip
"""Functions in C with an effect outside of the process."""
MAX_STEPS = 250
"""A few more than the work below has."""


def killed_at(step, work):
    """Do some work in a process that is killed at its nth step; return False if it had fewer."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def count(_frame, event, function):
            if event == "c_call" and function.__name__ in STEPS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(count)
            work()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("case", ["own change", "edit elsewhere"])
def test_killed_at_any_step_the_next_process_has_both_sides(tmp_path, time, case, tally):
    kills = 0
    for step in sampled(range(1, MAX_STEPS), 20, salt=case):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "memory.jsonl"
        path.write_text(jsonl(entity("a", "x"), entity("gone")))
        with MemoryGraph(str(path), clock=time) as graph:
            create(graph, entity("b"))
        time.now += LONG_AGO
        if case == "edit elsewhere":
            with other_program(path) as other:
                other.create_entities([entity("theirs")])
        heard = folder / "acknowledged"

        def work(path=path, heard=heard):
            graph = MemoryGraph(str(path), clock=time)
            create(graph, entity("ours"))
            change(graph, "delete_entities", ["gone"])
            heard.write_text("both")
            graph.close()

        was_killed = killed_at(step, work)
        with MemoryGraph(str(path), clock=time) as graph:
            found = graph.store().read_graph()
        assert found == content(path), step
        assert {"a", "b"} <= set(names(found)), step
        assert ("theirs" in names(found)) == (case == "edit elsewhere"), step
        if heard.exists():
            assert ("ours" in names(found), "gone" in names(found)) == (True, False), step
        assert len(names(found)) == len(set(names(found)))
        assert [one.name for one in folder.glob("*.found-*")] == []
        kills += was_killed
    tally("kills while the file of a graph is written", kills=kills)
    assert kills > 3


def test_many_processes_and_another_writer_lose_nothing(path, tmp_path):
    children = []
    for place in range(4):
        pid = os.fork()
        if pid == 0:
            graph = MemoryGraph(str(path), keep_file=True)
            for number in range(10):
                create(graph, entity(f"{place}-{number}", "x"))
            graph.close()
            os._exit(0)
        children.append(pid)
    written = 0
    while children:
        # Not the way to write, as others write too; but nothing of ours may be lost by it.
        if path.exists() and written < 5:
            with other_program(path) as other:
                other.create_entities([entity(f"theirs-{written}")])
            written += 1
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            assert status == 0
            children.remove(pid)
    with MemoryGraph(str(path)) as graph:
        found = names(graph.store().read_graph())
        assert {f"{place}-{number}" for place in range(4) for number in range(10)} <= set(found)
        assert content(path) == graph.store().read_graph()
