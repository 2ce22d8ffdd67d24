"""``holdfast mcp memory`` against the reference Memory server: one client, pipes, in turn."""

from __future__ import annotations

import json
import os
import random
import sys
from functools import partial

from fixtures import ROOT
from measure import interleaved, middle, ratio, timed
from results import Missing, Row

from holdfast.layers.graph.memory_graph import DATABASE_SUFFIX
from holdfast.layers.graph.store import GraphStore

sys.path.append(os.path.join(ROOT, "e2e"))
from reference import Server, reference, why_unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fixtures import Workshop
    from sizes import Sizes

    Ask = Callable[[Server], object]

AT_LEAST = {"create": 100, "add": 100, "search": 50, "open": 100}
"""How many times as fast as the reference, with as many entities as the budget names."""
AIMS = {"read_graph": 1}
BUDGETED = 50_000
READ_ROUNDS = 3
FEW = 20


def measure_graph(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    why = why_unavailable()
    if why is not None:
        return [Missing("the graph against the reference Memory server", why)]
    begun = os.path.join(shop.folder, "graph-start")
    os.makedirs(begun)
    rows: list[Row | Missing] = [_started(begun, sizes.graph_rounds)]
    for number in sizes.graph_entities:
        folder = os.path.join(shop.folder, f"graph-{number}")
        os.makedirs(folder)
        rows += _measured(folder, number, sizes.graph_rounds)
    return rows


def _measured(folder: str, number: int, rounds: int) -> list[Row | Missing]:
    servers = _filled(folder, number)
    try:
        rows = []
        for what, ask in _questions(number).items():
            turns = min(rounds, READ_ROUNDS) if what == "read_graph" else rounds
            samples = {name: _sample(server, ask) for name, server in servers.items()}
            times = interleaved(turns, samples)
            is_budgeted = number >= BUDGETED
            faster = ratio(times, "reference", "ours")
            told = ", ".join(f"{name} {ms:.2f} ms" for name, ms in middle(times).items())
            rows.append(
                Row(
                    f"graph of {number:,} entities, {what}: reference / ours",
                    faster,
                    AT_LEAST.get(what) if is_budgeted else None,
                    at_least=True,
                    aim=AIMS.get(what) if is_budgeted else None,
                    detail=told,
                    medians_ms=middle(times),
                )
            )
        return rows
    finally:
        for server in servers.values():
            server.close()


def _sample(server: Server, ask: Ask) -> Callable[[], float]:
    return lambda: timed(lambda: ask(server))


def _entity(number: int) -> dict:
    return {
        "name": f"entity-{number}",
        "entityType": "Note",
        "observations": [
            f"observation {number} is about the part {number % 97} of the system",
            f"it was written by the agent {number % 13} and read by nobody",
        ],
    }


def _filled(folder: str, number: int) -> dict[str, Server]:
    """Both servers with the same entities, and a relation for every tenth of them."""
    entities = [_entity(one) for one in range(number)]
    relations = [
        {"from": f"entity-{one}", "to": f"entity-{one // 2}", "relationType": "follows"}
        for one in range(0, number, 10)
    ]
    theirs, ours = (
        os.path.join(folder, "theirs.jsonl"),
        os.path.join(folder, f"ours{DATABASE_SUFFIX}"),
    )
    with open(theirs, "w", encoding="utf-8") as file:
        lines = [{"type": "entity", **one} for one in entities]
        lines += [{"type": "relation", **one} for one in relations]
        file.write("\n".join(json.dumps(line) for line in lines))
    with GraphStore(ours) as store:
        store.create_entities(entities)
        store.create_relations(relations)
    return {"reference": reference(theirs), "ours": _ours(ours)}


def _ours(path: str) -> Server:
    """Our server on the database beside a file that is not there."""
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src")}
    environment["MEMORY_FILE_PATH"] = path.removesuffix(DATABASE_SUFFIX)
    return Server([sys.executable, "-m", "holdfast", "mcp", "memory"], environment)


def _started(folder: str, rounds: int) -> Row:
    """From the start of the process to the answer of the first call, over a few entities."""
    for server in _filled(folder, FEW).values():
        server.close()
    makers = {
        "reference": lambda: reference(os.path.join(folder, "theirs.jsonl")),
        "ours": lambda: _ours(os.path.join(folder, f"ours{DATABASE_SUFFIX}")),
    }

    def sample(make: Callable[[], Server]) -> float:
        servers: list[Server] = []

        def begin() -> None:
            servers.append(make())
            servers[0].call("open_nodes", ["entity-1"])

        took = timed(begin)
        servers[0].close()
        return took

    times = interleaved(rounds, {name: partial(sample, make) for name, make in makers.items()})
    return Row(
        "Memory server, start to first answer: reference / ours",
        ratio(times, "reference", "ours"),
        1,
        at_least=True,
        detail=", ".join(f"{name} {ms:.0f} ms" for name, ms in middle(times).items()),
        medians_ms=middle(times),
    )


def _questions(number: int) -> dict[str, Ask]:
    """What is asked, of another entity each time; both have their own, but as many of them."""
    chance = random.Random(7)
    fresh = iter(range(number, 10**9))

    def one() -> int:
        return chance.randrange(number)

    def entity() -> list[dict]:
        return [_entity(next(fresh))]

    def addition() -> list[dict]:
        return [{"entityName": f"entity-{one()}", "contents": [f"added {next(fresh)}"]}]

    return {
        "create": lambda server: server.call("create_entities", entity()),
        "add": lambda server: server.call("add_observations", addition()),
        "search": lambda server: server.call("search_nodes", f"Observation {one()} is"),
        "open": lambda server: server.call("open_nodes", [f"entity-{one()}"]),
        "read_graph": lambda server: server.call("read_graph"),
    }
