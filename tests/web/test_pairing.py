"""Approvals and waivers on the page are a person's: by a code of the terminal, and only there."""

import re
import sys

import pytest

from holdfast.web.pairing import MAX_CODES, MAX_TRIES
from support.pseudoterminal import Pseudoterminal, skip_below_client
from support.web_site import Visitor, until

CODE = re.compile(r"enter this code there once: ([A-Z0-9]{4}-[A-Z0-9]{4})\r?\n")
WRONG = "AAAA-AAAA"


class PersonsSite:
    """``holdfast web`` on a terminal."""

    def __init__(self, terminal):
        self.terminal = terminal
        terminal.wait_for("Ctrl-C ends it.")
        self.address = terminal.text.splitlines()[0]
        self.port = int(re.search(r":(\d+)/", self.address)[1])

    def visitor(self):
        visitor = Visitor(self.port)
        visitor.get("/?" + self.address.partition("?")[2])
        return visitor

    def codes(self):
        return CODE.findall(self.terminal.text)

    def next_code(self):
        """Wait for a code after those that were shown."""
        known = len(self.codes())
        position = 0
        for _ in range(known + 1):
            position = self.terminal.wait_for("code there once: ", position)
        self.terminal.wait_for("\n", position)
        return self.codes()[-1]


@pytest.fixture
def terminal(repo):
    def start(**environment):
        command = [sys.executable, "-m", "holdfast", "web", "--no-open"]
        return Pseudoterminal(command, repo.path, {**repo.environment, **environment}, columns=120)

    return start


@pytest.fixture
def gated(repo):
    """A repository with a phase that waits for an approval, and a gate to waive."""
    repo.ok("start", "apex", "Refunds", "--task", "Fix it")
    name = repo.ok("status")["workflows"][0]["id"]
    repo.ok("phase", "complete", "analyze", "-w", name)
    repo.git("switch", "-q", "-c", "login")
    repo.ok("start", "dev", "login.md", "--task", "Ask for the code")
    return repo


@pytest.fixture
def person(gated, terminal):
    skip_below_client()
    with terminal() as running:
        yield PersonsSite(running)


def kinds(folder):
    return [event["type"] for event in folder.ok("log")["events"]]


def test_only_a_paired_browser_approves_and_waives(gated, person):
    visitor, other = person.visitor(), person.visitor()
    approval, gate = visitor.path_of("Refunds"), visitor.path_of("login.md")
    for action, page in (("approve", approval), ("waive", gate)):
        visitor.get(page)
        fields = {"phase": "plan", "gate": "lint", "text": "The project has no linter"}
        answer = visitor.post(f"/do/{page.removeprefix('/w/')}/{action}", fields)
        assert answer.status == 403
        assert "pair this browser with the code" in answer.text
    assert not set(kinds(gated)) & {"phase_approved", "gate_waived"}
    visitor.get("/pair")
    assert visitor.post("/pair", {"code": person.codes()[0].lower()}).headers["location"] == "/"
    assert "paired" in visitor.get("/").text
    assert "is approved" in visitor.do(approval, "approve", phase="plan").text
    assert "is waived" in visitor.do(gate, "waive", gate="lint", text="There is none").text
    assert kinds(gated)[-2:] == ["phase_approved", "gate_waived"]
    # Another browser that knows the address is not paired by that.
    other.get(gate)
    answer = other.post(f"/do/{gate.removeprefix('/w/')}/waive", {"gate": "test", "text": "x"})
    assert answer.status == 403


def test_a_code_pairs_one_browser(person):
    first, second = person.visitor(), person.visitor()
    code = person.codes()[0]
    for visitor in (first, second):
        visitor.get("/pair")
    assert first.post("/pair", {"code": code}).headers["location"] == "/"
    following = person.next_code()
    assert following != code
    assert second.post("/pair", {"code": code}).headers["location"] == "/pair"
    assert second.post("/pair", {"code": following}).headers["location"] == "/"


def test_wrong_codes_use_up_the_codes_and_then_nobody_is_paired(person):
    visitor = person.visitor()
    visitor.get("/pair")
    for number in range(1, MAX_CODES + 1):
        for _ in range(MAX_TRIES):
            assert visitor.post("/pair", {"code": WRONG}).headers["location"] == "/pair"
        if number < MAX_CODES:
            person.next_code()
    assert len(set(person.codes())) == MAX_CODES
    for code in person.codes():
        assert visitor.post("/pair", {"code": code}).headers["location"] == "/pair"
    assert "too many wrong codes" in visitor.get("/pair").text


@pytest.mark.parametrize(
    "marks", [{"CLAUDECODE": "1"}, {"CODEX_THREAD_ID": "t"}, {"GEMINI_CLI": "1"}]
)
def test_a_client_cannot_start_a_page_that_approves(gated, terminal, marks):
    with terminal(**marks) as running:
        site = PersonsSite(running)
        assert site.codes() == []
        assert "started this server" in running.text
        visitor = site.visitor()
        page = visitor.path_of("Refunds")
        visitor.get(page)
        answer = visitor.post(f"/do/{page.removeprefix('/w/')}/approve", {"phase": "plan"})
        assert answer.status == 403
        assert "started this server" in answer.text
        assert "Approve plan" not in visitor.get(page).text
    assert "phase_approved" not in kinds(gated)


def test_a_mark_that_is_taken_away_below_a_client_does_not_help(gated, repo):
    """The client is seen in the processes above, as for the commands of a person."""
    script = (
        f"exec env -u CLAUDECODE {sys.executable} -m holdfast web --no-open; :"  # a shell between
    )
    command = ["/bin/sh", "-c", f"{script.removeprefix('exec ')}"]
    environment = {**repo.environment, "CLAUDECODE": "1"}
    with Pseudoterminal(command, repo.path, environment, columns=120) as running:
        site = PersonsSite(running)
        assert site.codes() == []
        assert "Claude Code started this server" in running.text


def test_ctrl_c_in_the_terminal_ends_it_with_code_0(gated, terminal):
    with terminal() as running:
        PersonsSite(running)
        running.press(b"\x03")
        assert running.ended() == 0


def test_a_browser_is_opened_with_an_address_that_lets_one_in_once(gated, tmp_path):
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    script.chmod(0o700)
    command = [sys.executable, "-m", "holdfast", "web"]
    environment = {**gated.environment, "DISPLAY": ":99", "BROWSER": f"{script} %s"}
    with Pseudoterminal(command, gated.path, environment, columns=120) as running:
        site = PersonsSite(running)
        address = until(lambda: opened.exists() and opened.read_text())
        assert address.partition("?")[0] == site.address.partition("?")[0]
        assert address != site.address
        path = f"/?{address.partition('?')[2]}"
        first, second = Visitor(site.port), Visitor(site.port)
        assert first.get(path).status == 200
        assert second.get(path).status == 403
        assert "Refunds" in first.get("/").text
        assert site.visitor().get("/").status == 200
        running.press(b"\x03")
        assert running.ended() == 0
