"""What all tests share: Hypothesis' settings, a workshop and a folder to type commands in, and the
lines that a run says of itself at its end.

A test that counts (kill points, writers, states after a power cut) calls the fixture ``tally`` with
its counts; those of all tests of the same name are added up, over all processes, and printed in one
line. ``not_shown`` skips a test loudly: what could not be shown here is said there too.
"""

import functools
import gc
import os
import shutil
import signal
import tempfile
import weakref

import pytest
from hypothesis import settings

from holdfast import Keeper
from support.command_line import Folder, clean_environment
from support.git_template import make_repository
from support.workshop import Workshop

MEMORY = "/dev/shm"
ROOM_BYTES = 2 << 30
"""A run needs a fraction of it."""


def _use_memory():
    """Have temporary folders in memory, where a sync takes no time; return the folder for them.

    Return ``None`` if there is no memory to be had, no programs run from it, or the process that
    started this one has done it.
    """
    if tempfile.gettempdir().startswith(MEMORY) or not os.access(MEMORY, os.W_OK):
        return None
    room = os.statvfs(MEMORY)
    if room.f_flag & os.ST_NOEXEC or room.f_bavail * room.f_frsize < ROOM_BYTES:
        return None
    folder = tempfile.mkdtemp(prefix="hf-", dir=MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    return folder


_in_memory = _use_memory()

# Nobody's own memory is written by a test; those that want one say where it is.
os.environ["HOLDFAST_MEMORY"] = "off"
# Nor does anything go on in the background, except in tests of that.
os.environ["HOLDFAST_BACKGROUND"] = "off"
# Nor is anybody's own list of ledgers.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="holdfast-state-")
# Nor does anybody's own receiver of spans get any.
for _name in [name for name in os.environ if "OTEL_" in name or name == "TRACEPARENT"]:
    del os.environ[_name]

# Tests send these to what they start, which hears them even where whoever runs the tests does not.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

# ``make promises`` says how much effort it wants, and gets as many examples as anywhere else.
_EXAMPLES = 100 if "HOLDFAST_PROMISES" in os.environ else 25
settings.register_profile("holdfast", deadline=None, max_examples=_EXAMPLES)
settings.load_profile("holdfast")


def _close_ledger(store):
    """Close the ledger of a keeper that nobody has any more, unless a transaction goes on."""
    database = store.ledger.database
    if database._connection is not None and not database.lock.is_held:
        database._forget()


def _closing_its_ledger(make):
    """Have a keeper close its ledger as soon as the last reference to it goes.

    A keeper's parts refer to each other, so the ledger would be closed whenever the collector
    happens to come by: in the middle of another test, or while files are listed.
    """

    @functools.wraps(make)
    def __init__(self, *args, **options):  # noqa: N807
        make(self, *args, **options)
        if options.get("share") is None:
            weakref.finalize(self, _close_ledger, self.store)

    return __init__


Keeper.__init__ = _closing_its_ledger(Keeper.__init__)

TALLY = "tally"
NOT_SHOWN = "not shown"


def pytest_collection_modifyitems(items):
    """Every report of a test tells which promises it shows; of a mutation, which it breaks."""
    for item in items:
        numbers = {number for marker in item.iter_markers("promise") for number in marker.args}
        values = getattr(item, "callspec", None)
        mutation = values.params.get("mutation") if values is not None else None
        if mutation is not None:
            numbers = {mutation.promise}
            item.user_properties.append(("mutation", mutation.name))
        if numbers:
            item.user_properties.append(("promises", sorted(numbers)))


def pytest_unconfigure(config):
    """Give the memory back, if nobody has to look at a failed test's files."""
    if _in_memory and not getattr(config, "_has_failed", True):
        shutil.rmtree(_in_memory, ignore_errors=True)


def pytest_sessionfinish(session, exitstatus):
    session.config._has_failed = exitstatus != pytest.ExitCode.OK


def pytest_collection_finish():
    """Take what was collected out of the collector's sight: it stays till the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def shop(tmp_path):
    """A workshop: a repository, and keepers in it with a clock of their own."""
    return Workshop(tmp_path / "work")


@pytest.fixture
def dev_shop(shop):
    """A workshop with one workflow in it, of the recipe ``dev``."""
    shop.keeper().start("dev", "a.md", tasks=["one", "two"])
    return shop


@pytest.fixture
def folder(tmp_path):
    """An empty folder that is no repository, in which commands are typed."""
    (tmp_path / "home").mkdir()
    return Folder(tmp_path, clean_environment(tmp_path / "home")).at("work")


@pytest.fixture
def repo(folder):
    """The same in a git repository with one commit on ``main``."""
    make_repository(folder.path, committed=True)
    return folder


_TESTS_PER_COLLECTION = 100
_ended = []


def pytest_runtest_logfinish(nodeid):
    """Collect what earlier tests left open, before there are too many files."""
    _ended.append(nodeid)
    if len(_ended) % _TESTS_PER_COLLECTION == 0:
        gc.collect()


@pytest.fixture
def tally(record_property):
    """``tally("kill matrix", points=12, failures=0)`` is a line in the run's summary."""

    def count(name, **counts):
        record_property(TALLY, [name, counts])

    return count


@pytest.fixture
def not_shown(record_property):
    """``not_shown("promise 1: strace is missing")`` skips the test, and the summary says why."""

    def skip(why):
        record_property(NOT_SHOWN, why)
        pytest.skip(why)

    return skip


def _properties(reporter):
    for reports in reporter.stats.values():
        for report in reports:
            # Every test has one teardown, whatever became of it.
            if getattr(report, "when", "") == "teardown":
                yield from report.user_properties


def pytest_terminal_summary(terminalreporter):
    sums = {}
    missing = {}
    for key, value in _properties(terminalreporter):
        if key == TALLY:
            name, counts = value
            line = sums.setdefault(name, {})
            for what, number in counts.items():
                line[what] = line.get(what, 0) + number
        elif key == NOT_SHOWN:
            missing[value] = missing.get(value, 0) + 1
    if sums or missing:
        terminalreporter.section("promises")
    for name, line in sums.items():
        said = ", ".join(f"{number} {what}" for what, number in line.items())
        terminalreporter.write_line(f"{name}: {said}")
    for why, times in missing.items():
        terminalreporter.write_line(f"NOT SHOWN ({times} tests): {why}", red=True, bold=True)
