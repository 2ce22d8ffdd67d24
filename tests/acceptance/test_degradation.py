"""What is left when layers are gone: all eight ways, the ledger gone with them.

Each test really removes files, then asks as a new session does. The embedded graph is computed from
the ledger and goes with it, so L3 alone is a Memory server: ours, as a server of the user's own.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from holdfast import Keeper

RECORD = ".claude/workflow-state.json"
LEDGER = ".git/holdfast"
ROWS = [
    (("L1", "L2", "L3"), "Full", "yes"),
    (("L1", "L2"), "Standard", "yes"),
    (("L1", "L3"), "Standard", "yes"),
    (("L1",), "Minimal", "yes"),
    (("L2", "L3"), None, "partial"),
    (("L2",), None, "no"),
    (("L3",), None, "partial"),
    ((), None, "no"),
]
each_row = pytest.mark.parametrize(
    ("kept", "tier", "resume"), ROWS, ids=["+".join(kept) or "none" for kept, _, _ in ROWS]
)


@pytest.fixture
def apex(repo):
    """Return a repository with an APEX workflow that is being implemented."""
    repo.environment["HOLDFAST_MEMORY"] = str(memory(repo))
    repo.ok("start", "apex", "Login")
    repo.ok("advance")
    Keeper(repo.path).approve_phase("plan")
    repo.ok("advance")
    return repo


@pytest.fixture
def served(repo):
    """Return a repository whose graph is kept by a Memory server of the user's own."""
    server = {
        "command": sys.executable,
        "args": ["-m", "holdfast", "mcp", "memory"],
        "env": {
            "MEMORY_FILE_PATH": str(graph_file(repo)),
            "PYTHONPATH": repo.environment["PYTHONPATH"],
        },
    }
    repo.write(".mcp.json", json.dumps({"mcpServers": {"memory": server}}))
    repo.environment["HOLDFAST_GRAPH"] = "mcp:memory"
    person = Path(repo.environment["HOME"], ".config", "holdfast")
    person.mkdir(parents=True)
    person.joinpath("config.toml").write_text(f"[trust]\nfolders = [{json.dumps(repo.path)}]\n")
    return repo


@pytest.fixture
def known_to_server(served, apex):
    served.ok("sync")
    return served


def memory(repo):
    return Path(repo.path).parent / "notes" / "MEMORY.md"


def graph_file(repo):
    return Path(repo.path).parent / "graph" / "memory.jsonl"


def leave(repo, *kept, ledger=False):
    """Remove every layer but these, and the ledger, unless it stays."""
    if not ledger:
        shutil.rmtree(os.path.join(repo.path, LEDGER))
    if "L1" not in kept:
        os.remove(os.path.join(repo.path, RECORD))
    if "L2" not in kept:
        memory(repo).unlink(missing_ok=True)
    if "L3" not in kept and repo.environment.get("HOLDFAST_GRAPH"):
        shutil.rmtree(graph_file(repo).parent)


def layers(answer):
    return tuple(layer["layer"] for layer in answer["layers"] if layer["available"])


@each_row
def test_the_tier_is_named_as_it_was_found(known_to_server, kept, tier, resume):
    leave(known_to_server, *kept)
    answer = known_to_server.ok("context")
    assert layers(answer) == kept
    assert (answer["tier"], answer["resume"]) == (tier, resume)


@pytest.mark.parametrize("kept", [("L1", "L2"), ("L1",), ("L2",), ()])
def test_the_embedded_graph_goes_with_the_ledger(apex, kept):
    leave(apex, *kept)
    assert layers(apex.ok("context")) == kept


@pytest.mark.parametrize("kept", [("L1", "L2"), ("L1",), ("L2",), ()])
def test_with_the_ledger_the_layers_are_named_as_found_and_then_healed(apex, kept):
    leave(apex, *kept, ledger=True)
    for _ in range(2):
        assert layers(apex.ok("context")) == (*kept, "L3")
    assert apex.ok("resume")["workflow"]["phase"] == "implement"
    apex.ok("sync")
    assert layers(apex.ok("context")) == ("L1", "L2", "L3")


def test_a_server_that_was_emptied_is_told_everything_again(known_to_server):
    leave(known_to_server, "L1", "L2", ledger=True)
    assert layers(known_to_server.ok("context")) == ("L1", "L2")
    known_to_server.ok("sync", "--everything")
    assert layers(known_to_server.ok("context")) == ("L1", "L2", "L3")


@pytest.mark.parametrize("kept", [kept for kept, _, resume in ROWS if resume == "yes"])
def test_the_record_alone_resumes_at_the_same_place_as_all_layers(known_to_server, kept):
    before = known_to_server.state()
    leave(known_to_server, *kept)
    after = known_to_server.ok("resume")["workflow"]
    for name in ("id", "phase", "title", "subject", "created_at", "ttl"):
        assert after[name] == before[name], name
    for phase, was in zip(after["phases"], before["phases"], strict=True):
        # A record approves nothing by itself.
        phase.pop("claimed", None)
        assert phase == {key: value for key, value in was.items() if key != "approved"}


@pytest.mark.parametrize("kept", [("L2", "L3"), ("L3",)])
def test_the_graph_alone_gives_the_position_and_says_what_is_lost(known_to_server, kept):
    before = known_to_server.state()
    leave(known_to_server, *kept)
    answer = known_to_server.ok("resume")
    after = answer["workflow"]
    assert (after["phase"], after["title"]) == ("implement", "Login")
    assert [phase["status"] for phase in after["phases"]] == [
        *("completed", "completed", "in_progress", "pending", "pending")
    ]
    assert after["created_at"] == before["created_at"]
    (note,) = [note for note in answer["notes"] if "goes on from the graph" in note]
    assert "tasks, gates and reminders are lost" in note
    assert known_to_server.record(RECORD)["phase"] == "implement"
    known_to_server.ok("advance")
    assert known_to_server.ok("context")["tier"] in ("Full", "Standard")


@pytest.mark.parametrize(
    ("recipe", "way", "statuses"),
    [
        ("debug", ["implement"], ["completed", "pending", "in_progress", "pending"]),
        ("brainstorm", ["research", "design"], ["completed", "pending", "in_progress"]),
        ("tdd", [], None),
    ],
)
def test_a_position_of_any_recipe_comes_back_from_the_graph(served, recipe, way, statuses):
    served.environment["HOLDFAST_MEMORY"] = "off"
    served.ok("start", recipe, "Crash")
    for phase in way:
        served.ok("phase", "start", phase)
    before = served.state()
    served.ok("sync")
    os.remove(os.path.join(served.path, before["record"]))
    served.write(RECORD, "{}")
    leave(served, "L3")
    after = served.ok("resume")["workflow"]
    assert (after["id"], after["phase"]) == (before["id"], before["phase"])
    if statuses:
        assert [phase["status"] for phase in after["phases"]] == statuses


def test_memory_alone_tells_the_last_known_position_and_resumes_nothing(apex):
    leave(apex, "L2")
    error = apex.refused("resume")
    assert "Active APEX workflow: plan approved, implementing Login" in error["message"]
    assert "holdfast start" in error["hint"]
    assert not apex.has(RECORD)


def test_with_nothing_left_it_is_a_fresh_start(apex):
    leave(apex)
    assert apex.refused("resume")["code"] == "not_found"
    apex.ok("start", "oneshot", "Typo")


@pytest.mark.parametrize("damage", ["", "{", "[]", "nonsense\0"])
def test_a_record_that_is_no_record_counts_as_missing(apex, damage):
    apex.write(RECORD, damage)
    leave(apex, "L1", "L2")
    assert layers(apex.ok("context")) == ("L2",)


def test_a_server_that_does_not_run_counts_as_missing(known_to_server):
    known_to_server.write(".mcp.json", json.dumps({"mcpServers": {"memory": {"command": "false"}}}))
    answer = known_to_server.ok("context")
    assert layers(answer) == ("L1", "L2")
    assert known_to_server.state()["phase"] == "implement"


def test_the_page_shows_each_layer(apex):
    shown = apex.run("context").out
    assert "▶ APEX  Login" in shown
    assert "Layers: Full, resume: yes" in shown
    assert "File state: ✓ APEX 3/5 implement" in shown
    assert "Auto-memory: ✓ Active APEX workflow: plan approved, implementing Login" in shown
    assert "MCP Memory: ✓ APEX 3/5 implement" in shown
    apex.environment["HOLDFAST_GRAPH"] = "off"
    assert "MCP Memory: ✗ (degraded mode)" in apex.run("context").out
    apex.environment["HOLDFAST_MEMORY"] = "off"
    assert "Auto-memory: ✗ (off)" in apex.run("context").out


def test_what_else_is_known_is_shown(apex):
    apex.ok("interview", "record", "--skill", "plan", "--confidence", "0.82")
    apex.ok("delegation", "record", "--agent", "tester", "--outcome", "ok")
    apex.ok("remember", "Short commits", "--kind", "preference")
    answer = apex.ok("context")
    assert answer["interview"]["skill"] == "plan"
    assert answer["delegations"]["agents"][0]["agent"] == "tester"
    assert answer["learnings"][0]["text"] == "Short commits"
    assert [row["title"] for row in answer["workflows"]] == ["Login"]
    shown = apex.run("context").out
    for text in ("plan · confidence 0.82", "tester 1", "Short commits"):
        assert text in shown


def test_in_an_empty_folder_there_is_nothing_and_nothing_is_made(folder):
    answer = folder.ok("context")
    assert (answer["tier"], answer["workflows"]) == (None, [])
    assert os.listdir(folder.path) == []


def test_the_embedded_graph_is_never_behind(repo):
    repo.ok("start", "apex", "Login")
    assert "L3" in layers(repo.ok("context"))
    repo.ok("advance")
    (graph,) = [one for one in repo.ok("context")["layers"] if one["layer"] == "L3"]
    assert graph["position"]["phase"] == "plan"


def test_a_record_found_alone_after_its_time_has_expired(repo):
    record = {"type": "APEX", "phase": "implement", "context": "Login", "ttl": "24h"}
    repo.environment["HOLDFAST_MEMORY"] = str(memory(repo))
    repo.write(RECORD, json.dumps({**record, "lastUpdated": "2020-02-11T14:00:00Z"}))
    answer = repo.ok("status")
    assert answer["workflows"] == []
    assert any("Workflow state expired (inactive > 24h)" in note for note in answer["notes"])
    repo.refused("advance")
    assert json.loads(Path(repo.path, RECORD).read_text()) == {}
    assert not memory(repo).exists(), "what came with a record is not the person's own"


def tell(repo, *observations):
    """Write another text into the server's entity of the workflow, as anybody can."""
    import sqlite3

    with sqlite3.connect(f"{graph_file(repo)}.db") as graph:
        for text in observations:
            name = f"{text.partition(': ')[0]}: %"
            graph.execute("UPDATE observations SET text = ? WHERE text LIKE ?", (text, name))
    graph.close()


def test_nonsense_in_the_graph_is_no_time_and_no_fault(known_to_server):
    text = "context: one\n\x1b[31m" + "x" * 300_000
    tell(known_to_server, "updated: banana", "started: soon", text)
    leave(known_to_server, "L3")
    assert known_to_server.run("context").code == 0
    after = known_to_server.ok("resume")["workflow"]
    assert after["phase"] == "implement"
    assert len(after["title"]) <= 200
    known_to_server.ok("advance")


def test_a_graph_with_half_of_an_entity_is_shown_as_far_as_it_goes(known_to_server):
    tell(known_to_server, "type: ", "phase_index: ", "updated: ")
    leave(known_to_server, "L3")
    assert "MCP Memory: ✓" in known_to_server.run("context").out


def test_what_is_remembered_is_answered_though_the_settings_are_broken(repo):
    repo.write(".claude/holdfast.toml", 'graf = "off"\n')
    answer = repo.ok("remember", "hello")
    assert "graf" in answer["notes"][0]
    assert "remembered: hello" not in str(repo.ok("remember", "hello"))


# What only a Memory server knows


def age_server(repo, hours):
    """Make the workflow on the server older, as if nobody had worked for that long."""
    then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours * 3_600))
    tell(repo, f"updated: {then}")
    return then


def hook_text(repo):
    call = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1"}
    call["cwd"] = repo.path
    out = repo.run("hook", input=json.dumps(call).encode(), stdin=None).out
    return json.loads(out)["hookSpecificOutput"]["additionalContext"] if out.strip() else ""


def test_every_way_that_shows_the_graph_says_as_of_when_and_what_is_lost(known_to_server):
    then = age_server(known_to_server, 2)
    leave(known_to_server, "L3")
    lost = f"from the graph, as of {then}; tasks, gates and reminders are lost"
    assert lost in hook_text(known_to_server)
    assert lost in known_to_server.run("context").out
    assert lost in known_to_server.run("resume").out
    # It stays known where it came from.
    assert lost in hook_text(known_to_server)
    assert lost in known_to_server.run("context").out
    assert lost in known_to_server.run("resume").out


def test_what_comes_back_from_a_graph_obeys_its_time_to_live(known_to_server):
    age_server(known_to_server, 30)
    leave(known_to_server, "L3")
    expired = "Workflow state expired (inactive > 24h)"
    assert expired in hook_text(known_to_server)
    error = known_to_server.refused("resume")
    assert expired in error["message"]
    assert "from the graph" in error["message"]
    back = known_to_server.run(*error["hint"].split()[1:]).out
    assert expired in back
    assert "PHASE 3/5: implement" in back


def test_what_a_server_knows_is_adopted_before_anything_is_delivered_to_it(served, apex):
    repo = served
    repo.ok("interview", "record", "--skill", "plan", "--confidence", "0.8", "--dimension", "a=0.5")
    repo.ok("interview", "skip", "fix", "--reason", "hurry")
    words = ("--agent", "scout", "--outcome", "success", "--duration-ms", "90", "--model", "small")
    repo.ok("delegation", "record", *words, "--task-type", "tests", "--complexity", "low")
    repo.ok("delegation", "escalate", "--from", "a", "--to", "b", "--reason", "two, failures")
    repo.ok("delegation", "resolve", "yes")
    repo.ok("delegation", "override", "--suggested", "a", "--chosen", "b")
    repo.ok("delegation", "routing", "--suggested", "a", "--chosen", "b", "--intent", "fix")
    repo.ok("remember", "Short commits", "--kind", "preference")
    repo.ok("forge", "add", "build", "Uses make")
    repo.ok("initiative", "create", "Shop", "--milestone", "M1: Map", "--milestone", "M2: Move")
    repo.ok("initiative", "start", "M1")
    before = {
        "delegation": repo.ok("delegation", "list")["summary"],
        "interview": repo.ok("interview", "show"),
    }
    repo.ok("sync")
    shutil.rmtree(os.path.join(repo.path, ".claude"))
    shutil.rmtree(os.path.join(repo.path, LEDGER))
    memory(repo).unlink()
    repo.ok("start", "oneshot", "Another")
    repo.ok("initiative", "create", "Other", "--milestone", "M1: x")
    notes = repo.ok("sync")["notes"]
    (taken,) = [note for note in notes if note.startswith("taken in from mcp:memory")]
    for what in ("learning log", "forge log", "initiative Shop", "apex-e01103fb"):
        assert what in taken
    assert repo.ok("delegation", "list")["summary"] == before["delegation"]
    after = repo.ok("interview", "show")
    assert after["interviews"][0]["confidence"] == 0.8
    assert after["interviews"][0]["dimensions"] == {"a": 0.5}
    assert after["skips"][0]["skill"] == "fix"
    assert repo.ok("forge", "show")["entries"][0]["text"] == "Uses make"
    assert repo.ok("context")["learnings"][0]["text"] == "Short commits"
    shop = repo.ok("initiative", "show", "shop")["initiative"]
    assert (shop["status"], shop["current_milestone"]) == ("in_progress", "M1")
    assert repo.ok("initiative", "show")["initiative"]["name"] == "Other"
    assert repo.state()["title"] == "Another"
    repo.ok("complete", "--force", "--reason", "x")
    assert repo.ok("resume", "apex-e01103fb")["workflow"]["phase"] == "implement"
    seq = repo.ok("sync")["layers"][1]["seq"]
    assert repo.ok("sync", "--everything")["layers"][1]["seq"] == seq, "it is taken in once"
