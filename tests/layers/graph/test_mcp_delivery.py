"""The user's own Memory server: asked only when it may be, never for long, nothing twice.

The server is a small one with the official SDK (``memory_server.py``), as a process or over HTTP.
"""

import json
import socket
import subprocess
import sys

import pytest

from holdfast.errors import Fault, Refused
from holdfast.layers.graph import mcp_delivery
from holdfast.workspace import trust
from holdfast.workspace.location import find
from support import memory_forks
from support.own_memory import OwnMemory

SERVER = memory_forks.SERVER


@pytest.fixture
def memory(project, monkeypatch):
    return OwnMemory(project, monkeypatch)


def synced(keeper, **options):
    (_, row), notes = keeper.sync(**options)
    return row, notes


def limited(keeper, limit_s=0.7):
    """A delivery with a short limit."""
    return mcp_delivery.deliver(keeper.store, "memory", limit_s=limit_s)


def gone(*_):
    raise mcp_delivery.Unreachable("gone")


def searched(keeper, query):
    return mcp_delivery.call(keeper.store, "memory", lambda graph: graph.search_nodes(query))


def test_what_is_outstanding_is_delivered_once(memory, open_keeper):
    memory.set()
    open_keeper().start("apex", "one")
    row, _ = synced(open_keeper())
    assert (row["target"], row["status"]) == ("mcp:memory", "delivered")
    assert (row["events"], row["entities"], row["seq"]) == (2, 1, 2)
    assert "phase: analyze" in memory.entities()["workflow-state"]
    asked = len(memory.calls())
    assert synced(open_keeper())[0]["status"] == "current"
    assert len(memory.calls()) == asked
    open_keeper().advance()
    assert synced(open_keeper())[0]["events"] == 2
    told = memory.entities()["workflow-state"]
    assert [line for line in told if line.startswith("phase: ")] == ["phase: plan"]


def test_what_the_user_has_there_stays(memory, open_keeper):
    memory.set()
    own = {"name": "me", "entityType": "Person", "observations": ["likes tea"]}
    memory.file.write_text(json.dumps({"entities": [own], "relations": []}))
    open_keeper().start("apex", "one")
    synced(open_keeper())
    assert memory.entities()["me"] == ["likes tea"]


def test_a_server_that_was_emptied_gets_everything_on_request(memory, open_keeper):
    memory.set()
    open_keeper().start("apex", "one")
    synced(open_keeper())
    memory.file.unlink()
    assert synced(open_keeper())[0]["status"] == "current"
    assert synced(open_keeper(), everything=True)[0]["entities"] == 1
    assert "workflow-state" in memory.entities()


def test_a_command_of_the_repository_is_not_run_before_a_person_approved_it(memory, open_keeper):
    memory.set(trusted=False)
    open_keeper().start("apex", "one")
    row, _ = synced(open_keeper())
    assert (row["status"], row["error"]["code"]) == ("unavailable", "untrusted")
    assert memory.calls() == []
    (wish,), _ = open_keeper().untrusted_commands()
    assert (wish.gate, wish.source, wish.approved) == ("mcp:memory", ".mcp.json", False)
    assert memory_forks.__file__ in wish.command
    open_keeper().approve([wish.command])
    assert synced(open_keeper())[0]["status"] == "delivered"
    memory.set("--plain", trusted=False)
    assert synced(open_keeper())[0]["error"]["code"] == "untrusted"


def test_a_server_without_structured_answers_is_understood(memory, open_keeper):
    memory.set("--plain")
    open_keeper().start("apex", "one")
    synced(open_keeper())
    open_keeper().advance()
    assert synced(open_keeper())[0]["status"] == "delivered"
    assert len(memory.entities()["workflow-state"]) == 6


@pytest.mark.parametrize("words", [("--hang", "1"), ("--die", "1"), ("--refuse",)])
def test_a_server_that_fails_costs_its_limit_once_and_is_then_left_alone(
    memory, open_keeper, clock, words
):
    memory.set(*words)
    open_keeper().start("apex", "one")
    one = open_keeper()
    found = limited(one, 2.0)
    assert found["why"]
    assert one.store.notes == [mcp_delivery.WARNING]
    assert (found["seq"], found["behind"]) == (0, 2)
    starts = memory.calls().count("start")
    for _ in range(3):
        again = limited(open_keeper())
        assert again["why"] == found["why"]
        assert again["until"] == found["until"]
    assert memory.calls().count("start") == starts
    clock.ms += 5 * 60_000
    memory.set()
    # It is another command now, so nothing is known against it.
    assert limited(open_keeper(), 10)["events"] == 2


def test_a_server_that_is_back_has_everything_and_it_is_said(
    memory, open_keeper, clock, monkeypatch
):
    memory.set()
    open_keeper().start("apex", "one")
    assert limited(open_keeper(), 10)["events"] == 2
    open_keeper().advance()
    with monkeypatch.context() as patched:
        patched.setattr(mcp_delivery, "reach", gone)
        failed = limited(open_keeper())
    assert (failed["why"], failed["behind"]) == ("gone", 2)
    clock.ms += 6 * 60_000
    one = open_keeper()
    assert limited(one, 10)["events"] == 2
    assert one.store.notes == [mcp_delivery.RECOVERED]
    assert "phase: plan" in memory.entities()["workflow-state"]


def test_a_delivery_that_was_cut_short_is_repeated_and_nothing_is_there_twice(memory, open_keeper):
    memory.set("--die", "3")
    open_keeper().start("apex", "one")
    open_keeper().start("dev", "x.md")
    assert limited(open_keeper(), 10)["why"]
    assert len(memory.entities()) == 2  # the call was carried out, its answer was lost
    memory.set()
    assert limited(open_keeper(), 10)["entities"] == 0
    held = json.loads(memory.file.read_text())["entities"]
    assert [len(one["observations"]) for one in held] == [6, 6]
    assert len({one["name"] for one in held}) == 2


def test_a_kill_before_the_position_is_kept_delivers_again_and_changes_nothing(
    memory, open_keeper, monkeypatch
):
    memory.set()
    open_keeper().start("apex", "one")

    class Killed(BaseException):
        pass

    def killed(_self):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(mcp_delivery.ServerPosition, "save", killed)
        with pytest.raises(Killed):
            limited(open_keeper(), 10)
    before = memory.file.read_text()
    found = limited(open_keeper(), 10)
    assert (found["events"], found["entities"]) == (2, 0)
    assert json.loads(memory.file.read_text()) == json.loads(before)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"target": 3}', None])
def test_a_position_that_makes_no_sense_delivers_everything_again(
    memory, open_keeper, project, monkeypatch, text
):
    memory.set()
    open_keeper().start("apex", "one")
    reached = []
    monkeypatch.setattr(mcp_delivery, "reach", lambda *_: reached.append(1) or 0)
    limited(open_keeper())
    kept = project / ".git" / "holdfast" / mcp_delivery.POSITION_FILE
    held = json.loads(kept.read_text())
    marks = {**held["marks"], "seq": "many"}
    kept.write_text(json.dumps({**held, "marks": marks}) if text is None else text)
    assert (limited(open_keeper())["events"], len(reached)) == (2, 2)


def test_an_agent_in_the_background_never_writes_there(memory, open_keeper):
    memory.set()
    open_keeper().start("apex", "one")
    row, _ = synced(open_keeper(), foreground=False)
    assert (row["status"], row["error"]["code"]) == ("unavailable", "background")
    assert memory.calls() == []


def test_a_reader_finds_what_the_server_has_or_is_told_that_it_is_left_alone(memory, open_keeper):
    memory.set()
    open_keeper().start("apex", "one")
    limited(open_keeper(), 10)
    found = searched(open_keeper(), "WORKFLOW-STATE")
    assert [one["name"] for one in found["entities"]] == ["workflow-state"]
    memory.set("--refuse")
    for _ in range(2):
        with pytest.raises(Fault) as caught:
            searched(open_keeper(), "x")
        assert caught.value.code == "graph_unavailable"
        assert caught.value.message.startswith(mcp_delivery.WARNING)
    assert memory.calls()[-2:] == ["start", "search_nodes"]
    position = mcp_delivery.ServerPosition(
        open_keeper().store, trust.find_server(find(str(memory.folder)), "memory")
    )
    assert position.why.startswith("it refused")


def test_over_http_it_is_the_same(memory, open_keeper):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        fd = listening.fileno()
        words = [sys.executable, SERVER, str(memory.file), "--socket", str(fd)]
        server = subprocess.Popen(words, pass_fds=[fd])
        port = listening.getsockname()[1]
    try:
        memory.write({"type": "http", "url": f"http://127.0.0.1:{port}/mcp"})
        open_keeper().start("apex", "one")
        assert synced(open_keeper())[0]["error"]["code"] == "untrusted"
        memory.trust()
        found = limited(open_keeper(), 30)
        assert (found["why"], found["events"]) == ("", 2)
        open_keeper().advance()
        assert limited(open_keeper(), 30)["events"] == 2
    finally:
        server.kill()
        server.wait()
    assert "phase: plan" in memory.entities()["workflow-state"]


def test_a_plain_install_speaks_to_a_server_that_is_a_process(memory, open_keeper, monkeypatch):
    memory.set()
    open_keeper().start("apex", "one")
    for name in ("mcp", "anyio", "httpx2"):
        monkeypatch.setitem(sys.modules, name, None)
    assert synced(open_keeper())[0]["status"] == "delivered"
    assert "phase: analyze" in memory.entities()["workflow-state"]


def test_without_the_sdk_the_command_that_installs_it_is_named(memory, open_keeper, monkeypatch):
    memory.write({"url": "http://127.0.0.1:9/mcp"})
    memory.trust()
    open_keeper().start("apex", "one")
    monkeypatch.setitem(sys.modules, "mcp", None)
    row, _ = synced(open_keeper())
    assert row["error"]["code"] == "no_sdk"
    assert row["error"]["hint"] == "in Holdfast's checkout: pip install '.[mcp]'"


def test_a_program_that_is_not_there_is_said(memory, open_keeper):
    memory.write({"command": "/no/such/program", "args": []})
    memory.trust()
    open_keeper().start("apex", "one")
    row, notes = synced(open_keeper())
    assert row["error"]["code"] == "graph_unavailable"
    assert row["error"]["message"].startswith(mcp_delivery.WARNING)
    assert "/no/such/program" in row["error"]["message"]
    assert notes == [mcp_delivery.WARNING]


# What .mcp.json may say


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"command": "npx", "args": ["-y", "memory"]}, "npx -y memory"),
        ({"command": "x", "env": {"A": "b c"}}, "env 'A=b c' x"),
        ({"command": "connect", "args": ["to", "<http://a/>"]}, "connect to '<http://a/>'"),
        (
            {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "connect to <https://a.example/mcp> 'Authorization=Bearer ${TOKEN}'",
        ),
        ({"type": "streamable-http", "url": "http://a/"}, "connect to <http://a/>"),
    ],
)
def test_a_person_approves_all_that_matters_as_it_stands(told, text):
    assert trust.ConfiguredServer("x", told).text == text


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"command": 3},
        {"command": "x", "args": "y"},
        {"command": "x", "env": {"A": 1}},
        {"type": "sse", "url": "http://a/"},
        {"type": "http"},
        {"url": "http://a/", "headers": []},
    ],
)
def test_a_server_that_makes_no_sense_is_refused_by_name(told):
    with pytest.raises(Refused) as caught:
        trust.ConfiguredServer("x", told)
    assert caught.value.code == "bad_settings"
    assert "mcpServers.x" in caught.value.message


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("a${B}c", "abc"),
        ("${NONE:-d}${B}", "db"),
        ("${EMPTY:-d}", "d"),
        ("no ${end", "no ${end"),
        ("${B:-${B}}", "b}"),
    ],
)
def test_variables_are_filled_in(text, filled):
    server = trust.ConfiguredServer("x", {"command": text})
    assert server.expand({"B": "b", "EMPTY": ""}).command == filled


def test_a_variable_that_is_not_set_is_refused():
    with pytest.raises(Refused, match="needs the variable NONE"):
        trust.ConfiguredServer("x", {"command": "${NONE}"}).expand({})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "bad_settings"),
        ("[]", "no_server"),
        ('{"mcpServers": 3}', "no_server"),
        ('{"mcpServers": {"other": {}}}', "no_server"),
        ('{"mcpServers": {"memory": 3}}', "bad_settings"),
        (None, "no_server"),
    ],
)
def test_a_file_that_does_not_name_it_is_refused(project, text, code):
    if text is not None:
        (project / ".mcp.json").write_text(text)
    with pytest.raises(Refused) as caught:
        trust.find_server(find(str(project)), "memory")
    assert caught.value.code == code
    assert caught.value.hint


def test_a_link_out_of_the_workspace_is_not_read(project):
    outside = project.parent / "outside.json"
    outside.write_text('{"mcpServers": {"memory": {"command": "x"}}}')
    (project / ".mcp.json").symlink_to(outside)
    with pytest.raises(Refused) as caught:
        trust.find_server(find(str(project)), "memory")
    assert caught.value.code == "outside"
