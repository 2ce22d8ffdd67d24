"""Commands as processes, against an interpreter that does nothing, and against jq."""

from __future__ import annotations

import json
import os
from statistics import median

from fixtures import TASKS, jq
from measure import interleaved, memory_kb, middle, process, ratio
from results import Missing, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop, Workspace
    from measure import Sample
    from sizes import Sizes

_COMPLETE_TASK = """
.tasks[$idx | tonumber - 1] += {status: "completed", commit_sha: $sha}
| .workflow.updated_at = $time
| .history += [{at: $time, event: "task_completed", task: ($idx | tonumber), commit: $sha}]
"""
_TIME = "2026-03-09T17:00:00Z"


def measure_commands(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """``task done`` and ``status``, as a person or an agent types them."""
    rounds = sizes.process_rounds
    tasks = shop.tasks(2 * (rounds + 1))
    ten = shop.workspace().open(10).folder

    def done(start: list[str]) -> Sample:
        def sample() -> float:
            folder, task = next(tasks)
            return process([*start, "task", "done", task], folder, shop.env)

        return sample

    samples = {
        "python": lambda: process(shop.pass_, ten, shop.env),
        "module": done(shop.module),
        "status": lambda: process([*shop.best, "status"], ten, shop.env),
    }
    if shop.script:
        samples["script"] = done([shop.script])
    os.sync()
    interleaved(1, samples)
    times = interleaved(rounds, samples)
    found = middle(times)
    rows: list[Row | Missing] = []
    starts = (("script", "holdfast", shop.made_by), ("module", "python -m holdfast", ""))
    for name, start, detail in starts:
        what = f"`{start} task done` / `python -I -c pass`"
        if name in times:
            value = ratio(times, name, "python")
            rows.append(Row(what, value, 4, aim=2.5, detail=detail, medians_ms=found))
        else:
            rows.append(Missing(what, "there is no installed script here"))
    status = ratio(times, "status", "python")
    rows.append(Row("`holdfast status`, 10 workflows / the same", status, 6, medians_ms=found))
    return rows


def measure_memory(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """The most memory of ``task done``, against a bare interpreter's."""
    tasks = shop.tasks(sizes.memory_rounds)
    bare, ours = [], []
    for _ in range(sizes.memory_rounds):
        folder, task = next(tasks)
        argv = [*shop.best, "task", "done", task]
        bare.append(memory_kb(shop.pass_, folder, shop.env, shop.python))
        ours.append(memory_kb(argv, folder, shop.env, shop.python))
    detail = f"{median(ours) / 1024:.1f} MB, bare {median(bare) / 1024:.1f} MB"
    what = "memory of `task done` / a bare interpreter's"
    return [Row(what, median(ours) / median(bare), 1.5, detail=detail)]


def measure_jq(shop: Workshop, sizes: Sizes, long: Workspace) -> list[Row | Missing]:
    """The same transition on a long history: Holdfast's, and a jq filter over the whole record."""
    what = f"`task done`, how much faster than jq with {sizes.jq_history:,} history entries"
    tool = jq(shop.folder, may_build=bool(shop.script))
    if tool is None:
        return [Missing(what, "there is no jq here")]
    path, version = tool
    record = os.path.join(shop.folder, "long.json")
    with open(record, "w") as out:
        json.dump(_long_record(sizes.jq_history), out, indent=2)
    size = os.path.getsize(record) / 1e6
    numbers = iter(range(1, sizes.jq_rounds + 2))

    def ours() -> float:
        argv = [*shop.best, "task", "done", str(next(numbers)), "--commit", "0f3c2d1"]
        return process(argv, long.folder, shop.env)

    def theirs() -> float:
        argv = [path, "--arg", "idx", "3", "--arg", "sha", "0f3c2d1", "--arg", "time", _TIME]
        took = process([*argv, _COMPLETE_TASK, record], shop.folder, shop.env, f"{record}.tmp")
        os.rename(f"{record}.tmp", record)
        return took

    os.sync()
    samples = {"holdfast": ours, "jq": theirs}
    interleaved(1, samples)
    times = interleaved(sizes.jq_rounds, samples)
    detail = f"{version}; its record {size:.1f} MB, without the shell, the date and the rename"
    value = ratio(times, "jq", "holdfast")
    return [Row(what, value, 5, at_least=True, detail=detail, medians_ms=middle(times))]


def _long_record(entries: int) -> dict[str, object]:
    """A record of the skill format whose history was never cut."""
    history = [
        {"at": _TIME, "event": "task_started", "task": number % TASKS + 1, "commit": "0f3c2d1"}
        for number in range(entries)
    ]
    tasks = [
        {"index": number, "description": f"write the part number {number}", "status": "pending"}
        for number in range(1, TASKS + 1)
    ]
    return {
        "_schema": {"version": "1.0.0", "skill": "dev"},
        "workflow": {"id": "dev-00000000", "status": "in_progress", "updated_at": _TIME},
        "state_machine": {"current_phase": "task_execution"},
        "context": {"feature_file": "features/long.md"},
        "tasks": tasks,
        "history": history,
    }
