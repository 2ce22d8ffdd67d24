"""Promise 16, for real: eight machines over a bare git remote, each with a folder and a home of its
own. Writers are killed, and so are exchanges; what was acknowledged is everywhere, once.
"""

import os
import random
import subprocess
import sys
import threading
from collections import Counter

import pytest

from holdfast import Keeper, Refused
from holdfast.storage.shared_events import SharedEvents
from promises.writers import ENVIRONMENT, Lane, check_found_once, check_history
from support.machines import Machine, exchange_until_quiet, git
from support.workshop import SEED, many

pytestmark = pytest.mark.promise(16)

MACHINES = 8
COMMANDS = many(4, 60)
"""So many commands a machine sends."""


class Exchanger:
    """Exchanges of a machine, one after another; many of them are killed on the way."""

    def __init__(self, root, home, seed):
        self._root, self._home, self._lots = root, home, random.Random(seed)
        self._is_over = threading.Event()
        self.done = self.killed = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self):
        self._is_over.set()
        self._thread.join()

    def _run(self):
        command = [sys.executable, "-m", "holdfast", "hub", "sync", "--json"]
        env = {**ENVIRONMENT, "HOME": self._home}
        while not self._is_over.is_set():
            null = subprocess.DEVNULL
            process = subprocess.Popen(command, cwd=self._root, env=env, stdout=null, stderr=null)
            timer = threading.Timer(self._lots.uniform(0.05, 1.5), process.kill)
            timer.start()
            code = process.wait()
            timer.cancel()
            self.killed += code == -9
            self.done += code == 0


def test_eight_machines_over_a_git_remote(tmp_path, tally):
    remote = tmp_path / "hub.git"
    git("init", "-q", "--bare", str(remote))
    machines = [Machine(tmp_path / f"m{n}", f"m{n}", remote) for n in range(MACHINES)]
    homes = [str(tmp_path / f"home-{n}") for n in range(MACHINES)]
    for home in homes:
        os.mkdir(home)
    first = machines[0].keeper.start("custom", "Port it", tasks=["The reader"], phases=["work"])
    workflow = first.state["id"]
    for machine in machines:
        machine.share()
    # All do the same task before they hear of each other: one of them did it, the others conflict.
    for machine in machines:
        machine.keeper.complete_task(1, workflow=workflow, id=f"task-{machine.name}")
    lanes = [
        Lane(str(tmp_path), str(m.folder), n, workflow, COMMANDS, SEED, by="library", home=homes[n])
        for n, m in enumerate(machines)
    ]
    exchangers = [Exchanger(str(m.folder), homes[n], f"{SEED}-{n}") for n, m in enumerate(machines)]
    for lane in lanes:
        lane.join()
    for exchanger in exchangers:
        exchanger.stop()
    rounds = exchange_until_quiet(machines)
    for machine, lane in zip(machines, lanes, strict=True):
        events = Keeper(str(machine.folder)).log()
        own = [event for event in events if event["type"] != "events_merged"]
        check_found_once(list(lane.attempts.values()), own)
        check_history(events)
    acknowledged = {
        name for lane in lanes for name, one in lane.attempts.items() if one.seqs is not None
    } | {f"task-{machine.name}" for machine in machines}
    check_everywhere(machines, workflow, acknowledged)
    tally(
        "machines over git",
        machines=MACHINES,
        acknowledged=len(acknowledged),
        killed=sum(lane.kills for lane in lanes) + sum(e.killed for e in exchangers),
        exchanges=sum(e.done for e in exchangers),
        rounds=rounds,
    )


def check_everywhere(machines, workflow, acknowledged):
    """What was acknowledged is on every machine once, and makes the same state on all of them."""
    digests, states = set(), []
    for machine in machines:
        ledger = machine.keeper.store.ledger
        causes = Counter(
            event["cause"]["id"].partition("@")[0]
            for event in SharedEvents(ledger).of_stream(workflow)
        )
        assert acknowledged <= set(causes), machine.name
        assert set(causes.values()) == {1}, machine.name
        digests.add(str(machine.digests()))
        state = machine.keeper.show(workflow=workflow).state
        states.append((state["context"]["n"], state["tasks"][0]["status"]))
        conflicts = machine.sharing.conflicts()
        done_twice = [one for one in conflicts if one["command"] == "complete task 1"]
        assert len(done_twice) == len(machines) - 1, conflicts
        values = [one for one in conflicts if one not in done_twice]
        assert {one["why"] for one in values} <= {"context.n was changed as well"}
        report = machine.keeper.verify(everything=True)
        assert [line for line in report.lines if line["level"] == "error"] == []
        with pytest.raises(Refused):
            machine.sharing.take(done_twice[0]["id"])
    assert len(digests) == 1
    assert len(set(states)) == 1
