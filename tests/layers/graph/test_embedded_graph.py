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
    updates = projection.read_changes(keeper.store)[0]
    return {one["name"]: list(dict.fromkeys(one["observations"])) for one in updates}


def value(observations, key):
    return next((o.partition(": ")[2] for o in observations if o.startswith(f"{key}: ")), None)


def test_where_nothing_was_recorded_the_graph_is_empty_and_nothing_is_made(project, open_keeper):
    assert entities(open_keeper()) == {}
    assert projection.read_newest_workflow(open_keeper().store) is None
    (_, row), notes = open_keeper().sync()
    assert (row["status"], row["seq"], notes) == ("current", 0, [])
    assert not os.path.exists(project / ".claude")
    assert not os.path.exists(project / ".git" / "holdfast")


def test_it_is_as_of_the_last_event(open_keeper):
    open_keeper().start("apex", "one")
    assert value(entities(open_keeper())["workflow-state"], "phase") == "analyze"
    open_keeper().advance()
    other = open_keeper().start("dev", "x.md").state["id"]
    graph = entities(open_keeper())
    assert value(graph["workflow-state"], "phase_index") == "2/5"
    assert sorted(graph) == ["workflow-state", f"workflow-state:{other}"]
    (_, row), _ = open_keeper().sync()
    assert (row["status"], row["seq"]) == ("current", open_keeper().log()[-1]["seq"])


def test_a_look_waits_for_no_writer_and_writes_nothing(project, open_keeper):
    open_keeper().start("apex", "one")
    files = {path: path.stat().st_mtime_ns for path in (project / ".git" / "holdfast").rglob("*")}
    with open_keeper().session.transaction():
        assert list(entities(open_keeper())) == ["workflow-state"]
    after = {path: path.stat().st_mtime_ns for path in (project / ".git" / "holdfast").rglob("*")}
    assert after == files


def test_the_newest_is_the_entity_of_the_active_workflow_that_changed_last(open_keeper):
    first = open_keeper().start("dev", "one.md").state["id"]
    open_keeper().start("apex", "two")
    assert projection.read_newest_workflow(open_keeper().store)["name"] == "workflow-state"
    open_keeper().remind("look", workflow=first)
    graph = entities(open_keeper())
    newest = projection.read_newest_workflow(open_keeper().store)
    assert newest["name"] == f"workflow-state:{first}"
    assert newest["observations"] == graph[newest["name"]]
    open_keeper().abandon("no", workflow=first)
    assert projection.read_newest_workflow(open_keeper().store)["name"] == "workflow-state"


def test_the_place_goes_from_one_verb_workflow_to_the_next_and_back(open_keeper):
    first = open_keeper().start("oneshot", "one").state["id"]
    open_keeper().abandon("no")
    second = open_keeper().start("apex", "two").state["id"]
    graph = entities(open_keeper())
    assert value(graph["workflow-state"], "context") == "two"
    assert value(graph[f"workflow-state:{first}"], "status").startswith("abandoned at ")
    open_keeper().abandon("no", workflow=second)
    open_keeper().resume(workflow=first)
    graph = entities(open_keeper())
    assert sorted(graph) == ["workflow-state", f"workflow-state:{second}"]
    assert value(graph["workflow-state"], "context") == "one"
    assert value(graph["workflow-state"], "status") is None


def test_the_place_belongs_to_the_active_one_else_to_the_last(open_keeper):
    first = open_keeper().start("oneshot", "one").state["id"]
    open_keeper().abandon("no")
    second = open_keeper().start("apex", "two").state["id"]
    assert value(entities(open_keeper())["workflow-state"], "context") == "two"
    open_keeper().abandon("no")
    updates, removed, holder = projection.read_changes(open_keeper().store, 2, first)
    assert ([one["name"] for one in updates], removed, holder) == (
        [f"workflow-state:{first}", "workflow-state"],
        [f"workflow-state:{second}"],
        second,
    )


def test_what_left_the_place_for_another_worktree_goes_by_its_id_there(project, open_keeper, clock):
    started = open_keeper().start("apex", "one").state["id"]
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(
        ["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=project, check=True
    )
    side = project.parent / "side"
    command = ["git", "worktree", "add", "-q", "-b", "side", str(side)]
    subprocess.run(command, cwd=project, check=True)
    Keeper(str(side), clock_ms=clock).resume(workflow=started)
    assert list(entities(open_keeper())) == [f"workflow-state:{started}"]
    assert entities(Keeper(str(side), clock_ms=clock)) == entities(open_keeper())


def test_interviews_and_delegations_are_in_it_edits_of_their_records_too(project, open_keeper):
    open_keeper().start("apex", "one")
    open_keeper().interviews().record("plan", 0.5, dimensions={"clarity": 1})
    open_keeper().delegations().record("tester", outcome="ok", duration_ms=3)
    open_keeper().interviews().skip("plan", "no time")
    open_keeper().remember("tests first", kind="pattern")
    graph = entities(open_keeper())
    assert sorted(graph) == ["delegation-log", "interview-state", "learnings", "workflow-state"]
    assert graph["learnings"] == ["pattern: tests first"]
    assert graph["interview-state"][:2] == ["skill: plan", "confidence: 0.5"]
    assert [line.partition(":")[0] for line in graph["delegation-log"]] == [
        "delegation",
        "interview_skip",
    ]
    record = project / ".claude" / "interview-state.json"
    record.write_text(record.read_text().replace('"confidence": 0.5', '"confidence": 0.7'))
    open_keeper().interviews().record("fix", 0.9)
    record.write_text(record.read_text().replace('"confidence": 0.9', '"confidence": 1'))
    open_keeper().interviews().skip("fix", "no time")
    assert entities(open_keeper())["interview-state"][:2] == ["skill: fix", "confidence: 1"]


def test_with_the_ledger_gone_the_graph_is_gone(project, open_keeper):
    open_keeper().start("apex", "one")
    shutil.rmtree(project / ".git" / "holdfast")
    assert entities(open_keeper()) == {}


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
                    updates, removed, holder = projection.read_changes(keeper.store, seq, holder)
                    mcp_delivery.apply_updates(server, updates, removed)
                    seq = keeper.store.ledger.head_seq
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
