"""Promise 16, for real: agents on four machines share the work of one pool over a PostgreSQL, and
many of them are killed. No work is held twice, none is lost, and each is completed once.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

from holdfast import Sharing
from holdfast.core import sharing
from holdfast.formats import aggregate_of
from holdfast.storage.shared_events import SharedEvents
from promises.writers import ENVIRONMENT, check_history
from support.machines import Machine, exchange_until_quiet
from support.paths import SOURCE, TESTS
from support.postgres import Unavailable, shared_server
from support.workshop import IS_SAMPLE, PATIENCE_S, SEED

pytestmark = pytest.mark.promise(16)

MACHINES = 4
AGENTS, WORKFLOWS = (8, 4) if IS_SAMPLE else (32, 150)
FATES = (0.4, 0.3, 0.3)
"""How many of the processes are killed, are stopped for longer than a lease, and are left alone."""
PAUSE_S = 6


class Agent:
    """An agent, whose processes come one after another as they are killed."""

    def __init__(self, root, home, name):
        self._root, self._home, self._name = root, home, name
        self._lots = random.Random(f"{SEED}-{name}")
        self.lines = []
        self.killed = self.paused = 0
        self.raised = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self):
        self._thread.join()
        if self.raised is not None:
            raise self.raised

    def _run(self):
        try:
            lives = 0
            while self._live(lives):
                lives += 1
        except BaseException as error:  # noqa: BLE001 - raised again by join
            self.raised = error

    def _live(self, number):
        """Run one process; return whether it was killed."""
        name = f"{self._name}-{number}"
        path = os.pathsep.join([SOURCE, TESTS])
        process = subprocess.Popen(
            [sys.executable, "-m", "promises.fleet", self._root, name],
            env={**ENVIRONMENT, "PYTHONPATH": path, "HOME": self._home},
            stdout=subprocess.PIPE,
        )
        fate = self._lots.choices((process.kill, self._pause(process), None), FATES)[0]
        timer = threading.Timer(self._lots.uniform(0.3, 6), fate or (lambda: None))
        timer.start()
        out, _ = process.communicate(timeout=5 * PATIENCE_S)
        timer.cancel()
        self.lines += [json.loads(line) for line in out.split(b"\n")[:-1]]
        assert process.returncode in (0, -9), process.returncode
        self.killed += process.returncode == -9
        return process.returncode == -9

    def _pause(self, process):
        def pause():
            if process.poll() is None:
                self.paused += 1
                process.send_signal(signal.SIGSTOP)
                threading.Timer(PAUSE_S, process.send_signal, [signal.SIGCONT]).start()

        return pause


def test_a_fleet_on_postgresql(tmp_path, tally, not_shown):
    try:
        dsn = shared_server().new_schema()
    except Unavailable as why:
        not_shown(f"no PostgreSQL here: {why}")
    machines = [Machine(tmp_path / f"m{n}", f"m{n}") for n in range(MACHINES)]
    for number in range(WORKFLOWS):
        machines[number % MACHINES].keeper.start("custom", f"Part {number}", phases=["work"])
    for machine in machines:
        plan = machine.sharing.plan("postgres", dsn, machine.name)
        machine.sharing.add(plan)
        (tmp_path / f"home-{machine.name}").mkdir()
    agents = [
        Agent(str(m.folder), str(tmp_path / f"home-{m.name}"), f"{m.name}a{number}")
        for number in range(AGENTS // MACHINES)
        for m in machines
    ]
    for agent in agents:
        agent.join()
    exchange_until_quiet(machines)
    lines = [line for agent in agents for line in agent.lines]
    acknowledged = {line["id"]: line["workflow"] for line in lines if "id" in line}
    for machine in machines:
        check_machine(machine, acknowledged)
    assert len({str(machine.digests()) for machine in machines}) == 1
    claims = Counter((line["took"], line["epoch"]) for line in lines if "took" in line)
    assert set(claims.values()) == {1}, "a claim was held twice"
    tally(
        "fleet on PostgreSQL",
        agents=AGENTS,
        workflows=WORKFLOWS,
        acknowledged=len(acknowledged),
        killed=sum(agent.killed for agent in agents),
        stopped=sum(agent.paused for agent in agents),
        lost=sum("refused" in line for line in lines),
        fenced=len(machines[0].sharing.conflicts()),
    )


def check_machine(machine, acknowledged):
    """All is completed, once; what was acknowledged is in the state, or is a visible conflict."""
    keeper = machine.keeper
    events = SharedEvents(keeper.store.ledger)
    check_history(keeper.log())
    open_conflicts = {one["id"].partition("@")[0] for one in Sharing(keeper).conflicts()}
    for workflow in sorted({*keeper.store.ledger.stream_names()} - {"_ledger"}):
        if not events.has(workflow):
            continue
        shared = events.of_stream(workflow)
        fold = sharing.fold(aggregate_of(workflow), shared)
        assert fold.state["status"] == "completed", workflow
        in_force = [event for event in shared if not event.get("fenced")]
        epochs = [event["epoch"] for event in in_force if event.get("epoch")]
        assert epochs == sorted(epochs), "work under an earlier lease came after a later one"
        causes = Counter(event["cause"]["id"].partition("@")[0] for event in shared)
        for request, stream in acknowledged.items():
            if stream != workflow:
                continue
            assert causes[request] == 1, request
            kept = request in fold.state["reminders"] or request.endswith("-end")
            assert kept or request in open_conflicts, request
        ends = [
            event["cause"]["id"].partition("@")[0]
            for event in in_force
            if event["cause"]["type"] == "complete_workflow"
        ]
        assert len([request for request in ends if request not in open_conflicts]) == 1
