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
    history_rounds: int
    workflows: tuple[int, ...]
    writers: int
    per_writer: int
    writer_rounds: int
    graph_entities: tuple[int, ...]
    graph_rounds: int


FULL = Sizes(
    name="full",
    process_rounds=40,
    memory_rounds=5,
    jq_history=40_000,
    jq_rounds=15,
    transition_rounds=60,
    block=10,
    events=(100, 1_000, 10_000, 100_000),
    history_rounds=30,
    workflows=(10, 100, 1_000, 10_000),
    writers=8,
    per_writer=150,
    writer_rounds=5,
    graph_entities=(100, 1_000, 10_000, 50_000),
    graph_rounds=15,
)
QUICK = Sizes(
    name="quick",
    process_rounds=15,
    memory_rounds=3,
    jq_history=40_000,
    jq_rounds=7,
    transition_rounds=25,
    block=8,
    events=(100, 4_000, 40_000),
    history_rounds=12,
    workflows=(10, 100, 1_000),
    writers=8,
    per_writer=60,
    writer_rounds=3,
    graph_entities=(100, 1_000, 10_000),
    graph_rounds=7,
)
TINY = Sizes(
    name="tiny",
    process_rounds=2,
    memory_rounds=1,
    jq_history=200,
    jq_rounds=2,
    transition_rounds=2,
    block=2,
    events=(30, 60),
    history_rounds=2,
    workflows=(2, 5),
    writers=2,
    per_writer=3,
    writer_rounds=1,
    graph_entities=(20,),
    graph_rounds=2,
)
