"""``holdfast doctor`` finds what is wrong and what mends it, and runs nothing that came along."""

import json
import os
import shutil
import sqlite3
import sys

import pytest

from holdfast import Keeper
from holdfast.errors import Fault
from holdfast.install.doctor import examine
from holdfast.storage import database
from support import editors

HOOKS = {"SessionStart": [{"hooks": [{"type": "command", "command": "holdfast hook"}]}]}


def checks(place, what=None, **options):
    answer = place.run("doctor", "--json", **options)
    assert answer.code in (0, 1), answer
    found = json.loads(answer.out)["checks"]
    assert all(check["hint"] for check in found if check["status"] == "bad")
    return [check for check in found if what is None or check["what"] == what]


def only(place, what, **options):
    (check,) = checks(place, what, **options)
    return check


def write_settings(place, name=".claude/settings.json", **settings):
    place.write(name, json.dumps(settings))


def calling(**handler):
    return {"Stop": [{"hooks": [{"type": "command", **handler}]}]}


@pytest.mark.promise(13)
@pytest.mark.parametrize(
    "handler",
    [
        {"command": "touch ran; holdfast hook"},
        {"command": "holdfast hook; touch ran"},
        {"command": "./holdfast hook"},
        {"command": "./holdfast", "args": ["hook"]},
        {"command": "./holdfast", "args": ["x/holdfast/hooks/entry.py"]},
        {"command": "/bin/sh", "args": ["-c", "touch ran", "holdfast/hooks/entry.py"]},
    ],
)
@pytest.mark.parametrize("name", [".claude/settings.json", ".claude/settings.local.json"])
def test_nothing_that_a_project_brings_is_run(place, name, handler):
    place.write("holdfast", "#!/bin/sh\ntouch ran\n")
    os.chmod(os.path.join(place.path, "holdfast"), 0o755)
    write_settings(place, name, hooks=calling(**handler))
    assert all(check["status"] != "good" for check in checks(place, "hooks"))
    assert not place.has("ran")


def test_no_client_is_taken_from_the_project(place):
    place.write("claude", "#!/bin/sh\ntouch ran\n")
    os.chmod(os.path.join(place.path, "claude"), 0o755)
    path = f".:{place.environment['PATH']}:"
    assert only(place, "clients", env={**place.environment, "PATH": path})["status"] == "unknown"
    assert not place.has("ran")


@pytest.mark.parametrize("words", [(), ("--local",), ("--user",), ("--agent", "gemini", "--user")])
def test_hooks_that_init_put_there_answer(place, words):
    place.ok("init", *words)
    check = only(place, "hooks")
    assert (check["status"], "answers, version" in check["found"]) == ("good", True)


def test_a_person_whose_settings_are_elsewhere_is_found(place, tmp_path):
    place.environment["CLAUDE_CONFIG_DIR"] = str(tmp_path / "elsewhere")
    place.ok("init", "--user")
    assert str(tmp_path / "elsewhere") in only(place, "hooks")["found"]


def test_the_plugin_calls_holdfast_too(place, tmp_path):
    (tmp_path / "home" / ".claude").mkdir()
    settings = tmp_path / "home" / ".claude" / "settings.json"
    settings.write_text(json.dumps({"enabledPlugins": {"holdfast@holdfast": True}}))
    assert only(place, "hooks")["status"] == "good"
    settings.write_text(json.dumps({"enabledPlugins": {"holdfast@holdfast": False}}))
    assert only(place, "hooks")["hint"] == "holdfast init"


def test_holdfast_that_is_not_on_the_path_is_said(place):
    write_settings(place, hooks=HOOKS)
    path = place.environment["PATH"].partition(":")[2]
    check = only(place, "hooks", env={**place.environment, "PATH": path})
    assert (check["status"], "not on the PATH" in check["found"]) == ("bad", True)
    assert "holdfast init --local" in check["hint"]


def test_a_client_that_calls_twice_is_told(place):
    place.ok("init")
    place.ok("init", "--local")
    *both, advice = checks(place, "hooks")
    assert [check["status"] for check in both] == ["good", "good"]
    assert "more than once" in advice["found"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{ // mine\n}", "cannot be read"),
        ('{"disableAllHooks": true}', "disableAllHooks"),
        ("[]", "no client is set up"),
        ('\ufeff{"hooks": 7}', "no client is set up"),
        ('{"hooks": {"Stop": [{"hooks": [{"command": "holdfast \'"}]}]}}', "no client is set up"),
        ("", "no client is set up"),
    ],
)
def test_settings_that_call_nobody_are_said(place, text, said):
    place.write(".claude/settings.json", text)
    assert any(said in check["found"] for check in checks(place, "hooks"))


def test_a_setting_of_holdfast_that_makes_no_sense_is_said(place):
    place.write(".claude/holdfast.toml", 'enforce = ["everything"]\n')
    assert "enforce" in only(place, "settings")["found"]


def test_what_is_enforced_needs_a_client_that_asks(place):
    place.write(".claude/holdfast.toml", 'enforce = ["reading", "stop"]\n')
    place.ok("init")
    check = only(place, "settings")
    assert check["found"].startswith("reading, stop should be enforced, but no client")
    assert check["hint"] == "holdfast init --enforce"
    place.ok("init", "--enforce")
    assert only(place, "settings")["found"] == "enforced: reading, stop"


def test_a_file_where_a_folder_is_needed_is_named(place):
    place.write(".claude", "not a folder")
    check = only(place, "folders")
    assert "is not a folder" in check["found"]
    assert check["hint"].startswith("move ")


def test_what_cannot_be_written_is_named(place):
    place.ok("start", "custom", "Mine")
    home = os.path.join(place.path, ".git", "holdfast")
    os.chmod(home, 0o500)
    try:
        folders = only(place, "folders", rights=False)
        locks = only(place, "locks", rights=False)
    finally:
        os.chmod(home, 0o700)
    assert "cannot be written" in folders["found"]
    assert "cannot take a lock" in locks["found"]
    assert all("holdfast init --agent codex" in check["hint"] for check in (folders, locks))
    assert all("holdfast mcp" in check["hint"] for check in (folders, locks))
    assert only(place, "locks")["status"] == only(place, "folders")["status"] == "good"


def test_notes_are_told_as_a_compaction_would_read_them(place):
    assert checks(place, "notes") == []
    place.write("CLAUDE.local.md", "Workflow: Texts\n")
    assert "Phase:" in only(place, "notes")["hint"]
    place.write("CLAUDE.local.md", "# Workflow state\nWorkflow: Texts\nPhase: 2/3 - Draft\n")
    assert only(place, "notes")["found"] == "CLAUDE.local.md describes Texts, phase 2/3"
    assert not place.has(".claude")


def test_what_a_session_went_through_is_told(place):
    place.ok("start", "custom", "Mine", "--read", "@README.md")
    assert "@README.md" in only(place, "reading")["found"]
    assert only(place, "last compaction")["status"] == "unknown"
    for event in ("PreCompact", "SessionStart"):
        told = json.dumps({"hook_event_name": event, "cwd": place.path}).encode()
        place.run("hook", input=told, stdin=None)
    assert "mine (trigger auto)" in only(place, "last compaction")["found"]
    assert "source startup" in only(place, "last briefing")["found"]
    assert checks(place, "last fault") == []
    place.write(".git/holdfast/hook.log", "an older one\nthe last one\n")
    assert only(place, "last fault")["found"] == "the last one"


def test_one_event_is_not_several(place):
    place.ok("interview", "skip", "plan", "--reason", "clear")
    assert only(place, "ledger")["found"] == "1 event, all sound"
    place.ok("interview", "skip", "plan", "--reason", "clear again")
    assert only(place, "ledger")["found"] == "2 events, all sound"


def test_the_server_of_the_project_is_asked(place):
    assert checks(place, "server") == []
    place.ok("init")
    assert only(place, "server")["status"] == "good"
    bare = {**place.environment, "PATH": place.environment["PATH"].partition(":")[2]}
    assert "checkout: pipx install ." in only(place, "server", env=bare)["hint"]
    place.write(".mcp.json", '{"mcpServers": {"other": {"command": "x"}}}')
    assert checks(place, "server") == []
    place.write(".mcp.json", "{nonsense")
    assert only(place, "server")["hint"] == "edit .mcp.json"


# What the ledger lies on, and who may write it


CODEX = ".codex/config.toml"


def allow(tmp_path, text):
    (tmp_path / "home" / ".codex").mkdir(exist_ok=True)
    (tmp_path / "home" / CODEX).write_text(text)


@pytest.fixture
def place(repo, tmp_path):
    """A repository of somebody who has no clients, and Holdfast on the path."""
    program = tmp_path / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    program.chmod(0o755)
    git = os.path.dirname(shutil.which("git"))
    repo.environment["PATH"] = f"{program.parent}:{git}:/bin"
    return repo


def ledger_of(place):
    return os.path.realpath(os.path.join(place.path, ".git", "holdfast"))


def test_nothing_is_said_of_a_sandbox_where_nobody_has_codex(place):
    assert checks(place, "sandbox") == []


def test_a_sandbox_that_keeps_the_ledger_read_only_is_said_with_both_ways_out(place, tmp_path):
    place.ok("init", "--agent", "codex")
    assert only(place, "sandbox")["status"] == "good"
    (tmp_path / "home" / CODEX).unlink()
    check = only(place, "sandbox")
    assert (check["status"], ledger_of(place) in check["found"]) == ("bad", True)
    assert "holdfast init --agent codex" in check["hint"]
    assert "holdfast mcp" in check["hint"]


def test_who_has_codex_and_does_not_use_it_here_is_told_and_not_alarmed(place, tmp_path):
    allow(tmp_path, "")
    assert only(place, "sandbox")["status"] == "unknown"


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ('sandbox_mode = "danger-full-access"\n', "good", "can write"),
        ('sandbox_mode = "read-only"\n', "bad", "sandbox_mode is read-only"),
        ('default_permissions = ":workspace"\n', "bad", "profile :workspace"),
        ("[sandbox_workspace_write]\nwritable_roots = [3]\n", "bad", "not among"),
        ("no toml", "bad", "is not TOML"),
    ],
)
def test_what_codex_is_told_in_other_ways_counts(place, tmp_path, text, status, said):
    place.ok("init", "--agent", "codex")
    allow(tmp_path, text)
    check = only(place, "sandbox")
    assert (check["status"], said in check["found"]) == (status, True), check


def test_a_list_of_the_projects_own_counts_instead(place):
    place.ok("init", "--agent", "codex")
    place.write(CODEX, "[sandbox_workspace_write]\nwritable_roots = []\n")
    assert "replaces your own list" in only(place, "sandbox")["found"]


def test_a_folder_that_is_gone_and_keeps_codex_from_starting_is_named(place, tmp_path):
    place.ok("init", "--agent", "codex")
    shutil.rmtree(ledger_of(place))
    _, gone = checks(place, "sandbox")
    assert (gone["status"], gone["hint"]) == ("bad", "holdfast init --agent codex")
    place.ok("init", "--agent", "codex")
    text = (tmp_path / "home" / CODEX).read_text()
    allow(tmp_path, text.replace("= [", '= ["/gone", '))
    _, gone = checks(place, "sandbox")
    assert (gone["status"], gone["found"].startswith("/gone ")) == ("unknown", True)


def test_the_old_journal_is_said(place):
    place.ok("start", "custom", "Mine")
    assert checks(place, "journal") == []
    with sqlite3.connect(os.path.join(ledger_of(place), "ledger.db")) as other:
        other.execute("PRAGMA journal_mode = delete")
    other.close()
    check = only(place, "journal")
    assert (check["status"], "(delete)" in check["found"]) == ("unknown", True)
    place.ok("remind", "x")
    assert only(place, "ledger")["status"] == "good"


def test_a_network_disk_is_said_and_no_ledger_is_made_there(place, monkeypatch):
    place.ok("init", "--agent", "codex")
    assert os.path.isdir(ledger_of(place))
    monkeypatch.setenv("HOME", place.environment["HOME"])
    monkeypatch.setattr(database, "file_system", lambda _folder: "nfs4")
    keeper = Keeper(place.path)
    with pytest.raises(Fault, match="network file system"):
        keeper.start("custom", "Mine")
    said = [check for check in examine(keeper) if check["what"] == "ledger"]
    assert [check["status"] for check in said] == ["bad", "good"]
    assert "(nfs4)" in said[0]["found"]


@pytest.mark.parametrize(
    ("limit", "statuses", "words"),
    [
        (None, [], ""),
        (editors.no_exchange, ["unknown"], "cannot exchange files"),
        (editors.no_leases, ["unknown"], "does not tell that a file is being written"),
        (editors.nothing, ["bad", "unknown"], "can be lost"),
    ],
)
def test_doctor_reports_a_file_system_on_which_an_edit_can_be_lost(
    tmp_path, monkeypatch, limit, statuses, words
):
    if limit is not None:
        limit(monkeypatch)
    found = [check for check in examine(Keeper(tmp_path)) if check["what"] == "saves"]
    assert [check["status"] for check in found] == statuses
    assert words in "".join(check["found"] for check in found)
    assert all(check["hint"] for check in found if check["status"] == "bad")
    assert [name for name in os.listdir(tmp_path) if name.startswith(".holdfast-")] == []
