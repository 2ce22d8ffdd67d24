"""Editors that save a file while Holdfast writes it, at any of its disk operations.

A ``CrowdedDisk`` stops before and after each of its calls and lets editors work there: some rename
a new file over the old one, some write into it, some append to it, and some take long. Each edit
puts a mark into the file that occurs nowhere else, so it can be found again.
"""

import contextlib
import fcntl
import os

from holdfast.system import kernel
from holdfast.system.disk import Disk

CALLS = [name for name in vars(Disk) if not name.startswith("_")]


class Crowd:
    """Editors of one file. ``add_mark`` returns a content with a mark, ``None`` if it cannot.

    Editors do not overwrite each other: one who renames or rewrites the file reads it and saves it
    in one step, and waits while another has it open. So a mark that is gone was lost by Holdfast.
    """

    def __init__(self, path, add_mark, random, *, is_text=False):
        self.path = path
        self.add_mark = add_mark
        self.random = random
        self.is_text = is_text
        self.saved = []
        """The marks that were saved, with the way and the step."""
        self.is_at_work = False
        self.step = 0
        self._open = None
        """The descriptor and the rest of the text of the one who writes slowly, and its mark."""

    def pass_step(self, eagerness):
        """Let an editor work, perhaps."""
        self.step += 1
        if not self.is_at_work or self.random.random() > eagerness:
            return
        if self._open is not None:
            if self.random.random() < 0.4:
                self.finish()
            elif self._open[3]:
                self._append()
            return
        ways = [self._rename, self._write, self._write_slowly]
        ways += [self._append, self._append, self._append_slowly] if self.is_text else []
        self.random.choice(ways)()

    def finish(self):
        """Let the one who writes slowly write the rest and close the file."""
        if self._open is not None:
            fd, rest, mark, _ = self._open
            self._open = None
            os.write(fd, rest)
            os.close(fd)
            self._note(mark, "slowly")

    def _next(self):
        """Return the next mark and the file's content with it; no content if there is no file."""
        mark = f"mark-{len(self.saved)}-{self.random.randrange(10**9)}-"
        try:
            with open(self.path, "rb") as file:
                return mark, self.add_mark(file.read(), mark)
        except FileNotFoundError:
            return mark, None

    def _note(self, mark, how):
        self.saved.append((mark, how, self.step))

    def _rename(self):
        mark, text = self._next()
        if text is not None:
            with open(self.path + "~", "wb") as file:
                file.write(text)
            os.replace(self.path + "~", self.path)
            self._note(mark, "rename")

    def _write(self):
        mark, text = self._next()
        if text is not None:
            with open(self.path, "wb") as file:
                file.write(text)
            self._note(mark, "write")

    def _write_slowly(self):
        mark, text = self._next()
        if text is not None:
            fd = os.open(self.path, os.O_WRONLY | os.O_TRUNC)
            half = self.random.choice([0, len(text) // 2, len(text)])
            os.write(fd, text[:half])
            self._open = fd, text[half:], mark, False

    def _append(self):
        mark, text = self._next()
        if text is not None:
            with open(self.path, "ab") as file:
                file.write(f"- {mark}\n".encode())
            self._note(mark, "append")

    def _append_slowly(self):
        mark, text = self._next()
        if text is not None:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            self._open = fd, f"- {mark}\n".encode(), mark, True


class CrowdedDisk(Disk):
    """A disk at each of whose steps an editor may save a file."""

    def __init__(self, crowd, eagerness):
        super().__init__()
        self.crowd = crowd
        self.eagerness = eagerness

    def pause(self, _seconds):
        self.crowd.pass_step(self.eagerness)


def _crowded(name):
    def call(self, *arguments, **options):
        self.crowd.pass_step(self.eagerness)
        done = getattr(Disk, name)(self, *arguments, **options)
        self.crowd.pass_step(self.eagerness)
        return done

    return call


for _name in CALLS:
    setattr(CrowdedDisk, _name, _crowded(_name))


def crowd_leases(monkeypatch, disk):
    """Let editors work also between the request for a lease and the reading of the file."""
    asked = kernel.has_writer

    def has_writer(fd):
        disk.pause(0)
        is_busy = asked(fd)
        # An editor that opens the file would wait for the end of the lease, in this very process.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        disk.pause(0)
        return is_busy

    monkeypatch.setattr(kernel, "has_writer", has_writer)


# File systems that can do less


def no_exchange(monkeypatch):
    monkeypatch.setattr(kernel, "exchange", lambda _path, _other: False)


def no_links(monkeypatch):
    """Neither exchange nor hard links, as on many FUSE file systems."""
    no_exchange(monkeypatch)

    def link(_source, target, **_options):
        raise PermissionError(1, "Operation not permitted", target)

    monkeypatch.setattr(os, "link", link)


def no_leases(monkeypatch):
    """Search the open files of this process, in which the editors work, and of no other."""
    monkeypatch.setattr(kernel, "lease_refused", lambda _fd: None)
    monkeypatch.setattr(kernel, "_process_ids", lambda: [str(os.getpid())])


def little(monkeypatch):
    """Neither exchange, nor links, nor leases: only a rename that does not replace."""
    no_links(monkeypatch)
    no_leases(monkeypatch)


def nothing(monkeypatch):
    """Not even a rename that does not replace. Here ``doctor`` warns."""
    little(monkeypatch)
    monkeypatch.setattr(kernel, "move_to_free", lambda _source, _target: False)


LIMITS = {
    "all": lambda _monkeypatch: None,
    "no exchange": no_exchange,
    "no links": no_links,
    "no leases": no_leases,
    "little": little,
}
"""What a file system has that keeps every edit."""
