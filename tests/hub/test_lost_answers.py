"""What a machine did not hear, as an answer of the hub was lost or it died, it hears later."""

import json
import os

import pytest

from holdfast.errors import Fault
from holdfast.hub import Sharing, exchange
from holdfast.hub.contract import unreachable
from simulation.world import World
from support.disks import Died

LEASE = "INSERT OR REPLACE INTO leases VALUES ('work-md', 'one', ?, 60, 0, 1)"


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, 2, is_fencing=True)
    with made.running():
        for _ in range(2):
            made.add_machine().join()
        yield made


def test_a_fenced_change_is_taken_back_also_if_the_answer_to_its_push_was_lost(world, monkeypatch):
    first, second = world.machines
    keeper = first.keeper_of("one")
    workflow = keeper.start("planning", "work.md").state["id"]
    first.sync()
    with keeper.session.transaction() as tx:
        tx.begin()
        epoch = world.hub.claim(workflow, "one", 60)
        tx.store.ledger.database.execute(LEASE, (epoch,))
    world.now_s += 61
    world.hub.claim(workflow, "two", 60)
    keeper.remind("made too late", workflow=workflow)
    push = world.hub.push

    def push_unheard(events):
        push(events)
        raise unreachable("memory", "the answer was lost")

    monkeypatch.setattr(world.hub, "push", push_unheard)
    with pytest.raises(Fault):
        first.sync()
    monkeypatch.undo()
    for machine in (first, second):
        machine.sync()
        assert machine.keeper.show(workflow=workflow).state["reminders"] == []
        assert [one["why"] for one in Sharing(machine.keeper).conflicts()] == [
            "its lease had been lost by then"
        ]


def test_a_machine_that_dies_after_it_took_in_an_edit_misses_no_event(world, monkeypatch):
    first, second = world.machines
    one, other = [second.keeper.start("dev", f"{name}.md").state for name in "ab"]
    second.sync()
    first.sync()
    for text, state in (("first", one), ("second", other), ("third", one)):
        first.keeper.remind(text, workflow=state["id"])
    first.sync()
    # The records of the last change are looked at before anything else; this one shall not be.
    second.keeper.set_context({"mine": 1}, workflow=one["id"])
    path = os.path.join(second.root, other["record"])
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    document["context"]["by hand"] = 1
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    merge = exchange.merge

    def merge_or_die(tx, stream, news, **options):
        if stream == other["id"]:
            tx.load(stream)
            raise Died
        return merge(tx, stream, news, **options)

    monkeypatch.setattr(exchange, "AT_ONCE", 10)
    monkeypatch.setattr(exchange, "merge", merge_or_die)
    with pytest.raises(Died):
        second.sync()
    monkeypatch.undo()
    second.reboot()
    second.sync()
    counts = [
        len(second.keeper.show(workflow=state["id"]).state["reminders"]) for state in (one, other)
    ]
    assert counts == [2, 1]
    assert second.keeper.show(workflow=other["id"]).state["context"]["by hand"] == 1
