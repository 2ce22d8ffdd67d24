"""The disk where a system lacks what Linux has."""

import errno
import fcntl
import importlib.util
import os
import subprocess
import sys

import pytest

from holdfast.system import disk, kernel
from support import editors
from support.disks import RecordingDisk
from support.editors import LIMITS

FULL = 51


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Return a disk as it is on a system without ``fdatasync``, and the calls that it made."""
    called = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", lambda _fd: called.append("fsync"))

    def load(answer=None):
        if answer is not None:
            monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
            monkeypatch.setattr(fcntl, "fcntl", lambda _fd, what: answer(called, what))
        spec = importlib.util.spec_from_file_location("kernel_elsewhere", kernel.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setattr(disk, "kernel", module)
        return disk.Disk(), called

    return load


def full(called, what):
    called.append(what)


def failing(number):
    def answer(called, what):
        called.append(what)
        raise OSError(number, os.strerror(number))

    return answer


def test_without_fdatasync_all_of_the_file_is_synced(elsewhere):
    made, called = elsewhere()
    made.sync(0)
    assert called == ["fsync"]


def test_a_sync_goes_through_the_drives_own_memory_where_it_can(elsewhere, tmp_path):
    made, called = elsewhere(full)
    made.sync(0)
    made.sync_folder(str(tmp_path))
    assert called == [FULL, FULL]


def test_a_file_system_that_does_not_know_the_full_sync_gets_the_other(elsewhere):
    made, called = elsewhere(failing(errno.ENOTSUP))
    made.sync(0)
    assert called == [FULL, "fsync"]


def test_a_full_sync_that_failed_is_not_tried_in_another_way(elsewhere):
    made, called = elsewhere(failing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        made.sync(0)
    assert called == [FULL]


def test_a_durable_view_is_found_under_its_name_after_a_power_cut(tmp_path):
    recording = RecordingDisk(tmp_path)
    recording.replace_view(str(tmp_path / "view.json"), b"{}", durable=True)
    assert recording.log[-1] == ("sync_folder", str(tmp_path))


def test_a_writer_that_ends_at_that_moment_is_not_missed(tmp_path, monkeypatch):
    """It writes and closes the file just before the kernel is asked."""
    path = tmp_path / "record.json"
    path.write_bytes(b"old")

    def has_writer(_fd):
        path.write_bytes(b"new")
        return False

    monkeypatch.setattr(kernel, "has_writer", has_writer)
    assert disk.Disk().read_own(str(path), or_busy=True) == b"new"


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("is_new", [True, False])
def test_what_is_replaced_is_under_a_name_that_is_returned(tmp_path, monkeypatch, limit, is_new):
    LIMITS[limit](monkeypatch)
    path, spare = str(tmp_path / "page.md"), str(tmp_path / "spare")
    for number, before in enumerate([None, b"one", b"two"]):
        (tmp_path / "spare").write_bytes(b"new %d" % number)
        if before is not None:
            (tmp_path / "page.md").write_bytes(before)
        names = disk.Disk().replace(path, spare, is_new=is_new, durable=True)
        assert [disk.Disk().read(name) for name in names] == ([] if before is None else [before])
        assert disk.Disk().read(path) == b"new %d" % number
        for name in names:
            os.unlink(name)
        assert os.listdir(tmp_path) == ["page.md"]


def test_a_file_that_is_saved_in_between_is_returned_too(tmp_path, monkeypatch):
    """Whoever was faster counts: without an exchange, a save can fill the free place."""
    editors.no_exchange(monkeypatch)
    path, spare = tmp_path / "page.md", tmp_path / "spare"
    path.write_bytes(b"one")
    spare.write_bytes(b"ours")
    saves = [b"two", b"three"]

    class Disk(disk.Disk):
        def link(self, source, target):
            if saves:
                path.write_bytes(saves.pop(0))
            super().link(source, target)

    names = Disk().replace(str(path), str(spare))
    assert [disk.Disk().read(name) for name in names] == [b"one", b"two", b"three"]
    assert path.read_bytes() == b"ours"


def test_a_process_that_has_the_file_open_is_found_without_leases(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel, "lease_refused", lambda _fd: None)
    path = tmp_path / "page.md"
    path.write_bytes(b"x")
    assert not disk.Disk().is_being_written(str(path))
    with subprocess.Popen(
        [sys.executable, "-c", ("import sys; f = open(sys.argv[1], 'a'); print(1, flush=True);"
         "sys.stdin.read()"), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as writer:  # fmt: skip
        writer.stdout.readline()
        assert disk.Disk().is_being_written(str(path))
        with open(path, "rb"):
            writer.communicate()
            assert not disk.Disk().is_being_written(str(path)), "it is only being read"
