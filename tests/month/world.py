"""The world of a simulated month: one disk, one clock, and agents of whom exactly one runs.

All of it is one process. What agents do goes through Holdfast's own disk seam, and every call is a
place where the seed may let another agent go on, kill this one, stop it for days, fail the call or
cut the power. The calls are recorded, so a power cut goes back to what was synced and to any part
of what was not, as ``promises.power`` has it.

The files themselves stand in a folder in memory, because Holdfast reads names and sizes past the
seam; that folder is the disk's cache, the record decides what of it survives. SQLite writes the
ledger past the seam: what it committed is synced, so a power cut leaves the ledger as it is
(``promises/test_p02_power_cut.py`` shows that it is).
"""

import errno
import fcntl
import os
import random
import shutil
import threading
from collections import Counter

from holdfast.system import kernel
from holdfast.system.disk import Disk
from holdfast.workspace.location import sign_ledger
from promises.power import Cut, materialise, ways
from support.disks import CALLS, READS, Died, Node, RecordingDisk
from support.workshop import NOON

SPARED = {errno.ENOSPC: (*READS, "lock", "remove"), errno.EIO: (*READS, "lock")}
LEDGER = "ledger.db"
IDLE = 60
"""So many looks at a lock in which nobody moved: whoever holds it will not let go of it."""


class World:
    """A folder as a disk, a clock that is set by hand, and whose turn it is."""

    def __init__(self, root, seed):
        self.root = root
        self.lots = random.Random(f"month {seed}")
        self.ms = NOON
        self.counts = Counter()
        self.platter = RecordingDisk(root)
        self.full_for = 0
        """So many rounds the disk stays full."""
        self.cut_in = None
        """So many calls later the power is cut."""
        self.is_cut = False
        self.is_stuck = False
        """Agents waited for each other, and nobody who held a lock was stopped."""
        self.stopped = []
        self._here = threading.local()
        self._runners = []
        self._main = threading.Lock()
        self._main.acquire()
        self._moves = 0

    # Time

    def now(self):
        self.ms += 1
        return self.ms

    def pause(self, seconds):
        """What a sleep is here: time passes, and somebody else goes on."""
        self.ms += int(seconds * 1000)
        self._let_go(self.here)

    # Whose turn it is

    @property
    def here(self):
        """The runner that runs now."""
        return self._here.runner

    def run(self, runners):
        """Lets them run, a call of the one and a call of the other, until nobody can go on."""
        self._runners = runners
        if len(runners) == 1 and runners[0].is_simple:
            self._here.runner = runners[0]
            runners[0].work()
        else:
            for runner in runners:
                runner.ready = True
            self._hand_over(self.lots.choice(runners))
            self._main.acquire()
        self._runners = []
        for runner in runners:
            if runner.error is not None:
                raise runner.error

    def _hand_over(self, runner):
        if runner.thread is None:
            runner.thread = threading.Thread(target=self._live, args=(runner,))
            runner.thread.start()
        else:
            runner.go.release()

    def _live(self, runner):
        self._here.runner = runner
        runner.work()
        runner.ready = False
        self._leave(runner)

    def _others(self, runner):
        return [one for one in self._runners if one.ready and one is not runner]

    def _leave(self, runner):
        """The runner does not go on by itself: another one does, or the round is over."""
        others = self._others(runner)
        if others:
            self._hand_over(self.lots.choice(others))
        else:
            self._main.release()

    def _let_go(self, runner):
        """Another one goes on, if there is one; comes back when it is this one's turn again."""
        others = self._others(runner)
        if others:
            self._hand_over(self.lots.choice(others))
            runner.go.acquire()

    def stop(self, runner):
        """As a stopped process: it keeps what it holds, until somebody lets it go on."""
        self.counts["stops"] += 1
        runner.ready = False
        self.stopped.append(runner)
        self._leave(runner)
        runner.go.acquire()
        self.stopped.remove(runner)

    # Every call of the disk comes here first

    def reached(self, disk, name, arguments):
        runner = disk.runner
        if len(self._runners) > 1 and self.lots.random() < 0.15:
            self._let_go(runner)
        self._moves += 1
        runner.calls += 1
        if runner.calls == runner.stops_at and not runner.is_simple:
            self.stop(runner)
        self._check_alive(runner, disk, name, arguments)
        if runner.calls == runner.fails_at and name not in SPARED[errno.EIO]:
            self._fail(disk, name, arguments, errno.EIO)
        if self.full_for and name not in SPARED[errno.ENOSPC]:
            self._fail(disk, name, arguments, errno.ENOSPC)

    def _check_alive(self, runner, disk, name, arguments):
        if self.cut_in is not None and not self.is_cut:
            self.cut_in -= 1
            self.is_cut = self.cut_in <= 0
            if self.is_cut:
                _tear(disk, name, arguments, self.lots.random())
        if runner.calls == runner.dies_at:
            self.counts["kills"] += 1
            runner.is_dead = True
            _tear(disk, name, arguments, self.lots.choice([0, 0.5, 1]))
        if self.is_cut or runner.is_dead:
            runner.is_dead = True
            raise Died

    def _fail(self, disk, name, arguments, number):
        self.counts["full disks" if number == errno.ENOSPC else "I/O errors"] += 1
        _tear(disk, name, arguments, 0.5)
        raise OSError(number, os.strerror(number))

    def waits(self, runner):
        """A lock is held: others go on meanwhile. Says whether it is worth another look."""
        if runner.moves_seen == self._moves:
            runner.idle += 1
        else:
            runner.idle, runner.moves_seen = 0, self._moves
        self.ms += 1
        if runner.idle > IDLE or not self._others(runner):
            self.counts["busy"] += 1
            self.is_stuck = self.is_stuck or not self.stopped
            return False
        self._let_go(runner)
        if self.is_cut or runner.is_dead:
            runner.is_dead = True
            raise Died
        return True

    # Power

    def checkpoint(self):
        """The kernel has written everything back: nothing before this can be lost any more."""
        self.platter = RecordingDisk(self.root)

    def kept(self, path, data):
        """Somebody else wrote a whole file and synced it."""
        node = Node(data)
        self.platter.names[path] = node
        self.platter.log.append(("hand", path, node))

    def cut_power(self):
        """What the disk has after the cut is all there is."""
        self.counts["power cuts"] += 1
        cut = Cut(self.platter, len(self.platter.log))
        fates = list(ways(cut, self.lots.random(), 3))
        tree, folders = cut.left(*self.lots.choice(fates))
        tree = {path: held for path, held in tree.items() if not _is_ledger(path)}
        ledger = self._ledger_files()
        shutil.rmtree(self.root)
        materialise(tree, folders, self.root, self.root)
        for folder in {os.path.dirname(path) for path in tree if os.path.basename(path) == "made"}:
            sign_ledger(folder, Disk())  # On a disk, a folder keeps its inode.
        for path, data in ledger.items():
            if os.path.isdir(os.path.dirname(path)):
                with open(path, "wb") as file:
                    file.write(data)
        self.is_cut, self.cut_in = False, None
        self.checkpoint()

    def _ledger_files(self):
        files = {}
        for folder, _, names in os.walk(self.root):
            for name in filter(_is_ledger, names):
                with open(os.path.join(folder, name), "rb") as file:
                    files[os.path.join(folder, name)] = file.read()
        return files


def _is_ledger(path):
    """True for the database and its journal; shared memory does not outlive the power."""
    name = os.path.basename(path)
    return name.startswith(LEDGER) and not name.endswith("-shm")


def _tear(disk, name, arguments, part):
    """A write that does not come to its end may have done a part of its work."""
    if name == "write":
        fd, data = arguments
        RecordingDisk.write(disk, fd, data[: int(len(data) * part)])


class Runner:
    """Something that runs in a round: ``act`` is what it does, and may die at any call."""

    def __init__(self, act, *, is_simple=True):
        self.act = act
        self.is_simple = is_simple
        """It runs alone, and to its end: no thread is needed for it."""
        self.dies_at = self.fails_at = self.stops_at = None
        self.calls = 0
        self.idle = self.moves_seen = 0
        self.ready = self.is_dead = False
        self.thread = self.error = None
        self.go = threading.Lock()
        self.go.acquire()
        self.held = set()

    def work(self):
        try:
            self.act(self)
        except Died:
            # A process that dies lets go of its locks, whatever its code would have done.
            while self.held:
                os.close(self.held.pop())
        except BaseException as error:  # noqa: BLE001 - the round raises it again
            self.error = error


class AgentDisk(RecordingDisk):
    """One agent's way to the disk of the world."""

    failing_syncs = 0
    dies_after = None

    def __init__(self, world, runner):
        Disk.__init__(self)
        self.world = world
        self.runner = runner

    log = property(lambda self: self.world.platter.log)
    names = property(lambda self: self.world.platter.names)
    folders = property(lambda self: self.world.platter.folders)

    def _node(self, fd):
        if os.readlink(f"/proc/self/fd/{fd}").endswith(" (deleted)"):
            return Node()
        return super()._node(fd)

    def lock(self, path, wait_s):
        self.world.reached(self, "lock", ())
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                self._take(fd, path, wait_s)
            except BaseException:
                os.close(fd)
                raise
            if os.fstat(fd).st_nlink:
                break
            os.close(fd)
        self._node(fd)
        self.runner.held.add(fd)
        return fd

    def _take(self, fd, path, wait_s):
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if wait_s <= 0 or not self.world.waits(self.runner):
                    kernel.lock(fd, path, 0)
            else:
                return

    def close(self, fd):
        # A dead agent's locks were taken from it, or are now.
        self.runner.held.discard(fd)
        super().close(fd)

    def unlock(self, fd):
        self.runner.held.discard(fd)
        super().unlock(fd)


def _reaching(name):
    def call(self, *arguments, **options):
        self.world.reached(self, name, arguments)
        return getattr(RecordingDisk, name)(self, *arguments, **options)

    return call


for _name in (*CALLS, "update", "remove_folder"):
    if _name != "lock":
        setattr(AgentDisk, _name, _reaching(_name))
