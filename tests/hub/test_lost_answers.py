"""What a machine did not hear, because an answer of the hub was lost, it hears later."""

import pytest

from holdfast.errors import Fault
from holdfast.hub import Sharing
from holdfast.hub.contract import unreachable
from simulation.world import World

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
