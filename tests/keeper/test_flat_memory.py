"""A process that lives long, such as a server, keeps no more than it needs for its next call."""

import gc
import tracemalloc

import pytest

from holdfast.core import json_text
from support.workshop import Workshop

BIG = {"big": ["x" * 1_000] * 200}
"""A context of 200 KB."""


def take_a_turn(keeper, number):
    """Open a workflow, change it and look at it, and end it."""
    state = keeper.start("dev", f"work {number}", tasks=["a", "b"], context=BIG).state
    keeper.remind("mind the gap", workflow=state["id"])
    keeper.start_task(1, workflow=state["id"])
    keeper.show(workflow=state["id"])
    keeper.abandon("done", workflow=state["id"])


@pytest.fixture
def keeper(tmp_path):
    return Workshop(tmp_path).keeper()


def test_a_library_that_stays_open_keeps_at_most_half_as_much_more(keeper):
    tracemalloc.start()
    try:
        for number in range(4):
            take_a_turn(keeper, number)
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        for number in range(4, 40):
            take_a_turn(keeper, number)
        gc.collect()
        last = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert last < 1.5 * first + 500_000


def test_what_is_remembered_between_calls_is_bounded_by_its_size(keeper):
    for number in range(12):
        take_a_turn(keeper, number)
    ledger, files = keeper.store.ledger, keeper.store.files
    streams = sum(len(json_text.dumps(s.state)) for _, s in ledger._stream_cache.values())
    records = sum(len(data) for _, data in files._written.values())
    assert 0 < streams < 1_500_000
    assert 0 < records < 1_500_000


def test_a_keeper_whose_ledger_another_one_took_over_keeps_no_records(tmp_path):
    """A server opens one for each call; they wait for the collector, which counts no bytes."""
    shop = Workshop(tmp_path)
    first = shop.keeper()
    take_a_turn(first, 1)
    assert first.store.files._written
    second = shop.keeper(share=first)
    assert not first.store.files._written
    take_a_turn(second, 2)
    take_a_turn(first, 3)


def test_texts_of_large_entries_are_not_all_kept():
    memo = json_text.TextMemo(lambda value, _indent: [value[0]])
    for number in range(20):
        memo.of_all([[f"{number}" * 100_000]])
    assert sum(map(len, memo._texts.values())) < 1_000_000
    assert len(memo._objects) == len(memo._texts)


def test_folders_that_were_checked_are_forgotten_in_time(keeper):
    workspace = keeper.workspace
    for number in range(1_000):
        workspace.inside(workspace.root, f"untracked/workflow-state/{number}/state-{number}.json")
    assert len(workspace._contained_folders) <= 100
