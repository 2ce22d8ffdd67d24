"""The embedded graph is the ledger's tables, seen as entities; a server is sent the same."""

import os
import shutil
import subprocess
import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Initiatives, Keeper
from holdfast.errors import HoldfastError
from holdfast.layers.graph import mcp_delivery, projection
from holdfast.layers.graph.store import GraphStore


def entities(keeper):
    """Return what the graph says, by name."""
    updates = projection.read_changes(keeper.store, 0).updates
    return {one["name"]: list(dict.fromkeys(one["observations"])) for one in updates}


def value(observations, key):
    return next((o.partition(": ")[2] for o in observations if o.startswith(f"{key}: ")), None)


def test_where_nothing_was_recorded_the_graph_is_empty_and_nothing_is_made(place, keeper):
    assert entities(keeper()) == {}
    assert projection.read_newest_workflow(keeper().store) is None
    (_, row), notes = keeper().sync()
    assert (row["status"], row["seq"], notes) == ("current", 0, [])
    assert not os.path.exists(place / ".claude")
    assert not os.path.exists(place / ".git" / "holdfast")


def test_it_is_as_of_the_last_event(keeper):
    keeper().start("apex", "one")
    assert value(entities(keeper())["workflow-state"], "phase") == "analyze"
    keeper().advance()
    other = keeper().start("dev", "x.md").state["id"]
    graph = entities(keeper())
    assert value(graph["workflow-state"], "phase_index") == "2/5"
    assert sorted(graph) == ["workflow-state", f"workflow-state:{other}"]
    (_, row), _ = keeper().sync()
    assert (row["status"], row["seq"]) == ("current", keeper().log()[-1]["seq"])


def test_a_look_waits_for_no_writer_and_writes_nothing(place, keeper):
    keeper().start("apex", "one")
    files = {path: path.stat().st_mtime_ns for path in (place / ".git" / "holdfast").rglob("*")}
    with keeper().session.transaction():
        assert list(entities(keeper())) == ["workflow-state"]
    after = {path: path.stat().st_mtime_ns for path in (place / ".git" / "holdfast").rglob("*")}
    assert after == files


def test_the_newest_is_the_entity_of_the_active_workflow_that_changed_last(keeper):
    first = keeper().start("dev", "one.md").state["id"]
    keeper().start("apex", "two")
    assert projection.read_newest_workflow(keeper().store)["name"] == "workflow-state"
    keeper().remind("look", workflow=first)
    graph = entities(keeper())
    newest = projection.read_newest_workflow(keeper().store)
    assert newest["name"] == f"workflow-state:{first}"
    assert newest["observations"] == graph[newest["name"]]
    keeper().abandon("no", workflow=first)
    assert projection.read_newest_workflow(keeper().store)["name"] == "workflow-state"


def test_the_place_goes_from_one_verb_workflow_to_the_next_and_back(keeper):
    first = keeper().start("oneshot", "one").state["id"]
    keeper().abandon("no")
    second = keeper().start("apex", "two").state["id"]
    graph = entities(keeper())
    assert value(graph["workflow-state"], "context") == "two"
    assert value(graph[f"workflow-state:{first}"], "status").startswith("abandoned at ")
    keeper().abandon("no", workflow=second)
    keeper().resume(workflow=first)
    graph = entities(keeper())
    assert sorted(graph) == ["workflow-state", f"workflow-state:{second}"]
    assert value(graph["workflow-state"], "context") == "one"
    assert value(graph["workflow-state"], "status") is None


def test_what_left_the_place_for_another_worktree_goes_by_its_id_there(place, keeper, clock):
    started = keeper().start("apex", "one").state["id"]
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=place, check=True)
    side = place.parent / "side"
    command = ["git", "worktree", "add", "-q", "-b", "side", str(side)]
    subprocess.run(command, cwd=place, check=True)
    Keeper(str(side), clock_ms=clock).resume(workflow=started)
    assert list(entities(keeper())) == [f"workflow-state:{started}"]
    assert entities(Keeper(str(side), clock_ms=clock)) == entities(keeper())


def test_interviews_and_delegations_are_in_it_edits_of_their_records_too(place, keeper):
    keeper().start("apex", "one")
    keeper().interviews().record("plan", 0.5, dimensions={"clarity": 1})
    keeper().delegations().record("tester", outcome="ok", duration_ms=3)
    keeper().interviews().skip("plan", "no time")
    keeper().remember("tests first", kind="pattern")
    graph = entities(keeper())
    assert sorted(graph) == ["delegation-log", "interview-state", "learnings", "workflow-state"]
    assert graph["learnings"] == ["pattern: tests first"]
    assert graph["interview-state"][:2] == ["skill: plan", "confidence: 0.5"]
    assert [line.partition(":")[0] for line in graph["delegation-log"]] == [
        "delegation",
        "interview_skip",
    ]
    record = place / ".claude" / "interview-state.json"
    record.write_text(record.read_text().replace('"confidence": 0.5', '"confidence": 0.7'))
    keeper().interviews().record("fix", 0.9)
    record.write_text(record.read_text().replace('"confidence": 0.9', '"confidence": 1'))
    keeper().interviews().skip("fix", "no time")
    assert entities(keeper())["interview-state"][:2] == ["skill: fix", "confidence: 1"]


def test_with_the_ledger_gone_the_graph_is_gone(place, keeper):
    keeper().start("apex", "one")
    shutil.rmtree(place / ".git" / "holdfast")
    assert entities(keeper()) == {}


KINDS = (
    "apex", "oneshot", "dev", "planning", "advance", "abandon", "complete", "resume", "interview",
    "skip", "learn", "goal", "deliver",
)  # fmt: skip
STEPS = st.lists(st.sampled_from(KINDS), min_size=3, max_size=16)


def take(keeper, step, number, known, chance):
    """Do one thing, whatever comes of it."""
    if step in ("apex", "oneshot", "dev", "planning"):
        known.append(keeper.start(step, f"matter {number}").state["id"])
    elif step == "interview":
        keeper.interviews().record(f"skill {number}", 0.5)
    elif step == "skip":
        keeper.interviews().skip("plan", f"reason {number}")
    elif step == "learn":
        keeper.remember(f"learning {number}")
    elif step == "goal":
        Initiatives(keeper).create(f"Goal {number}", ["M1: Map"])
    elif known:
        workflow = chance.choice(known)
        if step == "complete":
            keeper.complete(force=True, reason="enough", workflow=workflow)
        else:
            getattr(keeper, step)(workflow=workflow)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.randoms(use_true_random=False))
def test_a_server_that_is_told_step_by_step_has_what_the_graph_has(steps, chance):
    ms = iter(range(1_771_329_600_000, 1_871_329_600_000, 500))
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(folder, clock_ms=lambda: next(ms), wait_s=1)
        with GraphStore(os.path.join(folder, "server.db")) as server:
            known, seq, holder = [], 0, ""
            for number, step in enumerate([*steps, "deliver"]):
                if step == "deliver":
                    changes = projection.read_changes(keeper.store, seq, holder)
                    mcp_delivery.apply_updates(server, changes.updates, changes.removed)
                    seq, holder = keeper.store.ledger.head_seq, changes.holder
                    continue
                try:
                    take(keeper, step, number, known, chance)
                except HoldfastError:
                    continue
            told = {one["name"]: one["observations"] for one in server.read_graph()["entities"]}
        graph = entities(keeper)
        assert {name: sorted(lines) for name, lines in told.items()} == {
            name: sorted(lines) for name, lines in graph.items()
        }
