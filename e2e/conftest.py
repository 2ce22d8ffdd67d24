"""What the scenarios share: a client in a place of its own, and the lines that a run prints.

Each scenario is one line when it ends, and the run ends with a table of all of them. A client that
is not there or does not start skips its scenarios, and both say why.
"""

import functools
import os

import pytest

from clients import Claude, Codex, Gemini, Unavailable
from install import pinned
from loopback import VARIABLE
from place import HOLDFAST, Place
from stub import Stub

CLIENT = "client"
WIDTHS = (68, 16)


@functools.cache
def version_of(kind):
    return kind.version()


def a_client(kind, tmp_path, record_property):
    """The client, its place and its model; what it asked is left beside the place."""
    record_property(CLIENT, f"{kind.name} {pinned()[kind.package]}")
    try:
        version = version_of(kind)
    except Unavailable as error:
        pytest.skip(str(error))
    assert version == pinned()[kind.package], "another version than the pinned one"
    stub = Stub(kind.dialect())
    client = kind(Place(tmp_path), stub)
    yield client
    client.close()
    stub.close()
    stub.save(tmp_path / "requests.json")


@pytest.fixture
def claude(tmp_path, record_property):
    yield from a_client(Claude, tmp_path, record_property)


@pytest.fixture
def codex(tmp_path, record_property):
    yield from a_client(Codex, tmp_path, record_property)


@pytest.fixture
def gemini(tmp_path, record_property):
    yield from a_client(Gemini, tmp_path, record_property)


class Lines:
    """One line for every scenario, and all of them again at the end."""

    def __init__(self, reporter):
        self.reporter = reporter
        self.rows = []

    def pytest_runtest_logreport(self, report):
        is_news = report.when == "call" or (report.when == "setup" and not report.passed)
        if not is_news and not report.failed:
            return
        name = report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        client = dict(report.user_properties).get(CLIENT, "")
        why = f": {report.longrepr[2].removeprefix('Skipped: ')}" if report.skipped else ""
        result = report.outcome.upper() if not report.passed else "passed"
        self.rows.append((name, client, f"{result}{why}"))
        self.reporter.ensure_newline()
        self.reporter.write_line(_line(client, WIDTHS[1], name, WIDTHS[0], f"{result}{why}"))

    def pytest_terminal_summary(self):
        self.reporter.section("scenarios")
        self.reporter.write_line(_line("scenario", WIDTHS[0], "client", WIDTHS[1], "result"))
        for name, client, result in self.rows:
            self.reporter.write_line(_line(name, WIDTHS[0], client, WIDTHS[1], result))


def _line(first, first_width, second, second_width, last):
    return f"{first:<{first_width}}  {second:<{second_width}}  {last}"


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """When the reporter is there, which the lines are written to."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        reporter.showfspath = False
        config.pluginmanager.register(Lines(reporter), "scenario-lines")


def pytest_report_teststatus(report):
    """The lines above say it; pytest's own letters would stand between them."""
    if report.when == "call" or not report.passed:
        return report.outcome, "", ""
    return None


def pytest_report_header():
    network = os.environ.get(VARIABLE, "the machine's own (make e2e cuts it)")
    return [f"holdfast: {HOLDFAST}", f"network: {network}"]
