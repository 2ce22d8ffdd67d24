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
    few_events: int
    many_events: int
    history_rounds: int
    few_workflows: int
    many_workflows: int
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
    few_events=100,
    many_events=100_000,
    history_rounds=30,
    few_workflows=10,
    many_workflows=10_000,
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
    few_events=100,
    many_events=40_000,
    history_rounds=12,
    few_workflows=10,
    many_workflows=1_000,
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
    few_events=30,
    many_events=60,
    history_rounds=2,
    few_workflows=2,
    many_workflows=5,
    writers=2,
    per_writer=3,
    writer_rounds=1,
    graph_entities=(20,),
    graph_rounds=2,
)
