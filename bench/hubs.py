"""What sharing costs: local commands with a hub, an exchange, an append, a new replica."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import count
from time import perf_counter

from measure import interleaved, middle, process, ratio, timed
from results import Missing, Row

from holdfast.hub import Sharing
from holdfast.hub.contract import GIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop, Workspace
    from measure import Sample
    from sizes import Sizes

    from holdfast.keeper import Keeper

_LOCAL_LIMIT = 1.05
_EXCHANGE_LIMIT = 2
_IMPORT_LIMIT_S = 60
_WHOLE = 100_000
"""The number of events that the limit is for."""
_AT_ONCE = 1_000
_OF_ONE = 2_000
"""The number of events of one workflow."""


def measure_hubs(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure what sharing adds to local commands, and what an exchange takes."""
    remote = os.path.join(shop.folder, "hub.git")
    subprocess.run(["git", "init", "-q", "--bare", remote], check=True)
    shared, alone = shop.workspace().open(10), shop.workspace().open(10)
    _share(shared, remote, "desk")
    return [
        *_local(shop, sizes, shared, alone),
        *_exchanges(shop, sizes, shared, remote),
        *_new_replica(shop, sizes),
    ]


def _share(work: Workspace, remote: str, name: str) -> None:
    sharing = Sharing(work.keeper())
    sharing.add(sharing.plan(GIT, remote, name))


def _local(
    shop: Workshop, sizes: Sizes, shared: Workspace, alone: Workspace
) -> list[Row | Missing]:
    """Measure the same commands in a repository with a hub, and in one without."""
    numbers = count()

    def change(work: Workspace) -> Sample:
        words = [*shop.best, "set", "-w", work.ids[0]]
        return lambda: process([*words, f"n={next(numbers)}"], work.folder, shop.env)

    def look(work: Workspace) -> Sample:
        return lambda: process([*shop.best, "status"], work.folder, shop.env)

    rows: list[Row | Missing] = []
    for name, sample in {"set": change, "status": look}.items():
        samples = {"shared": sample(shared), "alone": sample(alone)}
        interleaved(1, samples)
        times = interleaved(sizes.process_rounds, samples)
        value = ratio(times, "shared", "alone")
        what = f"`holdfast {name}` with a hub / without"
        rows.append(Row(what, value, _LOCAL_LIMIT, medians_ms=middle(times)))
    return rows


def _exchanges(shop: Workshop, sizes: Sizes, shared: Workspace, remote: str) -> list[Row | Missing]:
    """Measure an exchange that finds nothing to do, against git's own look at the same remote."""
    mirror = os.path.join(shop.folder, "mirror.git")
    subprocess.run(["git", "init", "-q", "--bare", mirror], check=True)
    git = shutil.which("git") or "git"
    fetch = [git, "fetch", "-q", remote, "+refs/holdfast/v1/*:refs/holdfast/v1/*"]
    sharing = Sharing(shared.keeper())
    samples = {
        "git fetch": lambda: process(fetch, mirror, shop.env),
        "exchange": lambda: timed(sharing.sync),
        "hub sync": lambda: process([*shop.best, "hub", "sync"], shared.folder, shop.env),
    }
    interleaved(1, samples)
    times = interleaved(sizes.process_rounds, samples)
    medians = middle(times)
    what = "an exchange with nothing to do / `git fetch`"
    value = ratio(times, "exchange", "git fetch")
    whole = ratio(times, "hub sync", "git fetch")
    return [
        Row(what, value, _EXCHANGE_LIMIT, medians_ms=medians),
        Row("the same as a command, `holdfast hub sync`", whole, medians_ms=medians),
    ]


def _new_replica(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure how long a new replica takes for a long history."""
    remote = os.path.join(shop.folder, "long.git")
    subprocess.run(["git", "init", "-q", "--bare", remote], check=True)
    desk, laptop = shop.workspace().open(1), shop.workspace()
    _share(desk, remote, "desk")
    _remember(desk.setup, desk.ids[0], sizes.shared_events)
    Sharing(desk.keeper()).sync()
    sharing = Sharing(laptop.keeper())
    plan = sharing.plan(GIT, remote, "laptop")
    begun = perf_counter()
    done = sharing.add(plan)
    took = perf_counter() - begun
    what = f"a new replica takes in {done.pulled:,} events"
    is_whole = done.pulled >= _WHOLE
    return [Row(what, took, _IMPORT_LIMIT_S if is_whole else None, unit="s")]


def _remember(keeper: Keeper, workflow: str, events: int) -> None:
    """Make so many events of shared work."""
    made = 0
    while made < events:
        if made % _OF_ONE == 0:
            workflow = keeper.start("dev", f"features/long-{made}.md", title="Long").state["id"]
        with keeper.transaction(workflow) as tx:
            for number in range(min(_AT_ONCE, events - made)):
                tx.decide("set_context", values={f"key {number % 20}": made + number})
            tx.commit()
        made += _AT_ONCE
