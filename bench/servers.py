"""One ``holdfast mcp`` over many calls: its memory, and what a call costs beside its change."""

from __future__ import annotations

import os
import sys
from statistics import median

from fixtures import REASON, ROOT, swinging
from measure import resident_kb, timed
from results import Missing, Row

sys.path.append(os.path.join(ROOT, "e2e"))
from reference import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop
    from sizes import Sizes

_COMPARED_CALLS = 50


def measure_server(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure a server that is asked by one client, call after call."""
    calls_made = f"after {sizes.server_calls:,} calls / after {sizes.first_calls}"
    what = f"memory of `holdfast mcp` {calls_made}"
    if not os.path.exists("/proc/self/status"):
        return [Missing(what, "the system does not say how much memory a process has")]
    work = shop.workspace().open(10)
    task = work.setup.show(workflow=work.ids[0]).state["tasks"][-1]["id"]
    aim = {"workflow": work.ids[0], "task": task}
    turns = (
        {"name": "task", "arguments": {"action": "start", **aim}},
        {"name": "task", "arguments": {"action": "block", "reason": REASON, **aim}},
        {"name": "status", "arguments": {}},
    )
    os.chdir(work.folder)
    server = Server([*shop.best, "mcp"], shop.env)
    pid = server._process.pid  # noqa: SLF001 - the client has no other use for it
    swing = swinging(work.keeper(), work.ids[1])
    calls, changes = [], []
    first_kb = 0
    try:
        for number in range(sizes.server_calls):
            turn = turns[number % len(turns)]
            took = timed(lambda turn=turn: _call(server, turn))
            if turn["name"] == "task" and len(calls) < _COMPARED_CALLS:
                calls.append(took)
                changes.append(timed(swing))
            if number + 1 == sizes.first_calls:
                first_kb = resident_kb(pid)
        last_kb = resident_kb(pid)
    finally:
        server.close()
    pairs = zip(calls, changes, strict=True)
    detail = f"{last_kb / 1024:.1f} MB, {first_kb / 1024:.1f} MB"
    return [
        Row(what, last_kb / first_kb, 1.3, detail=detail),
        Row(
            "a call of `holdfast mcp` / the same transition in process",
            median(call / change for call, change in pairs),
            medians_ms={"call": median(calls) * 1_000, "in process": median(changes) * 1_000},
        ),
    ]


def _call(server: Server, turn: dict) -> None:
    answer = server.request("tools/call", turn)
    if answer.get("result", {"isError": True}).get("isError"):
        raise RuntimeError(f"the server refused {turn}: {answer}")
