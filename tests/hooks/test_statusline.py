"""``holdfast statusline`` as a client runs it: what the line says, and that nothing disturbs it."""

import fcntl
import json
import os
import subprocess
import sys

import pytest

import holdfast
from support.hook_client import ENTRY, HOME, HookClient, break_the_ledger
from support.workshop import PATIENCE_S

COMMAND = [sys.executable, "-I", "-S", ENTRY, "statusline"]
LOADED = {
    "holdfast",
    "holdfast.core",
    "holdfast.core.glance",
    "holdfast.core.json_text",
    "holdfast.core.record_formats",
    "holdfast.core.visible",
    "holdfast.errors",
    "holdfast.hooks",
    "holdfast.hooks.quick_check",
    "holdfast.hooks.statusline",
    "holdfast.storage",
    "holdfast.storage.quick_look",
    "holdfast.workspace",
    "holdfast.workspace.location",
}


class LineClient(HookClient):
    """A client that shows a status line."""

    variables = {"NO_COLOR": "1", "COLUMNS": "200"}  # noqa: RUF012

    def event(self, **fields):
        return {
            "session_id": self.session,
            "cwd": "/nowhere",
            "workspace": {"current_dir": self.path, "project_dir": self.path},
            "model": {"id": "m", "display_name": "M"},
            "context_window": {"used_percentage": None},
            **fields,
        }

    def printed(self, *words, raw=None, variables=None, **fields):
        data = json.dumps(self.event(**fields)).encode() if raw is None else raw
        env = {**self.environment, **self.variables, **(variables or {})}
        done = subprocess.run(
            [*COMMAND, *words], cwd=self.path, env=env, input=data, capture_output=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def line(self, **options):
        return self.printed(**options).removesuffix("\n")

    def session_of(self, name):
        client = LineClient(self.path, self.environment)
        client.session = name
        return client

    def start(self, *words):
        return self.ok("start", *words, "--session", self.session)["workflow"]["id"]


@pytest.fixture
def client(repo):
    return LineClient(repo.path, repo.environment)


@pytest.fixture
def login(client):
    """A workflow of three phases and two tasks, which the client's session has taken up."""
    client.start(
        "custom", "Login", "--phase", "Plan", "--phase", "Build", "--phase", "Ship",
        "--task", "Check the password", "--task", "Ask for a code",
    )  # fmt: skip
    return client


# What it says


def test_the_line_has_the_phase_the_task_and_the_context_that_is_used(login):
    assert login.line() == "▶ 1/3 Plan · task 1/2 Check the password"
    line = login.line(context_window={"used_percentage": 42.6})
    assert line == "▶ 1/3 Plan · task 1/2 Check the password · context 43%"


def test_every_change_is_on_the_line_at_once(login):
    """The state is stored every eighth event; the line must not wait for that."""
    session = ("--session", login.session)
    login.ok("task", "start", "2", *session)
    assert login.line() == "▶ 1/3 Plan · task 2/2 Ask for a code"
    login.ok("advance", *session)
    assert login.line().startswith("▶ 2/3 Build · ")
    login.ok("phase", "block", "Build", "--reason", "no key", *session)
    assert login.line().startswith("✗ blocked no key · ▶ 2/3 Build · ")
    login.ok("phase", "unblock", "Build", *session)
    login.ok("task", "block", "2", "--reason", "later", *session)
    login.ok("task", "start", "1", *session)
    assert login.line() == "▶ 2/3 Build · task 1/2 Check the password"
    login.ok("abandon", *session)
    assert login.line() == ""


RECIPE = """\
format = "skill"
title = "Review"
phases = [{name = "look", needs = ["gates"]}]
[gates.lint]
evidence = "run"
[gates.build]
evidence = "run"
[gates.read]
evidence = "claim"
"""


def test_gates_are_counted_by_what_they_rest_on_and_failed_ones_are_named(client):
    client.write(".claude/workflows/review.toml", RECIPE)
    client.write("check.py", "import sys; print('checked'); sys.exit(int(sys.argv[1]))\n")
    client.start("review", "login.md")
    session, check = ("--session", client.session), ("--", sys.executable, "check.py")
    assert client.line().endswith("gates 0/3")
    client.run("gate", "run", "lint", *session, *check, "0")
    assert client.line().endswith("gates 1/3")
    client.run("gate", "run", "build", *session, *check, "1")
    assert client.line().endswith("gates 1/3 ✗ build")
    client.ok("gate", "record", "read", "--passed", *session)
    assert client.line().endswith("gates 2/3 (1 claimed) ✗ build")


def test_a_failing_test_is_said_and_whether_the_phase_asks_for_it(client):
    client.start("tdd", "Login")
    client.write("check.py", "raise SystemExit('FAILED test_login')\n")
    client.run("red", "--session", client.session, "--", sys.executable, "check.py")
    assert "✗ tests fail, as red asks" in client.line() or "failing, as red asks" in client.line()


def test_work_of_another_branch_is_said_first(login):
    login.git("commit", "--allow-empty", "-qm", "begin")
    login.git("switch", "-qc", "other")
    assert login.line().startswith("✗ for branch main, not other · ▶ 1/3 Plan")
    newcomer = login.session_of("another")
    login.run("resume", "--session", "x")
    assert newcomer.line().startswith("✗ for branch main, not other")


# Whose workflow


def test_a_session_that_has_taken_up_nothing_sees_what_it_would_work_on(client):
    client.ok("start", "custom", "Login", "--phase", "Plan", "--session", "")
    assert client.line() == "▶ 1/1 Plan"
    client.ok("start", "custom", "Search", "--phase", "Plan", "--session", "")
    assert client.line() == "2 workflows here: holdfast resume ID"


def test_a_workflow_that_a_live_session_holds_is_not_shown_as_ones_own(login):
    assert login.session_of("another").line() == "another session works on Login"


def test_a_client_that_was_cleared_goes_on_with_its_workflow(client):
    pid = os.getpid()
    client.as_session("before", pid).ok("start", "custom", "Login", "--phase", "Plan")
    after = client.session_of("after")
    assert after.line(variables={"CLAUDE_PID": str(pid)}) == "▶ 1/1 Plan"
    assert after.line() == "another session works on Login"


def test_who_took_up_several_sees_the_last(login):
    login.start("custom", "Search", "--phase", "Look")
    assert login.line() == "▶ 1/1 Look"


def test_nothing_is_shown_where_nothing_goes_on(client, tmp_path):
    assert client.line() == ""
    elsewhere = LineClient(tmp_path / "elsewhere", client.environment)
    os.makedirs(elsewhere.path)
    assert elsewhere.line() == ""
    assert not os.listdir(elsewhere.path)


def test_a_linked_worktree_shows_its_own_work_alone(login):
    login.git("commit", "--allow-empty", "-qm", "begin")
    login.git("worktree", "add", "-q", "-b", "side", "../side")
    side = LineClient(os.path.join(os.path.dirname(login.path), "side"), login.environment)
    side.session = "another"
    assert side.line() == ""


# How it is shown


@pytest.mark.parametrize("columns", ["1", "24", "40", "60", "80", "120", "9999"])
def test_the_line_fits_the_terminal(login, columns):
    used = {"used_percentage": 91}
    line = login.line(context_window=used, variables={"COLUMNS": columns})
    assert 0 < len(line) <= max(20, int(columns) - 4)
    assert "1/3 Plan" in line


def test_colours_are_for_clients_that_want_them(login):
    plain = login.line()
    wanted = {"NO_COLOR": "", "TERM": "xterm"}
    assert login.line(variables=wanted).startswith("\x1b[36m▶ 1/3 Plan\x1b[0m")
    assert login.line(variables={**wanted, "TERM": "dumb"}) == plain
    assert login.line(variables={**wanted, "NO_COLOR": "1"}) == plain


HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07 title",
    "right \u202e to left",
    "two\nlines\r\nand\ttabs",
    "zero\u200bwidth <U+200B>",
    "\x9b31m C1",
    "宽" * 300,
    "`$(touch owned)`; touch owned",
    "x" * 4_000,
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("columns", ["40", "120"])
def test_stored_text_can_do_nothing_to_the_screen(client, text, columns):
    client.ok(
        "start", "custom", text, "--phase", "Plan", "--task", text, "--session", client.session
    )
    branch = client.run("phase", "block", "Plan", "--reason", text, "--session", client.session)
    assert branch.code == 0
    for session in (client, client.session_of("another")):
        printed = session.printed(variables={"COLUMNS": columns})
        assert printed.count("\n") == 1
        line = printed[:-1]
        assert line.isprintable()
        assert not set(line) & set("\x1b\x9b\u202e\u200b")
    assert not client.has("owned")


# Nothing disturbs it, and it disturbs nothing


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"text"', b"{}", b"[" * 100_000, b'{"cwd": 5}',
     b'{"workspace": [], "context_window": 7, "session_id": {}}',
     b'{"session_id": "a\\u0000b", "workspace": {"current_dir": "\\ud800"}}'],
)  # fmt: skip
def test_whatever_a_client_sends_the_exit_code_is_0(login, raw):
    assert "\n" not in login.line(raw=raw)


def test_a_context_that_is_no_number_is_left_out(login):
    for used in (True, "43", [], {}, -5, 1e300):
        login.line(context_window={"used_percentage": used})
    assert login.line(context_window={"used_percentage": 1e300}).endswith(" · context 100%")


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.db-shm"])
def test_a_pipe_in_the_place_of_the_ledger_keeps_nobody_waiting(login, name):
    path = os.path.join(login.path, HOME, name)
    if os.path.exists(path):
        os.unlink(path)
    os.mkfifo(path)
    assert login.line() == ""


def test_a_ledger_that_cannot_be_read_leaves_the_line_empty(login):
    break_the_ledger(login)
    assert login.line() == ""


@pytest.mark.parametrize("offset", [0, 100, 4_096])
def test_a_damaged_ledger_leaves_the_line_empty_or_as_it_was(login, offset):
    before = login.line()
    path = os.path.join(login.path, HOME, "ledger.db")
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 200)
    assert login.line() in ("", before)


def test_the_ledger_of_a_clone_is_not_believed(login, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", login.path, copy], check=True)
    stranger = LineClient(str(copy), {**login.environment, "XDG_STATE_HOME": str(tmp_path / "s")})
    assert stranger.line() == ""


def test_a_look_writes_nothing_and_waits_for_no_writer(login):
    home = os.path.join(login.path, HOME)

    def state():
        names = sorted(os.listdir(home))
        return [(name, os.stat(os.path.join(home, name)).st_mtime_ns) for name in names]

    before = state()
    with open(os.path.join(home, "lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert login.line() == "▶ 1/3 Plan · task 1/2 Check the password"
    after = [row for row in state() if row[0] != "ledger.db-shm"]
    assert after == [row for row in before if row[0] != "ledger.db-shm"]


def test_a_client_that_never_ends_its_input_does_not_keep_the_process(login):
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            COMMAND, stdin=reading, cwd=login.path, capture_output=True, timeout=PATIENCE_S,
            env={**login.environment, "HOLDFAST_HOOK_MS": "300"}, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("end", [">&-", "| true", "2>&-", "> /dev/full"])
def test_a_client_that_does_not_read_gets_no_error(login, end):
    command = f"echo '{json.dumps(login.event())}' | {' '.join(COMMAND)} {end}"
    for words in ("", " --after 'echo theirs'"):
        shell = [
            "/bin/bash",
            "-o",
            "pipefail",
            "-c",
            command.replace("statusline", f"statusline{words}"),
        ]
        done = subprocess.run(
            shell, cwd=login.path, env={**login.environment, **login.variables},
            capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")


def test_it_loads_next_to_nothing(login):
    program = (
        "import os, sys\nsys.path.insert(0, sys.argv[1])\n"
        "from holdfast.hooks.statusline import main\nmain([])\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    source = holdfast.__path__[0].rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, source], cwd=login.path,
        input=json.dumps(login.event()).encode(), env={**login.environment, **login.variables},
        capture_output=True, check=True,
    )  # fmt: skip
    modules = set(done.stderr.decode().split())
    assert {name for name in modules if name.startswith("holdfast")} == LOADED
    assert modules.isdisjoint({"functools", "collections", "json", "re", "subprocess", "_datetime"})
    assert done.stdout.decode().startswith("▶ 1/3 Plan")


def test_a_repaired_ledger_still_has_the_line(login):
    before = login.line()
    login.run("repair")
    assert login.line() == before


# Beside another status line


def test_a_former_status_line_comes_first_with_the_same_input(login):
    text = json.dumps(login.event())
    printed = login.printed("--after", "cat; echo; echo two", raw=text.encode())
    assert printed == f"{text}\ntwo\n▶ 1/3 Plan · task 1/2 Check the password\n"


def test_a_former_status_line_runs_as_the_client_would_run_it(login):
    printed = login.printed("--after", "printf '%s' \"$HOME|$PWD\" && exit 0")
    home, folder = printed.splitlines()[0].split("|")
    assert (home, folder) == (login.environment["HOME"], login.path)


@pytest.mark.parametrize(
    "former", ["echo no; exit 1", "true", "no-such-program 2>/dev/null", "exit 3"]
)
def test_a_former_status_line_that_fails_or_is_empty_leaves_ours(login, former):
    assert login.printed("--after", former) == "▶ 1/3 Plan · task 1/2 Check the password\n"


def test_a_former_status_line_is_shown_where_ours_is_empty(client):
    assert client.printed("--after", "echo theirs") == "theirs\n"
    assert client.printed("--after", "printf theirs", raw=b"{") == "theirs\n"


def test_a_former_status_line_may_take_longer_than_ours(login, tmp_path):
    """The client alone decides how long it waits for what it ran before."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    env = {**login.environment, **login.variables, "HOLDFAST_HOOK_MS": "200"}
    process = subprocess.Popen(
        [*COMMAND, "--after", f"cat '{gate}'"], cwd=login.path, env=env, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(json.dumps(login.event()).encode())
    process.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    gate.write_text("theirs\n")
    assert process.stdout.read().decode().splitlines()[0] == "theirs"
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()


def test_a_former_status_line_that_reads_nothing_harms_nobody(login):
    raw = json.dumps(login.event(more="x" * 1_000_000)).encode()
    assert login.printed("--after", "echo theirs", raw=raw).splitlines()[0] == "theirs"


# As a command


def test_it_is_a_command_for_any_terminal(login):
    line = "▶ 1/3 Plan · task 1/2 Check the password\n"
    env = {**login.environment, **login.variables}
    assert login.run("statusline", env=env).out == line
    assert login.run("statusline", "--no-such-option", env=env).out == line
    assert "holdfast statusline" in login.run("statusline", "--help").out
