"""One run of the simulation, by its seed: ``python -m simulation.run SEED``."""

import os
import shutil
import sys
import tempfile
from time import perf_counter

from simulation.agents import Agent
from simulation.checks import check_world, heal
from simulation.world import DAY_S, World

LARGE_EVERY = 50
"""Every so many seeds, the world has its full size; the others are small."""


class Size:
    """How many machines and agents there are, and how much they do."""

    def __init__(self, machines, agents, actions):
        self.machines = machines
        self.agents = agents
        self.actions = actions


LARGE = Size(50, 1_000, 1_500)


def size_of(seed, lots):
    if seed % LARGE_EVERY == 0:
        return LARGE
    machines = lots.randrange(3, 9)
    return Size(machines, machines * lots.randrange(1, 5), lots.randrange(150, 400))


def simulate(seed, folder, size=None):
    """Run a world to its end and check it; return it. Raise ``Violation``."""
    world = World(folder, seed)
    with world.running():
        size = size or size_of(seed, world.lots)
        agents = populate(world, size)
        world.weather.is_bad = True
        # In a world of full size, everybody acts at least once.
        waiting = world.lots.sample(agents, len(agents)) if size is LARGE else []
        for _ in range(size.actions):
            pass_time(world)
            agent = waiting.pop() if waiting else world.lots.choice(agents)
            agent.act()
            happen(world, agents)
        heal(world)
        world.agents = len(agents)
        folds = check_world(world)
        for stream in sorted(folds):
            world.note("fold", stream, folds[stream].digest())
        world.events = world.machines[0].events.count()
        world.conflicts = sum(len(fold.conflicts) + len(fold.settled) for fold in folds.values())
    return world


def populate(world, size):
    """Make the machines and agents; all machines know the hub."""
    for _ in range(size.machines):
        world.add_machine().join()
    return [
        Agent(world, world.machines[number % size.machines], number)
        for number in range(size.agents)
    ]


def pass_time(world):
    """Let some time pass: mostly minutes, sometimes a night."""
    lots = world.lots
    world.now_s += lots.expovariate(1 / 300) if lots.random() < 0.97 else lots.uniform(0, DAY_S)
    for machine in world.machines:
        machine.is_online = machine.is_online or world.now_s >= machine.online_at


def happen(world, agents):
    """Let something happen that no agent does."""
    lots = world.lots
    machine = lots.choice(world.machines)
    if lots.random() < 0.02:
        parted = lots.sample(world.machines, lots.randrange(1, max(2, len(world.machines) // 2)))
        until = world.now_s + lots.choice([lots.uniform(0, 7_200), lots.uniform(0, 6 * DAY_S)])
        for one in parted:
            one.is_online, one.online_at = False, until
        world.note("parted", *[one.name for one in parted])
    if lots.random() < 0.01:
        world.weather.deliver_late()
    if lots.random() < 0.003 and len(world.machines) < 60:
        copy = world.add_machine(like=machine)
        agents += [Agent(world, copy, len(agents) + number) for number in range(2)]
        world.note("copied", machine.name, copy.name)
    if lots.random() < 0.004:
        machine.back_up()
    elif lots.random() < 0.004 and machine.backup is not None:
        machine.restore()
    if lots.random() < 0.005 and not world.hub.is_fencing:
        world.hub.lose(lots)
        world.note("ref lost")


def main():
    # A world has no processes but this one.
    os.environ["HOLDFAST_BACKGROUND"] = "off"
    folder = tempfile.mkdtemp(prefix="holdfast-simulation-")
    try:
        for word in sys.argv[1:]:
            begun = perf_counter()
            world = simulate(int(word), os.path.join(folder, word))
            counts = ", ".join(f"{number} {what}" for what, number in sorted(world.counts.items()))
            print(f"seed {word}: {world.digest()} in {perf_counter() - begun:.1f} s: {counts}")
            print(
                f"  {len(world.machines)} machines, {world.agents} agents, {world.days:.0f} days,"
                f" {world.events} events, {world.conflicts} conflicts"
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
