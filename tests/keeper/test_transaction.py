"""``keeper.transaction``: several commands on one workflow that happen together or not at all."""

import pytest

from holdfast.errors import Refused
from support.workshop import types


def start_and_complete(keeper, started, completed):
    with keeper.transaction() as tx:
        tx.decide("start_task", task=started)
        tx.decide("complete_task", task=completed)
        return tx.commit()


def test_commands_of_one_transaction_are_one_commit(dev_shop):
    keeper = dev_shop.keeper()
    with keeper.transaction() as tx:
        assert tx.load()["tasks"][0]["status"] == "pending"
        tx.decide("start_task", task=1)
        tx.decide("complete_task", task=1)
        receipt = tx.commit()
    assert len(receipt.seqs) == 2
    assert receipt.state["tasks"][0]["status"] == "completed"
    assert types(dev_shop.keeper())[-2:] == ["task_started", "task_completed"]
    assert dev_shop.document(receipt.state["record"])["tasks"][0]["status"] == "completed"


def test_a_refusal_undoes_what_was_decided_before_it(dev_shop):
    before = types(dev_shop.keeper())
    with pytest.raises(Refused):
        start_and_complete(dev_shop.keeper(), 1, 9)
    assert types(dev_shop.keeper()) == before
    assert dev_shop.keeper().show().state["tasks"][0]["status"] == "pending"


def test_the_same_id_is_applied_once(dev_shop):
    seqs = []
    for _ in range(3):
        with dev_shop.keeper().transaction(id="once") as tx:
            tx.decide("start_task", task=1)
            tx.decide("complete_task", task=1)
            seqs.append(tx.commit().seqs)
    assert seqs[0] == seqs[1] == seqs[2]
    assert types(dev_shop.keeper()).count("task_completed") == 1


def test_a_second_transaction_of_a_keeper_waits_for_no_lock_of_its_own(dev_shop):
    keeper = dev_shop.keeper()
    with keeper.transaction() as tx:
        tx.decide("start_task", task=1)
        tx.commit()
    with keeper.transaction() as tx:
        tx.decide("complete_task", task=1)
        tx.commit()
    assert keeper.verify().ok
