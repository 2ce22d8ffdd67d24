"""The command line around a keeper that only remembers what it was asked: calls, exits, errors."""

import io
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from holdfast import answers as answers_json
from holdfast.cli.main import main
from holdfast.cli.parser import load_all
from holdfast.core import json_text
from holdfast.core.workflow import blank
from holdfast.errors import Fault, Refused
from holdfast.keeper import Keeper as RealKeeper

RECIPE = {"name": "dev", "format": "skill", "phases": [{"name": "plan"}, {"name": "build"}]}
EVENTS = [
    {"seq": seq, "at": "2026-01-02T03:04:05.000Z", "stream": "dev-1", "type": "noted", "data": {}}
    for seq in (1, 2)
]
NOON = "2026-01-02T12:00:00.000Z"
FREELY = {"force": False, "reason": None}
HASTILY = {"force": True, "reason": "haste"}
AIM = {"workflow": None, "id": None}
PLAN = {"name": "plan", "fields": {}}
BLOCKED = {"name": "plan", "fields": {"reason": "x"}}


class Keeper:
    """Answers every method with one receipt, or raises what the test asks for."""

    calls: list
    error: BaseException | None = None
    sound = True
    workspace = SimpleNamespace(branch=lambda: "main")
    session = SimpleNamespace(
        id=None, peek_repeat=lambda *_: None, look=lambda _: Keeper.receipt().state
    )

    def __init__(self, **opened):
        self.calls.append(("open", (), opened))

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            if self.error is not None:
                raise self.error
            return self.answers().get(name, self.receipt())

        return call

    @staticmethod
    def receipt():
        state = blank("dev-1", RECIPE, NOON)
        state["tasks"] = [{"id": 3, "description": "Write it", "status": "pending"}]
        return SimpleNamespace(
            state=state,
            record="a.json",
            seqs=[4],
            notes=["brought forward"],
            facts=None,
            resumed=True,
            signal="DEV_COMPLETE: dev-1",
            undone={"what": "task 3 done", "back": ["task 3 is pending again"], "undoes": [3]},
            is_repeat=False,
            output="",
        )

    def answers(self):
        lines = [{"level": "error", "what": "ledger", "message": "a bad line"}]
        report = SimpleNamespace(ok=self.sound, lines=[] if self.sound else lines, counts={})
        return {
            "workflows": ([listed("dev-1"), listed("dev-2")], []),
            "open_questions": [],
            "briefing": "Go on with task 3.",
            "has_initiatives": False,
            "needs_explicit_id": False,
            "missing_reading": [],
            "drain_notes": [],
            "events": iter(EVENTS),
            "follow": interrupted_after([{**EVENTS[0], "seq": 3}]),
            "verify": report,
            "repair": report,
        }


def listed(name):
    return {**dict.fromkeys(answers_json._ROW), "id": name}


def interrupted_after(events):
    yield from events
    raise KeyboardInterrupt


def by_name(name):
    return lambda keeper, **values: getattr(keeper, name)(**values)


@pytest.fixture
def fake_keeper(monkeypatch):
    fake = type("FakeKeeper", (Keeper,), {"calls": []})
    module = ModuleType("holdfast.keeper")
    module.Keeper = fake
    for command in load_all().values():
        method = getattr(command.run, "method", None)
        if method is not None and getattr(RealKeeper, method.__name__, None) is method:
            monkeypatch.setattr(command.run, "method", by_name(method.__name__))
    monkeypatch.setitem(sys.modules, "holdfast.keeper", module)
    for name in ("CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    return fake


def in_json(capsys, *words):
    code = main([*words, "--json"])
    captured = capsys.readouterr()
    return code, json_text.loads(captured.out)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("advance", ("advance", {"branch": None, **FREELY})),
        ("advance --branch b", ("advance", {"branch": "b", **FREELY})),
        ("phase start plan a=1", ("start_phase", {"name": "plan", "fields": {"a": 1}, **FREELY})),
        ("phase complete plan", ("complete_phase", {**PLAN, **FREELY})),
        ("phase block plan reason=x", ("block_phase", BLOCKED)),
        ("phase block plan --reason x", ("block_phase", BLOCKED)),
        ("phase unblock plan", ("unblock_phase", PLAN)),
        ("phase skip plan --reason x", ("skip_phase", {"name": "plan", "reason": "x"})),
        ("step red", ("start_step", {"name": "red"})),
        ("task add x", ("add_tasks", {"texts": ["x"], "path": None})),
        ("task add x y --from f", ("add_tasks", {"texts": ["x", "y"], "path": "f"})),
        ("task start 3", ("start_task", {"task": 3})),
        ("task done 3 --commit abc", ("complete_task", {"task": 3, "commit": "abc", **FREELY})),
        ("task block 3 --reason x", ("block_task", {"task": 3, "reason": "x"})),
        ("task unblock 3", ("unblock_task", {"task": 3})),
        ("task edit 3 x", ("edit_task", {"task": 3, "text": "x"})),
        ("task remove 3", ("remove_task", {"task": 3})),
        ("task reopen 3", ("reopen_task", {"task": 3})),
        (
            "task move 3 --before 1",
            ("move_task", {"task": 3, "before": 1, "after": None, "to": None}),
        ),
        ("remind x", ("remind", {"text": "x"})),
        ("remind --remove 2", ("remove_reminder", {"reminder": 2})),
        ("read @x", ("require_reading", {"path": "@x"})),
        ("read --remove @x", ("remove_reading", {"path": "@x"})),
        ("set a=b", ("set_context", {"fields": {"a": "b"}})),
        ("unset a b", ("unset_context", {"keys": ["a", "b"]})),
        ("rename x", ("rename", {"title": "x"})),
        ("undo", ("undo", {})),
        (
            "advance -w dev-1 --id r1 --force --reason haste",
            ("advance", {"branch": None, **HASTILY, "workflow": "dev-1", "id": "r1"}),
        ),
        (
            "complete --outcome o --force --reason r",
            ("complete", {"outcome": "o", "force": True, "reason": "r"}),
        ),
        ("abandon", ("abandon", {"reason": None})),
    ],
)
def test_a_command_is_one_call_and_answers_with_the_workflow(fake_keeper, capsys, line, asked):
    code, answer = in_json(capsys, *line.split())
    method, values = asked
    assert fake_keeper.calls[1:] == [(method, (), {**AIM, **values})]
    assert (code, answer["ok"], answer["seqs"]) == (0, True, [4])
    assert answer["workflow"]["id"] == "dev-1"
    assert answer["notes"] == ["brought forward"]
    assert main(line.split()) == 0
    assert "next: holdfast" in capsys.readouterr().out


def test_start_hands_everything_on(fake_keeper, capsys):
    code, answer = in_json(capsys, "start", "dev", "x.md", "--task", "a", "--set", "k=1")
    method, _, kwargs = fake_keeper.calls[1]
    assert (code, method) == (0, "start")
    assert (kwargs["recipe"], kwargs["subject"]) == ("dev", "x.md")
    assert (kwargs["tasks"], kwargs["context"]) == (["a"], {"k": 1})
    assert (answer["resumed"], answer["workflow"]["recipe"]) == (True, "dev")
    assert main(["start", "dev"]) == 0
    asked = [given for method, _, given in fake_keeper.calls if method == "start"]
    assert asked[-1]["context"] == {}
    assert "resumed dev-1" in capsys.readouterr().out


def test_reading_commands_have_their_one_object(fake_keeper, capsys):
    assert in_json(capsys, "status") == (
        0,
        {"ok": True, "workflows": [listed("dev-1"), listed("dev-2")], "questions": []},
    )
    assert in_json(capsys, "status", "-w", "dev-2")[1]["workflows"] == [listed("dev-2")]
    assert in_json(capsys, "show", "dev-1")[1]["workflow"]["status"] == "in_progress"
    assert in_json(capsys, "resume")[1]["briefing"] == "Go on with task 3."
    assert in_json(capsys, "log", "--limit", "2")[1]["events"] == EVENTS
    assert ("events", (), {"workflow": None, "limit": 2}) in fake_keeper.calls
    assert in_json(capsys, "verify") == (0, {"ok": True, "lines": [], "counts": {}})


@pytest.mark.parametrize("line", ["show", "resume", "gate list", "violation list"])
def test_a_look_at_a_workflow_names_the_next_step(fake_keeper, capsys, line):
    _, answer = in_json(capsys, *line.split())
    assert answer["next"]["command"] == ["holdfast", "task", "start", "3"]
    assert set(answer["next"]) == {"command", "about", "fill"}


def test_following_the_log_gives_each_event_once_on_its_own_line(fake_keeper, capsys):
    assert main(["log", "--follow", "--json"]) == 130
    assert fake_keeper.calls[-1] == ("follow", (), {"workflow": None, "after": 2})
    lines = capsys.readouterr().out.splitlines()
    assert [json_text.loads(line)["seq"] for line in lines] == [1, 2, 3]


def test_damage_is_exit_1_with_its_lines_and_an_error(fake_keeper, capsys):
    fake_keeper.sound = False
    code, answer = in_json(capsys, "verify")
    assert (code, answer["ok"], answer["error"]["code"]) == (1, False, "damaged")
    assert answer["lines"][0]["message"] == "a bad line"


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (Refused("no_task", "there is no task 9", "holdfast show", tasks=[3]), 1, "no_task"),
        (Fault("locked", "the lock is held", "try again"), 3, "locked"),
        (PermissionError(13, "Permission denied", "/x"), 3, "storage"),
        (RuntimeError("boom \x1b[2J"), 3, "internal"),
    ],
)
def test_an_error_is_answered_with_its_exit_code(fake_keeper, capsys, error, code, name):
    fake_keeper.error = error
    assert main(["advance", "--json"]) == code
    answer = json_text.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["error"]["code"]) == (False, name)
    assert {"code", "message", "hint"} <= set(answer["error"])
    assert main(["advance"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "holdfast: " in captured.err
    # Only a command is the next step.
    assert ("  next: " in captured.err) == answer["error"]["hint"].startswith("holdfast ")
    assert f"  {answer['error']['hint']}" in captured.err.replace("  next: ", "  ")
    assert "\x1b" not in captured.err


def test_what_a_refusal_lists_is_in_both_answers(fake_keeper, capsys):
    fake_keeper.error = Refused(
        "pending", "tasks are pending", "holdfast show", tasks=["3 Write it"]
    )
    assert in_json(capsys, "complete")[1]["error"]["details"] == {"tasks": ["3 Write it"]}
    main(["complete"])
    assert "  tasks: 3 Write it" in capsys.readouterr().err


def test_a_usage_error_is_exit_2_and_opens_nothing(fake_keeper, capsys):
    code, answer = in_json(capsys, "task", "dnoe")
    assert (code, answer["error"]["code"]) == (2, "usage")
    assert main(["phase", "block", "plan", "reason=a", "--reason", "b"]) == 2
    assert "two reasons" in capsys.readouterr().err
    assert [call for call in fake_keeper.calls if call[0] != "open"] == []


def test_the_word_json_as_text_asks_for_no_json(fake_keeper, capsys):
    assert main(["task", "add", "--", "--json"]) == 0
    assert fake_keeper.calls[-1][2]["texts"] == ["--json"]
    assert capsys.readouterr().out.startswith("✓ task 3 added: ")


def test_an_interrupt_is_exit_130_without_a_word(fake_keeper, capsys):
    fake_keeper.error = KeyboardInterrupt()
    assert main(["advance"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "environment", "client", "session", "pid"),
    [
        ([], None, "42", None, None),
        ([], "", "42", None, None),
        ([], "env", "42", "env", 42),
        ([], "env", None, "env", None),
        ([], "env", "0", "env", None),
        ([], "env", "12.5", "env", None),
        ([], "env", "9" * 30, "env", None),
        (["--session", "mine"], "env", "42", "mine", None),
        (["--session", "env"], "env", "42", "env", 42),
        (["--session", ""], "env", "42", None, None),
    ],
)
def test_the_session_is_the_option_else_the_environment_with_its_client(
    fake_keeper, monkeypatch, words, environment, client, session, pid
):
    for name, value in (("CLAUDE_CODE_SESSION_ID", environment), ("CLAUDE_PID", client)):
        if value is not None:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name, raising=False)
    main(["status", *words])
    method, _, opened = fake_keeper.calls[0]
    assert (method, opened["path"], opened["by"]) == ("open", ".", "cli")
    assert (opened["session"], opened["pid"]) == (session, pid)


@pytest.mark.parametrize(
    ("claude", "session"), [(None, "codex-1"), ("claude-1", "claude-1"), ("", None)]
)
def test_codex_says_who_asks_unless_claude_code_does(fake_keeper, monkeypatch, claude, session):
    monkeypatch.setenv("CODEX_SESSION_ID", "codex-1")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    if claude is not None:
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", claude)
    main(["status"])
    assert fake_keeper.calls[0][2]["session"] == session


@pytest.mark.parametrize(
    ("said", "wait_s"), [("250", 0.25), ("0", 0.0), ("soon", None), ("", None)]
)
def test_the_environment_bounds_the_wait_for_another_writer(fake_keeper, monkeypatch, said, wait_s):
    monkeypatch.setenv("HOLDFAST_WAIT_MS", said)
    main(["status"])
    assert fake_keeper.calls[0][2]["wait_s"] == wait_s


class Deaf(io.StringIO):
    """A stream whose other end is gone, or full."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def flush(self):
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), 0, ""),
        (OSError(28, "No space left on device"), 3, "could not be written"),
    ],
)
def test_an_answer_nobody_hears_does_not_undo_the_work(fake_keeper, capsys, error, code, said):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", Deaf(error))
        assert main(["advance"]) == code
        fake_keeper.sound = False
        patch.setattr(sys, "stdout", Deaf(error))
        assert main(["verify"]) == 1
    assert said in capsys.readouterr().err


def test_without_a_standard_output_the_work_is_still_done(fake_keeper, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["advance"]) == 0
    assert fake_keeper.calls[-1][0] == "advance"


def test_help_needs_no_workspace(fake_keeper, capsys):
    assert main(["help"]) == 0
    assert "holdfast COMMAND" in capsys.readouterr().out
    code, answer = in_json(capsys, "task", "done", "--help")
    assert (code, answer["ok"]) == (0, True)
    assert "holdfast task done N" in answer["help"]
    assert fake_keeper.calls == []


def test_the_demonstration_leaves_standard_output_to_the_one_object(
    fake_keeper, monkeypatch, capsys
):
    module = ModuleType("holdfast.cli.demo")
    module.run = lambda out: print("the story", file=out) or 0
    monkeypatch.setitem(sys.modules, "holdfast.cli.demo", module)
    assert in_json(capsys, "demo") == (0, {"ok": True})
    assert main(["demo"]) == 0
    assert capsys.readouterr().out == "the story\n"
    module.run = lambda _out: 4
    code, answer = in_json(capsys, "demo")
    assert (code, answer["ok"], answer["error"]["code"]) == (4, False, "failed")


def test_a_common_command_imports_no_more_of_the_surface_than_it_needs():
    program = (
        "import sys, holdfast.cli.main as cli\n"
        "cli.open_keeper = lambda args: sys.exit()\n"
        "try: cli.main(['task', 'done', '3'])\n"
        "except SystemExit: print(*[n for n in sys.modules if n.startswith('holdfast.cli.')])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    modules = {"answer", "commands", "commands.progress", "main", "parser", "screen"}
    assert set(run.stdout.split()) == {f"holdfast.cli.{name}" for name in modules}


def test_nothing_reads_standard_input(fake_keeper, monkeypatch):
    reader, writer = os.pipe()
    with os.fdopen(reader) as silent, os.fdopen(writer, "w"):
        monkeypatch.setattr(sys, "stdin", silent)
        for line in ("start dev", "complete", "abandon", "resume", "repair"):
            assert main(line.split()) == 0
