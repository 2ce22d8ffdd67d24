"""The disk where a system lacks what Linux has."""

import errno
import fcntl
import importlib.util
import os

import pytest

from holdfast.system import disk, kernel
from support.disks import RecordingDisk

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
