"""Many processes on one graph, and processes that are killed in the middle."""

import json
import os
import signal
import subprocess
import sys

import pytest

from holdfast.layers.graph.store import GraphStore
from support.paths import SOURCE

pytestmark = pytest.mark.promise(1, 6)

WRITER = """\
import sys
from holdfast.layers.graph.store import GraphStore

path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with GraphStore(path) as store:
    for number in range(count):
        name = f"{who}-{number}"
        store.create_entities([{"name": name, "entityType": "T", "observations": ["o"]}])
        store.create_entities([{"name": "shared", "entityType": "T", "observations": []}])
        store.add_observations([{"entityName": "shared", "contents": [name]}])
        store.create_relations([{"from": name, "to": "shared", "relationType": "of"}])
        store.search_nodes(name)
        print(name, flush=True)
"""


def writers(path, number, count):
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, f"w{one}", str(count)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for one in range(number)
    ]
    for writer in started:
        assert writer.stdout.readline() == "ready\n"
    for writer in started:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    return started


def graph_of(path):
    with GraphStore(path) as store:
        check = store.rows("PRAGMA integrity_check")
        store.rows("INSERT INTO words (words) VALUES ('integrity-check')")
        assert check == [("ok",)]
        return store.read_graph()


def test_every_process_makes_the_database_and_every_write_survives(path, tally):
    crowd = writers(path, 6, 15)
    acknowledged = []
    for writer in crowd:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        acknowledged += out.split()
    graph = graph_of(path)
    names = [one["name"] for one in graph["entities"]]
    assert len(acknowledged) == 6 * 15
    assert sorted(names) == sorted([*acknowledged, "shared"])
    shared = next(one for one in graph["entities"] if one["name"] == "shared")
    assert sorted(shared["observations"]) == sorted(acknowledged)
    assert sorted(one["from"] for one in graph["relations"]) == sorted(acknowledged)
    tally("graph writers", acknowledged=len(acknowledged), lost=0)


@pytest.mark.parametrize("victims_after", [0, 1, 3, 7])
def test_what_was_acknowledged_before_a_kill_is_there_once(path, victims_after, tally):
    crowd = writers(path, 4, 40)
    heard = {number: [] for number in range(len(crowd))}
    for number, writer in enumerate(crowd):
        for _ in range(victims_after):
            heard[number].append(writer.stdout.readline().strip())
        os.kill(writer.pid, signal.SIGKILL)
    for number, writer in enumerate(crowd):
        out, _ = writer.communicate(timeout=60)
        lines = out.split("\n")
        heard[number] += [line for line in lines[:-1] if line]
    graph = graph_of(path)
    names = [one["name"] for one in graph["entities"]]
    assert len(names) == len(set(names))
    told = [name for lines in heard.values() for name in lines]
    assert set(told) <= set(names)
    ends = [one["from"] for one in graph["relations"]]
    assert set(told) <= set(ends)
    assert len(ends) == len(set(ends))
    tally("graph kills", acknowledged=len(told), lost=0)


KILLED_WITHIN = """\
import os, signal, sys
from holdfast.layers.graph.store import GraphStore

with GraphStore(sys.argv[1]) as store:
    store.create_entities([{"name": "a", "entityType": "T", "observations": ["before"]}])
    with store.writing():
        store.add_observations([{"entityName": "a", "contents": ["during"]}])
        store.set_marks(seq="9")
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_transaction_that_was_killed_leaves_nothing_of_itself(path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WITHIN, path],
        env={**os.environ, "PYTHONPATH": SOURCE},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with GraphStore(path) as store:
        assert store.open_nodes(["a"])["entities"][0]["observations"] == ["before"]
        assert store.marks() == {}
        assert store.search_nodes("during")["entities"] == []
        store.add_observations([{"entityName": "a", "contents": ["after"]}])


KILLED_WHILE_MAKING = """\
import os, signal, sys
from holdfast.system.disk import Disk
from holdfast.layers.graph.store import GraphStore

class Dying(Disk):
    def move(self, source, target):
        os.kill(os.getpid(), signal.SIGKILL)

GraphStore(sys.argv[1], disk=Dying())
"""


def test_a_database_is_made_whole_or_not_at_all(path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_MAKING, path],
        env={**os.environ, "PYTHONPATH": SOURCE},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert not os.path.exists(path)
    with GraphStore(path) as store:
        store.create_entities([{"name": "a", "entityType": "T", "observations": []}])
        assert json.dumps(store.read_graph()["entities"])
    assert sorted(os.listdir(os.path.dirname(path))) == ["graph.db", "graph.db.lock"]
