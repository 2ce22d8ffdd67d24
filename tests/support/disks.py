"""Disks that record operations, fail, or die, to inject faults into the keeper."""

import errno
import os

from holdfast.system.disk import Disk


class Node:
    """A file under any of its names; ``first`` is its content before the recording."""

    def __init__(self, data=b""):
        self.first = data


def nodes_below(root):
    """Return the files below a folder, as nodes by path, and the folders."""
    names, folders, nodes = {}, set(), {}
    for folder, _, files in os.walk(root):
        folders.add(folder)
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode not in nodes:  # A file may have several names.
                    nodes[inode] = Node(file.read())
            names[path] = nodes[inode]
    return names, folders


class Died(BaseException):
    """The process is dead: nothing catches this, and later operations have no effect."""


class RecordingDisk(Disk):
    """A disk that logs its operations as ``(operation, …)``, with nodes for contents."""

    def __init__(self, root):
        super().__init__()
        self.root = os.fspath(root)
        self.log = []
        self.dies_after = None
        """The number of operations after which the process dies."""
        self.names, self.folders = nodes_below(self.root)
        self.at_first = (dict(self.names), set(self.folders))

    def said(self, *what):
        """Log a mark of the test between the operations."""
        self.log.append(("said", *what))

    def hand(self, path, data):
        """Write a whole file and sync it, as a person's editor does."""
        with open(path, "wb") as file:
            file.write(data)
        node = Node(data)
        self.names[path] = node
        self.log.append(("hand", path, node))

    def _alive(self):
        if self.dies_after is None:
            return
        if self.dies_after == 0:
            raise Died
        self.dies_after -= 1

    def _node(self, fd):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path not in self.names:
            self._created(path)
        return self.names[path]

    def _created(self, path):
        node = Node()
        self.names[path] = node
        self.log.append(("create", path, node))

    def make_folder(self, path, mode=0o700):
        if path not in self.folders:
            super().make_folder(path, mode)

    def add_folder(self, path, mode=0o700):
        self._alive()
        super().add_folder(path, mode)
        if path not in self.folders:
            self.folders.add(path)
            self.log.append(("mkdir", path))

    def create(self, path, data, mode=0o600, *, durable=False):
        self._alive()
        return super().create(path, data, mode, durable=durable)

    def write(self, fd, data):
        node = self._node(fd)
        self._alive()
        super().write(fd, data)
        self.log.append(("write", node, bytes(data)))

    def update(self, path, edit):
        self._alive()
        pieces = {}

        def noted(raw):
            changes = edit(raw)
            pieces.update(changes or {})
            return changes

        done = super().update(path, noted)
        if path in self.names:
            self.log.append(("over", self.names[path], pieces))
        return done

    def sync(self, fd):
        self._alive()
        node = self._node(fd)
        super().sync(fd)
        self.log.append(("sync", node))

    def sync_folder(self, path):
        self._alive()
        super().sync_folder(path)
        self.log.append(("sync_folder", path))

    def link(self, source, target):
        self._alive()
        super().link(source, target)
        self.names[target] = self.names[source]
        self.log.append(("link", source, target))

    def move(self, source, target):
        self._alive()
        super().move(source, target)
        self.names[target] = self.names.pop(source)
        self.log.append(("move", source, target))

    def exchange(self, one, other):
        self._alive()
        is_done = super().exchange(one, other)
        if is_done:
            self.names[one], self.names[other] = self.names[other], self.names[one]
            self.log.append(("exchange", one, other))
        return is_done

    def remove(self, path):
        self._alive()
        super().remove(path)
        if self.names.pop(path, None) is not None:
            self.log.append(("remove", path))

    def remove_folder(self, path):
        self._alive()
        super().remove_folder(path)
        if path in self.folders and not os.path.isdir(path):
            self.folders.discard(path)
            self.log.append(("rmdir", path))

    def lock(self, path, wait_s):
        self._alive()
        fd = super().lock(path, wait_s)
        self._node(fd)
        return fd


CALLS = (
    "read", "read_own", "make_folder", "write", "sync", "sync_folder",
    "create", "link", "move", "exchange", "remove", "lock", "extend",
)  # fmt: skip
READS = ("read", "read_own")


class CountingDisk(Disk):
    """A disk that counts calls, and calls ``strike`` from the ``at``-th one on."""

    def __init__(self, at=None):
        super().__init__()
        self.at = at
        self.calls = []

    def strike(self, name, arguments):
        """Do nothing; subclasses raise."""


def _counted(name):
    def call(self, *arguments, **options):
        self.calls.append(name)
        if self.at is not None and len(self.calls) >= self.at:
            self.strike(name, arguments)
        return getattr(Disk, name)(self, *arguments, **options)

    return call


for _name in CALLS:
    setattr(CountingDisk, _name, _counted(_name))


class DyingDisk(CountingDisk):
    """A disk that dies at its ``at``-th call; if that is a write, half of it is written."""

    def strike(self, name, arguments):
        if name == "write" and len(self.calls) == self.at:
            fd, data = arguments
            os.write(fd, data[: len(data) // 2])
        raise Died


class FailingDisk(CountingDisk):
    """A disk whose ``at``-th call fails, and all later calls that write, unless ``once``.

    A failed write has written half of its data, as on a full disk.
    """

    def __init__(self, at, number=errno.ENOSPC, *, once=False):
        super().__init__(at)
        self.number = number
        self.once = once
        self.struck = None

    def strike(self, name, arguments):
        spared = (*READS, "lock", "remove") if self.number == errno.ENOSPC else (*READS, "lock")
        if len(self.calls) > self.at and (self.once or name in spared):
            return
        self.struck = self.struck or name
        if name == "write":
            fd, data = arguments
            os.write(fd, data[: len(data) // 2])
        raise OSError(self.number, os.strerror(self.number))
