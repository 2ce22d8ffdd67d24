"""The embedded graph: as of an event of the ledger, whatever became of either of them."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Keeper
from holdfast.errors import HoldfastError
from holdfast.graph import layer
from holdfast.graph.store import GraphStore

SOURCE = os.path.dirname(os.path.dirname(holdfast.__file__))


def entities(keeper):
    """What the graph says, by name."""
    found = layer.caught_up(keeper._engine)
    if found is None:
        return {}
    with found.store as store:
        return {one["name"]: one["observations"] for one in store.read_graph()["entities"]}


def value(observations, key):
    return next((o.partition(": ")[2] for o in observations if o.startswith(f"{key}: ")), None)


def database(place):
    return os.path.join(place, ".claude", "holdfast", "graph.db")


def test_where_nothing_was_recorded_there_is_no_graph_and_none_is_made(place, keeper):
    assert layer.caught_up(keeper()._engine) is None
    (_, row), notes = keeper().sync()
    assert (row["status"], row["seq"], notes) == ("current", 0, [])
    assert not os.path.exists(os.path.join(place, ".claude"))


def test_no_transition_opens_the_graph(place, keeper):
    started = keeper().start("apex", "one", tasks=["a"]).state["id"]
    keeper().start_task(1, workflow=started)
    keeper().advance()
    assert not os.path.exists(database(place))
    entities(keeper())
    before = os.stat(database(place))
    keeper().complete_task(1)
    assert os.stat(database(place)).st_mtime_ns == before.st_mtime_ns


def test_a_reader_brings_it_up_to_the_last_event(place, keeper):
    keeper().start("apex", "one")
    assert value(entities(keeper())["workflow-state"], "phase") == "analyze"
    keeper().advance()
    keeper().start("dev", "x.md")
    found = layer.caught_up(keeper()._engine)
    found.store.close()
    assert (found.seq, found.events, found.entities) == (keeper().log()[-1]["seq"], 4, 2)
    graph = entities(keeper())
    assert value(graph["workflow-state"], "phase_index") == "2/5"
    assert sorted(graph) == ["workflow-state", next(k for k in graph if "dev-" in k)]
    again = layer.caught_up(keeper()._engine)
    again.store.close()
    assert (again.events, again.entities) == (0, 0)


def test_the_place_goes_from_one_verb_workflow_to_the_next_and_back(keeper):
    first = keeper().start("oneshot", "one").state["id"]
    entities(keeper())
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
    assert graph == rebuilt(keeper())


def rebuilt(keeper):
    keeper.sync(everything=True)
    return entities(keeper)


def test_what_left_the_place_for_another_worktree_goes_by_its_id_there(place, keeper, clock):
    started = keeper().start("apex", "one").state["id"]
    entities(keeper())
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=place, check=True)
    side = place.parent / "side"
    command = ["git", "worktree", "add", "-q", "-b", "side", str(side)]
    subprocess.run(command, cwd=place, check=True)
    Keeper(str(side), clock_ms=clock).resume(workflow=started)
    assert list(entities(keeper())) == [f"workflow-state:{started}"]
    assert entities(Keeper(str(side), clock_ms=clock)) == entities(keeper())


def test_a_note_of_the_users_own_stays_until_the_graph_is_made_anew(place, keeper):
    keeper().start("apex", "one")
    entities(keeper())
    with GraphStore(database(place)) as store:
        store.add_observations([{"entityName": "workflow-state", "contents": ["mine"]}])
    keeper().advance()
    assert "mine" in entities(keeper())["workflow-state"]


def test_a_graph_of_another_ledger_is_made_anew(place, keeper):
    keeper().start("apex", "one")
    entities(keeper())
    shutil.copy(database(place), place / "old.db")
    for folder in (".claude", ".git/holdfast"):
        shutil.rmtree(place / folder)
    keeper().start("debug", "another")
    shutil.copy(place / "old.db", database(place))
    graph = entities(keeper())
    assert list(graph) == ["workflow-state"]
    assert value(graph["workflow-state"], "type") == "DEBUG"


def test_a_graph_that_is_ahead_of_its_ledger_is_made_anew(place, keeper):
    keeper().start("apex", "one")
    ledger = place / ".claude" / "holdfast" / "ledger.ndjson"
    before = ledger.read_bytes()
    keeper().advance()
    assert value(entities(keeper())["workflow-state"], "phase") == "plan"
    shutil.rmtree(place / ".git" / "holdfast")
    ledger.unlink()
    ledger.write_bytes(before)
    assert value(entities(keeper())["workflow-state"], "phase") == "analyze"


def test_a_history_that_differs_at_the_same_place_is_noticed(place, keeper):
    keeper().start("apex", "one")
    ledger = place / ".claude" / "holdfast" / "ledger.ndjson"
    before = ledger.read_bytes()
    keeper().advance()
    entities(keeper())
    shutil.rmtree(place / ".git" / "holdfast")
    ledger.unlink()
    ledger.write_bytes(before)
    (place / ".claude" / "workflow-state.json").unlink()
    keeper().remind("another history")
    keeper().remind("and more of it")
    assert value(entities(keeper())["workflow-state"], "phase") == "analyze"


@pytest.mark.parametrize("data", [b"", b"nonsense " * 1_000, None])
def test_a_damaged_graph_is_kept_beside_and_made_anew(place, keeper, data):
    keeper().start("apex", "one")
    wanted = entities(keeper())
    with open(database(place), "rb") as file:
        whole = file.read()
    broken = whole[:4096] + b"\xa5" * (len(whole) - 4096) if data is None else data
    with open(database(place), "wb") as file:
        file.write(broken)
    one = keeper()
    assert entities(one) == wanted
    (note,) = one._engine.notes
    assert "kept as graph.db.rejected-" in note
    (kept,) = [n for n in os.listdir(os.path.dirname(database(place))) if "rejected" in n]
    with open(os.path.join(os.path.dirname(database(place)), kept), "rb") as file:
        assert file.read() == broken


def test_a_reader_that_cannot_write_has_what_is_there_and_is_told(place, keeper):
    keeper().start("apex", "one")
    entities(keeper())
    keeper().advance()
    with GraphStore(database(place)) as other, other.database.writing():
        one = keeper()
        found = layer.caught_up(one._engine, wait_s=0)
        with found.store as store:
            told = store.open_nodes(["workflow-state"])["entities"][0]["observations"]
    assert value(told, "phase") == "analyze"
    assert "the graph is behind" in one._engine.notes[0]


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
    assert graph == rebuilt(keeper())
    record = place / ".claude" / "interview-state.json"
    record.write_text(record.read_text().replace('"confidence": 0.5', '"confidence": 0.7'))
    keeper().interviews().record("fix", 0.9)
    record.write_text(record.read_text().replace('"confidence": 0.9', '"confidence": 1'))
    assert keeper().interviews().show()["interviews"][-1]["confidence"] == 1
    graph = entities(keeper())
    assert graph["interview-state"][:2] == ["skill: fix", "confidence: 1"]
    assert graph == rebuilt(keeper())


def test_with_the_ledger_gone_the_graph_tells_what_it_was_told(place, keeper):
    assert layer.as_it_stands(keeper()._engine) is None
    keeper().start("apex", "one")
    entities(keeper())
    (place / ".claude" / "holdfast" / "ledger.ndjson").unlink()
    shutil.rmtree(place / ".git" / "holdfast")
    one = keeper()
    assert layer.caught_up(one._engine) is None
    found = layer.as_it_stands(one._engine)
    with found.store as store:
        (entity,) = store.search_nodes("workflow-state")["entities"]
    assert (found.seq, value(entity["observations"], "phase")) == (2, "analyze")


STEPS = st.lists(
    st.sampled_from(
        ["apex", "oneshot", "dev", "planning", "advance", "abandon", "complete", "resume", "look"]
    ),
    min_size=3,
    max_size=14,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.randoms(use_true_random=False))
def test_brought_up_step_by_step_or_made_anew_it_says_the_same(steps, chance):
    ms = iter(range(1_771_329_600_000, 1_871_329_600_000, 500))
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(folder, clock_ms=lambda: next(ms), wait_s=1)
        known = []
        for number, step in enumerate(steps):
            try:
                if step in ("apex", "oneshot", "dev", "planning"):
                    known.append(keeper.start(step, f"matter {number}").state["id"])
                elif step == "look":
                    entities(keeper)
                elif known:
                    one = chance.choice(known)
                    how = {
                        "advance": keeper.advance,
                        "resume": keeper.resume,
                        "abandon": keeper.abandon,
                        "complete": lambda workflow: keeper.complete(
                            force=True, reason="enough", workflow=workflow
                        ),
                    }
                    how[step](workflow=one)
            except HoldfastError:
                continue
        if keeper.log():
            assert entities(keeper) == rebuilt(keeper)


READER = """\
import sys
from holdfast import Keeper
from holdfast.graph import layer

keeper = Keeper(sys.argv[1])
for number in range(int(sys.argv[2])):
    keeper.set_context({"n": number}, workflow=sys.argv[3])
    layer.caught_up(keeper._engine).store.close()
"""


def test_many_readers_bring_it_up_together(place, tally):
    now = Keeper(str(place))
    ids = [now.start("dev", f"{number}.md").state["id"] for number in range(4)]
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(place), "12", ids[number]],
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        for number in range(4)
    ]
    assert [process.wait(120) for process in crowd] == [0] * 4
    graph = entities(now)
    assert sorted(graph) == sorted(f"workflow-state:{one}" for one in ids)
    assert graph == rebuilt(now)
    tally("graph readers", processes=4, turns=48)
