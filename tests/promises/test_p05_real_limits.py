"""Promise 5 with the real thing: a file system of a few pages, a limit on the size of files, and
folders that nobody may write to; through the command line, as processes of their own.
"""

import os
import resource
import shutil
import subprocess
from contextlib import contextmanager

import pytest

from promises import aftermath
from promises.journeys import Site, ask, journey
from support.workshop import sampled

pytestmark = pytest.mark.promise(5)

FAULT = 3
PAGE = 4096
ROOM = 256
"""The pages of the tiny file system."""
RECORDED = (None, "record_behind")
"""A receipt, or a fault that says: it was recorded."""


def check_told_and_mended(site, line, mend, **options):
    """Try a command under a limit: all or nothing of it, said with its exit code.

    Then ``mend`` takes the limit away, and the same command under the same id goes through.
    Return whether the limit was felt.
    """
    before = aftermath.history(site.root)
    code, answer = site.run(line, "tried", **options)
    felt = code != 0
    told = answer["error"]["code"] if felt else None
    assert answer["ok"] == (code == 0), answer
    if felt:
        assert code == FAULT
        assert answer["error"]["hint"]
    history = aftermath.history(site.root)
    if told != "unknown_outcome":
        assert (len(history) > len(before)) == (told in RECORDED), answer
    assert history[: len(before)] == before
    assert aftermath.errors(site.root) == []
    mend()
    code, answer = site.run(line, "tried")
    assert code == 0, answer
    assert aftermath.ids(site.root).count("tried") == 1
    if history != before:
        assert aftermath.history(site.root) == history
    assert aftermath.complaints(site.root) == []
    return felt


# The size of files


def limited_to(size):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("recipe", ["dev", "custom"])
@pytest.mark.parametrize("line", [["task", "add", "three"], ["advance"]], ids=" ".join)
def test_a_limit_on_the_size_of_files_is_told(recipe, line, quick, tally):
    base = Site.made(os.path.join(quick, "base")).go(journey(recipe)[:1])
    journal = os.path.getsize(os.path.join(base.home, "ledger.db-wal"))
    record = os.path.getsize(aftermath.record_of(base))
    sizes = [1, record // 2, record, 3 * PAGE, 32768, journal, journal + 1, journal + 5 * PAGE]
    felt = []
    for number, size in enumerate([0, *sampled(sizes, 3, f"{recipe}{line}")]):
        site = base.copy(os.path.join(quick, str(number)))
        limit = limited_to(size)
        felt.append(check_told_and_mended(site, line, lambda: None, preexec_fn=limit))
    assert any(felt)
    tally("full disks", points=len(felt))


# A full file system


def _worked(command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def tiny(quick, not_shown):
    """A file system with room for a ledger and a few files."""
    place = os.path.join(quick, "tiny")
    os.mkdir(place)
    size = f"size={ROOM * PAGE}"
    mounting = ["mount", "-t", "tmpfs", "-o", size, "none", place]
    if shutil.which("mount") is None or not _worked(mounting):
        not_shown("promise 5: a file system cannot be mounted here (that takes root)")
    yield place
    subprocess.run(["umount", place], check=True)


class Filler:
    """A file that takes all the room but some pages."""

    def __init__(self, folder, spared):
        self.path = os.path.join(folder, "filler")
        with open(self.path, "wb", buffering=0) as file:
            while _wrote(file):
                pass
            file.truncate(max(0, file.tell() - spared * PAGE))

    def remove(self):
        os.unlink(self.path)


def _wrote(file):
    try:
        return file.write(bytes(PAGE))
    except OSError:
        return 0


@pytest.mark.parametrize("line", ["start", "advance", "complete"])
def test_a_full_file_system_is_told_and_passes(line, tiny, quick, tally):
    lines = journey("dev")
    words = {"start": lines[0][1], "advance": ["advance"], "complete": lines[21][1]}[line]
    base = Site.made(os.path.join(quick, "base"), git=False)
    if line != "start":
        base.go(lines[:1])
    felt = []
    for spared in [0, *sampled(range(1, 80 if line == "start" else 30), 3, line)]:
        site = base.copy(os.path.join(tiny, "site"))
        filler = Filler(tiny, spared)
        felt.append(check_told_and_mended(site, words, filler.remove))
        site.drop()
    assert any(felt)
    tally("full disks", points=len(felt))


@pytest.mark.parametrize("lost", [(), ("ledger.db-shm",)], ids=["", "shared memory lost"])
def test_a_full_file_system_can_still_be_read(lost, tiny, quick):
    base = Site.made(os.path.join(quick, "base"), git=False).go(journey("dev")[:2])
    site = base.copy(os.path.join(tiny, "site"))
    for name in lost:
        os.unlink(os.path.join(site.home, name))
    Filler(tiny, 0)
    code, answer = ask(site.root, "show")
    assert (code, answer["workflow"]["id"]) == (0, site.workflow), answer
    assert aftermath.errors(site.root) == []


# Folders that cannot be written


def _permit(root, *, writing):
    """Lets everybody, or nobody, write to the folder and all that is in it."""
    for folder, _, names in os.walk(root):
        for path in [folder, *(os.path.join(folder, name) for name in names)]:
            mode = os.stat(path).st_mode & 0o777
            os.chmod(path, mode | 0o200 if writing else mode & ~0o222)


@contextmanager
def read_only(root, not_shown):
    """For a while nobody can write to the folder."""
    if os.geteuid():
        _permit(root, writing=False)
        yield
        _permit(root, writing=True)
        return
    if not _worked(["mount", "--bind", root, root]):
        not_shown("promise 5: root may write everywhere, and a folder cannot be bound read-only")
    subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", root], check=True)


@pytest.mark.parametrize("begun", [False, True], ids=["fresh", "begun"])
def test_a_read_only_workspace_is_told_and_still_read(begun, tmp_path, not_shown):
    site = Site.made(tmp_path / "site")
    if begun:
        site.go(journey("dev")[:1])
    before = aftermath.events(site.root)
    with read_only(site.root, not_shown):
        code, answer = site.run(["start", "dev", "other"])
        assert (code, answer["error"]["code"]) == (FAULT, "not_writable")
        if begun:
            code, answer = site.run(["advance"], "tried")
            assert (code, answer["error"]["code"]) == (FAULT, "not_writable")
            code, answer = site.run(["show"])
            assert (code, answer["workflow"]["id"]) == (0, site.workflow)
        code, answer = site.run(["log"])
        assert (code, len(answer["events"])) == (0, len(before))
        assert site.run(["status"])[0] == 0
        assert site.run(["verify"])[0] == 0
    assert aftermath.events(site.root) == before
    assert site.run(["start", "dev", "other"])[0] == 0
    assert aftermath.complaints(site.root) == []


def test_a_record_folder_that_cannot_be_written_is_told_and_the_record_follows(tmp_path, not_shown):
    site = Site.made(tmp_path / "site").go(journey("dev")[:1])
    with read_only(os.path.join(site.root, ".claude", "workflow-state"), not_shown):
        before = aftermath.events(site.root)
        assert site.run(["advance"], "tried")[0] == 0
        taken = aftermath.events(site.root)
        assert taken != before
    assert site.run(["advance"], "tried")[0] == 0
    assert aftermath.events(site.root) == taken
    assert aftermath.complaints(site.root) == []
