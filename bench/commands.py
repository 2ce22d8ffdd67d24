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
    from measure import Sample, Times
    from sizes import Sizes

_COMPLETE_TASK = """
.tasks[$idx | tonumber - 1] += {status: "completed", commit_sha: $sha}
| .workflow.updated_at = $time
| .history += [{at: $time, event: "task_completed", task: ($idx | tonumber), commit: $sha}]
"""
_TIME = "2026-03-09T17:00:00Z"
_PASS = "`python -I -c pass`"


def measure_commands(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure ``task done`` and ``status``, as a person or an agent types them."""
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
    times = _warm(rounds, samples)
    medians = middle(times)
    rows: list[Row | Missing] = []
    what = f"`holdfast task done` / {_PASS}"
    if "script" in times:
        value = ratio(times, "script", "python")
        rows.append(Row(what, value, 3, aim=2.5, detail=shop.made_by, medians_ms=medians))
    else:
        rows.append(Missing(what, "there is no installed script here"))
    module = ratio(times, "module", "python")
    rows.append(Row(f"`python -m holdfast task done` / {_PASS}", module, medians_ms=medians))
    status = ratio(times, "status", "python")
    rows.append(Row(f"`holdfast status`, 10 workflows / {_PASS}", status, 6, medians_ms=medians))
    return rows


def measure_lookups(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure what an agent asks between two changes, with a loop and an initiative under way."""
    folder = shop.workspace().open(10).folder
    iterations = str(10 * (sizes.process_rounds + 1))
    shop.run(folder, "loop", "new", "long", "--outcome", "it works", "--done-when", "tests pass")
    for number in range(1, 6):
        unit = ["--unit", f"T{number}: part {number}", "--criteria", "it is there"]
        shop.run(folder, "loop", "plan", "long", *unit, "--max", iterations)
    milestones = [word for number in range(1, 6) for word in ("--milestone", f"M{number}: part")]
    shop.run(folder, "initiative", "create", "A goal of months", *milestones, "--files")
    shop.run(folder, "initiative", "start", "M1")
    iterate = ["loop", "iterate", "T1", "-w", "long", "--did", "a part", "--remaining", "the rest"]
    asked = {
        "loop next": ["loop", "next", "long"],
        "loop iterate": iterate,
        "initiative show": ["initiative", "show"],
        "context": ["context"],
        "": [],
        "resume": ["resume", "long"],
    }

    def sample(words: list[str]) -> Sample:
        return lambda: process([*shop.best, *words], folder, shop.env)

    samples = {"python": lambda: process(shop.pass_, folder, shop.env)}
    samples |= {name: sample(words) for name, words in asked.items()}
    times = _warm(sizes.process_rounds, samples)
    detail = "10 workflows, a loop of 5 units and an initiative of 5 milestones"
    return [
        Row(
            f"`{f'holdfast {name}'.strip()}` / {_PASS}", ratio(times, name, "python"), 4,
            detail=detail, medians_ms=middle(times),
        )
        for name in asked
    ]  # fmt: skip


def _warm(rounds: int, samples: dict[str, Sample]) -> Times:
    """Measure after a round that counts for nothing: it compiles, and fills caches."""
    os.sync()
    interleaved(1, samples)
    return interleaved(rounds, samples)


def measure_memory(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure the most memory of ``task done``, against a bare interpreter's."""
    tasks = shop.tasks(sizes.memory_rounds)
    bare, ours = [], []
    for _ in range(sizes.memory_rounds):
        folder, task = next(tasks)
        argv = [*shop.best, "task", "done", task]
        bare.append(memory_kb(shop.pass_, folder, shop.env, shop.python))
        ours.append(memory_kb(argv, folder, shop.env, shop.python))
    detail = f"{median(ours) / 1024:.1f} MB, bare {median(bare) / 1024:.1f} MB"
    what = "memory of `task done` / a bare interpreter's"
    return [Row(what, median(ours) / median(bare), detail=detail)]


def measure_jq(shop: Workshop, sizes: Sizes, long: Workspace) -> list[Row | Missing]:
    """Measure a transition on a long history against a jq filter over the whole record."""
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
        argv = [*shop.best, "task", "done", str(next(numbers)), "--commit", "HEAD"]
        return process(argv, long.folder, shop.env)

    def theirs() -> float:
        argv = [path, "--arg", "idx", "3", "--arg", "sha", "0f3c2d1", "--arg", "time", _TIME]
        took = process([*argv, _COMPLETE_TASK, record], shop.folder, shop.env, f"{record}.tmp")
        os.rename(f"{record}.tmp", record)
        return took

    times = _warm(sizes.jq_rounds, {"holdfast": ours, "jq": theirs})
    detail = f"{version}; its record {size:.1f} MB, without the shell, the date and the rename"
    value = ratio(times, "jq", "holdfast")
    return [Row(what, value, 5, at_least=True, detail=detail, medians_ms=middle(times))]


def _long_record(entries: int) -> dict[str, object]:
    """Return a record of the skill format whose history was never cut."""
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
