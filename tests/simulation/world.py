"""The machines of the simulation, with their clocks and disks, and the one hub where they meet.

Everything runs in one process and one thread: the real keeper, ledger and exchange, on disks in
memory. Time is a number that the world moves on. What happens next, and every id that the product
makes, is drawn from one random generator, so a seed gives the same run, event for event.

A machine *dies* at a step of its disk, its ledger or its network: a ``Died`` passes through the
product like the end of a process, and later operations on that disk have no effect. The next
process finds what was committed.
"""

import os
import random
import shutil
from contextlib import contextmanager
from hashlib import blake2b

from holdfast import Keeper, hub
from holdfast.hub import Publication, Sharing, exchange
from simulation.network import FencingHub, LosingHub, Weather, Wire
from support.disks import Died, DyingDisk
from support.git_template import make_repository
from support.workshop import NOON

DAY_S = 86_400.0
BATCHES = (2, 9, 40)
"""So many events are taken in and pushed at once, so that machines also die between batches."""


class MortalDisk(DyingDisk):
    """A disk on which also a commit and a message of the network are steps to die at."""

    def step(self, name):
        self.calls.append(name)
        if self.at is not None and len(self.calls) >= self.at:
            raise Died

    def die_after(self, steps):
        self.at = None if steps is None else len(self.calls) + steps


class Machine:
    """A computer with one repository. Its clock is wrong, and it is not always online."""

    def __init__(self, world, name, root):
        self.world = world
        self.name = name
        self.root = root
        self.skew_ms = world.lots.choice([0, 0, 1, -1]) * world.lots.randrange(0, 3 * 86_400_000)
        self.drift = world.lots.uniform(0.98, 1.02)
        self.is_online = True
        self.online_at = 0.0
        self.backup = None
        """A folder with an older copy of the disk, and how many deeds there were then."""
        self.boot()

    def now_ms(self):
        return NOON + self.skew_ms + int(self.world.now_s * self.drift * 1_000)

    def boot(self):
        """Begin with what is on the disk."""
        self.disk = MortalDisk()
        self.keeper = self._keeper()
        ledger, disk = self.keeper.store.ledger, self.disk
        commit = ledger.commit

        def mortal_commit(request):
            disk.step("before the commit")
            commit(request)
            disk.step("after the commit")

        ledger.commit = mortal_commit

    def _keeper(self, **options):
        return Keeper(
            self.root, clock_ms=self.now_ms, sleep=lambda _seconds: None, disk=self.disk, **options
        )

    def keeper_of(self, session):
        return self._keeper(session=session, share=self.keeper)

    @property
    def events(self):
        """The shared events in its ledger."""
        from holdfast.storage.shared_events import SharedEvents

        return SharedEvents(self.keeper.store.ledger)

    def reboot(self):
        """End the process that died, and begin another one."""
        self.keeper.store.ledger.release()
        self.keeper.store.ledger.database._forget()
        self.boot()

    def wire(self):
        return Wire(self.world.hub, self.world.weather, self)

    def join(self):
        """Connect this repository with the hub."""
        settings = {
            "kind": "memory", "where": "memory", "name": self.name, "cursor": "",
            "fences": self.world.hub.is_fencing, "output": False, "redact": [],
        }  # fmt: skip
        Sharing(self.keeper).add(Publication(settings, [], []))

    def sync(self):
        return Sharing(self.keeper).sync()

    def copy_to(self, root):
        shutil.copytree(self.root, root, symlinks=True)

    def back_up(self):
        count = len(self.world.deeds)
        folder = os.path.join(self.world.folder, f"{self.name}-{count}")
        if self.backup is None or self.backup[1] != count:
            self.copy_to(folder)
            self.backup = folder, count

    def restore(self):
        """Put the backup in the place of everything; what was done since is gone here."""
        folder, count = self.backup
        for deed in self.world.deeds[count:]:
            deed.is_excused = deed.is_excused or deed.machine is self
        self.world.note("restored", self.name)
        self.keeper.store.ledger.database._forget()
        for path, _, names in os.walk(self.root):
            for name in names:
                os.remove(os.path.join(path, name))
        shutil.copytree(folder, self.root, dirs_exist_ok=True)
        self.boot()


class World:
    """Machines and agents on virtual time, around one hub."""

    def __init__(self, folder, seed, *, is_fencing=None):
        self.folder = os.fspath(folder)
        self.lots = random.Random(f"holdfast {seed}")
        self.now_s = 0.0
        self.weather = Weather(self.lots)
        if is_fencing is None:
            is_fencing = self.lots.random() < 0.7
        make_hub = FencingHub if is_fencing else LosingHub
        self.hub = make_hub(lambda: self.now_s)
        self.deeds = []
        """What was acknowledged: ``agents.Deed``."""
        self.subjects = []
        self.agents = 0
        self.events = 0
        """The shared events that every machine has in the end."""
        self.conflicts = 0
        """Those that came up, also those that were settled."""
        self.counts = {}
        self._trace = blake2b(digest_size=16)
        self.machines = []

    @contextmanager
    def running(self):
        """Give the product this world's random numbers and its hub."""
        before = os.urandom, hub.open_hub, exchange.AT_ONCE
        os.urandom = self.lots.randbytes
        hub.open_hub = self._open_hub
        exchange.AT_ONCE = self.lots.choice(BATCHES)
        try:
            yield self
        finally:
            os.urandom, hub.open_hub, exchange.AT_ONCE = before
            for machine in self.machines:
                machine.keeper.store.ledger.database._forget()

    def _open_hub(self, store, _settings):
        root = store.workspace.root
        return next(one for one in self.machines if one.root == root).wire()

    def add_machine(self, like=None):
        """Add a machine, perhaps one with a copy of another one's disk."""
        name = f"m{len(self.machines)}"
        root = os.path.join(self.folder, name)
        if like is None:
            make_repository(root)
        else:
            like.copy_to(root)
        machine = Machine(self, name, root)
        self.machines.append(machine)
        return machine

    def note(self, *what):
        """Add to the trace of the run what happened; the first word is counted."""
        self.counts[what[0]] = self.counts.get(what[0], 0) + 1
        self._trace.update(repr((round(self.now_s, 3), *what)).encode())

    @property
    def days(self):
        return self.now_s / DAY_S

    def digest(self):
        return self._trace.hexdigest()
