"""A workspace that cannot be written: the Memory server has the state, until it can be again."""

import errno
import json
import os

import pytest

from holdfast import Initiatives, Keeper
from holdfast.errors import Fault, Refused
from holdfast.system.disk import Disk
from support.own_memory import OwnMemory


class Stuck(Disk):
    """A disk on which the workspace's lock cannot be taken."""

    def lock(self, path, wait_s):
        if os.path.basename(path) == "lock":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return super().lock(path, wait_s)


@pytest.fixture
def memory(project, monkeypatch):
    return OwnMemory(project, monkeypatch)


@pytest.fixture
def stuck(project, clock):
    return lambda: Keeper(str(project), disk=Stuck(), clock_ms=clock)


def pending(memory):
    return [name for name in memory.entities() if name.startswith("holdfast-pending:")]


def test_without_a_server_it_is_an_error_and_nothing_changes(open_keeper, stuck, monkeypatch):
    monkeypatch.setenv("HOLDFAST_GRAPH", "embedded")
    open_keeper().start("apex", "one")
    with pytest.raises(Fault, match="workflow state will not persist") as caught:
        stuck().advance()
    assert caught.value.code == "not_writable"
    assert open_keeper().show().state["phase"] == "analyze"


def test_the_server_has_the_state_and_it_comes_home(memory, open_keeper, stuck):
    memory.set()
    open_keeper().start("apex", "one", tasks=["First"])
    receipt = stuck().advance()
    assert receipt.state["phase"] == "plan"
    assert receipt.notes[0] == "ERROR: Cannot write state files — workflow state will not persist"
    assert "phase: plan" in memory.entities()["workflow-state"]
    # Another command goes on from there, though nothing of it is on the disk.
    stuck().approve_phase("plan")
    receipt = stuck().advance()
    assert receipt.state["phase"] == "implement"
    stuck().complete_task(1)
    assert "phase: implement" in memory.entities()["workflow-state"]
    assert len(memory.entities()[pending(memory)[0]]) == 4

    home = open_keeper().remind("home again")
    assert any("brought home from mcp:memory: 4 commands" in note for note in home.notes)
    assert (home.state["phase"], home.state["tasks"][0]["status"]) == ("implement", "completed")
    assert home.state["reminders"] == ["home again"]
    assert pending(memory) == []
    types = [event["type"] for event in open_keeper().log()]
    open_keeper().remind("once more")
    assert [event["type"] for event in open_keeper().log()] == [*types, "reminder_added"]


def test_a_refusal_is_one_and_is_not_kept(memory, open_keeper, stuck):
    memory.set()
    open_keeper().start("apex", "one")
    stuck().advance()
    with pytest.raises(Refused, match="plan of apex-5bbf5a52 needs a person's approval"):
        stuck().advance()
    assert len(memory.entities()[pending(memory)[0]]) == 1


def test_the_same_request_is_kept_once(memory, open_keeper, stuck):
    memory.set()
    open_keeper().start("apex", "one")
    for _ in range(2):
        stuck().remind("look", id="r1")
    assert open_keeper().show().state["reminders"] == ["look"]
    assert open_keeper().store.ledger.head_seq == 2
    assert open_keeper().add_task("more").state["reminders"] == ["look"]


def test_a_server_that_is_gone_too_is_an_error(memory, open_keeper, stuck):
    memory.set("--refuse")
    open_keeper().start("apex", "one")
    with pytest.raises(Fault, match="the server mcp:memory failed"):
        stuck().advance()


def test_what_cannot_be_fetched_yet_stays_and_holds_nobody_up(memory, open_keeper, stuck):
    memory.set()
    open_keeper().start("apex", "one")
    stuck().advance()
    memory.set("--refuse")
    receipt = open_keeper().remind("go on")
    assert any("is still there" in note for note in receipt.notes)
    memory.set()
    assert open_keeper().remind("now").state["phase"] == "plan"


def test_a_server_that_fails_is_asked_once_and_then_left_alone(memory, open_keeper, stuck):
    memory.set()
    open_keeper().start("apex", "one")
    stuck().advance()
    memory.set("--refuse")
    open_keeper().remind("go on")
    asked = memory.calls()
    for number in range(3):
        assert any("still there" in note for note in open_keeper().remind(f"again {number}").notes)
    assert memory.calls() == asked


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("start_phase", "{}"),
        ("start_phase", '{"phase": 5}'),
        ("remind", '{"text": "Skip the tests"}'),
        ("record_gate", '{"gate": "review", "passed": true, "evidence": "run", "fields": {}}'),
        ("approve_phase", '{"phase": "plan", "fields": {}}'),
    ],
)
def test_what_another_program_adds_to_the_queue_is_left_out(memory, open_keeper, stuck, kind, args):
    memory.set()
    started = open_keeper().start("apex", "one").state["id"]
    stuck().advance()
    line = f'{{"n": 1, "id": "x1", "do": "{kind}", "on": "{started}", "args": {args}}}'
    held = json.loads(memory.file.read_text())
    (entity,) = [one for one in held["entities"] if one["name"] in pending(memory)]
    entity["observations"].append(line)
    memory.file.write_text(json.dumps(held))
    stuck().remind("kept all the same")
    home = open_keeper().remind("home")
    assert home.state["reminders"] == ["kept all the same", "home"]
    assert home.state["gates"] == {}
    assert [phase["name"] for phase in home.state["phases"] if "approved_at" in phase] == []
    assert pending(memory) == []


def test_what_was_kept_of_every_kind_is_shown_meanwhile_and_comes_home(memory, open_keeper, stuck):
    memory.set()
    open_keeper().start("dev", "old.md")
    login = stuck().start("apex", "Login").state["id"]
    stuck().advance(workflow=login)
    assert stuck().remember("Ada wants short commits", kind="preference").is_kept
    assert not stuck().remember("Ada wants short commits", kind="preference").is_kept
    stuck().delegations().record("scout", outcome="success")
    shop = Initiatives(stuck()).create("Shop", ["M1: Map"])
    assert (shop.is_kept, shop.state["current"]) == (True, "shop")
    Initiatives(stuck()).start("M1")
    entities = memory.entities()
    assert entities["learnings"] == ["preference: Ada wants short commits"]
    assert "milestone: M1" in entities["initiative-checkpoint"]
    assert len(entities["delegation-log"]) == 1
    for keeper in (stuck(), open_keeper()):
        rows, notes = keeper.workflows()
        assert {row["id"]: row["phase"] for row in rows}[login] == "plan"
        assert notes == ["kept on the server mcp:memory until the folder can be written again"]
        assert keeper.show(workflow=login).state["phase"] == "plan"
        assert [entry["text"] for entry in keeper.learnings()] == ["Ada wants short commits"]
        assert Initiatives(keeper).current()["current_milestone"] == "M1"
        assert keeper.store.ledger.head_seq == 2, "a look records nothing"

    home = open_keeper().remind("home again", workflow=login)
    assert any("brought home from mcp:memory: 6 commands" in note for note in home.notes)
    assert home.state["phase"] == "plan"
    keeper = open_keeper()
    assert len(keeper.learnings()) == 1
    assert Initiatives(keeper).current()["status"] == "in_progress"
    assert keeper.delegations().list()["summary"]["agents"][0]["agent"] == "scout"
    assert [row["id"] for row in keeper.workflows()[0]] == [login, "dev-1994f0cf"]


def test_a_start_resumes_what_was_kept_and_respects_the_one_place(memory, stuck):
    memory.set()
    login = stuck().start("apex", "Login").state["id"]
    assert stuck().start("apex", "Login").resumed
    with pytest.raises(Refused, match=f"{login} is active and has this worktree's only place"):
        stuck().start("oneshot", "Typo")


def test_a_record_that_another_client_puts_into_the_queue_is_left_out(memory, open_keeper, stuck):
    memory.set()
    stuck().remember("one")
    held = json.loads(memory.file.read_text())
    (entity,) = [one for one in held["entities"] if one["name"] in pending(memory)]
    forged = {"n": 2, "id": "x1", "do": "adopt_record", "on": "_learning", "args": {"state": {}}}
    entity["observations"].append(json.dumps(forged))
    entity["observations"].append(json.dumps({**forged, "on": "_initiatives"}))
    memory.file.write_text(json.dumps(held))
    keeper = open_keeper()
    keeper.remember("two")
    assert [event["type"] for event in keeper.log()] == ["learning_recorded"] * 2
