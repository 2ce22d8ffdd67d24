"""How much is measured: whole, quickly, or just enough to see that the bench itself works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    name: str
    process_rounds: int
    memory_rounds: int
    jq_history: int
    jq_rounds: int
    transition_rounds: int
    block: int
    """How many short calls make one sample."""
    events: tuple[int, ...]
    """The lengths of histories, from few to many."""
    compared_events: int
    """The history whose memory the longest one is compared with."""
    history_rounds: int
    pass_rounds: int
    """How often the longest history is read from its first event to its last."""
    workflows: tuple[int, ...]
    """How many workflows are active, from few to many; as many have ended."""
    year: tuple[int, int]
    """The events and the ended workflows of a year of twenty agents."""
    writers: int
    per_writer: int
    writer_rounds: int
    tree_files: int
    tree_rounds: int
    server_calls: int
    first_calls: int
    """After how many calls a server's memory is measured first."""
    graph_entities: tuple[int, ...]
    graph_rounds: int
    shared_events: int
    """The events that a new replica takes in."""


FULL = Sizes(
    name="full",
    process_rounds=40,
    memory_rounds=5,
    jq_history=40_000,
    jq_rounds=15,
    transition_rounds=60,
    block=10,
    events=(100, 10_000, 100_000, 1_000_000),
    compared_events=10_000,
    history_rounds=25,
    pass_rounds=3,
    workflows=(10, 100, 1_000, 10_000),
    year=(1_000_000, 20_000),
    writers=8,
    per_writer=150,
    writer_rounds=5,
    tree_files=100_000,
    tree_rounds=9,
    server_calls=1_500,
    first_calls=50,
    graph_entities=(100, 1_000, 10_000, 50_000),
    graph_rounds=15,
    shared_events=100_000,
)
QUICK = Sizes(
    name="quick",
    process_rounds=15,
    memory_rounds=3,
    jq_history=40_000,
    jq_rounds=7,
    transition_rounds=25,
    block=8,
    events=(100, 10_000, 100_000),
    compared_events=10_000,
    history_rounds=9,
    pass_rounds=3,
    workflows=(10, 100, 2_000),
    year=(100_000, 2_000),
    writers=8,
    per_writer=60,
    writer_rounds=3,
    tree_files=20_000,
    tree_rounds=5,
    server_calls=1_500,
    first_calls=50,
    graph_entities=(100, 1_000, 10_000),
    graph_rounds=7,
    shared_events=20_000,
)
TINY = Sizes(
    name="tiny",
    process_rounds=2,
    memory_rounds=1,
    jq_history=200,
    jq_rounds=2,
    transition_rounds=2,
    block=2,
    events=(30, 300),
    compared_events=30,
    history_rounds=2,
    pass_rounds=1,
    workflows=(2, 5),
    year=(1_500, 20),
    writers=2,
    per_writer=3,
    writer_rounds=1,
    tree_files=50,
    tree_rounds=2,
    server_calls=20,
    first_calls=5,
    graph_entities=(20,),
    graph_rounds=2,
    shared_events=100,
)
