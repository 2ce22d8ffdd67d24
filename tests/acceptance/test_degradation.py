"""What is left when layers are gone: all eight ways, the ledger gone with them.

Each test really removes files, then asks as a new session does.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

RECORD = ".claude/workflow-state.json"
PLACES = {"L1": RECORD, "L3": ".claude/holdfast/graph.db"}
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
def shop(repo):
    """An APEX workflow that is being implemented, known to all three layers."""
    repo.environment["HOLDFAST_MEMORY"] = str(memory(repo))
    repo.ok("start", "apex", "Login")
    repo.ok("advance")
    repo.ok("phase", "approve", "plan")
    repo.ok("advance")
    repo.ok("sync")
    return repo


def memory(repo):
    return Path(repo.path).parent / "notes" / "MEMORY.md"


def leave(repo, *kept, ledger=False):
    """Removes every layer but these; the ledger too, with its links, unless it stays."""
    home = os.path.join(repo.path, ".claude", "holdfast")
    if not ledger:
        for name in os.listdir(home):
            if not name.startswith("graph.db"):
                os.remove(os.path.join(home, name))
        shutil.rmtree(os.path.join(repo.path, ".git", "holdfast"), ignore_errors=True)
    if "L1" not in kept:
        os.remove(os.path.join(repo.path, RECORD))
    if "L2" not in kept:
        memory(repo).unlink(missing_ok=True)
    if "L3" not in kept:
        for name in os.listdir(home):
            if name.startswith("graph.db"):
                os.remove(os.path.join(home, name))


def layers(answer):
    return tuple(layer["layer"] for layer in answer["layers"] if layer["available"])


@each_row
def test_the_tier_is_named_as_it_was_found(shop, kept, tier, resume):
    leave(shop, *kept)
    answer = shop.ok("context")
    assert layers(answer) == kept
    assert (answer["tier"], answer["resume"]) == (tier, resume)


@each_row
def test_with_the_ledger_the_layers_are_named_as_found_and_then_healed(shop, kept, tier, resume):
    leave(shop, *kept, ledger=True)
    answer = shop.ok("context")
    assert layers(answer) == kept
    assert answer["tier"] == tier
    assert shop.ok("resume")["workflow"]["phase"] == "implement"
    shop.ok("sync")
    assert layers(shop.ok("context")) == ("L1", "L2", "L3")


@pytest.mark.parametrize("kept", [kept for kept, _, resume in ROWS if resume == "yes"])
def test_the_record_alone_resumes_at_the_same_place_as_all_layers(shop, kept):
    before = shop.state()
    leave(shop, *kept)
    after = shop.ok("resume")["workflow"]
    for name in ("id", "phase", "phases", "title", "subject", "created_at", "ttl"):
        assert after[name] == before[name], name


@pytest.mark.parametrize("kept", [("L2", "L3"), ("L3",)])
def test_the_graph_alone_gives_the_position_and_says_what_is_lost(shop, kept):
    before = shop.state()
    leave(shop, *kept)
    answer = shop.ok("resume")
    after = answer["workflow"]
    assert (after["phase"], after["title"]) == ("implement", "Login")
    assert [phase["status"] for phase in after["phases"]] == [
        *("completed", "completed", "in_progress", "pending", "pending")
    ]
    assert after["created_at"] == before["created_at"]
    (note,) = [note for note in answer["notes"] if "goes on from the graph" in note]
    assert "tasks, gates and reminders are lost" in note
    assert shop.record(RECORD)["phase"] == "implement"
    shop.ok("advance")
    assert shop.ok("context")["tier"] in ("Full", "Standard")


@pytest.mark.parametrize(
    ("recipe", "way", "statuses"),
    [
        ("debug", ["implement"], ["completed", "pending", "in_progress", "pending"]),
        ("brainstorm", ["research", "design"], ["completed", "pending", "in_progress"]),
        ("tdd", [], None),
    ],
)
def test_a_position_of_any_recipe_comes_back_from_the_graph(repo, recipe, way, statuses):
    repo.environment["HOLDFAST_MEMORY"] = "off"
    repo.ok("start", recipe, "Crash")
    for phase in way:
        repo.ok("phase", "start", phase)
    before = repo.state()
    repo.ok("sync")
    os.remove(os.path.join(repo.path, before["record"]))
    repo.write(RECORD, "{}")
    leave(repo, "L3")
    after = repo.ok("resume")["workflow"]
    assert (after["id"], after["phase"]) == (before["id"], before["phase"])
    if statuses:
        assert [phase["status"] for phase in after["phases"]] == statuses


def test_any_command_and_a_new_session_go_on_from_the_graph(shop):
    leave(shop, "L3")
    told = {"hook_event_name": "SessionStart", "source": "startup", "cwd": shop.path}
    answer = shop.run("hook", stdin=None, input=json.dumps({**told, "session_id": "s"}).encode())
    assert "PHASE 3/5: implement" in answer.out
    leave(shop, "L3")
    assert shop.ok("show")["workflow"]["phase"] == "implement"


def test_memory_alone_tells_the_last_known_position_and_resumes_nothing(shop):
    leave(shop, "L2")
    error = shop.refused("resume")
    assert "Active APEX workflow: plan approved, implementing Login" in error["message"]
    assert "holdfast start" in error["hint"]
    assert not shop.has(RECORD)


def test_with_nothing_left_it_is_a_fresh_start(shop):
    leave(shop)
    assert shop.refused("resume")["code"] == "not_found"
    shop.ok("start", "oneshot", "Typo")


def age(repo, phase, updated):
    """The record as it was before the workflow moved on, of another time."""
    document = repo.record(RECORD)
    document.pop("_holdfast")
    document["phase"] = phase
    document["lastUpdated"] = updated
    for entry in document["phases"]:
        if entry["name"] == phase:
            entry["status"] = "in_progress"
    repo.write(RECORD, json.dumps(document))


def test_the_newer_of_record_and_graph_wins(shop):
    age(shop, "plan", "2020-01-01T00:00:00.000Z")
    leave(shop, "L1", "L3")
    answer = shop.ok("resume")
    assert answer["workflow"]["phase"] == "implement"
    assert any("the graph is newer" in note for note in answer["notes"])


def test_a_newer_record_wins_over_the_graph(shop):
    age(shop, "plan", "2090-01-01T00:00:00.000Z")
    leave(shop, "L1", "L3")
    assert shop.ok("resume")["workflow"]["phase"] == "plan"


def test_a_tie_goes_to_the_record(shop):
    age(shop, "plan", shop.state()["updated_at"])
    leave(shop, "L1", "L3")
    assert shop.ok("resume")["workflow"]["phase"] == "plan"


@pytest.mark.parametrize("damage", ["", "{", "[]", "nonsense\0"])
def test_a_record_that_is_no_record_counts_as_missing(shop, damage):
    shop.write(RECORD, damage)
    leave(shop, "L1", "L2", "L3")
    assert layers(shop.ok("context")) == ("L2", "L3")


def test_a_graph_that_is_no_graph_counts_as_missing(shop):
    shop.write(PLACES["L3"], "nonsense")
    answer = shop.ok("context")
    assert layers(answer) == ("L1", "L2")
    assert shop.state()["phase"] == "implement"


def test_the_page_shows_each_layer(shop):
    shown = shop.run("context").out
    assert "▶ APEX  Login" in shown
    assert "Layers: Full, resume: yes" in shown
    assert "File state: ✓ APEX 3/5 implement" in shown
    assert "Auto-memory: ✓ Active APEX workflow: plan approved, implementing Login" in shown
    assert "MCP Memory: ✓ APEX 3/5 implement" in shown
    shop.environment["HOLDFAST_GRAPH"] = "off"
    assert "MCP Memory: ✗ (degraded mode)" in shop.run("context").out
    shop.environment["HOLDFAST_MEMORY"] = "off"
    assert "Auto-memory: ✗ (off)" in shop.run("context").out


def test_what_else_is_known_is_shown(shop):
    shop.ok("interview", "record", "--skill", "plan", "--confidence", "0.82")
    shop.ok("delegation", "record", "--agent", "tester", "--outcome", "ok")
    shop.ok("remember", "Short commits", "--kind", "preference")
    answer = shop.ok("context")
    assert answer["interview"]["skill"] == "plan"
    assert answer["delegations"]["agents"][0]["agent"] == "tester"
    assert answer["learnings"][0]["text"] == "Short commits"
    assert [row["title"] for row in answer["workflows"]] == ["Login"]
    shown = shop.run("context").out
    for text in ("plan · confidence 0.82", "tester 1", "Short commits"):
        assert text in shown


def test_in_an_empty_folder_there_is_nothing_and_nothing_is_made(folder):
    answer = folder.ok("context")
    assert (answer["tier"], answer["workflows"]) == (None, [])
    assert os.listdir(folder.path) == []


def test_a_look_at_the_layers_brings_the_graph_up_to_date_for_the_next(repo):
    repo.ok("start", "apex", "Login")
    assert "L3" not in layers(repo.ok("context"))
    assert "L3" in layers(repo.ok("context"))
    repo.ok("advance")
    repo.ok("context")
    (graph,) = [one for one in repo.ok("context")["layers"] if one["layer"] == "L3"]
    assert graph["position"]["phase"] == "plan"


def test_a_record_found_alone_after_its_time_has_expired(repo):
    record = {"type": "APEX", "phase": "implement", "context": "Login", "ttl": "24h"}
    repo.environment["HOLDFAST_MEMORY"] = str(memory(repo))
    repo.write(RECORD, json.dumps({**record, "lastUpdated": "2020-02-11T14:00:00Z"}))
    answer = repo.ok("status")
    assert answer["workflows"] == []
    assert any("Workflow state expired (inactive > 24h)" in note for note in answer["notes"])
    assert json.loads(Path(repo.path, RECORD).read_text()) == {}
    assert "- Expired workflow: APEX at implement for Login" in memory(repo).read_text()


def tell(repo, *observations):
    """Another text in the graph's entity of the workflow, as anybody can write it."""
    import sqlite3

    with sqlite3.connect(os.path.join(repo.path, PLACES["L3"])) as graph:
        for text in observations:
            name = f"{text.partition(': ')[0]}: %"
            graph.execute("UPDATE observations SET text = ? WHERE text LIKE ?", (text, name))
    graph.close()


def test_nonsense_in_the_graph_is_no_time_and_no_fault(shop):
    tell(shop, "updated: banana", "started: soon", "context: one\n\x1b[31m" + "x" * 300_000)
    leave(shop, "L3")
    assert shop.run("context").code == 0
    after = shop.ok("resume")["workflow"]
    assert after["phase"] == "implement"
    assert len(after["title"]) <= 200
    shop.ok("advance")


def test_a_graph_with_half_of_an_entity_is_shown_as_far_as_it_goes(shop):
    tell(shop, "type: ", "phase_index: ", "updated: ")
    leave(shop, "L3")
    assert "MCP Memory: ✓" in shop.run("context").out


def test_marks_that_make_no_sense_make_the_graph_anew(shop):
    import sqlite3

    with sqlite3.connect(os.path.join(shop.path, PLACES["L3"])) as graph:
        graph.execute("UPDATE marks SET value = 'banana' WHERE key = 'seq'")
    graph.close()
    assert shop.run("context").code == 0
    (row,) = [row for row in shop.ok("sync")["layers"] if row["layer"] == "L3"]
    assert row["seq"] == shop.ok("context")["layers"][2].get("seq", row["seq"]) > 0


def test_times_are_compared_as_times():
    from holdfast.core import tiers

    assert not tiers.is_newer("2026-02-11T14:00:00Z", "2026-02-11T14:00:00.500Z")
    assert tiers.is_newer("2026-02-11T14:00:00Z", "2026-02-11T15:30:00+02:00")
    assert not tiers.is_newer("zzz", "2026-02-11T14:00:00Z")


def test_where_the_graph_is_newer_the_record_still_tells_of_what_agrees(shop):
    begun = shop.state()["phases"][0]
    age(shop, "plan", "2020-01-01T00:00:00.000Z")
    leave(shop, "L1", "L3")
    assert shop.ok("resume")["workflow"]["phases"][0] == begun


def test_what_is_remembered_is_answered_though_the_settings_are_broken(repo):
    repo.write(".claude/holdfast.toml", 'graf = "off"\n')
    answer = repo.ok("remember", "hello")
    assert "graf" in answer["notes"][0]
    assert "remembered: hello" not in str(repo.ok("remember", "hello"))
