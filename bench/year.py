"""A year of twenty agents, and what must not grow with it.

Both workspaces have the same worktrees, the same active workflows and one of every log. The large
one also has the history of a year: workflows of four recipes that ended, each with the events that
the real keeper records for it, and entries of every log.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from itertools import count, islice

from fixtures import REASON, TASKS, Unsynced, turns_of
from hookruns import SESSION, hook_sample
from measure import interleaved, middle, process, ratio
from results import Row

from holdfast import Initiatives, Keeper, Loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fixtures import Workshop, Workspace
    from measure import Sample
    from results import Missing
    from sizes import Sizes

AGENTS = 20
FLAT = 1.2
_RECIPES = ("dev", "tdd", "planning")
_ACTIVE_PER_AGENT = 2
_AT_ONCE = 200
_MINUTE_MS = 60_000
_YEAR_MS = 365 * 24 * 60 * _MINUTE_MS
_BEGIN_MS = 1_780_000_000_000
_SETTINGS = 'enforce = ["stop"]\n'
_READING = "docs/rules.md"


@dataclass
class Template:
    """What the keeper records for one workflow, from its start to its end."""

    workflow: str
    subject: str
    text: str

    def copy(self, number: int) -> tuple[str, list[dict]]:
        """Return id and events of another workflow that went the same way."""
        agent = number % AGENTS
        own = self.text.replace(self.workflow, f"{self.workflow}-{number:05}")
        own = own.replace(self.subject, f"{self.subject}-{number:05}")
        own = own.replace('"branch": "main"', f'"branch": "agent-{agent}/{number:05}"')
        own = own.replace('"worktree": "."', f'"worktree": "agent-{agent}"')
        own = own.replace("session-of-year", f"session-{number // 3:05}")
        return f"{self.workflow}-{number:05}", json.loads(own)


class Clock:
    """The time of the simulated year, which the generator moves on."""

    def __init__(self) -> None:
        self.now_ms = _BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms


def make_team(work: Workspace) -> list[str]:
    """Give every agent a worktree with active workflows, and open every log; return the folders."""
    os.makedirs(os.path.join(work.folder, "docs"))
    for path, text in ((_READING, "# Rules\n"), (".claude/holdfast.toml", _SETTINGS)):
        full = os.path.join(work.folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as file:
            file.write(text)
    folders = [work.folder]
    for number in range(1, AGENTS):
        folder = f"{work.folder}-agent-{number}"
        words = ["worktree", "add", "-q", "-b", f"agent-{number}", folder]
        subprocess.run(["git", "-C", work.folder, *words], check=True)
        folders.append(folder)
    tasks = [f"write the part number {task}" for task in range(1, TASKS + 1)]
    for number, folder in enumerate(folders):
        for feature in range(_ACTIVE_PER_AGENT):
            session = SESSION if (number, feature) == (0, 0) else f"agent-{number}-{feature}"
            keeper = Keeper(folder, session=session, disk=Unsynced())
            reading = [f"@{_READING}"]
            state = keeper.start("dev", f"now/{number}-{feature}.md", tasks=tasks, reading=reading)
            if session == SESSION:
                work.ids.append(state.state["id"])
    _log(Keeper(work.folder, disk=Unsynced()), 1)
    return folders


def _log(keeper: Keeper, number: int) -> None:
    """Add an entry to every log."""
    keeper.remember(f"the build number {number} needs a clean cache")
    keeper.note_forge(f"key-{number}", "a line for the forge")
    keeper.interviews().record("dev", 0.9, questions=number % 10)
    keeper.delegations().record(f"agent-{number % AGENTS}", outcome="success", duration_ms=number)
    Initiatives(keeper).create(f"goal {number}", ["first", "second"])


def templates(shop: Workshop) -> list[Template]:
    """Return workflows of several recipes, and a loop, as the real keeper records them."""
    keeper = Keeper(shop.workspace().folder, session="session-of-year", disk=Unsynced())
    made = []
    for recipe in _RECIPES:
        texts = [f"write the part number {task} of the feature" for task in range(1, TASKS + 1)]
        subject = f"year/{recipe}"
        state = keeper.start(recipe, subject, tasks=texts).state
        for task in state["tasks"]:
            keeper.start_task(task["id"], workflow=state["id"])
            keeper.block_task(task["id"], REASON, workflow=state["id"])
            keeper.unblock_task(task["id"], workflow=state["id"])
        for note in range(5):
            keeper.remind(f"remember the point {note}", workflow=state["id"])
        keeper.complete(force=True, reason=REASON, workflow=state["id"])
        made.append(_template(keeper, state["id"], subject))
    loops = Loops(keeper)
    loops.new("year-loop", task="go on until it is done")
    for unit in range(1, TASKS + 1):
        loops.plan("year-loop", f"T{unit}: write the part number {unit}")
        loops.iterate(f"T{unit}", did="half of it", remaining="the other half", slug="year-loop")
    keeper.abandon(REASON, workflow="year-loop")
    return [*made, _template(keeper, "year-loop", "go on until it is done")]


def _template(keeper: Keeper, workflow: str, subject: str) -> Template:
    events = keeper.log(workflow=workflow)
    text = json.dumps([{"type": event["type"], "data": event["data"]} for event in events])
    return Template(workflow, subject, text)


def fill_year(work: Workspace, ways: list[Template], events: int, workflows: int) -> None:
    """Give a workspace the history of a year: so many events, in so many ended workflows."""
    clock = Clock()
    keeper = Keeper(work.folder, disk=Unsynced(), clock_ms=clock)
    with keeper.session.transaction():
        pass
    ledger = keeper.store.ledger
    ledger.database.execute("PRAGMA synchronous = OFF")
    numbers = iter(range(workflows))
    while batch := list(islice(numbers, _AT_ONCE)):
        with keeper.session.transaction() as tx:
            for number in batch:
                clock.now_ms = _BEGIN_MS + _YEAR_MS * number // workflows
                workflow, drafts = ways[number % len(ways)].copy(number)
                length = (events - ledger.head_seq) // (workflows - number)
                tx.append(workflow, list(_of_length(drafts, length)), None, show=False)
        _log(keeper, batch[0])


def _of_length(drafts: list[dict], length: int) -> Iterator[dict]:
    """Yield the events of a workflow, with as many reviews before its last as are missing."""
    *drafts, last = drafts
    yield from drafts
    for number in range(length - len(drafts) - 1):
        yield {"type": "context_set", "data": {"values": {f"review_{number % 5}": number}}}
    yield last


def measure_year(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure what agents do all the time, after a year and on the first day."""
    small, large = shop.workspace(), shop.workspace()
    for work in (small, large):
        make_team(work)
    events, workflows = sizes.year
    fill_year(large, templates(shop), events, workflows)
    grown = f"after a year ({events:,} events, {workflows:,} workflows) / on its first day"
    kinds = {
        "`task done` and `task reopen`": _done,
        "`task start` or `task block`": _changes,
        "a change with `--id` and its retry": _retried,
        "`start`": _starts,
        "`status`": lambda shop, work: _plain(shop, work, "status"),
        "`log --limit 20`": lambda shop, work: _plain(shop, work, "log", "--limit", "20"),
        **{f"hook {name}": _hook(name) for name in ("SessionStart", "Stop", "PostToolUse")},
    }
    samples = {
        f"{name} {size}": make(shop, work)
        for name, make in kinds.items()
        for size, work in (("small", small), ("large", large))
    }
    os.sync()
    interleaved(2, samples)
    times = interleaved(sizes.history_rounds, samples)
    medians = middle(times)
    return [
        Row(
            f"{name} {grown}", ratio(times, f"{name} large", f"{name} small"), FLAT,
            medians_ms={size: medians[f"{name} {size}"] for size in ("small", "large")},
        )
        for name in kinds
    ]  # fmt: skip


def _plain(shop: Workshop, work: Workspace, *words: str) -> Sample:
    return lambda: process([*shop.best, *words], work.folder, shop.env)


def _changes(shop: Workshop, work: Workspace) -> Sample:
    turns = turns_of(work.setup, work.ids[0])
    own = ["-w", work.ids[0]]
    return lambda: process([*shop.best, *next(turns), *own], work.folder, shop.env)


def _done(shop: Workshop, work: Workspace) -> Sample:
    """Return a sample of finishing the first task, and making it pending again."""
    own = ["1", "-w", work.ids[0]]
    lines = (["task", "done", *own, "--force", "--reason", REASON], ["task", "reopen", *own])
    return lambda: sum(process([*shop.best, *line], work.folder, shop.env) for line in lines)


def _retried(shop: Workshop, work: Workspace) -> Sample:
    """Return a sample of a request with an id, made twice: the second finds the first."""
    numbers = count()

    def sample() -> float:
        name = f"year-{os.getpid()}-{next(numbers)}"
        words = ["remind", name, "-w", work.ids[0], "--id", name]
        return sum(process([*shop.best, *words], work.folder, shop.env) for _ in range(2))

    return sample


def _starts(shop: Workshop, work: Workspace) -> Sample:
    numbers = count()

    def sample() -> float:
        session = f"opened-{os.getpid()}-{next(numbers)}"
        words = ["start", "dev", f"{session}.md", "--task", "one", "--session", session]
        return process([*shop.best, *words], work.folder, shop.env)

    return sample


def _hook(name: str) -> Callable[[Workshop, Workspace], Sample]:
    return lambda shop, work: hook_sample(shop, shop.hook, name, work.folder)
