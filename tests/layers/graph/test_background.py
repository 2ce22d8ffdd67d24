"""A change has the user's Memory server told, without waiting for it; trouble is said once."""

import os
import sys

import pytest

from holdfast.layers.graph import background, mcp_delivery
from holdfast.system import detached
from support.own_memory import OwnMemory
from support.paths import SOURCE


@pytest.fixture
def memory(project, monkeypatch):
    return OwnMemory(project, monkeypatch)


@pytest.fixture
def awake(monkeypatch):
    """Let changes start deliveries; return what waits for them."""
    monkeypatch.delenv("HOLDFAST_BACKGROUND")
    monkeypatch.setenv("PYTHONPATH", SOURCE)

    def wait():
        while detached._started:
            detached._started.pop().wait(60)

    yield wait
    wait()


def phases(memory):
    return [line for line in memory.entities()["workflow-state"] if line.startswith("phase: ")]


def test_a_change_is_delivered_by_a_process_of_its_own(memory, open_keeper, awake):
    memory.set()
    receipt = open_keeper().start("apex", "one")
    assert receipt.notes == []
    awake()
    assert phases(memory) == ["phase: analyze"]
    open_keeper().advance()
    awake()
    assert phases(memory) == ["phase: plan"]


def test_it_is_started_after_the_lock_is_free(memory, open_keeper, monkeypatch):
    memory.set()
    locked = []
    keeper = open_keeper()
    is_held = lambda _source: locked.append(keeper.store.ledger.database.lock.is_held)  # noqa: E731
    monkeypatch.setattr(background, "start", is_held)
    keeper.start("apex", "one")
    assert locked == [False]
    keeper.show()
    assert locked == [False], "a look starts nothing"


@pytest.mark.parametrize("kept_by", ["embedded", "off"])
def test_without_a_server_nothing_is_started(project, open_keeper, monkeypatch, awake, kept_by):
    monkeypatch.setenv("HOLDFAST_GRAPH", kept_by)
    open_keeper().start("apex", "one")
    assert detached._started == []


def test_a_hook_starts_nothing(memory, open_keeper, awake):
    memory.set()
    keeper = open_keeper()
    keeper.start("apex", "one")
    awake()
    keeper.store.by = {"surface": "hook"}
    keeper.do("note_compaction", {"trigger": "auto"})
    assert detached._started == []


def test_one_delivers_and_looks_again_for_what_came_meanwhile(memory, open_keeper, monkeypatch):
    memory.set()
    open_keeper().start("apex", "one")
    store = open_keeper().store
    rounds = []
    deliver = mcp_delivery.deliver

    def delivered(source, name):
        done = deliver(source, name)
        if not rounds:
            open_keeper().advance()
            # Another process finds this one at work, and leaves it to look again.
            assert background._deliver_once(open_keeper().store, name)
        rounds.append(done["events"])
        return done

    monkeypatch.setattr(mcp_delivery, "deliver", delivered)
    background.deliver(store)
    assert rounds == [2, 2]
    assert phases(memory) == ["phase: plan"]


def test_it_ends_when_its_time_is_over(memory, open_keeper, monkeypatch):
    memory.set("--hang", "1")
    open_keeper().start("apex", "one")
    monkeypatch.setattr(background, "LIMIT_S", 1)
    with pytest.raises(TimeoutError):
        background.deliver(open_keeper().store)


def test_a_server_that_is_down_is_told_once_and_made_up_for_when_it_is_back(
    memory, open_keeper, clock, awake
):
    memory.set("--refuse")
    open_keeper().start("apex", "one")
    awake()
    assert open_keeper().advance().notes == [mcp_delivery.WARNING]
    awake()
    assert open_keeper().remind("Slowly").notes == []
    awake()
    memory.set()
    assert open_keeper().remind("Softly").notes == []
    awake()
    assert phases(memory) == ["phase: plan"]
    assert open_keeper().remind("Surely").notes == [mcp_delivery.RECOVERED]
    awake()
    assert open_keeper().remind("Safely").notes == []


def test_an_explicit_sync_tries_a_server_at_once(memory, open_keeper):
    memory.set("--refuse")
    open_keeper().start("apex", "one")
    for number in (1, 2):
        (_, row), _ = open_keeper().sync()
        assert row["error"]["code"] == "graph_unavailable"
        assert "holdfast sync tries it at once" in row["error"]["hint"]
        assert memory.calls().count("start") == number
    background.deliver(open_keeper().store)
    assert memory.calls().count("start") == 2
    # Sync has said it.
    assert open_keeper().advance().notes == []


def test_a_server_that_nobody_approved_is_named_once(memory, open_keeper, awake):
    memory.set(trusted=False)
    open_keeper().start("apex", "one")
    awake()
    (note,) = open_keeper().advance().notes
    assert note.startswith("the Memory server memory gets nothing: ")
    assert "holdfast trust" in note
    awake()
    assert open_keeper().remind("Slowly").notes == []
    assert memory.calls() == []


def test_no_module_of_the_workspace_is_run(memory, open_keeper, awake, project):
    memory.set()
    for name in ("holdfast", "json", "signal"):
        (project / f"{name}.py").write_text("open('ran', 'w')\n")
    open_keeper().start("apex", "one")
    awake()
    assert not (project / "ran").exists()
    assert phases(memory) == ["phase: analyze"]


# What a server may send


PROGRAM = """
import json, os, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        print("starting up ...", flush=True)
        send(method="notifications/message", params={})
        send(id="a", method="ping")
        assert json.loads(sys.stdin.readline())["result"] == {}
        send(id="b", method="roots/list")
        assert json.loads(sys.stdin.readline())["error"]["code"] == -32601
        send(id=asked["id"], result={"capabilities": {}})
    elif asked["method"] == "tools/call":
        TELL
"""


def reached(project, tell):
    from holdfast.workspace.trust import ConfiguredServer

    words = ["-c", PROGRAM.replace("TELL", tell)]
    server = ConfiguredServer("memory", {"command": sys.executable, "args": words})
    return mcp_delivery.reach(server, str(project), 10.0, lambda graph: graph.search_nodes("x"))


def test_a_server_may_print_ask_and_answer_in_text(project):
    graph = '{\\"entities\\": [], \\"relations\\": []}'
    tell = f'send(id=asked["id"], result={{"content": [{{"type": "text", "text": "{graph}"}}]}})'
    assert reached(project, tell) == {"entities": [], "relations": []}


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        ('send(id=asked["id"], error={"message": "no"})', "it refused tools/call: no"),
        ('send(id=asked["id"], result={"structuredContent": {"a": 1}})', "no graph"),
        ('send(id=asked["id"], result={"isError": True})', "it refused search_nodes"),
        ("os._exit(7)", "exit code 7"),
    ],
)
def test_what_a_server_answers_instead_is_said(project, tell, why):
    with pytest.raises(mcp_delivery.Unreachable, match=why):
        reached(project, tell)


def test_what_a_server_started_ends_with_it(project):
    # The process that it leaves behind holds the pipe: its end is seen by its being closed.
    inner = "import sys, time; sys.stdout.write('up'); sys.stdout.flush(); time.sleep(3600)"
    tell = (
        "import subprocess; subprocess.Popen([sys.executable, '-c', "
        f"{inner!r}], stdout=os.open('child', os.O_WRONLY)); os._exit(7)"
    )
    os.mkfifo(project / "child")
    reading = os.open(project / "child", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(mcp_delivery.Unreachable):
        reached(project, tell)
    os.set_blocking(reading, True)
    while os.read(reading, 100):
        pass
    os.close(reading)
